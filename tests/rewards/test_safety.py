"""I1–I3: what the check claims, a played episode must confirm."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turngate.envs import lock
from turngate.envs.code import rubric as code
from turngate.envs.sql import rubric as sql
from turngate.errors import ConfigError
from turngate.rewards import (
    BestSoFar,
    BottomLine,
    Budget,
    Conditional,
    FromEvidence,
    Gate,
    Hierarchical,
    ImaginedEpisode,
    Once,
    Rubric,
    Soft,
    SuccessOnly,
    Trust,
    UnitTests,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.types import Ending, Evidence, Record

WON = FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1))
TIE = 1e-6


def part(name: str, **settings: Any) -> FromEvidence:
    return FromEvidence(name=name, evidence=name, **settings)


def rubric(*gates: Any, **settings: Any) -> Rubric:
    return Rubric(rewards=(WON, part("p", per_turn=True, **settings)), gates=gates)


def holds(rubric: Rubric) -> list[bool]:
    safety = rubric.check()
    assert safety.safe is all(bound.holds for bound in safety.bounds)
    return [safety[name].holds for name in ("I1", "I2", "I3")]


@pytest.mark.parametrize(
    ("settings", "gates", "expected"),
    [
        ({"weight": 0.9}, (), [True, True, True]),
        ({"weight": 1.0}, (), [False, True, True]),  # a tie is overtaking
        ({"weight": 0.6, "low": -1.0}, (), [False, True, True]),  # range 1.2
        ({"weight": 1.0}, (needs_outcome(0.5),), [True, True, True]),
        ({"weight": 1.0, "low": -3.0, "high": 0.0}, (needs_outcome(0.5),), [True, False, True]),  # I2's example: 1 − 3
        ({"weight": 1.0, "low": -3.0}, (needs_outcome(0.5), cap_process(0.9)), [True, True, True]),
        ({"weight": 0.01, "agg": "sum"}, (), [False, True, False]),
        ({"weight": 0.01, "agg": "sum"}, (needs_outcome(0.5),), [True, True, False]),
        ({"weight": 0.01, "agg": "sum"}, (cap_process(0.3),), [True, True, True]),
        ({"weight": 0.1}, (veto("wrote", -1.0),), [True, True, True]),
        ({"weight": 0.1, "low": -9.0}, (needs_outcome(0.5), veto("wrote", -0.5)), [True, True, True]),
        ({"weight": -0.6, "kind": "penalty"}, (veto("wrote", -0.5),), [True, False, True]),  # breaking rules is cheaper
        ({"weight": -2.0, "kind": "penalty"}, (needs_outcome(0.5),), [False, True, True]),
        ({"weight": 1.2, "agg": "sum"}, (Once(on="p"),), [False, True, True]),
        ({"weight": 0.8, "agg": "sum"}, (Once(on="p"),), [True, True, True]),
        ({"weight": 1.2, "agg": "sum"}, (BestSoFar(on="p"),), [False, True, True]),
        ({"weight": 1.2, "agg": "sum"}, (BestSoFar(on="p", start=0.5),), [True, True, True]),  # 0.6 at most
        ({"weight": 1.2, "agg": "sum"}, (Budget(on="p", limit=0.7),), [True, True, True]),
        ({"weight": 1.2, "agg": "sum", "low": -1.0}, (Budget(on="p", limit=0.7),), [False, True, True]),  # −0.7 … 0.7
        ({"weight": 1.2}, (SuccessOnly(),), [True, True, True]),
        ({"weight": 1.2, "agg": "sum"}, (SuccessOnly(),), [True, True, False]),
        ({"weight": 0.9}, (requires("ok", on="p"),), [True, True, True]),
        ({"weight": 0.3, "low": -1.0}, (requires("ok", on="p"),), [True, False, True]),  # not ok escapes the loss
        ({"weight": 1.2}, (Trust(on="p", open_from=0.0),), [False, True, True]),
        ({"weight": 1.2}, (Trust(on="p"),), [True, True, True]),  # nothing below outcome 0.2
        ({"weight": 1.2}, (Hierarchical(levels=(("won",), ("p",)), at_least=(1.0,)),), [True, True, True]),
        (
            {"weight": 1.2, "low": -1.0},
            (Hierarchical(levels=(("won",), ("p",)), at_least=(1.0,)),),
            [True, False, True],
        ),
        ({"weight": 1.2}, (Hierarchical(levels=(("p",), ("won",)), at_least=(1.0,)),), None),
    ],
)
def test_bounds_of_declared_ranges(settings: dict[str, Any], gates: Any, expected: list[bool] | None):
    if expected is None:
        with pytest.raises(ConfigError, match="would cut the outcome 'won'"):
            rubric(*gates, **settings)
    else:
        assert holds(rubric(*gates, **settings)) == expected


def test_a_ladder_of_outcomes_is_checked_between_all_levels():
    bonus = FromEvidence(name="p", evidence="p", weight=0.3, per_turn=True)
    for gate in (
        needs_outcome(0.0),
        Hierarchical(levels=(("stage",), ("p",)), at_least=(0.0,)),
        Conditional(given="stage", at_least=0.0, pays=("p",)),
    ):
        for levels, safe in (((-1, -0.5, 0, 1), True), ((-1, -0.5, 0, 0.25, 1), False), ((-1, 0, 1), True)):
            ladder = FromEvidence(name="stage", evidence="stage", kind="outcome", low=-1.0, levels=levels)
            assert holds(Rubric(rewards=(ladder, bonus), gates=(gate,))) == [safe, True, True]


TESTS = FromEvidence(name="tests", evidence="tests", kind="outcome")
STYLE = part("style", weight=0.4)


def test_a_graded_outcome_is_checked_at_any_level_in_its_range():
    """Tests at 0.75 plus style are paid 1.15 against 1.0: a share of tests has no smallest gap."""
    for gates in (
        (),
        (needs_outcome(0.5),),
        (Conditional(given="tests", at_least=0.5, pays=("style",)),),
        (cap_process(0.4),),
    ):
        safety = Rubric(rewards=(TESTS, STYLE), gates=gates).check()
        better, worse = safety["I1"].better, safety["I1"].worse
        assert better is not None
        assert worse is not None
        assert (better.outcome, better.total) == pytest.approx((1.0, 1.0))
        assert (worse.outcome, worse.total) == pytest.approx((0.8, 1.2))
        assert [paid(Rubric(rewards=(TESTS, STYLE), gates=gates), run) for run in (better, worse)] == pytest.approx(
            [1.0, 1.2]
        )


@pytest.mark.parametrize(
    ("rewards", "gates", "expected"),
    [
        ((), (), [True, True, True]),  # nothing but the outcome
        ((STYLE,), (SuccessOnly(),), [True, True, True]),  # 1.4 at the top, the outcome alone below
        ((STYLE,), (needs_outcome(1.0),), [True, True, True]),
        ((STYLE,), (Hierarchical(levels=(("tests",), ("style",)), at_least=(1.0,)),), [True, True, True]),
        ((STYLE,), (Hierarchical(levels=(("tests",), ("style",)), at_least=(0.75,)),), [False, True, True]),
        ((STYLE,), (SuccessOnly(), cap_process(0.4)), [True, True, True]),
        ((part("p", weight=0.4, low=-1.0),), (SuccessOnly(),), [True, False, True]),  # 0.6 against 0.7 below
        ((part("cost", kind="penalty", weight=-0.01),), (), [False, True, True]),  # however little it costs
        ((part("cost", kind="penalty", weight=-0.01),), (SuccessOnly(on=("cost",)),), [True, False, True]),
        ((STYLE,), (veto("wrote", -0.5), SuccessOnly()), [True, True, True]),
        ((STYLE,), (Soft(on="style", at_least=0.9, answered="done", wrong=0, unanswered=0, broken=0),), None),
        ((STYLE,), (Trust(on="style"),), [False, True, True]),
        ((STYLE,), (cap_process(0.0),), [True, True, True]),
    ],
)
def test_what_may_stand_on_top_of_a_graded_outcome(rewards: Any, gates: Any, expected: list[bool] | None):
    graded = Rubric(rewards=(TESTS, *rewards), gates=gates)
    assert holds(graded) == (expected or [False, True, True])


def test_declared_levels_make_the_gap_finite():
    halves = TESTS.model_copy(update={"levels": (0, 0.5, 1)})
    assert holds(Rubric(rewards=(halves, STYLE))) == [True, True, True]
    quarters = TESTS.model_copy(update={"levels": (0, 0.25, 0.5, 0.75, 1)})
    safety = Rubric(rewards=(quarters, STYLE)).check()
    assert str(safety.problems[0]).endswith("[tests=1] = 1 is paid less than [tests=0.75, style=1] = 1.15")


def test_two_graded_parts_add_up_to_more_levels():
    """Thirds of one and halves of the other differ by as little as 1/12 of the whole: 1/3 against 1/4."""
    thirds = FromEvidence(name="a", evidence="a", kind="outcome", weight=0.5, levels=(0, 1 / 3, 2 / 3, 1))
    halves = FromEvidence(name="b", evidence="b", kind="outcome", weight=0.5, levels=(0, 0.5, 1))
    assert holds(Rubric(rewards=(thirds, halves, part("p", weight=0.08)))) == [True, True, True]
    unsafe = Rubric(rewards=(thirds, halves, part("p", weight=0.09)))
    bound = unsafe.check()["I1"]
    assert bound.better is not None
    assert bound.worse is not None
    assert bound.better.outcome - bound.worse.outcome == pytest.approx(1 / 12)
    assert [paid(unsafe, bound.better), paid(unsafe, bound.worse)] == pytest.approx(
        [bound.better.total, bound.worse.total]
    )


def test_hidden_tests_are_yes_or_no_unless_they_are_soft():
    assert Rubric(rewards=(UnitTests(name="tests"), STYLE)).check().safe
    soft_tests = Rubric(rewards=(UnitTests(name="tests", soft=True, guard="kept"), STYLE))
    bound = soft_tests.check()["I1"]
    assert bound.worse is not None
    assert paid(soft_tests, bound.worse) == pytest.approx(bound.worse.total) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"levels": ()}, "must rise from low=0 to high=1"),
        ({"levels": (0, 0.5)}, "must rise from low=0 to high=1"),
        ({"levels": (1, 0)}, "must rise"),
        ({"levels": (0, 0, 1)}, "each once"),
        ({"levels": (0, float("nan"), 1)}, "must rise"),
        ({"levels": (0, 1), "agg": "sum"}, "an outcome with one verdict"),
        ({"levels": (0, 1), "per_turn": True}, "an outcome with one verdict"),
        ({"levels": (0, 1), "kind": "process"}, "an outcome with one verdict"),
    ],
)
def test_levels_that_cannot_be_raise(settings: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=f"component 'won' has levels.*{words}"):
        FromEvidence(**({"name": "won", "evidence": "won", "kind": "outcome"} | settings))


def test_a_verdict_beside_the_levels_is_refused():
    facts = tuple(Evidence(name="won", value=value) for value in (True, False))
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts)
    with pytest.raises(
        ValueError, match=r"component 'won' of task 't', whole episode: earned 0.5; its levels are 0, 1"
    ):
        Rubric(rewards=(WON,)).score(record)


def test_several_outcome_components_are_told_apart_by_conditions():
    """Half the outcome may come from either component, so the gate on one of them may be open or closed there."""
    tests = FromEvidence(name="tests", evidence="tests", kind="outcome", weight=0.5, levels=(0, 1))
    lint = FromEvidence(name="lint", evidence="lint", kind="outcome", weight=0.5, levels=(0, 1))
    gated = Rubric(
        rewards=(tests, lint, part("p", weight=0.6)), gates=(Conditional(given="tests", at_least=1.0, pays=("p",)),)
    )
    safety = gated.check()
    assert not safety["I1"].holds
    better, worse = safety["I1"].better, safety["I1"].worse
    assert better is not None
    assert worse is not None
    assert (better.total, worse.total) == pytest.approx((1.0, 1.1))
    assert [paid(gated, run) for run in (better, worse)] == pytest.approx([1.0, 1.1])


def test_the_verdict_is_put_in_words_and_numbers():
    lines = str(rubric(needs_outcome(0.5), cap_process(2.0), agg="sum", weight=0.3, low=-4.0).check()).splitlines()
    assert lines[0] == "I1 holds: no two outcomes lie on the same side of every gate, so nothing can overtake"
    assert lines[1] == (
        "I2 VIOLATED: an episode with outcome 1, process -1.2, penalties +0 (-0.2 in all, 1 verdicts) is paid less "
        "than an episode with outcome 0, process +0, penalties +0 (0 in all, 1 verdicts)"
    )
    assert lines[2] == "I3 holds: whatever the length, process pays -2 to 2 and penalties cost at most 0"
    assert lines[3] == "  needs_outcome(0.5): [won=1, p=-4] = -0.2 is paid less than [won=0, p=1] = 0 (I2)"
    assert lines[4] == "  cap_process(2.0): no example gets past it"


def test_endless_sums_are_named_with_an_episode_that_repeats_itself():
    safety = rubric(needs_outcome(0.5), agg="sum", weight=0.3).check()
    assert safety["I3"].sentence == (
        "every further verdict pays again for 'p' (up to 0.3 each); use agg='mean' or another one-verdict agg, "
        "or one of once, best_so_far and budget, or cap_process"
    )
    (example,) = safety.examples
    assert str(example) == (
        "needs_outcome(0.5): [won=1, p=1] = 1.3 is paid less than [won=1, p=1 ×5] = 2.5 (I3)"  # more than the outcome
    )


def test_a_safe_rubric_prints_its_bounds_only():
    assert len(str(rubric(needs_outcome(0.5), weight=0.1).check()).splitlines()) == 3


def test_the_counter_example_is_the_shortest():
    safety = rubric(weight=0.25, agg="sum").check()
    worse = safety["I1"].worse
    assert worse is not None
    assert (worse.n_verdicts, worse.total) == (4, 1.0)


def test_where_facts_and_components_share_evidence_the_example_is_consistent():
    """A gate may read what a component earns from: then the episode that overtakes must have both."""
    noisy = part("noisy", weight=0.4, per_turn=True)
    judged = part("judged", weight=0.3, low=-1.0, per_turn=True)
    shared = Rubric(rewards=(WON, noisy, judged), gates=(requires("noisy", on="judged"),))
    bound = shared.check()["I2"]
    assert not bound.holds
    assert bound.better is not None
    assert bound.worse is not None
    assert paid(shared, bound.better) < paid(shared, bound.worse)


def test_what_ranges_cannot_rule_out_and_no_episode_shows_is_called_not_proven():
    """The gate reads the outcome's own evidence, which the ranges take to be independent of the outcome."""
    bound = rubric(requires("won", on="p"), weight=1.2, agg="mean").check()["I1"]
    assert not bound.holds
    assert bound.better is None
    assert "not proven" in bound.sentence
    assert holds(rubric(Conditional(given="won", at_least=1.0, pays=("p",)), weight=1.2)) == [True, True, True]


