"""Decode steps as captured graphs, for a GPU.

A decode step feeds one token to each row. Through a model's modules that is hundreds of small operations, and a GPU is
done with each of them before the host has launched the next one. Here the step is a function of fixed memory: ids,
columns and order of the rows lie in one tensor, keys and values in the cache, and the number of rows and the width that
attention reads come from few sizes (``Bucket``). The first step of each size is recorded as a CUDA graph; every later
one is a copy of a few numbers and one launch. Rows that do not take part are padding: they write to the cache's scratch
column and see column 0.

The recorded step is ``HubForward.states``, the model's own ``forward``, or for the common dense architectures
``LeanStep``, which has fewer operations and copies no keys and values. Weights are read where they lie, so those
published in place are seen; a cache that grew lies elsewhere, so its graphs are dropped.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from turngate.agents.policies.forward import Feed, Forward, HubForward, cast
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.protocols import LanguageModel, Precision
from turngate.agents.refused_memory import is_out_of_memory
from turngate.agents.rounding import agreement, pass_rounding

log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], torch.Tensor]
"""Computes from fixed memory; its result is overwritten by the next recorded work that is repeated."""
Recorder: TypeAlias = Callable[[Work], Work]
"""Turns work into a function that repeats it with other numbers in its memory. Raises RuntimeError if it cannot."""

NARROWEST = 128
"""Fewest columns that attention of a captured step reads; the cache's capacity is a multiple by a power of two."""
WARM_UP = 2
"""Times that work runs before it is captured, because libraries set themselves up in their first calls."""
_CAPTURING = threading.Lock()


