"""What a database tells an agent, and what it refuses to do.

1. Rows, their true number and the column names are reported; only the head is kept of a long result.
2. Nothing but SELECT runs; a refused write is noted, a refused look at the schema through PRAGMA is not called a write.
3. Every bomb stops within its deadline and within bounded memory.
4. A damaged file is an error in a result; a missing one means that the environment broke.
5. Every load is a fresh copy, whatever happened before.
"""

import os
import resource
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import turngate.envs.sql.engine.database as database_module
from turngate.envs.cache import Cache
from turngate.envs.sql.engine.database import Database, QueryResult, content_key
from turngate.errors import EnvError

COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
TEN_MILLION = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 10) "
    "SELECT 1 FROM c a, c b, c d, c e, c f, c g, c h"
)


@pytest.fixture
def db(library: bytes) -> Database:
    return Database.open(library, deadline_s=0.5)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_rows_columns_and_count(db: Database) -> None:
    expected = QueryResult(columns=("id", "title"), rows=[(1, "Ash"), (2, "Bay")], count=2, complete=True)
    assert db.run("SELECT id, title FROM books WHERE author_id = 1;") == expected


def test_no_rows_is_a_result(db: Database) -> None:
    assert db.run("SELECT id FROM books WHERE id > 9") == QueryResult(columns=("id",), rows=[], count=0, complete=True)


@pytest.mark.parametrize(("keep", "complete"), [(2, False), (3, False), (4, True), (5, True)])
def test_only_the_head_is_kept_but_all_rows_are_counted(db: Database, keep: int, complete: bool) -> None:
    result = db.run("SELECT id FROM books -- all", keep=keep)
    assert (list(result.rows), result.count, result.complete) == ([(1,), (2,), (3,), (4,)][:keep], 4, complete)


def test_the_count_is_left_out_on_demand(db: Database) -> None:
    result = db.run("SELECT id FROM books", keep=1, count=False)
    assert (result.rows, result.count, result.complete) == ([(1,)], None, False)


def test_a_long_result_is_counted_exactly(db: Database) -> None:
    result = db.run(COUNTING.replace("FROM c)", "FROM c WHERE x < 30000)") + " SELECT x FROM c")
    assert (len(result.rows), result.count, result.rows[-1], result.error) == (10_000, 30_000, (10_000,), "")


def test_wide_values_end_what_is_kept(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "KEEP_CHARS", 100_000)
    sql = COUNTING.replace("FROM c)", "FROM c WHERE x < 500)") + " SELECT hex(zeroblob(5000)) FROM c"
    result = db.run(sql)
    assert (len(result.rows), result.count, result.complete) == (16, 500, False)


def test_schema_in_words(db: Database) -> None:
    schema = db.schema()
    assert schema.listing == "authors(3 rows), books(4 rows), loans(3 rows), cheap(view)"
    assert {table.name: table.text for table in schema.tables.values()} == {
        "authors": "id INTEGER PRIMARY KEY, name TEXT",
        "books": "id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER -> authors.id, price REAL",
        "loans": "book_id INTEGER, day TEXT, PRIMARY KEY (book_id, day)",
        "cheap": "title TEXT",
    }


@pytest.mark.parametrize("name", ["books", "BOOKS", ' "books" ', "`books`", "[books]", "books;"])
def test_tables_are_found_however_they_are_written(db: Database, name: str) -> None:
    table = db.schema().find(name)
    assert table is not None
    assert table.name == "books"


def test_a_strange_name_is_quoted(make_image: Callable[[str], bytes]) -> None:
    image = make_image('CREATE TABLE "a""b; DROP" (x); INSERT INTO "a""b; DROP" VALUES (1)')
    assert Database.open(image).schema().listing == 'a"b; DROP(1 rows)'


def test_tables_read(db: Database) -> None:
    assert db.tables_read("SELECT count(*) FROM loans JOIN books ON book_id = id") == ("loans", "books")
    assert db.tables_read("SELECT nothing FROM nowhere") == ()
    assert db.run("DELETE FROM books").refused


def test_text_that_is_not_utf8_is_shown(make_image: Callable[[str], bytes]) -> None:
    image = make_image("CREATE TABLE t (x TEXT); INSERT INTO t VALUES (CAST(x'ff41' AS TEXT)), ('ok')")
    assert Database.open(image).run("SELECT x FROM t").rows == [("\ufffdA",), ("ok",)]


