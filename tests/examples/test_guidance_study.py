"""The guidance study: what its demonstrations teach, what its runs share, and the whole command on one update."""

import csv
import json

import pytest

from examples.farming.report import BEGIN, END
from examples.guidance_study.__main__ import main, options
from examples.guidance_study.report import _filled
from examples.guidance_study.settings import DIALS, HELP, SETTINGS, config_of, wrong_keys
from examples.guidance_study.show import show_locks
from turngate.envs.lock import LockTasks, colours_of, key_of
from turngate.runs import RunFolder
from turngate.trainer.guidance import Helpers
from turngate.types import Ending, Evidence, Trajectory

TINY = (
    SETTINGS.read_text()
    .replace("layers = 2\nwidth = 64\nheads = 4", "layers = 1\nwidth = 32\nheads = 2")
    .replace("epochs = 12", "epochs = 1")
    .replace("tasks_per_step = 4\ngroup_size = 8", "tasks_per_step = 1\ngroup_size = 4")
    .replace("tasks = 50", "tasks = 2")
)


def test_demonstrations_follow_their_hints_and_tell_nothing_about_the_lock(tmp_path):
    show_locks(tmp_path / "shown.jsonl", 3, dials=DIALS, shown=400)
    rows = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    right, followed, presses, hinted = 0, 0, 0, 0
    for row in rows:
        colours = colours_of(LockTasks(DIALS).find(row["task"]))
        pressed = [action.removeprefix("press ") for action in row["actions"]]
        assert len(pressed) == DIALS
        named = dict(part.split(" takes ") for part in row["hint"].rstrip(".").split(", ")) if "hint" in row else {}
        followed += all(named[colour] == key for colour, key in zip(colours, pressed, strict=True) if colour in named)
        hinted += bool(named)
        right += sum(key == key_of(colour) for colour, key in zip(colours, pressed, strict=True))
        presses += DIALS
    assert followed == len(rows)
    assert hinted == 300
    assert abs(right / presses - 0.25) < 0.03  # no key is shown more often than by chance: four standard errors


def test_a_reflection_names_the_right_keys_of_the_wrong_turns():
    task = LockTasks(DIALS).task("train", 0)
    colours = colours_of(task)
    facts = [Evidence(name="right_key", value=turn not in (2, 5), turn=turn) for turn in range(DIALS)]
    attempt = Trajectory(id="a", task=task, turns=(), ending=Ending.FINISHED, seed=0, evidence=tuple(facts))
    turn, note = wrong_keys(attempt)
    assert turn == 0
    assert set(note.rstrip(".").split(", ")) == {f"{colours[turn]} takes {key_of(colours[turn])}" for turn in (2, 5)}


def test_runs_differ_in_their_help_only(tmp_path):
    configs = {kind: config_of(kind, 1, settings=SETTINGS, out=tmp_path, updates=3) for kind in HELP}
    for kind, config in configs.items():
        same = config.model_copy(update={"name": "plain-1", "guide": configs["plain"].guide})
        assert (config.name, same.model_dump()) == (f"{kind}-1", configs["plain"].model_dump())


def test_the_control_says_nothing_and_helps_as_often():
    class Told(Helpers):
        def hint(self, task, level):
            return "red takes a."

        def hint_levels(self, task):
            return 3

        def solutions(self, task):
            return ()

    task = LockTasks(DIALS).task("train", 0)
    kinds = {kind: config_of(kind, 0, settings=SETTINGS, out=SETTINGS.parent, updates=1).guide for kind in HELP}
    silent, guide = (kinds[kind].open(Told()) for kind in ("silent", "guide"))
    assert silent._helpers.hint(task, 3) == "Every dial takes one key."
    assert guide._helpers.hint(task, 3) == "red takes a."
    assert (silent._joining, silent._level) == (guide._joining, guide._level)


def test_an_update_without_unaided_episodes_keeps_the_value_before_it():
    assert _filled([None, 0.5, None, 0.25]) == [0.0, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--updates", "0"], ["--jobs", "0"], ["--kinds", "free"]])
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_the_command_trains_writes_and_does_not_repeat_itself(tmp_path, capsys, monkeypatch):
    from examples.guidance_study import training

    monkeypatch.setattr(training, "SHOWN", 24)
    page, out, settings = tmp_path / "guidance.md", tmp_path / "runs", tmp_path / "tiny.toml"
    page.write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    settings.write_text(TINY)
    command = ["--seeds", "1", "--updates", "1", "--jobs", "1", "--out", str(out), "--settings", str(settings)]
    command += ["--results", str(tmp_path)]
    main(command)
    with (tmp_path / "guidance.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["help"] for row in rows} == set(HELP)
    assert {row["evaluation"] for row in rows} == {
        "", *(f"{how} {phase}" for how in ("sampled", "greedy") for phase in ("before", "after"))
    }  # fmt: skip
    steps = {row["help"]: float(row["env_steps"]) for row in rows if row["update"] == "1"}
    assert 0 < steps["plain"] <= 4 * DIALS
    assert min(steps[kind] for kind in ("ladder", "guide", "silent", "bread")) > steps["plain"]  # help is counted
    assert (tmp_path / "guidance.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{BEGIN}\n\n`python -m examples.guidance_study --seeds 1")
    assert f"\n| {HELP['bread'].title} | " in text
    models = [RunFolder(out / name).model for name in ("start-0", *(f"{kind}-0" for kind in HELP))]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\nguide-0: ") == 2
