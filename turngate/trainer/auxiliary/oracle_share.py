"""A constant share of the oracle's episodes, imitated beside the policy's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
    demonstrated,
    row_of,
)
from turngate.trainer.guidance.base import Need
from turngate.types import ScoredGroup, derive_seed


class OracleDemonstrations(WeightedAuxiliaryPart):
    """Imitates the oracle on some tasks of every step, whatever the policy did there.

    ``weight`` times the mean cross-entropy per token is added to the policy's loss. Each step draws other tasks.
    """

    type: Literal["demonstrations"] = "demonstrations"
    needs: ClassVar[frozenset[Need]] = frozenset({"solutions"})
    share: float = Field(0.1, gt=0, le=1)
    """Demonstrations per episode that was played; at least one, at most one for each task of the step."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return OracleShare(self, means)


class OracleShare(AuxiliarySource):
    """Plays the oracle's solutions of some tasks."""

    def __init__(self, part: OracleDemonstrations, means: AuxiliaryContext) -> None:
        self._part, self._means = part, means

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        seed = derive_seed(self._means.seed, "demonstrations", step)
        n = max(1, round(self._part.share * sum(len(group.trajectories) for group in groups)))
        chosen = np.random.default_rng(seed).permutation(len(groups))[:n]
        shown = await demonstrated(self._means, [groups[place].task for place in sorted(chosen)], seed=seed)
        return AuxiliaryRows(rows=[row_of(one) for one in shown], weight=self._part.weight)
