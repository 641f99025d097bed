"""The watch over a run.

1. Every monitor that can tell has a number and a flag; one that cannot is missing from the metrics, never zero.
2. An alarm is told when it begins, and again only after it had stopped.
3. A watch that sees the stored steps again goes on as if it had never stopped.
"""

import json
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers.scores import episode, event, group, turn
from turngate.rewards.monitors.alarm import Alarm
from turngate.rewards.monitors.step_facts import MEMORY, START
from turngate.rewards.monitors.watchlist import BATCH_MONITORS, TREND_MONITORS
from turngate.store import Store
from turngate.trainer.batch.table import tabulate
from turngate.trainer.checks.monitoring import (
    Watch,
    console_line,
    credit_by_turns,
    learning_numbers,
    recorded,
    remembered,
    unwatched,
)


def step_of(number, *, spam=False, n=4):
    """A group whose process value and length wander with the step's number."""
    calls = ["ls a"] * 4 if spam else ["ls a", "ls b"]
    return [
        group(
            *(
                episode(
                    f"{number}-{i}",
                    outcome=float((number + i) % 2),
                    turns=[turn(call, key=str(i), ids=[number % 7, i, 1, 2, 3]) for call in calls],
                    events=[event("p", 0.1 * ((number * 7 + i) % 5), turn=0)],
                )
                for i in range(n)
            )
        )
    ]


def test_what_a_monitor_measures_and_whether_it_fires_are_metrics():
    watch = Watch()
    calm, spam = watch(1, step_of(1), {}), watch(2, step_of(2, spam=True), {})
    assert (calm["monitor/tool_spam"], calm["monitor/tool_spam_alarm"]) == (0.0, 0.0)
    assert (spam["monitor/tool_spam"], spam["monitor/tool_spam_alarm"]) == (1.0, 1.0)
    assert calm["monitor/open_share_p"] == 1.0
    assert calm["monitor/paid_share_outcome"] + calm["monitor/paid_share_p"] == pytest.approx(1.0)
    assert calm["monitor/singleton_groups_share"] == 0.0
    assert calm["monitor/unguided_outcome"] == 0.5
    assert calm["monitor/overlap_share"] == pytest.approx(sum(len(a & b) / len(a | b) for a, b in pairwise(GRAMS)) / 3)
    assert all(name.startswith("monitor/") for name in calm)


def test_what_cannot_be_told_is_missing_and_not_zero():
    """After one step no trend can tell; without a judge, weights or guidance there is nothing to say of them."""
    metrics = Watch()(1, step_of(1), {})
    for monitor in TREND_MONITORS:
        assert f"monitor/{monitor.name}" not in metrics
        assert f"monitor/{monitor.name}_alarm" not in metrics
    for name in ("judge_silent", "canaries_missed", "guided_outcome", "effective_share", "paid_follows_turns"):
        assert f"monitor/{name}" not in metrics
    for monitor in BATCH_MONITORS:
        assert (f"monitor/{monitor.name}" in metrics) == (f"monitor/{monitor.name}_alarm" in metrics)


def test_a_step_in_which_nothing_can_be_used_says_that_and_nothing_else():
    watch = Watch()
    watch(1, step_of(1), {})
    broken = {"monitor/unusable_share": 1.0, "monitor/unusable_share_alarm": 1.0}
    calm = {f"monitor/{name}": 0.0 for of in ("agent_fault_share", "silenced") for name in (of, f"{of}_alarm")}
    assert watch(2, [group(episode(usable=False))], {}) == broken | calm


def grams(ids):
    return {tuple(ids[at : at + 4]) for at in range(len(ids) - 3)}


GRAMS = [grams([1, i, 1, 2, 3] * 2) for i in range(4)]


def test_an_alarm_is_told_when_it_begins():
    told = []
    watch = Watch(lambda step, alarm: told.append((step, alarm)))
    for number, spam in enumerate([False, True, True, False, True], start=1):
        watch(number, step_of(number, spam=spam), {})
    spam = [(step, alarm) for step, alarm in told if alarm.name == "tool_spam"]
    assert [step for step, _ in spam] == [2, 5]
    assert console_line(*spam[0]) == (
        "step    2  warning: tool_spam: 4 of 4 episodes make the same call, with the same arguments, more than 3 times "
        "(most often 4 times: ls {'x': 'a'}); no turn that repeats it was paid (see 2-0)"
    )


def test_an_alarm_is_one_line_on_the_console():
    assert console_line(3, Alarm(name="a", severity="notice", sentence="x\ny")) == "step    3  notice: a: x y"


def test_the_kl_divergence_comes_from_the_learner_and_the_reference_goes_first():
    assert learning_numbers({"policy/kl_to_sampler_nats": 0.5}).kl_nats == 0.5
    assert learning_numbers({"policy/kl_to_sampler_nats": 0.5, "policy/kl_to_reference_nats": 0.25}).kl_nats == 0.25
    assert learning_numbers({"policy/kl_to_sampler_nats": float("nan")}).kl_nats is None


