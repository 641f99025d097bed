"""The settings of the attempt at training in docs/web.md, for a few episodes in a real browser."""

import csv
from pathlib import Path

from tests.helpers.command_line import turngate
from turngate.config.run_config import load

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "examples/web_training.toml"


def test_it_trains_on_all_of_its_pages_and_evaluates(tmp_path, capsys):
    small = ["--warm_start.episodes=5", "--warm_start.epochs=1", "--train.steps=1", "--train.tasks_per_step=2"]
    small += ["--train.group_size=2", "--train.minibatches=1", "--eval.tasks=5", "--policy.concurrency=4"]
    assert turngate("train", str(SETTINGS), f"--folder={tmp_path}", "--name=web", *small) == 0, capsys.readouterr().err
    with (tmp_path / "web/report/episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["sampling"], row["phase"]) for row in rows} == {
        (sampling, phase) for sampling in ("sampled", "greedy") for phase in ("before", "after")
    }
    (section,) = load(SETTINGS).env
    assert {row["task"].split("/")[1] for row in rows} == set(section.tasks.pages)


def test_the_figures_of_the_page_are_those_of_the_episodes():
    with (ROOT / "docs/data/web_training_episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    solved = {}
    for row in rows:
        solved.setdefault((row["sampling"], row["phase"]), []).append(int(row["success"]))
    assert {key: sum(won) / len(won) for key, won in solved.items()} == {
        ("sampled", "before"): 0.42,
        ("sampled", "after"): 0.41,
        ("greedy", "before"): 0.37,
        ("greedy", "after"): 0.43,
    }
