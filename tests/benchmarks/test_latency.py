"""The benchmark of slow tools: all ways play the same episodes and wait for the same calls."""

import asyncio

import numpy as np

from benchmarks.latency import WAYS, SlowTools, measured, naps


def test_all_ways_sample_the_same_turns_and_the_limit_is_that_of_the_waiting_times():
    found = asyncio.run(measured(1.5, 4, n=6, mean_s=0.002, rounds=1))
    assert set(found["wall_s"]) == set(WAYS)
    ((tokens, turns),) = found["tokens_and_turns"]["lockstep"]
    assert turns == 6 * 4
    assert found["tokens_and_turns"] == {way: [(tokens, turns)] for way in WAYS}
    assert found["limit_of_waiting"] >= 1


def test_the_times_are_those_of_the_seed_and_have_the_mean():
    env = SlowTools(sigma=0.5, turns=3, mean_s=0.1)
    rows = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        rows.append(list(env._naps))
    assert rows[0] == rows[1] != rows[2]
    drawn = naps(np.random.default_rng(0), 0.5, 100_000, 0.1)
    assert abs(drawn.mean() - 0.1) < 0.001
