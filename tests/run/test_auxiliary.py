"""Auxiliary losses, each from a config through a tiny run: what is learned beside the episodes of a step."""

import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console

from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import parse
from turngate.errors import ConfigError, RunError
from turngate.jsonl import read_rows
from turngate.run.job import Job
from turngate.sinks import Sink, SinkPart


def settings(folder: Path, auxiliary: object, **changes: Any) -> dict[str, Any]:
    return {
        "name": "beside",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1"},
        "warm_start": {"episodes": 8, "epochs": 1},
        "policy": {"turn_tokens": 4, "context": 100, "concurrency": 8},
        "train": {"steps": 3, "tasks_per_step": 2, "group_size": 2, "filters": []},
        "eval": {"tasks": 1},
        "auxiliary": [auxiliary],
        **changes,
    }


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(folder / "beside" / "metrics.jsonl")]


def run(folder: Path, auxiliary: object, **changes: Any) -> list[dict[str, Any]]:
    Job(parse(settings(folder, auxiliary, **changes)), Console(quiet=True)).run()
    return rows_of(folder)


def test_relift_imitates_what_was_never_solved_once_enough_is_waiting(tmp_path: Path):
    """Two tasks fail in each step: 2 wait, then 4 of which 3 are imitated, then 1 + 2 = 3 are."""
    rows = run(tmp_path, {"type": "relift", "at_least": 3})
    assert [row["auxiliary/relift_waiting"] for row in rows] == [2, 1, 0]
    assert [row["auxiliary/relift_rows"] for row in rows] == [0, 3, 3]
    assert "auxiliary/relift_loss" not in rows[0]
    assert all(row["auxiliary/relift_loss"] > 0 and row["auxiliary/relift_grad_norm"] > 0 for row in rows[1:])


def test_a_step_without_anything_to_reinforce_still_imitates(tmp_path: Path):
    """All siblings fail alike, so the filter drops them all; the policy is updated and published all the same."""
    rows = run(tmp_path, {"type": "relift", "at_least": 2}, train={"steps": 2, "tasks_per_step": 2, "group_size": 2})
    dropped = [row for row in rows if row["drop/not_varied_groups"] == 2]
    assert dropped
    assert all("policy/version" in row and row["auxiliary/relift_rows"] == 2 for row in dropped)


class StopsAt(SinkPart):
    """Raises in step 2, before its checkpoint is written."""

    type: Literal["stops_at"] = "stops_at"

    def open(self, opening: object) -> Sink:
        return _Stopping()


class _Stopping:
    def write(self, step: int, metrics: object) -> None:
        if step == 2:
            raise OSError("full")

    def close(self) -> None:
        """Nothing is open."""


