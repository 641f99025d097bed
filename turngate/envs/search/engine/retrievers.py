"""How passages are found, as a config names it: ``retriever = "bm25"``.

A retriever holds its index and is asked from several threads at once. One that cannot answer raises
``RetrieverFailed``; the environment then ends the episode as unusable, or tells the agent, as its setting says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from turngate.envs.search.engine.passages import Corpus, Hit
from turngate.errors import EnvError
from turngate.parts import Part


class RetrieverFailed(EnvError):
    """A retriever did not answer, or its answer cannot be read."""


class Retriever(Protocol):
    """Finds passages. Any thread may ask it."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most ``k`` passages, the best first; none where nothing fits. Raises RetrieverFailed."""
        ...

    def close(self) -> None:
        """Free its resources. Safe to repeat."""
        ...


class RetrieverPart(Part):
    """A retriever as a config names it. A subclass sets ``type`` and its settings and writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "retriever"
    shipped_in: ClassVar[tuple[str, ...]] = (
        "turngate.envs.search.engine.bm25",
        "turngate.envs.search.engine.dense",
        "turngate.envs.search.engine.remote",
        "turngate.envs.search.engine.self_search",
        "turngate.envs.search.engine.tantivy_index",
        "turngate.judges.asking.written_passages",
    )
    local: ClassVar[bool] = True
    """Whether it searches the documents of the task; else it has its own, and the task needs none."""
    finds: ClassVar[bool] = True
    """Whether its passages are those of documents. Else the agent or a model writes them, only these can be opened, and
    each environment opens, and closes, a retriever of its own."""

    @property
    def outside(self) -> str:
        """The outside source of the answers, in words; "" where the same query finds the same."""
        return ""

    @abstractmethod
    def open(self, corpus: Corpus | None) -> Retriever:
        """The retriever, with its index of ``corpus`` (None only where not ``local``)."""
