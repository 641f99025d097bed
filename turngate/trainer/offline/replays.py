"""How the recorded episodes of a step are chosen beside fresh ones: the part ``episodes.replay``.

A part plans a step before it is played: which tasks are played, which recorded episodes are groups of their own, and
which join the fresh siblings of their task. The plan is a function of the seed, the step, the recorded episodes and,
for ``exgrpo``, the weights; so a resumed run makes the same plans.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, pi, sqrt
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.trainer.offline.episode_index import Recorded
from turngate.trainer.offline.stored import grouped
from turngate.types import derive_seed

if TYPE_CHECKING:
    from turngate.config import Config

SPREAD = 1e-6
"""Payments that differ by no more than this count as equal."""
Strategy: TypeAlias = Literal["highest", "recent", "random", "max_variance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFacts:
    """The input of a plan: the ids of the tasks that were picked for the step, and the recorded episodes, oldest first.
    ``entropies``: mean entropy of the tokens of some of these, in nats, under the present weights."""

    step: int
    tasks: Sequence[str]
    rows: Sequence[Recorded]
    group_size: int
    seed: int
    rng: np.random.Generator
    entropies: Callable[[Sequence[Recorded]], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """``n_tasks``: how many of the picked tasks are played. ``groups``: recorded episodes that are groups of their own.
    ``joined``: those that join the fresh group of a task, by its id. ``again``: further tasks, by their ids, which are
    played with one episode fewer beside the recorded one that joins them."""

    n_tasks: int
    groups: Sequence[Sequence[Recorded]] = ()
    joined: Mapping[str, Sequence[Recorded]] = field(default_factory=dict)
    again: Mapping[str, Recorded] = field(default_factory=dict)


class ReplayPart(Part):
    """Which recorded episodes a step replays. A subclass writes ``plan``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "replay strategy"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.offline",)
    fallback: ClassVar[str] = "remix"
    measures: ClassVar[bool] = False
    """Whether it asks for entropies under the present weights."""
    plays_again: ClassVar[bool] = False
    """Whether it has further tasks played than those that the curriculum picked."""

    joins: ClassVar[bool] = False
    """Whether replayed episodes join fresh ones, which are then compared with them."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for settings of the run under which it cannot measure, or cannot have tasks played."""
        said = _spelled(self)
        if self.measures and config.train.ahead:
            raise ConfigError(
                f"{said} does not go with train.ahead: it measures under the learner's weights, which change while "
                "episodes are played; set train.ahead = 0"
            )
        if self.plays_again and config.guide.type != "none":
            raise ConfigError(
                f"{said} does not go with guide '{config.guide.type}': it has tasks played with one episode fewer, and "
                "the guide plans whole groups; leave one out"
            )

    @abstractmethod
    def plan(self, facts: ReplayFacts) -> StepPlan:
        """The plan of one step; with nothing to replay, ``StepPlan(n_tasks=len(facts.tasks))``."""


def _spelled(part: ReplayPart) -> str:
    return f"episodes.replay '{part.type}'"


def _check_share(part: ReplayPart, share: float, config: Config) -> None:
    """Raise ConfigError where the share of a step is no group, and where neighbouring tasks would be divided by it."""
    n_tasks, said = config.train.tasks_per_step, _spelled(part)
    if not n_replayed(share, n_tasks):
        raise ConfigError(
            f"{said} has no effect: {share:g} of train.tasks_per_step = {n_tasks} is no group; raise one of them"
        )
    if any(env.together > 1 for env in config.env):
        raise ConfigError(f"{said} plays a part of the picked tasks, so env.together = 1 is needed; leave it out")


