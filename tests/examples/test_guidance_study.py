"""The guidance study: what its demonstrations teach, what its runs share, and the whole command on one update."""

import csv
import json

import pytest

from examples.farming.report import marks
from examples.guidance_study import show
from examples.guidance_study.__main__ import as_many, main, options
from examples.guidance_study.report import Run, _filled
from examples.guidance_study.settings import (
    DIALS,
    ENVIRONMENTS,
    LOCK_HELP,
    SQL_HELP,
    config_of,
    start_config,
    wrong_keys,
)
from tests.helpers.episodes_csv import rates_of_episodes
from tests.helpers.smaller import smaller
from turngate.envs.lock import LockTasks, colours_of, key_of
from turngate.run.environments import Environments
from turngate.store.folder import RunFolder
from turngate.trainer.guidance.base import Helpers
from turngate.types import Ending, Evidence, Trajectory

LOCK, SQL = ENVIRONMENTS["lock"].settings, ENVIRONMENTS["sql"].settings
SMALL_GROUPS = {"train.tasks_per_step": 1, "train.group_size": 4, "eval.tasks": 2}
TINY = smaller(LOCK, {"model.layers": 1, "model.width": 32, "model.heads": 2, "warm_start.epochs": 1, **SMALL_GROUPS})
TINY_SQL = smaller(
    SQL,
    {
        **{"model.layers": 1, "model.width": 32, "warm_start.epochs": 2, "warm_start.validation": None},
        **{"policy.turn_tokens": 40, "env.kwargs.max_turns": 4},  # a new model says nothing short
        **SMALL_GROUPS,
    },
)


def test_demonstrations_follow_their_hints_and_tell_nothing_about_the_lock(tmp_path):
    config = start_config("lock", 3, settings=LOCK, out=tmp_path)
    show.show_locks(tmp_path / "shown.jsonl", 3, config, dials=DIALS)
    rows = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    right, followed, presses, hinted, whole = 0, 0, 0, 0, 0
    for row in rows:
        colours = colours_of(LockTasks(DIALS).find(row["task"]))
        pressed = [action.removeprefix("press ") for action in row["actions"]]
        assert len(pressed) == DIALS
        named = dict(part.split(" takes ") for part in row["hint"].rstrip(".").split(", ")) if "hint" in row else {}
        followed += all(named[colour] == key for colour, key in zip(colours, pressed, strict=True) if colour in named)
        hinted += bool(named)
        whole += set(named) == set(colours)
        right += sum(key == key_of(colour) for colour, key in zip(colours, pressed, strict=True))
        presses += DIALS
    assert followed == len(rows)
    assert hinted == 1200
    assert whole >= 800
    assert abs(right / presses - 0.25) < 0.03  # no key is shown more often than by chance: four standard errors