def test_the_buffer_is_in_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that stops in step 2 and goes on has the numbers of one that does not stop."""
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    auxiliary = {"type": "relift", "at_least": 3}
    whole = run(tmp_path / "whole", auxiliary)
    with pytest.raises(RunError, match="full"):
        run(tmp_path / "cut", auxiliary, sink=[f"{__name__}:StopsAt"])
    again = run(tmp_path / "cut", auxiliary, sink=[])
    for one, other in zip(whole, again, strict=True):
        own = [name for name in one if not name.startswith(MEASURED)]
        assert [one[name] for name in own] == [other[name] for name in own]


def test_a_constant_share_of_demonstrations(tmp_path: Path):
    rows = run(tmp_path, {"type": "demonstrations", "share": 0.5, "weight": 0.5})
    for row in rows:
        assert row["auxiliary/demonstrations_rows"] == 2
        assert row["auxiliary/demonstrations_loss"] > 0
        assert row["auxiliary/demonstrations_grad_norm"] > 0
        assert row["learner/policy_grad_norm"] >= 0


def test_a_critic_and_minibatches_do_not_mind(tmp_path: Path):
    train = {"steps": 2, "tasks_per_step": 2, "group_size": 2, "minibatches": 2}
    rows = run(tmp_path, "demonstrations", credit="turn_gae", value={"warmup": 1}, train=train)
    assert rows[1]["auxiliary/demonstrations_grad_norm"] > 0
    assert all(row["value/loss"] >= 0 for row in rows)


def test_interventions_correct_the_first_error(tmp_path: Path):
    rows = run(tmp_path, {"type": "interventions", "checks": 0})
    assert any(row["auxiliary/interventions_rows"] > 0 for row in rows)
    for row in rows:
        assert (
            row["auxiliary/interventions_found"]
            == row["auxiliary/interventions_helped"]
            == row["auxiliary/interventions_rows"]
        )


def test_interventions_are_kept_only_if_they_help(tmp_path: Path):
    rows = run(tmp_path, {"type": "interventions", "checks": 2})
    assert any(row["auxiliary/interventions_found"] > 0 for row in rows)
    assert all(row["auxiliary/interventions_helped"] <= row["auxiliary/interventions_found"] for row in rows)


def test_a_teacher_pulls_at_failed_episodes_ever_less(tmp_path: Path):
    """The model that training began from: in the first step nothing pulls, because it is the policy itself."""
    changes = {"learner": {"lr": 1e-2}, "train": {"steps": 3, "tasks_per_step": 2, "group_size": 2, "filters": []}}
    auxiliary = {"type": "kdrl", "teacher": "start", "beta": 1.0, "beta_last": 0.5, "anneal_steps": 2}
    rows = run(tmp_path, auxiliary, credit={"type": "rloo"}, **changes)
    assert rows[0]["auxiliary/kdrl_loss"] == pytest.approx(0, abs=1e-9)
    assert all(row["auxiliary/kdrl_tokens"] > 0 for row in rows)
    folder = str(tmp_path / "beside" / "warm_start")
    other = run(tmp_path / "named", {**auxiliary, "teacher": folder}, credit={"type": "rloo"}, **changes)
    assert [row["auxiliary/kdrl_loss"] for row in other] == [row["auxiliary/kdrl_loss"] for row in rows]


def test_thoughts_are_looked_for_in_every_step(tmp_path: Path):
    """This tiny model writes none, so its corrector, the policy itself, is asked nothing."""
    rows = run(tmp_path, {"type": "gtr", "corrector": {"type": "policy"}})
    assert [row["auxiliary/gtr_asked"] for row in rows] == [row["auxiliary/gtr_rows"] for row in rows] == [0, 0, 0]


def test_pairs_begin_with_a_policy_that_is_the_reference(tmp_path: Path):
    """Successes with help against failures without: at first nothing tells them apart."""
    auxiliary = {"type": "pairs", "beta": 0.5, "weight": 2.0, "most": 2}
    helped = {"type": "oracle_prefix"}
    train = {"steps": 3, "tasks_per_step": 4, "group_size": 4, "filters": []}
    warm = {"episodes": 96, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3}
    model = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300}
    policy = {"turn_tokens": 8, "context": 256, "concurrency": 8}
    changes = {"guide": helped, "train": train, "warm_start": warm, "model": model, "policy": policy}
    rows = run(tmp_path, auxiliary, learner={"lr": 1e-3}, **changes)
    first, *later = [row for row in rows if row["auxiliary/pairs_rows"]]
    assert first["auxiliary/pairs_loss"] == pytest.approx(2 * 0.693147, rel=1e-5)
    assert first["auxiliary/pairs_margin"] == pytest.approx(0, abs=1e-5)
    assert first["auxiliary/pairs_grad_norm"] > 0
    assert later
    assert all(abs(row["auxiliary/pairs_margin"]) > 1e-4 for row in later)
    assert all(row["auxiliary/pairs_rows"] % 2 == row["auxiliary/pairs_other_beginning"] == 0 for row in rows)
    again = run(tmp_path / "again", auxiliary, learner={"lr": 1e-3}, **changes)
    for one, other in zip(rows, again, strict=True):
        assert {k: v for k, v in one.items() if not k.startswith(MEASURED)} == {
            k: v for k, v in other.items() if not k.startswith(MEASURED)
        }


def test_what_failed_is_imitated_under_the_goal_that_it_reached(tmp_path: Path):
    """At a library's desk: books that nobody asked for are lent or taken back, which is then what was asked for."""
    changes: dict[str, Any] = {
        "env": {
            "id": "turngate/ToolUse-v1",
            "tasks": {"type": "lending", "max_level": 1},
            "kwargs": {"max_turns": 3},
        },
        "model": {"layers": 2, "width": 64, "heads": 2, "vocabulary": 500},
        "warm_start": {"episodes": 48, "epochs": 3, "episodes_per_batch": 8, "lr": 5e-3},
        "policy": {"turn_tokens": 48, "context": 1536, "concurrency": 16},
        "train": {"steps": 3, "tasks_per_step": 6, "group_size": 4, "filters": []},
    }
    rows = run(tmp_path, "relabel", **changes)
    assert any(row["auxiliary/relabel_rows"] > 0 and row["auxiliary/relabel_loss"] > 0 for row in rows)
    assert all(row["auxiliary/relabel_rows"] <= row["auxiliary/relabel_found"] for row in rows)
    with pytest.raises(ConfigError, match="'relabel' needs tasks that can be asked for otherwise"):
        Job(parse(settings(tmp_path / "lock", "relabel")), Console(quiet=True))


@pytest.mark.parametrize(
    ("auxiliary", "changes", "said"),
    [
        ("relift", {"train": {"steps": 0}}, "auxiliary loss has no effect with train.steps = 0"),
        ({"type": "reliftt"}, {}, "did you mean 'relift'"),
        ({"type": "kdrl"}, {}, r"auxiliary\[0\]\.teacher"),
        ("pairs", {}, "auxiliary loss 'pairs' has no effect: no episode has help that could win"),
        ("lessons", {"guide": "ladder"}, "auxiliary loss 'lessons' has no effect: guide 'ladder' writes no lessons"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, auxiliary: object, changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        parse(settings(tmp_path, auxiliary, **changes))


def test_an_aside_twice_and_a_teacher_that_is_nowhere(tmp_path: Path):
    with pytest.raises(ConfigError, match="auxiliary loss 'relift' is listed twice"):
        parse({**settings(tmp_path, "relift"), "auxiliary": ["relift", "relift"]})
    with pytest.raises(ConfigError, match=r"auxiliary\[0\]: .*nowhere"):
        Job(parse(settings(tmp_path, {"type": "kdrl", "teacher": "./nowhere"})), Console(quiet=True))
