"""The retriever that asks a server (see ``over_http``)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.search.engine.over_http import RetrievalClient
from turngate.envs.search.engine.passages import Corpus
from turngate.envs.search.engine.retrievers import RetrieverPart


class ServerRetriever(RetrieverPart):
    """A retrieval server that speaks Search-R1's /retrieve, for instance ``turngate serve-search``. It searches its own
    documents; those that a task names are used for checks only."""

    type: Literal["server"] = "server"
    local: ClassVar[bool] = False
    url: str
    """Address, for instance http://localhost:8000/retrieve."""
    timeout_s: float = Field(10.0, gt=0, le=25)
    """Longest time of a query, in seconds, all attempts together."""
    attempts: int = Field(2, ge=1)
    """How often a query is sent before the server counts as down."""

    @property
    def outside(self) -> str:
        return f"the retrieval server at {self.url}"

    def open(self, corpus: Corpus | None) -> RetrievalClient:
        """The client; nothing is sent before the first query."""
        return RetrievalClient(self.url, timeout_s=self.timeout_s, attempts=self.attempts)
