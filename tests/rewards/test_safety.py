"""I1–I3: what the check claims, a played episode must confirm."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards import FromEvidence, Rubric, Run, cap_process, needs_outcome, requires, veto
from turngate.types import Ending, Evidence, Record

WON = FromEvidence(name="won", evidence="won", kind="outcome")


def rubric(*gates: Any, **settings: Any) -> Rubric:
    return Rubric(rewards=(WON, FromEvidence(name="p", evidence="p", per_turn=True, **settings)), gates=gates)


def holds(rubric: Rubric, levels: Any = None) -> list[bool]:
    safety = rubric.check(levels)
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
    ],
)
def test_bounds_of_declared_ranges(settings: dict[str, Any], gates: Any, expected: list[bool]):
    assert holds(rubric(*gates, **settings)) == expected


def test_a_ladder_of_outcomes_is_checked_between_all_levels():
    ladder = FromEvidence(name="stage", evidence="stage", kind="outcome", low=-1.0)
    bonus = FromEvidence(name="p", evidence="p", weight=0.3, per_turn=True)
    gated = Rubric(rewards=(ladder, bonus), gates=(needs_outcome(0.0),))
    assert holds(gated, [-1, -0.5, 0, 1]) == [True, True, True]
    assert holds(gated, [-1, -0.5, 0, 0.25, 1]) == [False, True, True]
    assert holds(gated, [1, 0, -1]) == [True, True, True]


@pytest.mark.parametrize("levels", [[], [1.0], [1.0, 1.0], [0.0, float("nan")], [0.0, float("inf")]])
def test_levels_must_be_comparable(levels: list[float]):
    with pytest.raises(ConfigError, match="levels"):
        rubric().check(levels)


def test_the_verdict_is_put_in_words_and_numbers():
    text = str(rubric(agg="sum", weight=0.3, high=1.0).check())
    first, second, third = text.splitlines()
    assert first == (
        "I1 VIOLATED: an episode with outcome 1, process +0, penalties +0 (1 in all, 4 verdicts) is paid less than "
        "an episode with outcome 0, process +1.2, penalties +0 (1.2 in all, 4 verdicts)"
    )
    assert second == "I2 holds: no gate depends on the outcome and none forbids an act"
    assert third.startswith("I3 VIOLATED: every further verdict pays again for 'p' (up to 0.3 each)")
    assert third.endswith("or cap_process")


# --- the check against played episodes -------------------------------------------------------------------------------


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    rewards = [WON]
    for name in draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")])):
        low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-2.0, 0.0), (0.5, 1.0)]))
        weight = draw(st.sampled_from([-0.3, 0.05, 0.2, 0.35]))
        kind = "penalty" if max(weight * low, weight * high) <= 0 and draw(st.booleans()) else "process"
        per_turn, agg = draw(st.booleans()), draw(st.sampled_from(["mean", "mean", "max", "last", "sum"]))
        rewards.append(
            FromEvidence(
                name=name, evidence=name, kind=kind, weight=weight, low=low, high=high, per_turn=per_turn, agg=agg
            )
        )
    known = [veto("wrote", -0.5), needs_outcome(0.5), cap_process(0.4), requires("ok", on="a")]
    gates = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    return Rubric(rewards=tuple(rewards), gates=tuple(gates))


def play(rubric: Rubric, won: bool, values: dict[str, list[float | None]], n_turns: int, wrote: bool = False) -> float:
    facts = [Evidence(name="won", value=won), Evidence(name="wrote", value=wrote)]
    facts += [Evidence(name="ok", value=True, turn=turn) for turn in (*range(n_turns), None)]
    facts += [Evidence(name=n, value=v, turn=turn) for n, column in values.items() for turn, v in enumerate(column)]
    record = Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(facts))
    return rubric.score(record).total


def play_extreme(rubric: Rubric, run: Run, best: bool) -> float:
    """The episode that a counter-example describes: every component at the end of its range, or silent."""
    values: dict[str, list[float | None]] = {}
    for reward in rubric.rewards[1:]:
        ends = [(reward.weight * value, value) for value in (reward.low, reward.high)]
        paid, value = max(ends) if best else min(ends)
        helps = (paid > 0) if best else (paid < 0)
        values[reward.name] = [value if helps else None] * run.n_verdicts
    return play(rubric, run.outcome == 1.0, values, run.n_verdicts, wrote=bool(run.vetoed_by))


@given(rubrics(), st.data())
def test_failing_never_outranks_passing_when_the_check_says_so_and_does_when_it_does_not(rubric: Rubric, data: Any):
    safety = rubric.check()
    for bound in (safety["I1"], safety["I2"]):
        if bound.holds:
            continue
        assert bound.better is not None
        assert bound.worse is not None
        better, worse = play_extreme(rubric, bound.better, False), play_extreme(rubric, bound.worse, True)
        assert better == pytest.approx(bound.better.total)
        assert worse == pytest.approx(bound.worse.total)
        assert better <= worse + 1e-9
    if safety["I1"].holds and safety["I2"].holds:
        totals = []
        for won in (True, False):
            n_turns = data.draw(st.integers(1, 8))
            values = {
                reward.name: data.draw(
                    st.lists(
                        st.none() | st.sampled_from([reward.low, reward.high]) | st.floats(reward.low, reward.high),
                        min_size=n_turns,
                        max_size=n_turns,
                    )
                )
                for reward in rubric.rewards[1:]
            }
            totals.append(play(rubric, won, values, n_turns))
        assert totals[0] > totals[1] - 1e-9


@given(rubrics())
def test_payments_grow_with_length_exactly_when_the_check_says_so(rubric: Rubric):
    def grows(name: str, value: float) -> bool:
        short, long = (play(rubric, True, {name: [value] * length}, length) for length in (40, 80))
        return abs(long - short) > 1e-6

    grown = [grows(reward.name, value) for reward in rubric.rewards[1:] for value in (reward.low, reward.high)]
    assert rubric.check()["I3"].holds is not any(grown)


def test_the_counter_example_is_the_shortest():
    safety = rubric(weight=0.25, agg="sum").check()
    worse = safety["I1"].worse
    assert worse is not None
    assert (worse.n_verdicts, worse.total) == (4, 1.0)
