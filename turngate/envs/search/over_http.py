"""Retrieval over HTTP, as Search-R1's retrieval server speaks it: a client, and a server of any documents.

``POST /retrieve`` with ``{"queries": […], "topk": k, "return_scores": true}`` is answered with
``{"result": [[{"document": {"id": …, "contents": …}, "score": …}, …], …]}``, one list for each query. ``contents`` is
the title in quotes, a line break and the text.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from turngate.envs.search.known_questions import context_id
from turngate.envs.search.passages import Hit, Passage, id_of
from turngate.envs.search.readers import document_of
from turngate.envs.search.retrievers import Retriever, RetrieverFailed
from turngate.errors import ConfigError
from turngate.types import JSON

MOST_BYTES = 16_000_000
"""Largest request or answer that is read."""
MOST_QUERIES, MOST_PASSAGES = 1000, 1000
PATH = "/retrieve"


# --- client -----------------------------------------------------------------------------------------------------------


class RetrievalClient:
    """Asks a server at ``url`` (the whole address, with ``/retrieve``). It holds no connection between queries.

    A query takes at most ``timeout_s``, attempts together. Raises ConfigError for an address that is none,
    RetrieverFailed where the server does not answer in time or answers something else.
    """

    def __init__(self, url: str, *, timeout_s: float, attempts: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"retriever.url: '{url}' is no address; write for instance http://localhost:8000/retrieve"
            )
        self._url, self._timeout_s, self._attempts = url, timeout_s, attempts
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The passages that the server returns for the query."""
        body = json.dumps({"queries": [query], "topk": k, "return_scores": True}).encode()
        end_s, problem = time.monotonic() + self._timeout_s, ""
        for _ in range(self._attempts):
            try:
                return read_answer(self._ask(body, end_s), k)
            except (OSError, ValueError) as error:  # no connection, time-outs and error statuses; no JSON
                problem = str(error) or type(error).__name__
            if time.monotonic() >= end_s:
                break
        raise RetrieverFailed(f"the retrieval server {self._url} failed: {problem}")

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, body: bytes, end_s: float) -> bytes:
        request = urllib.request.Request(self._url, data=body, headers={"Content-Type": "application/json"})
        with self._opener.open(request, timeout=max(end_s - time.monotonic(), 0.01)) as response:
            read = bytearray()
            while part := response.read1(65_536):
                read += part
                if len(read) > MOST_BYTES:
                    raise ValueError(f"its answer is longer than {MOST_BYTES} bytes")
                if time.monotonic() > end_s:
                    raise TimeoutError(f"its answer was not complete after {self._timeout_s:g} s")
        return bytes(read)


def read_answer(body: bytes, k: int) -> list[Hit]:
    """At most ``k`` passages of a server's answer to one query. Raises ValueError for an answer of another form."""
    try:
        (hits,) = json.loads(body)["result"]
        return [_hit(hit) for hit in hits[:k]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its answer is not a list of passages: {body[:100]!r}") from error


def _hit(hit: Mapping[str, JSON]) -> Hit:
    held = hit.get("document", hit)  # without scores the documents stand alone
    if not isinstance(held, Mapping):
        raise TypeError("a document that is none")
    document = document_of(held, "", "")
    if not document.text.strip():
        raise ValueError("a document without text")
    name = id_of(document.id) or context_id(document.title, document.text)
    score = hit.get("score", 0.0)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError("a score that is no number")
    passage = Passage(id=name, document=name.partition("#")[0], title=document.title, text=document.text)
    return Hit(passage=passage, score=float(score))


# --- server -----------------------------------------------------------------------------------------------------------


class RetrievalServer:
    """Serves a retriever at ``http://host:port/retrieve``. Use it inside ``with``, which frees the port.

    ``port`` 0 takes a free one; ``url`` says which. Raises ConfigError for a port that cannot be had.
    """

    def __init__(self, retriever: Retriever, *, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(retriever))
        except OSError as error:
            raise ConfigError(f"cannot serve at {host}:{port}: {error.strerror}; choose another --port") from error
        self._server.daemon_threads = True
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
    """The answer to a request. Raises ValueError, with what is wrong, for a body that is none."""
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
    scores = asked.get("return_scores") is True
    return {"result": [[_written(hit, scores) for hit in retriever.search(query, k)] for query in queries]}


def _written(hit: Hit, scores: bool) -> dict[str, JSON]:
    passage = hit.passage
    contents = f'"{passage.title}"\n{passage.text}' if passage.title else passage.text
    document: dict[str, JSON] = {"id": passage.id, "contents": contents}
    return {"document": document, "score": hit.score} if scores else document
