"""A judge behind a server that speaks OpenAI's chat completions (see ``turngate.agents.server``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from turngate.agents.server import Answer, ChatServer, NoReply
from turngate.judges.asking.text_model import Prompt, Reply, TextModel
from turngate.judges.texts import Fault, FaultKind, JudgeId
from turngate.types import JSON, Message


class OpenAITextModel(TextModel):
    """A ``ChatServer`` as a text model. Use it inside ``async with``, which opens and closes its connections.

    ``version`` names the weights and settings that the server has. Change it when they change: cached verdicts are
    looked up by it. The judge sets the time limits. Raises what ``ChatServer`` raises.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        version: str = "0",
        api_key: str | None = None,
        concurrency: int = 16,
        tokens_field: str = "max_tokens",
        extra: Mapping[str, JSON] | None = None,
    ) -> None:
        self._server = ChatServer(
            url, model, api_key=api_key, concurrency=concurrency, tokens_field=tokens_field, extra=extra
        )
        self.judge, self.concurrency = JudgeId(name=model, version=version), concurrency
        self._room = asyncio.Semaphore(concurrency)

    async def __aenter__(self) -> Self:
        """Open the connections."""
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        await self._server.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One of the slots, as soon as one is free; the time limit of a call begins only then."""
        async with self._room:
            yield

    async def complete(self, prompt: Prompt) -> Reply:
        """The reply to one request."""
        return reply_of(
            await self._server.ask(
                [Message(role="user", content=prompt.text, images=prompt.images)],
                seed=prompt.seed,
                temperature=prompt.temperature,
                max_tokens=prompt.max_tokens,
            )
        )


def reply_of(answer: Answer) -> Reply:
    """The server's answer as a reply to a judge."""
    if isinstance(answer, NoReply):
        fault = Fault(kind=FaultKind.UNAVAILABLE, detail=answer.detail)
        return Reply(fault=fault, again=answer.again, wait_s=answer.wait_s)
    if answer.refusal:
        return Reply(fault=Fault(kind=FaultKind.REFUSAL, detail=answer.refusal[:200]))
    return Reply(text=answer.text, cut_off=answer.cut_off, tokens=answer.written)
