"""Look-up tasks: nothing to guess, one wrong look leads astray, splits share nothing that would help."""

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate import check_env
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.generated.content import Value
from turngate.envs.sql.generated.lookup_content import DATE_FORMATS, format_date, format_of, in_month
from turngate.envs.sql.generated.lookup_oracle import condition_from
from turngate.envs.sql.generated.lookup_words import STATES, UNSEEN_FAMILIES
from turngate.envs.sql.sources import LookupSql
from turngate.envs.tasks import TaskSource, part_of
from turngate.errors import ConfigError, DataError, UnknownName
from turngate.types import Task

SOURCE = LookupSql().open()
N = 300
OWNERS = {"customers", "readers", "drivers", "guests", "teachers", "agents", "patients", "halls"}
FIRST = {
    "train": (
        "total portions of the orders with payment clean and bill over 34 euro",
        "SELECT sum(portions) FROM orders WHERE payment = 'l0' AND bill_dinar > 34*58",
    ),
    "heldout": (
        "which tag have the parcels with price under 35 euro",
        "SELECT tag FROM parcels WHERE price_franc < 35*23",
    ),
    "newfamily": (
        "how many shows opened in july 2022 with screen sold of halls with permit safe are there",
        "SELECT count(*) FROM shows JOIN halls ON hall_id = halls.id "
        "WHERE opened LIKE '%/07/2022' AND screen = 'c1' AND permit = 'c1'",
    ),
}


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {split: [SOURCE.task(split, index) for index in range(N)] for split in SOURCE.splits}


def rows_of(image: bytes, sql: str) -> Counter[tuple[object, ...]]:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(image)
    return Counter(connection.execute(sql).fetchall())


def says_something(rows: Counter[tuple[object, ...]]) -> bool:
    return any(value not in (None, 0) for row in rows for value in row)


def play(env: SqlEnv, task: Task, actions: list[str]) -> tuple[bool, str]:
    """Whether the last action won, and everything that was shown before it."""
    observation, _ = env.reset(options={"task": task})
    shown = [observation.text]
    for action in actions:
        observation, _, terminated, _, info = env.step(action)
        shown.append(observation.text)
    assert terminated, task.id
    return info["score"].outcome == 1.0, "\n".join(shown[:-1])


def literals(sql: str) -> set[str]:
    """The codes and numbers of a query."""
    return {*re.findall(r"'(\w\d)'", sql), *re.findall(r"\* (\d+)\b(?! *,)", sql)}


def test_it_is_a_task_source():
    assert isinstance(SOURCE, TaskSource)
    assert SOURCE.splits == ("train", "heldout", "newfamily")
    assert [SOURCE.size(split) for split in SOURCE.splits] == [None, None, None]


def test_the_first_tasks_are_these():
    """Other tasks under the same ids need a new version of the environment."""
    first = {split: SOURCE.task(split, 0) for split in SOURCE.splits}
    assert {split: (task.prompt, task.private["gold"]) for split, task in first.items()} == FIRST


def test_the_oracle_wins_every_task_with_literals_that_it_was_shown(tasks: dict[str, list[Task]]):
    env = SqlEnv(tasks="lookup_sql")
    for task in (task for of_split in tasks.values() for task in of_split[:120]):
        turns = env.oracle(task)
        assert turns[-1] == f"submit {task.private['gold']}"
        assert len(turns) == 3 + len(task.private["needs"]) <= 6
        won, shown = play(env, task, turns)
        assert won, task.id
        assert all(literal in f"{task.prompt} {shown}" for literal in literals(task.private["gold"])), task.id
    env.close()


def test_what_the_oracle_writes_follows_from_what_it_reads():
    code = {"kind": "code", "column": "status", "word": "open", "sql": "…"}
    assert condition_from(code, [("k4",)]) == "status = 'k4'"
    absence = {"kind": "absence", "column": "sent", "word": "never", "sql": "…"}
    assert condition_from(absence, [("b2",)]) == "sent = 'b2'"
    assert condition_from(absence, []) == "sent IS NULL"
    rate = {"kind": "rate", "column": "price_yen", "word": "> 20", "sql": "…"}
    assert condition_from(rate, [(37,)]) == "price_yen > 20*37"
    day = {"kind": "date", "column": "sent", "word": "2024-03", "sql": "…"}
    assert condition_from(day, [("k7",), ("17.03.2024",)]) == "sent LIKE '%.03.2024'"
    for rows in ([], [("k4",), ("m1",)]):
        with pytest.raises(DataError, match="does not tell what 'open' is in column 'status'"):
            condition_from(code, rows)


