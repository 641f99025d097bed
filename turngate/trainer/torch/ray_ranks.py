"""The processes of a learner in a Ray cluster: Ray places them, the process of the run calls them and has no part.

What they send each other goes through torch.distributed, as with ``torchrun``. A process that fails or dies leaves the
others waiting, so the end of one is the end of all. What the run can go on from is its last checkpoint.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.tensor import DTensor, distribute_tensor

from turngate.agents.protocols import LanguageModel
from turngate.cluster.placement import SIGNS
from turngate.cluster.ray_connection import cause_of
from turngate.errors import ConfigError, ProcessLost, TurngateError
from turngate.trainer.torch import fsdp_functions
from turngate.trainer.torch.model_parts import skeleton, tensors_of
from turngate.trainer.torch.place import Place
from turngate.trainer.torch.team import (
    Filling,
    Handed,
    Ranks,
    Team,
    call_message,
    calling,
    is_loss,
    lost_others,
    naming_rank,
)

if TYPE_CHECKING:
    from ray import ObjectRef

    from turngate.cluster.placement import Actor

    _Call: TypeAlias = ObjectRef["_RankAnswer"]

T = TypeVar("T")
PING_S = 10.0
"""How long answers are waited for before the processes are asked for a sign of life."""
CAUSE_S = 10.0
"""How long the others may take to say more, where one of them only says that it lost another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RankAnswer:
    """What a process returns. ``error``: None if it did as it was told; ``lost``: whether the error is about the
    others. ``warnings``: logger, level and text of what it logged meanwhile."""

    result: Any = None
    error: TurngateError | None = None
    lost: bool = False
    warnings: list[tuple[str, int, str]]


class RankProcess:
    """One of the processes. The class of an actor, so that each of its methods is a remote call."""

    def __init__(self, rank: int, size: int) -> None:
        self._place = Place(rank=rank, size=size, local=0, local_size=1)  # Ray shows it the GPU that it reserved
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}  # as torchrun does, for code of users
        self._logged = _Logged()
        self._store: Store

    def begin(self, folder: str, timeout_s: float) -> tuple[str, str, int]:
        """Enter ``folder``, where the run was started; returns what is wrong, as text that names this node, and the
        host and port of the store that the first process opens for all."""
        import ray

        self._timeout_s, host = timeout_s, str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        try:
            os.chdir(folder)
            fsdp_functions.check()
        except (OSError, ConfigError) as error:
            return f"node {socket.gethostname()}: {error}", host, 0
        sys.path.append(folder)  # modules beside the config
        if self._place.rank:
            return "", host, 0
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        self._store = store
        return "", host, store.port

    def join(self, host: str, port: int) -> None:
        """Connect with the other processes. Called in all of them at once."""
        if self._place.rank:
            self._store = TCPStore(host, port, is_master=False)
        self._team = Team(self._place, self._store, timeout_s=self._timeout_s)
        logging.getLogger("turngate").addHandler(self._logged)

    def ping(self) -> None:
        """Answer, as a sign of life."""

    def take(self, number: int, tensors: Mapping[str, ObjectRef[torch.Tensor]]) -> None:
        """Hold the tensors of a model, which are in Ray's store, under a number."""
        self._team.held[number] = tensors

    def call(self, message: bytes) -> _RankAnswer:
        """Do what ``call_message`` describes."""
        self._logged.rows = rows = list[tuple[str, int, str]]()
        try:
            function, arguments, forgotten = pickle.loads(message)
            self._team.forget(forgotten)
            result = function(self._team, *arguments)
        except Exception as error:
            lost = is_loss(error)
            told = lost_others(self._place, error) if lost else naming_rank(self._place, error)
            return _RankAnswer(error=told, lost=lost, warnings=rows)
        return _RankAnswer(result=result.cpu() if isinstance(result, torch.Tensor) else result, warnings=rows)


