"""Real data as tasks.

1. Spider, BIRD and own files load with the layout in which they are published.
2. A malformed row names file, record or line, and field; nothing is half-loaded.
3. What cannot be graded is dropped, counted and named.
"""

import json
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turngate.envs.sql.engine.database import content_key
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.loaders.question_files import bird, jsonl, spider
from turngate.envs.tasks import Dropped
from turngate.errors import ConfigError, DataError, UnknownName

Row = dict[str, Any]
GOOD: Row = {"db_id": "library", "question": "Which titles?", "query": "SELECT title FROM books ORDER BY price"}


def write_spider(folder: Path, image: bytes, rows: object, name: str = "dev.json") -> Path:
    (folder / "database" / "library").mkdir(parents=True, exist_ok=True)
    (folder / "database" / "library" / "library.sqlite").write_bytes(image)
    (folder / "tables.json").write_text("[]")
    (folder / name).write_text(rows if isinstance(rows, str) else json.dumps(rows))
    return folder


def write_bird(folder: Path, image: bytes, rows: list[Row], split: str = "dev") -> Path:
    (folder / f"{split}_databases" / "library").mkdir(parents=True)
    (folder / f"{split}_databases" / "library" / "library.sqlite").write_bytes(image)
    (folder / f"{split}.json").write_text(json.dumps(rows))
    return folder


def test_spider(tmp_path: Path, library: bytes) -> None:
    count = {"db_id": "library", "question": "How many?", "query": "select count(*) from loans", "query_toks": []}
    loaded = spider(write_spider(tmp_path, library, [GOOD, count]), "dev")
    path = str(tmp_path / "database" / "library" / "library.sqlite")
    first, second = loaded.task("dev", 0), loaded.task("dev", 1)
    assert (first.id, first.env_id, first.prompt, first.split) == (
        "spider/dev/0",
        "turngate/Sql-v1",
        "Which titles?",
        "dev",
    )
    assert first.private == {
        "database": path,
        "key": content_key(library),
        "gold": "SELECT title FROM books ORDER BY price",
        "ordered": True,
        "tables": ("books",),
    }
    assert (second.id, second.private["ordered"], second.private["tables"]) == ("spider/dev/1", False, ("loans",))
    assert (loaded.splits, loaded.size("dev"), loaded.dropped) == (("dev",), 2, ())


def test_spider_train_has_its_own_file(tmp_path: Path, library: bytes) -> None:
    loaded = spider(write_spider(tmp_path, library, [GOOD], "train_spider.json"), "train")
    assert loaded.task("train", 0).id == "spider/train/0"


@pytest.mark.parametrize("split", ["dev", "train"])
def test_bird(tmp_path: Path, library: bytes, split: str) -> None:
    rows: list[Row] = [
        {
            **{"question_id": 17, "db_id": "library", "question": "How many cheap books?"},
            **{"evidence": "cheap means price < 5", "SQL": "SELECT count(*) FROM books WHERE price < 5"},
        },
        {"db_id": "library", "question": "Who?", "evidence": "", "SQL": "SELECT name FROM authors"},
    ]
    loaded = bird(write_bird(tmp_path, library, rows, split), split)
    assert [(task.id, task.prompt) for task in (loaded.task(split, 0), loaded.task(split, 1))] == [
        (f"bird/{split}/17", "How many cheap books?\nEvidence: cheap means price < 5"),
        (f"bird/{split}/1", "Who?"),
    ]


