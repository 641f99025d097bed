"""DUMP: which kinds of task to play, as a bandit whose arms are the sources of tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, StoreError
from turngate.trainer.curriculum.base import Numbers, Places, Supply
from turngate.trainer.curriculum.choosing import PoolCurriculum, PoolPart, draw_places
from turngate.trainer.curriculum.pass_rates import restored
from turngate.types import JSON, Metrics, Score, Task, derive_seed


def bonus(n_D: Numbers) -> Numbers:
    """``√(2·ln(N + 1)/(n + 1))`` for a source that was sampled n of N times: the less it was, the larger."""
    bonus_D: Numbers = np.sqrt(2 * np.log(n_D.sum() + 1) / (n_D + 1))
    return bonus_D


def source_weights(learned_D: Numbers, n_D: Numbers, prior_D: Numbers, temperature: float) -> Numbers:
    """``w ∝ prior·exp((L + bonus)/τ)``: how often each source is drawn, float64[D] with sum 1.

    L is the mean absolute advantage of the latest samples of a source, 0 for one without any. Source: DUMP,
    https://arxiv.org/abs/2504.09710, where all priors are equal. Adding a constant to every L changes nothing.
    """
    logit_D = (learned_D + bonus(n_D)) / temperature + np.log(prior_D)
    weight_D: Numbers = np.exp(logit_D - logit_D.max())
    weight_D /= weight_D.sum()
    return weight_D


def absolute_advantages(paid_B: Numbers) -> Numbers:
    """``|R − mean|/std`` of siblings (std of a sample), by which GRPO would train them; 0 where all were paid alike."""
    std = float(np.std(paid_B, ddof=1)) if len(paid_B) > 1 else 0.0
    return np.abs(paid_B - paid_B.mean()) / std if std > 1e-6 else np.zeros(len(paid_B))


class DumpPart(PoolPart):
    """DUMP: draws from each source of tasks by how much it taught lately, and how seldom it was tried.

    A source is an environment, or one kind of task in it (``by``). https://arxiv.org/abs/2504.09710.
    """

    type: Literal["dump"] = "dump"
    by: str = ""
    """Name of the entry of ``Task.private`` that says of which kind a task is, for instance "level" (Sql-v1). Empty:
    every environment is one source."""
    window: int = Field(300, ge=1)
    """Number of the latest episodes of a source over which the mean is taken."""
    temperature: float = Field(0.1, gt=0)
    """How evenly sources are drawn: small values nearly always take the best one."""

    def open(self, supply: Supply) -> Dump:
        return Dump(self, supply)


class Dump(PoolCurriculum):
    """Draws places by the weight of their source, and evenly within it.

    The weights of the environments are the prior of their sources: with equal ones it is the paper's rule. Which
    source a task belongs to is looked up for the whole pool. Raises ConfigError where there is one source only, where a
    task has no entry ``by``, and for an entry that is neither text nor a whole number.
    """

    def __init__(self, part: DumpPart, supply: Supply) -> None:
        super().__init__(part, supply)
        self._by, self._temperature = part.by, part.temperature
        if not part.by and len(self.pools) == 1:
            raise ConfigError(
                "curriculum: 'dump' has one source of tasks, so there is nothing to choose; name what tells tasks "
                'apart, for instance curriculum.by = "level", or train on several environments'
            )
        self._latest: dict[str, deque[float]] = {name: deque(maxlen=part.window) for name in self.sources}
        self._n = dict.fromkeys(self.sources, 0)

    @cached_property
    def sources(self) -> dict[str, float]:
        """The names of the sources, with their priors, in the order of the pool."""
        return {name: self.pools[self.owner(place)].weight for place, name in enumerate(self._names)}

    @cached_property
    def _names(self) -> list[str]:
        """The source of each place."""
        labels = [self.pools[self.owner(place)].label for place in range(self.size)]
        if not self._by:
            return labels
        names = [f"{label}:{self._kind(self.task(place))}" for place, label in enumerate(labels)]
        if len(set(names)) == 1:
            raise ConfigError(f"curriculum.by: all tasks have the same '{self._by}', so there is nothing to choose")
        return names

    @cached_property
    def _source_P(self) -> Places:
        numbers = {name: number for number, name in enumerate(self.sources)}
        return np.array([numbers[name] for name in self._names], np.int64)

    def weights(self) -> Numbers:
        """How often each source is drawn, in the order of ``sources``."""
        learned_D = np.array([np.mean(latest) if latest else 0.0 for latest in self._latest.values()])
        n_D = np.array(list(self._n.values()), np.float64)
        return source_weights(learned_D, n_D, np.array(list(self.sources.values())), self._temperature)

    def places(self, n: int) -> list[int]:
        """``n`` places by the weights of their sources, whatever environment they belong to."""
        rng = np.random.default_rng(derive_seed(self.supply.seed, "curriculum", self.step, self.n_taken))
        free_P = np.concatenate([self.free(number) for number in range(len(self.pools))])
        return [int(place) for place in self.choose(free_P, n, rng)]

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """Some of the free places."""
        source_P = self._source_P[free_P]
        each_D = np.bincount(source_P, minlength=len(self.sources))
        with np.errstate(divide="ignore"):
            log_D = np.log(self.weights()) - np.log(each_D)
        return free_P[draw_places(log_D[source_P], n, rng)]

    def learn(self, results: Mapping[int, Sequence[Score]]) -> None:
        """Keep the absolute advantage of every episode with its source too."""
        super().learn(results)
        for place, scores in results.items():
            name = self._names[place]
            found = absolute_advantages(np.array([score.compared.total for score in scores]))
            self._latest[name].extend(found.tolist())
            self._n[name] += len(found)

    def own_metrics(self) -> Metrics:
        """The weight of each source."""
        return {
            f"curriculum/weight/{name}": float(weight)
            for name, weight in zip(self.sources, self.weights(), strict=True)
        }

    def state(self) -> dict[str, JSON]:
        """The latest advantages and the counts too."""
        own: dict[str, JSON] = {
            "sources": list(self.sources),
            "n": list(self._n.values()),
            "n_latest": [len(latest) for latest in self._latest.values()],
            "latest": [value for latest in self._latest.values() for value in latest],
        }
        return super().state() | own

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Take back what ``state`` gave. Raises StoreError for other sources."""
        super().restore(state)
        if state["sources"] != list(self.sources):
            raise StoreError("the checkpoint's curriculum has other sources of tasks than this run")
        ends = np.cumsum(restored(state["n_latest"], self._n).astype(np.int64))
        latest = np.split(restored(state["latest"], range(ends[-1])), ends[:-1])
        n_D = restored(state["n"], self._n).astype(np.int64)
        for name, own, n in zip(self.sources, latest, n_D.tolist(), strict=True):
            self._latest[name].extend(own.tolist())
            self._n[name] = n

    def _kind(self, task: Task) -> str | int:
        kind = task.private.get(self._by)
        if isinstance(kind, str | int):
            return kind
        if self._by not in task.private:
            raise ConfigError(
                f"curriculum.by: task '{task.id}' has no '{self._by}'; it has {', '.join(sorted(task.private))}"
            )
        raise ConfigError(
            f"curriculum.by: '{self._by}' of task '{task.id}' is {kind!r:.80}, which is neither text nor a whole "
            "number; name another entry"
        )
