import sqlite3
from collections.abc import Callable

import pytest

from turngate.envs.sql.engine.database import content_key
from turngate.types import Task

SCHEMA = """
CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors(id), price REAL);
CREATE TABLE loans (book_id INTEGER, day TEXT, PRIMARY KEY (book_id, day));
CREATE VIEW cheap AS SELECT title FROM books WHERE price < 5;
INSERT INTO authors VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy');
INSERT INTO books VALUES (1, 'Ash', 1, 3.5), (2, 'Bay', 1, 7.25), (3, 'Cut', 2, NULL), (4, 'Dew', 2, 4.0);
INSERT INTO loans VALUES (1, '2020-01-01'), (1, '2020-01-02'), (2, '2020-01-01');
"""


def image_of(script: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    image: bytes = connection.serialize()
    connection.close()
    return image


@pytest.fixture(scope="session")
def make_image() -> Callable[[str], bytes]:
    """A database image from an SQL script."""
    return image_of


@pytest.fixture(scope="session")
def library() -> bytes:
    """Three tables and a view: authors 1-3, books 1-4, three loans."""
    return image_of(SCHEMA)


@pytest.fixture
def make_task(library: bytes) -> Callable[..., Task]:
    """A task about the library, or about ``database``."""

    def make(gold: str, *, ordered: bool = False, database: bytes | str = library, name: str = "hand/0") -> Task:
        private = {
            "database": database,
            "key": content_key(database),
            "gold": gold,
            "ordered": ordered,
            "tables": ("books",),
        }
        return Task(id=name, env_id="turngate/Sql-v1", prompt="Which books?", private=private)

    return make
