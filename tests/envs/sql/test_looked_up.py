"""The fact ``looked_up``: whether what a turn's query showed answers one of the look-ups that the task needs.

The database: `st` codes of three columns, of which NULL is the third meaning of `sent`; rates of two currencies; things
whose dates are written with dots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turngate.envs.sql.engine.database import content_key
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.generated.lookup_questions import code_of
from turngate.envs.sql.sources import LookupSql
from turngate.envs.tasks import TaskList
from turngate.errors import VerifierError
from turngate.types import Task

THINGS = """
CREATE TABLE parcels (id INTEGER PRIMARY KEY, status TEXT, price_yen INTEGER, sent);
INSERT INTO parcels VALUES (1, 'k4', 100, '13.03.2024'), (2, 'm1', 200, '02.03.2024'), (3, 'k4', 300, NULL),
    (4, 'm1', 400, '05.05.2024'), (5, 'k4', 500, 'b2'), (6, 'm1', 600, '20.03.2024'), (7, 'k4', 1, '21.03.2024'),
    (8, 'k4', 2, '22.03.2024'), (9, 'm1', 3, '23.03.2024'), (10, 'm1', 4, '24.03.2024');
CREATE TABLE codes (area TEXT, code TEXT, label TEXT);
INSERT INTO codes VALUES ('billing', 'k4', 'Late'), ('status', 'm1', 'late.'), ('status', 'k4', 'is open'),
    ('billing', 'm1', 'OPEN'), ('sent', 'b2', 'not yet'), ('sent', 'c3', 'unknown day');
