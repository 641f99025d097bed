"""Payments of a web episode: for the task; in episodes that were won, less for repeating actions without effect."""

from turngate.rewards.gates.ladders import Conditional
from turngate.rewards.gates.whole_kinds import NeedsOutcome
from turngate.rewards.outcome.gui import StepVerdicts
from turngate.rewards.rubric import FromEvidence, Rubric

_NO_OP = FromEvidence(name="no_op", evidence="no_op", kind="process", weight=-0.05, per_turn=True, agg="mean")

RUBRIC = Rubric(
    rewards=(FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)), _NO_OP),
    gates=(NeedsOutcome(at_least=0.5),),
)
"""1 for a task that was done, and in such episodes a charge for actions without effect."""

JUDGED_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)),
        _NO_OP,
        StepVerdicts(name="steps", kind="process", weight=0.2),
    ),
    gates=(NeedsOutcome(at_least=0.5),),
)
"""``RUBRIC``, and in episodes that were won a judge's verdict on each step (``step_verdict``, by an examiner)."""

SLIDES_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="content", evidence="content_at_end", kind="process", weight=0.3),
        FromEvidence(name="layout", evidence="layout_at_end", kind="process", weight=0.2),
    ),
    gates=(Conditional(given="content", at_least=1.0, pays=("layout",)),),
)
"""For slides: all of the request and no fault; the share of the texts that a reader sees; and the share of the limits
of layout that are kept, once all texts are there, because an empty slide is neat."""

PARTIAL_RUBRIC = Rubric(
    rewards=(FromEvidence(name="goal_share", evidence="goal_share", kind="outcome", weight=1.0), _NO_OP),
    gates=(NeedsOutcome(at_least=0.5),),
)
"""The share of the task that was done instead of all or nothing; an episode with half of it or more counts as won."""
