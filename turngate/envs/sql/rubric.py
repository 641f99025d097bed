"""What an SQL episode is paid for."""

from turngate.rewards.gates import CapProcess, NeedsOutcome, Requires, Veto
from turngate.rewards.rubric import FromEvidence, Rubric

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="correct", evidence="correct", kind="outcome", weight=1.0),
        FromEvidence(name="executes", evidence="executes", kind="process", weight=0.1, per_turn=True, agg="mean"),
    ),
    gates=(
        Veto(evidence="write_attempt", floor=-1.0),
        Requires(evidence="parsed", on="executes"),
        NeedsOutcome(at_least=0.5),
        CapProcess(limit=0.1),
    ),
)
