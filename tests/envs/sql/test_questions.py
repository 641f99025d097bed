"""Queries as text, their hasty variants, and what makes a draft unfair, on a table small enough to check by eye."""

import sqlite3
from types import MappingProxyType

import pytest

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import BuiltDatabase, build, connect, freeze
from turngate.envs.sql.generated.families_schema import DatabaseFamily, category, date, names, real, table, whole
from turngate.envs.sql.generated.questions import Misfit, Pick, Query, QuestionDraft, flaw, literal, wording
from turngate.envs.sql.generated.shapes import SHAPES

DOGS = table(
    "dogs",
    "dog",
    1.0,
    names(("rex", "ada", "bo", "cy")),
    category("coat", "red grey"),
    whole("age", 1, 9),
    real("weight", 1, 9, nulls=True),
    date("born", says="birthday"),
)
ROWS = (
    (1, "rex", "red", 3, 2.5, "2020-05-01"),
    (2, "ada", "grey", 5, None, "2021-05-01"),
    (3, "bo", "red", 5, 4.0, "2022-05-01"),
    (4, "cy", "red", 7, 6.5, "2023-05-01"),
)


@pytest.fixture(scope="module")
def kennel() -> BuiltDatabase:
    connection = connect()
    connection.execute(DOGS.ddl)
    connection.executemany("INSERT INTO dogs VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    image, key = freeze(connection)
    family = DatabaseFamily(name="kennel", tables=(DOGS,))
    rows = MappingProxyType({"dogs": ROWS})
    return BuiltDatabase(family=family, rows=rows, image=image, key=key, connection=connection)


def dogs(select: str, **clauses: object) -> Query:
    return Query(select=select, tables=("dogs",), **clauses)  # type: ignore[arg-type]


def problem(database: BuiltDatabase, query: Query, *decoys: str) -> str:
    return flaw(QuestionDraft(query=query, words={}, decoys=decoys), database)


def test_a_query_is_written_in_one_style():
    full = dogs("coat, count(*)", where=("age > 3", "weight < 9"), group="coat", having="count(*) > 1")
    assert full.sql == "SELECT coat, count(*) FROM dogs WHERE age > 3 AND weight < 9 GROUP BY coat HAVING count(*) > 1"
    assert dogs("name", order="age DESC", limit=3).sql == "SELECT name FROM dogs ORDER BY age DESC LIMIT 3"
    assert dogs("coat", distinct=True).sql == "SELECT DISTINCT coat FROM dogs"
    union = dogs("name", then=("UNION", Query(select="title", tables=("books",))))
    assert union.sql == "SELECT name FROM dogs UNION SELECT title FROM books"


def test_order_matters_only_where_rows_are_sorted():
    assert dogs("name", order="age").ordered
    assert dogs("name", order="age DESC", limit=3).ordered
    assert not dogs("name", order="age DESC", limit=1).ordered
    assert not dogs("name").ordered


def test_weaker_queries_leave_out_one_clause_each():
    query = dogs("name", where=("age > 3", "coat = 'red'"), order="age", limit=2)
    assert [weak.sql for weak in query.weaker()] == [
        "SELECT name FROM dogs WHERE coat = 'red' ORDER BY age LIMIT 2",
        "SELECT name FROM dogs WHERE age > 3 ORDER BY age LIMIT 2",
        "SELECT name FROM dogs WHERE age > 3 AND coat = 'red' LIMIT 2",
        "SELECT name FROM dogs WHERE age > 3 AND coat = 'red' ORDER BY age",
    ]
    union = dogs("name", then=("UNION", Query(select="title", tables=("books",))))
    assert [weak.sql for weak in union.weaker()] == [
        "SELECT name FROM dogs",
        "SELECT DISTINCT name FROM dogs",
        "SELECT title FROM books",
        "SELECT DISTINCT title FROM books",
    ]


def test_sort_keys_reach_one_row_behind_the_limit():
    assert dogs("name", order="age DESC", limit=2).keys().sql == "SELECT age FROM dogs ORDER BY age DESC LIMIT 3"
    assert dogs("name", order="age").keys().sql == "SELECT age FROM dogs ORDER BY age"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (dogs("name", where=("coat = 'red'",)), ""),
        (dogs("name", order="age DESC", limit=1), ""),
        (dogs("name", where=("age > 9",)), "0 rows"),
        (dogs("sum(weight)", where=("name = 'ada'",)), "says nothing"),
        (dogs("count(*)", where=("age > 9",)), "says nothing"),
        (dogs("name", order="age DESC", limit=2), "tie"),
        (dogs("name", order="age"), "tie"),
        (dogs("name", order="weight", limit=1), "tie"),  # NULL sorts first: no weight is no lowest weight
        (dogs("name", where=("age < 9",)), "same answer as: SELECT name FROM dogs"),
        (dogs("name", order="born"), "same answer as: SELECT name FROM dogs"),
        (dogs("name", distinct=True), "same answer as: SELECT name FROM dogs"),
        (dogs("id, name, coat, age, weight, born"), "same answer as: SELECT * FROM dogs"),
        (dogs("coat", group="coat", having="count(*) > 0"), "same answer as: SELECT coat FROM dogs GROUP BY coat"),
    ],
)
def test_flaws_of_questions_about_four_dogs(kennel: BuiltDatabase, query: Query, expected: str):
    assert problem(kennel, query) == expected


