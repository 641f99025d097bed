"""A bar on a terminal; a line now and then, with pace and time left, where output is no terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate
from turngate import progress_bar
from turngate.progress_bar import LINE_S, Progress

HOW = ("sampled", "greedy")


class Clock:
    """Seconds that a test moves."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def lines(*updates: tuple[float, int, str], total: int = 60, transient: bool = False) -> list[str]:
    """What is printed in a pipe when each update comes so many seconds after the one before."""
    out, clock = io.StringIO(), Clock()
    with Progress(Console(file=out, width=200), "training", transient=transient, clock=clock) as progress:
        for after_s, done, note in updates:
            clock.now_s += after_s
            progress.update(done, total, note)
    return [line for line in out.getvalue().splitlines() if line.startswith("training: ")]


@pytest.mark.parametrize("transient", [True, False])
def test_a_pipe_gets_a_line_every_half_minute_with_pace_and_time_left(transient: bool) -> None:
    told = lines((1, 1, "a"), (20, 5, "b"), (10, 11, "c"), (LINE_S - 1, 12, "d"), (1, 31, ""), transient=transient)
    assert told == [
        "training: 11 of 60, 0.333 a second, 2 min left, c",
        "training: 31 of 60, 0.5 a second, 58 s left",
    ]


def test_what_is_done_already_does_not_count_as_pace() -> None:
    assert lines((5, 41, ""), (60, 42, "")) == ["training: 42 of 60, 1 a minute, 18 min left"]
    assert lines((LINE_S, 41, "")) == ["training: 41 of 60"]


def test_an_evaluation_says_what_is_solved_and_a_finding_stays() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress(Console(file=out, width=200), "heldout", transient=True, clock=clock) as progress:
        for done, success in ((10, 0.4), (20, None)):
            clock.now_s += LINE_S
            progress.episodes(done, 20, success)
        progress.found("pass 3 solves 40 %")
        clock.now_s += LINE_S
        progress.update(20, 20, "nearly")
    assert [line.partition(", ")[2] for line in out.getvalue().splitlines()] == [
        "40% solved",
        "0.333 a second, 0 s left",
        "0.167 a second, 0 s left, nearly, pass 3 solves 40 %",
    ]


def test_a_part_of_the_work_has_lines_of_its_own_and_no_bar_is_left_of_it() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress(Console(file=out, width=200), "training", clock=clock) as progress:
        progress.update(1, 2)
        with progress.within("validation") as part:
            for done in (2, 4):
                clock.now_s += LINE_S
                part.episodes(done, 4, 0.5)
        clock.now_s += 1
        progress.update(2, 2)
    shown = out.getvalue().splitlines()
    assert [line for line in shown if line.startswith(("training:", "validation:"))] == [
        "validation: 2 of 4, 50% solved",
        "validation: 4 of 4, 4 a minute, 0 s left, 50% solved",
        "training: 2 of 2, 0.984 a minute, 0 s left",
    ]
    assert "training" in shown[-1]


def test_a_terminal_gets_the_bar_alone() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress(Console(file=out, width=200, force_terminal=True), "training", clock=clock) as progress:
        clock.now_s += 10 * LINE_S
        progress.update(3, 6, "note")
    assert "training:" not in out.getvalue()
    assert "3/6" in out.getvalue()


def test_a_run_in_a_pipe_tells_of_its_warm_start_its_training_and_each_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bar, "LINE_S", 0.0)
    validated = (
        "--train.validation={tasks = 3, every = 1}",
        "--warm_start.validation={tasks = 3}",
        "--warm_start.epochs=2",
    )
    assert turngate("train", write_config(tmp_path), f"--folder={tmp_path}", *validated) == 0
    assert (
        turngate("eval", tmp_path / "lock/model", "--env", "turngate/Lock-v1", "--tasks", 3, "--out", tmp_path / "e")
        == 0
    )
    told = capsys.readouterr().out.splitlines()
    evaluations = [f"{phase} training, heldout, {how}: 4 of 4" for phase in ("before", "after") for how in HOW]
    for begins in ("warm start: ", "training: 2 of 2"):
        assert any(line.startswith(begins) for line in told), begins
    evaluations += [f"validation {when}, {how}: 3 of 3" for when in ("of pass 1", "after step 2") for how in HOW]
    for begins in (*evaluations, "heldout, sampled: 3 of 3"):
        assert any(line.startswith(begins) and line.endswith("% solved") for line in told), begins
