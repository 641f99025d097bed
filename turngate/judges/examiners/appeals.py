"""``Appeals``: a judge checks a sample of a verifier's verdicts, which are sometimes wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from turngate.judges.examiners.base import ExamineContext, Facts, Scope
from turngate.judges.examiners.judged import DONE, JudgedExaminer, OneCriterion
from turngate.judges.examiners.recorded import last_value
from turngate.judges.texts import Fault, Rule, Verdict, verdict_facts
from turngate.rewards.noise import (
    Rates,
    backward,
    estimate_rates,
    forward,
    select_appeals,
    settle_appeals,
    update_rates,
)
from turngate.types import JSON, BoolArray, Evidence, Group, Trajectory, derive_seed

Array = npt.NDArray[np.float64]


class Appeals(JudgedExaminer):
    """Has a judge check some of a verifier's verdicts, and corrects the outcome accordingly.

    * ``NAME_outcome``: the corrected outcome of every episode with a verdict of the verifier, for a rubric to pay;
    * ``NAME``, ``NAME_judge``: the judge's verdict on those that were checked, and who gave it;
    * ``NAME_rates``: the verifier's error rates as estimated by then: ``false_positive``, the share of wrong answers
      that it accepts, and ``false_negative``, the share of right ones that it rejects.

    The judge is taken to be right. Each step gives an estimate of the rates, and a moving average of them is
    remembered. Where the judge gives no verdict in time, the verifier's stands.

    The corrections are those of https://arxiv.org/abs/2510.00915. With a rule that divides by the standard deviation of
    a group (grpo), "backward" has no effect. "forward" replaces an advantage, so it needs a rule without a baseline
    (returns with baseline = "none").
    """

    type: Literal["appeals"] = "appeals"
    scope: ClassVar[Scope] = "batch"
    name: str = "appeal"
    """Beginning of the names of the evidence."""
    evidence: str
    """Name of the evidence that holds the verifier's verdict on the episode: true or false, 1 or 0."""
    criterion: OneCriterion = DONE
    """The criterion for a yes of the judge: a text, or a table {text, name, about_task}."""
    share: float = Field(0.25, ge=0, le=1)
    """Share of the episodes of a step that the verifier rejected which the judge checks, drawn at random."""
    audit: float = Field(0.0, ge=0, le=1)
    """Share of the accepted episodes that the judge checks; one that it rejects counts as rejected. At 0 all accepted
    episodes are taken to be right, so no false positive is ever found."""
    correct: Literal["settled", "backward", "forward"] = "settled"
    """How the outcome is corrected. settled: the judge's verdict replaces the verifier's where there is one. backward:
    (verdict − ρ0) / (1 − ρ0 − ρ1), right on average, but outside of [0, 1]. forward: verdict − 1 + ρ1, in [−1, 1]. ρ0,
    ρ1: false positive and negative rates."""
    overturned: float = Field(1.0, ge=0, le=1)
    """With correct = "settled": outcome of an episode that the verifier rejects and the judge accepts; below 1, passing
    the verifier is worth more than persuading a judge."""
    rates: Literal["run", "task"] = "run"
    """run: error rates over all tasks together; task: separate rates for each task, which are noisy until it has many
    verdicts."""
    decay: float = Field(0.9, ge=0, le=1)
    """Share of the old rates in the moving average; raise it for steadier rates."""
    max_sum: float = Field(0.9, ge=0, le=0.999)
    """Largest sum of the two rates; if they add up to more, both are scaled down to it. At a sum of 1 a verdict would
    carry no information."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.share and not self.audit:
            raise ValueError("with share = 0 and audit = 0 the judge checks nothing; raise one of them")
        if self.overturned != 1 and self.correct != "settled":
            raise ValueError(f'overturned has no effect with correct = "{self.correct}"')
        return self

    @property
    def writes(self) -> tuple[str, ...]:
        """The corrected outcome, the judge's verdict and its record, and the rates."""
        return (f"{self.name}_outcome", self.name, f"{self.name}_judge", f"{self.name}_rates")

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """The facts of all groups; the judge is asked in one batch."""
        ones = [one for group in groups for one in group.trajectories]
        tasks = [group.task.id if self.rates == "task" else "" for group in groups for _ in group.trajectories]
        verdict_B = np.array([self._verdict(one) for one in ones], np.float64)
        sent_B = self._sent(verdict_B, [one.id for one in ones], context.seed)
        judge, items = (
            context.judge(self.judge),
            [self.item(ones[at], context.answer(ones[at])) for at in _places(sent_B)],
        )
        said = (await judge.pointwise(items, self.criterion.criterion)).answers if items else ()
        second_B = np.full(len(ones), np.nan)
        second_B[sent_B] = [_second(answer) for answer in said]
        rho_B = self._rates(verdict_B, second_B, tasks, context)
        columns = [self._corrected(verdict_B, second_B, rho_B), *rho_B]
        found = [self._facts(*row) for row in np.stack(columns, axis=1).tolist()]
        for at, answer in zip(_places(sent_B), said, strict=True):
            found[at] += verdict_facts(self.name, answer, judge.id)
        rows = iter(found)
        return [[next(rows) for _ in group.trajectories] for group in groups]

    def _verdict(self, trajectory: Trajectory) -> float:
        """The verifier's last verdict; NaN if it has none, or the episode broke."""
        value = last_value(trajectory, self.evidence) if trajectory.ending.usable else None
        if value is None:
            return math.nan
        if value not in (0, 1):
            raise ValueError(
                f"evidence '{self.evidence}' of trajectory '{trajectory.id}' is {value!r:.80}; only a verdict, true or "
                "false, can be appealed"
            )
        return float(value)

    def _sent(self, verdict_B: Array, names: Sequence[str], seed: int) -> BoolArray:
        """Which episodes the judge checks: bool[B]."""

        def drawn(rejected_B: Array, share: float, purpose: str) -> BoolArray:
            limit = math.ceil(share * int((rejected_B == 0).sum()))
            return select_appeals(rejected_B, names, limit=limit, seed=derive_seed(seed, purpose))

        return drawn(verdict_B, self.share, "appeals") | drawn(1 - verdict_B, self.audit, "audit")

    def _rates(
        self, verdict_B: Array, second_B: Array, tasks: Sequence[str], context: ExamineContext
    ) -> tuple[Array, Array]:
        """The running rates (ρ0, ρ1) for each episode, this step's appeals included: float64[B] each."""
        known, group_B = np.unique(tasks, return_inverse=True)
        new = estimate_rates(verdict_B, second_B, group_B, n_groups=len(known), trust_accepted=self.audit == 0)
        old = [_remembered(context.memory.get(task)) for task in known.tolist()]
        before = Rates(
            false_positive_G=np.array([pair[0] for pair in old]), false_negative_G=np.array([pair[1] for pair in old])
        )
        rates = update_rates(before, new, decay=self.decay, max_sum=self.max_sum)
        pairs = zip(rates.false_positive_G.tolist(), rates.false_negative_G.tolist(), strict=True)
        for task, pair in zip(known.tolist(), pairs, strict=True):
            context.memory[task] = [None if math.isnan(rate) else rate for rate in pair]
        return rates.per_trajectory(group_B)

    def _corrected(self, verdict_B: Array, second_B: Array, rho_B: tuple[Array, Array]) -> Array:
        if self.correct == "backward":
            return backward(verdict_B, false_positive=rho_B[0], false_negative=rho_B[1])
        if self.correct == "forward":
            return forward(verdict_B, false_negative=rho_B[1])
        return settle_appeals(verdict_B, second_B, overturned=self.overturned)

    def _facts(self, outcome: float, false_positive: float, false_negative: float) -> tuple[Evidence, ...]:
        """Outcome and rates of one episode; nothing if the verifier has no verdict."""
        if math.isnan(outcome):
            return ()
        rates: dict[str, JSON] = {"false_positive": false_positive, "false_negative": false_negative}
        return (
            Evidence(name=f"{self.name}_outcome", value=outcome, by="judge"),
            Evidence(name=f"{self.name}_rates", value=rates, by="judge"),
        )


def _places(sent_B: BoolArray) -> list[int]:
    return [int(place) for place in np.flatnonzero(sent_B)]


def _second(answer: Verdict | Fault | Rule) -> float:
    """The judge's verdict as 1 or 0 (0 also by rule); NaN where there is none."""
    if isinstance(answer, Fault):
        return math.nan
    return float(isinstance(answer, Verdict) and answer.passed)


def _remembered(pair: JSON) -> tuple[float, float]:
    """Both rates as remembered; NaN for one that is not known."""
    known = pair if isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 else (None, None)
    first, second = (float(rate) if isinstance(rate, int | float) else math.nan for rate in known)
    return first, second
