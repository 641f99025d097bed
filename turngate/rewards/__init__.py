"""Rewards and gates: pure functions from the recorded evidence of an episode to what it is paid, turn by turn.

``parts`` defines rewards and gates and the data that they work on; ``rubric`` puts them together. The gates that ship
are in ``gates`` (for a whole kind of reward), ``limits`` (for one component), ``ladders`` (one component waits for
another) and ``shares`` (part payments). ``components`` and ``outcome`` hold the rewards that ship. ``safety`` proves
before a run that process rewards cannot outrank the outcome: ``regions`` and ``ranges`` compute what can be paid,
``counterexamples`` makes imagined episodes that break a bound.
"""

from turngate.rewards.components import EventCost, InformationGain, LengthCost, Repetition
from turngate.rewards.gates.base import Gate
from turngate.rewards.gates.ladders import BottomLine, Conditional, Hierarchical
from turngate.rewards.gates.limits import BestSoFar, Budget, Once
from turngate.rewards.gates.shares import Soft, Trust, trust_factors
from turngate.rewards.gates.whole_kinds import (
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
from turngate.rewards.outcome.components import UnitTests
from turngate.rewards.parts import Condition, Reward
from turngate.rewards.rubric import FromEvidence, GateAccount, Rubric
from turngate.rewards.safety.counterexamples import ImaginedEpisode
from turngate.rewards.safety.proof import Bound, Example, Safety

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
