"""``ShopSite``: one shop for one episode, answered in this process without a socket, a thread or an event loop."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.envs.web.generated.shop.app import COOKIE, DATABASE, SEEN, shop_app
from turngate.envs.web.generated.shop.grading import Grade, distance, grade
from turngate.envs.web.generated.shop.records import ShopTask
from turngate.envs.web.generated.shop.shop_tables import MUTABLE, contents, first_contents, open_database
from turngate.envs.web.generated.shop.visits import PageKind
from turngate.errors import EnvError

HOST = "shop.test"
"""The shop's host: a name that the internet never has."""
START_URL = f"http://{HOST}/"
_MOST_SEEN = 256
_PASSED_ON = ("cookie", "content-type")
"""The only headers that mean something to the shop."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A page that was answered. ``error``: why its form was not accepted."""

    kind: PageKind
    status: int
    error: str = ""


class ShopSite:
    """The shop of one task. Any thread may use it, one at a time; shops of different episodes share nothing that
    changes. Close it in the end."""

    def __init__(self, task: ShopTask) -> None:
        self.task = task
        self.seen: deque[Seen] = deque(maxlen=_MOST_SEEN)
        """The pages that were answered last, the latest at the end."""
        self._db = open_database(task)
        self._start = first_contents(self._db, task)

    @property
    def cookies(self) -> dict[str, str]:
        """Name and value of the cookie that signs the customer in. A page's scripts cannot be told of it: set it for
        ``HOST`` with httpOnly before the first request."""
        return {COOKIE: self.task.session}

    def answer(self, request: SiteRequest) -> SiteResponse:
        try:
            parts = urlsplit(request.url)
            path = unquote_to_bytes(parts.path or "/").decode()
            query = parts.query.encode()
        except ValueError:  # a URL, or a text in it, that cannot be read
            return SiteResponse(status=400, headers={"content-type": "text/plain"}, body=b"bad request")
        headers = [
            (name.encode(), request.headers[name].encode("latin-1", "replace"))
            for name in _PASSED_ON
            if name in request.headers
        ]
        scope = {
            "type": "http", "http_version": "1.1", "method": request.method.upper(), "scheme": "http", "path": path,
            "raw_path": parts.path.encode(), "root_path": "", "query_string": query, "headers": headers,
            "server": (HOST, 80), "client": None, DATABASE: self._db, SEEN: self._saw,
        }  # fmt: skip
        return _answered(scope, request.body)

    def grade(self, answer: str | None) -> Grade:
        """How the episode ended, by the database and what the agent answered (None: it did not)."""
        return grade(self.task, self._start, contents(self._db), answer)

    def distance(self) -> int:
        """How much of the goal is missing now, counting the cart and the checkout; see ``grading``."""
        return distance(self.task, self._start, contents(self._db, MUTABLE))

    def state(self) -> str:
        """A text that is equal for equal states of the database."""
        now = json.dumps({name: list(rows.values()) for name, rows in contents(self._db, MUTABLE).items()})
        return hashlib.blake2b(now.encode(), digest_size=16).hexdigest()

    @property
    def database(self) -> sqlite3.Connection:
        """The database, for tests."""
        return self._db

    def close(self) -> None:
        """Free the database. Safe to repeat."""
        self._db.close()

    def _saw(self, kind: PageKind, status: int, error: str) -> None:
        self.seen.append(Seen(kind, status, error))


def _answered(scope: dict[str, Any], body: bytes) -> SiteResponse:
    """The application's response to one request."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    _carried_through(shop_app()(scope, receive, send))  # type: ignore[arg-type]  # mappings that are dictionaries
    start = next(message for message in sent if message["type"] == "http.response.start")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    page = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return SiteResponse(status=start["status"], headers=headers, body=page)


def _carried_through(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end. The application's handlers wait for nothing, so no event loop is needed."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise EnvError("a handler of the shop waited for something; it must answer at once")
