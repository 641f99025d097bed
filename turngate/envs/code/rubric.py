"""Payments of a repair: the ladder of G-RA, which gates the payments per turn.

Source: https://arxiv.org/abs/2508.10548 (gated reward accumulation). The order of the ladder is the paper's; its
values, the threshold and the weights per turn are ours, because the paper's were not found.
"""

from turngate.rewards.gates.ladders import Hierarchical
from turngate.rewards.gates.limits import BestSoFar
from turngate.rewards.gates.whole_kinds import Veto
from turngate.rewards.rubric import FromEvidence, Rubric

NOT_SUBMITTED, EMPTY_PATCH, TESTS_FAIL, RESOLVED = -1.0, -0.5, 0.0, 1.0

_LADDER = FromEvidence(
    name="ladder",
    evidence="ladder",
    kind="outcome",
    weight=1.0,
    low=NOT_SUBMITTED,
    high=RESOLVED,
    levels=(NOT_SUBMITTED, EMPTY_PATCH, TESTS_FAIL, RESOLVED),
    agg="last",
)
_VETOES = (Veto(evidence="tampering", floor=-1.0), Veto(evidence="control_passed", floor=-1.0))

RUBRIC = Rubric(
    rewards=(
        _LADDER,
        FromEvidence(name="parsed", evidence="parsed", weight=0.05, per_turn=True, agg="mean"),
        FromEvidence(name="call_ok", evidence="call_ok", weight=0.05, per_turn=True, agg="mean"),
        FromEvidence(name="localised", evidence="localised", weight=0.1, per_turn=True, agg="mean"),
        FromEvidence(name="tests_fixed", evidence="tests_fixed", weight=0.1, per_turn=True, agg="sum"),
    ),
    gates=(
        *_VETOES,
        Hierarchical(levels=(("ladder",), ("parsed", "call_ok", "localised", "tests_fixed")), at_least=(TESTS_FAIL,)),
        BestSoFar(on="tests_fixed"),
    ),
)

DIRECT_RUBRIC = Rubric(
    rewards=(
        _LADDER,
        FromEvidence(name="parsed", evidence="parsed", weight=0.05, per_turn=True, agg="sum"),
        FromEvidence(name="call_ok", evidence="call_ok", weight=0.05, per_turn=True, agg="sum"),
        FromEvidence(name="localised", evidence="localised", weight=0.1, per_turn=True, agg="sum"),
        FromEvidence(name="tests_fixed", evidence="tests_fixed", weight=0.1, per_turn=True, agg="sum"),
    ),
    gates=_VETOES,
)
"""The same rewards accumulated directly, turn by turn and whatever the outcome: the paper's D-RA, for comparison. Its
``check()`` says which payments can be farmed."""