# --- the check against played episodes -------------------------------------------------------------------------------


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    rewards = [WON]
    for name in draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")])):
        low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-2.0, 0.0), (0.5, 1.0)]))
        weight = draw(st.sampled_from([-0.3, 0.05, 0.2, 0.35, 0.8]))
        kind = "penalty" if max(weight * low, weight * high) <= 0 and draw(st.booleans()) else "process"
        per_turn, agg = draw(st.booleans()), draw(st.sampled_from(["mean", "mean", "max", "last", "sum"]))
        rewards.append(part(name, kind=kind, weight=weight, low=low, high=high, per_turn=per_turn, agg=agg))
    known: list[Gate] = [veto("wrote", -0.5), needs_outcome(0.5), cap_process(0.4), requires("ok", on="a")]
    known += [
        SuccessOnly(),
        Soft(on="a", at_least=1.0, answered="answered"),
        Hierarchical(levels=(("won",), ("a",)), at_least=(1.0,)),
    ]
    known += [Soft(on="a", at_least=1.0, answered="answered", malformed="bad", wrong=0.5, unanswered=0.3, broken=0.1)]
    names = [reward.name for reward in rewards[1:]]
    summed = [r.name for r in rewards[1:] if r.per_turn and r.agg == "sum"]
    steady = [r for r in rewards[1:] if r.agg != "sum" and not (r.per_turn and r.agg == "mean" and r.low < 0 < r.high)]
    known += [Once(on=name) for name in summed]
    known += [BestSoFar(on=r.name, start=0.25) for r in rewards[1:] if r.name in summed and r.high > 0.25]
    known += [Budget(on=r.name, limit=0.15) for r in rewards[1:] if max(map(abs, r.span(9.0))) > 0.15]
    for one in steady:
        others = [name for name in names if name != one.name]
        if others and one.high >= 0.5:
            known += [
                Hierarchical(levels=((one.name,), tuple(others)), at_least=(0.5,), op=">" if one.high > 0.5 else ">=")
            ]
            known += [
                BottomLine(constraints={one.name: 0.5}, goals=tuple(others)),
                Conditional(given=one.name, at_least=0.5, pays=tuple(others)),
            ]
            known += [Hierarchical(levels=(("won",), (one.name,), tuple(others)), at_least=(1.0, 0.5))]
    chosen = draw(st.permutations(known))[: draw(st.integers(0, 4))]
    gates = [gate for place, gate in enumerate(chosen) if gate.name not in [g.name for g in chosen[:place]]]
    caps = [gate for gate in gates if gate.type in ("cap_process", "budget")]  # a limit stands at the end
    return Rubric(rewards=tuple(rewards), gates=tuple([gate for gate in gates if gate not in caps] + caps))


