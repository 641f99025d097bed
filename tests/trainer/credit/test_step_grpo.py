"""Step-level GRPO: which turns are steps, and how their z add up."""

from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.step_grpo import step_grpo

NAN = float("nan")
STEPS = [[0.8, 0.4], [0.2, 0.2, 0.9]]


def test_the_worked_example(table_of: Any):
    """Mean 0.5, std 0.331662."""
    table = table_of(STEPS, process=STEPS)
    expected = [0.603023, -0.301511, -0.603023, 0.301511, 1.206045]
    np.testing.assert_allclose(step_grpo(table, eps=0.0), expected, atol=1e-5)


def test_the_mean_over_later_steps_neither_taxes_nor_pays_length(table_of: Any):
    table = table_of(STEPS, process=STEPS)
    z = [0.904534, -0.301511, -0.904534, -0.904534, 1.206045]
    expected = [(z[0] + z[1]) / 2, z[1], (z[2] + z[3] + z[4]) / 3, (z[3] + z[4]) / 2, z[4]]
    np.testing.assert_allclose(step_grpo(table, mode="mean", eps=0.0), expected, atol=1e-5)


def test_returns_normalised_over_all_turns(table_of: Any):
    table = table_of(STEPS, process=STEPS)
    to_go = [1.2, 0.4, 1.3, 1.1, 0.9]
    expected = [(value - fmean(to_go)) / stdev(to_go) for value in to_go]
    np.testing.assert_allclose(step_grpo(table, mode="to_go", eps=0.0), expected, atol=1e-5)


def test_pooled_centring_taxes_length_and_the_mean_does_not(table_of: Any):
    """Steps of 0.4 in a pool whose mean is 0.5: each costs 0.1/σ, so 2 cost 0.2/σ and 6 cost 0.6/σ."""
    rows = [[0.4] * 2, [0.4] * 6, [0.6] * 8]
    table = table_of(rows, process=rows)
    sigma = stdev([0.4] * 8 + [0.6] * 8)
    summed = step_grpo(table, eps=0.0)
    np.testing.assert_allclose(summed[[0, 2]] * sigma, [-0.2, -0.6], atol=1e-5)
    averaged = step_grpo(table, mode="mean", eps=0.0)
    np.testing.assert_allclose(averaged[[0, 2]] * sigma, [-0.1, -0.1], atol=1e-5)


def test_a_turn_without_a_verdict_is_no_step(table_of: Any):
    """Zero-filled, the silent turn would be punished for 0 < 0.5."""
    silent = step_grpo(table_of([[0, 0.75], [0.25]], process=[[NAN, 0.75], [0.25]]), eps=0.0)
    np.testing.assert_allclose(silent, [0.5**0.5, 0.5**0.5, -(0.5**0.5)], atol=1e-6)


def test_a_closed_gate_says_nothing_and_a_penalty_does(table_of: Any):
    rows, process = [[0, 1], [0, 0]], [[0.5, NAN], [0.5, NAN]]
    closed = table_of(rows, process=process, is_open=[[False, True], [False, True]])
    np.testing.assert_array_equal(step_grpo(closed), grpo(closed))
    punished = step_grpo(table_of([[-0.5, 1], [0, 1]]), eps=0.0)
    z = [(-0.5 - 0.5) / 0.75**0.5, 0.5 / 0.75**0.5]
    np.testing.assert_allclose(punished, [z[0] + z[1], z[1], z[1], z[1]], atol=1e-6)


TURN = st.tuples(st.integers(-4, 4), st.booleans(), st.booleans())
BATCH = st.lists(st.tuples(st.integers(0, 2), st.lists(TURN, min_size=1, max_size=5)), min_size=1, max_size=8)


@given(BATCH, st.sampled_from(["sum", "mean", "to_go"]), st.sampled_from([1.0, 0.5]))
@settings(max_examples=40)
def test_against_plain_loops(table_of: Any, batch: list[Any], mode: Any, gamma: float):
    steps = [
        [r != 0 or (said and is_open) or t == len(turns) - 1 for t, (r, said, is_open) in enumerate(turns)]
        for _, turns in batch
    ]
    expected = []
    for i, (cohort, turns) in enumerate(batch):
        siblings = [k for k, (other, _) in enumerate(batch) if other == cohort]
        rewards = [turn[0] for turn in turns]
        if mode == "to_go":
            pool = [discounted([t[0] for t in batch[k][1][s:]], gamma) for k in siblings for s in range(len(steps[k]))]
            credit = [z(discounted(rewards[t:], gamma), pool) for t in range(len(turns))]
        else:
            pool = [batch[k][1][s][0] for k in siblings for s, counts in enumerate(steps[k]) if counts]
            zs = [z(reward, pool) if counts else 0.0 for reward, counts in zip(rewards, steps[i], strict=True)]
            credit = [discounted(zs[t:], gamma) for t in range(len(turns))]
            if mode == "mean":
                credit = [c / discounted([float(s) for s in steps[i][t:]], gamma) for t, c in enumerate(credit)]
        expected += credit if len(siblings) > 1 else [0.0] * len(turns)
    table = table_of(
        [[turn[0] for turn in turns] for _, turns in batch],
        cohorts=[cohort for cohort, _ in batch],
        process=[[float(r) if said else NAN for r, said, _ in turns] for _, turns in batch],
        is_open=[[is_open for *_, is_open in turns] for _, turns in batch],
    )
    np.testing.assert_allclose(step_grpo(table, mode=mode, gamma=gamma), expected, atol=1e-4)


def discounted(values: list[float], gamma: float) -> float:
    return sum(gamma**k * value for k, value in enumerate(values))


def z(value: float, pool: list[float]) -> float:
    return (value - fmean(pool)) / (stdev(pool) + 1e-6) if len(set(pool)) > 1 else 0.0


def test_at_gamma_zero_a_turn_that_is_no_step_gets_nothing(table_of: Any):
    table = table_of([[0, 1], [0, 0]])
    for mode in ("sum", "mean"):
        assert step_grpo(table, mode=mode, gamma=0.0)[[0, 2]].tolist() == [0, 0]


@pytest.mark.parametrize("bad", [{"mode": "max"}, {"gamma": 2.0}, {"eps": -1.0}, {"ddof": 2}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError):
        step_grpo(table_of(STEPS), **bad)
