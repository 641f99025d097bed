"""Two processes learn what one learns: gradients, updates, measurements, files; and an error in one ends both.

1. The gradient is that of the whole batch, however many passes each process makes, also where one has none; so is that
   of a critic.
2. Each process has and saves its own part, and any number of them goes on from what any number saved.
3. A process that fails says why in the first one, and none is left waiting.
"""

import json
import os
import re
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.distributed.fsdp import FSDPModule

from tests.helpers import models
from tests.trainer.torch import team_cases
from tests.trainer.torch.test_packing import batch_of
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.learner import Critic, FsdpLearnerPart, TorchLearnerPart
from turngate.trainer.torch import fsdp_functions
from turngate.trainer.torch.batch_shares import join_columns, shares_of
from turngate.trainer.torch.learner import TorchLearner

LIMIT_S = 600

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def in_two_processes(forked, how, path):
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return forked.torchrun(team_cases.__file__, how, path, cwd=path.parent, env=environ, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def results(tmp_path_factory, forked):
    path = tmp_path_factory.mktemp("fsdp") / "results.json"
    done = in_two_processes(forked, "compare", path)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", team_cases.CASES)
def test_two_processes_are_as_one(name, results):
    assert results[name] == ""


def test_a_process_that_dies_while_it_saves_ends_the_others_and_the_checkpoint_before_stays(tmp_path, forked):
    done = in_two_processes(forked, "dies", tmp_path / "pids")
    assert done.returncode == 1
    told = (
        "RunError: rank 0 of 2 lost the others: one of them has ended",
        "stopped by SIGTERM",
    )  # by torchrun, if sooner
    assert any(line in done.stderr for line in told), done.stderr
    assert "Signal 9 (SIGKILL)" in done.stderr
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert (tmp_path / "checkpoints/writing-2/state/__1_0.distcp").read_bytes() == b"begun"
    assert checkpoints.set_damaged_aside() == {}
    assert checkpoints.last() == 1
    again = models.learner(models.model(1))
    checkpoints.load(1, again)  # in one process
    assert all(torch.equal(weight, models.model().state_dict()[name]) for name, weight in again.weights().items())


def test_shares_are_whole_trajectories_and_about_equal():
    _, batch = batch_of()
    for n in (1, 2, 3, 40):
        shares = shares_of(batch, n)
        np.testing.assert_array_equal(join_columns([share.batch.ids_L for share in shares]), batch.ids_L)
        segments = [share.batch.segment_L + share.first_segment for share in shares]
        np.testing.assert_array_equal(join_columns(segments), batch.segment_L)
        assert not any(set(one) & set(other) for one, other in pairwise(segments))
        assert {share.total for share in shares} == {float(batch.policy_weight_L.sum())}
    longest = int(np.bincount(batch.segment_L).max())
    sizes = [share.batch.n_tokens for share in shares_of(batch, 3)]
    assert max(sizes) - min(sizes) <= longest


def test_without_torchrun_a_run_is_refused_and_a_look_into_it_needs_one_process(monkeypatch):
    part = FsdpLearnerPart()
    with pytest.raises(ConfigError, match="start them with torchrun --nproc-per-node"), part.started():
        pass
    assert isinstance(part.open(models.model()), TorchLearner)
    part.open(models.model(), critic=Critic()).values(batch_of()[1], np.zeros(batch_of()[1].n_tokens, bool))
    assert parse({"warm_start": {"episodes": 4}, "credit": "turn_gae", "learner": {"type": "fsdp"}}).value is not None
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "RANK": 1, "WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    with (
        pytest.raises(ConfigError, match="torchrun started 2 processes, and learner"),
        TorchLearnerPart().started(),
    ):
        pass
    with pytest.raises(ConfigError, match="--jobs 2 does not go with"), part.started(jobs=2):
        pass


def test_a_torch_that_lacks_a_function_is_told_with_the_one_that_has_it(monkeypatch):
    fsdp_functions.check()
    monkeypatch.delattr(FSDPModule, "set_force_sum_reduction_for_comms")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    said = (
        f"FSDPModule.set_force_sum_reduction_for_comms, which torch {torch.__version__} does not have; install torch>=2"
    )
    with pytest.raises(ConfigError, match=re.escape(said)), FsdpLearnerPart().started():
        pass
