"""Seconds, bytes and memory of a plan, counted by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.run.doctor.needed_memory import LEARNER_PASS, SAMPLER_PASS, most_at_once
from turngate.run.plan.memory_per_gpu import START, fits, memory_per_gpu
from turngate.run.plan.rate_table import RateTable, read_rates
from turngate.run.plan.stage_seconds import (
    Split,
    StepCounts,
    fleet_of,
    splits_of,
    stage_seconds,
    useful_engines,
)

COUNTS = StepCounts(
    episodes=64,
    turns=3,
    prompt_tokens=100,
    turn_tokens=10,
    observed_tokens=20,
    slots=8,
    pass_tokens=1000,
    weights=2_000_000,
    push_bytes=4_000_000,
)


def rates(**changes) -> RateTable:
    """A round table: 8 slots, 80 tokens a second with a million weights, so a token takes its slot 0.1 s."""
    table = read_rates().model_dump()
    table["device"] |= {"weights": 1_000_000, "slots": 8, "sampled_tokens_per_s": 80, "learned_tokens_per_s": 1000}
    table["host"]["turn_s"] = 0.0
    table["node"] |= {"workers": 4, "bytes_per_s": 1e9, "network_bytes_per_s": 1e8}
    table["failures"] |= {"engine_per_s": 0.0, "env_per_s": 0.0}
    for name, change in changes.items():
        table[name] |= change
    return RateTable.model_validate(table)


def split(sampling=2, learning=2, nodes=1, shared=True):
    return Split(sampling=sampling, learning=learning, nodes=nodes, shared=shared)


def test_counts():
    assert COUNTS.episode_tokens == 100 + 3 * 10 + 2 * 20
    assert (COUNTS.written, COUNTS.learned) == (64 * 3 * 10, 64 * 170)


def test_the_stages_of_a_step():
    found = stage_seconds(COUNTS, split(), rates(), env_turn_s=0.5)
    turn_s = 10 * 0.1 * 2 + 0.5  # twice the weights
    assert found.collect.sampling_s == pytest.approx(4 * 3 * turn_s)  # 64 episodes in 16 slots
    assert found.collect.environments_s == pytest.approx(64 * 3 * 0.5 / 4)
    assert found.learn_s == pytest.approx(10_880 * 2 / (2 * 1000))
    passes = 6  # of 5,440 tokens on each GPU
    assert found.exchange_s == pytest.approx(passes * 3 * 4 * 2_000_000 / 2 / 1e9)
    assert found.exchange_bytes == passes * 3 * 4 * 2_000_000
    assert (found.push_bytes, found.push_s) == (4_000_000, pytest.approx(4e6 / 1e9))  # to one other engine
    assert found.step_s == pytest.approx(30.0 + found.learn_s + found.exchange_s + found.push_s)
    assert found.limit == "sampling"


def test_what_runs_at_once_takes_the_longer_of_both():
    apart = stage_seconds(COUNTS, split(shared=False), rates(), env_turn_s=0.5)
    assert apart.step_s == pytest.approx(max(30.0, apart.train_s) + apart.push_s)
    assert apart.push_bytes == 2 * 4_000_000


def test_between_nodes_the_network_carries():
    one, two = (stage_seconds(COUNTS, split(nodes=nodes), rates(), env_turn_s=0.5) for nodes in (1, 2))
    assert two.push_s == pytest.approx(10 * one.push_s)
    assert two.exchange_s == pytest.approx(10 * one.exchange_s)
    assert two.collect.environments_s == pytest.approx(one.collect.environments_s / 2)


def test_fewer_slots_are_no_faster_and_more_add_nothing():
    def decode_s(slots):
        counts = StepCounts(**{name: getattr(COUNTS, name) for name in COUNTS.__slots__} | {"slots": slots})
        return fleet_of(counts, split(), rates(), 0.0).decode_s

    assert decode_s(4) == decode_s(8) == pytest.approx(2.0)
    assert decode_s(16) == pytest.approx(4.0)


@settings(max_examples=50, deadline=None)
@given(gpus=st.integers(1, 200), env_s=st.floats(0, 5), host_s=st.floats(0, 0.1))
def test_more_gpus_learn_and_play_no_slower(gpus, env_s, host_s):
    table = rates(host={"turn_s": host_s})
    one, more = (stage_seconds(COUNTS, split(n, n), table, env_s) for n in (gpus, gpus + 1))
    assert more.collect.most_s <= one.collect.most_s
    assert more.learn_s <= one.learn_s
    assert more.push_s >= one.push_s


@settings(max_examples=50, deadline=None)
@given(env_s=st.floats(0, 5), host_s=st.floats(0, 0.1))
def test_useful_engines_are_the_least_that_play_as_fast(env_s, host_s):
    table = rates(host={"turn_s": host_s})
    seconds = {n: stage_seconds(COUNTS, split(n, n), table, env_s).collect.most_s for n in range(1, 9)}
    least = next(n for n in range(1, 9) if seconds[n] <= 1.01 * seconds[8])
    assert useful_engines(COUNTS, split(), table, env_s) == least


def test_splits():
    assert splits_of(5, 1, ahead=False) == [split(5, 5)]
    assert splits_of(1, 1, ahead=True) == [split(1, 1)]
    assert [(one.sampling, one.learning, one.gpus) for one in splits_of(4, 1, ahead=True)] == [
        (3, 1, 4),
        (2, 2, 4),
        (1, 3, 4),
    ]


NEEDED = {
    "weights": 40,
    "gradients": 40,
    "optimizer": 80,
    "sampler's copy": 20,
    "key-value cache": 30,
    LEARNER_PASS: 25,
    SAMPLER_PASS: 10,
}


def test_one_gpu_needs_what_the_doctor_says():
    every, start = memory_per_gpu(NEEDED, 10, split(1, 1))
    assert every.most == most_at_once(NEEDED)
    assert start.parts == {START: 40, "sampler's copy": 20}


def test_learners_divide_what_is_theirs():
    (every, _), apart = memory_per_gpu(NEEDED, 10, split(4, 4)), memory_per_gpu(NEEDED, 10, split(2, 4, shared=False))
    assert every.most == 160 // 4 + 20 + 30 + 25
    assert [kind.most for kind in apart] == [160 // 4 + 25, 20 + 30 + 10, 40]
    assert (fits(apart, 65), fits(apart, 64)) == (True, False)
