"""What the ORDER BY of a gold query leaves open.

1. The same query over the same rows, stored in any order, is the same answer; rows that do not tie stay in order.
2. A LIMIT that cuts through rows which tie makes a task that nobody can answer for certain: it is dropped.
3. What cannot be ranked is compared in the order that the gold query gave.
"""

import itertools
import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turngate
from turngate.envs.sql.engine.compare import same_result
from turngate.envs.sql.engine.ties import ranked, split
from turngate.envs.sql.loaders.reference import reference_tasks
from turngate.envs.tasks import Dropped

Rows = list[tuple[Any, ...]]
QUERIES = {  # query: the key of its ORDER BY, as a function of a row (a, b)
    "SELECT a FROM t ORDER BY b": lambda a, b: (b is not None, b),
    "SELECT a, b AS n FROM t ORDER BY n DESC": lambda a, b: (b is None, -(b or 0)),
    "SELECT b, a FROM t ORDER BY 2 COLLATE NOCASE": lambda a, b: a.lower(),
    "SELECT a FROM t ORDER BY a, b": lambda a, b: (a, b is not None, b),
    "SELECT * FROM t ORDER BY lower(a), b IS NULL": lambda a, b: (a.lower(), b is None),
}
rows_of = st.lists(st.tuples(st.sampled_from(["x", "X", "y"]), st.sampled_from([None, 1, 2])), min_size=1, max_size=6)


