"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, ``transformers serve``, hosted models.

One request and its result, for agents (``policies/openai.py``) and judges. Failures come back as data, because both try
again, each in its own way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from turngate.agents.conversation import ServerCall, spelt
from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.servers import ServerDown
from turngate.types import JSON, Message, storable

if TYPE_CHECKING:
    from turngate.servers.http_client import HttpClient

http_client = when_used("turngate.servers.http_client", "openai")

_WRONG = (401, 403, 404)  # the key, the address or the model's name: no call will succeed
_BUSY = (408, 409, 425, 429)
_NOT_HERE = 501  # up to this status a server may say what it does not do; above, it is out of order
_FULL = re.compile(r"context[ _](length|size|window)|maximum context|too many tokens|prompt is too long", re.IGNORECASE)
_TOOLS = re.compile(r"\btools?\b|\btool[-_]|function[ _-]call", re.IGNORECASE)
_IMAGES = re.compile(r"\bimages?\b|\bimage_|\bvision\b|multi-?modal", re.IGNORECASE)
_TOO_LONG = ("length", "model_length", "max_tokens")  # the second: Mistral
_FILTERED = "content_filter"
_BROKEN = ("error", "abort")
"""Why a reply ended, where it is not whole: it reached the token limit, a filter of the server stopped it, or the
server failed in the middle of it."""
MAX_WAIT_S = 60.0
"""Longest wait that a server's Retry-After can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A reply. ``cut_off``: it is incomplete, because of the token limit or a filter of the server. Then nothing of it
    may be used, however whole it looks: how it would have gone on is not known.

    ``used``: tokens of the whole conversation so far, ``written``: those of the reply, by the server's own count; None
    if it does not count.
    """

    text: str
    calls: tuple[ServerCall, ...] = ()
    refusal: str = ""
    cut_off: bool = False
    used: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """Why there is no reply. ``again``: a retry may help, after ``wait_s``; ``full``: the conversation is too long for
    it; ``no_tools``, ``no_images``: by its words it takes none; ``reached``: there is a server at the address."""

    detail: str
    again: bool = True
    wait_s: float = 0.0
    full: bool = False
    no_tools: bool = False
    no_images: bool = False
    reached: bool = True


Answer: TypeAlias = Said | NoReply


class ChatServer:
    """``POST {url}/chat/completions`` with ``model``. Use it inside ``async with``, which holds its connections.

    ``extra`` is added to every request, for instance ``{"response_format": {"type": "json_object"}}``; some servers
    want the limit under another name than ``max_tokens`` (``tokens_field``). ``concurrency``: most connections. The key
    is sent and kept nowhere else: should a server repeat it in a message, it is blotted out.

    Raises MissingExtra without httpx2; ConfigError for an address that is none, and for redirections and answers 401,
    403 and 404, which no retry will change.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        concurrency: int = 16,
        tokens_field: str = "max_tokens",
        extra: Mapping[str, JSON] | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"'{url}' is not the address of a server; write for instance http://localhost:8000/v1")
        self.url, self.model, self.concurrency = f"{url.rstrip('/')}/chat/completions", model, concurrency
        self._key, self._tokens_field, self._extra = api_key, tokens_field, dict(extra or {})
        self._client: HttpClient | None = None

    async def __aenter__(self) -> Self:
        """Open the connections."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = http_client.HttpClient(self.url, headers=headers, connections=self.concurrency)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        client, self._client = self._client, None  # first: while it closes, another may be opened
        assert client is not None
        await client.aclose()

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        seed: int,
        temperature: float,
        max_tokens: int,
        tools: Sequence[Mapping[str, JSON]] = (),
        more: Mapping[str, JSON] | None = None,
    ) -> Answer:
        """One request, without a deadline of its own: the caller cancels it. ``more``: fields of this request."""
        if self._client is None:
            raise RuntimeError("the connections are not open; use 'async with' around the calls")
        body = {
            "model": self.model,
            "messages": spelt(messages, tools=bool(tools)),
            "seed": seed >> 31,  # 32 bits: servers that read numbers as doubles would round a larger one
            "temperature": temperature,
            self._tokens_field: max_tokens,
            **({"tools": list(tools)} if tools else {}),
            **(more or {}),
            **self._extra,
        }
        try:
            answer = await self._client.post(body)
        except ServerDown as error:
            return NoReply(detail=self._clean(str(error))[:500], reached=error.reached)
        status, text = answer.status, answer.text
        no_tools = bool(tools) and _refuses(status, text, _TOOLS)
        if 300 <= status < 400 or (status in _WRONG and not no_tools):
            raise ConfigError(
                f"{self.url} answered {status} for model '{self.model}': {self._clean(text)[:200]!r}; check the "
                "address, the model's name and the key"
            )
        if status >= 400:
            return NoReply(
                detail=f"status {status}: {self._clean(text)[:200]!r}",
                again=status in _BUSY or status >= 500,
                wait_s=retry_after(answer.retry_after),
                full=status < 500 and status not in _BUSY and _FULL.search(text) is not None,
                no_tools=no_tools,
                no_images=_refuses(status, text, _IMAGES),
            )
        return read_completion(text)

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def read_completion(body: str) -> Answer:
    """The reply in the body of a chat completion, as texts that can be stored; a body that is none counts as a server
    that failed.

    Content may be a text, a list of parts, whose texts are joined, or nothing at all.
    """
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        calls = tuple(_call(one["function"]) for one in message.get("tool_calls") or ())
        usage, text = data.get("usage"), _text(content)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return NoReply(detail=f"not a chat completion: {body[:200]!r}")
    finish = choice.get("finish_reason")
    if finish in _BROKEN:
        return NoReply(detail=f"the server ended its reply with '{finish}': {body[:200]!r}")
    filtered = "content filter" if finish == _FILTERED else ""
    used = usage.get("total_tokens") if isinstance(usage, dict) else None
    written = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return Said(
        text=storable(text),
        calls=calls,
        refusal=storable(str(refusal or filtered)),
        cut_off=finish in (*_TOO_LONG, _FILTERED),
        used=used if isinstance(used, int) else None,
        written=written if isinstance(written, int) else None,
    )


def _text(content: JSON) -> str:
    """The text of a reply. Raises TypeError for content of a form that is not known, which is no empty reply."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError("content of another form")
    texts = [part if isinstance(part, str) else part.get("text", "") for part in content if part is not None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a part of another form")
    return "".join(texts)


def retry_after(header: str | None) -> float:
    """Seconds that the server asks to wait; a date, or nonsense, counts as nothing said."""
    try:
        return min(max(0.0, float(header or 0)), MAX_WAIT_S)  # in this order, "nan" is 0
    except ValueError:
        return 0.0


def _refuses(status: int, text: str, what: re.Pattern[str]) -> bool:
    """Whether an answer without a reply names what the server does not do."""
    return 400 <= status <= _NOT_HERE and status not in _BUSY and what.search(text) is not None


def _call(function: Mapping[str, JSON]) -> ServerCall:
    """A call of a reply; some servers give the arguments as an object, or nothing where there are none."""
    name, arguments = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("a call without a name")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ServerCall(name=storable(name), arguments=storable(text) if text.strip() else "{}")
