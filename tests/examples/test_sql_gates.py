"""The study of look-ups that are paid: what can be said of its rubrics, what its runs share, and the whole command."""

import csv
import json
import pickle

import pytest

import turngate
from examples.farming.report import BEGIN, END
from examples.sql_gates.__main__ import main, options
from examples.sql_gates.report import MEASURES, foretold
from examples.sql_gates.settings import DIRECT, GATED, OUTCOME, PAYMENTS, SETTINGS, config_of, shown_file, start_config
from examples.sql_gates.shown import show_repeats
from examples.sql_gates.training import Wanted, train
from tests.helpers.episodes_csv import rates_of_episodes
from turngate.config.run_config import load
from turngate.envs.sql.env import SqlEnv
from turngate.store.folder import RunFolder
from turngate.types import Record

TINY = """
name = "tiny"
[env]
id = "turngate/Sql-v1"
[env.kwargs]
max_turns = 5
[env.tasks]
type = "lookup_sql"
families = ["parcels"]
lookups = ["code"]
max_level = 1
databases = 1
[model]
layers = 1
width = 16
heads = 1
vocabulary = 300
[warm_start]
episodes = 4
[policy]
turn_tokens = 24
context = 640
concurrency = 4
[learner]
lr = 1e-3
[credit]
type = "gigpo"
[train]
tasks_per_step = 1
group_size = 2
[eval]
splits = ["heldout"]
tasks = 2
"""


def test_summed_look_ups_outrank_an_answer_and_gated_ones_do_not():
    assert not DIRECT.check().safe
    assert GATED.check().safe
    assert OUTCOME.check().safe
    said = "\n".join(foretold())
    assert "direct is UNSAFE" in said
    assert "gated is safe" in said
    assert GATED.rewards == DIRECT.rewards


@pytest.mark.parametrize(("rubric", "honest", "farmed"), [(DIRECT, 1.5, 2.0), (GATED, 1.25, 0.0), (OUTCOME, 1.0, 0.0)])
def test_what_an_honest_and_a_farming_episode_are_paid(rubric, honest, farmed):
    assert total(rubric, "honest") == pytest.approx(honest)
    assert total(rubric, "farm") == pytest.approx(farmed)


def total(rubric, how):
    """What is paid to the oracle, and to an agent that repeats a look-up for all its turns but two."""
    section = load(SETTINGS).env[0]
    env = SqlEnv(**section.arguments)
    tasks = (env.tasks.task("train", number) for number in range(20))
    task = next(task for task in tasks if len(task.private["needs"]) == 2)
    turns = list(env.oracle(task))
    turns = turns if how == "honest" else [*turns[:2], *[turns[2]] * 8]
    env.reset(seed=0, options={"task": task})
    facts = []
    for turn in turns:
        *_, info = env.step(turn)
        facts += info["evidence"]
    env.close()
    record = Record(task_id=task.id, n_turns=len(turns), ending=info["ending"], evidence=tuple(facts))
    return rubric.score(record).total


def test_runs_differ_in_what_is_paid_only(tmp_path):
    configs = {
        kind: config_of(kind, 1, settings=SETTINGS, out=tmp_path, repeated=False, updates=3) for kind in PAYMENTS
    }
    for kind, config in configs.items():
        (section,) = config.env
        assert (config.name, config.train.steps, section.allow_unsafe) == (f"{kind}-1", 3, kind == "direct")
        same = {"rubric": configs["gated"].env[0].rubric, "allow_unsafe": False}
        unpaid = config.model_copy(update={"name": "gated-1", "env": (section.model_copy(update=same),)})
        assert unpaid.model_dump() == configs["gated"].model_dump()


def test_half_of_the_shown_episodes_repeat_a_look_up_and_all_are_imitated(tmp_path):
    given = {"settings": SETTINGS, "out": tmp_path, "repeated": True}
    config, file = start_config(1, **given), shown_file(1, out=tmp_path)
    assert (config.warm_start.demonstrations, config.warm_start.episodes) == (file, None)
    assert config_of("gated", 1, **given, updates=3).warm_start == config.warm_start
    show_repeats(file, 1, config)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    repeated = [len(row["actions"]) - len(dict.fromkeys(row["actions"])) for row in rows]
    assert len(rows) == 200
    assert 80 <= sum(n > 0 for n in repeated) <= 120
    assert set(repeated) == {0, 1, 2, 3}
    (section,) = config.env
    env = turngate.make(section.id, **section.arguments)
    for row in rows[:8]:
        env.reset(seed=0, options={"task": row["task"]})
        for action in row["actions"]:
            *_, terminated, _, info = env.step(action)
        assert (terminated, info["score"].outcome) == (True, 1.0)
    env.close()


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--updates", "0"], ["--jobs", "0"], ["--kinds", "free"]])
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_other_processes_can_be_sent_its_runs(tmp_path):
    wanted = Wanted("gated", 1, tmp_path / "tiny.toml", tmp_path, 1, False)
    assert pickle.loads(pickle.dumps((train, wanted))) == (train, wanted)


def test_the_command_trains_writes_and_does_not_repeat_itself(tmp_path, capsys):
    page, out, settings = tmp_path / "sql_gates.md", tmp_path / "runs", tmp_path / "tiny.toml"
    page.write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    settings.write_text(TINY)
    command = ["--seeds", "1", "--updates", "1", "--jobs", "1", "--out", str(out), "--settings", str(settings)]
    command += ["--results", str(tmp_path)]
    main(command)
    with (tmp_path / "data" / "sql_gates.csv").open() as file:
        rows = list(csv.DictReader(file))
    places = [("train", "sampled", "1")]
    places += [("heldout", how, phase) for how in ("sampled", "greedy") for phase in ("before", "after")]
    assert {(row["kind"], row["split"], row["sampling"], row["phase"], row["measure"]) for row in rows} == {
        (kind, *place, measure) for kind in PAYMENTS for place in places for measure in MEASURES
    }
    turns = [row["value"] for row in rows if (row["phase"], row["measure"]) == ("1", "turns")]
    assert len(set(turns)) == 1  # one model to begin with, the same tasks and the same samples
    assert rates_of_episodes(tmp_path / "data" / "sql_gates_episodes.csv") == {
        (row["kind"], "0", row["split"], row["sampling"], row["phase"]): row["value"]
        for row in rows
        if (row["split"], row["measure"]) == ("heldout", "success")
    }
    assert (tmp_path / "figures" / "sql_gates.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{BEGIN}\n\n`python -m examples.sql_gates --seeds 1")
    assert "\n| share of episodes that are won | greedy | shuffled | " in text
    models = [RunFolder(out / name).model for name in ("start-0", *(f"{kind}-0" for kind in PAYMENTS))]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\ngated-0: ") == 2
