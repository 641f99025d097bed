"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, ``transformers serve``, hosted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turngate.errors import ConfigError, MissingExtra
from turngate.judging.speaker import Ask, Reply, Speaker
from turngate.rewards.judge import Fault, FaultKind, JudgeId
from turngate.types import JSON

if TYPE_CHECKING:
    import httpx2

_WRONG = (401, 403, 404)  # the key, the address or the model's name: no call will succeed
_BUSY = (408, 409, 425, 429)
MAX_WAIT_S = 60.0
"""Longest wait that a server's Retry-After can ask for."""


class OpenAISpeaker(Speaker):
    """``POST {url}/chat/completions`` with ``model``. Use it inside ``async with``, which holds its connections.

    ``version`` says which weights and settings the server has; change it when they change, because a cache cannot see
    that. ``extra`` is added to every request, for instance ``{"response_format": {"type": "json_object"}}``; some
    servers want the limit under another name than ``max_tokens`` (``tokens_field``). Deadlines are the judge's.

    Raises MissingExtra without httpx2; ConfigError for an address that is none, and for answers 401, 403 and 404, which
    no retry will change.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        version: str = "0",
        api_key: str | None = None,
        lanes: int = 16,
        tokens_field: str = "max_tokens",
        extra: Mapping[str, JSON] | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"'{url}' is not the address of a server; write for instance http://localhost:8000/v1")
        self.judge, self.lanes = JudgeId(name=model, version=version), lanes
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._tokens_field, self._extra = tokens_field, dict(extra or {})
        self._client: httpx2.AsyncClient | None = None
        self._room = asyncio.Semaphore(lanes)

    async def __aenter__(self) -> Self:
        """Open the connections."""
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("httpx2", "openai") from None
        limits = httpx2.Limits(max_connections=self.lanes)
        self._client = httpx2.AsyncClient(headers=self._headers, timeout=None, limits=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        assert self._client is not None
        await self._client.aclose()
        self._client = None

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[None]:
        """One of its lanes, as soon as one is free: a call's time begins when a connection is."""
        async with self._room:
            yield

    async def say(self, ask: Ask) -> Reply:
        """One request."""
        if self._client is None:
            raise RuntimeError("the connections are not open; use 'async with OpenAISpeaker(…) as speaker'")
        import httpx2

        body = {
            "model": self.judge.name,
            "messages": [{"role": "user", "content": ask.prompt}],
            "seed": ask.seed >> 31,  # 32 bits: servers that read numbers as doubles would round a larger one
            "temperature": ask.temperature,
            self._tokens_field: ask.max_tokens,
            **self._extra,
        }
        try:
            response = await self._client.post(self._url, json=body)
        except httpx2.TransportError as error:
            return _unavailable(f"{type(error).__name__}: {error}")
        if response.status_code in _WRONG:
            raise ConfigError(
                f"{self._url} answered {response.status_code} for model '{self.judge.name}': "
                f"{response.text[:200]!r}; check the address, the model's name and the key"
            )
        if response.status_code >= 400:
            busy = response.status_code in _BUSY or response.status_code >= 500
            problem = f"status {response.status_code}: {response.text[:200]!r}"
            return _unavailable(problem, again=busy, wait_s=_retry_after(response.headers.get("retry-after")))
        return read_reply(response.text)


def read_reply(body: str) -> Reply:
    """The reply in the body of a chat completion; a body that is none counts as a server that failed."""
    try:
        choice = json.loads(body)["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return _unavailable(f"not a chat completion: {body[:200]!r}")
    if refusal or choice.get("finish_reason") == "content_filter":
        return Reply(fault=Fault(kind=FaultKind.REFUSAL, detail=str(refusal or "content filter")[:200]))
    return Reply(text=content if isinstance(content, str) else "")


def _unavailable(detail: str, *, again: bool = True, wait_s: float = 0.0) -> Reply:
    return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail=detail), again=again, wait_s=wait_s)


def _retry_after(header: str | None) -> float:
    """Seconds that the server asks to wait; a date, or nonsense, counts as nothing said."""
    try:
        return min(max(0.0, float(header or 0)), MAX_WAIT_S)  # in this order, "nan" is 0
    except ValueError:
        return 0.0
