"""ReLIFT: demonstrations of the tasks that were never solved, collected until there are enough for an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypedDict, cast

import numpy as np
from pydantic import Field

from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryPart,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    demonstrated,
    row_of,
)
from turngate.trainer.guidance.base import Need
from turngate.trainer.guidance.results import all_failed
from turngate.types import JSON, Metrics, ScoredGroup, derive_seed


class Relift(AuxiliaryPart):
    """Imitates the oracle on tasks that all siblings failed, once enough of them are collected.

    The demonstration of each such task is played and kept if it solves the task. As soon as ``at_least`` are waiting,
    the oldest ``at_least`` of them are imitated in one update of their own after the policy's, and leave the buffer. A
    task waits at most once. 30 new tasks in each step: the first update comes after step 5, and 22 stay.

    Source: ReLIFT, https://arxiv.org/abs/2506.07527, and its code (128 at once, the same learning rate), which has a
    second optimizer and an entropy bonus for this; here both kinds of update share one optimizer.
    """

    type: Literal["relift"] = "relift"
    needs: ClassVar[frozenset[Need]] = frozenset({"solutions"})
    at_least: int = Field(128, ge=1)
    """Number of waiting demonstrations at which an update imitates them."""
    lr_factor: float = Field(1.0, gt=0)
    """Learning rate of that update, as a multiple of learner.lr."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return ReliftBuffer(self, means)


class _Waiting(TypedDict):
    task: str
    ids: list[int]
    trained: list[bool]


class ReliftBuffer(AuxiliarySource):
    """The demonstrations that are waiting."""

    def __init__(self, part: Relift, means: AuxiliaryContext) -> None:
        self._part, self._means = part, means
        self._waiting: list[_Waiting] = []

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        known = {one["task"] for one in self._waiting}
        failed = [group.task for group in groups if all_failed(group) and group.task.id not in known]
        for one in await demonstrated(self._means, failed, seed=derive_seed(self._means.seed, "relift", step)):
            row = row_of(one)
            self._waiting.append({"task": one.task.id, "ids": row.ids.tolist(), "trained": row.trained.tolist()})
        n = self._part.at_least
        if len(self._waiting) < n:
            return None
        taken, self._waiting = self._waiting[:n], self._waiting[n:]
        rows = [
            AuxiliaryRow(ids=np.array(one["ids"], np.int32), trained=np.array(one["trained"], bool)) for one in taken
        ]
        return AuxiliaryRows(rows=rows, lr_factor=self._part.lr_factor)

    def metrics(self) -> Metrics:
        """How many are waiting."""
        return {"waiting": float(len(self._waiting))}

    def state(self) -> JSON:
        """Those that are waiting, oldest first."""
        return {"waiting": cast(JSON, self._waiting)}

    def load(self, state: JSON) -> None:
        self._waiting = list(cast(Mapping[str, Sequence[_Waiting]], state)["waiting"])
