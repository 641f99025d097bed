"""Where documents come from, as a config names it: ``corpus = {type = "folder", path = "docs"}``.

Defined here are folders, JSON lines, Parquet, SQLite, made-up worlds, and the documentation of Python's own modules.
"""

from __future__ import annotations

import hashlib
import inspect
import pydoc
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.search.engine.passages import CHUNK_CHARS, Corpus, Document
from turngate.envs.search.engine.readers import ENDINGS, files_of, of_folder, of_jsonl, of_parquet, of_sqlite
from turngate.envs.search.generated.linked_rows import linked_rows
from turngate.envs.search.generated.made_up import LinkName, world
from turngate.envs.search.loaders.known_questions import documents_of_contexts
from turngate.envs.word_names import Naming
from turngate.errors import ConfigError
from turngate.parts import Part


class DocumentSource(Part):
    """Documents to search. A subclass sets ``type`` and its settings and writes ``documents``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "document source"
    chunk_chars: int = Field(CHUNK_CHARS, ge=40)
    """Most characters of a passage; documents are cut at paragraphs, then at sentences."""
    skip_bad: bool = False
    """Whether documents without text and second documents of one id are left out; else they are errors."""

    @abstractmethod
    def documents(self) -> Iterable[Document]:
        """The documents, in an order that is always the same."""

    def stamp(self) -> str:
        """A text that changes when the documents do."""
        return ""

    def open(self) -> Corpus:
        """Read the documents and cut them into passages. Raises UserError, with file and line, for a bad document."""
        return Corpus(self.documents(), chunk_chars=self.chunk_chars, skip_bad=self.skip_bad)


class _File(DocumentSource):
    path: Path
    """The file that is read."""

    def stamp(self) -> str:
        """Size and time of change of the file."""
        return _stamp([self._found()])

    def _found(self) -> Path:
        if not self.path.is_file():
            raise ConfigError(f"corpus.path: there is no file '{self.path}'")
        return self.path


class FolderDocuments(DocumentSource):
    """The files below a folder: text, Markdown, HTML and reST, each one document."""

    type: Literal["folder"] = "folder"
    path: Path
    """The folder; folders in it are read too."""
    endings: tuple[str, ...] = ENDINGS
    """Endings of the files that are read, such as .txt; other files are passed over."""

    def documents(self) -> Iterator[Document]:
        """One document for each file. See ``readers.of_folder``."""
        if not self.path.is_dir():
            raise ConfigError(f"corpus.path: there is no folder '{self.path}'")
        return of_folder(self.path, self.endings)

    def stamp(self) -> str:
        """Sizes and times of change of the files."""
        return _stamp(files_of(self.path, self.endings))


class JsonlDocuments(_File):
    """JSON lines {"id": …, "title": …, "text": …}; Search-R1's "contents" and other common keys are known."""

    type: Literal["jsonl"] = "jsonl"

    def documents(self) -> Iterator[Document]:
        """One document for each line."""
        return of_jsonl(self._found())


class ParquetDocuments(_File):
    """A Parquet file with columns such as id, title and text."""

    type: Literal["parquet"] = "parquet"

    def documents(self) -> Iterator[Document]:
        """One document for each row."""
        return of_parquet(self._found())


class SqliteDocuments(_File):
    """The rows that a query of a SQLite file returns: columns id, title and text. The file is only read."""

    type: Literal["sqlite"] = "sqlite"
    query: str
    """For instance SELECT rowid AS id, title, body AS text FROM articles."""

    def documents(self) -> Iterator[Document]:
        """One document for each row."""
        return of_sqlite(self._found(), self.query)


class ContextDocuments(_File):
    """The paragraphs that a file of questions brings with it (HotpotQA, 2WikiMultihopQA, MuSiQue), each once."""

    type: Literal["contexts"] = "contexts"
    line: int | None = Field(None, ge=1)
    """Only the paragraphs of the question in this line (or with this number in a list); leave it out for all."""

    def documents(self) -> Iterator[Document]:
        return documents_of_contexts(self._found(), self.line)


class GeneratedDocuments(DocumentSource):
    """The documents of one made-up world; the generator of questions names it in its tasks."""

    type: Literal["generated"] = "generated"
    split: str = "train"
    """Split of the world: no name of a held-out world occurs in the others."""
    world: int = Field(0, ge=0)
    """Number of the world in its split."""
    size: int = Field(30, ge=12)
    """About how many documents it has."""
    naming: Naming = "made"
    """The parts that its names are put together from."""
    links: tuple[LinkName, ...] = ()
    """Kinds of links that its documents tell of; empty = all that lead to documents and years."""

    def documents(self) -> Iterable[Document]:
        return world(self.split, self.world, self.size, self.naming, self.links).documents


class LinkedRowDocuments(_File):
    """The rows of a SQLite database, each a document that states its columns and foreign keys as sentences."""

    type: Literal["sqlite_rows"] = "sqlite_rows"

    def documents(self) -> Iterable[Document]:
        return linked_rows(self._found()).documents


class PydocDocuments(DocumentSource):
    """The documentation of Python's standard library, as the interpreter has it: one document for each function, class
    and module that is documented. Nothing is downloaded, and no module outside of the standard library is imported."""

    type: Literal["pydoc"] = "pydoc"
    modules: tuple[str, ...] = (
        "argparse", "bisect", "collections", "contextlib", "csv", "datetime", "decimal", "difflib", "email.message",
        "fractions", "functools", "glob", "hashlib", "heapq", "itertools", "json", "logging", "math", "os.path",
        "pathlib", "pickle", "queue", "random", "re", "shutil", "sqlite3", "statistics", "string", "subprocess",
        "tempfile", "textwrap", "threading", "unittest.mock", "urllib.parse", "uuid", "zipfile",
    )  # fmt: skip
    """Names of modules of the standard library."""

    def documents(self) -> Iterator[Document]:
        """In the order of the modules. Raises ConfigError for a module that is not in the standard library."""
        for name in self.modules:
            if name.split(".")[0] not in sys.stdlib_module_names:
                raise ConfigError(f"corpus.modules: '{name}' is no module of the standard library")
            yield from _of_module(name)

    def stamp(self) -> str:
        """The version of Python."""
        return sys.version


def _of_module(name: str) -> Iterator[Document]:
    try:
        module = pydoc.locate(name)
    except pydoc.ErrorDuringImport as error:
        raise ConfigError(f"corpus.modules: '{name}' cannot be imported: {error}") from error
    if not inspect.ismodule(module):
        raise ConfigError(f"corpus.modules: there is no module '{name}' in this Python")
    if text := inspect.getdoc(module):
        yield Document(id=name, title=f"module {name}", text=text, where=f"module {name}")
    for member, thing in sorted(vars(module).items()):
        own = getattr(thing, "__module__", name) in (name, f"_{name}")  # the second one is written in C
        if member.startswith("_") or not callable(thing) or not own:
            continue
        if text := inspect.getdoc(thing):
            signature = ""
            with suppress(ValueError, TypeError):
                signature = str(inspect.signature(thing))
            title = f"{name}.{member}"
            yield Document(id=title, title=title, text=f"{title}{signature}\n\n{text}", where=title)


def _stamp(paths: Iterable[Path]) -> str:
    """Of names, sizes and times of change."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        known = path.stat()
        digest.update(f"{path}\x1f{known.st_size}\x1f{known.st_mtime_ns}\x1e".encode())
    return digest.hexdigest()