CREATE TABLE rates (currency TEXT, per_euro INTEGER);
INSERT INTO rates VALUES ('lira', 12), ('yen', 37);
"""
NEEDS = {
    "code": {"kind": "code", "column": "status", "word": "open", "sql": code_of("codes", "status", "open")},
    "absence": {"kind": "absence", "column": "sent", "word": "not yet", "sql": code_of("codes", "sent", "not yet")},
    "null": {"kind": "absence", "column": "sent", "word": "never", "sql": code_of("codes", "sent", "never")},
    "rate": {"kind": "rate", "column": "price_yen", "word": "> 2",
             "sql": "SELECT per_euro FROM rates WHERE currency = 'yen'"},
    "date": {"kind": "date", "column": "sent", "word": "2024-03", "sql": "SELECT sent FROM parcels LIMIT 3"},
}  # fmt: skip

Look = Callable[..., list[Any]]


@pytest.fixture
def look(make_image: Callable[[str], bytes]) -> Look:
    """What ``looked_up`` says of each of these turns; [] for a turn without the fact."""
    image = make_image(THINGS)

    def looking(kinds: str, *turns: str, **settings: Any) -> list[Any]:
        private = {"database": image, "key": content_key(image), "gold": "SELECT 1", "ordered": False}
        private |= {"needs": tuple(NEEDS[kind] for kind in kinds.split())} if kinds else {}
        task = Task(id="hand/0", env_id="turngate/Sql-v1", prompt="Which?", private=private)
        env = SqlEnv(tasks=TaskList([task]), **settings)
        env.reset(options={"task": task})
        said = []
        for turn in turns:
            evidence = env.step(turn)[-1]["evidence"]
            said += [next((fact.value for fact in evidence if fact.name == "looked_up"), [])]
        env.close()
        return said

    return looking


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        *[(kind, need["sql"]) for kind, need in NEEDS.items()],
        ("code", "SELECT code, area FROM codes WHERE label = 'is open' AND area <> 'sent'"),
        ("code", "SELECT * FROM codes WHERE area = 'status'"),  # two rows, each with its label
        ("code", "select CODE from codes where area='STATUS' collate nocase and label like '%OPEN%'"),
        ("code", "SELECT code FROM codes c JOIN parcels p ON p.status = c.code WHERE area = 'status' AND "
                 "label LIKE '%open%' LIMIT 3"),
        ("null", "SELECT * FROM codes WHERE area = 'sent' AND label LIKE '%never%'"),
        ("rate", "SELECT * FROM rates"),
        ("rate", "SELECT currency, per_euro FROM rates WHERE per_euro > 30"),
        ("date", "SELECT id, Sent FROM parcels WHERE id > 5"),
        ("date", "SELECT DISTINCT sent FROM parcels WHERE sent IS NOT NULL LIMIT 9"),
    ],
)  # fmt: skip
def test_an_answer_counts_however_it_was_asked_for(look: Look, kind: str, sql: str) -> None:
    assert look(kind, f"run_sql {sql}") == [True]


@pytest.mark.parametrize(
    ("kind", "sql", "why"),
    [
        ("code", "SELECT code FROM codes WHERE area = 'status' AND label LIKE '%late%'", "another word"),
        ("code", "SELECT code FROM codes WHERE area = 'billing' AND label LIKE '%open%'", "another column"),
        ("code", "SELECT code FROM codes WHERE label LIKE '%open%'", "two codes, no column"),
        ("code", "SELECT code FROM codes WHERE area = 'status'", "two codes, no word"),
        ("code", "SELECT label FROM codes WHERE area = 'status' AND label LIKE '%open%'", "no code"),
        ("code", "SELECT * FROM codes", "the whole table"),
        ("code", "SELECT *, 'x' FROM codes WHERE area <> 'sent'", "four rows for one"),
        ("code", "SELECT DISTINCT status, 'status open' FROM parcels", "not from the table of codes"),
        ("code", "SELECT code FROM codes WHERE area = 'status' AND label LIKE '%reopen%'", "no row"),
        ("code", "SELECT cod FROM codes WHERE area = 'status' AND label LIKE '%open%'", "an error"),
        ("absence", "SELECT code FROM codes WHERE area = 'sent' AND label LIKE '%never%'", "another meaning"),
        ("null", "SELECT code FROM codes WHERE area = 'sent' AND label LIKE '%not yet%'", "a row"),
        ("null", "SELECT code FROM codes WHERE area = 'sent' AND label LIKE '%nevermore%'", "another word"),
        ("null", "SELECT code FROM codes WHERE label = 'never'", "no column"),
        ("null", "SELECT id FROM parcels WHERE sent = 'never'", "not from the table of codes"),
        ("rate", "SELECT per_euro FROM rates", "two numbers, no currency"),
        ("rate", "SELECT * FROM rates WHERE currency = 'lira'", "another currency"),
        ("date", "SELECT sent FROM parcels", "ten rows for three"),
        ("date", "SELECT id FROM parcels LIMIT 3", "another column"),
        ("date", "SELECT sent FROM parcels WHERE id IN (3, 5)", "no date"),
        ("date", "SELECT '2024-03-13' AS sent FROM parcels LIMIT 1", "another form"),
    ],
)
def test_anything_else_is_no_look_up(look: Look, kind: str, sql: str, why: str) -> None:
    assert look(kind, f"run_sql {sql}") == [False], why


def test_only_rows_that_are_shown_count(look: Look) -> None:
    sql = "run_sql SELECT * FROM codes WHERE area = 'status' ORDER BY code DESC"  # the open one is second
    assert look("code", sql, max_rows=2) == [True]
    assert look("code", sql, max_rows=1) == [False]
    wide = f"run_sql SELECT '{'x' * 50}' AS x, * FROM codes WHERE area = 'status' ORDER BY code DESC"
    assert look("code", wide, max_chars=240) == [True]
    assert look("code", wide, max_chars=160) == [False]


def test_any_need_will_do_and_again(look: Look) -> None:
    code, absence = (f"run_sql {NEEDS[kind]['sql']}" for kind in ("code", "absence"))
    assert look("code absence", absence, code, code, "run_sql SELECT 1") == [True, True, True, False]


def test_only_queries_that_are_run_are_judged(look: Look) -> None:
    sql = NEEDS["code"]["sql"]
    assert look("code", "list_tables", "describe codes", "run_sql", f"submit {sql}") == [[], [], [], []]


def test_a_task_without_needs_has_no_such_fact(look: Look) -> None:
    assert look("", f"run_sql {NEEDS['code']['sql']}", "submit") == [[], []]


def test_a_need_that_cannot_be_read_is_an_error(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS["code"], "sql", "SELECT cod FROM codes")
    with pytest.raises(VerifierError, match="the look-up 'SELECT cod FROM codes' of the task fails: no such column"):
        look("code", "run_sql SELECT 1")


def test_the_oracle_looks_something_up_in_each_of_its_queries() -> None:
    source, seen = LookupSql().open(), set()
    env = SqlEnv(tasks="lookup_sql", max_rows=3)
    for task in (source.task(split, index) for split in source.splits for index in range(40)):
        env.reset(options={"task": task})
        for turn in env.oracle(task):
            facts = {fact.name: fact.value for fact in env.step(turn)[-1]["evidence"]}
            assert facts.get("looked_up") is (True if turn.startswith("run_sql") else None), (task.id, turn)
        seen |= {(need["kind"], task.split) for need in task.private["needs"]}
    env.close()
    assert len(seen) == 12  # four kinds in three splits
