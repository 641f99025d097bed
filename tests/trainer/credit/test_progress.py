"""PAV, VSRM and SPAE against their worked numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near_or_missing as near
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.progress import best_of, progress, rises_after, rises_before
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.spae import potential, spae
from turngate.trainer.credit.turn_gae import turn_gae

nan = np.nan
FEW = settings(max_examples=25)
maybe = st.one_of(st.just(nan), st.floats(0, 1))


def one(table_of: Any, values: list[float], outcome: float = 0.0, **columns: Any) -> Any:
    rewards = [[0.0] * (len(values) - 1) + [outcome]]
    return table_of(rewards, value_N=values, accuracy_N=values, **columns)


def steps(sums_N: np.ndarray, outcome: float = 0.0) -> list[float]:
    return (sums_N - np.append(sums_N[1:], outcome)).tolist()


# --- PAV -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "gain"), [(1, 0.2), (2, 0.24), (3, 0.218), (4, 0.1776), (8, 0.053742)])
def test_the_best_of_k_as_prover(table_of: Any, k: int, gain: float):
    """V from .3 to .5; the second turn leads to a failure."""
    table = one(table_of, [0.3, 0.5])
    assert steps(progress(table, read="value", prover_k=k, baseline="none"))[0] == near(gain)
    assert (best_of(np.array([0.5]), k) - best_of(np.array([0.3]), k)).tolist() == near([gain])


def test_the_progress_of_a_prover(table_of: Any):
    """V = .3, .5, .4 and then .9: .2, −.1, .5."""
    table = one(table_of, [0.3, 0.5, 0.4], outcome=0.9)
    assert steps(progress(table, read="value", baseline="none"), 0.9) == near([0.2, -0.1, 0.5])
    assert steps(progress(table, read="value", weight=3.0, baseline="none"), 0.9) == near([0.6, -0.3, 1.5])


def test_turns_between_two_measurements_share_their_difference(table_of: Any):
    table = table_of([[0] * 5, [0] * 2, [0], [0]])
    values = np.array([0.1, nan, nan, 0.7, 0.5, nan, 0.2, 0.4, nan])
    found = rises_before(values, np.array([1.0, 1.0, nan, 1.0]), table)
    assert found.tolist() == near([0.2, 0.2, 0.2, -0.2, 0.5, nan, 0.8, nan, nan])


@given(st.lists(st.lists(maybe, min_size=1, max_size=6), min_size=1, max_size=4), st.data(), st.integers(1, 4))
@FEW
def test_progress_telescopes(table_of: Any, rows: list[list[float]], data: Any, k: int):
    ends = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows))))
    table = table_of([[0] * len(row) for row in rows])
    values = best_of(np.array([v for row in rows for v in row]), k)
    found = rises_before(values, best_of(ends, k), table)
    for b, row in enumerate(rows):
        own = found[table.traj_N == b]
        known = [t for t, v in enumerate(row) if not np.isnan(v)]
        assert np.isnan(own).tolist() == [not known or t < known[0] for t in range(len(row))]
        if known:
            first = values[table.traj_N == b][known[0]]
            assert np.nansum(own) == near(best_of(ends, k)[b] - first, 1e-9)


def test_filler_makes_no_progress(table_of: Any):
    table = one(table_of, [0.3, 0.3, 0.3, 0.5], outcome=0.5)
    assert steps(progress(table, read="value", baseline="none"), 0.5) == near([0, 0, 0.2, 0])


def test_potential_based_shaping_is_a_critic_with_lambda_one(table_of: Any):
    """Φ = .2, .6, .5 and R = 1: the reward to go is shifted by −Φ(s_t), to .8, .4, .5."""
    assert turn_gae(one(table_of, [0.2, 0.6, 0.5], outcome=1.0), gamma=1.0, lam=1.0).tolist() == near([0.8, 0.4, 0.5])


# --- VSRM ------------------------------------------------------------------------------------------------------------


def test_the_worked_accuracies(table_of: Any):
    """p = 0, .25, .75, .75, .5: .25, .5, 0, −.25; the first of five turns has nothing before it."""
    five = one(table_of, [0, 0.25, 0.75, 0.75, 0.5])
    assert steps(progress(five, baseline="none")) == near([0, 0.25, 0.5, 0, -0.25])
    four = one(table_of, [0.25, 0.75, 0.75, 0.5])
    assert steps(progress(four, start=0.0, baseline="none")) == near([0.25, 0.5, 0, -0.25])


def test_a_turn_that_was_not_probed_shares_with_the_next_one(table_of: Any):
    table = table_of([[0] * 4, [0]])
    found = rises_after(np.array([0.2, nan, 0.8, nan, nan]), None, table)
    assert found.tolist() == near([nan, 0.3, 0.3, nan, nan])


def test_the_siblings_are_the_baseline(table_of: Any):
    table = table_of([[0, 1], [0, 0]], accuracy_N=[0.5, 1.0, 0.5, 0.25])
    assert progress(table).tolist() == near([1.5 + 0.25, 1.5 + 0.25, -0.25 - 1.5, -0.25 - 1.5])
    flat = table_of([[0, 1], [0, 0], [0.5]], accuracy_N=[nan] * 5)
    np.testing.assert_allclose(progress(flat), rloo(flat), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"read": "x"}, "read is 'x'"),
        ({"baseline": "x"}, "baseline is 'x'"),
        ({"weight": -1.0}, "weight is -1.0"),
        ({"prover_k": 2}, "only with read 'value'"),
        ({"prover_k": 0, "read": "value"}, "prover_k ≥ 1"),
        ({"start": 0.0, "read": "value"}, "only with read 'accuracy'"),
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        progress(one(table_of, [0.5]), **bad)


def test_the_best_of_several_needs_rates(table_of: Any):
    with pytest.raises(ShapeError, match=r"value_N holds 1\.5"):
        progress(one(table_of, [1.5]), read="value", prover_k=4)


# --- SPAE ------------------------------------------------------------------------------------------------------------

ACC, CONF = [0.1, 0.3, 0.9, 0.95, 0.2], [0.3, 0.4, 0.9, 0.95, 0.9]
PHI, RISE = [-0.205, -0.07, 0.765, 0.87875, -0.53], [0, 0.135, 0.835, 0.11375, -1.40875]


def test_the_worked_potentials():
    assert potential(np.array(ACC), np.array(CONF)).tolist() == near(PHI)
    assert potential(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])).tolist() == near([-1, 1, 0.5])


def test_the_worked_differences(table_of: Any):
    table = table_of([[0] * 5, [1]], accuracy_N=[*ACC, 0.5], confidence_N=[*CONF, 0.5])
    outcome = grpo(table)
    assert (spae(table, weight=1.0) - outcome).tolist() == near([*RISE, 0])
    assert (spae(table) - outcome).tolist() == near([0.5 * rise for rise in RISE] + [0])


def test_resume_when_all_is_known_costs(table_of: Any):
    table = table_of([[0] * 3, [1]], accuracy_N=[1.0, nan, 1.0, nan], confidence_N=[1.0, 1.0, 1.0, 1.0])
    assert (spae(table, weight=1.0) - grpo(table)).tolist() == near([0, -0.1, -0.1, 0])
    assert (spae(table, saturated=1.0) - grpo(table)).tolist() == near([0, 0, 0, 0])


def test_a_probe_that_failed_leaves_the_outcome(table_of: Any):
    table = table_of([[0, 1], [0]], accuracy_N=[nan] * 3, confidence_N=[0.5] * 3)
    assert spae(table).tolist() == near(grpo(table).tolist())
    with pytest.raises(ConfigError, match=r"saturation is -1\.0"):
        spae(table, saturation=-1.0)
