"""Filters: which trajectories reach credit. Every one that is dropped is counted under its reason.

Trajectories in = trajectories kept + Σ ``drop/REASON_trajectories``, and groups in = groups kept + Σ
``drop/REASON_groups``, where a group is counted under the reason that dropped its last trajectories. A cohort
(``Trajectory.cohort``) is a set of trajectories that share a baseline: siblings with the same guidance.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.part_calls import Unusable, call_part
from turngate.parts import Part
from turngate.trainer.batch.shared_turns import regrafted
from turngate.types import BoolArray, Metrics, ScoredGroup

if TYPE_CHECKING:
    from turngate.config import Config

Filter: TypeAlias = Callable[[ScoredGroup], bool | BoolArray]
"""Whether to keep a group, or which of its trajectories: bool[B]. It sees usable trajectories only."""

FILTER = "filter"
ALIKE = 1e-6
"""Totals or outcomes that differ by no more than this count as equal, because the difference may be rounding."""


class FilterPart(Part):
    """Chooses which episodes of a group of siblings are learned from; also any function of a ``ScoredGroup``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "filter"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.filters",)
    from_function: ClassVar[bool] = True

    def survey(self, groups: Sequence[ScoredGroup]) -> Filter:
        """The filter for these groups, which are all that earlier filters left; for filters that compare groups."""
        return self

    def __call__(self, group: ScoredGroup) -> bool | BoolArray:
        """Whether to keep the group, or which of its trajectories: bool[B]."""
        assert self.function is not None, f"filter '{self.type}' is a class without __call__"
        kept: bool | BoolArray = self.function(group, **self.settings())
        return kept


By: TypeAlias = Annotated[
    Literal["total", "outcome"],
    Field(
        description="What has to differ among siblings for them to be kept. total: all that they were paid; outcome: "
        "the outcome alone, as in the paper."
    ),
]


@FilterPart.define
def varied(group: ScoredGroup, *, by: By = "total") -> BoolArray:
    """Drops siblings that were all paid the same: comparing them teaches nothing.

    True for trajectories of a cohort whose members differ in what they were paid, or in their outcome (``by``):
    bool[B].

    In a cohort without differences no group-relative estimator has a signal (DAPO, https://arxiv.org/abs/2503.14476).
    "outcome" is the paper's. "total" also keeps cohorts that differ in process payments only; under a rule that divides
    by the std these differences train at full strength, however small they are. Raises ConfigError for another ``by``.
    """
    if by not in ("total", "outcome"):
        raise ConfigError(f"varied: by is '{by}'; it must be 'total' or 'outcome'")
    differs = {cohort: _differ(found) for cohort, found in _by_cohort([group], by).items()}
    return np.array([differs[trajectory.cohort] for trajectory in group.trajectories], np.bool_)


class TopStdPart(FilterPart):
    """StarPO-S: keeps the groups whose siblings differ most in what they were paid, or in their outcome.

    Of n cohorts the ``max(1, ⌊share·n⌋)`` with the largest standard deviation stay; of equals, those that come first.

    Source: RAGEN, https://arxiv.org/abs/2504.20073, which keeps a quarter to put off the collapse of a run. Known
    weakness: it prefers noisy payments.
    """

    type: Literal["top_std"] = "top_std"
    share: float = Field(0.25, gt=0, lt=1)
    """Share of the groups of a step that are learned from, of those that earlier filters left."""
    by: By = "total"

    def check_config(self, config: "Config") -> None:
        """Raise ConfigError for dynamic sampling, which plays further groups in place of those that are dropped."""
        if config.train.refill is not None:
            raise ConfigError(
                "train: refill does not go with the filter 'top_std', which drops its share of however many groups are "
                "played"
            )

    def survey(self, groups: Sequence[ScoredGroup]) -> Filter:
        """The filter that keeps the cohorts of ``groups`` which differ most."""
        spread = {cohort: _std(found) for cohort, found in _by_cohort(groups, self.by).items()}
        ranked = sorted(spread, key=lambda cohort: -spread[cohort])
        best = set(ranked[: max(1, int(self.share * len(ranked)))])
        return lambda group: np.array([trajectory.cohort in best for trajectory in group.trajectories], np.bool_)

    def __call__(self, group: ScoredGroup) -> bool | BoolArray:
        """Whether to keep the group where it is the only one."""
        return self.survey([group])(group)


