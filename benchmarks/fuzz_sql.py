"""A fuzzer of ``turngate/Sql-v1``: what an agent might write, thousands of times a minute, in a process of its own.

    python -m benchmarks.fuzz_sql --minutes 10 [--seed 0]

Two databases on disk, with tables, a view, full-text and R-tree tables, take turns. Every text is made by ``Writer``:
fragments of a grammar, mutated queries, every function of the SQLite at hand with odd arguments, every table-valued
function and module, deep nesting, recursion, huge literals, and actions that are no SQL at all. Prints JSON and ends
with 1 if a process died, a step raised anything, or took longer than its deadline and ``SLACK_S``, or if a file changed
or appeared. What was found is printed with the actions of its episode, so that it can be repeated.
"""

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import turngate
from turngate.envs.pool.process import ProcessEnv, pickled
from turngate.envs.sql.engine.database import content_key
from turngate.errors import EpisodeError
from turngate.types import Ending, Info, Task

DEADLINE_S = 0.5
SLACK_S = 2.0  # for a busy machine, and for what SQLite cannot interrupt
TURNS = 6
GOLDS = (
    "SELECT title FROM books WHERE price < 5 ORDER BY title LIMIT 3",
    "SELECT a.name, count(*) FROM authors AS a JOIN books AS b ON b.author_id = a.id GROUP BY a.id HAVING count(*) > 1",
    "SELECT name FROM authors WHERE id NOT IN (SELECT author_id FROM books) UNION SELECT title FROM books",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT sum(x) OVER () FROM c",
    "SELECT DISTINCT strftime('%Y', day), CASE WHEN book_id > 1 THEN 'a' ELSE NULL END FROM loans WHERE day LIKE '2%'",
)
WORDS = (
    "SELECT DISTINCT ALL FROM WHERE GROUP ORDER HAVING LIMIT OFFSET UNION INTERSECT EXCEPT VALUES WITH RECURSIVE AS "
    "JOIN LEFT RIGHT FULL NATURAL CROSS ON USING AND OR NOT IN EXISTS LIKE GLOB MATCH REGEXP ESCAPE IS NULL CASE "
    "WHEN THEN ELSE END CAST COLLATE OVER PARTITION ROWS RANGE GROUPS PRECEDING FILTER BY BETWEEN "
    "EXPLAIN PRAGMA ATTACH DELETE INSERT UPDATE CREATE DROP ALTER VACUUM BEGIN COMMIT REINDEX ANALYZE RETURNING "
    "rowid * ( ) , ; . + - / % || -> ->> << >> & | ~ = == <> < <= > >= ? ?1 :a @a $a -- /* */ \" ' ` [ ] x'"
).split()
LITERALS = (
    "NULL 0 1 -1 2.5 -0.0 9223372036854775807 -9223372036854775808 1e308 -1e308 1e999 1e-320 0x7f ''"
    " 'a' 'ä€😀' '%' '_%' '[a-' '%s%d%n' '%*.*f' '%!.99f' '\ufeff' x'' x'00ff' x'c328' '[1,[2,{\"a\":3}]]' '{'"
    " '$' '$.a[#-1]' '$[99999999999]' '2020-01-01' 'now' 'abc*' '\"a b\" NEAR c' zeroblob(49999) randomblob(40000)"
    " hex(zeroblob(24000)) CURRENT_TIMESTAMP TRUE"
).split(" ")
SOURCES = {
    **{"books": ["title", "rowid"], "authors": ["name"], "loans": ["1"], "sqlite_schema": ["name", "sql", "rootpage"]},
    **{
        "f5": ["f5", "a", "rank"],
        "f4": ["f4", "docid"],
        "box": ["id"],
        "sqlite_stmt": ["sql", "mem"],
        "dbstat": ["path"],
    },
    **{"cheap": ["title"], "v5": ["term"], "pragma_table_info('books')": ["name"]},
}
WHOLE = 200  # letters of a text that is no SQL


