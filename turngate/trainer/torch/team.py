"""The processes that ``torchrun`` started for one run: the first works on the run and calls the others.

All of them compute in step: what one of them sends or sums up with the others, all have to. So a process that fails
leaves the others waiting. It says why in the store that ``torchrun`` keeps, and ends; its connections close, and the
others end too.
"""

from __future__ import annotations

import itertools
import pickle
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Never, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.rendezvous import rendezvous

from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError, RunError, TurngateError
from turngate.trainer.torch.place import Place

T = TypeVar("T")
_UNTIL_CALLED = timedelta(days=365)  # how long a process waits for its next call, while episodes are played
_UNWINDING_S = 5.0  # how long the others leave the process that had a problem alone, so that it closes what it opened
_PROBLEM, _COUNT = "turngate/problem", "turngate/problems"  # keys of the store
_team: list[Team] = []  # that of this process, if it has one; torch.distributed is as global


class Team:
    """The processes of a run. ``held`` is what functions that are called keep in this process under a number, ``talk``
    the group in which they exchange everything but tensors on their device."""

    def __init__(self, place: Place, *, timeout_s: float) -> None:
        self.place, self.held = place, dict[int, Any]()
        self.device, backend = _device(place)
        self._store, _, _ = next(rendezvous("env://"))
        limit = timedelta(seconds=timeout_s)
        dist.init_process_group(backend, store=self._store, rank=place.rank, world_size=place.size, timeout=limit)
        self.mesh = init_device_mesh(self.device.type, (place.size,))
        self._calls = dist.new_group(backend="gloo", timeout=_UNTIL_CALLED)
        self.talk = dist.new_group(backend="gloo", timeout=limit)
        self._numbers, self._forgotten = itertools.count(), list[int]()
        self._models: weakref.WeakKeyDictionary[LanguageModel, int] = weakref.WeakKeyDictionary()
        self.is_over = False

    # --- the first process --------------------------------------------------------------------------------------------

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

        Only the first process calls. Raises what any of them raised, RunError if one has ended or does not answer
        within the timeout, ConfigError for arguments that cannot be sent. After an error there are no more calls.
        """
        if self.is_over:
            raise RunError("the processes of this run have ended after an error; start the run again")
        forgotten = self._forgotten[:]
        messages = [_sent(function, one, forgotten) for one in arguments[1:]]
        del self._forgotten[: len(forgotten)]
        self._forget(forgotten)
        try:
            dist.scatter_object_list([None], [b"", *messages], src=0, group=self._calls)
            results: list[Any] = [None] * self.place.size
            dist.gather_object(function(self, *arguments[0]), results, dst=0, group=self.talk)
        except BaseException as error:
            self.is_over = True
            raise self._cause(error) from error
        return results

    def dismiss(self) -> None:
        """Let the other processes end. After an error they have ended or are about to."""
        if not self.is_over:
            self.is_over = True
            dist.scatter_object_list([None], [b""] * self.place.size, src=0, group=self._calls)
            dist.destroy_process_group()

    # --- the others ---------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Do what the first process calls until it needs no more. Raises what a called function raised."""
        try:
            while message := self._next():
                function, arguments, forgotten = pickle.loads(message)
                self._forget(forgotten)
                dist.gather_object(function(self, *arguments), None, dst=0, group=self.talk)
        except Exception as error:
            self._fail(error)
        dist.destroy_process_group()

    def _next(self) -> bytes:
        heard: list[Any] = [None]
        dist.scatter_object_list(heard, None, src=0, group=self._calls)
        return bytes(heard[0])

    # --- all ----------------------------------------------------------------------------------------------------------

    def _forget(self, numbers: Sequence[int]) -> None:
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

    def _cause(self, error: BaseException) -> BaseException:
        """What to raise for ``error``: the problem of another process where the error is that this one lost it."""
        loss = next((one for one in (error, error.__context__) if _is_loss(one)), None)
        if loss is None and not isinstance(error, Exception):
            return error  # a signal that was sent to the whole run
        own = error if loss is None else _lost(self.place, loss)
        first = self._written(own)
        return own if first is None or loss is None else first

    def _fail(self, error: Exception) -> Never:
        """End this process: with the error, or silently if another one had a problem first."""
        told = _lost(self.place, error) if _is_loss(error) else _of(self.place, error)
        if self._written(told) is not None:
            time.sleep(_UNWINDING_S)
            sys.exit(1)
        raise told from error

    def _written(self, problem: BaseException) -> TurngateError | None:
        """Write down why the run ends, for every process to read. Returns the problem that was there before."""
        with suppress(Exception):  # no store: torchrun has ended, and no process is left to tell
            if self._store.add(_COUNT, 1) > 1:
                return self.problem(wait=True)
            told = problem if isinstance(problem, TurngateError) else RunError(repr(problem))
            self._store.set(_PROBLEM, pickle.dumps(told))
        return None

    def problem(self, *, wait: bool = False) -> TurngateError | None:
        """Why the run ends, as the first process wrote that had a problem; None if none had."""
        with suppress(Exception):
            if wait or self._store.check([_PROBLEM]):
                problem: TurngateError = pickle.loads(self._store.get(_PROBLEM))
                return problem
        return None


@contextmanager
def leading(place: Place, *, timeout_s: float) -> Iterator[None]:
    """The first process: in the block learners can be opened that compute in all of them."""
    team = Team(place, timeout_s=timeout_s)
    _team.append(team)
    try:
        yield
    except Exception:
        raise
    except BaseException as stop:  # when a process fails, torchrun sends the others a signal
        if (problem := team.problem()) is not None:
            raise problem from stop
        raise
    finally:
        _team.clear()
        team.dismiss()


def follow(place: Place, *, timeout_s: float) -> None:
    """Any other process: take part in what learners compute until the first process needs no more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # it has nothing to close, and often waits where no handler is called
    Team(place, timeout_s=timeout_s).serve()


def current() -> Team | None:
    """The team that this process leads; None outside of ``leading``."""
    return _team[0] if _team else None


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


def _sent(function: Callable[..., object], arguments: tuple[object, ...], forgotten: list[int]) -> bytes:
    try:
        return pickle.dumps((function, arguments, forgotten))
    except Exception as error:  # pickle raises whatever the object's own hooks raise
        raise ConfigError(
            f"the learner's other processes cannot be sent what they need ({error}); define losses and models of your "
            "own at the top level of a module"
        ) from error


def _is_loss(error: BaseException | None) -> bool:
    """Whether the error is about the connection to other processes."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def _lost(place: Place, error: BaseException) -> RunError:
    reason = str(error).strip().partition("\n")[0]
    return RunError(
        f"{place.words} lost the others: one of them has ended, or took longer than learner.timeout_s ({reason})"
    )


def _of(place: Place, error: Exception) -> TurngateError:
    """The error of a process that is not the first, as all of them report it."""
    if isinstance(error, TurngateError):
        error.args = (f"{place.words}: {error}",)
        return error
    return RunError(f"{place.words} failed: {type(error).__name__}: {error}")
