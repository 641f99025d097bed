"""The one HTTP client: it treats the answers of all servers alike.

An answer has ``MOST_BYTES`` at most and comes uncompressed, so that a small one cannot become a large one. No
redirection is followed, and no cookie kept: one answer could otherwise change, or spoil, all requests after it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from turngate.errors import ConfigError
from turngate.servers import MOST_BYTES, ServerDown, is_down
from turngate.types import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """``text``: the body as UTF-8, without a byte order mark and with U+FFFD for invalid bytes. ``retry_after``: the
    header of that name."""

    status: int
    text: str
    retry_after: str | None = None


class HttpClient:
    """Posts JSON to ``url``. ``aclose`` closes its connections, within the loop that used them.

    ``connections``: most at once; ``kept``: most that stay open between requests. ``proxies``: whether the proxies of
    this machine's settings are used. Raises ConfigError where those cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connections: int = 16,
        kept: int | None = None,
        proxies: bool = True,
    ) -> None:
        self._url = url
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=kept)
        self._client = bounded_client(headers=headers, limits=limits, proxies=proxies)

    async def aclose(self) -> None:
        """Close the connections. Nothing can be asked after it."""
        await self._client.aclose()

    async def post(self, body: JSON) -> HttpAnswer:
        """The answer to ``body``, whatever its status. It has no deadline of its own: the caller cancels it.

        Raises ServerDown, with the reason in one line.
        """
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                read = bytearray()
                async for part in response.aiter_raw():
                    read += part
        except Exception as error:
            if not is_down(error):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ServerDown(reason, reached=not isinstance(error, httpx2.ConnectError)) from error
        text = read.decode("utf-8-sig", errors="replace")
        return HttpAnswer(status=response.status_code, text=text, retry_after=response.headers.get("retry-after"))


def bounded_client(
    *, headers: Mapping[str, str] | None = None, limits: httpx2.Limits | None = None, proxies: bool = True
) -> httpx2.AsyncClient:
    """A client without time limits, of which each answer is bounded as this module says. See ``HttpClient``."""
    try:
        return httpx2.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            verify=_certificates(),
            timeout=None,
            limits=limits or httpx2.Limits(),
            mounts={} if proxies else {"http://": None, "https://": None},
            event_hooks={"response": [_bound]},
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise ConfigError(f"the proxies that this machine's variables name cannot be used: {error}") from error


@cache
def _certificates() -> ssl.SSLContext:
    """The authorities that servers' certificates are checked against: read once, which takes 50 ms."""
    return httpx2.create_ssl_context()


async def _bound(response: httpx2.Response) -> None:
    """Have the body of an answer end at the limit. Raises RemoteProtocolError for a compressed one."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise httpx2.RemoteProtocolError(f"its answer is compressed ({encoding[:40]}), which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer up to the limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_bytes = 0
        async for part in self._stream:
            n_bytes += len(part)
            if n_bytes > MOST_BYTES:
                raise httpx2.RemoteProtocolError(f"its answer is longer than {MOST_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
