"""Monitors over many steps: each fires on the curve it is made for, and stays calm one notch below."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.scores import alarm_of
from tests.rewards.monitors.facts import PLAIN, course
from turngate.rewards.monitors.step_facts import START
from turngate.rewards.monitors.trends import (
    EvaluationPoint,
    block_readings,
    credit_follows_turns,
    diverging_slopes,
    drift,
    dropped_tokens,
    echo_trap,
    effective_sample,
    guidance_reliance,
    kl_spike,
    proxy_gap,
)

# --- proxy against outcome -------------------------------------------------------------------------------------------


def readings(*pairs):
    return [EvaluationPoint(proxy=proxy, outcome=outcome) for proxy, outcome in pairs]


def test_proxy_up_and_outcome_down_over_three_evaluations():
    alarm = alarm_of(proxy_gap(readings((9.0, 9.0), (0.1, 0.6), (0.2, 0.5), (0.3, 0.4))))
    assert alarm is not None
    assert alarm.evidence["proxy"] == [0.1, 0.2, 0.3]
    assert alarm.sentence == (
        "over the last 3 evaluations the proxy (the process reward) rose from 0.1 to 0.3 while the outcome fell from "
        "0.6 to 0.4: reward is earned without solving tasks; read recent episodes, and gate process rewards on the "
        "outcome"
    )


@pytest.mark.parametrize(
    "pairs",
    [
        ((0.1, 0.6), (0.2, 0.5)),
        ((0.1, 0.6), (0.2, 0.5), (0.3, 0.5)),
        ((0.1, 0.6), (0.1, 0.5), (0.3, 0.4)),
        ((0.1, 0.4), (0.2, 0.5), (0.3, 0.6)),
        ((0.1, 0.6), (0.2, 0.595), (0.3, 0.59)),
    ],
    ids=["too few", "outcome holds", "proxy holds", "both rise", "too little"],
)
def test_anything_less_is_no_gap(pairs):
    assert alarm_of(proxy_gap(readings(*pairs))) is None


def test_blocks_of_steps_are_read_as_evaluations():
    trend = course(35, process=lambda i: float(i), outcome=lambda i: -float(i))
    found = block_readings(trend)
    assert [(one.proxy, one.outcome, one.label) for one in found] == [
        (9.5, -9.5, "steps 6–15"),
        (19.5, -19.5, "steps 16–25"),
        (29.5, -29.5, "steps 26–35"),
    ]
    assert block_readings(course(9)) == []
    assert block_readings(course(40, process=None)) == []


def test_slopes_that_part_over_fifty_steps():
    noise = np.random.default_rng(0).normal(0, 0.02, (2, 50))
    hacked = course(50, process=lambda i: 0.01 * i + noise[0, i], outcome=lambda i: 0.8 - 0.005 * i + noise[1, i])
    alarm = alarm_of(diverging_slopes(hacked))
    assert alarm is not None
    assert alarm.evidence["process_slope"] == pytest.approx(np.polyfit(range(50), [f.process for f in hacked], 1)[0])
    assert alarm_of(diverging_slopes(hacked[1:])) is None
    assert (
        alarm_of(diverging_slopes(course(50, process=lambda i: noise[0, i], outcome=lambda i: 0.5 - noise[1, i])))
        is None
    )
    assert alarm_of(diverging_slopes(course(50, process=lambda i: 0.01 * i, outcome=lambda i: 0.01 * i))) is None
    assert alarm_of(diverging_slopes(course(50))) is None


def test_the_t_statistic_is_slope_over_standard_error():
    """x = 1..4, y = 0, 1, 1, 2: slope 0.6, residuals −.1 .3 −.3 .1, s² = 0.2/2, se = sqrt(.1/5): t = 4.242641."""
    process = (0.0, 1.0, 1.0, 2.0)
    trend = course(4, process=lambda i: process[i], outcome=lambda i: -process[i])
    alarm = alarm_of(diverging_slopes(trend, steps=4))
    assert alarm is not None
    assert alarm.evidence["process_slope"] == pytest.approx(0.6, abs=1e-5)
    assert alarm.evidence["process_t"] == pytest.approx(4.242641, abs=1e-5)
    assert alarm.evidence["outcome_t"] == pytest.approx(-4.242641, abs=1e-5)
    assert alarm_of(diverging_slopes(trend, steps=4, least_t=4.25)) is None


# --- drift -----------------------------------------------------------------------------------------------------------


def test_drift_is_measured_in_standard_deviations_of_the_steps_before():
    """Twenty steps of 2 and 4 in turn: mean 3, std (ddof 1) sqrt(20/19) = 1.025978. Five steps of 7: z = 3.898717."""
    trend = course(25, turns=lambda i: 7.0 if i >= 20 else 2.0 + 2 * (i % 2))
    alarm = alarm_of(drift(trend, of="turns"))
    assert alarm is not None
    assert (alarm.name, alarm.severity, alarm.trajectories) == ("turns_drift", "warning", ("long",))
    assert alarm.evidence["z"] == pytest.approx(3.898717, abs=1e-5)
    assert alarm_of(drift(trend, of="turns", z=3.9)) is None
    assert alarm_of(drift(trend[1:], of="turns")) is None
    assert alarm_of(drift(trend, of="tokens")) is None


def test_a_drift_that_came_with_better_outcomes_is_a_notice():
    better = course(25, tokens=lambda i: 2.0 if i >= 20 else 9.0, outcome=lambda i: 0.9 if i >= 20 else 0.5)
    alarm = alarm_of(drift(better, of="tokens"))
    assert alarm is not None
    assert (alarm.name, alarm.severity) == ("tokens_drift", "notice")


def test_a_constant_past_does_not_make_the_first_change_infinite():
    """std 0 is replaced by 1 % of the mean: 0.98 after 1.0 is z = −2, 0.95 is z = −5."""
    for now, fires in ((0.98, False), (0.95, True)):
        trend = course(25, parsed=lambda i, now=now: now if i >= 20 else 1.0)
        alarm = alarm_of(drift(trend, of="parsed"))
        assert (alarm is not None) == fires
    assert alarm.evidence["z"] == pytest.approx(-5.0)


# --- the others ------------------------------------------------------------------------------------------------------


def test_a_kl_spike_that_bought_nothing():
    """Median of 20 steps 0.01; 0.06 is six times that."""
    trend = course(21, kl_nats=lambda i: 0.06 if i == 20 else 0.01)
    alarm = alarm_of(kl_spike(trend))
    assert alarm is not None
    assert (alarm.evidence["kl_nats"], alarm.evidence["median_nats"]) == (0.06, 0.01)
    assert alarm_of(kl_spike(trend, times=6.1)) is None
    assert alarm_of(kl_spike(trend[1:])) is None
    assert alarm_of(kl_spike([*trend[:-1], replace(trend[-1], outcome=0.6)])) is None
    assert alarm_of(kl_spike([*trend, replace(PLAIN, step=22)])) is None  # the last step was not measured
    tiny = course(21, kl_nats=lambda i: 0.009 if i == 20 else 1e-7)
    assert alarm_of(kl_spike(tiny)) is None


def test_the_echo_trap_needs_all_of_its_signs():
    trapped = {"spread": lambda i: 0.5 if i < START else 0.2, "overlap": 0.7, "outcome": 0.3}
    assert alarm_of(echo_trap(course(20, **trapped))) is not None
    assert alarm_of(echo_trap(course(19, **trapped))) is None
    for change in ({"overlap": 0.6}, {"outcome": 0.95}, {"spread": 0.3}, {"overlap": None}):
        assert alarm_of(echo_trap(course(20, **(trapped | change)))) is None


def test_credit_that_grows_with_the_number_of_turns():
    rising = course(20, credit_turns=lambda i: 0.5 + 0.04 * (i % 2))
    check = credit_follows_turns(rising)
    assert check.value == pytest.approx(0.52)
    assert check.alarm.sentence == (
        "credit grows with the number of turns: correlation +0.52 over 20 steps (limit 0.5); training then favours "
        "long episodes for their length, unless successes are truly longer; try a credit rule that normalises per "
        "episode"
    )
    assert "falls" in credit_follows_turns(course(20, credit_turns=-0.6)).alarm.sentence
    assert credit_follows_turns(course(20, credit_turns=0.5)).alarm is None
    assert credit_follows_turns(rising[1:]) is None
    assert credit_follows_turns(course(40)) is None


def test_off_policy_rules_that_drop_many_tokens():
    assert dropped_tokens(course(5, dropped_share=lambda i: 0.05 * i)).alarm is None  # mean 0.1
    check = dropped_tokens(course(6, dropped_share=lambda i: 0.05 * i))
    assert check.value == check.alarm.evidence["share"] == pytest.approx(0.15)
    assert dropped_tokens(course(4, dropped_share=0.9)) is None
    assert dropped_tokens(course(9)) is None


def test_off_policy_weights_that_leave_few_tokens():
    check = effective_sample(course(5, effective_share=lambda i: 0.4 + 0.04 * i))
    assert check.value == check.alarm.evidence["share"] == pytest.approx(0.48)
    assert effective_sample(course(5, effective_share=0.5)).alarm is None
    assert effective_sample(course(4, effective_share=0.1)) is None
    assert effective_sample(course(9)) is None


def test_help_that_is_used_and_not_learned_from():
    stuck = course(50, guided=0.8, unguided=0.4)
    check = guidance_reliance(stuck)
    assert check.value == check.alarm.evidence["difference"] == pytest.approx(0.4)
    assert guidance_reliance(stuck, at_least=0.41).alarm is None
    learning = course(50, guided=0.8, unguided=lambda i: 0.3 if i < 25 else 0.33)
    assert guidance_reliance(learning).alarm is None
    assert guidance_reliance(stuck[1:]) is None
    assert guidance_reliance(course(60, unguided=0.4)) is None


# --- what is calm, and what cannot be told ---------------------------------------------------------------------------


def test_a_calm_course_has_numbers_and_a_short_one_has_none():
    assert proxy_gap(readings((0.1, 0.6), (0.2, 0.7), (0.3, 0.8))).value == pytest.approx(0.0)
    assert proxy_gap(readings((0.1, 0.6), (0.2, 0.5))) is None
    flat = diverging_slopes(course(50, process=lambda i: 0.01 * i, outcome=lambda i: 0.01 * i))
    assert (flat.value, flat.alarm) == (-np.inf, None)
    assert diverging_slopes(course(49)) is None
    assert drift(course(25), of="turns").value == 0.0
    assert drift(course(24), of="turns") is None
    assert echo_trap(course(20, spread=0.5, overlap=0.7)).value == pytest.approx(0.7)
    assert echo_trap(course(20, spread=0.5)) is None


def test_the_value_of_a_kl_spike_is_a_multiple_that_small_divergences_cannot_reach():
    """6 times the median; and 0.009 nats against a floor of 0.01 / 5 = 0.002 nats: 4.5, below the limit of 5."""
    assert kl_spike(course(21, kl_nats=lambda i: 0.06 if i == 20 else 0.01)).value == pytest.approx(6.0)
    assert kl_spike(course(21, kl_nats=lambda i: 0.009 if i == 20 else 1e-7)).value == pytest.approx(4.5)