def test_own_files(tmp_path: Path, library: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(library)
    lines = [
        {"question": "a", "sql": "SELECT name FROM authors ORDER BY name", "id": "mine"},
        {"question": "b", "sql": "SELECT name FROM authors ORDER BY name", "ordered": False},
        {"question": "c", "sql": "SELECT name FROM authors", "ordered": True},
    ]
    (tmp_path / "q.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    loaded = jsonl(tmp_path / "x.sqlite", tmp_path / "q.jsonl")
    tasks = [loaded.task("train", i) for i in range(3)]
    assert [(task.id, task.private["ordered"]) for task in tasks] == [("mine", True), ("q/3", False), ("q/5", True)]


def test_loaded_tasks_can_be_played(tmp_path: Path, library: bytes) -> None:
    loaded = spider(write_spider(tmp_path, library, [GOOD]))
    env = SqlEnv(tasks=loaded)
    env.reset(seed=0)
    total = 0.0
    for action in env.oracle(loaded.task("dev", 0)):
        total += env.step(action)[1]
    assert total == pytest.approx(1.1)
    env.close()


# --- malformed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "field", "message"),
    [
        ({"db_id": "library", "question": "q"}, "query", "record 1: is missing"),
        ({**GOOD, "query": 3}, "query", "record 1: must be a text, got 3"),
        ({**GOOD, "question": ""}, "question", "record 1: is empty"),
        ({**GOOD, "db_id": "../library"}, "db_id", "record 1: '../library' is not the name of a database"),
        ({**GOOD, "db_id": ".."}, "db_id", "record 1: '..' is not the name of a database"),
        ({**GOOD, "db_id": "nowhere"}, "db_id", "record 1: there is no database file"),
        ("text", None, "record 1: must be a JSON object, got 'text'"),
    ],
)
def test_a_malformed_record(tmp_path: Path, library: bytes, bad: object, field: str | None, message: str) -> None:
    write_spider(tmp_path, library, [GOOD, bad])
    with pytest.raises(DataError) as caught:
        spider(tmp_path)
    assert (caught.value.path, caught.value.field) == (str(tmp_path / "dev.json"), field)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[\n{"db_id": 1,\n]', 3, "is not JSON"),
        ('{"a": 1}', None, "must be a list of questions"),
        ("", 1, "is not JSON"),
        ("9" * 5000, None, "is not readable JSON"),
        ("[" * 100_000, None, "is not readable JSON"),
    ],
)
def test_a_malformed_file(tmp_path: Path, library: bytes, text: str, line: int | None, message: str) -> None:
    write_spider(tmp_path, library, text)
    with pytest.raises(DataError, match=message) as caught:
        spider(tmp_path)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ('{"question": "q"}', "sql", "is missing"),
        ('{"question": "q", "sql": "SELECT 1", "ordered": "yes"}', "ordered", "must be true or false, got 'yes'"),
        ('{"question": "q", "sql"', None, "is not JSON"),
        ("[]", None, r"must be a JSON object, got \[\]"),
    ],
)
def test_a_malformed_line(tmp_path: Path, library: bytes, line: str, field: str | None, message: str) -> None:
    (tmp_path / "x.sqlite").write_bytes(library)
    (tmp_path / "q.jsonl").write_text('{"question": "q", "sql": "SELECT 1"}\n' + line)
    with pytest.raises(DataError, match=message) as caught:
        jsonl(tmp_path / "x.sqlite", tmp_path / "q.jsonl")
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(tmp_path / "q.jsonl"), 2, field)


def test_what_is_not_there(tmp_path: Path, library: bytes) -> None:
    with pytest.raises(DataError, match=r"dev\.json: cannot be read: No such file"):
        spider(tmp_path)
    with pytest.raises(DataError, match="no such database file"):
        jsonl(tmp_path / "x.sqlite", tmp_path / "q.jsonl")
    with pytest.raises(UnknownName, match="'test'"):
        spider(tmp_path, "test")
    with pytest.raises(UnknownName, match="'dev'"):
        bird(tmp_path, "deve")
    (tmp_path / "dev.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        spider(tmp_path)


def test_an_id_used_twice(tmp_path: Path, library: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(library)
    (tmp_path / "q.jsonl").write_text('{"question": "q", "sql": "SELECT 1", "id": "a", "ordered": false}\n' * 2)
    said = r"q\.jsonl, line 2, field 'id': the id 'a' is used twice, first in line 1$"
    with pytest.raises(DataError, match=said):
        jsonl(tmp_path / "x.sqlite", tmp_path / "q.jsonl")


# --- dropped ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_graded_is_dropped_and_named(
    tmp_path: Path, library: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT max(x) FROM c"
    queries = ["SELECT nope FROM books", GOOD["query"], "SELECT title FROM books WHERE 0", endless, "DELETE FROM books"]
    write_spider(tmp_path, library, [{**GOOD, "query": query} for query in queries])
    with caplog.at_level(logging.WARNING):
        loaded = spider(tmp_path, deadline_s=0.2)
    assert loaded.size("dev") == 1
    assert loaded.task("dev", 0).id == "spider/dev/1"
    assert loaded.dropped == (
        Dropped(id="spider/dev/0", reason="the gold query fails: no such column: nope"),
        Dropped(id="spider/dev/2", reason="the gold query returns no rows, so there is nothing to compare with"),
        Dropped(id="spider/dev/3", reason="the gold query fails: stopped after 0.2 s"),
        Dropped(id="spider/dev/4", reason="the gold query fails: the database is read-only; only SELECT is allowed"),
    )
    assert "dropped 4 of 5" in caplog.text


def test_a_corrupt_database_drops_its_questions(tmp_path: Path, library: bytes) -> None:
    write_spider(tmp_path, library[:100] + b"\xff" * (len(library) - 100), [GOOD])
    loaded = spider(tmp_path)
    assert [(entry.id, entry.reason) for entry in loaded.dropped] == [
        ("spider/dev/0", "the gold query fails: database disk image is malformed")
    ]
    with pytest.raises(
        ConfigError, match="no tasks; the first that cannot be used is spider/dev/0: the gold query fails"
    ):
        SqlEnv(tasks=loaded)


def test_the_files_stay_as_they_are(tmp_path: Path, library: bytes, make_image: Callable[[str], bytes]) -> None:
    write_spider(tmp_path, library, [GOOD, {**GOOD, "query": "DELETE FROM books"}])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    spider(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    connection = sqlite3.connect(tmp_path / "database" / "library" / "library.sqlite")
    assert connection.execute("SELECT count(*) FROM books").fetchone() == (4,)
    connection.close()
