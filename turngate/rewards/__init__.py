"""Rewards and gates: pure functions from recorded evidence to a settled ledger.

``parts`` holds the two kinds of parts and what they work on, ``rubric`` puts them together. Gates lie in ``gates`` (for
a whole kind of reward), ``limits`` (for one component), ``ladders`` (one component waits for another) and ``shares``
(part payments). ``safety`` says beforehand what can overtake what, with ``ranges`` for the proof and ``staging`` for
the counter-example. ``components`` and ``outcome.components`` hold the rewards that are more than one number.

Importing this package makes every reward and gate that it ships known by its ``type``, so that a rubric in JSON loads.
"""

from turngate.rewards.components import EventCost, InformationGain, LengthCost, Repetition
from turngate.rewards.gate import Gate
from turngate.rewards.gates import (
    CapProcess,
    NeedsOutcome,
    Requires,
    SuccessOnly,
    Veto,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.rewards.ladders import BottomLine, Conditional, Hierarchical
from turngate.rewards.limits import BestSoFar, Budget, Once
from turngate.rewards.outcome.components import UnitTests
from turngate.rewards.parts import Condition, Reward
from turngate.rewards.rubric import FromEvidence, GateAccount, Rubric
from turngate.rewards.safety import Bound, Example, Safety
from turngate.rewards.shares import Soft, Trust, trust_factors
from turngate.rewards.staging import ImaginedEpisode

__all__ = [
    "BestSoFar",
    "BottomLine",
    "Bound",
    "Budget",
    "CapProcess",
    "Condition",
    "Conditional",
    "EventCost",
    "Example",
    "FromEvidence",
    "Gate",
    "GateAccount",
    "Hierarchical",
    "ImaginedEpisode",
    "InformationGain",
    "LengthCost",
    "NeedsOutcome",
    "Once",
    "Repetition",
    "Requires",
    "Reward",
    "Rubric",
    "Safety",
    "Soft",
    "SuccessOnly",
    "Trust",
    "UnitTests",
    "Veto",
    "cap_process",
    "needs_outcome",
    "requires",
    "trust_factors",
    "veto",
]
