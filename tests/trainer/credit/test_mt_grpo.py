"""MT-GRPO: the worked example, the bias of the published form, and the corrected form without it."""

from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.pay_sources import split_sources
from turngate.trainer.credit.rloo import rloo

NAN = float("nan")


def test_the_worked_example(table_of: Any):
    """Turn rewards 1, 1, 0, 0 and outcomes 1, 0, 0, 0."""
    table = table_of(
        [[1, 1], [1, 0], [0, 0], [0, 0]],
        process=[[1, NAN], [1, NAN], [0, NAN], [0, NAN]],
        outcome=[1, 0, 0, 0],
    )
    advantage_N = mt_grpo(table)
    np.testing.assert_allclose(advantage_N[::2], [2.365575, 0.365975, -1.365775, -1.365775], atol=1e-5)
    np.testing.assert_allclose(advantage_N[1::2], [1.4997, -0.4999, -0.4999, -0.4999], atol=1e-5)


def test_the_weight_scales_the_turn_part_only(table_of: Any):
    table = table_of([[1, 1], [0, 1]], process=[[1, NAN], [0, NAN]], outcome=[1, 1])
    half = 0.5 / (0.5**0.5 + 1e-4)
    np.testing.assert_allclose(mt_grpo(table, weight=3.0), [3 * half, 0, -3 * half, 0], atol=1e-5)


def test_a_turn_gets_what_the_later_turns_earned(table_of: Any):
    rows = [[0.5, 0.25, 1], [0, 0.75, 1]]
    table = table_of(rows, process=[[0.5, 0.25, NAN], [0, 0.75, NAN]], outcome=[1, 1])
    z = 0.5**0.5
    np.testing.assert_allclose(mt_grpo(table, eps=0.0), [0, -z, 0, 0, z, 0], atol=1e-6)
    np.testing.assert_allclose(mt_grpo(table, mode="corrected"), [0, -0.5, 0, 0, 0.5, 0], atol=1e-6)


def test_the_payment_of_the_last_turn_is_taken_apart(table_of: Any):
    """Process 0.5 beside the outcome; behind a closed gate; cut to 0.2; without a verdict; taken back by a veto."""
    table = table_of(
        [[1.5], [1.0], [1.2], [1.0], [-1.0]],
        process=[[0.5], [0.5], [0.5], [NAN], [0.5]],
        is_open=[[True], [False], [True], [True], [False]],
        outcome=[1, 1, 1, 1, 1],
        process_paid_N=[0.5, 0, 0.2, 0, 0],
    )
    turn_N, outcome_B = split_sources(table, "mt_grpo")
    np.testing.assert_allclose(turn_N, [0.5, NAN, 0.2, NAN, NAN], atol=1e-6)
    np.testing.assert_allclose(outcome_B, [1, 1, 1, 1, -1], atol=1e-6)
    np.testing.assert_allclose(np.nan_to_num(turn_N) + outcome_B, table.total_B, atol=1e-12)


def test_a_penalty_in_the_middle_belongs_to_its_turn(table_of: Any):
    turn_N, outcome_B = split_sources(table_of([[-0.25, 0, 1]], outcome=[1]), "mt_grpo")
    np.testing.assert_array_equal(turn_N, [-0.25, NAN, NAN])
    assert outcome_B.tolist() == [1]


def go_or_stop(table_of: Any, mode: Any, p: float, pays: float, depth: int, siblings: int) -> float:
    """E of the estimated gradient of one shared logit, over all runs of ``siblings`` trajectories.

    Before each turn but the first the policy goes on with probability p, at most to ``depth`` turns; every turn after
    the first pays ``pays``. The last turn has no decision.
    """
    chances = [p**k * (1 - p) for k in range(depth - 1)] + [p ** (depth - 1)]
    estimate = 0.0
    for lengths in product(range(1, depth + 1), repeat=siblings):
        rows = [[0.0] + [pays] * (length - 1) + [0.0] for length in lengths]
        process = [[NAN] + [pays] * (length - 1) + [NAN] for length in lengths]
        table = table_of(rows, process=process, outcome=[0.0] * siblings)
        advantage = iter(mt_grpo(table, mode=mode).tolist())
        for length in lengths:
            credit = [next(advantage) for _ in range(length + 1)]
            scores = [1 - p] * (length - 1) + ([-p] if length < depth else [])
            weight = np.prod([chances[other - 1] for other in lengths]) / siblings
            estimate += weight * sum(s * a for s, a in zip(scores, credit, strict=False))
    return float(estimate)


