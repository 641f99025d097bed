"""``LocalPolicy``: a Hugging Face model decoded in this process, for a CPU or one GPU.

Continuous batching: each decode step serves whoever is in flight. An episode keeps its cache row over all its turns, so
a turn feeds only what is new; siblings that start from the same prompt share one prefill. Sampling inverts the
cumulative distribution with uniforms derived from the request's seed, so a completion depends on no other randomness.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from turngate.agents.chat import Chat
from turngate.agents.pace import AsReady, FixedOrder, Pace
from turngate.agents.policies.base import Policy, Weights
from turngate.agents.policies.slots import SlotCache
from turngate.errors import PolicyError
from turngate.types import Completion, EndedBy, IntArray, Request

T = TypeVar("T")
PREFILL_TOKENS = 16_384  # most tokens of one prefill pass: bounds its memory


@dataclass(slots=True, eq=False)
class _Row:
    """One episode in the cache. ``fed`` are the ids whose keys and values are stored."""

    episode: str
    fed: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))
    job: _Job | None = None


@dataclass(slots=True, eq=False)
class _Job:
    """One turn being sampled."""

    request: Request
    result: asyncio.Future[Completion]
    uniforms: np.ndarray[Any, np.dtype[np.float64]]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class LocalPolicy(Policy):
    """Samples from ``model`` (a transformers causal language model). ``order``: see ``turngate.agents.pace``."""

    def __init__(self, model: Any, chat: Chat, *, lanes: int = 64, order: str = "fixed") -> None:
        self.lanes, self.version = lanes, 0
        self._model, self._chat = model.eval(), chat
        self._head = model.get_output_embeddings()
        parameter = next(model.parameters())
        self._device = parameter.device
        self._cache = SlotCache(model.config, lanes, device=parameter.device, dtype=parameter.dtype)
        self._pace: Pace = FixedOrder() if order == "fixed" else AsReady()
        self._rows: list[_Row] = []
        self._waiting: list[_Job] = []
        self._engine: asyncio.Task[None] | None = None

    # --- the policy's interface ---------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Completion:
        """Sample one turn. Call it inside ``async with policy.lane()``."""
        if not self._pace.lanes:
            raise RuntimeError("no lane is open, so nothing would be decoded; use 'async with policy.lane()'")
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
        own = dict(self._model.named_parameters())
        if own.keys() != weights.keys():
            raise PolicyError(f"weights do not fit the model: {sorted(own.keys() ^ weights.keys())[:3]} differ")
        for name, parameter in own.items():
            if parameter.shape != weights[name].shape:  # copy_ would broadcast
                shapes = f"{tuple(weights[name].shape)}, the model has {tuple(parameter.shape)}"
                raise PolicyError(f"weights do not fit the model: '{name}' has shape {shapes}")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[name])
        self.version = version

    def release(self, episode: str) -> None:
        """Free the episode's row; the last row moves into its place."""
        index = self._find(episode)
        if index is None:
            return
        last = len(self._rows) - 1
        if index != last:
            self._cache.copy(last, index, len(self._rows[last].fed))
            self._rows[index] = self._rows[last]
        self._rows.pop()

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[None]:
        """A lane is open: the engine runs as long as one is."""
        self._pace.lanes += 1
        if self._engine is None or self._engine.done():
            self._engine = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            self._pace.lanes -= 1
            if not self._pace.lanes:
                await self._engine

    async def outside(self, call: Awaitable[T]) -> T:
        """See ``Pace.outside``."""
        return await self._pace.outside(call)

    # --- the engine ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Decode until no lane is open. A step that fails ends the turns that were in it, typed; nobody hangs."""
        while self._pace.lanes:
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
                failure = PolicyError(f"decoding turn {job.request.turn} of '{job.request.episode}' failed: {error!r}")
                failure.__cause__ = error
                job.result.set_exception(failure)

    def _withdraw(self, job: _Job) -> None:
        """Forget a job whose lane was cancelled."""
        if job in self._waiting:
            self._waiting.remove(job)
            self._pace.in_engine -= 1
        for row in self._rows:
            if row.job is job:
                row.job = None
                self._pace.in_engine -= 1

    @torch.no_grad()
    def _step(self) -> None:
        decoding = [index for index, row in enumerate(self._rows) if row.job]
        if decoding:
            self._decode(decoding)
        if self._waiting:
            admitted = [self._admit(job) for job in self._waiting]
            self._waiting = []
            self._prefill(admitted)

    def _admit(self, job: _Job) -> int:
        """The row of the job's episode, cut back to what still agrees with the request's context."""
        index = self._find(job.request.episode)
        if index is None:
            if len(self._rows) == self.lanes:
                raise PolicyError(f"more than {self.lanes} episodes at once; raise policy.lanes")
            self._rows.append(_Row(job.request.episode))
            index = len(self._rows) - 1
        row, ids = self._rows[index], job.request.ids
        n = min(len(row.fed), len(ids) - 1)
        differs = np.flatnonzero(row.fed[:n] != ids[:n])
        row.fed = row.fed[: differs[0] if len(differs) else n]
        row.job = job
        self._cache.reserve(len(ids) + job.request.max_tokens)
        return index

    def _prefill(self, indices: Sequence[int]) -> None:
        """Feed each admitted row what is new. Rows that start with the same prompt are fed once and copied."""
        firsts: dict[bytes, int] = {}
        twins: list[tuple[int, int]] = []
        feeding: list[int] = []
        for index in indices:
            key = self._job(index).request.ids.tobytes()
            if len(self._rows[index].fed) == 0 and key in firsts:
                twins.append((firsts[key], index))
                continue
            if len(self._rows[index].fed) == 0:
                firsts[key] = index
            feeding.append(index)
        logits: dict[int, torch.Tensor] = {}
        for chunk in self._chunks(feeding):
            logits.update(zip(chunk, self._feed(chunk), strict=True))
        for source, target in twins:
            self._rows[target].fed = self._rows[source].fed
            self._cache.copy(source, target, len(self._rows[source].fed))
            logits[target] = logits[source]
        self._sample(indices, torch.stack([logits[index] for index in indices]))

    def _chunks(self, indices: Sequence[int]) -> Iterable[list[int]]:
        """Rows of similar length together, so that padding and memory stay small."""
        ordered = sorted(indices, key=lambda index: (self._n_new(index), index))
        chunk: list[int] = []
        for index in ordered:
            if chunk and self._n_new(index) * (len(chunk) + 1) > PREFILL_TOKENS:
                yield chunk
                chunk = []
            chunk.append(index)
        if chunk:
            yield chunk

    def _feed(self, indices: list[int]) -> torch.Tensor:
        """Feed the new tokens of some rows; logits [r, vocabulary] after each row's last token."""
        n_new = [self._n_new(index) for index in indices]
        width = max(n_new)
        ids = np.zeros((len(indices), width), np.int64)
        columns = np.full((len(indices), width), self._cache.scratch, np.int64)
        for r, index in enumerate(indices):
            row, start = self._rows[index], len(self._rows[index].fed)
            ids[r, : n_new[r]] = self._job(index).request.ids[start:]
            columns[r, : n_new[r]] = np.arange(start, start + n_new[r])
            row.fed = self._job(index).request.ids
        hidden = self._forward(np.asarray(indices), ids, columns)
        last = torch.as_tensor(n_new, device=self._device) - 1
        return self._logits(hidden[torch.arange(len(indices), device=self._device), last])

    def _decode(self, decoding: list[int]) -> None:
        """One token for every row that samples. Rows whose environment steps ride along into the scratch column."""
        n = decoding[-1] + 1
        ids = np.zeros((n, 1), np.int64)
        columns = np.full((n, 1), self._cache.scratch, np.int64)
        for index in decoding:
            row = self._rows[index]
            ids[index, 0], columns[index, 0] = self._job(index).ids[-1], len(row.fed)
            row.fed = np.append(row.fed, np.int32(ids[index, 0]))
        hidden = self._forward(np.arange(n), ids, columns)
        chosen = torch.as_tensor(decoding, device=self._device)
        self._sample(decoding, self._logits(hidden[chosen, 0]))

    def _forward(self, rows: Any, ids: Any, columns: Any) -> torch.Tensor:
        scratch = self._cache.scratch
        real = np.where(columns == scratch, -1, columns)
        width = int(real.max()) + 1
        columns_t = torch.as_tensor(columns, device=self._device)
        self._cache.aim(torch.as_tensor(rows, device=self._device), columns_t, width)
        # padding attends to column 0, so that no row of the mask is empty (softmax would give NaN)
        reach = torch.as_tensor(np.maximum(real, 0), device=self._device)
        seen = torch.arange(width, device=self._device) <= reach[:, None, :, None]
        output = self._model.base_model(
            input_ids=torch.as_tensor(ids, device=self._device),
            attention_mask=seen,
            position_ids=reach,
            past_key_values=self._cache,
            use_cache=True,
        )
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(hidden).float()
        return logits

    def _sample(self, indices: Sequence[int], logits: torch.Tensor) -> None:
        """Choose a token per row and finish the turns that end with it."""
        tokens, logprobs = self._draw([self._job(index) for index in indices], logits)
        for index, token, logprob in zip(indices, tokens, logprobs, strict=True):
            job = self._job(index)
            job.ids.append(token)
            job.logprobs.append(logprob)
            if token == self._chat.eos_id or len(job.ids) == job.request.max_tokens:
                self._finish(index)

    def _draw(self, jobs: Sequence[_Job], logits: torch.Tensor) -> tuple[list[int], list[float]]:
        """A token and its log-probability for each job, at the job's temperature; temperature 0 takes the likeliest."""
        temperature = torch.tensor([job.request.temperature or 1.0 for job in jobs], device=logits.device)
        logprobs = torch.log_softmax(logits / temperature[:, None], dim=-1)
        uniform = torch.tensor([job.uniforms[len(job.ids)] for job in jobs], device=logits.device)
        cumulative = logprobs.double().exp().cumsum(-1)
        drawn = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
        greedy = torch.tensor([job.request.temperature == 0 for job in jobs], device=logits.device)
        chosen = torch.where(greedy, logits.argmax(-1), drawn.clamp(max=logits.shape[-1] - 1))
        return chosen.tolist(), logprobs.gather(1, chosen[:, None])[:, 0].tolist()

    def _finish(self, index: int) -> None:
        job = self._job(index)
        self._rows[index].job = None
        self._pace.in_engine -= 1
        if job.result.done():  # the lane was cancelled and has not run since
            return
        ids = np.asarray(job.ids, np.int32)
        job.result.set_result(
            Completion(
                ids_K=ids,
                logprobs_K=np.asarray(job.logprobs, np.float32),
                ended_by=EndedBy.STOP if ids[-1] == self._chat.eos_id else EndedBy.LENGTH,
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

    def _n_new(self, index: int) -> int:
        return len(self._job(index).request.ids) - len(self._rows[index].fed)
