"""What a rubric earns, settles, refuses and stores."""

import copy
import dataclasses
import gc
import json
import math
import pickle
import sys
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turngate.envs.sql.rubric import RUBRIC as SQL
from turngate.errors import ConfigError, DuplicateName, UnknownName
from turngate.rewards import (
    FromEvidence,
    Gate,
    GateAccount,
    Reward,
    Rubric,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.rewards.outcome.calibration import AnswerOrAbstain, BrierScore, Rlcr
from turngate.rewards.outcome.calls import ToolRL
from turngate.rewards.outcome.search import CitedAnswer, StepSearchAnswer
from turngate.rewards.parts import Line
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Observation,
    Record,
    RewardEvent,
    Task,
    Trajectory,
    Turn,
)

WON = FromEvidence(name="won", evidence="won", kind="outcome")


def fact(name: str, value: Any, turn: int | None = None) -> Evidence:
    return Evidence(name=name, value=value, turn=turn)


def record(*facts: Evidence, n_turns: int = 4, ending: Ending = Ending.FINISHED) -> Record:
    return Record(task_id="t/1", n_turns=n_turns, ending=ending, evidence=facts)


def step(agg: str = "mean", **settings: Any) -> FromEvidence:
    return FromEvidence(name="step", evidence="step", per_turn=True, agg=agg, **settings)


def steps(*values: Any) -> tuple[Evidence, ...]:
    return tuple(fact("step", value, turn) for turn, value in enumerate(values))


# --- earning ---------------------------------------------------------------------------------------------------------


def test_outcome_is_paid_on_the_last_turn():
    score = Rubric(rewards=(WON,)).score(record(fact("won", True)))
    assert score.reward_T.dtype == np.float32
    assert score.reward_T.tolist() == [0, 0, 0, 1]
    assert (score.outcome, score.total, score.usable, score.problem) == (1.0, 1.0, True, "")


@pytest.mark.parametrize(
    ("agg", "expected"),
    [
        ("mean", [0.25, 0, 0.125, 0.125]),
        ("sum", [1, 0, 0.5, 0.5]),
        ("last", [0, 0, 0, 0.5]),
        ("max", [1, 0, 0, 0]),
        ("min", [0, 0, 0, 0]),
    ],
)
def test_per_turn_payments(agg: str, expected: list[float]):
    rubric = Rubric(rewards=(WON, step(agg)))
    facts = [fact("step", 1.0, 0), fact("step", 0, 1), fact("step", 0.5, 2), fact("step", 0.5, 3)]
    assert rubric.score(record(*facts, fact("won", False))).reward_T.tolist() == expected


@pytest.mark.parametrize(("agg", "value"), [("mean", 0.5), ("sum", 1.5), ("last", 0.4), ("max", 1.0), ("min", 0.1)])
def test_episode_component_aggregates_its_verdicts_into_one_event(agg: Any, value: float):
    quality = FromEvidence(name="quality", evidence="step", agg=agg, weight=2.0)
    score = Rubric(rewards=(WON, quality)).score(record(*steps(1.0, None, 0.1, 0.4), fact("won", 1)))
    event = score.ledger[1]
    assert (event.name, event.turn) == ("quality", None)
    assert event.value == pytest.approx(value)
    assert score.reward_T.tolist() == pytest.approx([0, 0, 0, 1 + 2 * value])


def test_the_ledger_is_in_turn_order_and_verdicts_on_the_episode_come_last():
    rubric = Rubric(rewards=(WON, step(), FromEvidence(name="end", evidence="end", agg="last")))
    facts = [fact("step", 1, 2), fact("step", 1, 0), fact("step", 1, 1), fact("end", 1), fact("end", 0.25, 0)]
    ledger = rubric.score(record(*facts, fact("won", 1))).ledger
    assert [event.turn for event in ledger] == [None, 0, 1, 2, None]
    assert ledger[-1].value == 1.0


