"""``turngate compare``: what differs between two runs on the same tasks, and what cannot be paired."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import scores
from tests.helpers.command_line import turngate
from turngate.errors import ConfigError
from turngate.report.intervals import SuccessCount, paired_difference
from turngate.report.paired_runs import PAID, SUCCESS, TOKENS, TURNS, PairedRuns, paired
from turngate.store import Store
from turngate.types import Guidance, ScoredGroup, Task

GUIDED = Guidance(kind="hint", level=1, text="x", source="dataset")


def played(solved: str, *, task: str, seed: int = 0, prompt: str = "", events=(), ids=(1, 2), **changes) -> ScoredGroup:
    """Siblings of one task: 1 solved, 0 not, x unusable."""
    pairs = []
    for sibling, mark in enumerate(solved):
        outcome = None if mark == "x" else float(mark)
        trajectory, score = scores.episode(
            f"{task}/{sibling}", outcome=outcome, events=events, turns=[scores.turn(ids=ids)], usable=mark != "x"
        )
        asked = Task(id=task, env_id="e", prompt=prompt or task)
        pairs.append((replace(trajectory, task=asked, seed=seed + sibling, **changes), score))
    trajectories, found = zip(*pairs, strict=True)
    return ScoredGroup(task=trajectories[0].task, trajectories=trajectories, scores=found)


def side(*solved: str, **settings) -> list[ScoredGroup]:
    return [played(marks, task=f"t{number}", **settings) for number, marks in enumerate(solved)]


def compared(a: list[ScoredGroup], b: list[ScoredGroup]) -> PairedRuns:
    return paired(a, b, phases=("p", "p"))


def rows(found: PairedRuns):
    return {row.name: row for row in found.rows}


def test_means_differences_and_tasks_that_changed_sides():
    paid = [scores.event("form", 0.5, turn=0)]
    a, b = side("11", "10", "00", "00"), side("11", "00", "01", "00", events=paid, ids=(1, 2, 3))
    found = compared(a, b)
    assert (found.by_seed, found.tasks, found.questions, found.episodes, found.left_out) == (True, 4, 4, (8, 8), 0)
    assert (found.only_a, found.only_b) == (("t1",), ("t2",))
    by_name = rows(found)
    assert list(by_name) == [SUCCESS, PAID, "  outcome", "  form", TURNS, TOKENS]
    assert (by_name[SUCCESS].a, by_name[SUCCESS].b) == (3 / 8, 3 / 8)
    assert by_name[SUCCESS].difference == paired_difference(
        {f"t{n}": SuccessCount(k, 2) for n, k in enumerate((2, 1, 0, 0))},
        {f"t{n}": SuccessCount(k, 2) for n, k in enumerate((2, 0, 1, 0))},
    )
    assert by_name[PAID].difference == pytest.approx(by_name[SUCCESS].difference + np.array([0.5, 0.5, 0.5]))
    assert by_name[TOKENS].difference == (1, 1, 1)
    assert (by_name["  form"].a, by_name["  form"].b, by_name["  form"].difference) == (None, 0.5, None)


def test_tasks_with_one_question_are_drawn_together():
    """Ten tasks that ask one thing tell as much as one: the interval is as wide as that of the two questions."""
    a = [played("0", task=f"t{n}", prompt="one" if n else "other") for n in range(11)]
    b = [played("1" if n else "0", task=f"t{n}", prompt="one" if n else "other") for n in range(11)]
    found = compared(a, b)
    assert found.questions == 2
    assert rows(found)[SUCCESS].difference[1:] == (0.0, 1.0)


def test_a_pair_needs_both_where_seeds_are_equal():
    found = compared(side("1x", "10"), side("01", "1x"))
    assert (found.by_seed, found.episodes, found.left_out) == (True, (2, 2), 4)
    assert (rows(found)[SUCCESS].a, rows(found)[SUCCESS].b) == (1.0, 0.5)


def test_other_seeds_and_other_numbers_of_episodes_are_paired_by_task():
    found = compared(side("1x", "10"), side("011", "111", seed=9))
    assert (found.by_seed, found.episodes, found.left_out) == (False, (3, 6), 1)
    assert (rows(found)[SUCCESS].a, rows(found)[SUCCESS].b) == (2 / 3, 5 / 6)


def test_tokens_that_a_server_did_not_tell_are_not_zero():
    found = rows(compared(side("1", "0"), side("1", "0", ids=())))[TOKENS]
    assert (found.a, found.b, found.difference) == (2.0, None, None)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (side("1", "0", "1"), side("1", "0"), "1 of 3 tasks of A were not played by B, the first is 't2'"),
        (side("1", "0"), side("1", "0", "1"), "1 of 3 tasks of B were not played by A"),
        (side("1", "0"), side("1", "0", guidance=GUIDED), "2 episodes of B .* had help"),
        (side("1", "x"), side("1", "1"), "task 't1' has no usable pair"),
        (side("1"), side("1"), "fewer than two distinct questions"),
        (side("1", "0", prompt="same"), side("1", "0", prompt="same"), None),
    ],
)
def test_what_cannot_be_paired_is_refused_by_name(a, b, message):
    """The last case is none: tasks that all have one text differ in their data, so each is a question."""
    if message is None:
        assert compared(a, b).questions == 2
        return
    with pytest.raises(ConfigError, match=message):
        compared(a, b)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, marks in (("a", ("11", "10", "00")), ("b", ("11", "00", "01"))):
        store = Store(tmp_path / name)
        store.write(0, side("00", "00", "00"), phase="before-heldout-sampled")
        store.write(3, side(*marks), phase="after-heldout-sampled")
    Store(tmp_path / "b").write(3, side("1", "0", "0"), phase="after-heldout-greedy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_prints_draws_and_writes_the_last_evaluations(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert turngate("compare", "a", "b/trajectories", "--png", "c.png", "--json", "c.json") == 0
    told = capsys.readouterr().out
    assert "after-heldout-sampled" in told
    assert "solved by A only: 1 tasks (t1)" in told
    assert "solved by B only: 1 tasks (t2)" in told
    assert "before" not in told
    assert (runs / "c.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((runs / "c.json").read_text())
    (phase,) = written["phases"]
    assert (phase["only_a"], phase["only_b"], phase["questions"], phase["by_seed"]) == (["t1"], ["t2"], 3, True)
    assert {row["name"] for row in phase["rows"]} == {SUCCESS, PAID, "  outcome", TURNS, TOKENS}


def test_two_phases_of_one_run(runs: Path, capsys: pytest.CaptureFixture[str]):
    named = ("--phase", "before-heldout-sampled", "--other", "after-heldout-sampled")
    assert turngate("compare", "a", "a", *named) == 0
    assert "solved by B only: 2 tasks (t0, t1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "c"), "'c' holds no recorded episodes"),
        (
            ("a", "b", "--phase", "after-heldout-greedy"),
            "'a' has no episodes of phase 'after-heldout-greedy'; recorded",
        ),
        (("a", "b", "--other", "train"), "--other names the phase of B; name that of A with --phase"),
    ],
)
def test_mistakes_are_told_in_one_line(runs: Path, capsys: pytest.CaptureFixture[str], arguments, message: str):
    assert turngate("compare", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_runs_without_a_common_evaluation(runs: Path, capsys: pytest.CaptureFixture[str]):
    Store(runs / "d").write(1, side("1", "0"), phase="after-test-sampled")
    assert turngate("compare", "a", "d") == 2
    assert "no split was evaluated in both" in capsys.readouterr().err
