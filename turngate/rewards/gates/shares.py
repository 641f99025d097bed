"""Gates that pay a share of a component instead of all or nothing.

A share lies in [0, 1] and multiplies payments that are still open. A published factor above 1 is written as a larger
weight of the component with smaller shares: weight 1.6 and shares 1 and ½ are the factors 1.6 and 0.8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.gates.base import Gate
from turngate.rewards.gates.whole_kinds import find_cuttable, outcome_span
from turngate.rewards.parts import Draft, Kind, Reward, is_missing, reaches
from turngate.rewards.safety.ranges import Ranges, Scene

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Soft(Gate):
    """Component ``on`` is paid a share that depends on how the episode went.

    ``right`` if the outcome reaches ``at_least``; else ``broken`` if the fact ``malformed`` is true of any turn; else
    ``unanswered`` unless the fact ``answered`` is true; else ``wrong``.

    This is the reward of R3-RAG (https://github.com/Yuan-Li-FNLP/R3-RAG; read from its code, not in the paper):
    relevance p_t of a search counts 1.6·p_t with a right final answer, 0.8·p_t with a wrong one, 0.9·p_t without one
    and p_t before a format error. The defaults give these factors for a component of weight 1.6, together with an
    outcome of weight 2 and a penalty of 0.9 for the error. Beware of the defaults: not answering is paid more than
    answering wrongly, so an agent that is not sure learns to stall. ``Rubric.check`` calls them unsafe. Choose shares
    in the order broken ≤ unanswered ≤ wrong ≤ right. With all shares 1 the gate does nothing; with ``right`` 1 and the
    others 0 it is ``needs_outcome`` for one component.
    """

    type: Literal["soft"] = "soft"
    on: str
    """Name of the component that is paid a share."""
    at_least: float
    """Lowest outcome, weights included, that counts as a right answer."""
    answered: str
    """Name of the evidence that an answer was given. Missing counts as not answered; None makes the episode
    unusable."""
    malformed: str = ""
    """Name of the evidence that a turn could not be read; "" if the environment records none."""
    right: Share = 1.0
    """Share that is paid where the outcome counts as right."""
    wrong: Share = 0.5
    """Share that is paid for a wrong answer."""
    unanswered: Share = 0.5625
    """Share that is paid where no answer was given; above ``wrong`` it teaches not to answer."""
    broken: Share = 0.625
    """Share that is paid where a turn could not be read; above ``wrong`` it teaches to write what cannot be read."""

    @property
    def name(self) -> str:
        """For instance ``soft(relevance)``."""
        return f"soft({self.on})"

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that choose the share."""
        return (self.answered, self.malformed) if self.malformed else (self.answered,)

    @property
    def occasional(self) -> tuple[str, ...]:
        """The evidence of turns that could not be read."""
        return (self.malformed,) if self.malformed else ()

    @property
    def states(self) -> tuple[str, ...]:
        """The facts that choose the share."""
        return self.reads

    @property
    def openers(self) -> tuple[tuple[str, bool], ...]:
        """It is better to answer, and not to be malformed."""
        return ((self.answered, True), (self.malformed, False)) if self.malformed else ((self.answered, True),)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """``at_least``."""
        return (self.at_least,)

    @property
    def late(self) -> bool:
        """True: it decides by the outcome."""
        return True

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError for an outcome that all episodes reach, or none."""
        find_cuttable(rewards, self.on, self)
        low, high = outcome_span(rewards)
        if not low < self.at_least <= high:
            raise ConfigError(f"{self.name} has at_least={self.at_least:g}; choose it inside [{low:g}, {high:g}]")

    def apply(self, draft: Draft) -> None:
        """Cut the lines of ``on``, or mark the episode unusable if the share cannot be known."""
        facts = set()
        if not reaches(draft.outcome, self.at_least):
            for evidence in self.reads:
                happened = draft.facts.happened(evidence)
                if happened is None:
                    draft.problem = f"evidence '{evidence}' of {self.name} could not be measured"
                    return
                if happened:
                    facts.add(evidence)
        share, name = self._share(draft.outcome, facts), self.name
        if share < 1.0:
            for line in draft.lines:
                if line.name == self.on:
                    line.cut(name, share)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """The component is paid the share that belongs to the scene."""
        for name in ranges.of(self):
            ranges.share(name, self._share(scene.outcome, scene.facts))

    def _share(self, outcome: float, facts: set[str] | frozenset[str]) -> float:
        if reaches(outcome, self.at_least):
            return self.right
        if self.malformed in facts:
            return self.broken
        return self.wrong if self.answered in facts else self.unanswered


class Trust(Gate):
    """Component ``on``, say a judge's score of the reasoning, is paid as far as it agrees with the outcomes of a group.

    R_i = o_i + γ·exp(−step/T)·w·θ_i   (Trust-GRPO, SophiaVL-R1, https://arxiv.org/abs/2505.17018)

    θ is the overall verdict of ``on``, w its weight (0.3 in the paper), γ and the annealing come from
    ``trust_factors``. The outcome is the weighted one and should lie in [0, 1]. The gate needs siblings and the
    training step: ``Rubric.score_group(group, step=…)`` hands them over, and scoring a stored group with its step gives
    the same again. ``Rubric.score`` knows one episode only; alone there is nothing to agree with, so nothing is paid.
    Annealing hides a bad judge late in training; it does not make it safe.
    """

    type: Literal["trust"] = "trust"
    on: str
    """Name of the component that is paid as far as it agrees with the outcomes."""
    decay_steps: float = 1500.0
    """T, in training steps: 1500 in the paper, 500 in its code. The share falls to 1/e over T steps."""
    correct_at: float = 0.5
    """Outcome from which on an episode counts as correct in the comparison."""
    open_from: float = 0.2
    """Below this outcome nothing is paid, as in the released code; 0 is the paper's equation."""
    all_right_at: float = 0.9
    """If all outcomes of a group reach this value, nothing is paid, because there is no failure to compare with."""
    all_wrong_at: float = 0.1
    """If no outcome of a group is above this value, nothing is paid, because there is no success to compare with."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for ``decay_steps`` of 0 or less."""
        if not self.decay_steps > 0:
            raise ConfigError(f"{self.name} has decay_steps={self.decay_steps}; it must be above 0")

    @property
    def name(self) -> str:
        """For instance ``trust(thinking)``."""
        return f"trust({self.on})"

    @property
    def compares(self) -> tuple[str, ...]:
        """The component ``on``."""
        return (self.on,)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """``open_from``."""
        return (self.open_from,)

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError for an outcome or a sum, which grows by
        repetition."""
        if find_cuttable(rewards, self.on, self).agg == "sum":
            raise ConfigError(f"{self.name} compares '{self.on}', a sum; give it agg='mean', 'last', 'min' or 'max'")

    def apply(self, draft: Draft) -> None:
        """Close every payment of ``on``, because an episode by itself has no siblings to compare with."""
        self._cut(draft, 0.0)

    def apply_group(self, drafts: Sequence[Draft], step: int) -> None:
        """Cut the lines of ``on`` by the factor of each sibling."""
        outcome_B = np.array([draft.outcome for draft in drafts], np.float64)
        score_B = np.array([_measured(draft, self.on) for draft in drafts], np.float64)
        factor_B = trust_factors(
            outcome_B,
            score_B,
            np.zeros(len(drafts), np.int64),
            step=step,
            decay_steps=self.decay_steps,
            correct_at=self.correct_at,
            open_from=self.open_from,
            all_right_at=self.all_right_at,
            all_wrong_at=self.all_wrong_at,
        )
        for draft, factor in zip(drafts, factor_B.tolist(), strict=True):
            self._cut(draft, factor)

    def imagine(self, draft: Draft) -> None:
        """Among siblings with γ = 1, in step 0."""
        self._cut(draft, float(reaches(draft.outcome, self.open_from)))

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Anything from nothing to all, or nothing below ``open_from``."""
        for name in ranges.of(self):
            if reaches(scene.outcome, self.open_from):
                ranges.may_shrink(name)
            else:
                ranges.close(name)

    def _cut(self, draft: Draft, factor: float) -> None:
        if factor < 1.0:
            name = self.name
            for line in draft.lines:
                if line.name == self.on:
                    line.cut(name, factor)


def _measured(draft: Draft, name: str) -> float:
    """The overall verdict of a component; NaN if a part of it could not be obtained."""
    return math.nan if is_missing(draft.readings.get(name, ())) else draft.scores.get(name, math.nan)


def trust_factors(
    outcome_B: npt.ArrayLike,
    score_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    *,
    step: int,
    decay_steps: float = 1500.0,
    correct_at: float = 0.5,
    open_from: float = 0.2,
    all_right_at: float = 0.9,
    all_wrong_at: float = 0.1,
) -> npt.NDArray[np.float64]:
    """The share of its process reward that each trajectory is paid in Trust-GRPO (https://arxiv.org/abs/2505.17018).

        factor_i = γ_g · exp(−step / T),   γ_g = 1 if μ_c ≥ μ_w else exp(μ_c − μ_w)

    μ_c and μ_w are the group's mean ``score_B`` over outcomes ≥ ``correct_at`` and below; NaN (no verdict) is left out.
    No correct or no wrong trajectory: γ = 1. As in the released code the factor is 0 in a group whose outcomes are all
    ≥ ``all_right_at`` or all ≤ ``all_wrong_at``, and for every trajectory below ``open_from``. (The code does not even
    evaluate the latter and averages them in as 0; here they enter μ_w as measured, as the paper has it.)

    Shapes: all (B,). Returns float64 (B,) in [0, 1]. Raises ShapeError for arrays that do not fit and ConfigError for a
    negative step.
    """
    outcome_B, score_B = np.asarray(outcome_B, np.float64), np.asarray(score_B, np.float64)
    group_B = np.asarray(group_B)
    if not outcome_B.shape == score_B.shape == group_B.shape or outcome_B.ndim != 1:
        raise ShapeError(
            f"outcome_B {outcome_B.shape}, score_B {score_B.shape} and group_B {group_B.shape} must be (B,)"
        )
    if step < 0:
        raise ConfigError(f"step is {step}; trust needs the number of the training step, from 0")
    factor_B = np.zeros(len(outcome_B), np.float64)
    for group in np.unique(group_B):
        rows_M = np.flatnonzero(group_B == group)
        outcome_M, score_M = outcome_B[rows_M], score_B[rows_M]
        if (outcome_M >= all_right_at).all() or (outcome_M <= all_wrong_at).all():
            continue
        measured_M, correct_M = ~np.isnan(score_M), outcome_M >= correct_at
        right_M, wrong_M = score_M[measured_M & correct_M], score_M[measured_M & ~correct_M]
        gap = float(right_M.mean() - wrong_M.mean()) if right_M.size and wrong_M.size else 0.0
        gamma = 1.0 if gap >= 0 else math.exp(gap)
        factor_B[rows_M] = np.where(outcome_M >= open_from, gamma * math.exp(-step / decay_steps), 0.0)
    return factor_B
