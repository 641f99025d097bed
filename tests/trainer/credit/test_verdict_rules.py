"""Rules whose worked numbers begin with verdicts: rubric → ledger → table → rule. ddof 1, eps 0 unless stated."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near
from turngate.errors import ConfigError, ShapeError
from turngate.rewards import FromEvidence, Rubric, needs_outcome, veto
from turngate.trainer.credit.capo import capo
from turngate.trainer.credit.clip_delta import clip, clipped, delta, differences
from turngate.trainer.credit.gdpo import gdpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.hero import hero, spread_weight, stratified
from turngate.trainer.credit.ppr import ppr
from turngate.trainer.credit.rloo import rloo

WON = FromEvidence(name="won", evidence="won", kind="outcome")
STEP = FromEvidence(name="step", evidence="step", per_turn=True, agg="sum", low=-1.0)
RUBRIC = Rubric(rewards=(WON, STEP))
nan = np.nan
FEW = settings(max_examples=25)


def steps(sums_N: np.ndarray) -> list[float]:
    """Differences of sums to go, of one trajectory."""
    return (sums_N - np.append(sums_N[1:], 0)).tolist()


# --- CAPO ------------------------------------------------------------------------------------------------------------


def test_capo_worked_numbers(tabled_of: Any):
    """Steps right, wrong, right; W 2 and 1: a success has rewards 2, 1, 2 and a failure 0, −1, 0."""
    table = tabled_of(RUBRIC, [{"won": 1.0, "step": [1, 0, 1]}, {"won": 0.0, "step": [1, 0, 1]}])
    rewards = np.array([2, 1, 2, 0, -1, 0])
    expected = (rewards - rewards.mean()) / rewards.std(ddof=1)
    assert capo(table, eps=0.0).tolist() == near(expected.tolist())


def test_capo_compares_tokens(tabled_of: Any):
    tokens = [[3, 1], [2, 4]]
    table = tabled_of(RUBRIC, [{"won": 1.0, "step": [1, 0]}, {"won": 0.0, "step": [1, 0]}], tokens)
    repeated = np.repeat([2.0, 1.0, 0.0, -1.0], [3, 1, 2, 4])
    expected = (np.array([2, 1, 0, -1]) - repeated.mean()) / repeated.std(ddof=1)
    assert capo(table, eps=0.0).tolist() == near(expected.tolist())


def test_capo_without_flags_and_with_one_token_each_is_grpo(table_of: Any):
    table = table_of(
        [[1], [0], [0]], process=[[nan], [1.0], [0.0]], is_open=[[True], [True], [False]], tokens_N=[1] * 3
    )
    assert capo(table).tolist() == near(grpo(table).tolist())


def test_capo_averaged_votes_flag_by_their_share(table_of: Any):
    table = table_of([[1], [1], [0]], process=[[0.5], [1.0], [1.0]], tokens_N=[1] * 3)
    rewards = np.array([1.5, 2.0, 0.0])
    assert capo(table, eps=0.0).tolist() == near(((rewards - rewards.mean()) / rewards.std(ddof=1)).tolist())


def test_capo_refuses_what_is_no_verdict(table_of: Any):
    with pytest.raises(ShapeError, match=r"process_N is -1\.0 at trajectory 0, turn 0; capo reads verdicts in"):
        capo(table_of([[1], [0]], process=[[-1.0], [1.0]], tokens_N=[1, 1]))
    with pytest.raises(ConfigError, match=r"w_outcome > w_process, found 1\.0 and 1\.0"):
        capo(table_of([[1]], tokens_N=[1]), w_outcome=1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.lists(st.floats(0, 1), min_size=1, max_size=6))
@FEW
def test_capo_a_wrong_step_of_a_success_beats_any_step_of_a_failure(table_of: Any, won: list[float], lost: list[float]):
    rows = [[0.0] * (len(won) - 1) + [1.0], [0.0] * len(lost)]
    table = table_of(rows, process=[won, lost], tokens_N=[1] * (len(won) + len(lost)))
    credit_N = capo(table)
    assert credit_N[: len(won)].min() > credit_N[len(won) :].max()


# --- PPR -------------------------------------------------------------------------------------------------------------


def test_ppr_worked_numbers(tabled_of: Any):
    """p = .8, .2: a success earns .8, .2 and a failure −.2, −.8."""
    table = tabled_of(RUBRIC, [{"won": 1.0, "step": [0.8, 0.2]}, {"won": 0.0, "step": [0.8, 0.2]}])
    sums = ppr(table, baseline="none")
    assert steps(sums[:2]) == near([0.8, 0.2])
    assert steps(sums[2:]) == near([-0.2, -0.8])
    assert ppr(table).tolist() == near([1.0 + 1.0, 0.2 + 1.0, -1.0 - 1.0, -0.8 - 1.0])
    assert steps(ppr(table, baseline="none", per_turn=False)[:2]) == near([0.4, 0.1])


def test_ppr_without_a_verdict_earns_the_outcomes_part(table_of: Any):
    table = table_of([[0, 1], [0, 0]], process=[[0.8, nan], [nan, 0.2]])
    sums = ppr(table, baseline="none")
    assert steps(sums[:2]) == near([0.8, 0.5])
    assert steps(sums[2:]) == near([-0.5, -0.8])
    short = table_of([[1], [0], [0]])
    assert ppr(short).tolist() == near(rloo(short).tolist())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from([0.0, 1.0]))
@FEW
def test_ppr_shared_among_the_turns_is_bounded_in_length(table_of: Any, scores: list[float], won: float):
    table = table_of([[0.0] * (len(scores) - 1) + [won]], process=[scores])
    assert won - 1 - 1e-5 <= ppr(table, baseline="none", per_turn=False)[0] <= won + 1e-5


# --- Clip and Delta --------------------------------------------------------------------------------------------------

Q = [0.9, 0.8, 0.95, 0.3]


def test_clip_and_delta_worked_numbers(tabled_of: Any):
    """η .5: clip 0, 0, 0, −.2; delta .1, −.15, .65 with sums to go .6, .5, .65; delta of clip 0, 0, .2."""
    table = tabled_of(RUBRIC, [{"won": 0.0, "step": Q}])
    assert steps(clip(table, baseline="none")) == near([0, 0, 0, -0.2])
    assert delta(table, baseline="none").tolist() == near([0.6, 0.5, 0.65, 0.0])
    assert steps(delta(table, baseline="none")) == near([0.1, -0.15, 0.65, 0.0])
    assert steps(delta(table, threshold=0.5, baseline="none")) == near([0, 0, 0.2, 0.0])


def test_the_outcome_stands_beside_the_steps(tabled_of: Any):
    table = tabled_of(RUBRIC, [{"won": 1.0, "step": [0.9, 0.4]}, {"won": 0.0, "step": [0.8, 0.2]}])
    own, other = np.array([1.5, 1.0]), np.array([0.6, 0.0])
    assert delta(table).tolist() == near([*(own - 0.6), *(other - 1.5)])
    assert clip(table, weight=0.5).tolist() == near([0.95 + 0.15, 0.95 + 0.15, -0.15 - 0.95, -0.15 - 0.95])


def test_a_missing_step_is_left_out_and_its_neighbours_are_joined(table_of: Any):
    table = table_of([[0] * 4, [0] * 2], process=[[0.9, nan, 0.3, nan], [nan, nan]])
    found = differences(table.process_N.astype(np.float64), table)
    np.testing.assert_allclose(found, [0.6, nan, 0.0, nan, nan, nan], atol=1e-6)
    assert np.isnan(clipped(np.array([nan]), 0.5)).all()
    assert delta(table, baseline="none").tolist() == near([0.6, 0, 0, 0, 0, 0])


@given(st.lists(st.lists(st.one_of(st.just(nan), st.floats(0, 1)), min_size=1, max_size=6), min_size=1, max_size=4))
@FEW
def test_delta_pays_each_step_its_own_score_above_the_last(table_of: Any, rows: list[list[float]]):
    expected = []
    for row in rows:
        known = [v for v in row if not np.isnan(v)]
        later = [next((v for v in row[t:] if not np.isnan(v)), nan) for t in range(len(row))]
        expected += [0.0 if np.isnan(v) else v - known[-1] for v in later]
    found = delta(table_of([[0] * len(row) for row in rows], process=rows), baseline="none")
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("rule", [clip, delta])
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=6), n=st.integers(1, 40))
@FEW
def test_repeating_a_good_step_never_raises_what_an_episode_earns(
    table_of: Any, rule: Callable[..., Any], scores: list[float], n: int
):
    def earned(row: list[float]) -> float:
        return float(rule(table_of([[0] * len(row)], process=[row]), baseline="none")[0])

    assert earned([*scores, *[max(scores)] * n]) <= earned(scores) + 1e-5


@pytest.mark.parametrize("rule", [clip, delta])
def test_without_verdicts_it_is_rloo_of_the_outcome(table_of: Any, rule: Callable[..., Any]):
    table = table_of([[0, 1], [0.25], [0, 0, 0]])
    np.testing.assert_allclose(rule(table), rloo(table), atol=1e-6)
    with pytest.raises(ConfigError, match="weight is -1"):
        rule(table, weight=-1.0)
    with pytest.raises(ConfigError, match="baseline is 'mean'"):
        rule(table, baseline="mean")


# --- GDPO ------------------------------------------------------------------------------------------------------------

HARD = FromEvidence(name="hard", evidence="hard", kind="outcome", weight=0.7)
EASY = FromEvidence(name="easy", evidence="easy", weight=0.2)


def two(first: list[float | None], second: list[float | None]) -> list[dict[str, Any]]:
    return [{"hard": a, "easy": b, "step": [0]} for a, b in zip(first, second, strict=True)]


def test_gdpo_worked_numbers(tabled_of: Any):
    """r1 = 1, 1, 0, 0 and r2 = 1, 0, 0, 0; the rubric's weights play no part."""
    table = tabled_of(Rubric(rewards=(HARD, EASY)), two([1, 1, 0, 0], [1, 0, 0, 0]))
    before = gdpo(table, batch_norm=False, eps=0.0)
    assert before.tolist() == near([2.366025, 0.366025, -1.366025, -1.366025])
    assert before.std(ddof=1) == near(1.776148)
    assert gdpo(table, eps=0.0).tolist() == near([1.332111, 0.206078, -0.769095, -0.769095])
    weighted = gdpo(table, weights={"hard": 2.0}, eps=0.0)
    assert weighted.tolist() == near([2 * 0.866025, 2 * 0.866025, -2 * 0.866025, -2 * 0.866025])