def databases(folder: Path) -> list[Path]:
    """Two files with different tables under some equal names."""
    scripts = (
        "CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT);"
        "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors(id), price REAL);"
        "CREATE TABLE loans (book_id INTEGER, day TEXT, PRIMARY KEY (book_id, day)) WITHOUT ROWID;"
        "CREATE VIEW cheap AS SELECT title FROM books WHERE price < 5; CREATE INDEX by_title ON books(title);"
        "INSERT INTO authors VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy'); INSERT INTO loans VALUES (1, '2020-01-01');"
        "INSERT INTO books VALUES (1, 'Ash', 1, 3.5), (2, 'Bay', 1, 7.25), (3, 'Cut', 2, NULL), (4, x'ff41', 2, 4.0);"
        "CREATE VIRTUAL TABLE f5 USING fts5(a, b); INSERT INTO f5 VALUES ('a b c', 'd'), ('b', 'c d e');"
        "CREATE VIRTUAL TABLE f4 USING fts4(a, b); INSERT INTO f4 VALUES ('a b c', 'd'), ('b', 'c d e');"
        "CREATE VIRTUAL TABLE box USING rtree(id, x0, x1, y0, y1); INSERT INTO box VALUES (1, 0, 1, 0, 1);",
        "CREATE TABLE books (code TEXT, title TEXT); CREATE TABLE authors (name TEXT COLLATE NOCASE, born INT);"
        "CREATE TABLE loans (x, g AS (x || '!') STORED, j TEXT DEFAULT '{}'); INSERT INTO loans (x) VALUES (1), ('2');"
        "INSERT INTO books VALUES ('a', 'b'), ('c', NULL); INSERT INTO authors VALUES ('Z', 1900), ('z', 1901);"
        "CREATE VIRTUAL TABLE f5 USING fts5(a, content='', prefix='1 2'); INSERT INTO f5(rowid, a) VALUES (7, 'x y');"
        "CREATE VIRTUAL TABLE v5 USING fts5vocab(f5, 'row'); CREATE VIRTUAL TABLE f4 USING fts3(z);"
        "CREATE VIRTUAL TABLE box USING rtree_i32(id, a, b); INSERT INTO box VALUES (9, 1, 5);",
    )
    paths = []
    for number, script in enumerate(scripts):
        paths.append(folder / f"fuzz{number}.sqlite")
        connection = sqlite3.connect(paths[-1])
        connection.executescript(script)
        connection.close()
    return paths


def tasks(paths: list[Path]) -> list[Task]:
    """One task about each file."""
    gold = "SELECT title FROM books"
    return [
        Task(
            id=f"fuzz/{number}",
            env_id="turngate/Sql-v1",
            prompt="Which titles?",
            private={
                "database": str(path),
                "key": content_key(str(path)),
                "gold": gold,
                "ordered": False,
                "tables": (),
            },
        )
        for number, path in enumerate(paths)
    ]


def catalog() -> tuple[list[tuple[str, int, str]], list[str]]:
    """What the SQLite at hand has: functions with number of arguments (-1: any) and kind (s, a, w), table functions."""
    connection = sqlite3.connect(":memory:")
    functions = connection.execute(
        "SELECT DISTINCT name, narg, type FROM pragma_function_list ORDER BY 1, 2"
    ).fetchall()
    modules = [name for (name,) in connection.execute("SELECT name FROM pragma_module_list ORDER BY 1")]
    modules += [f"pragma_{name}" for (name,) in connection.execute("SELECT name FROM pragma_pragma_list ORDER BY 1")]
    connection.close()
    return functions, modules


