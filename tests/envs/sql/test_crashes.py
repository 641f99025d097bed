"""SQLite is C code that is fed with an adversary's text; none of it may end the process, change a file, or pass unread.

1. Every table-valued function, module and function of the SQLite at hand, with odd arguments, twice over two databases
   in turn (files, images in memory, and files too large to copy).
2. Whatever an agent writes: texts of a grammar, mutations, nesting, huge literals, no SQL at all (hypothesis).
3. Each batch runs in a process of its own, through ``ProcessEnv``: a death there is a failure here.
4. An agent that ends the process of its environment loses one episode, and the run goes on.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import turngate
from benchmarks.fuzz_sql import LITERALS, Hunt, Writer, catalog, databases, tasks
from turngate.envs.pool.process import ProcessEnv, pickled
from turngate.envs.sql.engine import database as database_module
from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Observation

SQL = "turngate/Sql-v1"
CHARS = 600  # of an observation, by default
ARGUMENTS = (
    "",
    "'x'",
    "'books'",
    "'[1,[2,{\"a\":3}]]', '$'",
    "NULL",
    "-1",
    "x'00ff'",
    "9223372036854775807, 'main', 3, 4",
    "zeroblob(49999)",
)


def open_where_it_lies() -> SqlEnv:
    """An environment that copies no file, as if all were large."""
    database_module.IN_MEMORY_BYTES = 1
    return SqlEnv(deadline_s=1.0)


def open_copies() -> SqlEnv:
    """An environment as it ships."""
    return SqlEnv(deadline_s=1.0)


def of_modules() -> Iterator[str]:
    for name in catalog()[1]:
        for arguments in ARGUMENTS:
            called = f"{name}({arguments})" if arguments else name
            yield f"SELECT * FROM {called}"
            yield f"SELECT count(*) FROM books JOIN {called}"


def of_functions() -> Iterator[str]:
    """Each function with every fourth of the odd values, all with all of them."""
    for at, (name, count, kind) in enumerate(catalog()[0]):
        called = name if name.isidentifier() else f'"{name}"'
        for number, literal in list(enumerate(LITERALS))[at % 4 :: 4]:
            many = [LITERALS[(number + 7 * i) % len(LITERALS)] for i in range(3 if count < 0 else count)]
            yield f"SELECT {called}({', '.join([literal] * len(many))})"
            yield f"SELECT {called}({', '.join(many)}){' OVER (ORDER BY 1)' if kind != 's' else ''} FROM books"


def of_tables() -> Iterator[str]:
    """The functions of full text and R-tree, which take a table."""
    for table, columns in (("f5", "'*', x'00', 1, NULL"), ("f4", "'<b>', '</b>', '…', 0, 99"), ("box", "'x', 3")):
        yield from (f"SELECT * FROM {table}('{query}')" for query in ("a", "a*", '"', "NEAR(a b, 1)", "a:b", ""))
        yield f"SELECT * FROM {table} WHERE {table} MATCH 'b' ORDER BY rowid DESC"
        for name, _, _ in catalog()[0]:
            called = name if name.isidentifier() else f'"{name}"'
            for arguments in (table, f"{table}, {columns}", f"'main', '{table}'"):
                yield f"SELECT {called}({arguments}) FROM {table} WHERE {table} MATCH 'b'"


BATCHES = {"modules": of_modules, "functions": of_functions, "tables": of_tables}


@pytest.mark.parametrize(
    ("opening", "batch"), [*((open_copies, batch) for batch in BATCHES), (open_where_it_lies, "modules")]
)
def test_the_corpus_ends_no_process(tmp_path: Path, batch: str, opening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = tasks(databases(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    statements = list(BATCHES[batch]())
    assert len(statements) > 200
    answered = set()
    env = ProcessEnv(pickled(opening))
    try:
        env.open()
        for sql in statements:
            for task in both * 2:
                env.reset(seed=0, options={"task": task})
                observation, _, terminated, truncated, info = env.step(f"run_sql {sql}")
                assert (type(observation), terminated, truncated, info["ending"]) == (Observation, False, False, None)
                assert 0 < len(observation.text) <= CHARS, sql
                facts = {fact.name: fact.value for fact in info["evidence"]}
                assert facts["executes"] is not observation.text.startswith("error: "), sql
                answered.add(facts["executes"])
    finally:
        env.close()
    assert answered == {True, False}
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_queries_of_the_report_in_a_process_of_their_own() -> None:
    """As the defect was met: an ordinary SELECT, on the first database and then on the next."""
    program = (
        "import turngate, turngate.envs\n"
        "for query in ('value FROM json_each(\\'[1]\\')', '* FROM json_tree(\\'[1]\\')', 'count(*) > 0 FROM dbstat', "
        "'count(*) FROM sqlite_stmt', '* FROM pragma_table_info(\\'x\\')'):\n"
        "    env = turngate.make('turngate/Sql-v1')\n"
        "    for seed in (0, 1, 1, 0):\n"
        "        env.reset(seed=seed)\n"
        "        print(env.step('run_sql SELECT ' + query)[0].text.splitlines()[1:2])\n"
        "    env.close()\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == ["['1']"] * 4
    assert done.stdout.splitlines()[8:16] == ["['1']"] * 8
    assert done.stdout.splitlines()[16:] == ["[]"] * 4  # refused, in words


def test_no_episode_reads_the_queries_of_another(tmp_path: Path) -> None:
    """``sqlite_stmt`` shows what was compiled on a connection, and connections serve one episode after another."""
    task = tasks(databases(tmp_path))[0]
    env = SqlEnv(tasks=TaskList([task]), max_chars=4000)
    for _ in range(3):
        env.reset(options={"task": task})
        env.step("run_sql SELECT title AS the_answer_of_a_sibling FROM books")
        for query in (
            "sql FROM sqlite_stmt",
            "sql FROM SQLITE_STMT AS s",
            "s.sql FROM (SELECT * FROM sqlite_stmt) AS s",
        ):
            observation, *_ = env.step(f"run_sql SELECT {query}")
            assert observation.text == f"sql\nSELECT {query}\n(1 row)"
    env.close()


def test_the_fuzzer_writes_queries_that_run(tmp_path: Path) -> None:
    """A fuzzer whose texts all fail to compile would test the parser alone."""
    env = SqlEnv(deadline_s=0.2, max_turns=99)
    writer, task = Writer(random.Random(1)), tasks(databases(tmp_path))[0]
    env.reset(options={"task": task})
    results = [env.step(f"run_sql {writer.sql()}")[0].text for _ in range(60)]
    env.close()
    assert 3 <= sum(not text.startswith("error: ") for text in results) < 60


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hunt]:
    folder, home = tmp_path_factory.mktemp("hunt"), Path.cwd()
    os.chdir(folder)
    hunt = Hunt(folder)
    yield hunt
    hunt.close()
    os.chdir(home)


@given(rng=st.randoms(use_true_random=False), which=st.integers(0, 1), turns=st.integers(1, 4))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_action_breaks_the_environment(hunt: Hunt, rng: random.Random, which: int, turns: int) -> None:
    writer = Writer(rng)
    hunt.play(hunt.tasks[which], [writer.action() for _ in range(turns)])
    assert hunt.found == []
    assert hunt.changed() == []
    assert hunt.counts["agent_faults"] == 0


@given(text=st.text(), prefix=st.sampled_from(["", "run_sql ", "submit ", "describe ", "<tool_call>"]))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_text_breaks_the_environment(hunt: Hunt, text: str, prefix: str) -> None:
    hunt.play(hunt.tasks[0], [prefix + text, text])
    assert hunt.found == []
    assert hunt.changed() == []


def test_a_fuzzer_that_meets_a_death_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hunt = Hunt(tmp_path)
    hunt._env = ProcessEnv(pickled(partial(turngate.make, SQL)))
    hunt._env.open()
    hunt._env.kill()
    hunt.play(hunt.tasks[0], ["list_tables"])
    assert [item["what"][:8] for item in hunt.found] == ["EnvError"]
    (tmp_path / "new").write_text("x")
    assert hunt.changed() == [str(tmp_path / "new")]
