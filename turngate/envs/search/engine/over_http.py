"""Retrieval over HTTP, as Search-R1's retrieval server speaks it: a client, and a server of any documents.

``POST /retrieve`` with ``{"queries": […], "topk": k, "return_scores": true}`` is answered with
``{"result": [[{"document": {"id": …, "contents": …}, "score": …}, …], …]}``, one list for each query. ``contents`` is
the title in quotes, a line break and the text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, closing, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from turngate.envs.search.engine.passages import Hit, Passage, id_of
from turngate.envs.search.engine.readers import document_of
from turngate.envs.search.engine.retrievers import Retriever, RetrieverFailed
from turngate.envs.search.loaders.known_questions import context_id
from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.servers import MOST_BYTES, ServerDown, is_down
from turngate.servers.loop_thread import LoopThread
from turngate.types import JSON

if TYPE_CHECKING:
    from turngate.servers.http_client import HttpClient

http_client = when_used("turngate.servers.http_client", "openai")

MOST_QUERIES, MOST_PASSAGES = 1000, 1000
MOST_IN_ALL = 20_000
"""Most passages that one request may ask for, all queries together."""
MOST_CONNECTIONS, CONNECTION_S = 64, 120.0
"""Most connections that a server holds at once, and for how long."""
PATH = "/retrieve"

_log = logging.getLogger(__name__)


# --- client -----------------------------------------------------------------------------------------------------------


class RetrievalClient:
    """Asks a server at ``url`` (the whole address, with ``/retrieve``). It holds no connection between queries.

    A query takes at most ``timeout_s``, attempts together. Raises ConfigError for an address that is none, MissingExtra
    without httpx2, RetrieverFailed where the server does not answer in time or answers something else.
    """

    def __init__(self, url: str, *, timeout_s: float, attempts: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"retriever.url: '{url}' is no address; write for instance http://localhost:8000/retrieve"
            )
        self._url, self._timeout_s, self._attempts = url, timeout_s, attempts
        self.n_unread = 0
        """Passages of all answers that could not be read, and were left out."""
        self._new_client = partial(http_client.HttpClient, url, connections=1, kept=0, proxies=False)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The passages that the server returns for the query."""
        with closing(LoopThread("retrieval client")) as thread:  # the caller's own loop may be running
            return thread.run(self._found(query, k))

    def close(self) -> None:
        """Nothing is held."""

    async def _found(self, query: str, k: int) -> list[Hit]:
        """Ask until there is an answer."""
        body: JSON = {"queries": [query], "topk": k, "return_scores": True}
        end_s, problem = time.monotonic() + self._timeout_s, ""
        async with aclosing(self._new_client()) as client:
            for _ in range(self._attempts):
                try:
                    hits, unread = read_answer(await self._asked(client, body, end_s), k)
                    self._count(unread)
                    return hits
                except Exception as error:
                    if not is_down(error):
                        raise
                    problem = str(error)[:500] or type(error).__name__
                if time.monotonic() >= end_s:
                    break
        raise RetrieverFailed(f"the retrieval server {self._url} failed: {problem}")

    def _count(self, unread: Sequence[str]) -> None:
        if unread and not self.n_unread:
            _log.warning(
                "the retrieval server %s returned a passage that cannot be read (%s); such passages are left out",
                self._url,
                unread[0],
            )
        self.n_unread += len(unread)

    async def _asked(self, client: HttpClient, body: JSON, end_s: float) -> str:
        """The text of an answer of status 200. Raises ServerDown."""
        try:
            async with asyncio.timeout(end_s - time.monotonic()):
                answer = await client.post(body)
        except TimeoutError:
            raise ServerDown(f"no reply within {self._timeout_s:g} s") from None
        if answer.status != 200:
            raise ServerDown(f"status {answer.status}: {answer.text[:200]!r}")
        return answer.text


def read_answer(body: str, k: int) -> tuple[list[Hit], list[str]]:
    """At most ``k`` passages of a server's answer to one query, and the problem of each that cannot be read.

    A passage is shown without its score, too; then it counts as 0. Raises ValueError for an answer of another form,
    and for one in which there are passages and none can be read.
    """
    try:
        result = json.loads(body)["result"]
        hits = result[0] if len(result) == 1 else [] if result == [] else None
        listed = hits[:k] if isinstance(hits, list) else None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its answer is not a list of passages: {body[:100]!r}") from error
    if listed is None:
        raise ValueError(f"its answer is not a list of passages: {body[:100]!r}")
    found, problems = list[Hit](), list[str]()
    for hit in listed:
        try:
            found.append(_hit(hit))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            problems.append(str(error))
    if problems and not found:
        raise ValueError(f"none of its passages can be read ({problems[0]}): {body[:100]!r}")
    return found, problems


