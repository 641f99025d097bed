"""Families are complete and regular, and the databases built from them hold what the declarations say."""

import re
import sqlite3

import pytest

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import build
from turngate.envs.sql.generated.families import FAMILIES, HELD_OUT
from turngate.envs.sql.generated.families_schema import (
    AMOUNT,
    CATEGORY,
    DATE,
    NAME,
    NUMBER,
    DatabaseFamily,
    category,
    names,
    real,
    table,
)

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def opened(image: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(image)
    return connection


def test_twelve_families_to_train_on_and_two_held_out():
    assert len(FAMILIES) == 14
    assert HELD_OUT == ("museum", "railway")
    assert set(HELD_OUT) < set(FAMILIES)


@EVERY_FAMILY
def test_every_family_has_what_the_questions_need(family: DatabaseFamily):
    columns = [column for table in family.tables for column in table.columns]
    assert 2 <= len(family.tables) <= 4
    assert family.links
    assert {"name", "category", "whole", "real", "date", "link"} <= {column.kind for column in columns}
    assert any(column.nulls for column in columns)
    for wanted in (AMOUNT, CATEGORY, DATE, NUMBER):
        assert any(table.of_kind(NAME) and table.of_kind(wanted, nulls=False) for table in family.tables), wanted


@EVERY_FAMILY
def test_names_are_plain_words_and_parents_come_first(family: DatabaseFamily):
    seen: set[str] = set()
    for one in family.tables:
        assert all(column.to in seen for column in one.columns if column.kind == "link")
        seen.add(one.name)
        for name in (one.name, *(column.name for column in one.columns)):
            assert re.fullmatch(r"[a-z]+(_[a-z]+)?", name)
        nouns = [column.says for column in one.columns]
        assert len(nouns) == len(set(nouns))


def test_few_different_single_words_fill_all_databases():
    words = {word for one in FAMILIES.values() for t in one.tables for column in t.columns for word in column.words}
    assert len(words) <= 600
    assert all(re.fullmatch("[a-z]+", word) for word in words)


@EVERY_FAMILY
def test_a_database_holds_the_declared_rows(family: DatabaseFamily):
    database = build(family.name, "train", 3, 12)
    connection = opened(database.image)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for one in family.tables:
        rows = connection.execute(f"SELECT * FROM {one.name} ORDER BY id").fetchall()
        assert rows == list(database.rows[one.name])
        assert 8 <= len(rows) <= 30
        for number, column in enumerate(one.columns, start=1):
            values = [row[number] for row in rows]
            assert column.nulls or None not in values
            known = [value for value in values if value is not None]
            if column.kind == "name":
                assert len(set(known)) == len(rows)
            if column.kind in ("category", "name"):
                assert set(known) <= set(column.words)
            if column.kind in ("whole", "real", "year"):
                assert all(column.low <= value <= column.high for value in known)
            if column.kind == "date":
                assert all(re.fullmatch(r"20(18|19|20|21|22|23)-\d\d-\d\d", value) for value in known)


@EVERY_FAMILY
def test_some_parents_have_no_children_and_some_values_are_null(family: DatabaseFamily):
    lonely, empty = 0, 0
    for number in range(4):
        connection = opened(build(family.name, "train", number, 12).image)
        for key in family.links:
            children = f"SELECT {key.column.name} FROM {key.child.name}"
            query = f"SELECT count(*) FROM {key.parent.name} WHERE id NOT IN ({children})"
            lonely += connection.execute(query).fetchone()[0]
        for one in family.tables:
            for column in one.of_kind(AMOUNT, nulls=True):
                empty += connection.execute(f"SELECT count(*) FROM {one.name} WHERE {column.name} IS NULL").fetchone()[
                    0
                ]
    assert lonely > 0
    assert empty > 0


def test_content_differs_between_splits_numbers_and_sizes():
    built = [
        build("shop", split, number, rows) for split in ("train", "heldout") for number in (0, 1) for rows in (8, 12)
    ]
    assert len({database.key for database in built}) == 8


def test_size_grows_with_rows_and_names_stay_unique():
    database = build("gym", "train", 0, 300)
    assert 40_000 < len(database.image) < 80_000
    names = [row[1] for row in database.rows["members"]]
    assert len(set(names)) == len(names) > 300
    assert "anna" in names
    assert "anna2" in names


def test_the_image_names_one_sqlite_version_whichever_library_wrote_it():
    image = build("farm", "train", 0, 12).image
    assert image[:16] == b"SQLite format 3\0"
    assert int.from_bytes(image[96:100], "big") == 3_040_001


def test_ddl_says_keys_types_and_what_may_be_null():
    declared = table(
        "dogs", "dog", 1.0, names(("rex",)), category("coat", "red grey"), real("weight", 1, 9, nulls=True)
    )
    expected = "CREATE TABLE dogs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, coat TEXT NOT NULL, weight REAL)"
    assert declared.ddl == expected
    loans = FAMILIES["library"].table("loans")
    assert "book_id INTEGER NOT NULL REFERENCES books(id)" in loans.ddl


def test_chains_and_bridges_of_the_library():
    library = FAMILIES["library"]
    chains = {(low.child.name, high.child.name, high.parent.name) for low, high in library.chains}
    bridges = {(a.parent.name, a.child.name, b.parent.name) for a, b in library.bridges}
    assert chains == {("loans", "books", "authors")}
    assert bridges == {("books", "loans", "members"), ("members", "loans", "books")}


def test_random_choices_are_fixed_by_their_path():
    rng = SeededRandom("a", 1)
    assert [rng.whole(1, 6) for _ in range(8)] == [6, 6, 5, 4, 5, 3, 5, 6]
    assert SeededRandom("a", 1).sample("abcdefg", 4) == ["g", "a", "f", "c"]
    assert [SeededRandom("b", number).pick("xyz") for number in range(6)] == ["z", "x", "y", "y", "x", "y"]


def test_rows_are_fixed_by_family_split_number_and_size():
    barns = build("farm", "train", 0, 12).rows["barns"]
    assert barns[0] == (1, "riverside", "east", 67, 40.0, "2019-12-07")
    assert barns[1] == (2, "stonebridge", "east", 80, 85.2, "2018-03-19")
