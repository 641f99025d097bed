"""The network of one episode's pages: sites of this process and allowed hosts, nothing else.

Chromium sends every request of the episode's context to its ``SiteProxy``, a proxy on a port of its own on the loopback
interface, except those to allowed hosts, which it reaches by itself. The gate answers for the sites, and refuses and
records the rest. Chromium itself keeps to its proxy, so this holds for everything that a page can do: redirects,
popups, workers, prefetching, sockets; and cookies and redirects are the browser's own. (Requests that DevTools
intercepts come without cookies, and their redirects pass unseen.)
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from turngate.envs.web.engine.page_problems import PageProblem
from turngate.envs.web.engine.settings import Limits
from turngate.envs.web.engine.site_handler import SiteHandler, SiteRequest, SiteResponse
from turngate.errors import ConfigError, EnvError

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSeen:
    """One request of a page. ``status`` is None where no site answered it: it went to an allowed host, or was refused;
    then ``refused`` says why."""

    method: str
    url: str
    body: bytes = b""
    status: int | None = None
    refused: str = ""


class SiteProxy:
    """Answers requests from the ``sites`` of this process, lets those to ``allowed`` hosts pass, and refuses the rest.

    ``sites``: host, or host:port, → who answers; they are reached by ``http://``. ``allowed``: hosts of the real
    network, as ``example.com``, ``127.0.0.1:8000`` or ``*.example.com``. Raises ConfigError: one of them is no host.
    """

    def __init__(self, sites: Mapping[str, SiteHandler], allowed: Collection[str], limits: Limits) -> None:
        if isinstance(allowed, str):
            raise ConfigError(f"allowed is '{allowed}'; it must be a list of hosts")
        for host in (*sites, *allowed):
            if not host or any(mark in host for mark in "/@, ") or host == "*":
                raise ConfigError(f"'{host}' is not a host; write it as example.com, *.example.com or 127.0.0.1:8000")
        self.sites = {host.lower(): site for host, site in sites.items()}
        self.allowed = tuple(host.lower() for host in allowed)
        self.seen: list[RequestSeen] = []
        self.count = 0
        self.broken: EnvError | None = None
        """Why a site could not answer, if one could not. No fault of the page."""
        self._limits = limits
        self._one_at_a_time = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    # --- which hosts

    def site_of(self, url: str) -> SiteHandler | None:
        """The site in this process that answers ``url``."""
        host, port = _host(url)
        return self.sites.get(f"{host}:{port}") or self.sites.get(host)

    def passes(self, url: str) -> bool:
        """Whether ``url`` may go to the network."""
        host, port = _host(url)
        for rule in self.allowed:
            if rule in (host, f"{host}:{port}") or (rule.startswith("*.") and host.endswith(rule[1:])):
                return True
        return False

    def check(self, url: str) -> str:
        """``url`` as it can be opened. Raises PageProblem if it is malformed, or its host is not allowed."""
        text = url.strip()
        try:
            parts = urlsplit(text)
            host, _ = _host(text)
        except ValueError as error:
            raise PageProblem(f"'{text[:200]}' is not an address: {error}") from None
        if parts.scheme not in ("http", "https"):
            named = f"an address that begins with {parts.scheme}:" if parts.scheme else "an address without http://"
            raise PageProblem(f"'{text[:200]}' is {named}; only http:// and https:// can be opened")
        if not host or any(ord(char) <= 32 for char in text) or "\\" in text or "@" in parts.netloc:
            raise PageProblem(f"'{text[:200]}' is not an address that can be opened: it must be http://HOST/PATH")
        if self.site_of(text) is None and not self.passes(text):
            raise PageProblem(f"the host '{host}' is not allowed; allowed: {', '.join(self.hosts) or 'none'}")
        if self.site_of(text) is not None and parts.scheme == "https":
            raise PageProblem(f"'{host}' answers to http://, not to https://")
        return text

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts that can be opened."""
        return (*self.sites, *self.allowed)

    # --- the proxy

    async def open(self) -> dict[str, str]:
        """Begin to listen. Returns the proxy settings of the context."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        # the first rule: nothing passes by default, not even addresses of this machine
        return {"server": f"http://127.0.0.1:{port}", "bypass": ",".join(["<-loopback>", *self.allowed])}

    async def close(self) -> None:
        """Stop listening, and cut every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def restart(self, other: SiteProxy) -> None:
        """Answer for the sites of ``other`` from now on, with an empty record. Both have the same allowed hosts."""
        self.sites, self.seen, self.count, self.broken = other.sites, [], 0, None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError, asyncio.CancelledError):
            pass  # the browser went away, or sent something else than HTTP
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; False if the connection ends with it."""
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = line.split(" ", 2)
        headers: dict[str, str] = {}
        for text in lines:
            name, _, value = text.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await _body(reader, headers)
        if method == "CONNECT":
            self.note(RequestSeen(method=method, url=f"https://{target}", refused="the host is not allowed"))
            writer.write(_head(SiteResponse(status=403)))
            await writer.drain()
            return False
        response = await self._answer(SiteRequest(method=method, url=target, headers=headers, body=body))
        writer.write(_head(response) + (b"" if method == "HEAD" else response.body))
        await writer.drain()
        return True

    async def _answer(self, request: SiteRequest) -> SiteResponse:
        url = request.url
        if urlsplit(url).path == "/favicon.ico":  # asked for by the browser itself, at a time of its own
            return SiteResponse(status=404)
        if url.startswith("ws:") or (site := self.site_of(url)) is None:
            self.note(RequestSeen(method=request.method, url=url, body=request.body, refused="the host is not allowed"))
            return self._refusal(url)
        try:
            async with self._one_at_a_time:
                response = await asyncio.wait_for(asyncio.to_thread(site.answer, request), self._limits.answer_s)
        except TimeoutError:
            problem = f"did not answer within {self._limits.answer_s:g} s"
            self.broken = EnvError(f"the site of {url[:200]} {problem}")
            response = SiteResponse(status=504)
        except Exception as error:
            self.broken = EnvError(f"the site of {url[:200]} raised {error!r}")
            self.broken.__cause__ = error
            response = SiteResponse(status=500)
        self.note(RequestSeen(method=request.method, url=url, body=request.body, status=response.status))
        return response

    def _refusal(self, url: str) -> SiteResponse:
        said = f"The host '{_host(url)[0]}' is not allowed; allowed: {', '.join(self.hosts) or 'none'}."
        page = f"<!doctype html><title>Not allowed</title><p>{html.escape(said)}"
        return SiteResponse(status=403, headers={"content-type": "text/html; charset=utf-8"}, body=page.encode())

    def note(self, request: RequestSeen) -> None:
        """Record a request; the first ones are kept."""
        self.count += 1
        if len(self.seen) < self._limits.log:
            self.seen.append(request)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        chunks, size = [], 1
        while size:
            size = int((await reader.readline()).split(b";")[0], 16)
            chunks.append((await reader.readexactly(size + 2))[:-2])
            if sum(map(len, chunks)) > MAX_BODY_BYTES:
                raise ValueError("the body is too large")
        return b"".join(chunks)
    size = int(headers.get("content-length", "0"))
    if size > MAX_BODY_BYTES:
        raise ValueError("the body is too large")
    return await reader.readexactly(size)


def _head(response: SiteResponse) -> bytes:
    """Status line and headers. Nothing is cached: how long would depend on the time of day."""
    headers = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
    headers |= {name.lower(): value for name, value in response.headers.items()}
    headers["content-length"] = str(len(response.body))
    lines = [f"HTTP/1.1 {response.status} Answered"]
    for name, value in headers.items():
        if name not in ("connection", "transfer-encoding"):
            lines += [f"{name}: {one}" for one in value.split("\n")]  # several cookies, one a line
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _host(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or {"https": 443, "wss": 443}.get(parts.scheme, 80)