def stored(rows: Rows, sql: str) -> Rows:
    """What a query gives on ``rows``, stored in their order."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a TEXT, b INT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


@given(rows=rows_of, data=st.data(), sql=st.sampled_from(list(QUERIES)))
@settings(max_examples=120, deadline=None)
def test_the_same_query_over_the_same_rows_is_the_same_answer(rows: Rows, data: st.DataObject, sql: str) -> None:
    form = ranked(sql)
    assert form is not None
    gold, ranks = split(stored(rows, form.sql))
    assert sorted(map(repr, gold)) == sorted(map(repr, stored(rows, sql)))
    predicted = stored(data.draw(st.permutations(rows)), sql)
    assert same_result(predicted, gold, ordered=True, ranks=ranks)
    assert same_result(predicted, gold, ordered=False)


@given(rows=rows_of, data=st.data(), sql=st.sampled_from(list(QUERIES)))
@settings(max_examples=120, deadline=None)
def test_another_order_is_right_only_as_far_as_brute_force_finds_a_tie(rows: Rows, data: Any, sql: str) -> None:
    """Every way to store the rows is tried; an answer is right if one of them gives it, up to the order of columns."""
    form = ranked(sql)
    assert form is not None
    gold, ranks = split(stored(rows, form.sql))
    predicted = data.draw(st.permutations(gold))
    possible = {tuple(stored(list(order), sql)) for order in itertools.permutations(rows[:4])}
    if len(rows) <= 4:
        turned = [[tuple(row[i] for i in order) for row in predicted] for order in orders(len(gold[0]))]
        assert same_result(predicted, gold, ordered=True, ranks=ranks) == any(tuple(one) in possible for one in turned)
    keys = sorted((QUERIES[sql](*row) for row in rows), key=repr)
    assert len(set(ranks)) == len({repr(key) for key in keys})


def orders(width: int) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(width)))


@given(rows=rows_of.filter(lambda rows: len(rows) <= 4), limit=st.integers(1, 4), offset=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("order", ["", " ORDER BY b", " ORDER BY b DESC, a COLLATE NOCASE"])
@pytest.mark.parametrize("columns", ["a", "b", "a, b"])
def test_a_cut_is_what_brute_force_finds(rows: Rows, limit: int, offset: int, order: str, columns: str) -> None:
    sql = f"SELECT {columns} FROM t{order} LIMIT {limit} OFFSET {offset}"
    form = ranked(sql)
    assert form is not None
    answers = {tuple(sorted(stored(list(one), sql), key=repr)) for one in itertools.permutations(rows)}
    assert form.is_cut(stored(rows, form.whole)) is (len(answers) > 1)


@pytest.mark.parametrize(
    ("sql", "ranks"),
    [
        ("SELECT b, count(*) FROM t GROUP BY b ORDER BY count(*) DESC", [1, 2, 2]),
        ("SELECT b, count(*) AS n FROM t GROUP BY b HAVING n > 0 ORDER BY n DESC, 1", [1, 2, 3]),
        ("SELECT a FROM t UNION SELECT b FROM t ORDER BY a", [1, 2, 3, 4, 5, 6, 7]),
        ("SELECT b FROM t UNION ALL SELECT b FROM t ORDER BY 1 DESC", [1, 1, 2, 2, 2, 2, 3, 3]),
        ("SELECT DISTINCT b FROM t ORDER BY b", [1, 2, 3]),
        ("WITH s AS (SELECT b FROM t) SELECT * FROM s ORDER BY b", [1, 2, 2, 3]),
        ("SELECT s.a FROM t AS s JOIN t AS r ON s.a = r.a ORDER BY r.b NULLS LAST LIMIT 2", [1, 1]),
    ],
)
def test_ranks(sql: str, ranks: list[int]) -> None:
    rows: Rows = [("x", 1), ("y", 1), ("z", 2), ("X", None)]
    form = ranked(sql)
    assert form is not None
    found, of_rows = split(stored(rows, form.sql))
    assert of_rows == ranks
    assert sorted(map(repr, found)) == sorted(map(repr, stored(rows, sql)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t ORDER BY 1",
        "SELECT a FROM t ORDER BY 7",
        "SELECT a FROM t LIMIT (SELECT 1)",
        "VALUES (1)",
        "WITH s AS (SELECT 1) SELECT a FROM t UNION SELECT b FROM t ORDER BY 1",
        "SELECT FROM WHERE )(",
    ],
)
def test_what_cannot_be_ranked(sql: str) -> None:
    assert ranked(sql) is None


# --- as tasks ---------------------------------------------------------------------------------------------------------


def env_of(folder: Path, library: bytes, *lines: dict[str, Any]) -> turngate.TurnEnv:
    (folder / "x.sqlite").write_bytes(library)
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = {"type": "sqlite", "database": folder / "x.sqlite", "questions": folder / "q.jsonl", "held_out": 0}
    return turngate.make("turngate/Sql-v1", tasks=table)


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ("SELECT title FROM books ORDER BY author_id", 1.1),
        ("SELECT title FROM books ORDER BY author_id, title DESC", 1.1),
        ("SELECT title FROM books ORDER BY author_id, price", 1.1),
        ("SELECT title FROM books ORDER BY title DESC", 0.0),
        ("SELECT title FROM books ORDER BY author_id DESC", 0.0),
        ("SELECT title FROM books ORDER BY price", 0.0),
        ("SELECT title FROM books WHERE id < 4 ORDER BY author_id", 0.0),
    ],
)
def test_an_order_that_the_question_leaves_open_is_paid(
    tmp_path: Path, library: bytes, answer: str, paid: float
) -> None:
    env = env_of(tmp_path, library, {"question": "By author?", "sql": "SELECT title FROM books ORDER BY author_id"})
    assert "price" not in env.reset(seed=0)[0].text
    assert env.step(f"submit {answer}")[1] == pytest.approx(paid)
    env.close()


def test_a_limit_that_cuts_a_tie_is_dropped_with_its_line(
    tmp_path: Path, library: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    queries = [
        "SELECT title FROM books ORDER BY author_id LIMIT 1",
        "SELECT title FROM books ORDER BY price DESC LIMIT 1",
        "SELECT author_id FROM books ORDER BY author_id LIMIT 1",
        "SELECT title FROM books ORDER BY author_id LIMIT 2",
        "SELECT name FROM authors LIMIT 2",
        "SELECT author_id FROM books GROUP BY author_id ORDER BY count(*) DESC LIMIT 1",
        "SELECT count(*) FROM books LIMIT 1",
    ]
    with caplog.at_level(logging.WARNING):
        env = env_of(tmp_path, library, *({"question": f"{i}?", "sql": sql} for i, sql in enumerate(queries)))
    reason = (
        "the result of the gold query depends on how rows are stored: its LIMIT cuts through rows that tie in "
        "ORDER BY; order by more columns, or leave LIMIT out"
    )
    dropped = tuple(Dropped(id=f"q/{line}", line=line, reason=reason) for line in (1, 5, 6))
    assert env.tasks.dropped == dropped
    assert env.tasks.size("train") == 4
    assert "dropped 3 of 7 questions that cannot be graded, the first being q/1: the result of the gold" in caplog.text
    env.close()


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT title FROM books ORDER BY random() LIMIT 1", False),
        ("SELECT title, random() FROM books", False),
        ("SELECT title FROM (SELECT title FROM books LIMIT 1)", False),
        ("WITH some AS (SELECT title FROM books LIMIT 1) SELECT * FROM some", False),
        ("SELECT group_concat(title) FROM books", False),
        ("SELECT title FROM books LIMIT (SELECT 1)", False),
        ("SELECT title FROM books WHERE rowid IN (SELECT rowid FROM books LIMIT 1)", False),
        ("SELECT title FROM books", True),
        ("SELECT max(price), title FROM books", True),  # SQLite says which: that of the greatest
        ("SELECT title FROM books ORDER BY title LIMIT 1", True),
        ("SELECT avg(price) FROM books", True),
    ],
)
def test_a_result_that_is_luck_is_dropped_however_the_query_is_written(
    tmp_path: Path, library: bytes, sql: str, kept: bool
) -> None:
    asked = [{"question": "first?", "sql": sql}, {"question": "second?", "sql": "SELECT count(*) FROM books"}]
    env = env_of(tmp_path, library, *asked)
    assert [one.id for one in env.tasks.dropped] == ([] if kept else ["q/1"])
    if not kept:
        assert "rows stored the other way round" in env.tasks.dropped[0].reason or "how rows are stored" in (
            env.tasks.dropped[0].reason
        )
    env.close()


def test_the_bundled_questions_leave_nothing_open() -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(reference_tasks()[0].private["database"])
    for task in reference_tasks():
        form = ranked(task.private["gold"])
        assert form is not None, task.id
        assert not form.is_cut(connection.execute(form.whole).fetchall()), task.id
        ranks = split(connection.execute(form.sql).fetchall())[1]
        assert not task.private["ordered"] or len(set(ranks)) == len(ranks), task.id
    connection.close()