class _Logged(logging.Handler):
    """Keeps warnings, for the process of the run to show."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.rows: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.rows.append((record.name, record.levelno, record.getMessage()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FromStore:
    """A model whose tensors are in Ray's store: each process takes its part of one after the other, and none has the
    whole model."""

    outline: LanguageModel
    number: int

    def filling(self, team: Team) -> Filling:
        import ray

        stored: Mapping[str, ObjectRef[torch.Tensor]] = team.held.pop(self.number)

        def part_of(name: str, tensor: torch.Tensor) -> torch.Tensor:
            whole = ray.get(stored[name]).to(team.device)
            if isinstance(tensor, DTensor):
                part = distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
                return part.clone()  # else a view, which would keep the whole tensor
            return whole.clone()

        return part_of


class RayRanks(Ranks):
    """The processes ``processes``, which ``RankProcess`` are. ``timeout_s``: the longest time that they wait for each
    other, and without a sign of life."""

    def __init__(self, processes: Sequence[Actor], *, timeout_s: float) -> None:
        super().__init__(len(processes))
        self._processes, self._timeout_s = processes, timeout_s

    def connect(self) -> None:
        """Have the processes find each other. Raises ConfigError where one of them cannot."""
        import ray

        try:
            begun = [one.begin.remote(os.getcwd(), self._timeout_s) for one in self._processes]
            found: list[tuple[str, str, int]] = ray.get(begun, timeout=self._timeout_s)
            if problem := next((problem for problem, _, _ in found if problem), ""):
                raise ConfigError(f"cluster: {problem}")
            _, host, port = found[0]
            ray.get([one.join.remote(host, port) for one in self._processes], timeout=self._timeout_s)
        except ray.exceptions.RayError as error:
            raise ConfigError(f"cluster: the processes of the learner cannot connect: {cause_of(error)}") from error

    def first(self, function: Callable[..., T], *arguments: object) -> T:
        found: T = self._answered(self._processes[:1], [call_message(function, arguments, ())])[0]
        return found

    def handed(self, model: LanguageModel) -> list[Handed]:
        import ray

        number = next(self._numbers)
        stored = {name: ray.put(tensor.detach().cpu()) for name, tensor in tensors_of(model)}
        try:
            ray.get([one.take.remote(number, stored) for one in self._processes], timeout=self._timeout_s)
        except ray.exceptions.RayError as error:
            self.is_over = True
            raise ProcessLost(f"a process of the learner was lost: {cause_of(error)}") from error
        return [FromStore(outline=skeleton(model), number=number)] * self.size

    def _called(
        self, function: Callable[..., T], arguments: Sequence[tuple[object, ...]], forgotten: Sequence[int]
    ) -> list[T]:
        return self._answered(self._processes, [call_message(function, one, forgotten) for one in arguments])

    def _answered(self, processes: Sequence[Actor], messages: Sequence[bytes]) -> list[Any]:
        """The results of calls that work together. Raises the error of the first that fails; after it there are no more
        calls."""
        try:
            calls = [one.call.remote(message) for one, message in zip(processes, messages, strict=True)]
            answers = dict(self._arriving(calls))
        except BaseException:
            self.is_over = True
            raise
        for name, level, text in answers[0].warnings:
            logging.getLogger(name).log(level, text)
        return [answers[rank].result for rank in range(len(calls))]

    def _arriving(self, calls: Sequence[_Call]) -> Iterator[tuple[int, _RankAnswer]]:
        """Answers with their ranks, as they come."""
        import ray

        left, until = list(calls), float("inf")
        while left:
            ready, left = ray.wait(left, timeout=PING_S)
            if not ready:
                self._need_signs()
            elif until == float("inf"):
                until = time.monotonic() + self._timeout_s
            for call in ready:
                answer = self._read(calls.index(call), call)
                if answer.error is not None:
                    raise self._told(answer, calls, left)
                yield calls.index(call), answer
            if left and time.monotonic() > until:
                raise self._lost(calls.index(left[0]), f"is not done {self._timeout_s:g} s after another")

    def _told(self, answer: _RankAnswer, calls: Sequence[_Call], left: Sequence[_Call]) -> Exception:
        """The error of a process, or that of another one which is its cause."""
        import ray

        assert answer.error is not None
        if not answer.lost:
            return answer.error
        others: list[Any] = list(left)
        ready, _ = ray.wait(others, num_returns=len(others), timeout=CAUSE_S) if others else ([], [])
        for call in ready:
            other = self._read(calls.index(call), call)
            if other.error is not None and not other.lost:
                return other.error
        return ProcessLost(str(answer.error))

    def _read(self, rank: int, call: _Call) -> _RankAnswer:
        import ray

        try:
            answer: _RankAnswer = ray.get(call)
        except ray.exceptions.RayError as error:
            raise self._lost(rank, f"was lost: {cause_of(error)}") from error
        return answer

    def _need_signs(self) -> None:
        """Raise ProcessLost where a process gives no sign of life."""
        import ray

        pings: list[Any] = [one.ping.options(concurrency_group=SIGNS).remote() for one in self._processes]
        _, silent = ray.wait(pings, num_returns=len(pings), timeout=self._timeout_s)
        if silent:
            raise self._lost(pings.index(silent[0]), f"gave no sign of life for {self._timeout_s:g} s")

    def _lost(self, rank: int, how: str) -> ProcessLost:
        return ProcessLost(f"rank {rank} of {self.size} {how}")


@contextmanager
def leading(processes: Sequence[Actor], *, timeout_s: float) -> Iterator[None]:
    """In the block learners can be opened that compute in these processes. Raises ConfigError as ``connect``."""
    ranks = RayRanks(processes, timeout_s=timeout_s)
    ranks.connect()
    with calling(ranks):
        yield