def paid(rubric: Rubric, run: ImaginedEpisode) -> float:
    return rubric.score(run.record).total


@st.composite
def records(draw: st.DrawFn, rubric: Rubric, won: bool) -> Record:
    n_turns = draw(st.integers(1, 6))
    turns = (*range(n_turns), None)
    facts = [Evidence(name="won", value=won)]
    facts += [Evidence(name="ok", value=True, turn=turn) for turn in turns if draw(st.booleans())]
    facts += [Evidence(name=name, value=True) for name in ("answered", "bad") if draw(st.booleans())]
    for reward in rubric.rewards[1:]:
        values = st.none() | st.sampled_from([reward.low, reward.high]) | st.floats(reward.low, reward.high)
        facts += [Evidence(name=reward.name, value=draw(values), turn=turn) for turn in range(n_turns)]
    return Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(facts))


@given(rubrics(), st.data())
@settings(max_examples=60)
def test_failing_never_outranks_passing_when_the_check_says_so_and_does_when_it_does_not(rubric: Rubric, data: Any):
    safety = rubric.check()
    for bound in (safety["I1"], safety["I2"]):
        if not bound.holds:
            assert bound.better is not None
            assert bound.worse is not None
            better, worse = paid(rubric, bound.better), paid(rubric, bound.worse)
            assert better == pytest.approx(bound.better.total)
            assert worse == pytest.approx(bound.worse.total)
            assert better <= worse + TIE
    if safety["I1"].holds and safety["I2"].holds:
        passing = rubric.score(data.draw(records(rubric, won=True))).total
        failing = rubric.score(data.draw(records(rubric, won=False))).total
        assert passing > failing - 1e-9


