"""Monitors over what one batch was paid: what fires them, by which numbers, and what must not.

1. Every alarm names its numbers and the trajectories that show it.
2. A monitor that cannot tell says None: no variance, too few cases, unknown states. Calm is a number without an alarm.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.scores import alarm_of, episode, event, group, turn
from turngate.rewards.monitors.payments import (
    advantage_concentration,
    correlation,
    duplicate_sources,
    paid_concentration,
    paid_follows_turns,
    paid_shares,
    unchanged_state,
)


def paying(pairs):
    """One group: (outcome, process) per episode."""
    return [group(*(episode(f"t{i}", outcome=o, events=[event("p", p)]) for i, (o, p) in enumerate(pairs)))]


# --- concentration ---------------------------------------------------------------------------------------------------


def test_a_process_component_that_decides_the_total_is_named_with_its_share():
    """Totals 1, 2, 0, 3 (mean 1.5); process −0.75, 0.25, −0.75, 1.25 from its mean: (.375+.125+1.125+1.875)/5 = 0.7."""
    groups = paying([(1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (1.0, 2.0)])
    assert alarm_of(paid_concentration(groups, at_most=0.701)) is None
    alarm = alarm_of(paid_concentration(groups, at_most=0.699))
    assert alarm is not None
    assert alarm.evidence["component"] == "p"
    assert alarm.evidence["share"] == pytest.approx(0.7, abs=1e-5)
    assert alarm.trajectories == ("t3", "t2", "t0")
    assert alarm.sentence == (
        "component 'p' causes 70% of the variance of the paid total (limit 70%), so the policy is trained for it more "
        "than for the outcome; lower its weight or gate it on the outcome; in 0 of 1 groups all outcomes are equal"
    )


def test_an_outcome_may_decide_everything():
    assert alarm_of(paid_concentration(paying([(1.0, 0.1), (0.0, 0.1), (1.0, 0.1)]))) is None


def test_the_advantage_is_measured_within_groups():
    """Outcomes differ between groups only: of the pooled variance they hold nearly all, of the advantage nothing."""
    groups = [
        group(*(episode(f"{o}{i}", outcome=o, events=[event("p", 0.01 * i)]) for i in range(4))) for o in (0.0, 1.0)
    ]
    assert alarm_of(paid_concentration(groups)) is None
    alarm = alarm_of(advantage_concentration(groups))
    assert alarm is not None
    assert alarm.evidence["share"] == pytest.approx(1.0)
    assert (alarm.evidence["groups_of_one_outcome"], alarm.evidence["groups"]) == (2, 2)


def test_what_a_gate_closed_does_not_count_and_a_veto_floor_does():
    closed = [episode(f"t{i}", outcome=0.0, events=[event("p", float(i), factor=0.0, gate="g")]) for i in range(4)]
    assert alarm_of(paid_concentration([group(*closed)])) is None
    floor = event("veto(w)", -1.0, kind="penalty")
    alarm = alarm_of(paid_concentration([group(*closed, episode("bad", outcome=0.0, events=[floor]))]))
    assert alarm is not None
    assert alarm.evidence["component"] == "veto(w)"
    assert alarm.trajectories[0] == "bad"


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=8))
@settings(max_examples=50)
def test_the_share_is_that_of_a_plain_loop(rows):
    groups = [
        group(
            *(
                episode(f"t{i}", outcome=o, events=[event("p", p), event("q", q, kind="penalty", weight=-0.5)])
                for i, (o, p, q) in enumerate(rows)
            )
        )
    ]
    totals = [o + p - 0.5 * q for o, p, q in rows]
    mean = sum(totals) / len(rows)
    variance = sum((t - mean) ** 2 for t in totals)
    alarm = alarm_of(paid_concentration(groups, at_most=-1e9))
    if variance < 1e-6:
        return
    shares = {}
    for name, values in (("p", [p for _, p, _ in rows]), ("q", [-0.5 * q for *_, q in rows])):
        middle = sum(values) / len(rows)
        shares[name] = sum((v - middle) * (t - mean) for v, t in zip(values, totals, strict=True)) / variance
    assert alarm is not None
    assert alarm.evidence["share"] == pytest.approx(max(shares.values()), abs=1e-5)


# --- reward without a change of state --------------------------------------------------------------------------------


def standing(keys, gains, name="t"):
    return episode(
        name,
        turns=[turn(key=key) for key in keys],
        events=[event("p", gain, turn=t) for t, gain in enumerate(gains)],
    )


def test_gains_for_turns_that_changed_nothing_are_counted():
    """Of 0.3 + 0.1 whose effect is known, 0.3 was for standing still; the last turn's effect is not known."""
    still = standing("aab", [0.3, 0.1, 9.0], name="still")
    alarm = alarm_of(unchanged_state([group(still)], least=2))
    assert alarm is not None
    assert alarm.evidence["share"] == pytest.approx(0.75)
    assert alarm.trajectories == ("still",)
    assert alarm_of(unchanged_state([group(still)], least=3)) is None
    assert alarm_of(unchanged_state([group(still)], at_most=0.76, least=2)) is None


def test_states_without_keys_and_closed_gains_are_left_out():
    assert alarm_of(unchanged_state([group(standing(["", "", ""], [1.0, 1.0, 0.0]))], least=0)) is None
    closed = episode("t", turns=[turn(key="a")] * 3, events=[event("p", 1.0, turn=0, factor=0.0, gate="g")])
    assert alarm_of(unchanged_state([group(closed)], least=0)) is None


# --- duplicate sources -----------------------------------------------------------------------------------------------