def test_the_effective_share_is_the_square_of_the_mean_weight_over_the_mean_square():
    """Weights 0.5, 1, 2: (3.5)² / 5.25 = 2.333333 of 3."""
    found = learning_numbers(
        {"offpolicy/weight": 3.5 / 3, "offpolicy/weight_square": 5.25 / 3, "offpolicy/dropped_share": 0.1}
    )
    assert found.effective_share == pytest.approx(2.333333 / 3, abs=1e-5)
    assert found.dropped_share == 0.1
    assert learning_numbers({"offpolicy/weight": 0.0, "offpolicy/weight_square": 0.0}).effective_share is None
    assert learning_numbers({}).effective_share is None


def test_credit_by_turns_is_the_correlation_of_whole_credit_and_turns():
    """Credit per turn 1 and episodes of 1, 2 and 4 turns: r = 1. Equal lengths: nothing to correlate."""
    table = tabulate([group(*(episode(f"t{n}", turns=n) for n in (1, 2, 4)))])
    assert credit_by_turns(table, np.ones(7, np.float32)) == {"monitor/credit_turns_correlation": pytest.approx(1.0)}
    uneven = np.array([6, 0, 0, 0, 0, 0, 0], np.float32)  # 6, 0, 0 against 1, 2, 4
    x, y = np.array([6.0, 0, 0]), np.array([1.0, 2, 4])
    assert credit_by_turns(table, uneven)["monitor/credit_turns_correlation"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert credit_by_turns(table, np.zeros(7, np.float32)) == {}
    assert credit_by_turns(tabulate([group(episode("a"), episode("b"))]), np.array([0, 1], np.float32)) == {}


def test_unwatched_adds_nothing():
    assert unwatched(1, step_of(1), {}) == {}


def play(watch, number, *, spammed=(), spiked=0):
    """A step in which a call is repeated, or the KL divergence jumps, where it says so."""
    kl = {"policy/kl_to_sampler_nats": 0.01 + 0.1 * (number == spiked)}
    scored = step_of(number, spam=number in spammed)
    return scored, kl | watch(number, scored, kl)


def telling(told):
    return Watch(lambda step, alarm: told.append((step, alarm)))


def test_a_resumed_watch_goes_on_as_if_it_had_never_stopped():
    """Longer than what is remembered, so that steps in the middle are skipped; stopped while an alarm is on."""
    done, n = START + MEMORY + 5, START + MEMORY + 12
    faults = {"spammed": (done - 1, done, done + 1, done + 4), "spiked": done + 3}
    told, later = [], []
    watch, again = telling(told), telling(later)
    played = {number: play(watch, number, **faults) for number in range(1, n + 1)}
    again.replay((number, *played[number]) for number in remembered(range(1, done + 1)))
    assert later == []
    for number in range(done + 1, n + 1):
        assert play(again, number, **faults)[1] == played[number][1]
    assert played[done + 3][1]["monitor/kl_spike_alarm"] == 1.0
    assert later == [(step, alarm) for step, alarm in told if step > done]
    assert (done + 4, "tool_spam") in [(step, alarm.name) for step, alarm in later]
    assert (done + 1, "tool_spam") not in [(step, alarm.name) for step, alarm in later]  # it was on already


def test_what_is_on_disk_is_enough_to_go_on(tmp_path):
    store, told, later = Store(tmp_path), [], []
    watch, again = telling(told), telling(later)
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for number in range(1, 13):
            scored, metrics = play(watch, number, spammed=(12, 13))
            store.write(number, scored)
            file.write(json.dumps({"step": number, **metrics}) + "\n")
    again.replay(recorded(tmp_path, until=12))
    for number in range(13, 28):
        faults = {"spammed": (12, 13, 20), "spiked": 25}
        assert play(again, number, **faults)[1] == play(watch, number, **faults)[1]
    assert {alarm.name for _, alarm in later} >= {"tool_spam", "kl_spike"}
    assert later == [(step, alarm) for step, alarm in told if step > 12]


def test_the_first_and_the_latest_steps_are_remembered():
    assert remembered(range(1, 101)) == [*range(1, START + 1), *range(101 - MEMORY, 101)]
    assert remembered(range(1, 31)) == list(range(1, 31))
    assert remembered([]) == []


def test_recorded_gives_training_steps_with_their_metrics(tmp_path):
    store = Store(tmp_path)
    for number in (1, 2, 3):
        store.write(number, step_of(number))
    store.write(3, step_of(9), phase="after-heldout-greedy")
    (tmp_path / "metrics.jsonl").write_text('{"step": 2, "a": 1.5}\n')
    found = list(recorded(tmp_path, until=3))
    assert [(number, metrics) for number, _, metrics in found] == [(1, {}), (2, {"step": 2, "a": 1.5}), (3, {})]
    assert found[2][1][0].scores[0].total == step_of(3)[0].scores[0].total
    assert [number for number, *_ in recorded(tmp_path, until=2)] == [1, 2]
