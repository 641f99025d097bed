"""Supervised baselines beside the run: how many times the demonstrations reinforcement learning is worth."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.command_line import turngate
from tests.helpers.warm_starts import one, passes
from turngate.config.run_config import dump, parse
from turngate.errors import ShapeError
from turngate.report.supervised import CUT_OFF, times_as_many
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import add_evaluation
from turngate.trainer.evaluation.validation_passes import write_passes

CURVE = [(200, 0.2), (400, 0.4), (1600, 0.6)]


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (0.15, "no more demonstrations"),
        (0.2, "no more demonstrations"),
        (0.3, "at most 2 times as many"),
        (0.4, "at most 2 times as many"),
        (0.41, "more than 2 and at most 8 times as many"),
        (0.7, "more than 8 times as many"),
    ],
)
def test_it_is_said_between_which_measured_numbers_the_rate_is_reached(rate: float, said: str):
    assert times_as_many(rate, CURVE) == said


def test_of_several_crossings_the_first_counts():
    assert times_as_many(0.5, [(100, 0.4), (200, 0.6), (400, 0.3), (800, 0.9)]) == "at most 2 times as many"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_no_number_is_named_that_was_not_measured(rates: list[float], rate: float):
    curve = [(100 * 2**place, one) for place, one in enumerate(rates)]
    numbers = {float(word) for word in times_as_many(rate, curve).split() if word.isdigit()}
    assert numbers <= {2.0**place for place in range(len(rates))}


def test_large_multiples_have_no_decimals():
    assert times_as_many(1.0, [(3, 0.0), (37, 1.0)]) == "at most 12 times as many"


@pytest.mark.parametrize("curve", [[], [(200, 0.1), (200, 0.2)], [(400, 0.1), (200, 0.2)]])
def test_numbers_that_do_not_ascend_are_refused(curve: list[tuple[int, float]]):
    with pytest.raises(ShapeError, match="must ascend"):
        times_as_many(0.5, curve)


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
    table = {
        "warm_start": {"episodes": 200, "epochs": 9, "validation": {}},
        "baselines": {"demonstrations": [400, 1600]},
        "name": "own",
    }
    run = RunFolder(tmp_path / "own")
    for folder in (run, run.baseline(400), run.baseline(1600)):
        folder.path.mkdir(parents=True)
        folder.config.write_text(dump(parse(table)))
        write_passes(folder, passes(one(2, 0.1, 0.1)))
    evaluated(run, "before", sampled=20, greedy=20)
    evaluated(run, "after", sampled=50, greedy=90)
    evaluated(run.baseline(400), "before", sampled=40, greedy=40)
    evaluated(run.baseline(1600), "before", sampled=60, greedy=60)
    return run


SAMPLED = (
    "heldout, temperature 1: reinforcement learning from 200 demonstrations reaches what supervised learning reaches "
    "with more than 2 and at most 8 times as many"
)
GREEDY = SAMPLED.replace("temperature 1", "greedy").replace("more than 2 and at most 8", "more than 8")


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


def test_a_supervised_model_that_was_cut_off_is_named_and_nothing_is_compared_with_it(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
):
    write_passes(run.baseline(400), passes(one(2, 0.1, 0.1), converged=False))
    run.baseline(1600).passes.unlink()  # made without validation: nobody knows whether more passes would have helped
    assert turngate("report", run.path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        f"not compared with supervised learning, because the supervised model of 400, 1600 demonstrations {CUT_OFF}"
        in told
    )
    assert "reaches what supervised learning reaches" not in told
    assert "supervised learning (cut off) 400" in told
    assert "supervised learning 200" in told
