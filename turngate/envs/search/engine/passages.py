"""Documents, and the passages that they are cut into, which are indexed, shown, opened and cited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turngate.errors import ConfigError

CHUNK_CHARS = 600
"""Most characters of a passage, unless a document source says another number."""

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text. ``where``: file and line or row that it was read from, for messages."""

    id: str
    title: str
    text: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a document. ``id``: that of the document, ``#`` and the number of the part; without blanks."""

    id: str
    document: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that a retriever returned, with its score; higher is better, the unit is the retriever's."""

    passage: Passage
    score: float


class Corpus:
    """Documents by id, cut into passages of at most ``chunk_chars`` characters.

    Raises ConfigError, which names file and line, for two documents of one id and for a document without text, unless
    ``skip_bad``; and for no documents at all.
    """

    def __init__(
        self, documents: Iterable[Document], *, chunk_chars: int = CHUNK_CHARS, skip_bad: bool = False
    ) -> None:
        found: dict[str, Document] = {}
        self.left_out: list[str] = []
        for document in documents:
            document_id = id_of(document.id)
            if problem := _problem(document, found.get(document_id)):
                if not skip_bad:
                    raise ConfigError(f"{problem}; skip_bad = true leaves such documents out")
                self.left_out.append(problem)
                continue
            found[document_id] = document
        if not found:
            raise ConfigError(f"there are no documents{'; ' + self.left_out[0] if self.left_out else ''}")
        self.documents = {name: tuple(passages_of(one, chunk_chars)) for name, one in found.items()}
        self.passages: Sequence[Passage] = tuple(part for parts in self.documents.values() for part in parts)
        self.by_id = {passage.id: passage for passage in self.passages}

    @property
    def weight(self) -> int:
        """Characters of all passages."""
        return sum(len(passage.text) for passage in self.passages)


def id_of(text: str) -> str:
    """An id without blanks, commas and brackets, so that it can stand in a list of citations."""
    return re.sub(r"[\s,\[\]]+", "_", text.strip())


def passages_of(document: Document, chunk_chars: int) -> Iterator[Passage]:
    """The passages of a document: paragraphs, packed together or cut at the ends of sentences."""
    name, title = id_of(document.id), " ".join(document.title.split())
    for number, text in enumerate(_packed(_pieces(document.text, chunk_chars), chunk_chars)):
        yield Passage(id=f"{name}#{number}", document=name, title=title, text=text)


def _problem(document: Document, known: Document | None) -> str:
    where = document.where or f"document '{document.id}'"
    if not document.id.strip():
        return f"{where}: the document has no id"
    if not document.text.strip():
        return f"{where}: the document has no text"
    if known is not None:
        return f"{where}: the id '{document.id}' is taken by {known.where or 'another document'}"
    return ""


def _pieces(text: str, most: int) -> Iterator[tuple[str, str]]:
    """(what stands before it, a piece that is no longer than ``most``), in order."""
    for paragraph in filter(str.strip, _PARAGRAPH.split(text.strip())):
        if len(paragraph) <= most:
            yield "\n\n", paragraph.strip()
            continue
        for number, sentence in enumerate(filter(str.strip, _SENTENCE.split(paragraph))):
            for start in range(0, len(sentence), most):
                yield ("\n\n" if not (number or start) else " "), sentence[start : start + most].strip()


def _packed(pieces: Iterable[tuple[str, str]], most: int) -> Iterator[str]:
    """The pieces, as many together as fit."""
    whole = ""
    for between, piece in pieces:
        if whole and len(whole) + len(between) + len(piece) > most:
            yield whole
            whole = ""
        whole = f"{whole}{between}{piece}" if whole else piece
    if whole:
        yield whole
