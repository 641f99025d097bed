"""A small folder in the layout of Spider."""

import json
import sqlite3
from pathlib import Path


def spider_folder(folder: Path) -> Path:
    """A database of two tables, eight questions to train on and four to evaluate with."""
    database = folder / "data" / "database" / "library" / "library.sqlite"
    database.parent.mkdir(parents=True)
    connection = sqlite3.connect(database)
    connection.executescript(
        """CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, price REAL);
        CREATE TABLE loans (book_id INTEGER, day TEXT);
        INSERT INTO books VALUES (1, 'Ash', 3.5), (2, 'Bay', 7.25), (3, 'Dew', 4.0);
        INSERT INTO loans VALUES (1, '2020-01-01'), (1, '2020-01-02'), (2, '2020-01-01');"""
    )
    connection.close()

    def question(number: int) -> dict[str, str]:
        row = {"db_id": "library", "question": f"How many books cost more than {number}?"}
        return {**row, "query": f"SELECT count(*) FROM books WHERE price > {number}"}

    for name, numbers in (("train_spider", range(8)), ("dev", range(8, 12))):
        (folder / "data" / f"{name}.json").write_text(json.dumps([question(number) for number in numbers]))
    return folder / "data"
