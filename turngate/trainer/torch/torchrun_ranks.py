"""The processes that ``torchrun`` started for one run: the first works on the run and calls the others.

One that fails says why in the store that ``torchrun`` keeps, and ends; its connections close, and the others end too.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Never, TypeVar

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from turngate.agents.protocols import LanguageModel
from turngate.errors import RunError, TurngateError
from turngate.trainer.torch.model_parts import FromFirst, skeleton
from turngate.trainer.torch.place import Place
from turngate.trainer.torch.team import Handed, Ranks, Team, call_message, calling, is_loss, lost_others, naming_rank

T = TypeVar("T")
_UNTIL_CALLED = timedelta(days=365)  # how long a process waits for its next call, while episodes are played
_UNWINDING_S = 5.0  # how long the others leave the process that had a problem alone, so that it closes what it opened
_PROBLEM, _COUNT = "turngate/problem", "turngate/problems"  # keys of the store


class TorchrunRanks(Ranks):
    """The processes that ``torchrun`` started, of which this is one; the first calls, the others ``serve``."""

    def __init__(self, place: Place, *, timeout_s: float) -> None:
        super().__init__(place.size)
        self._store, _, _ = next(rendezvous("env://"))
        self._team = Team(place, self._store, timeout_s=timeout_s)
        self._calls = dist.new_group(backend="gloo", timeout=_UNTIL_CALLED)

    # --- the first process --------------------------------------------------------------------------------------------

    def first(self, function: Callable[..., T], *arguments: object) -> T:
        return function(self._team, *arguments)

    def handed(self, model: LanguageModel) -> list[Handed]:
        return [FromFirst(model), *[FromFirst(skeleton(model))] * (self.size - 1)]

    def _called(
        self, function: Callable[..., T], arguments: Sequence[tuple[object, ...]], forgotten: Sequence[int]
    ) -> list[T]:
        messages = [call_message(function, one, forgotten) for one in arguments[1:]]
        self._team.forget(forgotten)
        try:
            dist.scatter_object_list([None], [b"", *messages], src=0, group=self._calls)
            own = function(self._team, *arguments[0])
            results: list[Any] = [None] * self.size
            dist.gather_object(None, results, dst=0, group=self._team.talk)
        except BaseException as error:
            self.is_over = True
            raise self._cause(error) from error
        return [own, *results[1:]]

    def dismiss(self) -> None:
        """Let the other processes end. After an error they have ended or are about to."""
        if not self.is_over:
            self.is_over = True
            dist.scatter_object_list([None], [b""] * self.size, src=0, group=self._calls)
            dist.destroy_process_group()

    # --- the others ---------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Do what the first process calls until it needs no more. Raises what a called function raised."""
        try:
            while message := self._next():
                function, arguments, forgotten = pickle.loads(message)
                self._team.forget(forgotten)
                dist.gather_object(function(self._team, *arguments), None, dst=0, group=self._team.talk)
        except Exception as error:
            self._fail(error)
        dist.destroy_process_group()

    def _next(self) -> bytes:
        heard: list[Any] = [None]
        dist.scatter_object_list(heard, None, src=0, group=self._calls)
        return bytes(heard[0])

    # --- all ----------------------------------------------------------------------------------------------------------

    def _cause(self, error: BaseException) -> BaseException:
        """What to raise for ``error``: the problem of another process where the error is that this one lost it."""
        loss = next((one for one in (error, error.__context__) if is_loss(one)), None)
        if loss is None and not isinstance(error, Exception):
            return error  # a signal that was sent to the whole run
        own = error if loss is None else lost_others(self._team.place, loss)
        first = self._written(own)
        return own if first is None or loss is None else first

    def _fail(self, error: Exception) -> Never:
        """End this process: with the error, or silently if another one had a problem first."""
        place = self._team.place
        told = lost_others(place, error) if is_loss(error) else naming_rank(place, error)
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
    ranks = TorchrunRanks(place, timeout_s=timeout_s)
    try:
        with calling(ranks):
            yield
    except Exception:
        raise
    except BaseException as stop:  # when a process fails, torchrun sends the others a signal
        if (problem := ranks.problem()) is not None:
            raise problem from stop
        raise
    finally:
        ranks.dismiss()


def follow(place: Place, *, timeout_s: float) -> None:
    """Any other process: take part in what learners compute until the first process needs no more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # it has nothing to close, and often waits where no handler is called
    TorchrunRanks(place, timeout_s=timeout_s).serve()
