"""What an episode of tool use is paid for."""

from turngate.rewards.gates import CapProcess, NeedsOutcome, Requires, Veto
from turngate.rewards.rubric import FromEvidence, Rubric

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
