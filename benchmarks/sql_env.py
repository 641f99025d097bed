"""Speed of ``turngate/Sql-v1`` on one thread: reset, list_tables, describe, run_sql, submit, verify, settle.

    python -m benchmarks.sql_env --seconds 3

Prints JSON. Every episode gets a fresh copy of a database of about 50 kB and runs one of 64 queries; the four steps are
counted, reset and verification are in the time. Gold rows are found once per query, as in a group of siblings. Like
siblings, episodes repeat each other's queries, which are then compiled once; ``--new-queries`` makes each one new.
A round plays every task once. The figure is that of the best round, which other work on the machine slowed least; the
median is given beside it.

    python -m benchmarks.sql_env --against ../other-checkout --turns 5

plays this checkout and another in turn, each in a process of its own, and gives the median of the ratios of their best
rounds (above 1: this one is faster). ``--fresh`` opens a connection for every episode, as if no copy could be kept.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from turngate.envs.sql.engine import database as database_module
from turngate.envs.sql.engine.database import content_key
from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Task

N_AUTHORS, N_BOOKS, N_LOANS = 150, 500, 700
QUERIES = (
    "SELECT title FROM books WHERE id = {n}",
    "SELECT title, pages FROM books WHERE author_id = {n} ORDER BY pages DESC",
    "SELECT a.name, count(*) FROM authors AS a JOIN books AS b ON b.author_id = a.id WHERE a.id < {n} GROUP BY a.id",
    "SELECT max(days) FROM loans WHERE book_id < {n}",
)


def library() -> bytes:
    """The image of a library database of about 50 kB."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT);"
        "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors(id), pages INT);"
        "CREATE TABLE loans (id INTEGER PRIMARY KEY, book_id INTEGER REFERENCES books(id), reader TEXT, days INTEGER);"
    )
    authors = [(i, f"author number {i}") for i in range(N_AUTHORS)]
    books = [(i, f"the book with number {i}", i * 7 % N_AUTHORS, 50 + i * 13 % 400) for i in range(N_BOOKS)]
    loans = [(i, i * 11 % N_BOOKS, f"reader {i % 40}", 1 + i % 60) for i in range(N_LOANS)]
    connection.executemany("INSERT INTO authors VALUES (?, ?)", authors)
    connection.executemany("INSERT INTO books VALUES (?, ?, ?, ?)", books)
    connection.executemany("INSERT INTO loans VALUES (?, ?, ?, ?)", loans)
    connection.commit()
    image: bytes = connection.serialize()
    connection.close()
    return image


def library_tasks(image: bytes) -> list[Task]:
    """64 tasks of four kinds about one database."""
    key = content_key(image)
    return [
        Task(
            id=f"library/{i}",
            env_id="turngate/Sql-v1",
            prompt="How many?",
            private={
                "database": image,
                "key": key,
                "gold": QUERIES[i % len(QUERIES)].format(n=i + 10),
                "ordered": False,
                "tables": ("books",),
            },
        )
        for i in range(64)
    ]


def play(env: SqlEnv, task: Task, actions: Sequence[str]) -> float:
    """One episode; returns its total reward."""
    env.reset(options={"task": task})
    return sum(env.step(action)[1] for action in actions)


def steps_per_second(seconds: float, *, new_queries: bool = False) -> dict[str, float]:
    """Play oracle episodes for ``seconds``; every one of them must be won. ``new_queries``: no text is seen twice."""
    image = library()
    tasks = library_tasks(image)
    env = SqlEnv(tasks=TaskList(tasks))
    plays = [(task, env.oracle(task)) for task in tasks]
    for task, actions in plays:
        if play(env, task, actions) < 1.0:
            raise RuntimeError(f"the oracle lost task '{task.id}'")
    episodes, rounds, begin = 0, list[float](), time.perf_counter()
    while sum(rounds) < seconds:
        for task, actions in plays:
            mark = f" -- {episodes}" if new_queries else ""
            play(env, task, [*actions[:-2], actions[-2] + mark, actions[-1]])
            episodes += 1
        rounds.append(time.perf_counter() - begin - sum(rounds))
    env.close()
    steps = len(plays) * len(plays[0][1])
    return {
        "steps_per_second": steps / min(rounds),
        "steps_per_second_median": steps / statistics.median(rounds),
        "episodes": float(episodes),
        "database_bytes": float(len(image)),
    }


def against(other: Path, turns: int, seconds: float) -> dict[str, float | list[float]]:
    """Ratios of the speed of this checkout to that of another, played in turn."""
    ratios = []
    for _ in range(turns):
        here, there = (_measured(folder, seconds) for folder in (Path.cwd(), other.resolve()))
        ratios.append(here / there)
    return {"ratio_median": statistics.median(ratios), "ratios": ratios}


def _measured(folder: Path, seconds: float) -> float:
    command = [sys.executable, "-m", "benchmarks.sql_env", "--seconds", str(seconds)]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["steps_per_second"])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Speed of turngate/Sql-v1 on one thread.")
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--turns", type=int, default=5, help="comparisons with the other checkout")
    parser.add_argument("--fresh", action="store_true", help="open a connection for every episode")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to play")
    parser.add_argument("--new-queries", action="store_true", help="give every query a text of its own")
    asked = parser.parse_args()
    if asked.against is not None:
        print(json.dumps(against(asked.against, asked.turns, asked.seconds), indent=2))
        return
    if asked.fresh:
        database_module._copies.room = 0
    print(json.dumps(steps_per_second(asked.seconds, new_queries=asked.new_queries), indent=2))


if __name__ == "__main__":
    main()