def _hit(hit: Mapping[str, JSON]) -> Hit:
    held = hit.get("document", hit)  # without scores the documents stand alone
    if not isinstance(held, Mapping):
        raise TypeError("a document that is none")
    document = document_of(held, "", "")
    if not document.text.strip():
        raise ValueError("a document without text")
    name = id_of(document.id) or context_id(document.title, document.text)
    passage = Passage(id=name, document=name.partition("#")[0], title=document.title, text=document.text)
    return Hit(passage=passage, score=_score(hit.get("score")))


def _score(written: object) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        return 0.0
    try:
        score = float(written)
    except OverflowError:  # a whole number of 400 digits
        return 0.0
    return score if math.isfinite(score) else 0.0


# --- server -----------------------------------------------------------------------------------------------------------


class RetrievalServer:
    """Serves a retriever at ``http://host:port/retrieve``. Use it inside ``with``, which frees the port.

    ``port`` 0 takes a free one; ``url`` says which. Raises ConfigError for a port that cannot be had.
    """

    def __init__(self, retriever: Retriever, *, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self._server = _BoundedServer((host, port), _handler(retriever))
        except OSError as error:
            raise ConfigError(f"cannot serve at {host}:{port}: {error.strerror}; choose another --port") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="retrieval server", daemon=True)
        self.url = f"http://{host}:{self._server.server_address[1]}{PATH}"

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _BoundedServer(ThreadingHTTPServer):
    """One thread for each connection, of which so many are open for so long."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._since: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close a connection that is one too many."""
        if len(self._since) >= MOST_CONNECTIONS:
            super().shutdown_request(request)
            return
        self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The connection is done."""
        self._since.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is one line, not a traceback."""
        _log.info("a request of %s was not answered: %r", client_address[0], sys.exc_info()[1])

    def service_actions(self) -> None:
        """End connections that took too long; called about twice a second."""
        late = time.monotonic() - CONNECTION_S
        for request, since in list(self._since.items()):
            if since < late:
                with suppress(OSError):  # it ended in the meantime
                    request.shutdown(socket.SHUT_RDWR)


def _handler(retriever: Retriever) -> type[BaseHTTPRequestHandler]:
    class _Handler(BaseHTTPRequestHandler):
        timeout = 30  # seconds for a client to send its request

        def do_POST(self) -> None:
            if self.path != PATH:
                self._reply(404, {"error": f"there is only {PATH}"})
                return
            try:
                length = int(self.headers.get("Content-Length", ""))
                if not 0 <= length <= MOST_BYTES:
                    raise ValueError(f"a request has at most {MOST_BYTES} bytes")
                self._reply(200, answer_to(retriever, self.rfile.read(length)))
            except ValueError as error:
                self._reply(400, {"error": str(error)})
            except RetrieverFailed as error:
                self._reply(503, {"error": str(error)})

        def _reply(self, status: int, data: Mapping[str, JSON]) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed for each request."""

    return _Handler


def answer_to(retriever: Retriever, body: bytes) -> dict[str, JSON]:
    """The answer to a request. Raises ValueError, with the problem, for a body that is no request."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not JSON") from error
    queries, k = (asked.get("queries"), asked.get("topk") or 3) if isinstance(asked, dict) else (None, 3)
    if queries is None and isinstance(asked, dict):  # as skyrl-gym asks
        queries = [asked.get("query")]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise ValueError("queries must be a list of texts")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_PASSAGES or len(queries) > MOST_QUERIES:
        raise ValueError(f"topk must lie in 1 to {MOST_PASSAGES}, and queries be at most {MOST_QUERIES}")
    if k * len(queries) > MOST_IN_ALL:
        raise ValueError(
            f"{len(queries)} queries of topk {k} ask for more than {MOST_IN_ALL} passages; send fewer at once"
        )
    scores = asked.get("return_scores") is True
    return {"result": [[_written(hit, scores) for hit in retriever.search(query, k)] for query in queries]}


def _written(hit: Hit, scores: bool) -> dict[str, JSON]:
    passage = hit.passage
    contents = f'"{passage.title}"\n{passage.text}' if passage.title else passage.text
    document: dict[str, JSON] = {"id": passage.id, "contents": contents}
    return {"document": document, "score": hit.score} if scores else document
