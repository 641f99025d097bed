"""Generated tasks: fair by an oracle of their own, apart between splits, equal in every process."""

import hashlib
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import build
from turngate.envs.sql.generated.families import FAMILIES, HELD_OUT
from turngate.envs.sql.generated.questions import Misfit, Pick, flaw
from turngate.envs.sql.generated.shapes import SHAPES
from turngate.envs.sql.sources import GeneratedSql
from turngate.envs.tasks import TaskSource, part_of
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

SOURCE = GeneratedSql().open()


@pytest.fixture(scope="module")
def train() -> list[Task]:
    return [SOURCE.task("train", index) for index in range(3000)]


@pytest.fixture(scope="module")
def heldout() -> list[Task]:
    return [SOURCE.task("heldout", index) for index in range(1000)]


def answers(image: bytes, sql: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """The rows as SQLite finds them, and with every scan whose order is free turned round."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(image)
    forward = connection.execute(sql).fetchall()
    connection.execute("PRAGMA reverse_unordered_selects = ON")
    return forward, connection.execute(sql).fetchall()


def assert_fair(image: bytes, sql: str, *, ordered: bool, tables: tuple[str, ...]) -> None:
    forward, backward = answers(image, sql)
    assert 1 <= len(forward) <= 50, sql
    assert any(value is not None for row in forward for value in row), sql
    # a tie at the cut or between sort keys shows as another answer when rows are met in the other order
    if ordered:
        assert forward == backward, sql
    elif "avg(" not in sql and "sum(" not in sql:  # adding floats in another order changes the last digit
        assert Counter(forward) == Counter(backward), sql
    assert ordered == ("ORDER BY" in sql and not sql.endswith("LIMIT 1")), sql
    assert all(f" {table}" in sql for table in tables)
    for table in tables:
        assert Counter(answers(image, f"SELECT * FROM {table}")[0]) != Counter(forward)


def test_it_is_a_task_source():
    assert isinstance(SOURCE, TaskSource)
    assert SOURCE.splits == ("train", "heldout", "newfamily")
    assert [SOURCE.size(split) for split in SOURCE.splits] == [None, None, None]


def test_the_first_tasks_are_these():
    """Other tasks under the same ids need a new version of the environment."""
    asked = {split: [SOURCE.task(split, index) for index in range(2)] for split in SOURCE.splits}
    assert {split: [(task.prompt, task.private["gold"]) for task in tasks] for split, tasks in asked.items()} == {
        "train": [
            (
                "which customer has the most recent join date, give the name",
                "SELECT name FROM customers ORDER BY joined DESC LIMIT 1",
            ),
            (
                "show name and number of concerts of every band that has any",
                "SELECT bands.name, count(*) FROM concerts JOIN bands ON concerts.band_id = bands.id "
                "GROUP BY bands.name",
            ),
        ],
        "heldout": [
            ("show species and colour of every animal", "SELECT species, colour FROM animals"),
            (
                "show the milk of animals with colour 'black' or 'white'",
                "SELECT milk FROM animals WHERE colour IN ('black', 'white')",
            ),
        ],
        "newfamily": [
            ("add up the cost of all repairs", "SELECT sum(cost) FROM repairs"),
            (
                "show the finish date of repairs with a known number of weeks",
                "SELECT finished FROM repairs WHERE weeks IS NOT NULL",
            ),
        ],
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_every_shape_that_applies_asks_fair_questions(family: str):
    for shape in SHAPES.values():
        if not shape.fits(FAMILIES[family]):
            continue
        for attempt in range(600):
            rng = SeededRandom("shape-test", family, shape.name, attempt)
            database = build(family, "train", attempt % 4, 12)
            try:
                draft = shape.build(Pick(rng=rng, database=database))
            except Misfit:
                continue
            if not flaw(draft, database):
                break
        else:
            pytest.fail(f"{shape.name} never fits {family}")
        query = draft.query
        assert_fair(database.image, query.sql, ordered=query.ordered, tables=query.tables)


def test_only_chains_and_bridges_need_more_than_every_family_has():
    special = {name for name, shape in SHAPES.items() if not all(shape.fits(family) for family in FAMILIES.values())}
    assert special == {"grandchildren", "grandchildren_count", "across", "both_parents", "parent_of"}


@settings(max_examples=60, deadline=None)
@given(split=st.sampled_from(SOURCE.splits), index=st.integers(0, 2**31 - 1))
def test_any_index_gives_a_fair_task_that_its_id_finds_again(split: str, index: int):
    task = SOURCE.task(split, index)
    private = task.private
    assert (task.id, task.env_id, task.split) == (f"sql/{split}/{index}", "turngate/Sql-v1", split)
    assert_fair(private["database"], private["gold"], ordered=private["ordered"], tables=private["tables"])
    assert private["key"] == hashlib.blake2b(private["database"], digest_size=8).hexdigest()
    assert private["level"] == SHAPES[private["shape"]].level
    assert SOURCE.find(task.id) == task


def test_splits_share_no_question_and_no_database(train: list[Task], heldout: list[Task]):
    assert not {task.prompt for task in train} & {task.prompt for task in heldout}
    assert not {task.private["key"] for task in train} & {task.private["key"] for task in heldout}
    assert not {task.private["database"] for task in train} & {task.private["database"] for task in heldout}


def test_held_out_families_show_only_in_newfamily(train: list[Task], heldout: list[Task]):
    fresh = [SOURCE.task("newfamily", index) for index in range(60)]
    assert {task.private["family"] for task in fresh} == set(HELD_OUT)
    assert not {task.private["family"] for task in train + heldout} & set(HELD_OUT)
    assert not {task.prompt for task in train + heldout} & {task.prompt for task in fresh}


def test_all_shapes_families_and_levels_occur(train: list[Task], heldout: list[Task]):
    for tasks in (train, heldout):
        assert {task.private["shape"] for task in tasks} == set(SHAPES)
        assert {task.private["family"] for task in tasks} == set(FAMILIES) - set(HELD_OUT)
    shapes = Counter(task.private["shape"] for task in train)
    assert max(shapes.values()) < 3 * 3000 / len(SHAPES)
    assert len({task.prompt for task in train}) > 2000


def test_questions_are_short_plain_and_need_their_words(train: list[Task]):
    lengths = sorted(len(task.prompt.split()) for task in train)
    assert lengths[len(lengths) // 2] <= 12
    assert lengths[-1] <= 26
    golds = sorted(len(task.private["gold"].split()) for task in train)
    assert golds[int(0.98 * len(golds))] <= 25
    assert all(task.prompt == task.prompt.lower() and "?" not in task.prompt for task in train)
    assert all("{" not in task.prompt and "  " not in task.prompt for task in train)


def test_one_question_has_one_meaning_in_a_family(train: list[Task]):
    meaning: dict[tuple[str, str], str] = {}
    for task in train:
        gold = task.private["gold"]
        assert meaning.setdefault((task.private["family"], task.prompt), gold) == gold


def test_values_in_a_question_are_the_values_in_its_query(train: list[Task]):
    for task in train:
        quoted = task.private["gold"].split("'")[1::2]
        for value in quoted:
            word = value.strip("%").removesuffix("-01-01")
            assert word in task.prompt or value in ("%Y", "%m"), task.prompt


@pytest.mark.parametrize("split", SOURCE.splits)
def test_tasks_are_equal_in_another_process(split: str):
    code = (
        "import hashlib, json, sys\n"
        "from turngate.envs.sql.sources import GeneratedSql\n"
        "tasks = [GeneratedSql().open().task(sys.argv[1], index) for index in (0, 7, 10**9)]\n"
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


def test_tasks_do_not_depend_on_what_was_asked_before_or_on_the_thread():
    wanted = [SOURCE.task("train", index) for index in range(40)]
    build.cache_clear()
    with ThreadPoolExecutor(4) as threads:
        again = list(threads.map(lambda index: SOURCE.task("train", index), reversed(range(40))))
    assert again[::-1] == wanted


def test_a_source_survives_pickling():
    source = GeneratedSql(families=["farm"], max_level=2).open()
    assert pickle.loads(pickle.dumps(source)).task("train", 5) == source.task("train", 5)


def test_settings_restrict_families_shapes_levels_and_databases():
    part = GeneratedSql(families=["farm", "bank"], shapes=["equal", "childless", "union"], max_level=3, databases=2)
    source = part.open()
    tasks = [source.task("train", index) for index in range(80)]
    assert {task.private["family"] for task in tasks} == {"farm", "bank"}
    assert {task.private["shape"] for task in tasks} == {"equal", "childless"}
    assert len({task.private["key"] for task in tasks}) == 4


def test_held_out_families_can_be_chosen():
    source = GeneratedSql(held_out_families=["farm"]).open()
    assert source.task("newfamily", 0).private["family"] == "farm"
    seen = {source.task("train", index).private["family"] for index in range(200)}
    assert seen == set(FAMILIES) - {"farm"}
    everything = GeneratedSql(families=[*FAMILIES]).open()
    assert everything.splits == ("train", "heldout")


def test_large_databases_still_give_fair_tasks():
    task = GeneratedSql(families=["shop"], rows=300, databases=1).open().task("train", 0)
    assert len(task.private["database"]) > 40_000
    private = task.private
    assert_fair(private["database"], private["gold"], ordered=private["ordered"], tables=private["tables"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["libary"]}, "unknown family 'libary'; did you mean 'library'"),
        ({"held_out_families": ["muzeum"]}, "unknown family 'muzeum'; did you mean 'museum'"),
        ({"shapes": ["group_cuont"]}, "unknown shape 'group_cuont'; did you mean 'group_count'"),
    ],
)
def test_unknown_names_come_with_the_closest(arguments: dict[str, list[str]], message: str):
    with pytest.raises(UnknownName, match=message):
        GeneratedSql(**arguments).open()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["farm"], "held_out_families": ["farm"]}, "both used and held out"),
        ({"families": []}, "no family is left"),
        ({"shapes": ["union"], "max_level": 3}, "raise max_level"),
    ],
)
def test_settings_that_leave_nothing_are_refused(arguments: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        GeneratedSql(**arguments).open()  # type: ignore[arg-type]


def test_no_shape_is_harder_than_what_is_asked_by_default():
    assert max(shape.level for shape in SHAPES.values()) == GeneratedSql().max_level


@pytest.mark.parametrize(("setting", "least"), [("max_level", 1), ("databases", 1), ("rows", 8)])
def test_settings_out_of_range_are_refused(setting: str, least: int):
    with pytest.raises(ConfigError, match=f"tasks.{setting}: Input should be .* equal to {least}, got {least - 1}"):
        part_of({"type": "generated_sql", setting: least - 1}, None, "SqlEnv")


def test_unknown_splits_ids_and_numbers_are_refused():
    with pytest.raises(UnknownName, match="unknown split 'trian'; did you mean 'train'"):
        SOURCE.size("trian")
    with pytest.raises(UnknownName, match="unknown task 'sql/train/x'"):
        SOURCE.find("sql/train/x")
    with pytest.raises(UnknownName, match="unknown task 'lock/train/1'"):
        SOURCE.find("lock/train/1")
    with pytest.raises(IndexError, match="task number -1"):
        SOURCE.task("train", -1)


def test_a_source_that_can_ask_nothing_says_so():
    source = GeneratedSql(families=["shop"], shapes=["list_all"], rows=300, databases=1).open()
    with pytest.raises(ConfigError, match="found no question for task 0"):
        source.task("train", 0)
    with pytest.raises(ConfigError, match="found no question"):
        GeneratedSql(families=["farm"], shapes=["across"]).open().task("train", 0)
