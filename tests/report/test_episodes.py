"""The episodes that a report writes: from them every rate of its table follows."""

import csv

from tests.helpers.command_line import turngate
from turngate.config.run_config import dump, parse
from turngate.report.episodes import COLUMNS
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import add_evaluation


def played(success_B, *, temperature=1.0, unusable=0):
    n = len(success_B)
    return Evaluation(
        split="heldout",
        temperature=temperature,
        success_B=tuple(map(bool, success_B)),
        task_B=tuple(f"task, {number}" for number in range(n)),
        question_B=tuple("ab"[number % 2] for number in range(n)),
        unusable=unusable,
        tasks=n,
        questions=2,
    )


def test_a_report_writes_every_evaluated_episode(tmp_path, capsys):
    control, baseline = tmp_path / "controls" / "shuffled_credit", tmp_path / "baselines" / "400"
    for folder in (tmp_path, control, baseline):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(dump(parse({"model": "m", "env": {"id": "turngate/Lock-v1"}, "seed": 7})))
    add_evaluation(tmp_path, "before", played([0, 1, 0]))
    add_evaluation(tmp_path, "after", played([1, 1], temperature=0.0, unusable=1))
    add_evaluation(control, "after", played([0]))
    add_evaluation(baseline, "before", played([1]))
    assert turngate("report", tmp_path) == 0
    assert "summary.md, episodes.csv" in capsys.readouterr().out
    with (tmp_path / "report" / "episodes.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        list(COLUMNS),
        ["training", "7", "heldout", "sampled", "before", "task, 0", "a", "0"],
        ["training", "7", "heldout", "sampled", "before", "task, 1", "b", "1"],
        ["training", "7", "heldout", "sampled", "before", "task, 2", "a", "0"],
        ["training", "7", "heldout", "greedy", "after", "task, 0", "a", "1"],
        ["training", "7", "heldout", "greedy", "after", "task, 1", "b", "1"],
        ["training", "7", "heldout", "greedy", "after", "", "", ""],
        ["control: shuffled credit", "7", "heldout", "sampled", "after", "task, 0", "a", "0"],
        ["baseline: 400 demonstrations", "7", "heldout", "sampled", "before", "task, 0", "a", "1"],
    ]


def test_a_run_without_evaluations_has_no_such_file(tmp_path):
    (tmp_path / "config.toml").write_text(dump(parse({"model": "m", "env": {"id": "turngate/Lock-v1"}})))
    assert turngate("report", tmp_path) == 0
    assert not (tmp_path / "report" / "episodes.csv").exists()
