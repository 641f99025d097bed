"""``VLLMPolicy``: the model decoded by vLLM, in a process of its own; token ids in, token ids out.

A request holds all tokens of its context, so the engine may be started again at any time: turns in flight are sent once
more, with the same seeds. Prefixes are cached by what they contain, over turns and siblings, and forgotten with every
new version of the weights.

After each push of weights three things are compared on both sides: the version, a checksum of the weights that the
engine computes with, and that its cache was emptied. Every turn then says which version sampled it. With adapters that
are sent apart, a push is of them alone, and so is its checksum; the weights below them are sent once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.engines.engine_process import EngineDied, EngineProcess
from turngate.agents.engines.link import Message
from turngate.agents.engines.shared_weights import SharedModel, SharedWeights
from turngate.agents.policies.base import AdaptedWeights, Weights
from turngate.agents.policies.paced import PacedPolicy
from turngate.agents.policies.vllm_setup import NO_ADAPTERS, adapter_arguments
from turngate.errors import ConfigError, MismatchError, OutOfRoom, PolicyError
from turngate.types import JSON, Completion, EndedBy, Request

SERVER = "turngate.agents.engines.vllm_server:serve"
SEEDS = 2**63  # vLLM takes seeds below this
ENVIRON = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine core in the server's own process, so that it steps when asked
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",  # it is sent all that it needs
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How an engine is started, and how long it may take.

    ``python``: the interpreter that has vllm. ``config``: the model's. ``arguments``: vLLM's engine arguments.
    ``context``: most tokens of a request with what it may add.
    ``start_s``, ``stall_s``: most seconds of its start, and of one step. ``restarts``: how often a turn is sent again
    because the engine died. ``sleep``: vLLM's level while no tokens are sampled; 0 = it stays awake. ``server`` and
    ``search``: the module that serves, and folders where its interpreter finds it beside its own.
    """

    python: str
    config: Mapping[str, JSON]
    arguments: Mapping[str, JSON]
    context: int
    start_s: float
    stall_s: float
    restarts: int
    sleep: int = 0
    server: str = SERVER
    search: Sequence[str] = ()


@dataclass(slots=True, eq=False)
class _Turn:
    """One turn that the engine is asked for, under a name that is used once."""

    request: Request
    result: asyncio.Future[Completion]
    id: str = ""
    deaths: int = 0


