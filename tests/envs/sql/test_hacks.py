"""Traps that public SQL evaluators fell into, sprung on ours: each earned reward, or broke the host, somewhere."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Task

MakeTask = Callable[..., Task]
TITLES = "SELECT title FROM books"
ORDERED = "SELECT title FROM books ORDER BY price, title"
DOUBLES = "SELECT author_id FROM books"  # 1, 1, 2, 2


def outcome(task: Task, *actions: str) -> tuple[bool, float]:
    """Whether the answer was found correct, and the total reward."""
    env = SqlEnv(tasks=TaskList([task]), deadline_s=0.5)
    env.reset(options={"task": task})
    total = 0.0
    for action in actions:
        _, reward, _, _, info = env.step(action)
        total += reward
    env.close()
    return next(fact.value for fact in info["evidence"] if fact.name == "correct") is True, total


def test_the_honest_way_wins(make_task: MakeTask) -> None:
    for gold, ordered in ((TITLES, False), (ORDERED, True), (DOUBLES, False)):
        assert outcome(make_task(gold, ordered=ordered), f"submit {gold}") == (True, 1.1)


@pytest.mark.parametrize(
    "first", ["run_sql DELETE FROM books", "run_sql DROP TABLE books", "run_sql UPDATE books SET title = 'x'"]
)
@pytest.mark.parametrize("answer", ["SELECT 1 WHERE 0", "DELETE FROM books", "SELECT 'x' FROM books"])
def test_delete_then_compare(make_task: MakeTask, first: str, answer: str) -> None:
    """Emptying the table makes a gold query that runs on the same connection return nothing, which then "matches"."""
    assert outcome(make_task(TITLES), first, f"submit {answer}") == (False, -1.0)


@pytest.mark.parametrize("answer", ["SELECT 1 WHERE 0", "SELECT title FROM books WHERE 0", "SELECT NULL WHERE 0"])
def test_constant_empty_query(make_task: MakeTask, answer: str) -> None:
    assert outcome(make_task(TITLES), f"submit {answer}") == (False, 0.0)


@pytest.mark.parametrize("answer", ["ORDER BY price DESC, title DESC", "ORDER BY title DESC"])
def test_reversed_order(make_task: MakeTask, answer: str) -> None:
    assert outcome(make_task(ORDERED, ordered=True), f"submit {TITLES} {answer}") == (False, 0.0)


@pytest.mark.parametrize("answer", ["SELECT DISTINCT author_id FROM books", "SELECT author_id FROM books GROUP BY 1"])
def test_duplicates_erased(make_task: MakeTask, answer: str) -> None:
    assert outcome(make_task(DOUBLES), f"submit {answer}") == (False, 0.0)


def test_duplicates_moved(make_task: MakeTask) -> None:
    answer = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 2 UNION ALL SELECT 2"
    assert outcome(make_task(DOUBLES), f"submit {answer}") == (False, 0.0)


@pytest.mark.parametrize("width", [2, 50, 1000])
def test_shotgun_table(make_task: MakeTask, width: int) -> None:
    """Many columns, one of which is bound to hold the answer."""
    guesses = ", ".join(["title", *(str(i) for i in range(width - 1))])
    assert outcome(make_task(TITLES), f"submit SELECT {guesses} FROM books") == (False, 0.0)


def test_scrambled_rows(make_task: MakeTask) -> None:
    """Every column right on its own, the rows torn apart."""
    gold = "SELECT id, title FROM books"
    answer = "SELECT b.id, c.title FROM books AS b JOIN books AS c ON c.id = 5 - b.id"
    assert outcome(make_task(gold), f"submit {gold}")[0]
    assert outcome(make_task(gold), f"submit {answer}") == (False, 0.0)


def test_fifty_copies_of_a_row(make_task: MakeTask) -> None:
    answer = (
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50) "
        "SELECT title FROM books CROSS JOIN c"
    )
    assert outcome(make_task(TITLES), f"submit {answer}") == (False, 0.0)


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("SELECT 1", "SELECT '1'", False),
        ("SELECT '1'", "SELECT 1", False),
        ("SELECT 1", "SELECT 1.0", True),
        ("SELECT NULL", "SELECT 0", False),
        ("SELECT NULL", "SELECT 'NULL'", False),
        ("SELECT NULL", "SELECT NULL", True),
        ("SELECT 0.001", "SELECT 0.009", False),
        ("SELECT 1234566890", "SELECT 1234567890.5", False),
        ("SELECT 1234566890.5", "SELECT 1234567890.5", False),
        ("SELECT 9 UNION SELECT 1234566890", "SELECT 9.0000001 UNION SELECT 1234566891", False),
        ("SELECT 0.1 + 0.2", "SELECT 0.3", True),
        ("SELECT 'x'", "SELECT CAST('x' AS BLOB)", False),
    ],
)
def test_values_of_another_kind(make_task: MakeTask, gold: str, answer: str, correct: bool) -> None:
    assert outcome(make_task(gold), f"submit {answer}")[0] is correct


def test_attach_creates_no_file(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attempts = [
        "ATTACH 'pwn.db' AS p",
        f"ATTACH '{tmp_path}/pwn.db' AS p",
        "ATTACH 'file:pwn.db?mode=rwc' AS p",
        "VACUUM INTO 'pwn.db'",
        "SELECT writefile('pwn.db', 'x')",
        "SELECT 1; ATTACH 'pwn.db' AS p",
    ]
    for attempt in attempts:
        assert outcome(make_task(TITLES), f"submit {attempt}")[0] is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "attempt", ["ATTACH 'x' AS p", "PRAGMA query_only = 0", "VACUUM", "CREATE TABLE t (x)", "BEGIN"]
)
def test_an_escape_costs_the_episode_even_with_the_right_answer(make_task: MakeTask, attempt: str) -> None:
    assert outcome(make_task(TITLES), f"run_sql {attempt}", f"submit {TITLES}") == (True, -1.0)


def test_an_answer_that_takes_too_long_is_wrong(make_task: MakeTask) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT max(x) FROM c"
    assert outcome(make_task(TITLES), f"submit {TITLES} WHERE ({endless})") == (False, 0.0)


def test_rows_shown_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    """Duplicates stay, ORDER BY is visible, columns have names, and two processes show the same."""
    script = tmp_path / "show.py"
    script.write_text(
        "import sqlite3\n"
        "from turngate.envs.sql.engine.database import Database\n"
        "from turngate.envs.sql.engine.text import result_text\n"
        "c = sqlite3.connect(':memory:')\n"
        "c.executescript(\"CREATE TABLE t (a, b); INSERT INTO t VALUES ('z', 1), ('a', 2), ('z', 1), ('m', 0)\")\n"
        "db = Database.open(c.serialize())\n"
        "print(result_text(db.run('SELECT a AS first, b FROM t ORDER BY b DESC, a'), max_rows=9, max_chars=600))\n"
    )
    shown = {
        subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1")
    }
    assert shown == {"first | b\na | 2\nz | 1\nz | 1\nm | 0\n(4 rows)\n"}


def test_one_episode_cannot_prepare_the_next(make_task: MakeTask) -> None:
    """Whatever an agent tries in one episode, the next one on the same environment starts from the same database."""
    task = make_task(TITLES)
    env = SqlEnv(tasks=TaskList([task]), deadline_s=0.5)
    for attempt in ("DELETE FROM books", "CREATE TEMP VIEW books AS SELECT 'x' AS title", "PRAGMA writable_schema = 1"):
        env.reset(options={"task": task})
        env.step(f"run_sql {attempt}")
        env.reset(options={"task": task})
        observation, *_ = env.step("run_sql SELECT count(*) AS n, min(title) AS t FROM books")
        assert observation.text == "n | t\n4 | Ash\n(1 row)"
