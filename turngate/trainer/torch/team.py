"""The processes that compute together for the learners of a run, and how the run calls them.

All of them compute in step: what one of them sends or sums up with the others, all have to. So a process that fails
leaves the others waiting, and the process that calls them ends them all. ``torchrun_ranks`` and ``ray_ranks`` start
them.
"""

from __future__ import annotations

import itertools
import pickle
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]
from torch.distributed.device_mesh import init_device_mesh

from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError, RunError, TurngateError
from turngate.trainer.torch.place import Place

T = TypeVar("T")
Filling = Callable[[str, torch.Tensor], torch.Tensor]
"""What to put in the place of a weight, a buffer, or a part of one, of a given name."""
_ranks: list[Ranks] = []  # those that this process calls, if there are any; torch.distributed is as global


class Team:
    """One of the processes, as it knows the others. ``held`` is what functions that are called keep in this process
    under a number, ``talk`` the group in which they exchange everything but tensors on their device."""

    def __init__(self, place: Place, store: Store, *, timeout_s: float) -> None:
        """Called in all of them at once; ``store``: one that all of them reach."""
        self.place, self.held = place, dict[int, Any]()
        self.device, backend = _device(place)
        limit = timedelta(seconds=timeout_s)
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=limit)
        self.mesh = init_device_mesh(self.device.type, (place.size,))
        self.talk = dist.new_group(backend="gloo", timeout=limit)

    def forget(self, numbers: Sequence[int]) -> None:
        """Drop what is held under these numbers."""
        for number in numbers:
            self.held.pop(number, None)

    def most(self, number: int) -> int:
        """The largest ``number`` of any process."""
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.talk)
        return int(found)

    def everyones(self, value: T) -> list[T]:
        """What each process passed, in their order."""
        found: list[Any] = [None] * self.place.size
        dist.all_gather_object(found, value, group=self.talk)
        return found


class Handed(Protocol):
    """A model as one process is handed it. ``outline``: one like it, of which only ``filling`` may read the numbers."""

    @property
    def outline(self) -> LanguageModel: ...

    def filling(self, team: Team) -> Filling:
        """The numbers of the model. Called in all processes at once."""


class Ranks(ABC):
    """The processes, ``size`` of them, as the process of the run calls them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._numbers, self._forgotten = itertools.count(), list[int]()
        self._models: weakref.WeakKeyDictionary[LanguageModel, int] = weakref.WeakKeyDictionary()
        self.is_over = False

    def number_for(self, owner: object) -> int:
        """A number for something to be held in every process, which is dropped there after ``owner`` has been freed."""
        number = next(self._numbers)
        weakref.finalize(owner, self._forgotten.append, number)
        return number

    def number_of(self, model: LanguageModel) -> tuple[int, bool]:
        """The number under which the processes hold ``model``, and whether they hold it already."""
        known = model in self._models
        if not known:
            self._models[model] = self.number_for(model)
        return self._models[model], known

    def call(self, function: Callable[..., T], arguments: Sequence[tuple[object, ...]]) -> list[T]:
        """``function(team, *arguments[r])`` in each process r at once; returns the results in that order.

        Raises what any of them raised, RunError if one has ended or does not answer within the timeout, ConfigError for
        arguments that cannot be sent. After an error there are no more calls.
        """
        if self.is_over:
            raise RunError("the processes of this run have ended after an error; start the run again")
        forgotten = self._forgotten[:]
        found = self._called(function, arguments, forgotten)
        del self._forgotten[: len(forgotten)]
        return found

    @abstractmethod
    def first(self, function: Callable[..., T], *arguments: object) -> T:
        """``function(team, *arguments)`` in the first process alone, which must not wait for the others."""

    @abstractmethod
    def handed(self, model: LanguageModel) -> list[Handed]:
        """``model`` as each process is handed it."""

    @abstractmethod
    def _called(
        self, function: Callable[..., T], arguments: Sequence[tuple[object, ...]], forgotten: Sequence[int]
    ) -> list[T]:
        """The results of ``call``, once the processes have dropped what they hold under the numbers ``forgotten``."""


@contextmanager
def calling(ranks: Ranks) -> Iterator[None]:
    """In the block learners can be opened that compute in all of these processes."""
    _ranks.append(ranks)
    try:
        yield
    finally:
        _ranks.clear()


def current() -> Ranks | None:
    """The processes that this one calls; None outside of ``calling``."""
    return _ranks[0] if _ranks else None


def call_message(function: Callable[..., object], arguments: tuple[object, ...], forgotten: Sequence[int]) -> bytes:
    """A call as it is sent to another process. Raises ConfigError for arguments that cannot be sent."""
    try:
        return pickle.dumps((function, arguments, forgotten))
    except Exception as error:  # pickle raises whatever the object's own hooks raise
        raise ConfigError(
            f"the learner's other processes cannot be sent what they need ({error}); define losses and models of your "
            "own at the top level of a module"
        ) from error


def is_loss(error: BaseException | None) -> bool:
    """Whether the error is about the connection to other processes."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def lost_others(place: Place, error: BaseException) -> RunError:
    """What to raise in a process that lost the others."""
    reason = str(error).strip().partition("\n")[0]
    return RunError(
        f"{place.words} lost the others: one of them has ended, or took longer than learner.timeout_s ({reason})"
    )


def naming_rank(place: Place, error: Exception) -> TurngateError:
    """The error of a process, as it is reported elsewhere."""
    if isinstance(error, TurngateError):
        error.args = (f"{place.words}: {error}",)
        return error
    return RunError(f"{place.words} failed: {type(error).__name__}: {error}")


def _device(place: Place) -> tuple[torch.device, str]:
    """Where this process computes, and by what the processes talk."""
    if not torch.cuda.is_available():
        return torch.device("cpu"), "gloo"
    if place.local_size > torch.cuda.device_count():
        raise ConfigError(
            f"torchrun started {place.local_size} processes on a machine with {torch.cuda.device_count()} GPUs; start "
            "one for each GPU"
        )
    torch.cuda.set_device(place.local)
    return torch.device("cuda", place.local), "cpu:gloo,cuda:nccl"
