"""Payments of a routing episode: for the right answer and, only with it, for a low cost.

Router-R1 pays ``(1 − α)·F1 + α·cost score``. With α above ½ a wrong answer at no cost is then paid more than an
expensive right one (α = .6: .6 against .4). Here the cost score is gated by the answer.
"""

from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome
from turngate.rewards.rubric import FromEvidence, Rubric

_CORRECT = FromEvidence(name="correct", evidence="correct", kind="outcome", weight=1.0, levels=(0, 1))
_GATES = (NeedsOutcome(at_least=0.5), CapProcess(limit=0.4))

RUBRIC = Rubric(
    rewards=(_CORRECT, FromEvidence(name="cheap", evidence="cost_score", kind="process", weight=0.4)), gates=_GATES
)
"""The answer, word for word; in episodes that were won, up to 0.4 for a low cost, on a scale that the settings fix."""

WINDOW_RUBRIC = Rubric(
    rewards=(_CORRECT, FromEvidence(name="cheap", evidence="cost_rank", kind="process", weight=0.4)), gates=_GATES
)
"""The same on the scale of the last 1,000 episodes, as in Router-R1; needs the examiner ``cost_window``."""
