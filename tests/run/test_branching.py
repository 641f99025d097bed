"""Branched rollouts in whole runs of the toy, from a config to stored episodes.

1. All eight tree rules train on real branches, every way to branch grows them, and the books balance: leaves = budget.
2. A run with branches that is resumed goes on bit for bit.
3. What cannot work is refused before any work: rules without branches, environments without forks.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import parse
from turngate.envs.lock import LockEnv
from turngate.errors import ConfigError
from turngate.report.show import show
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

PAID = {
    "rewards": [
        {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]},
        {"type": "from_evidence", "name": "right_key", "evidence": "right_key", "kind": "process", "per_turn": True},
    ]
}
SIZE = 6


def config(folder: Path, name: str, *, steps: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "folder": str(folder),
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "rubric": PAID, "allow_unsafe": True},
        "warm_start": {"episodes": 48, "epochs": 5, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 8, "context": 400, "concurrency": 8},
        "train": {"steps": steps, "tasks_per_step": 2, "group_size": SIZE},
        "eval": {"tasks": 1},
    } | changes


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has done the warm start only."""
    folder = tmp_path_factory.mktemp("runs")
    Job(parse(config(folder, "start", steps=0)), Console(quiet=True)).run()
    return folder


def trained(folder: Path, name: str, **changes: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Metrics and groups of a run."""
    job = Job(parse(config(folder, name, **changes)), Console(quiet=True), start=RunFolder(folder / "start"))
    job.run()
    return list(read_metrics(RunFolder(folder / name).metrics)), list(Store(folder / name).read(1, "train"))


def check(rows: list[dict[str, Any]], groups: list[Any], *, shares: bool = True) -> None:
    assert [len(group.trajectories) for group in groups] == [SIZE, SIZE]
    branched = [one for group in groups for one in group.trajectories if one.parent]
    assert rows[0]["branch/branches"] == len(branched) > 0
    saved = sum(one.parent[1] for one in branched)
    assert rows[0]["branch/saved_turns"] == rows[0]["branch/saved_env_steps"] == saved
    assert (saved > 0) == shares
    assert rows[0]["learner/grad_norm"] > 0
    assert np.isfinite(list(rows[0].values())).all()


TREE_RULES: list[dict[str, Any]] = [
    {"type": "tempo", "merge": "recorded"},
    {"type": "tempo"},
    {"type": "tree_grpo"},
    {"type": "tree_rl"},
    {"type": "tree_rpo"},
    {"type": "portool"},
    {"type": "arpo", "mode": "hard"},
    {"type": "arpo"},
    {"type": "r3l"},
    {"type": "step_grpo"},
    {"type": "lambda_grpo"},
]


@pytest.mark.parametrize("rule", TREE_RULES, ids=lambda rule: "-".join(rule.values()))
def test_a_tree_rule_trains_on_real_branches(rule: dict[str, Any], started: Path):
    name = "rule-" + "-".join(rule.values())
    check(*trained(started, name, branching={"type": "tree_grpo", "trees": 2}, credit=rule))


BRANCHINGS: list[dict[str, Any]] = [
    {"type": "arpo", "chains": 2},
    {"type": "tree_grpo", "rounds": 2},
    {"type": "tree_rpo"},
    {"type": "portool"},
    {"type": "eptree", "rounds": 2},
    {"type": "cure"},
    {"type": "mc_values"},
    {"type": "prover"},
    {"type": "rise"},
]
RULE_OF = {"mc_values": {"type": "turn_gae"}, "prover": {"type": "progress", "read": "value", "prover_k": 4}}


@pytest.mark.parametrize("branching", BRANCHINGS, ids=lambda one: one["type"])
def test_every_way_to_branch_trains(branching: dict[str, Any], started: Path):
    kind = branching["type"]
    rows, groups = trained(started, kind, branching=branching, credit=RULE_OF.get(kind, {"type": "grpo"}))
    check(rows, groups, shares=kind != "rise")
    assert "value/loss" not in rows[0]  # continuations measure the values, no critic does


def test_a_resumed_run_goes_on_bit_for_bit(started: Path):
    settings = {"branching": {"type": "arpo", "chains": 2}, "credit": {"type": "tree_rpo"}}
    whole, _ = trained(started, "whole", steps=2, **settings)
    trained(started, "again", steps=2, **settings)
    run = RunFolder(started / "again")
    last = run.checkpoints / "step=000002"
    for file in sorted(last.iterdir()):
        file.unlink()
    last.rmdir()
    for file in run.model.glob("*"):  # as a run that was killed in its second step leaves it
        file.unlink()
    run.model.rmdir()
    again, _ = trained(started, "again", steps=2, **settings)
    assert [_computed(row) for row in again] == [_computed(row) for row in whole]
    one, other = ({n: p for n, p in _weights(started / name).items()} for name in ("whole", "again"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def _computed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith(MEASURED)}


def _weights(run: Path) -> dict[str, torch.Tensor]:
    (file,) = RunFolder(run).model.glob("*.safetensors")
    return load_file(file)


def test_show_says_off_which_episode_a_branch_went(started: Path):
    _, groups = trained(started, "shown", branching={"type": "tree_rpo"}, credit={"type": "tree_rpo"})
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    leaf, score = next((one, score) for one, score in pairs if one.parent and one.parent[1] == 1)
    page = io.StringIO()
    show(Console(file=page, width=200), leaf, score)
    text = page.getvalue()
    assert f"branched from {leaf.parent[0]} at turn 1" in text
    assert text.count("shared") == 1


# --- what is refused -------------------------------------------------------------------------------------------------

COMPARING: list[dict[str, Any]] = [
    {"type": name}
    for name in (
        "rloo", "grpo", "dr_grpo", "opo", "maxrl", "qae", "returns", "gigpo", "tree_grpo", "tree_rpo", "tree_rl",
        "portool", "arpo", "r3l", "tempo", "step_grpo", "lambda_grpo",
    )
]  # fmt: skip
ONE_TREE: list[dict[str, Any]] = [
    {"credit": {"type": "returns", "baseline": "none"}},
    {"credit": {"type": "turn_gae"}, "value": {}},
]


@pytest.mark.parametrize("changes", ONE_TREE, ids=lambda changes: changes["credit"]["type"])
def test_one_tree_is_enough_for_a_rule_that_compares_no_siblings(changes: dict[str, Any], tmp_path: Path):
    parse(config(tmp_path, "one", branching={"type": "tree_grpo", "trees": 1}, **changes))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"credit": "tree_rl"}, r"credit 'tree_rl' cannot be used here: it needs branches .* add \[branching\]"),
    ({"credit": "tree_rl", "branching": "rise"}, r"credit 'tree_rl' cannot be used here: it needs branches"),
    ({"branching": "arpp"}, "did you mean 'arpo'"),
    ({"branching": {"type": "arpo", "chains": 6}}, "group_size 6 cannot be shared out by chains = 6"),
    (
        {"branching": {"type": "tree_grpo", "trees": 4}},
        "2 leaves are left to branch off, which must be a multiple of 4",
    ),
    ({"branching": {"type": "cure", "chains": 4}}, "group_size 6 cannot be shared out by chains = 4"),
    ({"branching": {"type": "tree_rpo", "children": 6}}, "children = 6 has no effect beyond the first turn"),
    ({"branching": {"type": "rise", "attempts": 4}}, "attempts = 4 does not divide train.group_size 6"),
    ({"branching": {"type": "mc_values", "continuations": 5}, "credit": "turn_gae"}, "group_size of at least 7"),
    ({"branching": "mc_values"}, "credit 'grpo' reads neither value_N nor count_N"),
    ({"branching": "mc_values", "credit": "turn_gae", "value": {}}, "value_N would be measured twice"),
    *(
        (
            {"branching": {"type": kind, setting: 1}, "credit": rule},
            f"branching '{kind}' with {setting} = 1 grows one tree, and credit '{rule['type']}' compares siblings",
        )
        for kind, setting in [("tree_grpo", "trees"), ("arpo", "chains"), ("eptree", "chains"), ("cure", "chains")]
        for rule in COMPARING
    ),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_cannot_work_is_told_from_the_config(changes: dict[str, Any], said: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=said):
        parse(config(tmp_path, "refused", **changes))


def test_an_environment_without_forks_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LockEnv, "turn_spec", replace(LockEnv.turn_spec, fork="none"))
    with pytest.raises(ConfigError, match=r"\[branching\] cannot be used with 'turngate/Lock-v1'"):
        Job(parse(config(tmp_path, "none", branching={"type": "arpo", "chains": 2})), Console(quiet=True))
    assert not (tmp_path / "none").exists()


SHORT = {"id": "turngate/Sql-v1", "kwargs": {"max_turns": 1}}


@pytest.mark.parametrize("kind", ["tree_grpo", "tree_rpo", "portool", "arpo", "eptree", "cure"])
def test_episodes_of_one_turn_cannot_branch(kind: str, tmp_path: Path):
    branching = {"type": kind} | ({"chains": 2} if kind == "arpo" else {})
    wanted = parse(config(tmp_path, "short", env=SHORT, branching=branching))
    with pytest.raises(ConfigError, match=rf"branching '{kind}' cannot branch here: .* of 'turngate/Sql-v1' have at"):
        Job(wanted, Console(quiet=True))
    assert not (tmp_path / "short").exists()


@pytest.mark.parametrize(("kind", "rule"), [("rise", "grpo"), ("mc_values", "turn_gae")])
def test_what_needs_no_second_turn_takes_episodes_of_one(kind: str, rule: str, tmp_path: Path):
    Job(parse(config(tmp_path, kind, env=SHORT, branching=kind, credit=rule)), Console(quiet=True))


def test_a_step_without_branches_is_told_once(started: Path):
    """ARPO with no chance of a branch: every episode is a chain."""
    page = io.StringIO()
    job = Job(
        parse(config(started, "dull", steps=2, branching={"type": "arpo", "chains": 2, "alpha": 0.0, "weight": 0.0})),
        Console(file=page, width=400),
        start=RunFolder(started / "start"),
    )
    job.run()
    rows = list(read_metrics(RunFolder(started / "dull").metrics))
    assert [row["branch/branches"] for row in rows] == [0, 0]
    assert [row["monitor/no_branches_alarm"] for row in rows] == [1, 1]
    told = [line for line in page.getvalue().splitlines() if "no_branches" in line]
    assert len(told) == 1
    assert "0 episodes of the step branched off others" in told[0]
