"""Documents from every kind of file."""

import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from turngate.envs.search.engine.corpora import (
    FolderDocuments,
    JsonlDocuments,
    ParquetDocuments,
    PydocDocuments,
    SqliteDocuments,
)
from turngate.errors import ConfigError, DataError

PAGE = """<html><head><title>A &amp; B</title><style>p {color: red}</style></head>
<body><h1>Head</h1><script>alert("no")</script><p>One &lt;two&gt;</p><p>Three</p></body></html>"""


def test_a_folder_of_many_formats(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("Plain text.")
    (tmp_path / "b.md").write_text("Before\n\n# A title #\n\nUnder it.")
    (tmp_path / "deep" / "c.html").write_text(PAGE)
    (tmp_path / "d.rst").write_text("=====\nTitle\n=====\n\nBody\n----\n\nText.")
    (tmp_path / "e.py").write_text("not read")
    found = {one.id: one for one in FolderDocuments(path=tmp_path).documents()}
    assert list(found) == ["a.txt", "b.md", "d.rst", "deep/c.html"]
    assert [one.title for one in found.values()] == ["a", "A title", "Title", "A & B"]
    assert found["deep/c.html"].text == "Head\n\nOne <two>\n\nThree"
    assert "====" not in found["d.rst"].text
    assert "#" not in found["b.md"].text
    before = FolderDocuments(path=tmp_path).stamp()
    (tmp_path / "a.txt").write_text("Other and longer text.")
    assert FolderDocuments(path=tmp_path).stamp() != before


def test_json_lines_with_the_keys_of_others(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": 7, "contents": "\\"Old Town\\"\\nIt is old."}\n{"title": "T", "body": "B"}\n')
    first, second = JsonlDocuments(path=file).documents()
    assert (first.id, first.title, first.text) == ("7", "Old Town", "It is old.")
    assert (second.id, second.title, second.text) == ("2", "T", "B")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]\n", "line 1: is \\[1\\], not an object"),
        ("\n{\n", "line 2: is not JSON"),
        ('{"id": "a", "txt": "b"}', "line 1: the document has no text"),
        ('{"id": "a", "text": "b"}\n{"id": "a", "text": "c"}', "line 2: the id 'a' is taken by .*line 1"),
    ],
)
def test_wrong_lines_are_named(tmp_path, text, problem):
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    with pytest.raises((DataError, ConfigError), match=problem):
        JsonlDocuments(path=file).open()


def test_parquet_and_sqlite(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["One", "Two"]}), tmp_path / "x.parquet")
    assert [one.text for one in ParquetDocuments(path=tmp_path / "x.parquet").documents()] == ["One", "Two"]
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE page (name TEXT, body TEXT)")
        connection.execute("INSERT INTO page VALUES ('N', 'Text')")
    connection.close()
    query = "SELECT rowid AS id, name AS title, body AS text FROM page"
    (one,) = SqliteDocuments(path=tmp_path / "x.db", query=query).documents()
    assert (one.id, one.title, one.text) == ("1", "N", "Text")
    for query in ("SELEC", "DELETE FROM page"):
        with pytest.raises(DataError, match="the query fails"):
            SqliteDocuments(path=tmp_path / "x.db", query=query).open()
    (tmp_path / "y.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match="is no Parquet file"):
        ParquetDocuments(path=tmp_path / "y.parquet").open()


def test_paths_that_are_not_there(tmp_path):
    for source in (FolderDocuments(path=tmp_path / "no"), JsonlDocuments(path=tmp_path / "no")):
        with pytest.raises(ConfigError, match=r"corpus.path: there is no (file|folder) '.*no'"):
            source.open()


def test_the_documentation_of_python():
    corpus = PydocDocuments(modules=("bisect", "statistics")).open()
    assert "insert" in corpus.documents["bisect.insort_left"][0].text.lower()
    assert corpus.documents.keys() >= {"bisect", "statistics", "statistics.median"}
    for modules, problem in ((("numpy",), "no module of the standard library"), (("os.nope",), "there is no module")):
        with pytest.raises(ConfigError, match=problem):
            PydocDocuments(modules=modules).open()


def test_a_link_out_of_the_folder_is_not_followed_and_a_file_that_is_no_text_costs_only_itself(tmp_path, caplog):
    (tmp_path / "secret.txt").write_text("the secret of the house")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "fine.txt").write_text("fine")
    (docs / "inner.txt").symlink_to(docs / "fine.txt")
    (docs / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (docs / "latin.txt").write_bytes("Größe".encode("latin-1"))
    found = {one.id: one.text for one in FolderDocuments(path=docs).documents()}
    assert found == {"fine.txt": "fine", "inner.txt": "fine"}
    (line,) = (record.getMessage() for record in caplog.records)
    assert "2 of 4 files are left out: " in line
    assert "latin.txt: is not UTF-8 text (byte 2)" in line
    assert "leak.txt (a link that leads out of the folder)" in line


def test_a_folder_of_which_nothing_can_be_read_is_refused(tmp_path):
    (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))
    with pytest.raises(DataError, match=r"1 of 1 files are left out: .*latin\.txt: is not UTF-8"):
        list(FolderDocuments(path=tmp_path).documents())
