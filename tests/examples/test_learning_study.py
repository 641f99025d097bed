"""The study of a help desk and of documents: what is trained on, and the whole command on two updates."""

import csv
import tomllib

import pytest
import tomli_w

import turngate
from examples.farming.report import BEGIN, END
from examples.learning_study.__main__ import EXAMPLES, TITLES, main, options
from examples.learning_study.report import Run, read_runs, supervised_table
from examples.learning_study.training import FURTHER, config_of
from tests.helpers.episodes_csv import rates_of_episodes
from tests.helpers.warm_starts import one, passes
from turngate.config.run_config import load
from turngate.errors import ConfigError
from turngate.run.checks.split_overlap import split_overlaps
from turngate.run.environments import Environments
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.validation_passes import write_passes

SMALL = {
    "model": {"layers": 1, "width": 32, "heads": 2},
    "warm_start": {"episodes": 12, "epochs": 2, "validation": {"tasks": 2, "every": 1, "patience": 1}},
    "policy": {"turn_tokens": 8, "concurrency": 8},
    "train": {"tasks_per_step": 2, "group_size": 2, "minibatches": 1},
    "eval": {"tasks": 2},
}
"""What is changed in the settings of a study, so that a run of it takes seconds."""


def small(study, folder):
    table = tomllib.loads((EXAMPLES / f"{study}_demo.toml").read_text())
    for section, changes in SMALL.items():
        table[section] |= changes
    file = folder / "small.toml"
    file.write_text(tomli_w.dumps(table))
    return file


@pytest.mark.parametrize("study", TITLES)
def test_the_oracle_solves_both_splits_and_they_share_no_text(study):
    config = load(EXAMPLES / f"{study}_demo.toml", ["--warm_start.episodes=40", "--eval.tasks=40"])
    with Environments(config.env) as environments:
        overlaps = list(split_overlaps(config, environments))
    assert [found.leaks for found in overlaps] == [()]
    assert overlaps[0].shared["question text"].count == 0
    (section,) = config.env
    with turngate.make(section.id, **section.arguments) as env:
        for split in ("train", "heldout"):
            for number in range(20):
                task = env.tasks.task(split, number)
                env.reset(options={"task": task})
                for line in env.oracle(task):
                    *_, info = env.step(line)
                assert info["score"].outcome == 1.0


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--updates", "0"], ["--jobs", "0"]])
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(["search", *wrong])
    assert wrong[0] in capsys.readouterr().err


def test_settings_without_controls_are_refused(tmp_path):
    settings = tmp_path / "own.toml"
    settings.write_text((EXAMPLES / "search_demo.toml").read_text().replace("controls", "# controls"))
    with pytest.raises(ConfigError, match=r"own\.toml' has no controls"):
        config_of(settings, 0, tmp_path, None)


def test_the_command_trains_writes_and_does_not_repeat_itself(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FURTHER, "small.toml", ["--baselines.demonstrations=[14]"])
    page, out = tmp_path / "tool_use.md", tmp_path / "runs"
    page.write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    command = ["tool_use", "--settings", str(small("tool_use", tmp_path)), "--seeds", "1", "--updates", "2"]
    command += ["--jobs", "1", "--out", str(out), "--results", str(tmp_path), "--kinds", "14", "random_reward"]
    main(command)
    folder = RunFolder(out / "tool_use" / "seed-0")
    runs = {run.kind: run for run in read_runs(folder, 0)}
    assert set(runs) == {"training", "random_reward", "14"}, "those that were asked for"
    with (tmp_path / "data" / "tool_use.csv").open() as file:
        rows = list(csv.DictReader(file))
    places = {("train", "sampled", "1"), ("train", "sampled", "2")}
    places |= {("heldout", how, phase) for how in ("sampled", "greedy") for phase in ("before", "after")}
    found = {(row["kind"], row["split"], row["sampling"], row["phase"]) for row in rows}
    updated = {(kind, *place) for kind in ("training", "random_reward") for place in places}
    assert found == updated | {("14", "heldout", how, "before") for how in ("sampled", "greedy")}
    assert rates_of_episodes(tmp_path / "data" / "tool_use_episodes.csv") == {
        (row["kind"], row["seed"], row["split"], row["sampling"], row["phase"]): row["success"]
        for row in rows
        if row["split"] == "heldout"
    }
    assert runs["random_reward"].rows[0]["train/turns"] == runs["training"].rows[0]["train/turns"]  # one model
    assert (tmp_path / "figures" / "tool_use.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{BEGIN}\n\n`python -m examples.learning_study tool_use ")
    assert "\n| seed |  | before, % [95 %] | after, % [95 %] | difference, points [95 %] | " in text
    learned = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith(("| supervised", "| rewards"))]
    assert learned == [["| supervised", "12"], ["| rewards", "12"], ["| supervised", "14"]]
    assert "* seed 0: warm start: pass " in text
    assert "question text 0 of 2" in text
    models = [one.model for one in (folder, *folder.controls, *folder.baselines)]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\nseed-0 random_reward: ") == 2


def test_a_supervised_model_that_was_cut_off_is_marked_in_the_table(tmp_path):
    """Two passes of which the second is better, or two of which it is not."""
    folder = RunFolder(tmp_path / "seed-0")
    (tmp_path / "seed-0" / "baselines" / "14").mkdir(parents=True)
    write_passes(folder, passes(one(1, 0.1, 0.1), demonstrations=12))
    write_passes(folder.baseline(14), passes(one(1, 0.1, 0.1), converged=False))
    result = Evaluation(
        split="heldout", temperature=1.0, success_B=(True, False), task_B=("a", "b"), question_B=("a", "b"),
        unusable=0, tasks=2, questions=2,
    )  # fmt: skip
    both = {("before", "sampled"): result, ("before", "greedy"): result}
    runs = [Run("training", 0, (), both | {("after", how): result for how in ("sampled", "greedy")})]
    (table,) = supervised_table([*runs, Run("14", 0, (), both)], {0: folder})
    assert table.splitlines()[2:] == [
        "| supervised | 12 | 50.0, 50.0 |",
        "| rewards | 12 | 50.0, 50.0 |",
        "| supervised | 14 | 50.0, 50.0 (cut off) |",
    ]
    assert supervised_table(runs, {0: folder}) == []