def test_gdpo_tells_apart_what_a_sum_does_not(tabled_of: Any):
    rubric = Rubric(rewards=(HARD, EASY))
    one = gdpo(tabled_of(rubric, two([0, 1], [0, 0])), batch_norm=False, eps=0.0)
    both = gdpo(tabled_of(rubric, two([0, 1], [0, 1])), batch_norm=False, eps=0.0)
    assert (one.tolist(), both.tolist()) == (near([-0.707107, 0.707107]), near([-1.414214, 1.414214]))


def test_gdpo_never_counts_a_missing_reward_as_zero(tabled_of: Any):
    """The siblings' mean stands in for it; where no sibling has one, the component is left out."""
    rubric = Rubric(rewards=(HARD, EASY))
    table = tabled_of(rubric, two([1, 0, 1], [1.0, None, 0.5]))
    found = gdpo(table, batch_norm=False, eps=0.0)
    assert found.tolist() == near([0.577350 + 1.0, -1.154701, 0.577350 - 1.0])
    table = replace(table, measured={**table.measured, "paid/easy_B": np.array([1.0, np.nan, 0.5])})
    found = gdpo(table, batch_norm=False, eps=0.0)
    assert found.tolist() == near([0.577350 + 0.707107, -1.154701, 0.577350 - 0.707107])


