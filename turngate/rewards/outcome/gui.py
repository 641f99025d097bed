"""Rewards of GUI actions: step verdicts of a judge, clicks that name several candidates, clicks with a confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field

from turngate.errors import ShapeError
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.parts import Span


def exploration_reward(n: int, rank: int) -> float:
    """``1/√(N·k)`` if candidate ``k`` of ``N`` is the first that hits, ``−1/N`` if none does (``rank`` 0).

    The adaptive exploration reward of InfiGUI-G1 (https://arxiv.org/abs/2508.05731): candidates cost, and late hits
    are worth less. Raises ShapeError unless 0 ≤ rank ≤ n and n ≥ 1.
    """
    if n < 1 or not 0 <= rank <= n:
        raise ShapeError(f"candidate {rank} of {n} cannot have hit; the rank is 1 to {max(n, 1)}, or 0 for none")
    return 1.0 / math.sqrt(n * rank) if rank else -1.0 / n


def in_a_line(points: Sequence[tuple[float, float]]) -> bool:
    """Whether any three of the points lie on one straight line, as those of a model do that guesses along an axis."""
    return any(
        (far_x - x) * (b - y) == (far_y - y) * (a - x) for (x, y), (far_x, far_y), (a, b) in combinations(points, 3)
    )


class CandidateClicks(Formula):
    """Reward of a click that names several candidates (``candidates``), by the first that hits, ``candidate_hit``.

    By ``exploration_reward``; three in a line earn −1 whatever they hit. Clicks whose target is not known earn nothing.
    InfiGUI-G1's published code (recipe/infigui-g1/reward_fn.py) does the same, and adds 1 to every answer that it can
    read and that has no three in a line, which the environment's own checks of a call stand for here.
    """

    type: Literal["candidate_clicks"] = "candidate_clicks"
    per_turn: bool = True
    low: float = -1.0
    lines_cost: bool = True
    """Whether three candidates in a line earn −1. False where candidates are references of elements that stand in rows
    and columns, as buttons and lists do, where a line is no sign of guessing."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        self._needs_range(-1.0, 1.0)

    def grade(self, candidates: list[tuple[float, float]], candidate_hit: int) -> float | None:
        """One click."""
        return -1.0 if self.lines_cost and in_a_line(candidates) else exploration_reward(len(candidates), candidate_hit)


def click_closeness(offset: tuple[float, float], *, hit: bool, spread: float = 0.25) -> float:
    """Truncated Gaussian of a click: ``exp(−½·((x / spread)² + (y / spread)²))`` if it ``hit`` its target, else 0.

    ``offset``: from the middle of the target, in shares of its width and height; ``spread``: the standard deviation in
    the same unit. Raises ShapeError for a spread that is not positive.
    """
    if spread <= 0:
        raise ShapeError(f"spread is {spread}; it must be above 0")
    return math.exp(-0.5 * sum((far / spread) ** 2 for far in offset)) if hit else 0.0


def confident_click(hit: bool, confidence: float | None, closeness: float, *, faithful: bool = False) -> float:
    """HyperClick (https://arxiv.org/abs/2510.27266): ``hit − (c − g)²`` in [−1, 1], with the stated confidence ``c``
    and the closeness ``g`` of the click.

    Being right counts, and so does saying how right one is. No stated confidence (None) is scored as the worst one.
    ``faithful=True`` is ``hit + 1 − (c − g)²``, of which we have reviews only: it pays 1 for a click beside the target
    that says 0, so that clicks anywhere pay. Raises ShapeError for a confidence or closeness outside [0, 1].
    """
    for name, value in (("confidence", confidence), ("closeness", closeness)):
        if value is not None and not 0 <= value <= 1:
            raise ShapeError(f"{name} is {value}; it must lie in [0, 1]")
    missed = 1.0 if confidence is None else (confidence - closeness) ** 2
    return float(hit) + float(faithful) - missed


class ConfidentClicks(Formula):
    """Reward of a click by whether it hits its target (``click_hit``), how near the middle (``click_offset``), and how
    sure the agent said it was (``click_confidence``).

    By ``confident_click``. How wide the Gaussian is in HyperClick was not found: ``spread`` is a choice. Clicks whose
    target is not known earn nothing.
    """

    type: Literal["confident_clicks"] = "confident_clicks"
    per_turn: bool = True
    low: float = -1.0
    published: ClassVar[Span | None] = (0.0, 2.0)
    spread: float = Field(0.25, gt=0)
    """Standard deviation of the closeness, in shares of the target's width and height. Raise it where clicks near the
    edge of a target are as good as those in its middle."""
    faithful: bool = False
    """Whether each click earns 1 more, as published, also one beside its target; it needs low = 0 and high = 2."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        if not self.faithful:
            self._needs_range(-1.0, 1.0)

    def grade(
        self, click_confidence: float | Literal[False], click_hit: bool, click_offset: tuple[float, float]
    ) -> float | None:
        """One click."""
        stated = None if click_confidence is False else click_confidence
        closeness = click_closeness(click_offset, hit=click_hit, spread=self.spread)
        return confident_click(click_hit, stated, closeness, faithful=self.faithful)


class StepVerdicts(Formula):
    """A judge's yes or no on each step (``step_verdict``, true or false) as a reward: 1 and 0, or 1 and −1.

    After GUI-Shepherd (https://arxiv.org/abs/2509.23738), of which the abstract was read only: whether a bad step is 0
    or −1 is not known, so ``signed`` is a choice and not the paper's.
    """

    type: Literal["step_verdicts"] = "step_verdicts"
    per_turn: bool = True
    signed: bool = False
    """Whether a bad step costs 1 instead of earning nothing; it needs low = −1."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        self._needs_range(-1.0 if self.signed else 0.0, 1.0)

    def grade(self, step_verdict: bool) -> float | None:
        """One step."""
        return 1.0 if step_verdict else -1.0 if self.signed else 0.0
