"""Rewards and gates: pure functions from recorded evidence to a settled ledger.

``parts`` holds the two kinds of parts and what they work on, ``gates`` the gates, ``rubric`` puts them together and
``safety`` says beforehand what can overtake what.
"""

from turngate.rewards.gates import (
    CapProcess,
    NeedsOutcome,
    Requires,
    Veto,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.rewards.parts import Gate, Reward
from turngate.rewards.rubric import FromEvidence, GateAccount, Rubric
from turngate.rewards.safety import Bound, Run, Safety

__all__ = [
    "Bound",
    "CapProcess",
    "FromEvidence",
    "Gate",
    "GateAccount",
    "NeedsOutcome",
    "Requires",
    "Reward",
    "Rubric",
    "Run",
    "Safety",
    "Veto",
    "cap_process",
    "needs_outcome",
    "requires",
    "veto",
]