def twice(pairs):
    return [
        group(
            *(
                episode(f"t{i}", outcome=None, events=[event("p", p, turn=0), event("q", q, turn=0, weight=0.1)])
                for i, (p, q) in enumerate(pairs)
            )
        )
    ]


def test_two_components_that_earn_together_are_one_source():
    same = [(float(i % 2), 2.0 * (i % 2) + 1) for i in range(30)]
    alarm = alarm_of(duplicate_sources(twice(same)))
    assert alarm is not None
    assert alarm.evidence == {"components": ["p", "q"], "correlation": pytest.approx(1.0), "turns": 30, "limit": 0.99}
    assert alarm_of(duplicate_sources(twice(same[:29]))) is None
    assert alarm_of(duplicate_sources(twice([*same, (1.0, 1.0)]))) is None
    assert alarm_of(duplicate_sources(twice([(1.0, 1.0)] * 40))) is None  # nothing varies


def test_opposite_components_and_other_turns_are_no_duplicates():
    assert alarm_of(duplicate_sources(twice([(float(i % 2), 1.0 - i % 2) for i in range(40)]))) is None
    apart = [
        episode(f"t{i}", outcome=None, turns=2, events=[event("p", i % 2, turn=0), event("q", i % 2, turn=1)])
        for i in range(40)
    ]
    assert alarm_of(duplicate_sources([group(*apart)])) is None


def test_a_verdict_about_the_episode_stands_on_its_last_turn():
    episodes = [
        episode(f"t{i}", outcome=float(i % 2), turns=2, events=[event("p", float(i % 2), turn=1)]) for i in range(30)
    ]
    alarm = alarm_of(duplicate_sources([group(*episodes)]))
    assert alarm is not None
    assert alarm.evidence["components"] == ["outcome", "p"]


# --- paid for length -------------------------------------------------------------------------------------------------


def stalling(per_turn, n=30):
    """Failures of 1 to 5 turns that are paid per turn, in three groups."""
    return [
        group(
            *(
                episode(f"{g}-{i}", outcome=0.0, turns=1 + i % 5, events=[event("p", per_turn * (1 + i % 5))])
                for i in range(n // 3)
            )
        )
        for g in range(3)
    ]


def test_payment_that_grows_with_the_turns_is_found_among_equal_outcomes():
    alarm = alarm_of(paid_follows_turns(stalling(0.1)))
    assert alarm is not None
    assert alarm.evidence["correlation"] == pytest.approx(1.0)
    assert alarm.evidence["per_turn"] == pytest.approx(0.1)
    assert (alarm.severity, alarm.evidence["episodes"]) == ("warning", 30)
    cost = alarm_of(paid_follows_turns(stalling(-0.1)))
    assert cost is not None
    assert cost.severity == "notice"
    assert "costs 0.1" in cost.sentence
    assert "what 'p' pays per turn (gates" in alarm.sentence
    assert cost.sentence.endswith("lower what 'p' charges per turn")


def test_long_failures_beside_short_successes_are_no_alarm():
    rows = [(1.0, 1), (1.0, 1), (0.0, 5), (0.0, 5)] * 10
    assert (
        alarm_of(paid_follows_turns([group(*(episode(f"t{i}", outcome=o, turns=n) for i, (o, n) in enumerate(rows)))]))
        is None
    )


def test_a_slope_too_small_to_matter_and_too_few_episodes_are_no_alarm():
    assert alarm_of(paid_follows_turns(stalling(0.019))) is None
    assert alarm_of(paid_follows_turns(stalling(0.1, n=27))) is None
    assert alarm_of(paid_follows_turns(stalling(0.1, n=27), least=27)) is not None


# --- what is calm, and what cannot be told ---------------------------------------------------------------------------


def test_a_calm_batch_has_a_number_and_a_batch_that_tells_nothing_has_none():
    calm = paying([(1.0, 0.1), (0.0, 0.0), (1.0, 0.0), (0.0, 0.1)])
    assert paid_concentration(calm).value == pytest.approx(0.01 / 1.01)  # orthogonal: variances 1 and 0.01
    assert paid_concentration(calm).alarm is None
    assert paid_concentration(paying([(1.0, 0.1)] * 4)) is None  # no variance
    assert advantage_concentration([group(episode(outcome=1.0), episode(outcome=0.0))]) is None  # no such component
    moving = standing("abc", [0.1, 0.1, 0.0])
    assert unchanged_state([group(moving)], least=2).value == 0.0
    assert unchanged_state([group(moving)], least=3) is None
    assert duplicate_sources(twice([(float(i % 2), float(i % 3)) for i in range(60)])).value == pytest.approx(0.0)
    assert duplicate_sources(twice([(1.0, 1.0)] * 40)) is None
    assert paid_follows_turns(stalling(0.0)) is None  # nothing paid differs
    assert paid_follows_turns(stalling(0.019)).value == pytest.approx(1.0)
    assert paid_follows_turns(stalling(0.1, n=27)) is None


def test_shares_of_what_was_paid_add_up():
    """Paid 1 + 0.5 for the outcome, 0.25 and −0.25 by components: of 2 in all, 75 % and 12.5 % each."""
    episodes = [
        episode("a", outcome=1.0, events=[event("p", 0.25)]),
        episode("b", outcome=0.5, events=[event("veto", -0.25, kind="penalty"), event("q", 9.0, factor=0.0)]),
        episode("c", outcome=1.0, usable=False),
    ]
    assert paid_shares([group(*episodes)]) == {"outcome": 0.75, "p": 0.125, "q": 0.0, "veto": 0.125}
    assert paid_shares([group(episode(outcome=0.0))]) == {}


def test_correlation_without_variance_is_none():
    assert correlation(np.zeros(3), np.arange(3.0)) is None
    assert correlation(np.ones(1), np.ones(1)) is None