def test_a_ledger_shows_verdicts_as_they_were_measured_whole_weights_and_the_share_of_each():
    rubric = Rubric(rewards=(WON, step("mean", weight=0.6)))
    ledger = rubric.score(record(*steps(1.0, 0.25, 0.5), fact("won", 1))).ledger[1:]
    assert [event.value for event in ledger] == [1.0, 0.25, 0.5]
    assert [(event.weight, event.share) for event in ledger] == [(0.6, 1 / 3)] * 3
    assert [event.earned for event in ledger] == pytest.approx([0.2, 0.05, 0.1])
    summed = Rubric(rewards=(WON, step("sum", weight=0.6))).score(record(*steps(1.0, 0.25), fact("won", 1))).ledger[1:]
    assert [(event.value, event.weight, event.share) for event in summed] == [(1.0, 0.6, 1.0), (0.25, 0.6, 1.0)]


def test_events_are_the_same_as_from_their_constructor():
    """Ledgers are filled in past the constructor; whatever ``RewardEvent`` gains must be filled in there, too."""
    line = Line("step", "process", 3, 0.5, 0.2, 0.125)
    line.cut("cap_process(0.1)", 0.25)
    expected = {"name": "step", "kind": "process", "turn": 3, "value": 0.5, "weight": 0.2, "share": 0.125}
    expected["factor"] = 0.25
    event = line.event()
    assert event == RewardEvent(**expected, gate="cap_process(0.1)")  # type: ignore[arg-type]
    assert {field.name for field in dataclasses.fields(event)} == {*expected, "gate"}
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.value = 1.0  # type: ignore[misc]


def test_the_work_is_linear_in_turns():
    """Counted in function calls, which do not depend on the machine."""

    def calls(n_turns: int) -> int:
        facts = [fact(name, True, turn) for turn in range(n_turns) for name in ("parsed", "executes", "write_attempt")]
        one = record(*facts, fact("correct", True), n_turns=n_turns)
        counted = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        gc.disable()  # whoever watches the collector would be counted
        sys.setprofile(count)
        try:
            SQL.score(one)
        finally:
            sys.setprofile(None)
            gc.enable()
        return counted

    calls(8)  # warms what is computed once
    at_8, at_16, at_32 = calls(8), calls(16), calls(32)
    assert at_8 < at_16
    assert at_32 - at_16 == 2 * (at_16 - at_8)


def test_several_verdicts_in_one_turn_share_the_mean():
    rubric = Rubric(rewards=(WON, step()))
    score = rubric.score(record(fact("step", 1, 2), fact("step", 1, 2), fact("step", 0, 1), fact("won", 0)))
    assert score.reward_T.tolist() == pytest.approx([0, 0, 2 / 3, 0])


def test_an_unmeasured_process_earns_no_event_rather_than_zero():
    rubric = Rubric(rewards=(WON, step()))
    assert [event.name for event in rubric.score(record(*steps(None, None), fact("won", 1))).ledger] == ["won"]
    ledger = rubric.score(record(*steps(1, None, 0), fact("won", 1))).ledger
    assert [(event.turn, event.value) for event in ledger] == [(None, 1.0), (0, 1.0), (2, 0.0)]
    assert [(event.weight, event.share) for event in ledger] == [(1.0, 1.0), (1.0, 0.5), (1.0, 0.5)]


@pytest.mark.parametrize("facts", [(), (fact("won", None),), (fact("other", 1),)])
def test_an_unmeasured_outcome_makes_the_episode_unusable(facts: tuple[Evidence, ...]):
    score = Rubric(rewards=(WON,)).score(record(*facts))
    assert (score.usable, score.outcome, score.ledger, score.reward_T.tolist()) == (False, None, (), [0] * 4)
    assert "'won'" in score.problem


@pytest.mark.parametrize("ending", list(Ending))
def test_what_an_ending_says_about_the_policy(ending: Ending):
    score = Rubric(rewards=(WON,)).score(record(fact("won", 1), ending=ending))
    assert score.usable is ending.usable
    assert score.outcome == (0.0 if ending is Ending.AGENT_FAULT else 1.0 if ending.usable else None)
    assert (ending.value in score.problem) is not ending.usable
    assert len(score.ledger) == ending.usable


