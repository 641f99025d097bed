"""Memory that runs out is told as that: it is never taken for something that cannot work, or for a damaged file."""

import logging

import numpy as np
import pytest
import torch
import transformers
from torch.nn.attention import flex_attention as torch_flex

from tests.helpers import architectures, models
from tests.helpers.tapes import Tapes
from tests.trainer.torch import test_packing as packs
from turngate.agents import tiny
from turngate.agents.policies.cuda_graphs import CapturedForward
from turngate.agents.policies.forward import Feed
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import OutOfMemory
from turngate.run.assembly.models import save_model
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.torch import packing, tree_flex
from turngate.trainer.torch.tree_attention import BlockLayout

CPU = torch.device("cpu")
GPU_IS_FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def full(*arguments, **more):
    raise GPU_IS_FULL


def allocating():
    torch.empty(2**60)


def quoted():
    try:
        full()
    except RuntimeError as error:
        raise ValueError("the back end failed") from error


@pytest.mark.parametrize(
    ("work", "found"),
    [
        (allocating, True),
        (full, True),
        (quoted, True),
        (lambda: (_ for _ in ()).throw(MemoryError()), True),
        (lambda: (_ for _ in ()).throw(RuntimeError("CUDA error: out of memory")), True),
        (lambda: (_ for _ in ()).throw(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")), True),
        (lambda: (_ for _ in ()).throw(RuntimeError("out of resource: shared memory, Required: 200000")), False),
        (lambda: (_ for _ in ()).throw(RuntimeError("CUDA error: an illegal memory access")), False),
        (lambda: (_ for _ in ()).throw(ValueError("a task about a shop that is out of memory sticks")), False),
    ],
)
def test_what_allocators_say_is_known(work, found):
    with pytest.raises(Exception) as caught:
        work()
    assert is_out_of_memory(caught.value) is found


def test_a_capture_is_tried_again(caplog):
    model = architectures.model("qwen3")
    cache = SlotCache(model.config, 2, device=CPU, dtype=torch.float32)
    forward = CapturedForward(model, cache, lambda device: full)
    with torch.inference_mode():
        forward([Feed(0, 0, np.array([5, 6, 7], np.int32))])
        with pytest.raises(torch.OutOfMemoryError):
            forward([Feed(0, 3, np.array([8], np.int32))])
        assert (forward.problem, forward.buckets) == ("", ())
        forward._recorder = Tapes()(CPU)
        forward([Feed(0, 3, np.array([8], np.int32))])
    assert (forward.problem, len(forward.buckets)) == ("", 1)
    assert not caplog.records


def test_a_sampler_without_memory_ends_the_run(monkeypatch):
    policy = models.local(concurrency=4)
    monkeypatch.setattr(policy, "_forward", full)
    with pytest.raises(OutOfMemory, match=r"sampler .* with 4 episodes at once; lower policy\.concurrency, which is 4"):
        models.play(policy, n_tasks=6, siblings=2)
    assert policy._rows == [] == policy._waiting


@pytest.mark.parametrize("kernel", ["flex", "blocks"])
def test_a_way_of_attention_along_trees_is_tried_again(kernel, monkeypatch, caplog):
    monkeypatch.setattr(packing, "kernels_on", lambda device: ["flex", "blocks"][["flex", "blocks"].index(kernel) :])
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *tensors: None)
    taught, (_, batch) = models.learner(packing="auto"), packs.batch_of()
    place, name = (tree_flex, "flex_attention") if kernel == "flex" else (BlockLayout, "attend")
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patched:
        patched.setattr(place, name, full)
        with pytest.raises(OutOfMemory, match=r"lower learner\.tokens_per_pass"):
            taught.forward_backward(batch, packs.LOSS)
    taught.forward_backward(batch, packs.LOSS)
    settled = taught._passes._packer.settle(batch)
    assert (settled.packing, settled.kernel) == ("auto", kernel)
    assert not [record for record in caplog.records if record.name.startswith("turngate")]


def test_a_model_that_is_too_large_is_not_called_damaged(tmp_path, monkeypatch):
    tiny.save(models.plain_model(), models.tokenizer(), tmp_path / "model")
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(OutOfMemory, match=r"memory ran out while the model '.*' was loaded; name a smaller one"):
        tiny.load(str(tmp_path / "model"))


class Full:
    """A learner that has no room for its state, or for a copy of it."""

    def __init__(self, *, saves):
        self._saves = saves

    def save(self, path):
        path.write_bytes(b"state") if self._saves else full()

    load = full


@pytest.mark.parametrize(("saves", "left"), [(True, [1]), (False, [])])
def test_a_checkpoint_that_does_not_fit_is_not_called_damaged(saves, left, tmp_path):
    checkpoints, learner = Checkpoints(tmp_path), Full(saves=saves)

    def go():
        checkpoints.save(1, learner)
        checkpoints.load(1, learner)

    with pytest.raises(OutOfMemory, match="memory ran out while '.*' was " + ("read" if saves else "written")):
        go()
    assert checkpoints.steps() == left


def test_a_model_folder_that_could_not_be_made_for_want_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "save", full)
    with pytest.raises(OutOfMemory, match=r"memory ran out while '.*model' was written"):
        save_model(models.plain_model(), models.tokenizer(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