@given(rubrics())
@settings(max_examples=60)
def test_every_example_of_a_gate_overtakes_when_it_is_scored(rubric: Rubric):
    safety = rubric.check()
    names = [gate.name for gate in rubric.gates]
    assert {shown.gate for shown in safety.examples} <= set(names)
    assert not (safety.safe and safety.examples)
    for shown in safety.examples:
        assert shown.better.total == pytest.approx(paid(rubric, shown.better))
        assert shown.worse.total == pytest.approx(paid(rubric, shown.worse))
        assert shown.better.total <= shown.worse.total + TIE
        assert str(shown) in str(safety)


@given(rubrics())
@settings(max_examples=60)
def test_a_stored_rubric_is_judged_the_same(rubric: Rubric):
    twin = Rubric.model_validate(json.loads(json.dumps(rubric.model_dump(mode="json"))))
    assert twin == rubric
    assert str(twin.check()) == str(rubric.check())


SQUEEZED = Rubric(  # a longer b leaves less of the cap to a, so the total moves with the length and is still bounded
    rewards=(WON, part("a", weight=-0.3), part("b", weight=-0.3, agg="sum")),
    gates=(cap_process(0.4), Budget(on="b", limit=0.15)),
)


@example(SQUEEZED)
@given(rubrics())
@settings(max_examples=30)
def test_payments_grow_with_length_exactly_when_the_check_says_so(rubric: Rubric):
    """Endless means that doubling the length moves the total more each time."""

    def play(values: dict[str, float], n_turns: int, won: bool, answered: bool) -> float:
        turns = (*range(n_turns), None)
        facts = [Evidence(name="won", value=won), Evidence(name="answered", value=answered)]
        facts += [Evidence(name="ok", value=True, turn=turn) for turn in turns]
        facts += [Evidence(name=n, value=v, turn=turn) for n, v in values.items() for turn in range(n_turns)]
        record = Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(facts))
        return rubric.score(record).total

    extras = rubric.rewards[1:]
    corners = [{}]
    for reward in extras:
        corners = [c | extra for c in corners for extra in ({}, {reward.name: reward.low}, {reward.name: reward.high})]
    endless = False
    for values in corners:
        for won, answered in ((True, True), (True, False), (False, True), (False, False)):
            short, middle, long = (play(values, n, won, answered) for n in (20, 40, 80))
            endless |= abs(long - middle) > abs(middle - short) + 1e-6
    assert rubric.check()["I3"].holds is not endless


