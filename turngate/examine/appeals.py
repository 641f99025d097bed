"""``Appeals``: a rule says right or wrong and errs; a judge looks again at a sample of its verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from turngate.examine.base import Desk, Facts, Scope
from turngate.examine.judged import DONE, JudgedExaminer, OneCriterion
from turngate.examine.recorded import last_value
from turngate.rewards.judge import Fault, Rule, Verdict, verdict_facts
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
    """Sends some of a verifier's verdicts to a judge, and corrects the outcome by what comes of it.

    ``NAME_outcome`` is the corrected outcome of every episode that the verifier has a verdict on, for a rubric to pay;
    ``NAME`` and ``NAME_judge`` are what the judge said of those that were sent, and ``NAME_rates`` the verifier's error
    rates as they are known by then: ``false_positive``, the share of wrong answers that it accepts, and
    ``false_negative``, the share of right ones that it rejects. Taking the judge for the truth, each step gives new
    rates, and a moving average of them is remembered. What the judge does not say in time changes nothing.

    The corrections are those of https://arxiv.org/abs/2510.00915. Normalised by the standard deviation of a group
    (grpo), "backward" has no effect; "forward" takes the place of an advantage and wants a rule without baseline
    (returns).
    """

    type: Literal["appeals"] = "appeals"
    scope: ClassVar[Scope] = "batch"
    name: str = "appeal"
    """What names of the evidence begin with."""
    evidence: str
    """Name of the verifier's recorded verdict on the episode: true or false, 1 or 0."""
    criterion: OneCriterion = DONE
    """When the judge's verdict is yes: a text, or a table {text, name, about_task}."""
    share: float = Field(0.25, ge=0, le=1)
    """Share of the rejected episodes of a step that is sent, drawn at random."""
    audit: float = Field(0.0, ge=0, le=1)
    """Share of the accepted ones that is sent; one that the judge rejects counts as rejected. 0 takes all of them for
    right, so that no false positive is ever found."""
    correct: Literal["settled", "backward", "forward"] = "settled"
    """settled: the judge's verdict counts where there is one. backward: (verdict − ρ0) / (1 − ρ0 − ρ1), right on
    average, outside of [0, 1]. forward: verdict − 1 + ρ1, in [−1, 1]. ρ0, ρ1: false positive and negative rates."""
    overturned: float = Field(1.0, ge=0, le=1)
    """With settled: what a rejected answer earns that the judge accepts; below 1, passing the verifier is worth more
    than talking round a judge."""
    rates: Literal["run", "task"] = "run"
    """Whether error rates are those of all tasks together, or of each task; those of few verdicts are noise."""
    decay: float = Field(0.9, ge=0, le=1)
    """Share of the old rates in the moving average."""
    max_sum: float = Field(0.9, ge=0, le=0.999)
    """Where the two rates add up to more, both shrink to this sum; at 1 a verdict would say nothing."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.share and not self.audit:
            raise ValueError("with share = 0 and audit = 0 nothing is sent to the judge")
        if self.overturned != 1 and self.correct != "settled":
            raise ValueError(f'overturned has no effect with correct = "{self.correct}"')
        return self

    @property
    def writes(self) -> tuple[str, ...]:
        """The corrected outcome, what the judge said and why, and the rates."""
        return (f"{self.name}_outcome", self.name, f"{self.name}_judge", f"{self.name}_rates")

    async def examine(self, groups: Sequence[Group], desk: Desk) -> Facts:
        """One batch of questions for all groups."""
        ones = [one for group in groups for one in group.trajectories]
        tasks = [group.task.id if self.rates == "task" else "" for group in groups for _ in group.trajectories]
        verdict_B = np.array([self._verdict(one) for one in ones], np.float64)
        sent_B = self._sent(verdict_B, [one.id for one in ones], desk.seed)
        judge, items = desk.judge(self.judge), [self.item(ones[at], desk.answer(ones[at])) for at in _places(sent_B)]
        said = (await judge.pointwise(items, self.criterion.criterion)).answers if items else ()
        second_B = np.full(len(ones), np.nan)
        second_B[sent_B] = [_second(answer) for answer in said]
        rho_B = self._rates(verdict_B, second_B, tasks, desk)
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
        """Which episodes go to the judge: bool[B]."""

        def drawn(rejected_B: Array, share: float, purpose: str) -> BoolArray:
            limit = math.ceil(share * int((rejected_B == 0).sum()))
            return select_appeals(rejected_B, names, limit=limit, seed=derive_seed(seed, purpose))

        return drawn(verdict_B, self.share, "appeals") | drawn(1 - verdict_B, self.audit, "audit")

    def _rates(self, verdict_B: Array, second_B: Array, tasks: Sequence[str], desk: Desk) -> tuple[Array, Array]:
        """The running rates (ρ0, ρ1) for each episode, this step's appeals included: float64[B] each."""
        known, group_B = np.unique(tasks, return_inverse=True)
        new = estimate_rates(verdict_B, second_B, group_B, n_groups=len(known), trust_accepted=self.audit == 0)
        old = [_remembered(desk.memory.get(task)) for task in known.tolist()]
        before = Rates(
            false_positive_G=np.array([pair[0] for pair in old]), false_negative_G=np.array([pair[1] for pair in old])
        )
        rates = update_rates(before, new, decay=self.decay, max_sum=self.max_sum)
        pairs = zip(rates.false_positive_G.tolist(), rates.false_negative_G.tolist(), strict=True)
        for task, pair in zip(known.tolist(), pairs, strict=True):
            desk.memory[task] = [None if math.isnan(rate) else rate for rate in pair]
        return rates.per_trajectory(group_B)

    def _corrected(self, verdict_B: Array, second_B: Array, rho_B: tuple[Array, Array]) -> Array:
        if self.correct == "backward":
            return backward(verdict_B, false_positive=rho_B[0], false_negative=rho_B[1])
        if self.correct == "forward":
            return forward(verdict_B, false_negative=rho_B[1])
        return settle_appeals(verdict_B, second_B, overturned=self.overturned)

    def _facts(self, outcome: float, false_positive: float, false_negative: float) -> tuple[Evidence, ...]:
        """The facts of one episode beside the judge's; none if the verifier has no verdict."""
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
    """What the judge says: 1, 0 (also by rule), or NaN where there is no verdict."""
    if isinstance(answer, Fault):
        return math.nan
    return float(isinstance(answer, Verdict) and answer.passed)


def _remembered(pair: JSON) -> tuple[float, float]:
    """Both rates; NaN for one that is not known."""
    known = pair if isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 else (None, None)
    first, second = (float(rate) if isinstance(rate, int | float) else math.nan for rate in known)
    return first, second
