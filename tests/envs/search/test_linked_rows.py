"""Questions along the foreign keys of a database."""

import sqlite3
from contextlib import closing

import pytest

import turngate
from turngate.envs.search.generated.linked_rows import linked_rows
from turngate.envs.search.sources import LinkedSearch
from turngate.errors import ConfigError, DataError

SCHEMA = """
CREATE TABLE country (id INTEGER PRIMARY KEY, name TEXT, Capital_City TEXT);
CREATE TABLE artist (ArtistId INTEGER PRIMARY KEY, Name TEXT, CountryId INTEGER REFERENCES country(id), born INTEGER);
CREATE TABLE album (id INTEGER PRIMARY KEY, Title TEXT, ArtistId INTEGER REFERENCES artist, notes TEXT, cover BLOB);
CREATE TABLE nameless (a INTEGER, b INTEGER);
INSERT INTO country VALUES (1, 'Norway', 'Oslo'), (2, 'Chile', 'Santiago'), (3, 'Peru', NULL);
INSERT INTO artist VALUES (1, 'Ann', 1, 1970), (2, 'Bob', 2, 1980), (3, 'Cat', 3, NULL), (4, 'Dan', 1, 1990);
INSERT INTO album VALUES (1, 'Ice', 1, 'x', x'00'), (2, 'Sun', 2, 'y', NULL);
INSERT INTO album VALUES (3, 'Sea', 3, 'z', NULL), (4, 'Fog', 4, 'w', NULL);
"""


@pytest.fixture
def database(tmp_path):
    with closing(sqlite3.connect(tmp_path / "music.db")) as connection:
        connection.executescript(SCHEMA)
        connection.commit()
    return tmp_path / "music.db"


def test_rows_become_documents_that_say_their_links(database):
    made = linked_rows(database)
    assert made.texts["album/1"] == "Ice (album)\nartist: Ann\nnotes: x"
    assert made.texts["artist/3"] == "Cat (artist)\ncountry: Peru"
    assert not any(document.id.startswith("nameless") for document in made.documents)
    assert made.graph.ends("Ice", ("album.ArtistId", "artist.CountryId")) == {"country/1"}
    assert made.graph.phrases["country.Capital_City"] == "the capital city of {}"


@pytest.mark.parametrize("unanswerable", [0.0, 1.0])
def test_the_oracle_solves_what_is_asked(database, unanswerable):
    tasks = {"type": "linked_search", "database": str(database), "unanswerable": unanswerable, "held_out": 3}
    env = turngate.make("turngate/Search-v1", tasks=tasks)
    answers = {}
    for split in env.tasks.splits:
        for index in range(25):
            task = env.tasks.task(split, index)
            assert task == env.tasks.find(task.id)
            answers.setdefault(split, set()).update(task.private["gold"])
            env.reset(options={"task": task})
            for action in env.oracle(task):
                *_, info = env.step(action)
            assert info["score"].outcome == 1.0, task
    assert not answers["train"] & answers["heldout"]


def test_databases_that_give_no_questions(tmp_path, database):
    (tmp_path / "no.db").write_text("this is no database, whatever its name says")
    with pytest.raises(DataError, match=r"no\.db: is not a SQLite database"):
        LinkedSearch(database=tmp_path / "no.db").open()
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection:
        connection.execute("CREATE TABLE pair (a INTEGER, b INTEGER)")
        connection.commit()
    with pytest.raises(ConfigError, match="no row has a name"):
        LinkedSearch(database=tmp_path / "empty.db").open()
    with pytest.raises(ConfigError, match="found no fair question of 5 to 5 links"):
        LinkedSearch(database=database, min_hops=5, max_hops=5).open().task("train", 0)