def test_a_table_wider_than_the_limit_can_be_read(make_image: Callable[[str], bytes]) -> None:
    image = make_image(f"CREATE TABLE t ({', '.join(f'c{i}' for i in range(150))}); INSERT INTO t (c0) VALUES (7)")
    assert Database.open(image).run("SELECT * FROM t").rows == [(7, *[None] * 149)]


def test_table_functions_work(db: Database) -> None:
    assert db.run("SELECT value FROM json_each('[5, 6]')").rows == [(5,), (6,)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("trim('xxaxx', 'x')", "a"),
        ("ltrim('xxaxx', 'yx')", "axx"),
        ("rtrim('xxaxx', 'x')", "xxa"),
        ("trim(NULL, 'x')", None),
        ("trim('a', NULL)", None),
        ("trim(1.0, '0')", "1."),
        ("trim(1e300, '1')", ".0e+300"),
        ("trim(-12, '-')", "12"),
        ("trim(x'4142', 'A')", "B"),
        ("trim('  a ')", "a"),
        ("printf('%.2f|%5d|%s', 1.005, 3, 'a')", "1.01|    3|a"),
        ("printf('%d%%', 7)", "7%"),
        ("printf(NULL)", None),
    ],
)
def test_replaced_functions_agree_with_sqlite(db: Database, call: str, expected: object) -> None:
    assert db.run(f"SELECT {call}").rows == [(expected,)]
    assert sqlite3.connect(":memory:").execute(f"SELECT {call}").fetchall() == [(expected,)]


@pytest.mark.parametrize("module", ["fts4", "fts5"])
def test_full_text_tables_are_searched_and_not_written(make_image: Callable[[str], bytes], module: str) -> None:
    image = make_image(f"CREATE VIRTUAL TABLE f USING {module}(x); INSERT INTO f VALUES ('a dog'), ('b');")
    searched = Database.open(image, deadline_s=5)
    assert searched.run("SELECT x FROM f WHERE f MATCH 'dog'").rows == [("a dog",)]
    for write in ("INSERT INTO f VALUES ('c')", "INSERT INTO f(f) VALUES ('optimize')", "DELETE FROM f"):
        assert "read-only" in searched.run(write).error
    assert searched.run("SELECT count(*) FROM f").rows == [(2,)]


# --- refusing --------------------------------------------------------------------------------------------------------

WRITES = [
    "DELETE FROM books",
    "INSERT INTO books VALUES (9, 'x', 1, 1) RETURNING id",
    "UPDATE books SET title = 'x'",
    "UPDATE sqlite_master SET sql = 'x'",
    "WITH gone AS (SELECT 1) DELETE FROM books",
    "DROP TABLE books",
    "ALTER TABLE books RENAME TO b",
    "CREATE TABLE t (x)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE TEMP TRIGGER t AFTER DELETE ON books BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE t USING fts5(x)",
    "ATTACH 'pwn.db' AS p",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'pwn.db'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "SAVEPOINT s",
    "PRAGMA query_only = 0",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = wal",
    "PRAGMA temp_store_directory = '/'",
    "SELECT load_extension('x')",
]


@pytest.mark.parametrize("sql", WRITES)
def test_everything_but_select_is_refused_and_noted(db: Database, sql: str) -> None:
    result = db.run(sql)
    assert result.refused
    assert result.error
    assert db.run("SELECT count(*), max(title) FROM books").rows == [(4, "Dew")]


@pytest.mark.parametrize(
    "sql", ["PRAGMA table_info(books)", "SELECT * FROM pragma_table_info('books')", "PRAGMA page_size"]
)
def test_looking_through_pragma_is_refused_but_is_no_write(db: Database, sql: str) -> None:
    result = db.run(sql)
    assert result == QueryResult(error="PRAGMA is not available; use list_tables and describe")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nope FROM books", "no such column: nope"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("SELEKT 1", 'near "SELEKT": syntax error'),
        ("", "this is not a query; write one SELECT"),
        ("-- only a remark", "this is not a query; write one SELECT"),
        (
            "SELECT ?",
            "Incorrect number of bindings supplied. The current statement uses 1, and there are 0 supplied.",
        ),
        ("SELECT 1; DELETE FROM books", "You can only execute one statement at a time."),
        ("SELECT '\ud800'", "'utf-8' codec can't encode character '\\ud800' in position 8: surrogates not allowed"),
        ("SELECT 1 --" + "x" * 20_000, "the query has 20011 characters; at most 20000 are allowed"),
        ("SELECT " + ", ".join("1" * 101), "too many columns in result set"),
    ],
)
def test_bad_queries_are_explained(db: Database, sql: str, message: str) -> None:
    assert db.run(sql) == QueryResult(error=message)