def test_an_episode_without_turns_is_paid_in_the_ledger_only():
    score = Rubric(rewards=(WON,)).score(record(fact("won", 1), n_turns=0))
    assert score.reward_T.shape == (0,)
    assert score.total == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.01, -0.01, "1", "", [1], {"a": 1}])
@pytest.mark.parametrize("name", ["won", "step"])
def test_values_that_are_no_numbers_in_range_name_component_task_and_turn(name: str, value: Any):
    rubric = Rubric(rewards=(WON, step()))
    facts = [fact("won", value if name == "won" else 1), fact("step", value if name == "step" else 1, 2)]
    with pytest.raises(ValueError, match=rf"'{name}' of task 't/1', {'turn 2' if name == 'step' else 'whole episode'}"):
        rubric.score(record(*facts))


@pytest.mark.parametrize(("turn", "match"), [(4, "outside the episode's 4"), (-1, "outside"), (None, "no turn")])
def test_evidence_about_impossible_turns_is_refused(turn: int | None, match: str):
    with pytest.raises(ValueError, match=match):
        Rubric(rewards=(WON, step())).score(record(fact("won", 1), fact("step", 1, turn)))


# --- construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"low": 1.0},
        {"low": 2.0},
        {"weight": math.nan},
        {"weight": math.inf},
        {"high": math.inf},
        {"weight": 1e308, "high": 10.0},
        {"low": math.nan},
        {"kind": "penalty"},
    ],
)
def test_impossible_components_are_refused(settings: dict[str, Any]):
    with pytest.raises(ConfigError, match="'step'"):
        step(**settings)


def test_a_penalty_takes_a_negative_weight_or_a_negative_range():
    slow = FromEvidence(name="slow", evidence="slow", kind="penalty", weight=-0.5)
    rude = FromEvidence(name="rude", evidence="rude", kind="penalty", low=-1.0, high=0.0)
    score = Rubric(rewards=(WON, slow, rude)).score(record(fact("won", 1), fact("slow", True), fact("rude", -0.25)))
    assert score.total == 0.25
    assert score.outcome == 1.0