class StaticStep(Protocol):
    """The computation of a decode step, without the host; called, that of any pass."""

    def __call__(self, feeds: Sequence[Feed]) -> torch.Tensor:
        """The state after the last token of each feed, as a ``Forward`` computes it."""

    def states(self, rows: Sequence[int], ids: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
        """See ``HubForward.states``, for rows that follow each other and one token of each."""


class Bucket(NamedTuple):
    """The size of a captured step: the first ``rows`` rows of the cache, of which attention reads ``width`` columns."""

    rows: int
    width: int


def bucket_of(n_rows: int, n_columns: int, slots: int) -> Bucket:
    """The smallest for this many rows, of ``slots`` in all, and columns: powers of two, and all rows."""
    return Bucket(min(_power_of_two(n_rows), slots), max(_power_of_two(n_columns), NARROWEST))


class CapturedForward(Forward):
    """Decode steps through what ``recorder`` makes of ``step``, everything else through ``step`` as it is. Without one,
    the plain pass of ``HubForward`` is the step.

    In a pass of both, rows that feed one token are a captured step, the others a pass beside it. That costs the host as
    much as many steps, whatever is in it, so turns wait for each other (``patience``). The first step of each bucket
    and the first pass beside one are also computed plainly. If the states differ by more than rounding, or the step
    cannot be recorded, that is said in a warning and everything goes through the plain pass from then on. ``problem``:
    why, "" if it does not.
    """

    patience = 8

    def __init__(
        self,
        model: LanguageModel,
        cache: SlotCache,
        recorder: Callable[[torch.device], Recorder] | None = None,
        step: StaticStep | None = None,
    ) -> None:
        super().__init__(model, cache)
        self._plain, self._name = HubForward(model, cache), type(model).__name__
        self._body: StaticStep = step or self._plain
        self._new_recorder = recorder or CudaGraphs
        self._fed = torch.zeros(3 * cache.slots, dtype=torch.long, device=self._device)
        self._config, self._eps = model.config, torch.finfo(self._dtype).eps
        self.problem, self._alike = "", self._body is self._plain
        self._forget()

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Those that are recorded and agreed with the plain pass."""
        return tuple(self._replays)

    def __call__(self, feeds: Sequence[Feed]) -> torch.Tensor:
        if self.problem:
            return self._plain(feeds)
        single = [feed for feed in feeds if len(feed.ids) == 1]
        longer = [feed for feed in feeds if len(feed.ids) > 1]
        if not longer or not single:
            return self._step(single) if single else self._beside(longer)
        last = {feed.row: state for feed, state in zip(single, self._step(single), strict=True)}
        last.update({feed.row: state for feed, state in zip(longer, self._beside(longer), strict=True)})
        return torch.stack([last[feed.row] for feed in feeds])

    def _beside(self, feeds: Sequence[Feed]) -> torch.Tensor:
        """Rows that are fed more than one token. The first time the plain pass comes last, as in ``_first``."""
        states = self._body(feeds)
        if self._alike:
            return states
        plain = self._plain(feeds)
        widest = max(feed.end for feed in feeds)
        difference = self._difference(states, plain, tokens=widest)
        self._alike = difference == ""
        if difference:
            self._give_up(f"with prompts of up to {widest} columns {difference}")
        return plain

    def _step(self, feeds: Sequence[Feed]) -> torch.Tensor:
        if self._cache.capacity != self._capacity:
            self._forget()
        bucket = bucket_of(feeds[-1].row + 1, max(feed.end for feed in feeds), self._cache.slots)
        self._feed(bucket, feeds)
        if bucket not in self._replays:
            return self._first(bucket, feeds)
        return self._replays[bucket]()[: len(feeds)].clone()

    def _forget(self) -> None:
        """Drop what was recorded: it reads and writes where the cache was."""
        self._capacity = self._cache.capacity
        self._replays: dict[Bucket, Work] = {}
        self._recorder = self._new_recorder(self._device)

    def _feed(self, bucket: Bucket, feeds: Sequence[Feed]) -> None:
        """Fill the fixed memory: of each row its id and column, of each feed its row."""
        numbers = np.zeros((3, bucket.rows), np.int64)
        rows = [feed.row for feed in feeds]
        numbers[1] = self._cache.scratch
        numbers[0, rows] = [feed.ids[0] for feed in feeds]
        numbers[1, rows] = [feed.start for feed in feeds]
        numbers[2, : len(feeds)] = rows
        self._fed[: numbers.size].copy_(torch.from_numpy(numbers.reshape(-1)))

    def _first(self, bucket: Bucket, feeds: Sequence[Feed]) -> torch.Tensor:
        """Record the step and compare it with the plain pass, which comes last, so that its keys and values stay.

        Raises what says that memory ran out: that is no reason to do without graphs.
        """

        def work() -> torch.Tensor:
            return decode_step(self._body, self._fed, bucket)

        states, why = None, ""
        try:
            with FixedWork():  # type: ignore[no-untyped-call]
                work()
            replay = self._recorder(work)
            states = replay()[: len(feeds)].clone()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            why = _first_line(error)
        plain = self._plain(feeds)
        if states is not None:
            difference = self._difference(states, plain, tokens=bucket.width)
            if difference is None:
                return plain
            if not difference:
                self._replays[bucket] = replay
            else:
                why = f"with {bucket.rows} rows and {bucket.width} columns {difference}"
        if why:
            self._give_up(why)
        return plain

    def _difference(self, states: torch.Tensor, plain: torch.Tensor, *, tokens: int) -> str | None:
        """How far states are from those of the plain pass; "" if by no more than rounding, None if that cannot be said:
        weights that are no numbers say nothing of a step."""
        apart = float(((states - plain).float().norm(dim=-1) / plain.float().norm(dim=-1)).max())
        if np.isnan(apart):
            return None
        within = agreement(pass_rounding(self._config, self._eps, tokens=tokens))
        return "" if apart <= within else f"a state differs by {apart:.2g} of its norm"

    def _give_up(self, why: str) -> None:
        self.problem = why
        self._forget()
        log.warning(
            "decode steps of %s cannot be captured (%s): each goes through the model's modules", self._name, why
        )


def decode_step(step: StaticStep, fed: torch.Tensor, bucket: Bucket) -> torch.Tensor:
    """States [rows, hidden] in the order of the feeds, for what lies in ``fed`` (``CapturedForward._feed``)."""
    ids, columns, order = fed[: 3 * bucket.rows].view(3, bucket.rows)
    hidden = step.states(range(bucket.rows), ids[:, None], columns[:, None], bucket.width)
    return hidden[:, 0].index_select(0, order)


def capture_problem(outline: LanguageModel, precision: Precision) -> str:
    """Why the decode steps of a model cannot be captured on a GPU; "" if they can, as far as is seen without its
    weights (``tiny.outline``). "auto" is bfloat16, as on most GPUs."""
    model = copy.deepcopy(outline)
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    cast(model, dtype)
    here = next(model.parameters()).device
    forward = HubForward(model, SlotCache(model.config, 1, device=here, dtype=dtype))
    try:
        with torch.inference_mode(), FixedWork():  # type: ignore[no-untyped-call]
            decode_step(forward, torch.zeros(3, dtype=torch.long, device=here), Bucket(1, NARROWEST))
    except RuntimeError as error:
        return _first_line(error)
    return ""


class FixedWork(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises RuntimeError at an operation that a graph cannot hold: one whose shape depends on the numbers, one that
    the host has to wait for, or one of another library, of which nothing is known."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if problem := _problem(func, args, kwargs):
            raise RuntimeError(f"{func} {problem}")
        with self:  # inference mode hands over operations that are made of others, which have to be seen
            parts = func.decompose(*args, **kwargs)
        return func(*args, **kwargs) if parts is NotImplemented else parts


class CudaGraphs:
    """Records work as CUDA graphs that share their memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Work) -> Work:
        with torch.cuda.device(self._device):
            here = torch.cuda.current_stream()
            self._stream.wait_stream(here)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UP):
                    work()
            here.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            # "thread_local", because the learner may ask for memory in a thread of its own meanwhile
            capture = torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local")
            try:
                with _CAPTURING, capture:
                    output = work()
            finally:
                torch.cuda.set_stream(here)  # a capture that fails leaves its own stream behind

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay


def _problem(func: Any, args: Any, kwargs: Any) -> str:
    """Why a graph cannot hold a call of an operation; "" if it can."""
    if func.namespace not in ("aten", "prims"):
        return "is an operation of another library"
    if func.overloadpacket is torch.ops.aten.lift_fresh:
        return "makes a tensor from numbers of the host"
    if func.overloadpacket in _INDEXING:
        masks = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        return "selects by a mask, so its shape depends on the numbers" if masks else ""
    if torch.Tag.dynamic_output_shape in func.tags:
        return "has a result whose shape depends on the numbers"
    if torch.Tag.data_dependent_output in func.tags:
        return "makes the host wait for a number"
    if func.overloadpacket in _COPIES:
        devices = {arg.device.type for arg in args if isinstance(arg, torch.Tensor)}
        if len(devices | ({kwargs["device"].type} if kwargs.get("device") else set())) > 1:
            return "copies from one device to another"
    return ""


_INDEXING = (torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_)
_COPIES = (torch.ops.aten.copy_, torch.ops.aten._to_copy)


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


def _power_of_two(n: int) -> int:
    """The smallest that is at least ``n``."""
    return 1 << (n - 1).bit_length()