class Remix(ReplayPart):
    """ReMix: a share of the groups of each step are recorded ones, of the same or of other tasks; the others are fresh.

    Of n groups, ``share``·n (rounded) are recorded ones, drawn without replacement from those whose episodes are not
    all paid alike. Source: https://arxiv.org/abs/2507.06892, which gives no share. Its penalty between two models is
    ``kl_convex``; its reset in the middle of a run is ``train.reset_reference`` with ``until`` at the same step.
    """

    type: Literal["remix"] = "remix"
    share: float = Field(0.4, gt=0, lt=1)
    """Share of the groups of each step that are recorded ones; raise it to play fewer episodes per step."""
    until: int | None = Field(None, ge=1)
    """Last step that replays; later ones learn from fresh episodes alone, as after ReMix's reset. Left out: all do."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a share without effect, and for an ``until`` outside of the steps that can replay."""
        _check_share(self, self.share, config)
        steps, least = config.train.steps, 1 if config.episodes.folders else 2
        if self.until is not None and not least <= self.until < steps:
            raise ConfigError(
                f"{_spelled(self)}: until = {self.until} has no effect with train.steps = {steps}: a first step has "
                "nothing of its own run to replay, and none follows the last; name a step between them, or leave it out"
            )
        super().check_config(config)

    def plan(self, facts: ReplayFacts) -> StepPlan:
        if self.until is not None and facts.step > self.until:
            return StepPlan(n_tasks=len(facts.tasks))
        varied = [rows for rows in grouped(facts.rows, facts.group_size, seed=facts.seed) if _spread(rows) > SPREAD]
        n = min(n_replayed(self.share, len(facts.tasks)), len(varied))
        chosen = sorted(facts.rng.choice(len(varied), n, replace=False)) if n else []
        return StepPlan(n_tasks=len(facts.tasks) - n, groups=[varied[index] for index in chosen])


class Repo(ReplayPart):
    """RePO: beside the fresh group of a task, a second one of earlier episodes of the same task.

    Of each task the last ``cached`` episodes are kept, and from so many on ``k`` of them are replayed. Fresh and
    replayed episodes are compared apart. It needs tasks that come again: a finite split, or a curriculum with a pool.
    Known weakness: the highest ones are all paid alike once a task is solved often, and then teach nothing;
    max_variance does not. Source: the authors' code of https://arxiv.org/abs/2506.09340. There the losses of the two
    groups are added; here all tokens are averaged together.
    """

    type: Literal["repo"] = "repo"
    strategy: Strategy = "highest"
    """Which of the kept episodes are replayed: those that were paid most, the latest, any, or those whose payments
    differ most."""
    k: int = Field(8, ge=2)
    """Episodes of each task that are replayed in a step."""
    cached: int = Field(16, ge=2)
    """Episodes of each task that are kept; replay begins when there are so many."""

    def plan(self, facts: ReplayFacts) -> StepPlan:
        groups = []
        for task, kept in _by_task(facts).items():
            kept = kept[-self.cached :]
            if len(kept) == self.cached and task in facts.tasks:
                rng = np.random.default_rng(derive_seed(facts.seed, task))
                chosen = chosen_of([row.paid for row in kept], min(self.k, len(kept)), self.strategy, rng)
                groups.append([kept[index] for index in chosen])
        return StepPlan(n_tasks=len(facts.tasks), groups=groups)


class Rlep(ReplayPart):
    """RLEP: recorded successes of each task join its fresh episodes, and are compared with them.

    Source: https://arxiv.org/abs/2507.07451, with 16 fresh episodes and 2 successes of a run that has converged
    (``episodes.runs``). The paper takes ratios to the policy at the start of the step, which is ``loss.decoupled``.
    """

    type: Literal["rlep"] = "rlep"
    joins: ClassVar[bool] = True
    k: int = Field(2, ge=1)
    """Successes that join each group; fewer where a task has fewer."""

    def plan(self, facts: ReplayFacts) -> StepPlan:
        solved = {task: [row for row in rows if row.success] for task, rows in _by_task(facts).items()}
        joined = {}
        for task in facts.tasks:
            if known := solved.get(task, []):
                chosen = facts.rng.choice(len(known), min(self.k, len(known)), replace=False)
                joined[task] = [known[index] for index in sorted(chosen)]
        return StepPlan(n_tasks=len(facts.tasks), joined=joined)