class VLLMPolicy(PacedPolicy):
    """Samples by an engine that runs as long as ``running`` lasts. ``weights``: those that it begins with.

    ``order``: see ``turngate.agents.scheduler``; with "fixed" the steps of the engine are steps of this process, so a
    run on a CPU repeats bit for bit. ``apart``: whether a learner's adapters are sent as such, and added by the engine;
    it has to ``expect`` them.
    """

    name = "vllm"

    def __init__(
        self,
        settings: EngineSettings,
        weights: SharedWeights,
        chat: Chat,
        *,
        concurrency: int = 64,
        order: str = "fixed",
        apart: bool = False,
    ) -> None:
        super().__init__(concurrency=concurrency, order=order)
        self._settings, self._model, self._chat = settings, SharedModel(weights), chat
        self._apart = apart
        self._waits = order == "fixed"
        self._engine: EngineProcess | None = None
        self._is_running, self._is_asleep = False, False
        self._names = itertools.count()
        self._waiting: list[_Turn] = []
        self._at_work: dict[str, _Turn] = {}
        self._dropped: list[str] = []

    # --- the policy's interface ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the engine; it ends with the block. Raises ConfigError if it cannot be started."""
        try:
            try:
                await self._start()
            except EngineDied as error:
                raise ConfigError(f"the engine of vLLM cannot be started: {error}") from error
            self._is_running = True
            yield
        finally:
            self._is_running = False
            self._end()

    def expect(self, weights: Callable[[], Weights]) -> None:
        """Prepare for adapters, where they are sent apart. Raises ConfigError for weights without, or of too high a
        rank."""
        if not self._apart:
            return
        first = weights()
        if not isinstance(first, AdaptedWeights):
            raise ConfigError(NO_ADAPTERS)
        self._model.take_apart(first)
        assert self._model.adapters is not None
        more = adapter_arguments(self._model.adapters.manifest)
        self._settings = replace(self._settings, arguments={**self._settings.arguments, **more})

    async def complete(self, request: Request) -> Completion:
        """Sample one turn. Call it inside ``async with policy.slot()``.

        Raises OutOfRoom for one that the engine's context has no room for, PolicyError if the engine keeps dying.
        """
        self._need_slot()
        longest = self._settings.context
        if len(request.ids) + request.max_tokens > longest:
            raise OutOfRoom(
                f"turn {request.turn} of '{request.episode}' has {len(request.ids)} tokens before it and may have "
                f"{request.max_tokens}, more than the engine's {longest}; raise policy.context"
            )
        turn = _Turn(request, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._pace.in_engine += 1
        try:
            return await turn.result
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise

    async def publish(self, weights: Weights, version: int) -> None:
        """Give the engine new weights, and compare on both sides what it then has. Only between episodes.

        Raises PolicyError for weights of other names or shapes, for adapters apart that it did not ``expect``, and if
        the engine dies more than ``restarts`` times; MismatchError if the engine does not hold what was sent.
        """
        if self._waiting or self._at_work:
            n_turns = len(self._waiting) + len(self._at_work)
            raise PolicyError(f"cannot publish version {version} while {n_turns} turns are in flight")
        if self._apart and self._model.adapters is None and isinstance(weights, AdaptedWeights):
            raise PolicyError('policy.adapters = "apart" was not prepared; call policy.expect(learner.weights) first')
        whole = self._model.write(weights)
        self.version = version
        for deaths in itertools.count(1):
            try:
                if self._engine is None:
                    await self._start()  # with what was just written
                else:
                    await self._rouse()
                    dropped = self._take_dropped()
                    self._compare(await self._ask("publish", version=version, whole=whole, abort=dropped))
                return
            except EngineDied as error:
                self._end_engine(error)
                if deaths > self._settings.restarts:
                    raise PolicyError(f"version {version} was not published: {error}") from error

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """See ``PacedPolicy``. Raises RuntimeError outside of ``running``."""
        if not self._is_running:
            raise RuntimeError("the engine is not running; use 'async with policy.running()' around all of its use")
        async with super().slot():
            yield

    # --- turns --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Step the engine until no slot is open. If a step fails, its turns end with a typed error, so none hangs."""
        while self._pace.slots:
            await self._pace.before_step()
            try:
                await self._step()
            except EngineDied as error:
                self._send_again(error)
            except Exception as error:
                self._fail([*self._waiting, *self._at_work.values()], error)
        if self._settings.sleep and self._engine is not None and not self._is_asleep:
            await self._rest()

    async def _step(self) -> None:
        """One step for every turn in flight."""
        if not (self._waiting or self._at_work):
            return
        if self._engine is None:
            await self._start()
        await self._rouse()
        for turn in self._waiting:
            turn.id = str(next(self._names))
            self._at_work[turn.id] = turn
        fresh, self._waiting = self._waiting, []
        answer = await self._ask("step", add=[_order(turn) for turn in fresh], abort=self._take_dropped())
        for name, problem in answer["refused"].items():
            self._fail([turn for turn in [self._at_work.get(name)] if turn], PolicyError(problem))
        for done in answer["done"]:
            self._finish(done)

    def _finish(self, done: Message) -> None:
        turn = self._at_work.pop(done["id"], None)
        if turn is None:  # its slot was cancelled during this step
            return
        self._pace.in_engine -= 1
        if turn.result.done():
            return
        if done["versions"] != [str(self.version)]:
            turn.result.set_exception(
                PolicyError(f"the engine sampled with weights {done['versions']}, not with version {self.version}")
            )
            return
        ids = np.asarray(done["ids"], np.int32)
        turn.result.set_result(
            Completion(
                ids_K=ids,
                logprobs_K=np.asarray(done["logprobs"], np.float32),
                ended_by=EndedBy.STOP if self._chat.is_ended(ids) else EndedBy.LENGTH,
                policy_version=self.version,
                text=self._chat.decode(ids),
            )
        )

    def _withdraw(self, turn: _Turn) -> None:
        """Forget a turn whose slot was cancelled; the engine is told with the next message."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif self._at_work.pop(turn.id, None) is not None:
            self._dropped.append(turn.id)
        else:
            return
        self._pace.in_engine -= 1

    def _send_again(self, error: EngineDied) -> None:
        """The engine died: its turns wait for another one, except those that were sent too often."""
        self._end_engine(error)
        turns, self._at_work = list(self._at_work.values()), {}
        self._waiting = turns + self._waiting
        for turn in self._waiting:
            turn.deaths += 1
        self._fail([turn for turn in self._waiting if turn.deaths > self._settings.restarts], error)

    def _fail(self, turns: Sequence[_Turn], error: Exception) -> None:
        for turn in turns:
            self._withdraw(turn)
            if not turn.result.done():
                request = turn.request
                failure = PolicyError(f"decoding turn {request.turn} of '{request.episode}' failed: {error}")
                failure.__cause__ = error
                turn.result.set_exception(failure)

    # --- the engine ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Start a process and have it load the weights that are in the shared memory. Raises EngineDied."""
        settings, sent = self._settings, self._model
        self._engine = EngineProcess(
            settings.python, settings.server, memories=sent.fds, environ=ENVIRON, search=settings.search
        )
        self._is_asleep, self._dropped = False, []
        loaded = await self._ask(
            "start",
            config=dict(settings.config),
            settings=dict(settings.arguments),
            stops=sorted(self._chat.ends),
            manifest=sent.weights.manifest,
            adapters=sent.adapters and {"fd": sent.adapters.fd, "manifest": sent.adapters.manifest},
            version=self.version,
        )
        self._compare(loaded)

    async def _ask(self, do: str, **more: object) -> Message:
        """The engine's reply. Raises EngineDied, also if it does not answer in time."""
        assert self._engine is not None
        message = {"do": do, **more}
        if do == "step" and self._waits:
            return self._engine.ask_now(message, most_s=self._settings.stall_s)
        most_s = self._settings.start_s if do == "start" else self._settings.stall_s
        return await self._engine.ask(message, most_s=most_s)

    def _compare(self, loaded: Message) -> None:
        """Raise MismatchError unless the engine holds the content of the shared memory, under its version."""
        if loaded["version"] != str(self.version):
            raise MismatchError(f"the engine has weights of version {loaded['version']}, not {self.version}")
        for what, key, sent in (
            ("weights", "held", self._model.weights if loaded["held"] is not None else None),
            ("adapters", "adapters", self._model.adapters),
        ):
            if sent is not None and loaded[key] != sent.fingerprint:
                raise MismatchError(
                    f"the engine does not hold version {self.version} of the {what}: its checksum in {sent.dtype} is "
                    f"{loaded[key]}, that of what was sent is {sent.fingerprint}; a push was lost, the engine rounds "
                    f"to another precision, or vLLM rearranges the {what} of this architecture. "
                    'policy.type = "local" needs no push'
                )
        if not loaded["reset"]:
            raise MismatchError(f"the engine kept its prefix cache over the push of version {self.version}")

    async def _rest(self) -> None:
        """Let the engine sleep, so that the learner has the GPU's memory."""
        try:
            await self._ask("sleep", level=self._settings.sleep)
            self._is_asleep = True
        except EngineDied as error:
            self._end_engine(error)

    async def _rouse(self) -> None:
        """Wake the engine if it sleeps. After level 2 it has loaded its weights again, which is checked."""
        if self._is_asleep:
            woken = await self._ask("wake", level=self._settings.sleep, version=self.version)
            self._is_asleep = False
            if woken:
                self._compare(woken)

    def _take_dropped(self) -> list[str]:
        dropped, self._dropped = self._dropped, []
        return dropped

    def _end_engine(self, error: EngineDied) -> None:
        _log.warning("%s; it is started again when it is needed", error)
        if self._engine is not None:
            self._engine.end()
        self._engine = None

    def _end(self) -> None:
        if self._engine is not None:
            self._engine.end()
        self._engine = None
        self._model.close()


def _order(turn: _Turn) -> dict[str, object]:
    """The request as the engine's process reads it."""
    request, sampling = turn.request, turn.request.sampling
    return {
        "id": turn.id,
        "ids": request.ids.tolist(),
        "max_tokens": request.max_tokens,
        "seed": request.seed % SEEDS,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
    }