@given(st.integers(0, 2**32), st.sampled_from(["mean", "sum", "last", "min", "max"]), st.integers(1, 12))
@settings(max_examples=60)
def test_a_failing_episode_gains_nothing_by_spam(seed: int, agg: Any, length: int):
    """However often a failing agent repeats itself, a rubric that is safe pays it less than the worst success."""
    rng = np.random.default_rng(seed)
    candidates = [
        rubric(needs_outcome(0.5), weight=0.3, agg="mean"),
        rubric(cap_process(0.4), weight=0.3, agg=agg),
        rubric(Budget(on="p", limit=0.4), weight=0.5, agg="sum"),
        rubric(Once(on="p"), weight=0.5, agg="sum"),
        rubric(BestSoFar(on="p"), weight=0.5, agg="sum"),
    ]
    values = rng.random(length).tolist()
    for one in candidates:
        assert one.check().safe
        facts = [Evidence(name="p", value=value, turn=turn) for turn, value in enumerate(values * 5)]
        record = Record(
            task_id="t",
            n_turns=len(facts),
            ending=Ending.FINISHED,
            evidence=(*facts, Evidence(name="won", value=False)),
        )
        assert one.score(record).total < 1.0


# --- padding, repeating, spamming ------------------------------------------------------------------------------------


