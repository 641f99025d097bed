"""From several rewards to one number. Worked numbers: ddof 1, eps 0 unless stated."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.combine import (
    HardFirst,
    gdpo,
    hero,
    hero_advantage,
    hero_weight,
    lsc,
    par,
    ppr,
    weighted_sum,
)
from turngate.rewards.consistency import consistency, prof_keep
from turngate.rewards.statistics import z_scores

NAN = math.nan
EXACT: dict[str, Any] = {"eps": 0.0, "ddof": 1}
quick = settings(max_examples=25, deadline=None)


def near(expected: Any, tolerance: float = 1e-5) -> Any:
    return pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)


# --- sums ------------------------------------------------------------------------------------------------------------


def test_weighted_sum_leaves_out_what_was_not_measured():
    components = [[1, 0.5], [NAN, 0.5], [NAN, NAN]]
    assert weighted_sum(components, [1, 2]).tolist() == near([2, 1, NAN])
    assert weighted_sum(components, [1, 2], missing="nan").tolist() == near([2, NAN, NAN])
    assert weighted_sum(components).tolist() == near([1.5, 0.5, NAN])


def test_log_sigmoid_sum_is_the_log_probability_of_beating_every_reference():
    scores, reference = [[2.0, 0.0], [0.5, 0.5]], [1.0, 0.0]
    sigmoid = [[1 / (1 + math.exp(-(s - r))) for s, r in zip(row, reference, strict=True)] for row in scores]
    assert np.exp(lsc(scores, reference)).tolist() == near([row[0] * row[1] for row in sigmoid], 1e-9)


def test_log_sigmoid_sum_does_not_let_one_property_buy_back_another():
    balanced, lopsided = [1.0, 1.0], [1000.0, -3.0]
    low, high = lsc([lopsided, balanced], [0.0, 0.0])
    assert low < high < 0
    assert low == near(-3.048587)  # log σ(−3): the excellent property adds nothing, and nothing overflows
    assert weighted_sum([lopsided, balanced])[0] > weighted_sum([lopsided, balanced])[1]


def test_log_sigmoid_sum_far_below_the_references_is_the_centred_sum():
    assert lsc([[-500.0, -400.0]], [[0.0, 100.0]], [1, 2], temperature=2.0).tolist() == near([-250.0 - 2 * 250.0])


def test_log_sigmoid_sum_is_unknown_if_a_part_is():
    assert lsc([[1.0, NAN]], [0.0, 0.0]).tolist() == near([NAN])
    assert lsc([[0.0, NAN]], [0.0, 0.0], missing="skip").tolist() == near([math.log(0.5)])


def test_preference_as_reward():
    assert par([0.0, 1.0, -1.0], [0.0]).tolist() == near([0.5, 0.731059, 0.268941])
    assert par([0.0, 0.0], [[1.0, -1.0], [1.0, NAN]]).tolist() == near([0.5, 0.268941])
    assert par([NAN, 1e6, -1e6], [0.0]).tolist() == near([NAN, 1.0, 0.0])
    assert par([1.0, 1.0], [[NAN], [0.0]]).tolist() == near([NAN, 0.731059])


@quick
@given(st.lists(st.floats(-50, 50), min_size=2, max_size=8), st.lists(st.floats(-50, 50), min_size=1, max_size=4))
def test_preference_as_reward_is_bounded_and_keeps_the_order(scores: list[float], references: list[float]):
    reward = par(scores, references)
    assert ((reward >= 0) & (reward <= 1)).all()
    by_hand = [sum(1 / (1 + math.exp(r - s)) for r in references) / len(references) for s in scores]
    assert reward.tolist() == near(by_hand, 1e-12)
    order = np.argsort(scores)
    assert (np.diff(reward[order]) >= -1e-12).all()


def test_ppr_pays_process_and_outcome_around_one_half():
    traj = [0, 0, 1, 1]
    assert ppr([0.8, 0.2, 0.8, 0.2], [1, 0], traj).tolist() == near([0.8, 0.2, -0.2, -0.8])
    assert ppr([0.8, NAN, NAN, 0.2], [1, 0], traj).tolist() == near([0.8, 0.5, -0.5, -0.8])


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.0, 1.0]))
def test_ppr_shared_among_the_turns_is_bounded_in_length(scores: list[float], outcome: float):
    total = ppr(scores, [outcome], [0] * len(scores), per_turn=False).sum()
    assert outcome - 1 - 1e-9 <= total <= outcome + 1e-9


# --- GDPO ------------------------------------------------------------------------------------------------------------


def test_gdpo_worked_numbers():
    components = np.array([[1, 1], [1, 0], [0, 0], [0, 0]])
    summed = z_scores(components.sum(axis=1), [0] * 4, **EXACT)
    assert summed.tolist() == near([1.305582, 0.261116, -0.783349, -0.783349])
    before = gdpo(components, [0] * 4, batch_norm=False, **EXACT)
    assert before.tolist() == near([2.366025, 0.366025, -1.366025, -1.366025])
    assert before.std(ddof=1) == near(1.776148)
    assert gdpo(components, [0] * 4, **EXACT).tolist() == near([1.332111, 0.206078, -0.769095, -0.769095])


def test_gdpo_tells_apart_what_a_sum_does_not():
    one, two = [[0, 0], [1, 0]], [[0, 0], [1, 1]]
    assert z_scores([0, 1], [0, 0], **EXACT).tolist() == z_scores([0, 2], [0, 0], **EXACT).tolist()
    advantage = gdpo(one + two, [0, 0, 1, 1], batch_norm=False, **EXACT)
    assert advantage.tolist() == near([-0.707107, 0.707107, -1.414214, 1.414214])


def test_gdpo_with_one_component_is_grpo():
    values = np.array([3.0, 1.0, 0.0, 5.0, 9.0])
    groups = [0, 0, 0, 1, 1]
    assert gdpo(values[:, None], groups, eps=1e-6).tolist() == z_scores(values, groups).tolist()


def test_gdpo_never_counts_a_missing_reward_as_zero():
    gap = gdpo([[1, 5], [0, NAN], [1, 3]], [0] * 3, batch_norm=False, **EXACT)
    first = z_scores([1, 0, 1], [0] * 3, **EXACT)
    second = z_scores([5, 3], [0] * 2, **EXACT)
    assert gap.tolist() == near([first[0] + second[0], first[1], first[2] + second[1]])
    nothing = gdpo([[NAN, NAN], [1, 0], [0, 1], [1, 1]], [0] * 4, **EXACT)
    rest = gdpo([[1, 0], [0, 1], [1, 1]], [0] * 3, **EXACT)
    assert nothing.tolist() == near([0.0, *rest.tolist()])


def test_gdpo_constant_components_and_equal_rows_contribute_nothing():
    assert gdpo([[1, 7], [0, 7]], [0, 0], batch_norm=False, **EXACT).tolist() == near([0.707107, -0.707107])
    assert gdpo([[1, 7], [1, 7]], [0, 0]).tolist() == [0.0, 0.0]
    assert gdpo([[1, 7]], [0]).tolist() == [0.0]


def test_gdpo_hard_reward_first():
    components = np.array([[1, 0.2], [1, 0.8], [0, 1.0], [NAN, 1.0]])
    condition = HardFirst(easy=1, hard=0, threshold=0.5)
    conditioned = gdpo(components, [0] * 4, conditions=[condition], **EXACT)
    by_hand = gdpo([[1, 0.2], [1, 0.8], [0, 0.0], [NAN, NAN]], [0] * 4, **EXACT)
    assert conditioned.tolist() == near(by_hand.tolist(), 1e-12)
    assert conditioned[1] > conditioned[0] > conditioned[2]
    assert conditioned[3] == 0.0
    assert gdpo(components, [0] * 4, **EXACT)[2] > conditioned[2]


def test_gdpo_conditions_read_the_components_as_given():
    components = [[0, 1, 1], [1, 1, 1], [1, 0, 1]]
    chain = [HardFirst(easy=1, hard=0, threshold=1), HardFirst(easy=2, hard=1, threshold=1)]
    expected = gdpo([[0, 0, 1], [1, 1, 1], [1, 0, 0]], [0] * 3)
    for order in (chain, chain[::-1]):
        assert gdpo(components, [0] * 3, conditions=order).tolist() == near(expected.tolist(), 1e-12)


cell = st.one_of(st.just(NAN), st.floats(-3, 3))
table = st.lists(st.tuples(cell, cell, st.integers(0, 2)), min_size=1, max_size=14)


@quick
@given(table, st.randoms(use_true_random=False))
def test_gdpo_is_its_definition_in_any_order(rows: list[tuple[float, float, int]], random: Any):
    groups = np.array([g for *_, g in rows])
    components = np.array([row[:2] for row in rows])
    parts = []
    for k in range(2):
        z = np.full(len(rows), NAN)
        for g in set(groups):
            z[groups == g] = z_scores(components[groups == g, k], [0] * int((groups == g).sum()), eps=1e-4)
        parts.append(z)
    total = [NAN if math.isnan(a) and math.isnan(b) else np.nansum([a, b]) for a, b in zip(*parts, strict=True)]
    expected = np.nan_to_num(z_scores(total, [0] * len(rows), eps=1e-4))
    assert gdpo(components, groups).tolist() == near(expected.tolist(), 1e-7)
    order = list(range(len(rows)))
    random.shuffle(order)
    assert gdpo(components[order], groups[order]).tolist() == near(expected[order].tolist(), 1e-6)


# --- HERO ------------------------------------------------------------------------------------------------------------


def test_hero_worked_numbers():
    assert hero([1, 1, 0, 0], [2, 0, 1, -1], [0] * 4).tolist() == near([1.05, 0.95, 0.05, -0.05])
    spread = np.std([0.2, 0.6], ddof=1)
    assert hero_weight([0.2, 0.6], [0, 0], spread - 0.2).tolist() == near([2.398164] * 2)
    other = {"w_min": 0.5, "w_max": 2.0, "k": 5.0}
    assert hero_weight([0.2, 0.6], [0, 0], spread - 0.2, **other).tolist() == near([1.596588] * 2)


def test_hero_strata_that_cannot_be_ranked_sit_in_the_middle_or_where_published():
    rule, score = [1, 0, 0, 1], [3.0, 0.7, 0.7, NAN]
    assert hero(rule, score, [0] * 4).tolist() == near([1.0, 0.0, 0.0, 1.0])
    assert hero(rule, score, [0] * 4, flat=0.0).tolist() == near([0.95, -0.05, -0.05, 0.95])


def test_hero_strata_do_not_cross_groups():
    apart = hero([1, 1, 1, 1], [0, 1, 10, 20], [0, 0, 1, 1])
    assert apart.tolist() == near([0.95, 1.05, 0.95, 1.05])


def test_hero_division_guard():
    assert hero([1, 1], [0, 1], [0, 0], eta=1.0).tolist() == near([0.95, 1.0])


@quick
@given(
    st.lists(st.tuples(st.booleans(), st.one_of(st.just(NAN), st.floats(-9, 9)), st.integers(0, 2)), min_size=1),
    st.floats(0, 0.499),
    st.floats(0, 0.499),
)
def test_hero_never_lets_a_wrong_answer_overtake(rows: list[tuple[bool, float, int]], alpha: float, beta: float):
    rule = np.array([r for r, *_ in rows])
    reward = hero(rule, [s for _, s, _ in rows], [g for *_, g in rows], alpha=alpha, beta=beta)
    assert (reward[rule] >= 1 - beta - 1e-9).all()
    assert (reward[~rule] <= alpha + 1e-9).all()
    assert 1 - beta > alpha


def test_hero_weight_cancels_before_normalisation_and_works_after_it():
    rule, score, groups = [1, 1, 0, 0, 1, 1, 0, 0], [2, 0, 1, -1, 0.2, 0, 0.1, -0.1], [0] * 4 + [1] * 4
    reward, weight = hero(rule, score, groups), hero_weight(score, groups, 0.5)
    assert weight[0] > 2 * weight[4]
    plain = z_scores(reward, groups, **EXACT)
    assert z_scores(weight * reward, groups, **EXACT).tolist() == near(plain.tolist())
    after = hero_advantage(rule, score, groups, mean_spread=0.5, std_floor=0, **EXACT)
    assert after.tolist() == near((weight * plain).tolist())


def test_hero_floor_keeps_all_wrong_groups_small():
    wrong = {"rule_B": [0, 0], "score_B": [0, 1], "group_B": [0, 0], "mean_spread": 0.0}
    published = hero_advantage(**wrong, std_floor=0, **EXACT)
    floored = hero_advantage(**wrong, std_floor=0.5, **EXACT)
    assert np.abs(published).max() > 1.5
    assert np.abs(floored).max() < 0.3


# --- PROF ------------------------------------------------------------------------------------------------------------


def prof_case() -> tuple[list[int], list[float]]:
    return [1] * 5 + [0] * 3, [0.9, 0.8, 0.6, 0.4, 0.3, 0.7, 0.3, 0.2]


def test_prof_worked_numbers():
    outcome, mean = prof_case()
    c = (2 * np.array(outcome) - 1) * 2 * (np.array(mean) - 0.5)
    keep = prof_keep(outcome, c, [0] * 8, n_keep=4)
    assert keep.tolist() == [True, True, False, False, False, False, True, True]


def test_prof_keeps_a_rollout_nobody_judged_before_one_whose_process_contradicts_it():
    """The judge was silent on the first success; the second one has poor steps. Cut to two, one of each class."""
    p = [0.1, 0.2, 0.9, 0.8, 0.1, 0.1]
    c = consistency([1, 1, 0, 0], p, [1, 1, 2, 2, 3, 3])
    assert np.flatnonzero(prof_keep([1, 1, 0, 0], c, [0] * 4, n_keep=2)).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("n_keep", "right", "wrong"), [(4, {0.9, 0.8}, {0.6, 0.1}), (2, {0.9}, {0.1}), (8, None, None)]
)
def test_prof_balances_first_and_then_drops_evenly(n_keep: int, right: Any, wrong: Any):
    outcome, s = np.array([1] * 6 + [0] * 2), np.array([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.6, 0.1])
    for odd in ("even", "incorrect"):
        keep = prof_keep(outcome, (2 * outcome - 1) * s, [0] * 8, n_keep=n_keep, odd=odd)
        if right is None:
            assert keep.all()
        else:
            assert set(s[keep & (outcome == 1)]) == right
            assert set(s[keep & (outcome == 0)]) == wrong


def test_consistency_is_its_definition():
    traj, p = [0, 0, 1, 1, 3, 3], [0.9, 0.7, 0.2, NAN, 0.4, 0.6]
    centre = (0.9 + 0.7 + 0.2 + 0.4 + 0.6) / 5
    c = consistency([1, 0, 1, 0], p, traj)
    expected = [2 * (0.8 - centre), -2 * (0.2 - centre) - 10, 0, -2 * (0.5 - centre)]
    assert c.tolist() == near(expected)
    low = consistency([1, 0, 1, 0], p, traj, agg="min", min_turns=0)
    assert low.tolist() == near([2 * (0.7 - centre), -2 * (0.2 - centre), 0, -2 * (0.4 - centre)])
    assert consistency([1], [0.5] * 31, [0] * 31).tolist() == near([-10])
    assert consistency([1, 0, 1], [NAN, NAN], [0, 2]).tolist() == [0.0, 0.0, 0.0]  # nothing said: nothing to be off


def test_prof_never_drops_graded_outcomes_silently():
    with pytest.raises(ShapeError, match=r"outcome_B\[1\] is 0.5; it must be 0 or 1; binarise it first"):
        prof_keep([1, 0.5], [0, 0], [0, 0])
    with pytest.raises(ShapeError, match="binarise"):
        consistency([0.5], [1.0], [0])


def test_prof_ties_drop_the_larger_index():
    assert prof_keep([1] * 4 + [0] * 4, [0.0] * 8, [0] * 8).tolist() == [True, True, False, False] * 2


@pytest.mark.parametrize(("one_sided", "kept"), [("trim", [2, 3, 4, 5]), ("keep", list(range(6))), ("drop", [])])
def test_prof_one_sided_groups(one_sided: Any, kept: list[int]):
    keep = prof_keep([1] * 6, [0, 1, 2, 3, 4, 5], [7] * 6, one_sided=one_sided)
    assert np.flatnonzero(keep).tolist() == kept


def test_prof_odd_surplus():
    outcome, c, groups = [1, 1, 1, 0, 0], [3.0, 2, 1, 2, 1], [0] * 5
    assert np.flatnonzero(~prof_keep(outcome, c, groups, n_keep=3)).tolist() == [1, 2]  # round(1.5) = 2
    assert np.flatnonzero(~prof_keep(outcome, c, groups, n_keep=3, odd="incorrect")).tolist() == [2, 4]


def test_prof_correct_mode_drops_failures_by_seed():
    outcome, c = [1] * 4 + [0] * 4, [3.0, 2, 1, 0, 3, 2, 1, 0]
    kept = [prof_keep(outcome, c, [0] * 8, mode="correct", seed=seed) for seed in range(20)]
    assert all(keep[:4].tolist() == [True, True, False, False] and keep[4:].sum() == 2 for keep in kept)
    assert len({tuple(keep) for keep in kept}) > 3
    assert (kept[3] == prof_keep(outcome, c, [0] * 8, mode="correct", seed=3)).all()


@quick
@given(st.data())
def test_prof_keeps_n_balances_and_nests(data: Any):
    n = data.draw(st.integers(1, 10))
    outcome = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    c = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)), float)
    mode, odd = data.draw(st.sampled_from(["both", "correct"])), data.draw(st.sampled_from(["even", "incorrect"]))
    before = np.ones(n, np.bool_)
    imbalance = abs(2 * int(outcome.sum()) - n)
    for n_keep in range(n, 0, -1):
        keep = prof_keep(outcome, c, [0] * n, n_keep=n_keep, mode=mode, odd=odd)
        assert keep.sum() == n_keep
        assert not (keep & ~before).any()
        now = abs(2 * int(outcome[keep].sum()) - n_keep)
        assert now <= max(imbalance, 1)
        before, imbalance = keep, now


def test_prof_groups_are_cut_apart():
    outcome, c = np.array([1, 0, 1, 0, 1, 0, 1, 0]), np.arange(8.0)
    groups = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    together = prof_keep(outcome, c, groups, n_keep=2)
    for g in (0, 1):
        alone = prof_keep(outcome[groups == g], c[groups == g], [0] * 4, n_keep=2)
        assert together[groups == g].tolist() == alone.tolist()


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: weighted_sum([[1.0]], missing="zero"), ConfigError, "'zero'"),
        (lambda: weighted_sum([1.0]), ShapeError, "expected trajectories × at least one component"),
        (lambda: weighted_sum([[math.inf]]), ShapeError, r"component_BK\[\(0, 0\)\] is inf"),
        (lambda: weighted_sum([[1.0]], [1, 2]), ShapeError, r"weight_K has shape \(2,\)"),
        (lambda: lsc([[1.0]], [0.0], temperature=0), ConfigError, "temperature is 0"),
        (lambda: lsc([[1.0]], [0.0], [-1]), ConfigError, "negative parts"),
        (lambda: lsc([[1.0]], [0.0, 1.0]), ShapeError, "reference_K"),
        (lambda: par([1.0, 2.0, 3.0], [[1.0], [2.0]]), ShapeError, r"expected \(3, M\)"),
        (lambda: ppr([1.1], [1], [0]), ShapeError, r"process_N\[0\] is 1.1"),
        (
            lambda: gdpo([[1, 0]], [0], conditions=[HardFirst(easy=0, hard=0, threshold=1)]),
            ConfigError,
            "two different",
        ),
        (lambda: gdpo([[1, 0]], [0], conditions=[HardFirst(easy=2, hard=0, threshold=1)]), ConfigError, r"0\.\.1"),
        (lambda: hero([0.5], [1.0], [0]), ShapeError, "rule_B"),
        (lambda: hero([1], [1.0], [0], alpha=0.5), ConfigError, "alpha"),
        (lambda: hero([1], [1.0], [0], flat=2), ConfigError, "flat is 2"),
        (lambda: hero_weight([1.0], [0], 0.1, w_min=3, w_max=1), ConfigError, "w_min ≤ w_max"),
        (lambda: prof_keep([1], [0], [0], n_keep=0), ConfigError, "n_keep is 0"),
        (lambda: prof_keep([1], [0], [0], mode="all"), ConfigError, "'all'; it must be one of both, correct"),
        (lambda: consistency([1], [0.5], [0], agg="max"), ConfigError, "'max'"),
    ],
)
def test_bad_input_raises(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call()
