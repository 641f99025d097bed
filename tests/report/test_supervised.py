"""Supervised baselines beside the run: how many times the demonstrations reinforcement learning is worth."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.command_line import turngate
from turngate.config import dump, parse
from turngate.errors import ShapeError
from turngate.evaluations import add_evaluation
from turngate.report.supervised import demonstrations_for, times_as_many
from turngate.runs import RunFolder
from turngate.trainer.evaluate import Evaluation

CURVE = [(200, 0.2), (400, 0.4), (1600, 0.6)]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.1, 200),
        (0.2, 200),
        (0.3, 200 * math.sqrt(2)),
        (0.4, 400),
        (0.45, 400 * math.sqrt(2)),
        (0.5, 800),
        (0.6, 1600),
        (0.61, None),
    ],
)
def test_the_rate_is_interpolated_in_the_logarithm_of_the_number(rate: float, expected: float | None):
    found = demonstrations_for(rate, CURVE)
    assert found is None if expected is None else found == pytest.approx(expected)


def test_of_several_crossings_the_first_counts():
    assert demonstrations_for(0.5, [(100, 0.4), (200, 0.6), (400, 0.3), (800, 0.9)]) == pytest.approx(
        100 * math.sqrt(2)
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_the_number_lies_where_the_curve_first_reaches_the_rate(rates: list[float], rate: float):
    curve = [(100 * 2**place, one) for place, one in enumerate(rates)]
    found = demonstrations_for(rate, curve)
    if found is None:
        assert rate > max(rates)
        return
    reached = next(n for n, one in curve if one >= rate)
    assert max(100, reached / 2) * (1 - 1e-9) <= found <= reached * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (0.15, "no more demonstrations"),
        (0.3, "about 1.4 times as many"),
        (0.4, "about 2 times as many"),
        (0.7, "more than 8 times as many"),
    ],
)
def test_it_is_said_how_many_times_as_many(rate: float, said: str):
    assert times_as_many(rate, CURVE) == said


def test_large_multiples_have_no_decimals():
    assert times_as_many(1.0, [(3, 0.0), (37, 1.0)]) == "about 12 times as many"


@pytest.mark.parametrize("curve", [[], [(200, 0.1), (200, 0.2)], [(400, 0.1), (200, 0.2)]])
def test_numbers_that_do_not_ascend_are_refused(curve: list[tuple[int, float]]):
    with pytest.raises(ShapeError, match="must ascend"):
        demonstrations_for(0.5, curve)


# --- the report ------------------------------------------------------------------------------------------------------


def evaluated(run: RunFolder, phase: str, **solved: int) -> None:
    """Evaluations with so many of 100 episodes solved, by temperature: sampled, greedy."""
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        tasks = tuple(f"t{n}" for n in range(100))
        success = tuple(n < solved[name] for n in range(100))
        result = Evaluation(
            split="heldout",
            temperature=temperature,
            success_B=success,
            task_B=tasks,
            question_B=tasks,
            unusable=1,
            tasks=101,
            questions=101,
        )
        add_evaluation(run.path, phase, result)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """With 20 % after 200 demonstrations, 40 % after 400, and 50 % by reinforcement learning; greedy as above 1600."""
    table = {"warm_start": {"episodes": 200}, "baselines": {"demonstrations": [400, 1600]}, "name": "own"}
    run = RunFolder(tmp_path / "own")
    for folder in (run, run.baseline(400), run.baseline(1600)):
        folder.path.mkdir(parents=True)
        folder.config.write_text(dump(parse(table)))
    evaluated(run, "before", sampled=20, greedy=20)
    evaluated(run, "after", sampled=50, greedy=90)
    evaluated(run.baseline(400), "before", sampled=40, greedy=40)
    evaluated(run.baseline(1600), "before", sampled=60, greedy=60)
    return run


SAMPLED = (
    "heldout, temperature 1: reinforcement learning from 200 demonstrations reaches what supervised learning reaches "
    "with about 4 times as many"
)
GREEDY = SAMPLED.replace("temperature 1", "greedy").replace("about 4", "more than 8")


def test_the_report_sets_the_baselines_beside_the_run(run: RunFolder, capsys: pytest.CaptureFixture[str]):
    assert turngate("report", run.path) == 0
    told = capsys.readouterr().out
    lines = told[told.index("supervised baselines") :].partition("\n\n")[0].splitlines()
    table = [line for line in lines if line not in (SAMPLED, GREEDY)]
    assert max(map(len, table)) <= 80
    assert [line.split() for line in table if "learning" in line][:4] == [
        ["1", "supervised", "learning", "200", "101", "(1)", "20.0", "[13.3,", "28.9]"],
        ["1", "supervised", "learning", "400", "101", "(1)", "40.0", "[30.9,", "49.8]"],
        ["1", "supervised", "learning", "1600", "101", "(1)", "60.0", "[50.2,", "69.1]"],
        ["1", "reinforcement", "learning", "200", "101", "(1)", "50.0", "[40.4,", "59.6]"],
    ]
    assert lines[-2:] == [SAMPLED, GREEDY]
    summary = (run.report / "summary.md").read_text()
    assert f"\n* {SAMPLED}\n* {GREEDY}\n" in summary
    assert "| heldout | greedy | reinforcement learning | 200 | 101 (1) | 90.0 [82.6, 94.5] |" in summary


def test_a_baseline_that_is_not_evaluated_yet_is_left_out(run: RunFolder, capsys: pytest.CaptureFixture[str]):
    run.baseline(1600).evaluations.unlink()
    assert turngate("report", run.path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "heldout, temperature 1: " in told
    assert "1600" not in told
    assert "with more than 2 times as many" in told
    run.baseline(400).evaluations.unlink()
    assert turngate("report", run.path) == 0
    assert "supervised baselines" not in capsys.readouterr().out
