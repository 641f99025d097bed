"""One request to the shop as its handlers see it, and what they answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from turngate.envs.web.generated.shop.markup import Html
from turngate.envs.web.generated.shop.pages import Viewer

PageKind: TypeAlias = Literal[
    "home", "results", "product", "cart", "checkout", "review", "confirmation", "account", "address", "order", "return",
    "problem",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Visit:
    """A request whose query, form, session and token have been checked."""

    db: sqlite3.Connection
    viewer: Viewer
    path: Mapping[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def user(self) -> int:
        """The id of the customer; only for pages that need one."""
        assert self.viewer.user is not None
        number: int = self.viewer.user["id"]
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page. ``error``: why its form was not accepted; ``status`` is then 422."""

    kind: PageKind
    html: Html
    error: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where the browser goes after a form that was accepted."""

    to: str


Answer: TypeAlias = Page | Redirect
