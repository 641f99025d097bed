"""A model behind a server as an agent: it is asked with messages and answers with text.

Tools that it is given (``Request.tools``) go to the server as schemas; what it calls comes back as text, in one
tool format (``turngate.agents.conversation``). A server that refuses tools is told of them in the prompt instead.

Its server does not say which tokens it read or wrote, so its completions have no ids and no log-probabilities; ids of
some other tokenizer would be wrong. What needs them (packing for a learner, probes, likelihoods) refuses such episodes;
rewards, reports, ``show`` and ``rescore`` go by text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

from turngate.agents.conversation import as_text, listing
from turngate.agents.policies.base import Policy
from turngate.agents.server import Answer, ChatServer, NoReply, Said
from turngate.errors import ConfigError, OutOfRoom, PolicyError
from turngate.types import JSON, Completion, EndedBy, Request, derive_seed

_log = logging.getLogger(__name__)
BACKOFF_S, BACKOFF_MAX_S = 0.5, 30.0


class OpenAIPolicy(Policy):
    """Asks ``server`` for each turn, ``concurrency`` turns at once, up to ``attempts`` times with ``call_s`` seconds
    each.

    ``context``: most tokens of an episode by the server's own count. A turn that does not fit, by that count or because
    the server says so, raises OutOfRoom; one without a reply raises PolicyError. Raises ConfigError for a server that
    refuses altogether, that refuses the images of the environment, or that was never reached. Connections are open
    while a slot is.
    """

    name = "openai"
    takes_images = True

    def __init__(self, server: ChatServer, *, concurrency: int, context: int, attempts: int, call_s: float) -> None:
        self.concurrency = concurrency
        self._server, self._context, self._attempts, self._call_s = server, context, attempts, call_s
        self._used: dict[str, int] = {}  # tokens of each episode after its last turn
        self._room = asyncio.Semaphore(concurrency)
        self._n_open, self._was_reached = 0, False
        self._takes_tools: bool | None = None  # None: it has not said
        self._takes_images = False  # True: it has replied to some

    async def complete(self, request: Request) -> Completion:
        """One turn. Call it inside ``async with policy.slot()``."""
        if not request.messages:
            raise PolicyError(f"'{request.episode}' comes without messages, and a server takes nothing else")
        used = self._used.get(request.episode, 0)
        if used + request.max_tokens > self._context:
            raise OutOfRoom(
                f"{used} tokens are in use and a turn may have {request.max_tokens}: {self._context} in all"
            )
        said = await self._reply_to(request)
        if said.used is not None:
            self._used[request.episode] = said.used
        return Completion(
            ids_K=np.zeros(0, np.int32),
            logprobs_K=np.zeros(0, np.float32),
            ended_by=EndedBy.LENGTH if said.cut_off else EndedBy.STOP,
            policy_version=self.version,
            text=as_text(said.text, said.calls, cut_off=said.cut_off) or said.refusal,
        )

    def release(self, episode: str) -> None:
        """Forget how long it is."""
        self._used.pop(episode, None)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A slot, as soon as one is free; the first one opens the connections and the last one closes them."""
        async with self._room:
            if not self._n_open:
                await self._server.__aenter__()
            self._n_open += 1
            try:
                yield
            finally:
                self._n_open -= 1
                if not self._n_open:
                    await self._server.__aexit__(None, None, None)

    async def _reply_to(self, request: Request) -> Said:
        """Ask until there is a reply."""
        shows = any(message.images for message in request.messages)
        for attempt in range(1, self._attempts + 1):
            answer = await self._ask(request)
            if isinstance(answer, Said):
                self._was_reached = True
                self._takes_images |= shows
                return answer
            fault = answer
            self._was_reached |= fault.reached
            if fault.no_images and shows and not self._takes_images:
                raise ConfigError(
                    f"{self._server.url} refuses the images of task '{request.task_id}': {fault.detail}; name a model "
                    "that takes images"
                )
            if fault.full:
                raise OutOfRoom(fault.detail)
            if not fault.again:
                break
            if attempt < self._attempts:
                await asyncio.sleep(max(fault.wait_s, _pause_s(request.seed, attempt)))
        if not self._was_reached:
            raise ConfigError(f"nobody answers at {self._server.url}: {fault.detail}; check policy.url")
        raise PolicyError(
            f"{self._server.url} gave no reply to turn {request.turn} of '{request.episode}' in {attempt} "
            f"attempts; the last: {fault.detail}"
        )

    async def _ask(self, request: Request) -> Answer:
        """One reply, or none; with tools as schemas unless the server refuses those."""
        if not request.tools or self._takes_tools is False:
            return await self._post(request, native=False)
        answer = await self._post(request, native=True)
        if isinstance(answer, Said):
            self._takes_tools = True
        elif answer.no_tools and not (answer.full or self._takes_tools):
            refused, answer = answer.detail, await self._post(request, native=False)
            if isinstance(answer, Said) and self._takes_tools is None:
                self._takes_tools = False
                _log.warning(
                    '%s takes no tools (%s); the prompt lists them instead. policy.tools = "text" leaves them to '
                    "the environment's own text",
                    self._server.url,
                    refused,
                )
        return answer

    async def _post(self, request: Request, *, native: bool) -> Answer:
        sampling, messages = request.sampling, request.messages
        if request.tools and not native:
            messages = listing(messages, request.tools)
        more: dict[str, JSON] = {}
        if sampling.top_p < 1:
            more["top_p"] = sampling.top_p
        if sampling.top_k:
            more["top_k"] = sampling.top_k
        try:
            async with asyncio.timeout(self._call_s):
                return await self._server.ask(
                    messages,
                    seed=request.seed,
                    temperature=sampling.temperature,
                    max_tokens=request.max_tokens,
                    tools=request.tools if native else (),
                    more=more,
                )
        except TimeoutError:
            return NoReply(detail=f"no reply within {self._call_s:g} s")


def _pause_s(seed: int, attempt: int) -> float:
    """Twice as long after each attempt, times a factor in [½, 1) drawn by the seed."""
    whole_s = min(BACKOFF_S * 2.0 ** (attempt - 1), BACKOFF_MAX_S)
    return whole_s * (0.5 + derive_seed(seed, "pause", attempt) / 2.0**64)