@pytest.mark.parametrize(
    ("rewards", "gates", "error", "match"),
    [
        ((), (), ConfigError, "no outcome"),
        ((step(),), (), ConfigError, "no outcome"),
        ((WON, WON), (), ConfigError, "two parts named 'won'"),
        ((WON,), (veto("x"), veto("x", -0.5)), ConfigError, r"two parts named 'veto\(x\)'"),
        ((WON, step()), (requires("ok", on="stepp"),), UnknownName, "did you mean 'step'"),
        ((WON,), (needs_outcome(1.5),), ConfigError, "never opens"),
        ((WON,), (needs_outcome(0.0),), ConfigError, "never closes"),
    ],
)
def test_rubrics_that_cannot_work_are_refused(rewards: Any, gates: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        Rubric(rewards=rewards, gates=gates)


def test_a_copy_with_changes_is_checked_and_scored_anew():
    rubric = Rubric(rewards=(WON, step("sum", weight=0.1)), gates=(veto("wrote"),))
    facts = record(*steps(1, 1), fact("won", 1), fact("wrote", True))
    assert rubric.score(facts).total == -1.0
    assert rubric.certain(facts) == 0.0
    free = rubric.model_copy(update={"gates": ()})
    assert free.score(facts).total == pytest.approx(1.2)
    assert free.certain(facts) == pytest.approx(0.2)
    with pytest.raises(ConfigError, match="no outcome"):
        rubric.model_copy(update={"rewards": ()})


def test_rubrics_survive_pickle_and_deepcopy():
    rubric = Rubric(rewards=(WON, step()), gates=(cap_process(0.4),))
    rubric.score(record(fact("won", 1)))
    for twin in (pickle.loads(pickle.dumps(rubric)), copy.deepcopy(rubric)):
        assert twin == rubric
        assert twin.score(record(fact("won", 1))).total == 1.0


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_a_rubric_is_a_json_dict_told_apart_by_type():
    rubric = Rubric(rewards=(WON, step(weight=0.1)), gates=(veto("wrote"), requires("ok", on="step")))
    data = json.loads(json.dumps(rubric.model_dump(mode="json")))
    assert [part["type"] for part in data["rewards"] + data["gates"]] == ["from_evidence"] * 2 + ["veto", "requires"]
    assert data["gates"] == [
        {"type": "veto", "evidence": "wrote", "floor": -1.0},
        {"type": "requires", "evidence": "ok", "on": "step"},
    ]
    assert Rubric.model_validate(data) == rubric
    assert Rubric.model_validate(rubric.model_dump()) == rubric


@pytest.mark.parametrize(("kind", "match"), [("vetoo", "did you mean 'veto'"), (None, "a gate needs a type")])
def test_unknown_types_name_the_closest(kind: str | None, match: str):
    data = {"rewards": [WON.model_dump()], "gates": [{"type": kind, "evidence": "x"}]}
    with pytest.raises(ValidationError, match=match):
        Rubric.model_validate(data)


def test_unknown_keys_are_refused():
    with pytest.raises(ValueError, match="flor"):
        Rubric.model_validate({"rewards": [WON.model_dump()], "gates": [{"type": "veto", "evidence": "x", "flor": 0}]})


def test_a_new_reward_is_a_subclass_and_loads_by_its_type():
    class Fewest(Reward):
        type: Literal["test_fewest"] = "test_fewest"

        @property
        def reads(self) -> tuple[str, ...]:
            return ("calls", "best")

        def verdicts(self, facts: Any) -> list[tuple[int | None, Any]]:
            calls, best = facts.verdicts("calls"), facts.verdicts("best")
            return [(None, best[0][1] / calls[0][1])] if calls and best else []

    rubric = Rubric(rewards=(WON, Fewest(name="fewest")))
    twin = Rubric.model_validate(rubric.model_dump(mode="json"))
    facts = record(fact("won", 1), fact("calls", 8), fact("best", 2))
    assert twin == rubric
    assert twin.score(facts).total == 1.25

    with pytest.raises(DuplicateName, match="'test_fewest'"):

        class Other(Gate):
            types = Reward.types
            type: Literal["test_fewest"] = "test_fewest"


# --- groups, accounts, certainty -------------------------------------------------------------------------------------


def trajectory(name: str, task: Task, won: bool) -> Trajectory:
    empty = np.zeros(0, np.int32)
    completion = Completion(ids_K=empty, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.SCRIPT, policy_version=0)
    turn = Turn(
        observation=Observation(text=""),
        context_ids=empty,
        completion=completion,
        source=np.zeros(0, np.uint8),
        action=Action(text="x"),
    )
    facts = (fact("step", 1, 0), fact("won", won))
    return Trajectory(id=name, task=task, turns=(turn,), ending=Ending.FINISHED, seed=0, evidence=facts)


def test_a_group_is_scored_in_order():
    task = Task(id="t/1", env_id="e", prompt="p")
    group = Group(task=task, trajectories=(trajectory("a", task, True), trajectory("b", task, False)))
    scored = Rubric(rewards=(WON, step(weight=0.5))).score_group(group)
    assert scored.trajectories is group.trajectories
    assert [score.total for score in scored.scores] == [1.5, 0.5]


def test_accounts_say_what_each_gate_closed_and_cut():
    rubric = Rubric(
        rewards=(WON, step("sum")), gates=(veto("wrote"), requires("ok", on="step"), needs_outcome(0.5), cap_process(1))
    )
    ok = [fact("ok", True, turn) for turn in range(2)]
    scores = [
        rubric.score(record(*steps(1, 1, 1, 1), *ok, fact("won", 1))),  # two not ok, two cut to a half
        rubric.score(record(*steps(1), *ok, fact("won", 0))),  # closed by the outcome
        rubric.score(record(*steps(1), fact("wrote", 1), fact("won", 1))),  # vetoed: nothing reaches the others
        rubric.score(record(fact("won", None))),  # unusable
    ]
    account = rubric.account(scores)
    assert list(account) == ["veto(wrote)", "requires(ok, on=step)", "needs_outcome(0.5)", "cap_process(1.0)"]
    assert account["veto(wrote)"] == GateAccount(raw=8.0, paid=1.0, n_events=9, n_closed=2, n_cut=0)
    assert account["requires(ok, on=step)"] == GateAccount(raw=5.0, paid=1.0, n_events=5, n_closed=2, n_cut=0)
    assert account["needs_outcome(0.5)"] == GateAccount(raw=3.0, paid=1.0, n_events=3, n_closed=1, n_cut=0)
    assert account["cap_process(1.0)"] == GateAccount(raw=2.0, paid=1.0, n_events=2, n_closed=0, n_cut=2)
    assert account["requires(ok, on=step)"].open_rate == pytest.approx(0.6)
    assert rubric.account([])["veto(wrote)"].open_rate is None


@pytest.mark.parametrize(
    ("agg", "gates", "certain"),
    [
        ("sum", (), 0.2),
        ("mean", (), 0.0),
        ("sum", (veto("x"),), 0.0),
        ("sum", (needs_outcome(0.5),), 0.0),
        ("sum", (cap_process(9.0),), 0.0),
        ("sum", (requires("ok", on="step"),), 0.0),
    ],
)
def test_certain_is_only_what_no_later_event_can_change(agg: str, gates: Any, certain: float):
    rubric = Rubric(rewards=(WON, step(agg, weight=0.1)), gates=gates)
    assert rubric.certain(record(*steps(1, 1), n_turns=2)) == pytest.approx(certain)


# --- properties ------------------------------------------------------------------------------------------------------

SHARES = st.floats(0, 1, allow_subnormal=False)
AGGS = st.sampled_from(["mean", "sum", "last", "min", "max"])


@st.composite
def components(draw: st.DrawFn, name: str) -> FromEvidence:
    low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-1.0, 0.0)]))
    weight = draw(st.sampled_from([-0.5, 0.1, 0.3, 2.0]))
    kind = draw(st.sampled_from(["process", "penalty"]))
    if kind == "penalty" and max(weight * low, weight * high) > 0:
        kind = "process"
    return FromEvidence(
        name=name, evidence=name, kind=kind, weight=weight, low=low, high=high, per_turn=draw(st.booleans()),
        agg=draw(AGGS),
    )  # fmt: skip


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    extras = [draw(components(name)) for name in draw(st.sampled_from([(), ("a",), ("a", "b")]))]
    known = [veto("wrote"), veto("lied", -0.25), needs_outcome(0.5), cap_process(0.4)]
    known += [requires("ok", on=extra.name) for extra in extras]
    gates = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    return Rubric(rewards=(WON, *extras), gates=tuple(gates))