def test_gdpo_hard_first_is_a_gate_of_the_rubric(tabled_of: Any):
    """Behind the gate the easy component of a failure is worth 0 before it is compared."""
    gated = Rubric(rewards=(HARD, EASY), gates=(needs_outcome(0.5),))
    found = gdpo(tabled_of(gated, two([1, 1, 0], [0.2, 0.8, 1.0])), batch_norm=False, eps=0.0)
    by_hand = gdpo(tabled_of(Rubric(rewards=(HARD, EASY)), two([1, 1, 0], [0.2, 0.8, 0.0])), batch_norm=False, eps=0.0)
    assert found.tolist() == near(by_hand.tolist())
    assert found[1] > found[0] > found[2]


def test_gdpo_a_veto_counts_against_an_honest_failure(tabled_of: Any):
    rubric = Rubric(rewards=(HARD,), gates=(veto("wrote"),))
    episodes = [{"hard": 1.0, "wrote": True, "step": [0]}, {"hard": 0.0, "wrote": False, "step": [0]}]
    found = gdpo(tabled_of(rubric, episodes))
    assert found[0] < 0 < found[1]


def test_gdpo_equal_components_cohorts_of_one_and_bad_settings(tabled_of: Any, table_of: Any):
    table = tabled_of(Rubric(rewards=(HARD, EASY)), two([1, 0], [0.5, 0.5]))
    assert gdpo(table, batch_norm=False, eps=0.0).tolist() == near([0.707107, -0.707107])
    columns = {"paid/a_B": [3.0, 1.0, 0.0, 5.0], "paid/b_B": [1.0, 0.0, 0.0, 1.0]}
    lone = table_of([[1]] * 4, cohorts=[0, 0, 0, 1], **columns)
    alone = gdpo(lone)
    assert alone[3] == 0
    three = table_of([[1]] * 3, **{name: values[:3] for name, values in columns.items()})
    assert alone[:3].tolist() == near(gdpo(three).tolist())
    one = table_of([[3], [1], [0]], **{"paid/a_B": [3.0, 1.0, 0.0]})
    assert gdpo(one, eps=1e-6).tolist() == near(grpo(one).tolist())
    with pytest.raises(ShapeError, match="gdpo needs column 'paid/x_B'"):
        gdpo(one, weights={"x": 1.0})
    with pytest.raises(ShapeError, match="gdpo needs columns 'paid/NAME_B'"):
        gdpo(table_of([[1]]))
    with pytest.raises(ConfigError, match="weights is empty"):
        gdpo(one, weights={})