def test_a_null_character_is_an_error(db: Database) -> None:
    assert "null character" in db.run("SELECT 1\0").error


def test_no_file_appears(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for sql in [
        *WRITES,
        "SELECT writefile('pwn', 'x')",
        "ATTACH 'file:pwn.db?mode=rwc' AS p",
        "SELECT * FROM books ORDER BY 2",
    ]:
        db.run(sql)
    db.run(COUNTING + " SELECT x, hex(zeroblob(2000)) AS z FROM c ORDER BY z LIMIT 3")
    assert list(tmp_path.iterdir()) == []


# --- bombs -----------------------------------------------------------------------------------------------------------


def test_an_endless_query_is_stopped(db: Database) -> None:
    threads = threading.active_count()
    result = db.run(COUNTING + " SELECT sum(x) FROM c")
    assert result == QueryResult(error="stopped after 0.5 s", timed_out=True)
    assert threading.active_count() == threads
    assert db.run("SELECT 1").rows == [(1,)]


def test_an_endless_result_is_cut_and_its_count_unknown(db: Database) -> None:
    result = db.run(COUNTING + " SELECT x FROM c")
    assert (len(result.rows), result.count, result.complete, result.error) == (10_000, None, False, "")


def test_ten_million_rows(db: Database) -> None:
    result = db.run(TEN_MILLION, count=False)
    assert (len(result.rows), result.complete, result.error) == (10_000, False, "")
    counted = db.run(TEN_MILLION)  # exact if the machine manages in time, else unknown, never wrong
    assert counted.count in (None, 10_000_000)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(1000000000)",
        "SELECT randomblob(1000000000)",
        "SELECT replace(hex(zeroblob(20000)), '0', hex(zeroblob(20000)))",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT printf('%1000000000c', 'x')",
        "SELECT format('%.*c', 1000000000, 'x')",
        "SELECT 'a' LIKE '" + "%a" * 200 + "'",
        "SELECT " + "(" * 500 + "1" + ")" * 500,
        "SELECT 1" + " UNION ALL SELECT 1" * 100,
    ],
)
def test_a_bomb_is_defused(db: Database, sql: str) -> None:
    result = db.run(sql)
    assert result.error
    assert not result.timed_out


LONG_CALL = "WITH c AS (SELECT instr(hex(zeroblob(24999)), hex(zeroblob(12000)) || '1') AS x FROM books)"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            f"{LONG_CALL} SELECT {'+'.join(['x'] * 150)} FROM c",
            "150 calls of functions such as LIKE, replace and instr",
        ),
        (f"{LONG_CALL} SELECT {', '.join(['+'.join(['x'] * 40)] * 90)} FROM c", "calls of functions such as"),
        (f"{COUNTING} SELECT sum(instr(hex(zeroblob(20000)), hex(zeroblob(9000)) || x)) FROM c", "stopped after"),
    ],
)
def test_calls_that_nothing_can_interrupt_are_counted_first(db: Database, sql: str, message: str) -> None:
    """A column of a subquery is computed wherever it is named: these took 5 s and 97 s, with a deadline of 0.5 s."""
    begin = time.process_time()
    assert message in db.run(sql).error
    assert time.process_time() - begin < 5.0  # beyond what a loaded machine adds to processor time


def test_forty_calls_in_a_row_are_run(db: Database) -> None:
    for _ in range(2):  # compiled, and found compiled
        assert db.run(f"SELECT {'+'.join(['title LIKE 1'] * 40)} AS n FROM books LIMIT 1").rows == [(0,)]
        assert db.run(f"SELECT x FROM ({COUNTING} SELECT x FROM c WHERE x LIKE '%' LIMIT 20000)").count == 20_000
    assert db.tables_read("SELECT 1 FROM books WHERE title LIKE 'A%'") == ("books",)


def test_a_query_that_multiplies_while_it_is_compiled_ends(db: Database) -> None:
    """Every level names the one below ten times; flattened, a million terms."""
    levels = ", ".join(f"c{i} AS (SELECT {'+'.join(['x'] * 10)} AS x FROM c{i - 1})" for i in range(1, 7))
    result = db.run(f"WITH c0 AS (SELECT id AS x FROM books), {levels} SELECT x FROM c6")
    assert result == QueryResult(error="stopped: it needs too much memory")
    assert db.run("SELECT 1").rows == [(1,)]


