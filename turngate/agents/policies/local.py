"""``LocalPolicy``: a Hugging Face model decoded in this process, for a CPU or one GPU.

Continuous batching: each decode step serves all turns in flight. An episode keeps its cache row over all its turns, so
a turn feeds only its new tokens; siblings that start from the same prompt share one prefill. Sampling inverts the
cumulative distribution with uniforms derived from the request's seed, so a completion depends on no other randomness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from turngate.agents.architecture import logit_cap
from turngate.agents.chat import Chat
from turngate.agents.policies.base import Weights, shape_of
from turngate.agents.policies.fast_cpu import forward_of
from turngate.agents.policies.forward import Feed, Forward, capped
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.policies.paced import PacedPolicy
from turngate.agents.policies.prefix_cache import PrefixMemory
from turngate.agents.policies.sampling import Draws
from turngate.agents.protocols import LanguageModel
from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import OutOfMemory, PolicyError
from turngate.types import Completion, EndedBy, IntArray, Request

PREFILL_TOKENS = 16_384  # most tokens of one prefill pass: bounds its memory
TOGETHER = 8
"""Turns that wait for each other begin when there is one of them for each this many rows that decode."""


@dataclass(slots=True, eq=False)
class _CacheRow:
    """One episode in the cache. ``fed`` are ids whose keys and values are stored; during a turn, only its context."""

    episode: str
    fed: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))
    job: _Job | None = None

    @property
    def filled(self) -> int:
        """Columns in use: also those of the turn under way, whose last token was sampled but not fed yet."""
        return len(self.fed) + (max(len(self.job.ids) - 1, 0) if self.job else 0)


@dataclass(slots=True, eq=False)
class _Job:
    """One turn being sampled."""

    request: Request
    result: asyncio.Future[Completion]
    uniforms: np.ndarray[Any, np.dtype[np.float64]]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class LocalPolicy(PacedPolicy):
    """Samples from ``model`` (a transformers causal language model). ``order``: see ``turngate.agents.scheduler``.

    ``forward`` makes the pass that the engine goes through; ``forward_of`` chooses the fastest one.
    """

    name = "local"

    def __init__(
        self,
        model: LanguageModel,
        chat: Chat,
        *,
        concurrency: int = 64,
        order: str = "fixed",
        forward: Callable[[LanguageModel, SlotCache], Forward] = forward_of,
    ) -> None:
        super().__init__(concurrency=concurrency, order=order)
        self._model, self._chat = model.eval(), chat
        self._head, self._cap = model.get_output_embeddings(), logit_cap(model.config)
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        self._cache = SlotCache(model.config, concurrency, device=parameter.device, dtype=parameter.dtype)
        self._forward = forward(model, self._cache)
        self._rows: list[_CacheRow] = []
        self._memory: PrefixMemory | None = None
        self._waiting: list[_Job] = []
        self._patience, self._waited = self._forward.patience, 0

    # --- the policy's interface ---------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Completion:
        """Sample one turn. Call it inside ``async with policy.slot()``."""
        self._need_slot()
        rng = np.random.Generator(np.random.Philox(request.seed))
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        job = _Job(request, future, rng.random(request.max_tokens))
        self._waiting.append(job)
        self._pace.in_engine += 1
        try:
            return await future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise

    async def publish(self, weights: Weights, version: int) -> None:
        """Copy new weights in. Only between episodes: a cache made by old weights would be used with new ones."""
        if self._rows or self._waiting:
            n_episodes = len(self._rows) + len(self._waiting)
            raise PolicyError(f"cannot publish version {version} while {n_episodes} episodes are in flight")
        own: dict[str, torch.Tensor] = dict(self._model.named_parameters())
        new: Mapping[str, Any] = weights
        if own.keys() != weights.keys():
            raise PolicyError(f"weights do not fit the model: {sorted(own.keys() ^ weights.keys())[:3]} differ")
        for name, parameter in own.items():
            if (shape := shape_of(weights, name)) != tuple(parameter.shape):  # copy_ would broadcast
                shapes = f"{shape}, the model has {tuple(parameter.shape)}"
                raise PolicyError(f"weights do not fit the model: '{name}' has shape {shapes}")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(new[name])
        self.version = version

    def release(self, episode: str) -> None:
        """Free the episode's row; the last row moves into its place."""
        index = self._find(episode)
        if index is None:
            return
        if self._memory is not None:
            self._memory.put(self._cache, index, self._rows[index].fed)
        last = len(self._rows) - 1
        if index != last:
            self._cache.copy(last, index, self._rows[last].filled)
            self._rows[index] = self._rows[last]
        self._rows.pop()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the cache rows of ended episodes, as many as there are slots; branches are fed only what they add."""
        rows = SlotCache(self._model.config, self.concurrency, device=self._device, dtype=self._dtype)
        self._memory = PrefixMemory(rows, self.concurrency)
        try:
            yield
        finally:
            self._memory = None

    # --- the engine ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Decode until no slot is open. A step that fails ends the turns in it with a typed error.

        Where memory ran out that is an OutOfMemory, which ends the run: the next episodes would need as much.
        """
        while self._pace.slots:
            await self._pace.before_step()
            try:
                self._step()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        jobs = dict.fromkeys(self._waiting)  # a job whose neighbour was refused may already stand in its row
        self._waiting = []
        for row in self._rows:
            if row.job:
                jobs[row.job] = None
                row.job = None
        self._pace.in_engine -= len(jobs)
        for job in jobs:
            if not job.result.done():
                failure = self._failure(job.request, error)
                failure.__cause__ = error
                job.result.set_exception(failure)

    def _failure(self, request: Request, error: Exception) -> PolicyError | OutOfMemory:
        if is_out_of_memory(error):
            return OutOfMemory(
                f"the sampler ran out of memory with {len(self._rows)} episodes at once; lower policy.concurrency, "
                f"which is {self.concurrency}, or policy.context"
            )
        return PolicyError(f"decoding turn {request.turn} of '{request.episode}' failed: {error!r}")

    def _withdraw(self, job: _Job) -> None:
        """Forget a job whose slot was cancelled."""
        if job in self._waiting:
            self._waiting.remove(job)
            self._pace.in_engine -= 1
        for row in self._rows:
            if row.job is job:
                row.job = None
                self._pace.in_engine -= 1

    @torch.inference_mode()
    def _step(self) -> None:
        """One token for every row that has a job; rows of new jobs are first fed the tokens that the cache lacks."""
        fresh = list[int]()
        if self._due():
            fresh = [self._admit(job) for job in self._waiting]
            self._waiting = []
        twins = self._twins(fresh)
        working = [index for index, row in enumerate(self._rows) if row.job]
        if not working:
            return
        draws = self._draws(working)
        feeding = [index for index in working if index not in twins]
        hidden = torch.cat([self._forward(chunk) for chunk in self._chunks(feeding)])
        for source in dict.fromkeys(twins.values()):
            targets = [index for index, first in twins.items() if first == source]
            self._cache.copy(source, targets, len(self._job(source).request.ids))
        for index in fresh:
            self._rows[index].fed = self._job(index).request.ids
        if twins:
            place = {index: at for at, index in enumerate(feeding)}
            hidden = hidden[[place[twins.get(index, index)] for index in working]]
        self._book(working, *self._draw(draws, self._logits(hidden)))

    def _due(self) -> bool:
        """Whether the turns that wait begin now: where the pass is patient, if they are an eighth of those that decode,
        or have waited long enough."""
        decoding = sum(row.job is not None for row in self._rows)
        self._waited = self._waited + 1 if self._waiting else 0
        if self._waited <= self._patience and TOGETHER * len(self._waiting) < decoding:
            return False
        self._waited = 0
        return True

    def _admit(self, job: _Job) -> int:
        """The row of the job's episode, cut back to what still agrees with the request's context."""
        index = self._find(job.request.episode)
        if index is None:
            if len(self._rows) == self.concurrency:
                raise PolicyError(f"more than {self.concurrency} episodes at once; raise policy.concurrency")
            index = self._new_row(job.request)
        row, ids = self._rows[index], job.request.ids
        n = min(len(row.fed), len(ids) - 1)
        differs = np.flatnonzero(row.fed[:n] != ids[:n])
        row.fed = row.fed[: differs[0] if len(differs) else n]
        row.job = job
        self._cache.reserve(len(ids) + job.request.max_tokens)
        return index

    def _new_row(self, request: Request) -> int:
        """A row for an episode that has none, with what the memory knows of its context."""
        row, index = _CacheRow(request.episode), len(self._rows)
        if self._memory is not None:
            self._cache.reserve(len(request.ids))
            row.fed = self._memory.recall(self._cache, index, request.ids)
        self._rows.append(row)
        return index

    def _twins(self, fresh: Sequence[int]) -> dict[int, int]:
        """Rows that start with the same prompt as another one, which is fed for both: {row: that other}."""
        firsts: dict[bytes, int] = {}
        twins: dict[int, int] = {}
        for index in fresh:
            if len(self._rows[index].fed) == 0:
                first = firsts.setdefault(self._job(index).request.ids.tobytes(), index)
                if first != index:
                    twins[index] = first
        return twins

    def _chunks(self, indices: Sequence[int]) -> Iterable[list[Feed]]:
        """The tokens that the cache lacks, cut into passes of bounded size."""
        chunk: list[Feed] = []
        n_tokens = 0
        for feed in map(self._feed, indices):
            if chunk and n_tokens + len(feed.ids) > PREFILL_TOKENS:
                yield chunk
                chunk, n_tokens = [], 0
            chunk.append(feed)
            n_tokens += len(feed.ids)
        yield chunk

    def _feed(self, index: int) -> Feed:
        """The tokens that the row's cache lacks: the one sampled last, or those that the turn's context adds."""
        row, job = self._rows[index], self._job(index)
        ids = np.array(job.ids[-1:], np.int32) if job.ids else job.request.ids[len(row.fed) :]
        return Feed(index, row.filled, ids)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return capped(self._head(hidden).float(), self._cap)

    def _book(self, indices: Sequence[int], tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        """Append a token to each row's turn and finish the turns that end with it."""
        for index, token, logprob in zip(indices, tokens, logprobs, strict=True):
            job = self._job(index)
            job.ids.append(token)
            job.logprobs.append(logprob)
            if token in self._chat.ends or len(job.ids) == job.request.max_tokens:
                self._finish(index)

    def _draws(self, indices: Sequence[int]) -> Draws:
        jobs = [self._job(index) for index in indices]
        uniforms = [job.uniforms[len(job.ids)] for job in jobs]
        return Draws.of([job.request.sampling for job in jobs], uniforms, self._device)

    def _draw(self, draws: Draws, logits: torch.Tensor) -> tuple[list[int], list[float]]:
        return draws.tokens(logits)

    def _finish(self, index: int) -> None:
        row, job = self._rows[index], self._job(index)
        row.job = None
        self._pace.in_engine -= 1
        ids = np.asarray(job.ids, np.int32)
        row.fed = np.concatenate([row.fed, ids[:-1]])  # what was sampled last is fed first in the next turn
        if job.result.done():  # the slot was cancelled and has not run since
            return
        job.result.set_result(
            Completion(
                ids_K=ids,
                logprobs_K=np.asarray(job.logprobs, np.float32),
                ended_by=EndedBy.STOP if self._chat.is_ended(ids) else EndedBy.LENGTH,
                policy_version=self.version,
                text=self._chat.decode(ids),
            )
        )

    # --- small lookups ------------------------------------------------------------------------------------------------

    def _find(self, episode: str) -> int | None:
        return next((index for index, row in enumerate(self._rows) if row.episode == episode), None)

    def _job(self, index: int) -> _Job:
        job = self._rows[index].job
        assert job is not None
        return job
