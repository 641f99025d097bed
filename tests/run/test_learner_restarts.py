"""A learner whose processes were lost is started again, until nothing is gained by it."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from turngate.config.run_config import parse
from turngate.errors import ProcessLost
from turngate.run.learner_restarts import run_with_learner
from turngate.store.folder import RunFolder

CONFIG = parse({"model": "a/model"})


@pytest.mark.parametrize(("steps", "expected"), [({}, 4), ({3: 1}, 6), ({3: 1, 4: 2}, 7)])
def test_a_learner_that_is_lost_is_started_again_three_times_after_each_step(
    steps: dict[int, int], expected: int, tmp_path: Path
) -> None:
    """``steps``: the steps that are done, by the number of the call that does them."""
    run, calls, console = RunFolder(tmp_path), list[int](), Console(file=io.StringIO())

    def work() -> None:
        calls.append(1)
        if len(calls) in steps:
            (run.checkpoints / f"step={steps[len(calls)]:06}").mkdir(parents=True)
        raise ProcessLost("rank 1 of 2 was lost")

    with pytest.raises(ProcessLost, match="rank 1 of 2 was lost"):
        run_with_learner(CONFIG, run, work, console)
    assert len(calls) == expected
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(said) == expected - 1
    assert said[0] == "rank 1 of 2 was lost; the learner is started again, after the beginning"


def test_other_errors_and_results_are_those_of_the_work(tmp_path: Path) -> None:
    assert run_with_learner(CONFIG, RunFolder(tmp_path), lambda: 7, Console()) == 7
    with pytest.raises(ZeroDivisionError):
        run_with_learner(CONFIG, RunFolder(tmp_path), lambda: 1 // 0, Console())
