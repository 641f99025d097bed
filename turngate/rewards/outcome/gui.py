"""Step verdicts of a judge on GUI actions."""

from __future__ import annotations

from typing import Literal

from turngate.rewards.outcome.formula import Formula


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
