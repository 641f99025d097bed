"""Updates that are skipped because a loss or a gradient is not finite."""

from __future__ import annotations

import logging
import math

from turngate.errors import NotFiniteError

log = logging.getLogger(__name__)
IN_A_ROW = 3
"""So many skipped updates in a row end the run: one may be bad luck, these are not."""
ADVICE = (
    "lower learner.lr, look for huge rewards or advantages (env.rubric, credit), and set learner.dtype = "
    '"float32" if it is bfloat16'
)


class Skips:
    """Collects the values of an update that are not finite, and decides at its end whether it is skipped."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self.problem = ""  # what was not finite first in the update under way

    def note(self, what: str, value: float) -> bool:
        """Whether ``value`` is finite; if not, the update under way will be skipped."""
        if not math.isfinite(value) and not self.problem:
            self.problem = f"the {what} is {value}"
        return math.isfinite(value)

    def skips(self) -> bool:
        """End the update: whether it is skipped. Raises NotFiniteError if too many in a row were."""
        problem, self.problem = self.problem, ""
        if not problem:
            self.in_a_row = 0
            return False
        self.in_a_row += 1
        if self.in_a_row == IN_A_ROW:
            raise NotFiniteError(f"{IN_A_ROW} updates in a row were skipped, the last because {problem}; {ADVICE}")
        log.warning("an update is skipped, because %s", problem)
        return True