def test_a_decoy_with_the_same_answer_is_a_flaw(kennel: BuiltDatabase):
    query = dogs("name", where=("age > 6",))
    assert problem(kennel, query, "SELECT name FROM dogs WHERE age > 3") == ""
    same = "SELECT name FROM dogs WHERE weight > 5"
    assert problem(kennel, query, same) == f"same answer as: {same}"


def test_too_many_rows_are_a_flaw():
    database = build("gym", "train", 0, 300)
    count = len(database.rows["members"])
    assert count > 50
    assert problem(database, Query(select="name", tables=("members",))) == f"{count} rows"


def test_wording_puts_nouns_and_articles():
    words = {"a": DOGS.columns[4], "many": DOGS, "one": "owl", "v": 2.5}
    question = "list the birthday of dogs with an owl above 2.5"
    assert wording("list the {a} of {many} with {one:a} above {v}", words) == question
    assert wording("{many} of {one:a}", {"many": DOGS, "one": "dog"}) == "dogs of a dog"


def test_wording_quotes_values_that_are_text_and_nothing_else():
    words = {"c": DOGS.columns[1], "one": "dog", "v": "red", "w": 7}
    assert wording("{one} with {c} {v} or {w}", words) == "dog with coat 'red' or 7"


@pytest.mark.parametrize(("value", "expected"), [("red", "'red'"), (3, "3"), (2.5, "2.5")])
def test_literals(value: object, expected: str):
    assert literal(value) == expected  # type: ignore[arg-type]


def test_picks_respect_kind_and_nulls(kennel: BuiltDatabase):
    for number in range(30):
        pick = Pick(rng=SeededRandom("pick", number), database=kennel)
        assert pick.column(DOGS, ("whole", "real"), nulls=False).name == "age"
        low, high = pick.two(DOGS, DOGS.columns[1])
        assert (low, high) == ("grey", "red")
        assert pick.value(DOGS, DOGS.columns[3]) in (2.5, 4.0, 6.5)
        sql, words, column = pick.condition(DOGS)
        assert (column.name, sql.split()[0], words.split()[0]) in [("age",) * 3, ("coat",) * 3]


def test_a_pick_that_finds_nothing_is_a_misfit(kennel: BuiltDatabase):
    pick = Pick(rng=SeededRandom("none"), database=kennel)
    with pytest.raises(Misfit):
        pick.link()
    with pytest.raises(Misfit):
        pick.table(("year",))


def test_shapes_have_names_levels_and_paraphrases():
    assert len(SHAPES) >= 44
    assert {shape.level for shape in SHAPES.values()} == {1, 2, 3, 4}
    for name, shape in SHAPES.items():
        assert name == shape.name
        assert 2 <= len(set(shape.templates)) <= 3
        assert all(template == template.lower() for template in shape.templates)


def test_paraphrases_are_not_shared_between_shapes():
    templates = [template for shape in SHAPES.values() for template in shape.templates]
    assert len(templates) == len(set(templates))


def test_the_kennel_file_opens_as_a_database(kennel: BuiltDatabase):
    connection = sqlite3.connect(":memory:")
    connection.deserialize(kennel.image)
    assert connection.execute("SELECT count(*) FROM dogs").fetchone() == (4,)