def test_trim_with_a_huge_set_is_cheap(library: bytes) -> None:
    """SQLite's own needs some 0.3 s for each of these rows, and cannot be interrupted within a row."""
    trim = "trim(hex(zeroblob(24000)) || substr(x, 1, 0), replace(hex(zeroblob(1500)), '0', 'b') || '0')"
    sql = COUNTING.replace("FROM c)", "FROM c WHERE x < 300)") + f" SELECT sum(length({trim})) FROM c"
    assert Database.open(library, deadline_s=10).run(sql).rows == [(0,)]


@pytest.mark.parametrize(
    "sql",
    [
        COUNTING + " SELECT x, hex(zeroblob(20000)) AS z FROM c ORDER BY z",
        COUNTING + " SELECT hex(zeroblob(20000)) || x AS z FROM c GROUP BY z",
        COUNTING + ", t(s) AS (SELECT hex(zeroblob(20000)) FROM c) SELECT " + ", ".join("s" * 100) + " FROM t",
    ],
)
def test_memory_stays_bounded(library: bytes, sql: str) -> None:
    """Unbounded, each of these takes over 1 GB in these two seconds."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Database.open(library, deadline_s=2.0).run(sql)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # kilobytes


# --- damaged and missing ---------------------------------------------------------------------------------------------


def damaged(image: bytes) -> dict[str, bytes]:
    return {
        "garbage": b"no database at all " * 500,
        "empty": b"",
        "truncated": image[: len(image) // 2],
        "one page": image[:4096],
        "no schema": image[:100] + bytes(4096 - 100) + image[4096:],
        "overwritten": image[:4096] + b"\xff" * (len(image) - 4096),
    }


@pytest.mark.parametrize("kind", damaged(b""))
@pytest.mark.parametrize("as_file", [False, True])
def test_a_damaged_database_is_an_error_in_the_result(
    library: bytes, kind: str, as_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = damaged(library)[kind]
    source: bytes | str = image
    if as_file:
        (tmp_path / "damaged.sqlite").write_bytes(image)
        source = str(tmp_path / "damaged.sqlite")
        monkeypatch.setattr(database_module, "IN_MEMORY_BYTES", 1)
    database = Database.open(source)
    database.schema()
    assert database.run("SELECT title FROM books").error
    database.load(library)
    assert database.run("SELECT count(*) FROM books").rows == [(4,)]


def test_a_damaged_page_spares_the_rest(make_image: Callable[[str], bytes]) -> None:
    rows = ", ".join(f"({i}, 'some text of row {i}')" for i in range(1000))
    image = make_image(
        f"CREATE TABLE a (x); INSERT INTO a VALUES (1); CREATE TABLE b (i, t); INSERT INTO b VALUES {rows}"
    )
    middle = len(image) // 2 // 4096 * 4096
    database = Database.open(image[:middle] + b"\xff" * 4096 + image[middle + 4096 :])
    assert database.schema().listing.startswith("a(1 rows), b(")
    assert database.run("SELECT x FROM a").rows == [(1,)]
    assert database.run("SELECT sum(i) FROM b").error == "database disk image is malformed"


def test_a_missing_file_breaks_the_environment(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.sqlite")
    with pytest.raises(EnvError, match=r"gone\.sqlite"):
        Database.open(path)
    with pytest.raises(EnvError, match=r"gone\.sqlite"):
        Database.open(path, key="known").schema()


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [32 * 2**20, 1])
def test_files_are_read_and_never_touched(
    library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(database_module, "IN_MEMORY_BYTES", limit)
    path = tmp_path / "a name with ?#%20.sqlite"
    path.write_bytes(library)
    path.chmod(0o400)
    os.utime(path, (1, 1))
    database = Database.open(str(path))
    assert database.run("SELECT count(*) FROM books").rows == [(4,)]
    assert database.run("DELETE FROM books").refused
    database.close()
    assert (path.read_bytes(), path.stat().st_mtime) == (library, 1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_changed_file_is_read_again(library: bytes, make_image: Callable[[str], bytes], tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(library)
    assert Database.open(str(path)).run("SELECT count(*) FROM books").rows == [(4,)]
    path.write_bytes(make_image("CREATE TABLE books (x)"))
    os.utime(path, (1, 1))
    assert Database.open(str(path)).run("SELECT count(*) FROM books").rows == [(0,)]


@pytest.mark.parametrize("limit", [32 * 2**20, 1])
def test_a_file_with_a_write_ahead_log_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(database_module, "IN_MEMORY_BYTES", limit)
    path = tmp_path / "wal.sqlite"
    writer = sqlite3.connect(path)
    writer.executescript(
        "PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1); PRAGMA wal_checkpoint;"
    )
    writer.close()
    assert path.read_bytes()[18:20] == b"\x02\x02"
    assert Database.open(str(path)).run("SELECT x FROM t").rows == [(1,)]


def test_what_was_compiled_for_one_image_never_reads_another() -> None:
    """Two images with equal schema counters whose tables lie on each other's pages; siblings of both take turns."""
    images = []
    for first, second in (("books", "authors"), ("authors", "books")):
        connection = sqlite3.connect(":memory:")
        connection.execute(f"CREATE TABLE {first} (name TEXT)")
        connection.execute(f"CREATE TABLE {second} (name TEXT)")
        connection.execute("INSERT INTO books VALUES ('a book')")
        connection.execute("INSERT INTO authors VALUES ('an author')")
        connection.commit()
        images.append(connection.serialize())
        connection.close()
    database = Database()
    for image in (*images, *images[::-1], *images):
        for _ in range(2):
            database.load(image)
            assert database.run("SELECT name FROM books").rows == [("a book",)]
            assert database.run("SELECT name FROM authors").rows == [("an author",)]


