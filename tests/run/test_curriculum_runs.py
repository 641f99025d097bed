"""Curricula in whole runs: what they choose is learned from results, and survives a run that is killed."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.kills import Killed
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.types import ScoredGroup

LOCK = "turngate/Lock-v1"
BASE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": LOCK},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 24, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "train": {"steps": 4, "tasks_per_step": 3, "group_size": 4, "checkpoint_every": 2, "filters": []},
    "eval": {"tasks": 2},
    "sink": [],
}
EASY = {"id": LOCK, "tasks": {"type": "lock", "dials": 1}}
TWO = [{**EASY, "name": "one", "weight": 2.0}, {**EASY, "name": "two", "split": "heldout"}]
CURRICULA = [{"type": "dump", "pool": 8}, {"type": "greso", "pool": 8}, {"type": "pcl", "pool": 12}]


def run(folder: Path, **changes: Any) -> RunFolder:
    config = parse({**BASE, "folder": str(folder), **changes})
    Job(config, Console(quiet=True)).run()
    return RunFolder(folder / "lock")


def played(run: RunFolder):
    return [(group.task.id, group.trajectories) for group in Store(run.path).read(None, "train")]


def numbers(run: RunFolder):
    return [{k: v for k, v in row.items() if not k.startswith(MEASURED)} for row in read_metrics(run.metrics)]


@pytest.mark.parametrize("curriculum", CURRICULA, ids=lambda one: one["type"])
def test_a_killed_run_goes_on_with_the_curriculum_as_it_was(curriculum, tmp_path):
    changes = {"curriculum": curriculum, "env": TWO if curriculum["type"] == "dump" else EASY}
    whole = run(tmp_path / "whole", **changes)
    with pytest.raises(Killed):
        run(tmp_path / "killed", **changes, sink=["tests.helpers.kills:KillSink"])
    again = run(tmp_path / "killed", **changes)
    assert played(again) == played(whole)
    assert numbers(again) == numbers(whole)
    assert (again.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    rows = read_metrics(whole.metrics)
    assert [row["curriculum/seen_share"] for row in rows] == sorted(row["curriculum/seen_share"] for row in rows)
    assert {"curriculum/pass_rate", "curriculum/expected_groups"} <= rows[0].keys()
    assert len(list(whole.checkpoints.glob("*/curriculum.pt"))) == 2


@pytest.mark.parametrize("curriculum", [{"type": "order"}, {"type": "band", "pool": 12}], ids=lambda one: one["type"])
def test_a_step_is_refilled_and_a_killed_run_goes_on_behind_what_it_played(curriculum, tmp_path):
    """The filter keeps tasks with an even number, so that about every second one is replaced."""
    train = {**BASE["train"], "filters": [f"{__name__}:even"], "refill": {"batches": 4}}
    changes = {"curriculum": curriculum, "env": EASY, "train": train}
    whole = run(tmp_path / "whole", **changes)
    with pytest.raises(Killed):
        run(tmp_path / "killed", **changes, sink=["tests.helpers.kills:KillSink"])
    again = run(tmp_path / "killed", **changes)
    assert played(again) == played(whole)
    assert numbers(again) == numbers(whole)
    rows = read_metrics(whole.metrics)
    assert max(row["refill/batches"] for row in rows) > 1
    tasks = [task for task, _ in played(whole)]
    if curriculum["type"] == "order":
        assert tasks == [f"lock-1/train/{index}" for index in range(24, 24 + len(tasks))]
    for row in rows:
        dropped = sum(v for name, v in row.items() if name.startswith("drop/") and name.endswith("_groups"))
        assert row["refill/tasks"] - dropped == 3 - row["refill/missing_tasks"]


def test_a_run_with_a_guide_teaches_its_curriculum_by_unaided_episodes_alone(tmp_path):
    """The state in the checkpoint is what counting the stored episodes without help gives, whoever replaced them."""
    curriculum = {"type": "learnability", "pool": 8, "half_life": 1e9}
    train = {**BASE["train"], "steps": 2}
    done = run(tmp_path, env=EASY, curriculum=curriculum, guide={"type": "ladder", "exempt_steps": 0}, train=train)
    won, lost, aided = [0] * 8, [0] * 8, 0
    for phase in ("train", "unused"):
        for group in Store(done.path).read(None, phase):
            place = int(group.task.id.rpartition("/")[2]) - 24
            for trajectory, score in zip(group.trajectories, group.scores, strict=True):
                if trajectory.guidance is not None:
                    aided += 1
                elif score.outcome == 1:
                    won[place] += 1
                else:
                    lost[place] += 1
    state = json.loads((done.checkpoints / "step=000002" / "curriculum.pt").read_text())
    assert aided > 0
    assert state["won"] == pytest.approx(won)
    assert state["lost"] == pytest.approx(lost)
    assert sum(won) + sum(lost) == 2 * 3 * 4


def even(group: ScoredGroup) -> bool:
    """Whether the number of the task is even."""
    return int(group.task.id.rpartition("/")[2]) % 2 == 0


def test_tasks_in_their_order_need_no_state(tmp_path):
    done = run(tmp_path, train={**BASE["train"], "steps": 2})
    assert [task for task, _ in played(done)] == [f"lock/train/{index}" for index in range(24, 30)]
    assert not list(done.checkpoints.glob("*/curriculum.pt"))


def test_a_pool_begins_after_the_tasks_of_the_warm_start_and_environments_keep_their_weights(tmp_path):
    config = parse({**BASE, "folder": str(tmp_path), "env": TWO, "curriculum": {"type": "band", "pool": 4}})
    curriculum = Job(config, Console(quiet=True))._curriculum
    assert [task.env_id for task in curriculum.pick(1)] == ["one", "one", "two"]
    ids = {task.id for task in [*curriculum.pick(2), *curriculum.more(99)]}
    assert ids == {f"one:lock-1/train/{index}" for index in range(16, 20)} | {
        f"two:lock-1/heldout/{index}" for index in range(8, 12)
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"curriculum": "band"}, r"curriculum\.pool: the tasks of 'turngate/Lock-v1' never end; say how many"),
        ({"curriculum": {"type": "band", "pool": 3}}, "has 3 tasks to choose from, and a step plays up to 3 of them"),
        ({"curriculum": {"type": "dump", "pool": 8}}, "'dump' has one source of tasks"),
        ({"curriculum": {"type": "dump", "pool": 8, "by": "dials"}}, r"'dials' of task 'lock/train/24' is \("),
        (
            {"curriculum": {"type": "greso", "pool": 8}, "env": {"id": LOCK, "together": 3}},
            r"env\.together = 3 has no effect with a curriculum that picks single tasks",
        ),
        ({"curriculum": {"type": "band", "low": 0.8, "high": 0.2}}, r"low 0\.8 is not below high 0\.2"),
        ({"curriculum": {"type": "band", "low": 0, "high": 1}}, "have no effect: every pass rate lies in the band"),
        ({"train": {"filters": [], "refill": {}}}, r"train: refill has no effect without filters"),
        ({"train": {"filters": ["top_std"], "refill": {}}}, "refill does not go with the filter 'top_std'"),
        ({"train": {"refill": {}}, "env": {"id": LOCK, "together": 2}}, r"train\.refill needs env\.together = 1"),
        ({"curriculum": "greedy"}, "curriculum: unknown curriculum type 'greedy'; did you mean"),
        ({"curriculum": {"type": "order", "pool": 3}}, r"unknown key 'curriculum\.pool'"),
    ],
)
def test_a_curriculum_that_does_not_fit_is_refused_before_any_work(changes, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        run(tmp_path, **changes)
    assert not (tmp_path / "lock").exists()


def test_a_pool_larger_than_every_split_is_refused(tmp_path):
    env = {"id": LOCK, "tasks": {"type": f"{__name__}:few"}}
    with pytest.raises(ConfigError, match=r"curriculum\.pool = 9 has no effect: no split has more than 5 tasks"):
        run(tmp_path, env=env, curriculum={"type": "pcl", "pool": 9})


def few():
    """A finite list of locks."""
    from turngate.envs.lock import LockTasks

    locks = LockTasks()
    return [locks.task(split, index) for split in ("train", "heldout") for index in range(5)]


def test_a_control_chooses_tasks_by_its_own_true_results(tmp_path):
    """Its rewards are false for credit alone: the curriculum's pass rates are those of the stored, true scores."""
    train = {**BASE["train"], "steps": 2}
    whole = run(tmp_path, curriculum={"type": "pcl", "pool": 12}, train=train, controls=["shuffled_reward"], env=EASY)
    control = whole.control("shuffled_reward")
    rows = list(read_metrics(control.metrics))
    assert len(rows) == 2
    assert all(any(name.startswith("curriculum/") for name in row) for row in rows)
    assert [one.id for _, some in played(control) for one in some] == [
        one.id for _, some in played(whole) for one in some
    ]