def test_every_second_query_shows_a_hint_of_its_task(tmp_path):
    config = start_config("sql", 1, settings=SQL, out=tmp_path)
    show.show_queries(tmp_path / "shown.jsonl", 1, config)
    rows = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    assert ["hint" in row for row in rows] == [False, True] * (show.QUERIES // 2)
    with Environments(config.env) as environments:
        ((_, env),) = environments
        for row in rows[:8]:
            task = env.tasks.find(row["task"])
            assert row["actions"] == list(env.oracle(task))
            assert row.get("hint", env.hint(task, 1)) in {env.hint(task, level) for level in range(1, 5)}


def test_a_reflection_names_the_right_keys_of_the_wrong_turns():
    task = LockTasks(DIALS).task("train", 0)
    colours = colours_of(task)
    facts = [Evidence(name="right_key", value=turn not in (2, 5), turn=turn) for turn in range(DIALS)]
    attempt = Trajectory(id="a", task=task, turns=(), ending=Ending.FINISHED, seed=0, evidence=tuple(facts))
    turn, note = wrong_keys(attempt)
    assert turn == 0
    assert set(note.rstrip(".").split(", ")) == {f"{colours[turn]} takes {key_of(colours[turn])}" for turn in (2, 5)}


def test_runs_differ_in_their_help_only(tmp_path):
    for place, environment in ENVIRONMENTS.items():
        same_for_all = {"settings": environment.settings, "out": tmp_path, "updates": 3}
        configs = {kind: config_of(place, kind, 1, **same_for_all) for kind in environment.help}
        for kind, config in configs.items():
            same = config.model_copy(update={"name": "plain-1", "guide": configs["plain"].guide})
            assert (config.name, same.model_dump()) == (f"{kind}-1", configs["plain"].model_dump())


def test_as_many_steps_as_the_run_that_plays_most():
    def played(kind, *steps):
        return Run(kind, 0, (), (0.0,) * len(steps), steps, {}, 0.0)

    runs = [played("plain", 10, 30), played("bread", 50, 51), played("ladder", 20, 20)]
    assert as_many(runs) == 6  # 101 steps at 20 an update
    assert as_many(runs[:1]) == 2


def test_the_control_says_nothing_and_helps_as_often():
    class Told(Helpers):
        seed = 0

        def hint(self, task, level):
            return "red takes a."

        def hint_levels(self, task):
            return 3

        def solutions(self, task):
            return ()

    task = LockTasks(DIALS).task("train", 0)
    fixed = {"settings": LOCK, "out": LOCK.parent, "updates": 1}
    kinds = {kind: config_of("lock", kind, 0, **fixed).guide for kind in LOCK_HELP}
    silent, guide = (kinds[kind].open(Told()) for kind in ("silent", "guide"))
    assert silent._helpers.hint(task, 3) == "Every dial takes one key."
    assert guide._helpers.hint(task, 3) == "red takes a."
    assert (silent._part.joining, silent._part.level) == (guide._part.joining, guide._part.level)


def test_an_update_without_unaided_episodes_keeps_the_value_before_it():
    assert _filled([None, 0.5, None, 0.25]) == [0.0, 0.5, 0.5, 0.25]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--seeds", "0"],
        ["--updates", "0"],
        ["--jobs", "0"],
        ["--kinds", "free"],
        ["--envs", "chess"],
        ["--settings", "a"],
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_the_command_trains_writes_and_does_not_repeat_itself(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(show, "LOCKS", 24)
    page, out, settings = tmp_path / "guidance.md", tmp_path / "runs", tmp_path / "tiny.toml"
    begin, end = marks("lock")
    page.write_text(f"Title\n\n{begin}\nold\n{end}\n\nAfterwards\n")
    settings.write_text(TINY)
    command = ["--envs", "lock", "--seeds", "1", "--updates", "1", "--jobs", "1", "--settings", str(settings)]
    command += ["--out", str(out), "--results", str(tmp_path)]
    main(command)
    rows = _rows(tmp_path / "data" / "guidance_lock.csv")
    assert {row["help"] for row in rows} == set(LOCK_HELP)
    assert {row["evaluation"] for row in rows} == {
        "", *(f"{how} {phase}" for how in ("sampled", "greedy") for phase in ("before", "after"))
    }  # fmt: skip
    steps = {row["help"]: float(row["env_steps"]) for row in rows if row["update"] == "1"}
    assert 0 < steps["plain"] <= 4 * DIALS
    assert min(steps[kind] for kind in ("ladder", "guide", "silent", "bread")) > steps["plain"]  # help is counted
    assert rates_of_episodes(tmp_path / "data" / "guidance_lock_episodes.csv") == {
        (row["help"], "0", row["split"], *row["evaluation"].split()): row["unaided_success"]
        for row in rows
        if row["evaluation"]
    }
    assert (tmp_path / "figures" / "guidance_lock.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{begin}\n\n`python -m examples.guidance_study --envs lock --seeds 1")
    assert f"\n| {LOCK_HELP['bread'].title} | " in text
    models = [RunFolder(out / "lock" / name).model for name in ("start-0", *(f"{kind}-0" for kind in LOCK_HELP))]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\nlock guide-0: ") == 2


def test_sql_is_trained_without_help_for_as_many_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(show, "QUERIES", 12)
    settings = tmp_path / "tiny.toml"
    settings.write_text(TINY_SQL)
    command = ["--envs", "sql", "--seeds", "1", "--updates", "1", "--jobs", "1", "--settings", str(settings)]
    main([*command, "--kinds", "plain", "bread", "longer", "--out", str(tmp_path / "runs")])
    rows = _rows(tmp_path / "runs" / "data" / "guidance_sql.csv")
    assert {row["split"] for row in rows} == {"", "heldout", "newfamily"}
    played = {
        kind: [float(row["env_steps"]) for row in rows if row["help"] == kind and row["update"]] for kind in SQL_HELP
    }
    assert played["ladder"] == []
    assert len(played["longer"]) > 1
    assert 0 < played["plain"][0] < played["bread"][0]


def _rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))
