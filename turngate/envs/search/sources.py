"""Values of ``tasks`` for ``turngate/Search-v1``: generated questions, files of questions, yours."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.search.engine.corpora import ContextDocuments, DocumentSource, PydocDocuments
from turngate.envs.search.engine.passages import CHUNK_CHARS
from turngate.envs.search.generated.made_up import LinkName
from turngate.envs.tasks import TaskSource, TaskSourcePart
from turngate.envs.word_names import Naming
from turngate.errors import ConfigError


class SearchSource(TaskSourcePart):
    """A source of questions about documents."""

    kind: ClassVar[str] = "searches"


class GeneratedSearch(SearchSource):
    """Endless questions about made-up worlds, along links between documents. Splits: train, heldout (new names)."""

    type: Literal["generated_search"] = "generated_search"
    max_hops: int = Field(3, ge=1, le=5)
    """Most links of a question; each link is said by another document."""
    min_hops: int = Field(1, ge=1, le=5)
    """Fewest links of a question."""
    unanswerable: float = Field(0.0, ge=0, le=1)
    """Share of the questions whose answer the documents leave out; saying so is then right. For search_truthful."""
    worlds: int = Field(64, ge=1)
    """Different worlds of each split."""
    size: int = Field(30, ge=12)
    """About how many documents a world has."""
    naming: Naming = "made"
    """made: names are put together from syllables, and no word of one occurs in both splits. words: two of 79 words,
    and no whole name occurs in both, and ids are two digits; a small model copies them more easily. For at most 60
    documents."""
    links: tuple[LinkName, ...] = ()
    """Kinds of links that documents tell of and questions follow, for instance ["mayor", "river"]; fewer make passages
    shorter and reading easier. Empty = all that lead to documents and years. "trade", "father", "goods" and "lack" lead
    to one of fourteen words each, which are the same in both splits and answer other questions there."""
    chunk_chars: int = Field(CHUNK_CHARS, ge=40)
    """Most characters of a passage."""

    def open(self) -> TaskSource:
        from turngate.envs.search.generated.generate import SearchGenerator

        return SearchGenerator(**self.settings())


class KnownSearch(SearchSource):
    """Questions from a file: JSON lines or a JSON list, as NQ, HotpotQA, 2WikiMultihopQA, MuSiQue and FlashRAG have
    them. Splits: train and, unless nothing is held out, heldout."""

    type: Literal["search_file"] = "search_file"
    questions: Path
    """The file; each row {"question": …, "answer": …}, optionally with id, documents (ids of the needed ones) or the
    paragraphs of the data set."""
    corpus: DocumentSource | None = None
    """The documents that are searched, for instance {type = "contexts", path = "…"}: the paragraphs of the questions.
    Leave it out where a server searches its own."""
    held_out: int = Field(5, ge=0)
    """Every n-th question is held out, chosen by its text (5: 20 %); 0 = none."""
    skip_bad: bool = False
    """Whether questions whose answer or documents the corpus does not hold are left out; else they are errors."""
    own_paragraphs: bool = False
    """Whether each question searches only the paragraphs that it brings with it, as in the distractor settings of
    HotpotQA and MuSiQue; the corpus must be contexts of the same file. Else it searches those of all questions."""

    def open(self) -> TaskSource:
        """See ``known_questions.tasks_of_file``. Raises ConfigError for own_paragraphs of another file."""
        from turngate.envs.search.engine.index_cache import corpus_of
        from turngate.envs.search.loaders.known_questions import tasks_of_file

        table = None if self.corpus is None else self.corpus.model_dump(mode="json")
        if self.own_paragraphs and not (
            isinstance(self.corpus, ContextDocuments) and self.corpus.path == self.questions and not self.corpus.line
        ):
            raise ConfigError(
                f'own_paragraphs needs the paragraphs of the questions: corpus = {{type = "contexts", path = '
                f'"{self.questions}"}}'
            )
        return tasks_of_file(
            self.file_of("questions"),
            corpus=corpus_of(table),
            table=table,
            held_out=self.held_out,
            skip_bad=self.skip_bad,
            own_paragraphs=self.own_paragraphs,
        )


class LinkedSearch(SearchSource):
    """Endless questions along the links of a SQLite database: each row is a document, foreign keys and columns are
    links. Splits: train and, unless nothing is held out, heldout (other answers)."""

    type: Literal["linked_search"] = "linked_search"
    database: Path
    """The SQLite file; it is only read."""
    max_hops: int = Field(3, ge=1, le=5)
    """Most links of a question."""
    min_hops: int = Field(1, ge=1, le=5)
    """Fewest links of a question."""
    unanswerable: float = Field(0.0, ge=0, le=1)
    """Share of the questions about a cell that is empty (NULL); saying so is then right. For search_truthful."""
    held_out: int = Field(5, ge=0)
    """Every n-th answer is held out (5: 20 %); 0 = none."""

    def open(self) -> TaskSource:
        from turngate.envs.search.generated.generate import LinkedGenerator

        path = self.file_of("database")
        settings = {name: value for name, value in self.settings().items() if name != "database"}
        return LinkedGenerator(path, table={"type": "sqlite_rows", "path": str(path)}, **settings)


class PydocSearch(SearchSource):
    """Questions about the documentation of Python's standard library: which function or class a sentence describes.
    Splits: train and, unless nothing is held out, heldout."""

    type: Literal["pydoc_search"] = "pydoc_search"
    corpus: PydocDocuments = PydocDocuments()
    """The documentation, for instance {type = "pydoc", modules = ["math", "statistics"]}."""
    held_out: int = Field(5, ge=0)
    """Every n-th question is held out, chosen by the name (5: 20 %); 0 = none."""

    def open(self) -> TaskSource:
        from turngate.envs.search.generated.described import described_tasks

        return described_tasks(self.corpus.documents(), self.corpus.model_dump(mode="json"), self.held_out)