class Writer:
    """Texts of an agent, drawn from ``rng``. ``rng`` may be hypothesis's, which then finds a shortest example."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.functions, self.modules = catalog()
        self.scalars = [item for item in self.functions if item[2] == "s" and item[0].isidentifier()]
        self.scope = ["1"]

    def action(self) -> str:
        """A whole action."""
        kind = self.rng.randrange(20)
        if kind == 0:
            return self.junk()
        if kind == 1:
            return "submit"
        if kind == 2:
            name = self.rng.choice(["describe", "list_tables", "fly"])
            return f"{name} {self.rng.choice(list(SOURCES))} {self.junk()}"
        if kind == 3:
            arguments = {self.rng.choice(["sql", "q"]): self.rng.choice([self.sql(), 7, None, [1], {"a": 1}])}
            body = json.dumps({"name": self.rng.choice(["run_sql", "submit", "describe"]), "arguments": arguments})
            return f"<tool_call>{body}</tool_call>"
        return f"{'submit' if kind == 4 else 'run_sql'} {self.sql()}"

    def junk(self) -> str:
        """Any characters."""
        points = [self.rng.randrange(0x250) if self.rng.random() < 0.9 else self.rng.randrange(0x110000)]
        points += [self.rng.randrange(0x100) for _ in range(self.rng.randrange(WHOLE))]
        return "".join(map(chr, points))

    def sql(self) -> str:
        """A statement, right or wrong."""
        kind = self.rng.randrange(8)
        if kind == 0:
            return self.mutated(self.rng.choice(GOLDS))
        if kind == 1:
            return self.mutated(self.select(2))
        if kind == 2:
            return self.deep()
        if kind == 3:
            return f"{self.recursive()} SELECT {self.expression(2)} FROM c"
        if kind == 4:
            return " ".join(self.rng.choice([*WORDS, *LITERALS, *SOURCES]) for _ in range(self.rng.randrange(30)))
        return self.select(3)

    def mutated(self, text: str) -> str:
        """A few words of ``text`` left out, doubled, replaced or exchanged."""
        words = text.split(" ")
        for _ in range(self.rng.randrange(1, 5)):
            at = self.rng.randrange(len(words))
            new = [[], [words[at]] * 2, [self.rng.choice(WORDS)], [self.expression(1)], [self.rng.choice(words)]]
            words[at : at + 1] = self.rng.choice(new)
            words = words or [""]
        return " ".join(words)

    def deep(self) -> str:
        """Something nested or repeated often."""
        many = self.rng.choice([3, 40, 150, 400, 3000])
        inner = self.expression(1)
        shapes = (
            "SELECT " + "(" * many + inner + ")" * many,
            "SELECT " + "+".join([inner] * many),
            "SELECT " + "abs(" * many + inner + ")" * many,
            "SELECT " + "(SELECT " * many + inner + ")" * many,
            "SELECT " + ", ".join([inner] * many),
            "SELECT 1 IN (" + ", ".join([inner] * many) + ")",
            "SELECT 1" + " UNION SELECT 2" * many,
            "SELECT 1 FROM " + ", ".join(["books"] * min(many, 70)),
            f"WITH d AS (SELECT {inner} AS x) SELECT " + "+".join(["d.x"] * many) + " FROM d",
            "SELECT '" + "x" * (20 * many) + "'",
            "SELECT json_extract('" + "[" * many + "]" * many + "', '$" + "[0]" * many + "')",
        )
        return self.rng.choice(shapes)

    def recursive(self) -> str:
        """A recursive common table expression, bounded or not."""
        limit = self.rng.choice(["", " WHERE x < 99", " LIMIT 9", " LIMIT -1", f" WHERE {self.expression(1)}"])
        step = self.rng.choice(["x + 1", "x || x", "x", self.expression(1)])
        union = self.rng.choice(["UNION", "UNION ALL"])
        return f"WITH RECURSIVE c(x) AS (SELECT {self.expression(1)} {union} SELECT {step} FROM c{limit})"

    def select(self, depth: int) -> str:
        """A SELECT of the grammar; columns are mostly those of its sources."""
        outer, self.scope = self.scope, []
        tables = [self.source(depth)]
        for _ in range(self.rng.choice([0, 0, 0, 1, 2])):
            join = self.rng.choice([", ", " JOIN ", " LEFT JOIN ", " NATURAL JOIN ", " FULL JOIN "])
            tables.append(join + self.source(depth))
        self.scope = self.scope or outer
        said = [f"SELECT {'DISTINCT ' * self.rng.randrange(2)}"]
        said.append(", ".join(self.expression(depth) for _ in range(self.rng.randrange(1, 4))))
        said.append(f" FROM {''.join(tables)}")
        for clause in (" WHERE ", " GROUP BY ", " ORDER BY ", " LIMIT "):
            if self.rng.random() < 0.2:
                said.append(clause + (self.expression(depth) if clause != " LIMIT " else self.rng.choice("0379")))
        self.scope = outer
        return "".join(said)

    def source(self, depth: int) -> str:
        """What stands after FROM."""
        kind = self.rng.randrange(6)
        if kind == 0:
            arguments = ", ".join(self.rng.choice(LITERALS) for _ in range(self.rng.randrange(3)))
            self.scope.append("rowid")
            return self.rng.choice(self.modules) + (f"({arguments})" if arguments else "")
        if kind == 1:
            self.scope += ["value", "key", "path"]
            return f"json_{self.rng.choice(['each', 'tree'])}({self.rng.choice(LITERALS)})"
        if kind == 2 and depth > 0:
            inner = self.select(depth - 1)
            self.scope.append("1")
            return f"({inner}) AS {self.rng.choice('st')}"
        name = self.rng.choice(list(SOURCES))
        self.scope += SOURCES[name]
        return name

    def expression(self, depth: int) -> str:
        """A value."""
        kind = self.rng.randrange(10) if depth > 0 else self.rng.randrange(2)
        if kind == 0:
            return self.rng.choice(LITERALS)
        if kind == 1:
            return self.rng.choice(self.scope) if self.rng.random() < 0.95 else self.rng.choice(WORDS)
        if kind == 2:
            operator = self.rng.choice(["+", "*", "||", "->>", "<", "IS NOT", "LIKE", "GLOB", "MATCH", "<<", "%"])
            return f"({self.expression(depth - 1)} {operator} {self.expression(depth - 1)})"
        if kind == 3:
            return f"({self.select(depth - 1)})"
        if kind == 4:
            kind_of = self.rng.choice(["INT", "TEXT", "BLOB", "REAL", "NUMERIC"])
            return f"CAST({self.expression(depth - 1)} AS {kind_of})"
        name, count, sort = self.rng.choice(self.functions if kind == 5 else self.scalars)
        if self.rng.random() < 0.05:
            count = self.rng.randrange(5)
        arguments = [self.expression(depth - 1) for _ in range(self.rng.randrange(1, 4) if count < 0 else count)]
        over = self.rng.choice(["", " OVER ()", " OVER (ORDER BY 1 ROWS 1 PRECEDING)"]) if sort != "s" else ""
        return f"{name if name.isidentifier() else json.dumps(name)}({', '.join(arguments)}){over}"


class Hunt:
    """One environment in a process of its own, which is replaced when it dies, and what was found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks = tasks(databases(folder))
        self.before = self._files()
        self.counts: Counter[str] = Counter()
        self.found: list[dict[str, Any]] = []
        self.slowest_s = 0.0
        self._env: ProcessEnv | None = None

    def play(self, task: Task, actions: list[str]) -> None:
        """One episode."""
        env = self._opened()
        said: list[str] = []
        try:
            env.reset(seed=0, options={"task": task})
            for action in actions:
                said.append(action)
                begin = time.perf_counter()
                *_, terminated, _truncated, info = env.step(action)
                took_s = time.perf_counter() - begin
                self._note(info, took_s, said)
                if terminated:
                    break
            else:
                env.finish(Ending.TOKEN_BUDGET)
        except EpisodeError as error:
            self.found.append({"what": f"{type(error).__name__}: {error}", "actions": said})
            self.close()
        self.counts["episodes"] += 1

    def _note(self, info: Info, took_s: float, said: list[str]) -> None:
        self.counts["steps"] += 1
        self.counts["executed"] += any(fact.name == "executes" and fact.value is True for fact in info["evidence"])
        self.counts["agent_faults"] += info["ending"] is Ending.AGENT_FAULT
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > DEADLINE_S + SLACK_S:
            self.found.append({"what": f"a step of {took_s:.1f} s", "actions": list(said)})

    def changed(self) -> list[str]:
        """Files that are not what they were."""
        after = self._files()
        return sorted(name for name in self.before.keys() | after.keys() if self.before.get(name) != after.get(name))

    def close(self) -> None:
        """End the process."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def _opened(self) -> ProcessEnv:
        if self._env is None:
            self._env = ProcessEnv(
                pickled(partial(turngate.make, "turngate/Sql-v1", deadline_s=DEADLINE_S, max_turns=99))
            )
            self._env.open()
        return self._env

    def _files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="A fuzzer of turngate/Sql-v1.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to hunt")
    parser.add_argument("--seed", type=int, default=0, help="begin of the random numbers")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-fuzz-") as folder:
        home = Path.cwd()
        os.chdir(folder)  # where a file would appear
        hunt = Hunt(Path(folder))
        writer = Writer(random.Random(asked.seed))
        end = time.monotonic() + 60 * asked.minutes
        try:
            while time.monotonic() < end:
                task = hunt.tasks[hunt.counts["episodes"] % 2]
                hunt.play(task, [writer.action() for _ in range(TURNS)])
        finally:
            hunt.close()
            os.chdir(home)
        report = {
            **hunt.counts,
            "seed": asked.seed,
            "sqlite": sqlite3.sqlite_version,
            "slowest_step_s": hunt.slowest_s,
            "found": hunt.found[:20],
            "found_total": len(hunt.found),
            "files_changed": hunt.changed(),
        }
    print(json.dumps(report, indent=2))
    sys.exit(1 if hunt.found or report["files_changed"] else 0)


if __name__ == "__main__":
    main()