def test_what_was_compiled_to_read_the_schema_is_not_the_agents(library: bytes) -> None:
    """An agent that writes the very statements of the schema's reader meets the authorizer all the same."""
    database = Database.open(library)
    database.schema()
    assert "PRAGMA is not available" in database.run('PRAGMA table_info("books")').error
    database.tables_read("SELECT * FROM books")
    assert "PRAGMA is not available" in database.run('PRAGMA table_info("books")').error


def test_one_copy_never_shows_what_happened_in_another(library: bytes) -> None:
    """The walls are taken down by hand, the copy is spoiled, and the next load is as new."""
    database = Database.open(library)
    database.run("SELECT 1")
    copy = database._copy
    assert copy is not None
    inner = copy.connection
    inner.set_authorizer(None)
    inner.execute("PRAGMA query_only = 0")
    inner.execute("DELETE FROM books")
    copy.watch()
    assert database.run("SELECT count(*) FROM books").rows == [(0,)]
    other = Database.open(library)
    assert other.run("SELECT count(*) FROM books").rows == [(4,)]
    database.load(library)
    assert database.run("SELECT count(*) FROM books").rows == [(4,)]
    assert database.run("DELETE FROM books").refused


def test_databases_follow_each_other(library: bytes, make_image: Callable[[str], bytes]) -> None:
    other = make_image("CREATE TABLE only (x)")
    database = Database.open(library)
    assert not database.run("SELECT * FROM books").error
    database.load(other)
    assert database.schema().listing == "only(0 rows)"
    assert database.run("SELECT * FROM books").error == "no such table: books"
    database.close()
    with pytest.raises(EnvError, match="load"):
        database.schema()


def test_another_thread_may_take_over(db: Database) -> None:
    assert db.run("SELECT 1").rows == [(1,)]
    seen: list[object] = []
    worker = threading.Thread(target=lambda: seen.append(db.run("SELECT count(*) FROM books").rows))
    worker.start()
    worker.join()
    assert seen == [[(4,)]]


def test_content_key_names_the_content(library: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(library)
    assert content_key(library) == content_key(str(path)) == content_key(bytes(library))
    assert content_key(library) != content_key(library + b"x")


def test_cache_forgets_the_least_recently_used() -> None:
    cache: Cache[str, int] = Cache(room=3)
    cache.put("a", 1, weight=1)
    cache.put("b", 2, weight=2)
    assert cache.get("a") == 1
    cache.put("c", 3, weight=1)
    assert [cache.get(name) for name in "abc"] == [1, None, 3]
    cache.put("d", 4, weight=4)
    assert (cache.get("d"), cache.weight) == (None, 2)
    cache.put("a", 5, weight=3)
    assert ([cache.get(name) for name in "abc"], cache.weight) == ([5, None, None], 3)
