"""The study of a help desk and of documents: what is trained on, and the whole command on two updates."""

import csv

import pytest

import turngate
from examples.farming.report import BEGIN, END
from examples.learning_study.__main__ import EXAMPLES, TITLES, main, options
from examples.learning_study.report import read_runs
from examples.learning_study.training import config_of
from turngate.config import load
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.run.splits import split_overlaps
from turngate.runs import RunFolder

SMALL = (
    ("layers = 3\nwidth = 128\nheads = 4", "layers = 1\nwidth = 32\nheads = 2"),
    ("episodes = 400", "episodes = 12"),
    ("episodes = 200", "episodes = 12"),
    ("epochs = 12", "epochs = 2"),
    ("epochs = 16", "epochs = 2"),
    ("tasks = 40\nevery = 3", "tasks = 2\nevery = 1"),
    ("tasks = 40\nevery = 4", "tasks = 2\nevery = 1"),
    ("turn_tokens = 14", "turn_tokens = 8"),
    ("turn_tokens = 10", "turn_tokens = 8"),
    ("lanes = 128", "lanes = 8"),
    ("tasks_per_step = 16\ngroup_size = 8", "tasks_per_step = 2\ngroup_size = 2"),
    ("minibatches = 2", "minibatches = 1"),
    ("tasks = 150", "tasks = 2"),
)


def small(study, folder):
    text = (EXAMPLES / f"{study}_demo.toml").read_text()
    for whole, part in SMALL:
        text = text.replace(whole, part)
    file = folder / "small.toml"
    file.write_text(text)
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


@pytest.mark.parametrize("study", ["tool_use"])
def test_the_command_trains_writes_and_does_not_repeat_itself(study, tmp_path, capsys):
    page, out = tmp_path / f"{study}.md", tmp_path / "runs"
    page.write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    command = [study, "--settings", str(small(study, tmp_path)), "--seeds", "1", "--updates", "2", "--jobs", "1"]
    command += ["--out", str(out), "--results", str(tmp_path)]
    main(command)
    folder = RunFolder(out / study / "seed-0")
    runs = {run.kind: run for run in read_runs(folder, 0)}
    assert set(runs) == {"training", "shuffled_credit", "random_reward"}
    with (tmp_path / f"{study}.csv").open() as file:
        rows = list(csv.DictReader(file))
    places = {("train", "sampled", "1"), ("train", "sampled", "2")}
    places |= {("heldout", how, phase) for how in ("sampled", "greedy") for phase in ("before", "after")}
    assert {(row["kind"], row["split"], row["sampling"], row["phase"]) for row in rows} == {
        (kind, *place) for kind in runs for place in places
    }
    assert runs["random_reward"].rows[0]["train/turns"] == runs["training"].rows[0]["train/turns"]  # one model
    assert (tmp_path / f"{study}.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{BEGIN}\n\n`python -m examples.learning_study {study} ")
    assert "\n| seed |  | before, % [95 %] | after, % [95 %] | difference, points [95 %] | " in text
    assert "* seed 0: passes: chosen " in text
    assert "question text 0 of 2" in text
    models = [folder.model, *(control.model for control in folder.controls)]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\nseed-0 shuffled_credit: ") == 2
