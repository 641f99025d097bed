"""The model behind a judge: one method, from a prompt to a reply. Failures are returned, because a judge retries
them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from turngate.agents.chat import Chat
from turngate.agents.policies.answers import complete
from turngate.agents.policies.base import Policy
from turngate.errors import PolicyError
from turngate.judges.texts import Fault, FaultKind, JudgeId
from turngate.types import EndedBy, Request, Sampling, storable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text to complete. ``name`` is unique to the call; everything random derives from ``seed``."""

    name: str
    text: str
    seed: int
    max_tokens: int
    temperature: float = 0.0
    images: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A text, or the fault in its place.

    ``again`` says whether a retry may help, and ``wait_s`` how many seconds to wait before it. ``tokens``: of the text,
    by the model's own count; None if it does not say. Lone surrogates of the text become "?", as in ``storable``.

    ``cut_off``: the text ends because it may be no longer, and how it would have ended is unknown. So it counts as no
    reply, however whole it looks (a draft in a thought without end can be read, too), and this is its ``fault``.
    """

    text: str = ""
    cut_off: bool = False
    fault: Fault | None = None
    again: bool = True
    wait_s: float = 0.0
    tokens: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", storable(self.text))
        if self.cut_off and self.fault is None:
            fault = Fault(kind=FaultKind.CUT_OFF, detail="it was cut off at the most tokens that it may have")
            object.__setattr__(self, "fault", fault)


class TextModel(ABC):
    """A model behind a judge. ``concurrency`` is the number of calls that it can serve at once.

    ``async with text_model`` opens and closes what it needs, for instance connections; most need nothing.
    """

    judge: JudgeId
    concurrency: int = 16

    async def __aenter__(self) -> Self:
        """Open what it needs."""
        return self

    async def __aexit__(  # noqa: B027 (most text models hold nothing)
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""

    @abstractmethod
    async def complete(self, prompt: Prompt) -> Reply:
        """The reply to one prompt. The call may be cancelled at any time, when its time is up."""

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A context that a coroutine enters for as long as it makes calls, one after the other."""
        yield

    async def outside(self, call: Awaitable[T]) -> T:
        """Await something else than a call inside a slot, for instance the pause before a retry."""
        return await call


class PolicyTextModel(TextModel):
    """Any policy as the model of a judge. ``context`` is the most tokens of prompt and reply together.

    ``judge`` is its name and version. Without it the name is "policy" and the version that of the weights with which
    the policy samples now, so that a cache never returns verdicts of other weights. Several batches at once share the
    policy's slots. Make a local policy that only judges with ``order="ready"``: under "fixed" its engine waits for a
    slot that pauses before a retry.
    """

    def __init__(self, policy: Policy, chat: Chat, judge: JudgeId | None = None, *, context: int) -> None:
        self.concurrency = policy.concurrency
        self._policy, self._chat, self._judge, self._context = policy, chat, judge, context
        self._room = asyncio.Semaphore(policy.concurrency)
        self._n_asked = 0

    @property
    def judge(self) -> JudgeId:  # type: ignore[override]
        """The name and version that were given, or "policy" and the version of its weights."""
        return self._judge or JudgeId(name="policy", version=str(self._policy.version))

    async def complete(self, prompt: Prompt) -> Reply:
        """The reply to one prompt, sampled as the only turn of an episode."""
        if prompt.images:
            return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail="this model takes no images"), again=False)
        ids = self._chat.opening(prompt.text)
        if len(ids) + prompt.max_tokens > self._context:
            size = f"{len(ids)} tokens of prompt and {prompt.max_tokens} of reply exceed the context of {self._context}"
            return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail=size), again=False)
        self._n_asked += 1  # two judges may ask the same at once, and an engine tells episodes apart by name
        episode = f"judge {self._n_asked} {prompt.name}"
        request = Request(
            episode=episode,
            task_id="judge",
            ids=ids,
            turn=0,
            seed=prompt.seed,
            max_tokens=prompt.max_tokens,
            sampling=Sampling(temperature=prompt.temperature),
        )
        try:
            completion = await complete(self._policy, request)
        except PolicyError as error:
            return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail=str(error)))
        finally:
            self._policy.release(episode)
        cut_off = completion.ended_by is EndedBy.LENGTH
        return Reply(text=completion.text, cut_off=cut_off, tokens=len(completion.ids_K) or None)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A slot of the policy, as soon as one is free."""
        async with self._room, self._policy.slot():
            yield

    async def outside(self, call: Awaitable[T]) -> T:
        """Await ``call``; the policy serves other slots meanwhile."""
        return await self._policy.outside(call)
