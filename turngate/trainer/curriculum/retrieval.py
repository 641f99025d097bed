"""UR²: documents are offered only for questions that the policy seldom answers without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.envs.search.loaders.closed_book import closed_book, is_search
from turngate.errors import ConfigError
from turngate.trainer.curriculum.base import Places, Supply
from turngate.trainer.curriculum.choosing import PoolCurriculum, PoolPart
from turngate.types import Metrics, Score, Task


class Ur2Part(PoolPart):
    """UR²: a question of ``turngate/Search-v1`` is first asked without any documents. Search is offered where the
    policy seldom answers it so; the tasks themselves are drawn uniformly. Evaluation always offers search.

    Source: https://arxiv.org/abs/2508.06165, where difficulty is measured once, before training; here it is followed
    while the policy learns: results fade (``half_life``), so every question is asked again without documents.
    """

    type: Literal["ur2"] = "ur2"
    at_most: float = Field(0.25, ge=0, lt=0.5)
    """Pass rate without documents up to which search is offered. A question that was not asked so lately has 0.5."""

    def open(self, supply: Supply) -> Ur2:
        return Ur2(self, supply)


class Ur2(PoolCurriculum):
    """Draws places uniformly; a task comes without documents unless its pass rate without them is at most ``at_most``.

    The pass rate counts unaided episodes without documents alone, so the results with documents, which are better,
    never take the documents away. Raises ConfigError for tasks that have no documents.
    """

    def __init__(self, part: Ur2Part, supply: Supply) -> None:
        super().__init__(part, supply)
        self._at_most = part.at_most
        for pool in self.pools:
            if not is_search(pool.task(0)):
                raise ConfigError(
                    f"curriculum 'ur2' withholds documents, and the tasks of '{pool.label}' have none; it fits "
                    "turngate/Search-v1 alone"
                )
        self._offered: dict[int, bool] = {}  # place → whether search is offered, of the step that was picked last

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """Some of the free places."""
        return rng.permutation(free_P)[:n]

    def pick(self, step: int) -> list[Task]:
        """The tasks of one step, some of them without documents."""
        self._offered = {}
        return super().pick(step)

    def task(self, place: int) -> Task:
        """The task at a place, with its documents or without."""
        offered = self._offered[place] = bool(self.rates.means(self.step)[place] <= self._at_most)
        task = super().task(place)
        return task if offered else closed_book(task)

    def learn(self, results: Mapping[int, Sequence[Score]]) -> None:
        """Count the episodes without documents."""
        super().learn({place: scores for place, scores in results.items() if not self._offered[place]})

    def own_metrics(self) -> Metrics:
        """The share of the tasks of the step for which search was offered."""
        return {"curriculum/retrieval_share": float(np.mean(list(self._offered.values())))}