def test_stopping_is_credited_only_after_the_correction(table_of: Any):
    """A second turn that always pays ½, reached with probability ½: the true gradient is p(1−p)·½ = 0.125."""
    assert go_or_stop(table_of, "published", 0.5, 0.5, 2, 3) == pytest.approx(0.0, abs=1e-7)
    assert go_or_stop(table_of, "corrected", 0.5, 0.5, 2, 3) == pytest.approx(0.125, abs=1e-7)


@pytest.mark.parametrize(("p", "siblings"), [(0.3, 2), (0.7, 3)])
def test_the_corrected_form_is_unbiased_when_several_turns_may_follow(table_of: Any, p: float, siblings: int):
    """J = pays (p + p²), so dJ/dlogit = p(1−p) pays (1 + 2p)."""
    true = p * (1 - p) * 0.4 * (1 + 2 * p)
    assert go_or_stop(table_of, "corrected", p, 0.4, 3, siblings) == pytest.approx(true, abs=1e-6)
    assert abs(go_or_stop(table_of, "published", p, 0.4, 3, siblings) - true) > 0.05


TURN = st.tuples(st.integers(0, 4), st.booleans())
BATCH = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.lists(TURN, max_size=4)), min_size=1, max_size=7)


@given(BATCH, st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=40)
def test_the_corrected_form_against_plain_loops(table_of: Any, batch: list[Any], weight: float):
    """Each trajectory: turns with rewards, then a turn that is paid the outcome."""
    rows = [[*(float(r) for r, _ in turns), float(outcome)] for _, outcome, turns in batch]
    process = [[*(float(r) if said else NAN for r, said in turns), NAN] for *_, turns in batch]
    expected = []
    for i, (cohort, outcome, turns) in enumerate(batch):
        others = [k for k, (other, *_) in enumerate(batch) if other == cohort and k != i]
        for t in range(len(turns) + 1):
            own = outcome + weight * sum(rows[i][t:-1])
            theirs = [batch[k][1] + weight * sum(rows[k][t:-1]) for k in others]
            expected.append(own - fmean(theirs) if others else 0.0)
    table = table_of(rows, [c for c, *_ in batch], process=process, outcome=[o for _, o, _ in batch])
    np.testing.assert_allclose(mt_grpo(table, mode="corrected", weight=weight), expected, atol=1e-5)


@pytest.mark.parametrize(("value", "count"), [(0.9, 12), (0.7, 7), (0.1, 10)])
@pytest.mark.parametrize("mode", ["published", "corrected"])
def test_equal_turn_rewards_never_train(table_of: Any, mode: Any, value: float, count: int):
    rows, process = [[value, value, 1]] * count, [[value, value, NAN]] * count
    table = table_of(rows, process=process, outcome=[1] * count)
    assert not mt_grpo(table, mode=mode, eps=1e-8).any()


def test_sums_that_differ_by_rounding_are_equal(table_of: Any):
    rows = [[0.1, 0.2, 1], [0.3, 0.0, 1]]
    table = table_of(rows, process=[[0.1, 0.2, NAN], [0.3, 0.0, NAN]], outcome=[1, 1])
    assert mt_grpo(table, mode="corrected")[[0, 3]].tolist() == [0, 0]


def test_one_turn_makes_the_corrected_form_rloo(table_of: Any):
    table = table_of([[1.5], [0.25], [1]], process=[[0.5], [0.25], [NAN]], outcome=[1, 0, 1])
    np.testing.assert_allclose(mt_grpo(table, mode="corrected"), rloo(table), atol=1e-6)


@pytest.mark.parametrize("bad", [{"mode": "fixed"}, {"eps": -1.0}, {"ddof": 2}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="mt_grpo"):
        mt_grpo(table_of([[1], [0]]), **bad)