def stretched(record: Record, places: list[int]) -> Record:
    """The episode that consists of these turns of ``record``, in this order; −1 is a turn about which nobody says a
    word."""
    facts = [fact for fact in record.evidence if fact.turn is None]
    for turn, place in enumerate(places):
        facts += [replace(fact, turn=turn) for fact in record.evidence if fact.turn == place and place >= 0]
    return replace(record, n_turns=len(places), evidence=tuple(facts))


def without_counting(rubric: Rubric) -> Rubric:
    """The same with means in place of sums, except where a gate pays an act only once: those it can pay again."""
    singles = {gate.on for gate in rubric.gates if isinstance(gate, (Once, BestSoFar))}
    counted = {reward.name for reward in rubric.rewards if reward.agg == "sum"} - singles
    rewards = [r.model_copy(update={"agg": "mean"}) if r.name in counted else r for r in rubric.rewards]
    gates = [gate for gate in rubric.gates if not (isinstance(gate, Budget) and gate.on in counted)]
    return Rubric(rewards=tuple(rewards), gates=tuple(gates))


@given(rubrics(), st.data())
@settings(max_examples=60)
def test_turns_about_which_there_is_nothing_to_say_change_no_payment(rubric: Rubric, data: Any):
    played = data.draw(records(rubric, won=data.draw(st.booleans())))
    turns = list(range(played.n_turns))
    for _ in range(data.draw(st.integers(1, 20))):
        turns.insert(data.draw(st.integers(0, len(turns))), -1)
    assert rubric.score(stretched(played, turns)).total == pytest.approx(rubric.score(played).total)


