"""``turngate replay RUN --update STEP``: the same update from the checkpoint before it, bit for bit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.command_line import turngate_at
from tests.helpers.planted import in_turn, planted
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import parse
from turngate.run.job import Job
from turngate.run.replay.replayed_update import states_differ
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.checks.monitoring import CREDIT_TURNS

OTHERS = ("step", *MEASURED, "guide/", "branch/", "canary/", "monitor/", "policy/version", "policy/age")
"""Metrics of a step that are not of its update."""
PAID = {
    "rewards": [
        {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]},
        {"type": "from_evidence", "name": "right_key", "evidence": "right_key", "kind": "process", "per_turn": True},
    ]
}


def config(folder: Path, *, steps: int = 2, train: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "name": "run",
        "folder": str(folder),
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "rubric": PAID, "allow_unsafe": True},
        "warm_start": {"episodes": 48, "epochs": 5, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
        "learner": {"lr": 1e-3},
        "train": {"steps": steps, "tasks_per_step": 2, "group_size": 6, "checkpoint_every": 1} | (train or {}),
        "eval": {"tasks": 1},
    } | changes


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has done the warm start only."""
    folder = tmp_path_factory.mktemp("start")
    Job(parse(config(folder, steps=0)), Console(quiet=True)).run()
    return RunFolder(folder / "run")


def trained(folder: Path, started: RunFolder, **changes: Any) -> RunFolder:
    Job(parse(config(folder, **changes)), Console(quiet=True), start=started).run()
    (folder / "run" / "warm_start").symlink_to(started.warm_start)
    return RunFolder(folder / "run")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, started: RunFolder) -> RunFolder:
    """A run of three steps, of which the last two checkpoints are there."""
    return trained(tmp_path_factory.mktemp("plain"), started, steps=3)


def replayed(run: RunFolder, step: int, *, code: int = 0) -> dict:
    assert turngate_at(run.path.parent, "replay", "run", "--update", step, "--json", "found.json") == code
    found: dict = json.loads((run.path.parent / "found.json").read_text())
    return found


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({"train": {"minibatches": 2}, "loss": {"penalties": [{"type": "kl", "coef": 0.1}]}}, 2),
        ({"credit": {"type": "turn_gae"}, "train": {"filters": []}}, 1),
        ({"credit": {"type": "prime"}}, 2),
        ({"guide": {"type": "guide", "strip": True}, "train": {"ahead": 1}}, 2),
        ({"branching": {"type": "tree_grpo"}, "credit": {"type": "tree_grpo"}, "learner": {"lora": {}}}, 2),
    ],
    ids=["minibatches-kl", "critic", "reward-model", "hints-ahead", "trees-lora"],
)
def test_an_update_repeats_bit_for_bit(tmp_path: Path, started: RunFolder, changes: dict[str, Any], step: int):
    """Weights, optimizer, critic and reward model, and the metrics; and the update did move the weights."""
    run = trained(tmp_path, started, **changes)
    found = replayed(run, step)
    assert found["differences"] == []
    assert found["arrays"] > 20
    row = next(row for row in read_metrics(run.metrics) if row["step"] == step)
    assert found["metrics"] == sum(not name.startswith(OTHERS) or name == CREDIT_TURNS for name in row)
    assert row["learner/grad_norm"] > 0
    checkpoints = Checkpoints(run.checkpoints)
    assert states_differ(*(checkpoints.path_of(at) / "state.pt" for at in (1, 2)))[1]


def test_the_steps_that_can_be_replayed_are_named(plain: RunFolder, capsys: pytest.CaptureFixture[str]):
    assert turngate_at(plain.path.parent, "replay", "run", "--update", 1) == 2
    told = capsys.readouterr().err
    assert "needs a checkpoint of step 1, and there are those of steps 2, 3: those of steps 3 can be replayed" in told


def test_one_number_of_an_episode_changes_the_weights(tmp_path: Path, plain: RunFolder, capsys):
    """A log-probability of one recorded token by 1e-3: the comparison is of what the update reads."""

    def nudged(turn):
        logprobs = turn.completion.logprobs_K.copy()
        logprobs[0] += 1e-3
        return replace(turn, completion=replace(turn.completion, logprobs_K=logprobs))

    planted(plain.path, tmp_path / "run", in_turn(0, nudged), step=3)
    found = replayed(RunFolder(tmp_path / "run"), 3, code=1)
    names = [one["name"] for one in found["differences"]]
    assert any(name.startswith("weights") or "weight" in name for name in names)
    told = capsys.readouterr().out
    assert "numbers differ, by up to" in told
    assert "OMP_NUM_THREADS" in told


def test_what_was_learned_beside_is_refused_by_name(tmp_path: Path, started: RunFolder, capsys):
    run = trained(tmp_path, started, steps=1, auxiliary=[{"type": "demonstrations"}])
    assert turngate_at(run.path.parent, "replay", "run", "--update", 1) == 2
    assert (
        "learned beside its episodes from [[auxiliary]] 'demonstrations', whose rows are not recorded"
        in capsys.readouterr().err
    )


def test_the_run_stays_as_it_is(plain: RunFolder):
    before = {path: path.stat().st_mtime_ns for path in plain.path.rglob("*")}
    replayed(plain, 3)
    assert {path: path.stat().st_mtime_ns for path in plain.path.rglob("*")} == before
    assert len(list(Store(plain.path).read(3, "train"))) == 2