@st.composite
def records(draw: st.DrawFn, rubric: Rubric) -> Record:
    n_turns = draw(st.integers(1, 6))
    facts = [fact("won", draw(st.booleans()))]
    for component in rubric.rewards[1:]:
        for turn in range(n_turns):
            share = draw(st.none() | SHARES)
            value = None if share is None else component.low + share * (component.high - component.low)
            facts.append(fact(component.name, value, turn))
    facts += [fact("ok", draw(st.booleans()), turn) for turn in (*range(n_turns), None)]
    facts += [fact(name, True) for name in ("wrote", "lied") if draw(st.integers(0, 4)) == 0]
    return record(*facts, n_turns=n_turns)


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Rubric, Record]:
    rubric = draw(rubrics())
    return rubric, draw(records(rubric))


def view(score: Any) -> list[Any]:
    return [score.outcome, score.usable, score.reward_T.tolist(), score.ledger]


@given(episodes())
def test_what_is_paid_in_turns_is_what_the_ledger_paid(episode: tuple[Rubric, Record]):
    rubric, facts = episode
    score = rubric.score(facts)
    assert score.reward_T.shape == (facts.n_turns,)
    assert score.reward_T.sum(dtype=np.float64) == pytest.approx(sum(event.paid for event in score.ledger), abs=1e-5)


@given(episodes(), st.integers(0, 2**32))
def test_the_order_of_evidence_does_not_matter(episode: tuple[Rubric, Record], seed: int):
    rubric, facts = episode
    shuffled = [facts.evidence[i] for i in np.random.default_rng(seed).permutation(len(facts.evidence))]
    assert view(rubric.score(record(*shuffled, n_turns=facts.n_turns))) == view(rubric.score(facts))


