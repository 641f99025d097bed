"""The payments of an episode of tool use."""

from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome, Requires, Veto
from turngate.rewards.rubric import FromEvidence, Rubric

_PROCESS = (
    FromEvidence(name="matched", evidence="matched", kind="process", weight=0.1, per_turn=True, agg="mean"),
    FromEvidence(
        name="needless_write", evidence="needless_write", kind="process", weight=-0.05, per_turn=True, agg="mean"
    ),
    FromEvidence(name="repeated", evidence="repeated", kind="process", weight=-0.05, per_turn=True, agg="mean"),
)
_GATES = (
    Veto(evidence="policy_violation", floor=-1.0),
    Requires(evidence="parsed", on="matched"),
    NeedsOutcome(at_least=0.5),
    CapProcess(limit=0.1),
)

RUBRIC = Rubric(
    rewards=(FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)), *_PROCESS),
    gates=_GATES,
)
"""The goals of the task; and, where they hold, up to 0.1 for gold calls that were made."""

JUDGED_RUBRIC = Rubric(
    rewards=(FromEvidence(name="solved", evidence="goals_met", kind="outcome", weight=1.0, levels=(0, 1)), *_PROCESS),
    gates=_GATES,
)
"""The same for tasks some of whose goals a judge decides; needs the examiner ``judged_goals``."""

TAU_STRICT_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="strictly_solved", evidence="strictly_solved", kind="outcome", weight=1.0, levels=(0, 1)),
        *_PROCESS,
    ),
    gates=_GATES,
)
"""The same for tasks of tau-bench and tau2, with the frame kept and each gold call made beside what they ask for."""

BFCL_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="served", evidence="turn_served", kind="process", weight=0.1, per_turn=True, agg="mean"),
        FromEvidence(
            name="in_vain", evidence="called_in_vain", kind="process", weight=-0.05, per_turn=True, agg="mean"
        ),
        FromEvidence(name="repeated", evidence="repeated", kind="process", weight=-0.05, per_turn=True, agg="mean"),
    ),
    gates=(Requires(evidence="turn_called", on="served"), CapProcess(limit=0.1)),
)
"""For tasks whose user speaks turn by turn: also an episode that is lost is paid for the turns that were served."""
