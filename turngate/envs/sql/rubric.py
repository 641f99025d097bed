"""The payments of an SQL episode."""

from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome, Requires, Veto
from turngate.rewards.rubric import FromEvidence, Rubric

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="correct", evidence="correct", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="executes", evidence="executes", kind="process", weight=0.1, per_turn=True, agg="mean"),
    ),
    gates=(
        Veto(evidence="write_attempt", floor=-1.0),
        Requires(evidence="parsed", on="executes"),
        NeedsOutcome(at_least=0.5),
        CapProcess(limit=0.1),
    ),
)

REASONING_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="correct", evidence="correct", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="executes", evidence="executes", kind="process", weight=0.15, per_turn=True, agg="mean"),
        FromEvidence(name="empty", evidence="empty", kind="process", weight=-0.05, per_turn=True, agg="mean"),
        FromEvidence(name="repeated", evidence="repeated", kind="process", weight=-0.1, per_turn=True, agg="mean"),
        FromEvidence(name="parsed", evidence="parsed", kind="process", weight=0.05, per_turn=True, agg="mean"),
    ),
    gates=(
        Veto(evidence="write_attempt", floor=-1.0),
        Requires(evidence="parsed", on="executes"),
        NeedsOutcome(at_least=0.5),
        CapProcess(limit=0.2),
    ),
)
"""The shape of Reasoning-SQL (https://arxiv.org/abs/2503.23157) with the evidence of an episode: execution is the
outcome; syntax counts per turn, as a mean and only in episodes that were won. The published weights let a wrong query
that parses outrank a right one; here the process parts move a won episode by 0.35 at most. Schema and n-gram terms are
not in it, because they pay for likeness with one of many right queries; ``schema_linking`` and ``ngram_similarity`` add
them. Weights are ours.
"""