def test_no_word_of_a_code_table_is_part_of_another():
    """A look-up by part of a label would find both."""
    for word in STATES:
        assert [other for other in STATES if word in other] == [word]


def test_every_near_miss_answers_otherwise_and_each_task_has_a_plausible_one(tasks: dict[str, list[Task]]):
    for task in (task for of_split in tasks.values() for task in of_split):
        image, private = task.private["database"], task.private
        right = rows_of(image, private["gold"])
        wrong = [rows_of(image, sql) for sql in private["near_misses"]]
        assert says_something(right)
        assert right not in wrong, task.id
        assert sum(map(says_something, wrong)) >= len(private["needs"]), task.id


def test_splits_share_no_question_query_database_or_row_to_look_up(tasks: dict[str, list[Task]]):
    def looked_up(task: Task) -> set[tuple[object, ...]]:
        image = task.private["database"]
        names = {name for (name,) in rows_of(image, "SELECT name FROM sqlite_master")}
        tables = names - {task.private["family"]} - OWNERS
        return {row for table in tables for row in rows_of(image, f"SELECT * FROM {table}")}

    for split in ("heldout", "newfamily"):
        for what in (
            lambda task: {task.prompt},
            lambda task: {task.private["gold"]},
            lambda task: {task.private["key"]},
            looked_up,
        ):
            known = set().union(*map(what, tasks["train"]))
            assert not known & set().union(*map(what, tasks[split]))


def test_almost_every_question_is_asked_once(tasks: dict[str, list[Task]]):
    for split, of_split in tasks.items():
        assert len({task.prompt for task in of_split}) >= 0.95 * N, split


def test_all_levels_kinds_families_and_answers_occur(tasks: dict[str, list[Task]]):
    for split, of_split in tasks.items():
        assert {task.private["level"] for task in of_split} == {1, 2, 3}
        needs = [need["kind"] for task in of_split for need in task.private["needs"]]
        assert set(needs) == {"code", "date", "absence", "rate"}
        assert {task.private["shape"] for task in of_split} == {"count", "names", "total", "most"}
        assert {task.private["family"] for task in of_split} & set(UNSEEN_FAMILIES) == (
            set(UNSEEN_FAMILIES) if split == "newfamily" else set()
        )
    for task in tasks["train"]:
        kinds = [need["kind"] for need in task.private["needs"]]
        assert len(kinds) == task.private["level"]
        if task.private["level"] == 3:
            assert " JOIN " in task.private["gold"]
            assert "date" in kinds


def test_a_blind_agent_fails(tasks: dict[str, list[Task]]):
    """It writes the query of another task with the same masked query, or the words of the question as literals."""
    env = SqlEnv(tasks="lookup_sql")
    by_skeleton: dict[str, list[Task]] = {}
    for task in tasks["train"]:
        by_skeleton.setdefault(re.sub(r"'[^']*'|\b\d+\b", "?", task.private["gold"]), []).append(task)
    borrowed = [(mine, other) for alike in by_skeleton.values() for mine, other in pairwise(alike)]
    assert len(borrowed) > 40
    won = sum(play(env, mine, [f"submit {other.private['gold']}"])[0] for mine, other in borrowed)
    assert won <= 0.02 * len(borrowed)
    for task in tasks["heldout"][:150]:
        guesses = [f"{need['column']} = '{need['word']}'" for need in task.private["needs"] if need["kind"] != "rate"]
        guesses += [f"{need['column']} {need['word']}" for need in task.private["needs"] if need["kind"] == "rate"]
        order = sorted(guesses, key=lambda guess: [n["column"] for n in task.private["needs"]].index(guess.split()[0]))
        assert not play(env, task, [f"submit {task.private['frame'].format(*order)}"])[0], task.id
    env.close()


def test_questions_hide_the_schema_and_what_is_looked_up(tasks: dict[str, list[Task]]):
    for task in tasks["train"]:
        codes = re.findall(r"'(\w\d)'", task.private["gold"])
        assert not [code for code in codes if code in task.prompt]
        assert task.prompt == task.prompt.lower()
        assert len(task.prompt.split()) <= 30
        assert len(task.private["database"]) < 16_000


