"""One of every reward and gate that is shipped, in a rubric in which it has an effect."""

from turngate.rewards import (
    BestSoFar,
    BottomLine,
    Budget,
    CapProcess,
    Conditional,
    EventCost,
    FromEvidence,
    Gate,
    Hierarchical,
    InformationGain,
    LengthCost,
    NeedsOutcome,
    Once,
    Repetition,
    Requires,
    Reward,
    Soft,
    SuccessOnly,
    Trust,
    UnitTests,
    Veto,
)
from turngate.rewards.outcome.answers import ExactMatch, ListOverlap, NumericMatch, TokenF1
from turngate.rewards.outcome.calibration import AnswerOrAbstain, BrierScore, Rlcr
from turngate.rewards.outcome.calls import FtrlAnswer, FtrlCalls, ToolRL
from turngate.rewards.outcome.code import LanserDiagnostics, Localisation, PatchSimilarity, ReproducedFirst
from turngate.rewards.outcome.gui import CandidateClicks, ConfidentClicks, StepVerdicts
from turngate.rewards.outcome.search import CitedAnswer, RetrievalRelevance, StepSearch, StepSearchAnswer
from turngate.rewards.outcome.sql import ExecutionMatch, NgramSimilarity, ResultF1, SchemaLinking, TagFormat

WON = FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1))
STEP = FromEvidence(name="step", evidence="step", weight=0.3, per_turn=True, agg="sum")
TIDY = FromEvidence(name="tidy", evidence="tidy", weight=0.3)

FORMULAS: tuple[type[Reward], ...] = (
    AnswerOrAbstain,
    BrierScore,
    CandidateClicks,
    CitedAnswer,
    ConfidentClicks,
    ExactMatch,
    ExecutionMatch,
    FtrlAnswer,
    FtrlCalls,
    LanserDiagnostics,
    ListOverlap,
    Localisation,
    NgramSimilarity,
    NumericMatch,
    PatchSimilarity,
    ReproducedFirst,
    ResultF1,
    RetrievalRelevance,
    Rlcr,
    SchemaLinking,
    StepSearch,
    StepSearchAnswer,
    StepVerdicts,
    TagFormat,
    TokenF1,
    ToolRL,
)

REWARDS: dict[str, tuple[Reward, ...]] = {
    "from_evidence": (WON, STEP, TIDY),
    "unit_tests": (UnitTests(name="tests", guard="pass_to_pass", soft=True), UnitTests(name="hard")),
    "event_cost": (EventCost(name="void", evidence="void_turn"),),
    "repetition": (Repetition(name="again", state="state_key"),),
    "length_cost": (
        LengthCost(name="long", start=2, limit=8, only_if="won"),
        LengthCost(name="tokens", start=20, limit=80, evidence="tokens"),
    ),
    "information_gain": (InformationGain(name="gain", weight=0.3),),
    **{made(name="graded", weight=0.3).type: (made(name="graded", weight=0.3),) for made in FORMULAS},
}
"""By ``type``."""

GATES: dict[str, Gate] = {
    gate.type: gate
    for gate in (
        Veto(evidence="wrote"),
        Requires(evidence="ok", on="step"),
        NeedsOutcome(at_least=0.5),
        SuccessOnly(),
        CapProcess(limit=0.4),
        Once(on="step"),
        Budget(on="step", limit=0.2),
        BestSoFar(on="step"),
        Hierarchical(levels=(("won",), ("tidy",)), at_least=(1.0,)),
        Conditional(given="tidy", at_least=0.5, pays=("step",)),
        BottomLine(constraints={"tidy": 0.5}, goals=("step",)),
        Soft(on="step", at_least=1.0, answered="answered", malformed="malformed"),
        Trust(on="tidy"),
    )
}
"""By ``type``. Each acts on ``STEP`` or ``TIDY``."""


def types(base: type[Reward] | type[Gate]) -> set[str]:
    """The types that turngate itself ships: a test may have made others known."""
    return {name for name, part in base.catalogue().items() if part.__module__.startswith("turngate.")}