@given(rubrics(), st.integers(2, 4), st.data())
@settings(max_examples=60)
def test_doing_everything_several_times_never_raises_the_total_unless_acts_are_counted(
    rubric: Rubric, times: int, data: Any
):
    steady = without_counting(rubric)
    played = data.draw(records(steady, won=data.draw(st.booleans())))
    again = stretched(played, [place for place in range(played.n_turns) for _ in range(times)])
    assert steady.score(again).total <= steady.score(played).total + 1e-9


@given(rubrics(), st.data())
@settings(max_examples=60)
def test_whatever_a_failing_agent_adds_it_stays_below_every_success_if_the_check_says_safe(rubric: Rubric, data: Any):
    """A rubric that is not safe shows an episode of its own that gets past: the check's, played and paid."""
    safety = rubric.check()
    if safety.safe:
        failing, passing = data.draw(records(rubric, won=False)), data.draw(records(rubric, won=True))
        places = st.lists(st.integers(-1, failing.n_turns - 1), max_size=60)
        spammed = stretched(failing, [*range(failing.n_turns), *data.draw(places)])
        assert rubric.score(spammed).total < rubric.score(passing).total + 1e-9
        return
    pairs = [(b.better, b.worse) for b in safety.bounds if b.better is not None and b.worse is not None]
    only_losses = not pairs and not safety["I3"].holds and safety["I1"].holds and safety["I2"].holds
    assert only_losses or pairs
    for better, worse in pairs:
        assert paid(rubric, better) <= paid(rubric, worse) + TIE


@pytest.mark.parametrize("gates", [(), (needs_outcome(0.5),)])
def test_a_plain_sum_is_called_unsafe_and_repeating_it_does_pay(gates: Any):
    farm = rubric(*gates, weight=0.3, agg="sum")
    safety = farm.check()
    assert not safety["I3"].holds
    once_done, again = safety["I3"].better, safety["I3"].worse
    assert once_done is not None
    assert again is not None
    assert again.record == stretched(once_done.record, [0] * again.n_verdicts)
    assert paid(farm, again) > paid(farm, once_done) + 1.0  # by more than the whole outcome is worth


