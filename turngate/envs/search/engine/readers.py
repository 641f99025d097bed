"""Documents from files: folders of text, Markdown, HTML and reST, JSON lines, Parquet, SQLite."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

from turngate.envs.search.engine.passages import Document
from turngate.errors import DataError
from turngate.jsonl import read_rows, read_text

ID_KEYS = ("id", "_id", "docid", "doc_id", "idx")
TITLE_KEYS = ("title", "name")
TEXT_KEYS = ("text", "contents", "content", "body", "passage", "paragraph_text")

_log = logging.getLogger(__name__)

MOST_NAMED = 3
"""Most files that a warning names."""
_SILENT = ("script", "style", "noscript", "template", "head")
_BLOCKS = frozenset("p div section article li ul ol table tr h1 h2 h3 h4 h5 h6 br pre blockquote dt dd".split())
_RULE = re.compile(r"[=\-~^\"'#*+`.:_]{3,}")


def of_folder(folder: Path, endings: tuple[str, ...]) -> Iterator[Document]:
    """One document for each file below ``folder`` that ends in one of ``endings``; its id is its path in the folder.

    Links that lead out of the folder are passed over, and so are files that are no UTF-8; a warning names them. Raises
    DataError if no file is left, although there are such.
    """
    left_out: list[str] = []
    n_read = 0
    for path in files_of(folder, endings):
        if not path.resolve().is_relative_to(folder.resolve()):
            left_out.append(f"{path} (a link that leads out of the folder)")
            continue
        try:
            title, text = _FORMATS.get(path.suffix.lower(), _plain)(read_text(path))
        except DataError as error:
            left_out.append(str(error))
            continue
        n_read += 1
        name = path.relative_to(folder).as_posix()
        yield Document(id=name, title=title or path.stem, text=text, where=str(path))
    if left_out:
        told = f"{len(left_out)} of {n_read + len(left_out)} files are left out: {'; '.join(left_out[:MOST_NAMED])}"
        if not n_read:
            raise DataError(folder, told)
        _log.warning("corpus '%s': %s", folder, told)


def files_of(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files below ``folder`` that end in one of ``endings``, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in endings)


def of_jsonl(path: Path) -> Iterator[Document]:
    """One document for each line ``{"id": …, "title": …, "text": …}``; other common names of these keys are known.

    Without an id the number of the line is the id; without a title the first line of the text, where that is quoted
    (as in the passages of Search-R1). Raises DataError.
    """
    for line, row in read_rows(path):
        if not isinstance(row, Mapping):
            raise DataError(path, f"is {row!r:.60}, not an object with a text", line=line)
        yield document_of(row, f"{path}, line {line}", str(line))


def of_parquet(path: Path) -> Iterator[Document]:
    """One document for each row; columns as the keys of ``of_jsonl``. Raises DataError for a file that is none."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield document_of(row, f"{path}, row {number}", str(number))
    except (OSError, pa.ArrowException) as error:
        raise DataError(path, f"is no Parquet file: {error}") from error


def of_sqlite(path: Path, query: str) -> Iterator[Document]:
    """One document for each row of ``query``, whose columns are named as the keys of ``of_jsonl``.

    The file is only read. Raises DataError for a file or a query that fails.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.row_factory = sqlite3.Row
            for number, row in enumerate(connection.execute(query), 1):
                yield document_of(dict(row), f"{path}, row {number} of the query", str(number))
    except sqlite3.Error as error:
        raise DataError(path, f"the query fails: {error}", field="query") from error


def document_of(row: Mapping[str, object], where: str, number: str) -> Document:
    """The document of a row. A row without any text gives one without text, which the corpus refuses."""
    text = _first(row, TEXT_KEYS)
    title = _first(row, TITLE_KEYS)
    head, _, rest = text.partition("\n")
    if not title and rest.strip() and head.startswith('"') and head.rstrip().endswith('"'):
        title, text = head.strip().strip('"'), rest
    return Document(id=_first(row, ID_KEYS) or number, title=title, text=text, where=where)


def _first(row: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((str(row[name]) for name in names if row.get(name) is not None), "")


def _plain(text: str) -> tuple[str, str]:
    return "", text


def _markdown(text: str) -> tuple[str, str]:
    heading = re.search(r"(?m)^#{1,6}[ \t]+(.+?)[ \t#]*$", text)
    return heading[1] if heading else "", re.sub(r"(?m)^#{1,6}[ \t]+(.*?)[ \t#]*$", r"\1", text)


def _rest(text: str) -> tuple[str, str]:
    """Title and text of reST: a line below which (and perhaps above which) a rule of signs stands is a heading."""
    lines = text.splitlines()
    heading = next(
        (
            line.strip()
            for line, below in zip(lines, [*lines[1:], ""], strict=True)
            if line.strip() and not _RULE.fullmatch(line.strip()) and _RULE.fullmatch(below.strip())
        ),
        "",
    )
    return heading, "\n".join(line for line in lines if not _RULE.fullmatch(line.strip()))


def _html(text: str) -> tuple[str, str]:
    reader = _Page()
    reader.feed(text)
    reader.close()
    body = "\n\n".join(" ".join(part.split()) for part in "".join(reader.parts).split("\n\n") if part.strip())
    return " ".join("".join(reader.title).split()), body


class _Page(HTMLParser):
    """Title and visible text of an HTML page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.parts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT or tag == "title":
            self._open.append(tag)
        if tag in _BLOCKS:
            self.parts.append("\n\n")
        if tag == "body":
            self._open.clear()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[self._open.index(tag) :]
        if tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["title"]:
            self.title.append(data)
        elif not self._open:
            self.parts.append(data)


_FORMATS: Mapping[str, Callable[[str], tuple[str, str]]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".rst": _rest,
}
ENDINGS = (".txt", *_FORMATS)
"""File endings that a folder is searched for, unless a config names others."""