def keep(
    groups: Sequence[ScoredGroup], filters: Mapping[str, Filter], *, most: int | None = None, lone: bool = False
) -> tuple[list[ScoredGroup], Metrics]:
    """The groups that are left, and metrics: how many trajectories and groups were dropped for which reason.

    Dropped are, in this order: "unusable" trajectories; "lonely" ones, whose cohort has no other member left, unless
    ``lone`` says that the credit rule does without (``CreditRule.imitates``); "empty"
    ones, whose cohort has no member with a turn; then those that each filter NAME refuses ("not_NAME"), and after it
    those that became lonely or empty by that; at last, with ``most``, the groups of all but the first ``most`` tasks
    ("surplus"). An episode without turns (its prompt left no room for one) is a result like others: it stays beside
    siblings that have turns, and counts in their baseline. Raises PartError for a filter that answers with anything
    but a bool or bool[B].
    """
    left: list[tuple[str, Filter]] = [("empty", _spoken)] if lone else [("lonely", _accompanied), ("empty", _spoken)]
    stages: list[tuple[str, Filter]] = [("unusable", _usable), *left]
    for name, passes in filters.items():
        stages += [(f"not_{name}", passes), *left]
    if most is not None:
        stages.append(("surplus", _first_tasks(most)))
    drops = {f"drop/{reason}_{what}": 0.0 for reason, _ in stages for what in ("trajectories", "groups")}
    kept = list(groups)
    for reason, passes in stages:
        chooses = passes
        if isinstance(passes, FilterPart):
            chooses = call_part(FILTER, passes.survey, kept, take=_filter, must="a filter, a function of a ScoredGroup")
        answers = [_answer(chooses, group) for group in kept]
        drops[f"drop/{reason}_trajectories"] += float(sum((~stays_B).sum() for stays_B in answers))
        drops[f"drop/{reason}_groups"] += sum(not stays_B.any() for stays_B in answers)
        kept = [_only(group, stays_B) for group, stays_B in zip(kept, answers, strict=True) if stays_B.any()]
    return kept, drops


def _by_cohort(groups: Sequence[ScoredGroup], by: By) -> dict[object, list[float | None]]:
    """What the members of each cohort were paid (``Score.compared``), or their outcomes."""
    values: dict[object, list[float | None]] = {}
    for group in groups:
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            values.setdefault(trajectory.cohort, []).append(score.compared.total if by == "total" else score.outcome)
    return values


def _usable(group: ScoredGroup) -> BoolArray:
    return np.array([score.usable for score in group.scores], np.bool_)


def _accompanied(group: ScoredGroup) -> BoolArray:
    members = Counter(trajectory.cohort for trajectory in group.trajectories)
    return np.array([members[trajectory.cohort] > 1 for trajectory in group.trajectories], np.bool_)


def _spoken(group: ScoredGroup) -> BoolArray:
    with_turns = {trajectory.cohort for trajectory in group.trajectories if trajectory.turns}
    return np.array([trajectory.cohort in with_turns for trajectory in group.trajectories], np.bool_)


def _first_tasks(most: int) -> Filter:
    """A filter that keeps the groups of the first ``most`` tasks that it is shown."""
    seen: set[str] = set()

    def passes(group: ScoredGroup) -> bool:
        if len(seen) < most:
            seen.add(group.task.id)
        return group.task.id in seen

    return passes


def _differ(values: Sequence[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and max(known) - min(known) > ALIKE


def _std(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.std(known)) if known else 0.0


def _answer(passes: Filter, group: ScoredGroup) -> BoolArray:
    n = len(group.trajectories)

    def read(found: object) -> BoolArray:
        answer = np.asarray(found)
        if answer.dtype != np.bool_ or answer.shape not in ((), (n,)):
            raise Unusable(f"{answer.dtype}{list(answer.shape)} for a group of {n}")
        return np.broadcast_to(answer, (n,))

    method = passes.__call__ if isinstance(passes, FilterPart) else passes
    return call_part(FILTER, method, group, take=read, must=f"a bool, or bool[{n}] with one entry per trajectory")


def _filter(found: Filter) -> Filter:
    if not callable(found):
        raise Unusable
    return found


def _only(group: ScoredGroup, stays_B: BoolArray) -> ScoredGroup:
    if stays_B.all():
        return group
    return ScoredGroup(
        task=group.task,
        trajectories=regrafted(group.trajectories, stays_B),
        scores=tuple(compress(group.scores, stays_B)),
    )