class ExGrpo(ReplayPart):
    """ExGRPO: half of the tasks of a step are earlier ones that were solved now and then, each with one recorded
    success among its fresh siblings.

    Tasks are put into buckets by c, the successes among the n episodes of their last step; those with 0 < c < n are
    drawn, a bucket with probability ∝ N(c; n/2, 1) and a task inside it evenly, without replacement. Of the successes
    of a task the one whose tokens have the lowest mean entropy under the present weights joins. It begins after a step
    of which more than ``starts_above`` of the episodes were solved. Source: https://arxiv.org/abs/2510.02245 and its
    code, where replayed tokens weigh ρ/(ρ + 0.1), which is ``loss.replayed = "shaped"``, and advantages are not divided
    by the standard deviation. A task that was solved by all of its last episodes is not drawn.
    """

    type: Literal["exgrpo"] = "exgrpo"
    joins: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    plays_again: ClassVar[bool] = True
    share: float = Field(0.5, gt=0, lt=1)
    """Share of the tasks of each step that are played again beside a recorded success."""
    starts_above: float = Field(0.35, ge=0, lt=1)
    """Replay begins after a step in which more than this share of the episodes were solved."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a share without effect, and what every strategy refuses."""
        _check_share(self, self.share, config)
        super().check_config(config)

    def plan(self, facts: ReplayFacts) -> StepPlan:
        by_step: defaultdict[int, list[bool]] = defaultdict(list)
        for row in facts.rows:
            by_step[row.step].append(row.success)
        if not any(np.mean(solved) > self.starts_above for solved in by_step.values()):
            return StepPlan(n_tasks=len(facts.tasks))
        buckets: defaultdict[int, list[str]] = defaultdict(list)
        by_task = {task: rows for task, rows in _by_task(facts).items() if task not in facts.tasks}
        for task, rows in by_task.items():
            last = [row.success for row in rows if row.step == rows[-1].step]
            if 0 < (solved := sum(last)) < len(last):
                buckets[solved].append(task)
        n = n_replayed(self.share, len(facts.tasks))
        again: dict[str, Recorded] = {}
        for task in draw_tasks(buckets, n, siblings=facts.group_size, rng=facts.rng):
            known = [row for row in by_task[task] if row.success]
            again[task] = known[int(np.argmin(facts.entropies(known)))]
        return StepPlan(n_tasks=len(facts.tasks) - len(again), again=again)


def n_replayed(share: float, n: int) -> int:
    """How many of n groups are recorded ones: ``share``·n, rounded, and at least one less than all."""
    return min(n - 1, round(share * n))


def chosen_of(paid: Sequence[float], k: int, strategy: Strategy, rng: np.random.Generator) -> list[int]:
    """Which k of some episodes, oldest first, RePO replays: their positions, ascending.

    Of equal payments the later episode is taken. ``max_variance``: the k with the largest population variance of
    payments, of equal ones those with the larger sum; it is reached by some of the lowest with some of the highest.
    """
    n = len(paid)
    if strategy == "recent":
        return list(range(n - k, n))
    if strategy == "random":
        return sorted(int(index) for index in rng.choice(n, k, replace=False))
    ranked = sorted(range(n), key=lambda index: (paid[index], index))
    if strategy == "highest":
        return sorted(ranked[n - k :])
    ends = [ranked[:low] + ranked[n - (k - low) :] if low < k else ranked[:k] for low in range(k + 1)]
    best = max(ends, key=lambda some: (round(float(np.var([paid[i] for i in some])), 12), sum(paid[i] for i in some)))
    return sorted(best)


def bucket_weights(solved: Sequence[int], siblings: int) -> list[float]:
    """The density N(c; n/2, 1) of each number c of solved episodes among n siblings."""
    return [exp(-((c - siblings / 2) ** 2) / 2) / sqrt(2 * pi) for c in solved]


def draw_tasks(buckets: Mapping[int, Sequence[str]], n: int, *, siblings: int, rng: np.random.Generator) -> list[str]:
    """n tasks of the buckets, or all where there are fewer: each is of a bucket drawn by ``bucket_weights`` among those
    that have some left, and any of those."""
    left = {solved: list(tasks) for solved, tasks in sorted(buckets.items())}
    found: list[str] = []
    while len(found) < n and left:
        weights = np.array(bucket_weights(list(left), siblings))
        solved = list(left)[int(rng.choice(len(left), p=weights / weights.sum()))]
        found.append(left[solved].pop(int(rng.integers(len(left[solved])))))
        left = {solved: tasks for solved, tasks in left.items() if tasks}
    return found


def _by_task(facts: ReplayFacts) -> dict[str, list[Recorded]]:
    """The recorded episodes of each task, oldest first."""
    found: dict[str, list[Recorded]] = {}
    for row in facts.rows:
        found.setdefault(row.task, []).append(row)
    return found


def _spread(rows: Sequence[Recorded]) -> float:
    paid = [row.paid for row in rows]
    return max(paid) - min(paid)
