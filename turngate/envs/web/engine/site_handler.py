"""Sites that live in this process: the browser's requests to their hosts go to a function and to no server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """One request of a page. ``url`` is whole, with its query; names of ``headers`` are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteResponse:
    """A site's answer. Names of ``headers`` are in lower case; a redirect has a ``location``."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class SiteHandler(Protocol):
    """Answers the requests to one host. It is called from one thread at a time for one episode, must not block for
    long, and must not raise for a bad request of a page: that is an answer with a status of 4xx."""

    def answer(self, request: SiteRequest) -> SiteResponse:
        """The response to ``request``."""
