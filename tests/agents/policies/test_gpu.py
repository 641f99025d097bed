"""What is set where a model is on a GPU, and how a run repeats there; tried without one, on a device in name only."""

import pytest
import torch

from tests.helpers import models
from turngate.agents.policies import forward
from turngate.agents.policies.gpu import suit
from turngate.run.assembly.models import be_deterministic
from turngate.trainer.torch import passes


@pytest.fixture(autouse=True)
def as_it_was():
    cudnn, mode = torch.backends.cuda.cudnn_sdp_enabled(), torch.get_deterministic_debug_mode()
    yield
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    torch.set_deterministic_debug_mode(mode)


@pytest.mark.parametrize(("device", "stays"), [("cpu", True), ("cuda", False)])
def test_cudnns_attention_is_left_out_on_a_gpu(device, stays):
    torch.backends.cuda.enable_cudnn_sdp(True)
    suit(torch.device(device))
    assert torch.backends.cuda.cudnn_sdp_enabled() is stays


@pytest.mark.parametrize(("module", "make"), [(forward, models.local), (passes, models.learner)])
def test_every_sampler_and_every_learner_is_suited_to_its_device(module, make, monkeypatch):
    suited = []
    monkeypatch.setattr(module, "suit", suited.append)
    make()
    assert suited == [torch.device("cpu")]


@pytest.mark.parametrize(("gpu", "mode"), [(False, 2), (True, 0)])
def test_a_run_asks_for_deterministic_algorithms_where_there_is_no_gpu(gpu, mode, monkeypatch):
    torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    be_deterministic()
    assert torch.get_deterministic_debug_mode() == mode