@given(episodes())
def test_gates_change_only_factor_and_gate(episode: tuple[Rubric, Record]):
    rubric, facts = episode
    names = {gate.name for gate in rubric.gates}
    gated = [event for event in rubric.score(facts).ledger if event.name not in names]
    plain = rubric.model_copy(update={"gates": ()}).score(facts).ledger
    assert [(e.name, e.kind, e.turn, e.value, e.weight) for e in gated] == [
        (e.name, e.kind, e.turn, e.value, e.weight) for e in plain
    ]
    for event in gated:
        assert 0.0 <= event.factor <= 1.0
        assert (event.gate in names) if event.factor < 1.0 else (event.gate == "")


@given(episodes())
def test_a_stored_rubric_scores_the_same(episode: tuple[Rubric, Record]):
    rubric, facts = episode
    twin = Rubric.model_validate(json.loads(json.dumps(rubric.model_dump(mode="json"))))
    assert view(twin.score(facts)) == view(rubric.score(facts))


@given(st.lists(SHARES, min_size=1, max_size=60), AGGS, st.sampled_from([-0.7, 0.3]))
def test_payments_are_bounded_in_length_except_for_sums(values: list[float], agg: Any, weight: float):
    bare = Rubric(rewards=(WON, step(agg, weight=weight)))
    facts = record(*steps(*values), fact("won", 1), n_turns=len(values))
    paid = bare.score(facts).total - 1.0
    if agg != "sum":
        assert abs(paid) <= abs(weight) + 1e-9
    capped = bare.model_copy(update={"gates": (cap_process(0.2),)})
    assert abs(capped.score(facts).total - 1.0) <= 0.2 + 1e-9


@given(episodes())
def test_what_was_certain_after_each_turn_is_still_paid_in_the_end(episode: tuple[Rubric, Record]):
    rubric, facts = episode
    steady = {
        reward.name
        for reward in rubric.rewards
        if reward.per_turn
        and reward.agg == "sum"
        and not any(g.touches(reward.name, reward.kind) for g in rubric.gates)
    }
    ledger = rubric.score(facts).ledger
    for done in range(facts.n_turns + 1):
        seen = [f for f in facts.evidence if f.turn is not None and f.turn < done]
        paid = [e.paid for e in ledger if e.name in steady and e.turn is not None and e.turn < done]
        assert rubric.certain(record(*seen, n_turns=done)) == pytest.approx(sum(paid))


# --- episodes that the agent broke ------------------------------------------------------------------------------------


def test_what_the_agent_broke_is_paid_the_worst_whatever_was_measured():
    rubric = Rubric(
        rewards=(
            FromEvidence(name="solved", evidence="solved", kind="outcome", low=-1.0, levels=(-1.0, 0.0, 1.0)),
            FromEvidence(name="errors", evidence="errors", kind="outcome", weight=-2.0),
            FromEvidence(name="neat", evidence="neat", weight=0.1, per_turn=True),
            FromEvidence(name="calls", evidence="calls", kind="penalty", weight=-0.5, agg="sum"),
        ),
        gates=(needs_outcome(0.5),),
    )
    evidence = (Evidence(name="solved", value=1.0), Evidence(name="neat", value=1.0, turn=0))
    score = rubric.score(Record(task_id="t", n_turns=2, ending=Ending.AGENT_FAULT, evidence=evidence))
    assert (score.usable, score.problem) == (True, "")
    assert [(event.name, event.paid) for event in score.ledger] == [("solved", -1.0), ("errors", -2.0), ("calls", -0.5)]
    assert score.outcome == -3.0
    assert score.reward_T.tolist() == [0.0, -3.5]
    assert rubric.score(Record(task_id="t", n_turns=0, ending=Ending.AGENT_FAULT, evidence=())).total == -3.5


