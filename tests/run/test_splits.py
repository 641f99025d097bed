"""Splits that are not apart: told before training, refused with --strict, and told again with the results."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate
from turngate.config.run_config import parse
from turngate.envs.sql.engine.skeleton import normalised, skeleton
from turngate.errors import ConfigError
from turngate.run.checks.split_overlap import split_overlaps
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.trainer.evaluation.overlap import SplitOverlap

SQL = {"id": "turngate/Sql-v1", "kwargs": {"max_rows": 3}}


def overlaps(tasks: dict[str, object], **changes: object) -> dict[str, SplitOverlap]:
    evaluated = {"splits": ["heldout", "newfamily", "train"], "tasks": 60}
    train = {"steps": 10, "tasks_per_step": 12}
    config = parse({"env": {**SQL, "tasks": tasks}, "eval": evaluated, "train": train, "warm_start": {"episodes": 80}})
    with Environments(config.env) as environments:
        return {found.split: found for found in split_overlaps(config, environments)}


def test_look_up_tasks_are_apart_from_those_that_are_held_out():
    found = overlaps({"type": "lookup_sql"})
    assert list(found) == ["heldout", "newfamily"]
    for split in found.values():
        counts = {name: shared.count for name, shared in split.shared.items()}
        assert (counts["question text"], counts["gold query"], counts["database"]) == (0, 0, 0)
        assert (split.trained, split.tasks, split.leaks) == (200, 60, ())
        assert 57 <= split.questions <= 60
    assert found["heldout"].shared["query skeleton"].count > 0, "some of the same skeletons, to be filled otherwise"
    assert found["newfamily"].shared["query skeleton"].count == 0


def test_a_small_generated_set_shares_gold_queries():
    found = overlaps({"type": "generated_sql", "families": ["shop", "bank"], "shapes": ["count_all", "maximum"]})
    assert found["heldout"].leaks == ("gold query",)
    assert found["heldout"].shared["question text"].count == 0
    assert "gold query that 200 training tasks have too" in found["heldout"].problem


LEAKING = """
import turngate
from turngate.types import Task
import sqlite3

connection = sqlite3.connect(":memory:")
connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
IMAGE = connection.serialize()

def tasks(*, leak: bool = True):
    for n in range(8):
        split = "train" if n < 6 else "heldout"
        asked = n % 6 if leak else n
        private = {"database": IMAGE, "key": "k", "gold": f"SELECT a + {asked} FROM t", "ordered": False}
        yield Task(id=f"own/{n}", env_id="turngate/Sql-v1", prompt=f"number {asked}", private=private, split=split)
"""


def test_strict_refuses_a_leak_that_is_otherwise_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "leaking_tasks.py").write_text(LEAKING)
    monkeypatch.syspath_prepend(str(tmp_path))

    def job(*, strict: bool, leak: bool) -> Job:
        env = {**SQL, "tasks": {"type": "leaking_tasks:tasks", "leak": leak}}
        data = {
            "env": env,
            "warm_start": {"episodes": 2},
            "folder": str(tmp_path / "runs"),
            "train": {"tasks_per_step": 2},
        }
        return Job(parse(data), Console(quiet=True), strict=strict)

    with pytest.raises(ConfigError, match=r"'heldout' is not apart.* 2 of 2 tasks have a question text and 2 of 2"):
        job(strict=True, leak=True)
    assert not (tmp_path / "runs").exists()
    for strict, leak in ((False, True), (True, False)):
        job(strict=strict, leak=leak).environments.close()


def test_the_command_tells_before_training_and_with_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = write_config(tmp_path, steps=1)
    (tmp_path / "asked_alike.py").write_text(
        "from turngate.envs.lock import LockTasks\n"
        "from turngate.envs.tasks import TaskList\n"
        "from dataclasses import replace\n"
        "def tasks():\n"
        "    found = [LockTasks().task(s, n) for s in ('train', 'heldout') for n in range(6)]\n"
        "    return [replace(t, prompt=f'{t.prompt} ({t.id[-1]})') for t in found]\n"
    )
    text = config.read_text().replace('id = "turngate/Lock-v1"', 'id = "turngate/Lock-v1"\ntasks = "asked_alike:tasks"')
    config.write_text(text)
    assert turngate("train", config, "--strict") == 2
    said = capsys.readouterr().err
    assert "error: eval.splits: split 'heldout' is not apart from training: 4 of 4 tasks have a question text" in said
    assert not (tmp_path / "runs").exists()
    assert turngate("train", config) == 0
    said = capsys.readouterr().out
    warning = "warning: split 'heldout' is not apart from training: 4 of 4 tasks have a question text"
    assert said.count(warning) == 2, "before training, and beside the table"
    (row,) = json.loads((tmp_path / "runs/lock/overlap.json").read_text())["splits"]
    assert row["shared"] == {"question text": {"count": 4, "n": 4}}
    assert warning in (tmp_path / "runs/lock/report/summary.md").read_text()


def test_queries_are_compared_with_and_without_literals():
    one = "SELECT  count(*) FROM t2 WHERE Code = 'aB''1' AND n > 2.5 LIMIT 3;"
    assert normalised(one) == "select count(*) from t2 where code = 'aB''1' and n > 2.5 limit 3"
    assert skeleton(one) == "select count(*) from t2 where code = ? and n > ? limit ?"
    assert normalised("SELECT 'a  B'") == "select 'a  B'"
    assert skeleton('SELECT "a 1", t1.x2 FROM t1') == 'select "a 1", t1.x2 from t1'
    assert skeleton("SELECT a FROM t WHERE b LIKE '2024-03%'") == skeleton("select a from t where b like '%x'")