@given(
    st.lists(st.tuples(st.integers(0, 4), st.one_of(st.just(nan), st.integers(0, 4)), st.integers(0, 1)), min_size=1)
)
@FEW
def test_gdpo_is_its_definition(table_of: Any, rows: list[tuple[float, float, int]]):
    cohorts: dict[int, int] = {}
    cohort = np.array([cohorts.setdefault(g, len(cohorts)) for *_, g in rows])
    parts = np.array([row[:2] for row in rows], np.float64)
    found = gdpo(
        table_of([[0]] * len(rows), cohorts=cohort.tolist(), **{"paid/a_B": parts[:, 0], "paid/b_B": parts[:, 1]}),
        batch_norm=False,
    )
    expected = np.zeros(len(rows))
    for k in range(2):
        for g in set(cohort.tolist()):
            own = np.flatnonzero((cohort == g) & ~np.isnan(parts[:, k]))
            values = parts[own, k]
            if len(own) > 1 and np.ptp(values) > 1e-9:
                expected[own] += (values - values.mean()) / (values.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


# --- HERO ------------------------------------------------------------------------------------------------------------

JUDGED = FromEvidence(name="judged", evidence="judged", low=-9.0, high=9.0, weight=0.01)


def judged(won: list[float], score: list[float | None]) -> list[dict[str, Any]]:
    return [{"won": a, "judged": b, "step": [0]} for a, b in zip(won, score, strict=True)]


def test_hero_worked_numbers(tabled_of: Any):
    """rule 1, 1, 0, 0 and scores 2, 0, 1, −1: r̂ = 1.05, .95, .05, −.05, with z = ±.947900, ±.775555."""
    rubric = Rubric(rewards=(WON, JUDGED))
    table = tabled_of(rubric, judged([1, 1, 0, 0], [2, 0, 1, -1]))
    score_B = table.measured["paid/judged_B"].astype(np.float64)
    right_B = np.array([True, True, False, False])
    assert stratified(right_B, score_B, table, alpha=0.05, beta=0.05, flat=0.5).tolist() == near(
        [1.05, 0.95, 0.05, -0.05]
    )
    expected = 1.7 * np.array([0.947900, 0.775555, -0.775555, -0.947900])  # one cohort: its spread is the usual one
    assert hero(table, score="judged", min_std=0.0, eps=0.0).tolist() == near(expected.tolist())
    spread = float(np.std([0.2, 0.6], ddof=1))
    pair = tabled_of(rubric, judged([1, 0], [0.2, 0.6]))
    column = 100 * pair.measured["paid/judged_B"].astype(np.float64)
    ours = spread_weight(column, pair, spread - 0.2, w_min=0.4, w_max=3.0, k=6.0, ddof=1)
    assert ours.tolist() == near([2.398164] * 2)
    other = spread_weight(column, pair, spread - 0.2, w_min=0.5, w_max=2.0, k=5.0, ddof=1)
    assert other.tolist() == near([1.596588] * 2)


def test_hero_reads_process_verdicts_by_default(tabled_of: Any):
    """Scores as verdicts, a rubric that pays the outcome: z(r̂) times w with the batch's own spread (σ(0) = ½)."""
    table = tabled_of(
        Rubric(rewards=(WON, STEP.model_copy(update={"weight": 0.01}))),
        [
            {"won": 1.0, "step": [1.0]},
            {"won": 1.0, "step": [0.0]},
            {"won": 0.0, "step": [0.5, 0.5]},
            {"won": 0.0, "step": [-0.5]},
        ],
    )
    expected = (0.4 + 2.6 / 2) * np.array([0.947900, 0.775555, -0.775555, -0.775555, -0.947900])
    assert hero(table, min_std=0.0, eps=0.0).tolist() == near(expected.tolist())


def test_hero_strata_that_cannot_be_ranked_sit_in_the_middle_or_where_published(table_of: Any):
    table = table_of([[1], [0], [0], [1]])
    right, score = np.array([True, False, False, True]), np.array([3.0, 0.7, 0.7, nan])
    assert stratified(right, score, table, alpha=0.05, beta=0.05, flat=0.5).tolist() == near([1.0, 0.0, 0.0, 1.0])
    assert stratified(right, score, table, alpha=0.05, beta=0.05, flat=0.0).tolist() == near([0.95, -0.05, -0.05, 0.95])


def test_hero_a_floor_keeps_groups_of_one_verdict_small(table_of: Any):
    wrong = table_of([[0], [0]], process=[[0.0], [1.0]])
    assert np.abs(hero(wrong, min_std=0.0, eps=0.0)).max() > 1.0
    assert np.abs(hero(wrong, min_std=0.5)).max() < 0.3


def test_hero_without_scores_is_grpo_of_the_rule_up_to_the_weight(table_of: Any):
    table = table_of([[0.8], [0.1], [0.0]])
    rule = table_of([[1], [0], [0]])
    assert hero(table, min_std=0.0).tolist() == near((1.7 * grpo(rule)).tolist())


@given(
    st.lists(st.tuples(st.booleans(), st.one_of(st.just(nan), st.floats(-9, 9)), st.integers(0, 2)), min_size=1),
    st.floats(0, 0.499),
    st.floats(0, 0.499),
)
@FEW
def test_hero_never_lets_a_wrong_answer_overtake(
    table_of: Any, rows: list[tuple[bool, float, int]], alpha: float, beta: float
):
    right = np.array([r for r, *_ in rows])
    table = table_of([[0]] * len(rows), cohorts=[g for *_, g in rows])
    found = stratified(right, np.array([s for _, s, _ in rows]), table, alpha=alpha, beta=beta, flat=0.5)
    assert (found[right] >= 1 - beta - 1e-9).all()
    assert (found[~right] <= alpha + 1e-9).all()


@pytest.mark.parametrize(
    "bad", [{"alpha": 0.5}, {"beta": -0.1}, {"flat": 2.0}, {"w_min": 4.0}, {"k": -1.0}, {"spread": -1.0}, {"ddof": 3}]
)
def test_hero_refuses_settings_out_of_range(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="hero"):
        hero(table_of([[1], [0]]), **bad)