@settings(max_examples=40, deadline=None)
@given(split=st.sampled_from(SOURCE.splits), index=st.integers(0, 2**31 - 1))
def test_any_index_gives_a_fair_task_that_its_id_finds_again(split: str, index: int):
    task = SOURCE.task(split, index)
    private = task.private
    assert (task.id, task.env_id, task.split) == (f"lookup/{split}/{index}", "turngate/Sql-v1", split)
    assert private["key"] == hashlib.blake2b(private["database"], digest_size=8).hexdigest()
    right = rows_of(private["database"], private["gold"])
    assert says_something(right)
    assert all(rows_of(private["database"], sql) != right for sql in private["near_misses"])
    assert SOURCE.find(task.id) == task


@given(
    day=st.dates(date(2018, 1, 1), date(2026, 12, 31)),
    form=st.sampled_from(DATE_FORMATS),
    shift=st.integers(-2, 2),
)
def test_a_month_is_found_in_every_format(day: date, form: str, shift: int):
    month = day.year * 12 + day.month - 1 + shift
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (d)")
    connection.executemany("INSERT INTO t VALUES (?)", [(format_date(day, form),), ("k7",), (None,)])
    found = connection.execute(f"SELECT count(*) FROM t WHERE {in_month('d', form, month // 12, month % 12 + 1)}")
    assert found.fetchone() == (int(shift == 0),)


@given(day=st.dates(date(2018, 1, 13), date(2026, 12, 31)).filter(lambda day: day.day > 12))
def test_a_late_day_tells_its_format(day: date):
    for form in DATE_FORMATS:
        values: list[Value] = [None, "k7", format_date(day, form)]
        assert format_of(values) == form
    with pytest.raises(ValueError, match="tells the format"):
        format_of(["03/04/2024"])


@pytest.mark.parametrize("split", SOURCE.splits)
def test_tasks_are_equal_in_another_process(split: str):
    code = (
        "import hashlib, json, sys\n"
        "from turngate.envs.sql.sources import LookupSql\n"
        "tasks = [LookupSql().open().task(sys.argv[1], index) for index in (0, 7, 10**9)]\n"
        "digest = lambda data: hashlib.sha256(data).hexdigest()\n"
        "print(json.dumps([[t.prompt, t.private['gold'], digest(t.private['database'])] for t in tasks]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-c", code, split], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    here = [SOURCE.task(split, index) for index in (0, 7, 10**9)]
    expected = [[t.prompt, t.private["gold"], hashlib.sha256(t.private["database"]).hexdigest()] for t in here]
    assert json.loads(printed.stdout) == expected


def test_the_environment_keeps_its_contract_with_these_tasks():
    assert check_env(SqlEnv(tasks="lookup_sql")) == []


def test_settings_restrict_families_look_ups_levels_and_databases():
    source = LookupSql(families=("trips", "shows"), lookups=("code", "rate"), max_level=2, databases=2).open()
    tasks = [source.task("train", index) for index in range(60)]
    assert {task.private["family"] for task in tasks} == {"trips", "shows"}
    assert {task.private["level"] for task in tasks} == {1, 2}
    assert {need["kind"] for task in tasks for need in task.private["needs"]} == {"code", "rate"}
    assert len({task.private["key"] for task in tasks}) == 4
    assert source.task("newfamily", 0).private["family"] == "visits"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"families": ["parcel"]}, UnknownName, "unknown family 'parcel'; did you mean 'parcels'"),
        ({"families": []}, ConfigError, "families is empty"),
        ({"lookups": ["cod"]}, UnknownName, "unknown look-up 'cod'; did you mean 'code'"),
        ({"lookups": []}, ConfigError, "lookups is empty"),
        ({"lookups": ["code"]}, ConfigError, "max_level 3 asks for codes and dates"),
        ({"lookups": ["rate"], "max_level": 2}, ConfigError, "max_level 2 needs two look-ups"),
    ],
)
def test_settings_that_leave_nothing_are_refused(arguments: dict[str, object], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        LookupSql(**arguments).open()  # type: ignore[arg-type]


@pytest.mark.parametrize(("setting", "value"), [("max_level", 0), ("max_level", 4), ("databases", 0), ("rows", 19)])
def test_settings_out_of_range_are_refused(setting: str, value: int):
    with pytest.raises(ConfigError, match=f"tasks.{setting}: Input should be"):
        part_of({"type": "lookup_sql", setting: value}, None, "SqlEnv")


def test_unknown_splits_ids_and_numbers_are_refused():
    with pytest.raises(UnknownName, match="unknown split 'trian'; did you mean 'train'"):
        SOURCE.size("trian")
    with pytest.raises(UnknownName, match="unknown task 'lookup/train/x'"):
        SOURCE.find("lookup/train/x")
    with pytest.raises(IndexError, match="task number -1"):
        SOURCE.task("train", -1)