def test_one_sibling_that_the_agent_broke_is_compared_with_nobody():
    rubric = Rubric(rewards=(FromEvidence(name="solved", evidence="solved", kind="outcome", levels=(0, 1)),))
    fine = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=(Evidence(name="solved", value=True),))
    broken = Record(task_id="t", n_turns=1, ending=Ending.AGENT_FAULT, evidence=())
    assert [score.total for score in rubric.score_records([fine, broken])] == [1.0, 0.0]


# --- success ---------------------------------------------------------------------------------------------------------


def outcome_of(**changes):
    return FromEvidence(**{"name": "won", "evidence": "won", "kind": "outcome", "levels": (0, 1)} | changes)


def succeeded(rubric, **facts):
    evidence = tuple(Evidence(name=name, value=value) for name, value in facts.items())
    return rubric.score(Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=evidence)).success


@pytest.mark.parametrize(
    ("rewards", "success", "facts", "expected"),
    [
        ((outcome_of(),), None, {"won": True}, True),
        ((outcome_of(weight=0.5),), None, {"won": 1}, True),  # the best verdict, whatever it pays
        ((outcome_of(levels=None),), None, {"won": 0.9}, False),
        ((outcome_of(levels=None),), 0.8, {"won": 0.9}, True),
        ((outcome_of(levels=None, weight=2.0),), None, {"won": 0.6}, False),  # it earned 1.2 of 2
        ((outcome_of(high=5.0, levels=None),), None, {"won": 1.0}, False),
        ((outcome_of(weight=-1.0),), None, {"won": 0}, True),
        ((outcome_of(), outcome_of(name="b", evidence="b")), None, {"won": 1, "b": 0}, False),
        ((outcome_of(),), "seen", {"won": 0, "seen": True}, True),
        ((outcome_of(),), "seen", {"won": 1, "seen": 0.5}, False),
        ((Rlcr(name="x"),), None, {"correct": True, "stated_confidence": 0.2}, True),
        ((Rlcr(name="x"),), None, {"correct": True, "stated_confidence": False}, True),
        ((Rlcr(name="x"),), None, {"correct": False, "stated_confidence": 0.0}, False),
        ((BrierScore(name="x", kind="outcome"),), None, {"correct": False, "stated_confidence": 0.0}, False),
        ((CitedAnswer(name="x"),), None, {"correct": 1.0, "cited": [], "gold_chunks": [1]}, True),
        ((CitedAnswer(name="x"),), None, {"correct": 0.5, "cited": [1], "gold_chunks": [1]}, False),
        ((StepSearchAnswer(name="x"),), None, {"answer": "a", "gold": "a", "key_score": 0.0}, True),
        ((StepSearchAnswer(name="x"),), None, {"answer": "a b", "gold": "a", "key_score": 1.0}, False),
        ((ToolRL(name="x"),), None, {"calls": [], "gold_calls": [], "well_formed": False}, False),
        ((ToolRL(name="x"),), None, {"calls": [], "gold_calls": []}, True),
    ],
)
def test_success_is_what_the_rubric_says(rewards, success, facts, expected):
    rubric = Rubric.model_validate_json(Rubric(rewards=rewards, success=success).model_dump_json())
    assert succeeded(rubric, **facts) is expected


def test_a_success_that_was_not_measured_makes_an_episode_unusable():
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=(Evidence(name="won", value=1),))
    score = Rubric(rewards=(outcome_of(),), success="seen").score(record)
    assert (score.usable, score.success) == (False, False)
    assert "success was not measured" in score.problem


@pytest.mark.parametrize(
    ("rewards", "success", "problem"),
    [
        ((outcome_of(weight=0.5),), 1.0, r"success = 1 can never be reached: outcome 'won' earns 0 to 0\.5"),
        ((outcome_of(),), 0.0, "success = 0 is always reached"),
        ((AnswerOrAbstain(name="x"),), 1.5, "can never be reached"),
        ((ToolRL(name="x", high=3.0),), None, "outcome 'x' can never be a success: that takes a verdict of 4"),
    ],
)
def test_a_success_that_cannot_be_is_refused(rewards, success, problem):
    with pytest.raises(ConfigError, match=problem):
        Rubric(rewards=rewards, success=success)