def test_gates_that_compare_siblings_are_refuted_in_a_group():
    """The example of ``trust`` holds in step 0 among siblings in which the judge agrees with the outcome."""
    one = rubric(Trust(on="p", open_from=0.0), weight=1.2)
    bound = one.check()["I1"]
    assert bound.better is not None
    assert bound.worse is not None
    fair = [
        Record(
            task_id="t",
            n_turns=1,
            ending=Ending.FINISHED,
            evidence=(Evidence(name="won", value=won), Evidence(name="p", value=won, turn=0)),
        )
        for won in (True, False)
    ]
    better, worse, *_ = one.score_records([bound.better.record, bound.worse.record, *fair])
    assert (better.total, worse.total) == pytest.approx((bound.better.total, bound.worse.total))
    assert better.total < worse.total


# --- for whoever reads a config --------------------------------------------------------------------------------------


def test_problems_say_in_a_line_each_what_is_wrong_and_show_it():
    assert rubric(weight=0.5).check().problems == ()
    summed = rubric(needs_outcome(0.5), agg="sum", weight=0.3, low=-4.0).check()
    assert summed.problems == (
        "I2, staying behind a gate can pay: [won=1, p=-4] = -0.2 is paid less than [won=0, p=1] = 0",
        "I3, payments have no bound: [won=1, p=1] = 1.3 is paid less than [won=1, p=1 ×5] = 2.5; use agg='mean' or "
        "another one-verdict agg, or one of once, best_so_far and budget, or cap_process",
    )
    assert Rubric(rewards=(TESTS, STYLE), gates=(needs_outcome(0.5),)).check().problems == (
        "I1, a better outcome can be overtaken: [tests=1] = 1 is paid less than [tests=0.8, style=1] = 1.2; if 'tests' "
        "cannot take every value in its range, declare those it can take: levels=(0, 1) for a yes or no",
    )
    (unproven,) = rubric(requires("won", on="p"), weight=1.2, agg="mean").check().problems
    assert unproven.startswith("I1, a better outcome can be overtaken: not proven")


def test_the_sums_that_an_episode_can_be_paid():
    cost = part("cost", kind="penalty", weight=-0.2)
    safety = Rubric(rewards=(WON, part("p", weight=0.3, low=-1.0), cost), gates=(cap_process(0.2),)).check()
    assert safety.process == pytest.approx((-0.2, 0.2))
    assert safety.penalty == pytest.approx((-0.2, 0.0))


def test_a_cap_in_front_of_a_gate_that_closes_does_not_keep_what_it_scaled():
    """The cap scales p by what q gains beside it; then q is closed, and p is left with a part of the cap."""
    rewards = (
        FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1), weight=0.3),
        part("p", weight=0.4, low=0.5),
        part("q", weight=4.0),
    )
    gates = (BottomLine(constraints={"p": 0.5}, goals=("q",)), cap_process(0.4), requires("ok", on="q"))
    capped = Rubric(rewards=rewards, gates=gates)
    facts = (Evidence(name="won", value=True), Evidence(name="p", value=0.5), Evidence(name="q", value=1.0))
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts)
    safety = capped.check()
    assert capped.score(record).total == pytest.approx(0.3 + 0.2 * 0.4 / 4.2)
    assert not safety["I1"].holds


@pytest.mark.parametrize("name", ["LOCK", "SQL", "SQL_REASONING", "CODE"])
def test_shipped_rubrics_are_safe_at_the_levels_that_their_verifiers_can_give(name: str):
    shipped = {"LOCK": lock.RUBRIC, "SQL": sql.RUBRIC, "SQL_REASONING": sql.REASONING_RUBRIC, "CODE": code.RUBRIC}[name]
    assert shipped.check().problems == ()
    outcome, *rest = shipped.rewards
    graded = Rubric(rewards=(outcome.model_copy(update={"levels": None}), *rest), gates=shipped.gates)
    assert not graded.check().safe  # so the levels carry weight
