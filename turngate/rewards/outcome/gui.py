"""Rewards of GUI actions: step verdicts of a judge, and clicks that name several candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from turngate.errors import ShapeError
from turngate.rewards.outcome.formula import Formula


def exploration_reward(n: int, rank: int) -> float:
    """``1/√(N·k)`` if candidate ``k`` of ``N`` is the first that hits, ``−1/N`` if none does (``rank`` 0).

    The adaptive exploration reward of InfiGUI-G1 (https://arxiv.org/abs/2508.05731): candidates cost, and late hits
    are worth less. Raises ShapeError unless 0 ≤ rank ≤ n and n ≥ 1.
    """
    if n < 1 or not 0 <= rank <= n:
        raise ShapeError(f"candidate {rank} of {n} cannot have hit; the rank is 1 to {max(n, 1)}, or 0 for none")
    return 1.0 / math.sqrt(n * rank) if rank else -1.0 / n


def in_a_line(points: Sequence[tuple[float, float]]) -> bool:
    """Whether three or more points lie on one straight line, which a model draws that guesses along an axis."""
    if len(points) < 3:
        return False
    x, y = points[0]
    far_x, far_y = max(points, key=lambda point: math.dist(point, points[0]))
    return all((far_x - x) * (b - y) == (far_y - y) * (a - x) for a, b in points)


class CandidateClicks(Formula):
    """What a click that names several candidates (``candidates``) earns by the first that hits, ``candidate_hit``.

    By ``exploration_reward``; three or more in a line earn −1 whatever they hit, as in InfiGUI-G1's published code, of
    which we have reviews only. Clicks whose target is not known earn nothing.
    """

    type: Literal["candidate_clicks"] = "candidate_clicks"
    per_turn: bool = True
    low: float = -1.0

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        self._needs_range(-1.0, 1.0)

    def grade(self, candidates: list[tuple[float, float]], candidate_hit: int) -> float | None:
        """One click."""
        return -1.0 if in_a_line(candidates) else exploration_reward(len(candidates), candidate_hit)


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
