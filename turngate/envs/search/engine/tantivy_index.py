"""BM25 by tantivy, on disk or in memory, for corpora of millions of passages. The package is imported where it is used.

An index on disk is brought up to date when it is opened: passages that are new or changed are added, those that are
gone are deleted, and the others are left as they are. Tantivy rounds the lengths of passages, so its scores differ a
little from those of ``bm25``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from turngate.envs.search.engine.bm25 import words_of
from turngate.envs.search.engine.passages import Corpus, Hit, Passage
from turngate.envs.search.engine.retrievers import RetrieverFailed, RetrieverPart
from turngate.errors import ConfigError, MissingExtra
from turngate.rewards.unspaced import UNSPACED

if TYPE_CHECKING:
    import tantivy

HEAP_BYTES = 50_000_000
_LONGEST_WORD = 40  # longer ones are not in the index
_LIST = "passages.json"


class TantivyIndex:
    """The passages of a corpus in an index at ``folder``, or in memory without one. Any thread may search it.

    Raises MissingExtra without tantivy, ConfigError for a folder that cannot be used, for instance because another
    process is writing to it.
    """

    def __init__(self, corpus: Corpus, folder: Path | None = None) -> None:
        try:
            import tantivy
        except ImportError:
            raise MissingExtra("tantivy", "search") from None
        self._corpus, self._module = corpus, tantivy
        self._schema = (
            tantivy.SchemaBuilder()
            .add_text_field("id", stored=True, tokenizer_name="raw")
            .add_text_field("text", stored=False)
            .build()
        )
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            self._index = tantivy.Index(self._schema, path=None if folder is None else str(folder))
            self.added, self.deleted = self._bring_up_to_date(folder)
        except (ValueError, OSError) as error:
            raise ConfigError(f"retriever.folder: the index at '{folder}' cannot be used: {error}") from error
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, query: str, k: int) -> list[Hit]:
        """The best ``k`` passages that share a word with the query."""
        words = [word for word in words_of(query) if len(word.encode(errors="replace")) < _LONGEST_WORD]
        occur = self._module.Occur.Should
        terms = [(occur, self._module.Query.term_query(self._schema, "text", word)) for word in words]
        if not terms:
            return []
        try:
            hits = self._searcher.search(self._module.Query.boolean_query(terms), limit=k).hits
            found = [(self._searcher.doc(address)["id"][0], score) for score, address in hits]
        except ValueError as error:
            raise RetrieverFailed(f"tantivy failed: {error}") from error
        return [Hit(passage=self._corpus.by_id[name], score=float(score)) for name, score in found]

    def close(self) -> None:
        """Nothing to free."""

    def _bring_up_to_date(self, folder: Path | None) -> tuple[int, int]:
        """How many passages were added and deleted."""
        wanted = {passage.id: _digest(passage) for passage in self._corpus.passages}
        known = _known(folder)
        writer = self._index.writer(HEAP_BYTES, 1)
        if known is None:  # the contents of the index are unknown
            writer.delete_all_documents()
            known = {}
        gone = [name for name, digest in known.items() if wanted.get(name) != digest]
        new = [passage for passage in self._corpus.passages if known.get(passage.id) != wanted[passage.id]]
        for name in gone:
            writer.delete_documents_by_term("id", name)
        for passage in new:
            writer.add_document(self._document(passage))
        if folder is not None and (gone or new):
            (folder / _LIST).unlink(missing_ok=True)  # until the commit is done, nothing is known
        writer.commit()
        writer.wait_merging_threads()
        if folder is not None:
            (folder / _LIST).write_text(json.dumps(wanted))
        return len(new), len(gone)

    def _document(self, passage: Passage) -> tantivy.Document:
        document = self._module.Document()
        document.add_text("id", passage.id)
        document.add_text("text", _indexed(passage))
        return document


class TantivyRetriever(RetrieverPart):
    """BM25 by tantivy, for up to millions of passages; with a folder the index is kept and brought up to date."""

    type: Literal["tantivy"] = "tantivy"
    folder: Path | None = None
    """Where the index is kept; leave it out to make it in memory each time. One corpus to a folder."""

    def open(self, corpus: Corpus | None) -> TantivyIndex:
        """Make the index, or bring it up to date."""
        assert corpus is not None
        return TantivyIndex(corpus, self.folder)


def _known(folder: Path | None) -> dict[str, str] | None:
    """Id → digest of the passages in the index; None if that is not known."""
    try:
        found = {} if folder is None else json.loads((folder / _LIST).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _digest(passage: Passage) -> str:
    whole = f"{passage.title}\x1f{passage.text}"
    version = "\x1fpairs" if UNSPACED.search(whole) else ""  # how such a text is indexed
    return hashlib.blake2b(f"{whole}{version}".encode(), digest_size=8).hexdigest()


def _indexed(passage: Passage) -> str:
    """The text that the index cuts into words, which a script without spaces needs help with."""
    whole = f"{passage.title} {passage.text}"
    return " ".join(words_of(whole)) if UNSPACED.search(whole) else whole
