"""What an episode of tool use is paid for."""

from turngate.rewards.gates import CapProcess, NeedsOutcome, Requires, Veto
from turngate.rewards.rubric import FromEvidence, Rubric

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="matched", evidence="matched", kind="process", weight=0.1, per_turn=True, agg="mean"),
        FromEvidence(
            name="needless_write", evidence="needless_write", kind="process", weight=-0.05, per_turn=True, agg="mean"
        ),
        FromEvidence(name="repeated", evidence="repeated", kind="process", weight=-0.05, per_turn=True, agg="mean"),
    ),
    gates=(
        Veto(evidence="policy_violation", floor=-1.0),
        Requires(evidence="parsed", on="matched"),
        NeedsOutcome(at_least=0.5),
        CapProcess(limit=0.1),
    ),
)
"""The goals of the task; and, where they hold, up to 0.1 for gold calls that were made."""

JUDGED_RUBRIC = RUBRIC.model_copy(
    update={
        "rewards": (
            FromEvidence(name="solved", evidence="goals_met", kind="outcome", weight=1.0, levels=(0, 1)),
            *RUBRIC.rewards[1:],
        )
    }
)
"""The same for tasks some of whose goals a judge decides; needs the examiner ``judged_goals``."""
