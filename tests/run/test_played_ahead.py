"""Rollouts one step ahead of the learner, from the config on.

1. The same seed gives the same run, bit for bit, however the two halves of a step interleave.
2. Step 1 is on-policy; every later step was sampled by weights one update old, as episodes and metrics record.
3. A run that was killed goes on bit for bit, with what was played ahead (tests/run/test_killed.py kills by SIGKILL).
4. What would ask the learner's weights while they change is refused by name.
"""

import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.kills import Killed
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import dump, parse
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.run.side_runs import side_runs
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer import ahead

BASE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1", "tasks": {"type": "lock", "dials": 2}},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 24, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "learner": {"lr": 1e-3},
    "credit": "tests.helpers.thinking_lock:alternating",
    "train": {"steps": 4, "tasks_per_step": 3, "group_size": 4, "checkpoint_every": 2, "filters": [], "ahead": 1},
    "eval": {"tasks": 2},
    "sink": [],
}
HELPED = {
    "guide": {"type": "ladder", "exempt_steps": 0},
    "auxiliary": [{"type": "relift", "at_least": 2}],
    "curriculum": {"type": "greso", "pool": 12},
    "train": {**BASE["train"], "filters": ["tests.run.test_curriculum_runs:even"], "refill": {"batches": 4}},
}


def run(folder: Path, **changes: Any) -> RunFolder:
    Job(parse({**BASE, "folder": str(folder), **changes}), Console(quiet=True)).run()
    return RunFolder(folder / "lock")


def train(**changes: Any) -> dict[str, Any]:
    return {"train": {**BASE["train"], **changes}}


def everything(done: RunFolder) -> Any:
    rows = [{k: v for k, v in row.items() if not k.startswith(MEASURED)} for row in read_metrics(done.metrics)]
    groups = [(group.task.id, group.trajectories) for group in Store(done.path).read(None, "train")]
    return rows, groups, (done.model / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> RunFolder:
    return run(tmp_path_factory.mktemp("whole"))


def test_the_same_seed_gives_the_same_run_whichever_half_of_a_step_is_slower(whole, tmp_path, monkeypatch):
    real, threads = ahead.update, []

    def slow(*arguments):
        threads.append(1)
        time.sleep(0.5)  # the next step is played to its end meanwhile
        return real(*arguments)

    monkeypatch.setattr(ahead, "update", slow)
    assert everything(run(tmp_path)) == everything(whole)
    assert len(threads) == 4


def test_episodes_are_at_most_one_update_old_and_say_so(whole):
    rows = read_metrics(whole.metrics)
    assert [row["policy/age"] for row in rows] == [0, 1, 1, 1]
    assert [row["policy/version"] for row in rows] == [1, 2, 3, 4]
    versions = {
        step: {
            turn.completion.policy_version
            for group in Store(whole.path).read(step, "train")
            for trajectory in group.trajectories
            for turn in trajectory.turns
        }
        for step in (1, 2, 3, 4)
    }
    assert versions == {1: {0}, 2: {0}, 3: {1}, 4: {2}}
    assert rows[0]["offpolicy/kl_nats"] == pytest.approx(0, abs=1e-9)
    assert min(row["offpolicy/kl_nats"] for row in rows[1:]) > 1e-7  # the correction has something to correct
    assert all(row["canary/max_logprob_difference"] < 1e-4 for row in rows)


def test_nothing_but_the_age_of_the_weights_is_different(whole, tmp_path):
    """Step 1, and the tasks of all steps, are those of a run that plays in turn; step 3 has other weights."""
    loss = {"decoupled": True, "correction": ["tis"]}
    _, in_turn, weights = everything(run(tmp_path, **train(ahead=0), loss=loss))
    _, groups, others = everything(whole)
    assert [task for task, _ in groups] == [task for task, _ in in_turn]
    assert groups[:3] == in_turn[:3]
    assert groups[6:] != in_turn[6:]
    assert weights != others
    assert not any("policy/age" in row for row in read_metrics(tmp_path / "lock" / "metrics.jsonl"))


def test_a_killed_run_goes_on_with_what_was_played_ahead(whole, tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, sink=["tests.helpers.kills:KillSink"])
    assert Store(tmp_path / "lock").steps() == [1, 2, 3]
    assert everything(run(tmp_path)) == everything(whole)


def test_guide_aside_curriculum_and_refill_go_on_too(tmp_path):
    whole = run(tmp_path / "whole", **HELPED)
    with pytest.raises(Killed):
        run(tmp_path / "killed", **HELPED, sink=["tests.helpers.kills:KillSink"])
    assert everything(run(tmp_path / "killed", **HELPED)) == everything(whole)
    rows = read_metrics(whole.metrics)
    assert max(row["refill/batches"] for row in rows) > 1
    assert max(row["auxiliary/relift_rows"] for row in rows) > 0
    assert max(row["guide/guided_share"] for row in rows) > 0
    assert max(row["policy/age"] for row in rows) == 1


def test_side_runs_have_it_where_it_has_an_effect(tmp_path):
    """Other processes read the settings of baselines and controls from text."""
    warm_start = {**BASE["warm_start"], "epochs": 2}
    changes = {"baselines": {"demonstrations": [48]}, "controls": ["shuffled_credit"], "warm_start": warm_start}
    config = parse({**BASE, **changes, "credit": "grpo"})
    read = [parse(tomllib.loads(dump(one.config))) for one in side_runs(config, RunFolder(tmp_path))]
    assert [one.train.ahead for one in read] == [0, 1]


@pytest.mark.parametrize(
    ("loss", "decoupled", "corrections"),
    [
        ({}, True, ["tis"]),
        ({"objective": "reinforce"}, False, ["tis"]),
        ({"decoupled": False}, False, []),  # the ratio of the objective is that to the sampler
        ({"correction": []}, False, []),
        ({"decoupled": True, "correction": ["geometric"]}, True, ["geometric"]),
    ],
)
def test_older_weights_are_corrected_for_unless_the_config_says_otherwise(loss, decoupled, corrections):
    config = parse({**BASE, "loss": loss})
    assert config.loss.decoupled is decoupled
    assert [one.type for one in config.loss.correction] == corrections
    shown = dump(config)
    assert "correction" in shown
    assert not parse({**BASE, "loss": loss, **train(ahead=0)}).loss.correction or "correction" in loss


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (train(ahead=2), r"train\.ahead"),
        (train(steps=1), r"train\.ahead has no effect with train\.steps = 1: no step follows"),
        ({"learner": "frozen", "credit": "grpo"}, r'train\.ahead has no effect: learner\.type = "frozen"'),
        (
            {"examine": [{"type": "likelihood", "answer": "{colours}"}]},
            r"examiner 'likelihood' does not go with train\.ahead: it measures under the learner's weights",
        ),
        (
            {"examine": [{"type": "probe", "answer": "{colours}", "accuracy": "probability"}]},
            r"examiner 'probe' does not go with train\.ahead",
        ),
        ({"credit": "igpo"}, r"reads gain_N does not go with train\.ahead .*; set signals\.answer"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(changes, said):
    with pytest.raises(ConfigError, match=said):
        parse({**BASE, **changes})
