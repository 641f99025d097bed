"""Weights of imitation: the sheets' numbers (E6, E10, capabilities 12, 13), plain loops, and what they converge to."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.credit_rules import CREDITS
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.imitation_weights import a_lol, awr, bfs_prover, imitate, rise, top_scored
from turngate.trainer.credit.rule import CreditRule

PAID = st.lists(st.tuples(st.integers(0, 2), st.integers(-8, 8).map(lambda k: k / 4)), min_size=1, max_size=9)


def close(values: Any) -> Any:
    return pytest.approx(values, abs=1e-6)


def test_awr_of_the_sheet(table_of: Any):
    """A = 1, 0, −1, β = 1: the mean of 1, 0, −1 is 0."""
    assert awr(table_of([[1.0], [0.0], [-1.0]])).tolist() == close([2.718282, 1, 0.367879])
    values = table_of([[1.9], [0.9], [-0.1]], value_N=[0.9] * 3)
    assert awr(values, worth="critic").tolist() == close([2.718282, 1, 0.367879])
    assert awr(table_of([[9.0], [0.0]]), worth="none").tolist() == [20.0, 1.0]  # the cap
    assert awr(table_of([[9e9], [0.0]]), worth="none").tolist() == [20.0, 1.0]  # nothing overflows


def test_rise_of_the_sheet(table_of: Any):
    """Softmax of 1, .5, 0 at τ = ½; the mean weight of siblings is 1."""
    found = rise(table_of([[1.0], [0.5], [0.0], [7.0]], [0, 0, 0, 1]))
    assert (found / 3).tolist()[:3] == close([0.665241, 0.244728, 0.090031])
    assert found[3] == 1


def test_top_scored_of_its_docstring(table_of: Any):
    """Scores 1.2, .4, −1 over all turns: the first two; what was paid does not matter."""
    table = table_of([[0.0, 0.0], [1.0], [5.0]], logratio_N=[2.0, -0.8, 0.4, -1.0])
    assert top_scored(table).tolist() == [1, 1, 1, 0]
    assert top_scored(table, most=1).tolist() == [1, 1, 0, 0]
    silent = table_of([[0.0, 0.0], [1.0], [5.0]], logratio_N=[np.nan, 0.1, 0.4, -1.0])
    assert top_scored(silent, most=2).tolist() == [1, 1, 1, 0]
    assert top_scored(table_of([[0.0], [0.0], [0.0]], logratio_N=[0.5] * 3)).tolist() == [1, 1, 0]  # the first ones
    with pytest.raises(ConfigError, match="most is 0"):
        top_scored(table, most=0)
    with pytest.raises(ShapeError, match="logratio_N"):
        top_scored(table_of([[0.0]]))


@given(PAID, st.integers(1, 4))
def test_top_scored_is_what_sorting_each_cohort_finds(table_of: Any, rows: Any, most: int):
    """Turns are [half, half] of a score, so it is the sum that counts."""
    table = table_of(
        [[0.0, 0.0] for _ in rows], [one for one, _ in rows], logratio_N=np.repeat([s / 2 for _, s in rows], 2)
    )
    expected = np.zeros(len(rows))
    for cohort in {one for one, _ in rows}:
        members = [at for at, (one, _) in enumerate(rows) if one == cohort]
        for at in sorted(members, key=lambda at: -rows[at][1])[:most]:
            expected[at] = 1
    assert top_scored(table, most=most).tolist() == np.repeat(expected, 2).tolist()


R, V = [0.9, 0.4, 0.7], 0.6


def test_a_lol_of_the_sheet(table_of: Any):
    """Rows 0 and 2 are kept; they are drawn with 3/4 and 1/4, so a mean over 3 rows weighs them with A·3·p."""
    table = table_of([[one] for one in R], value_N=[V] * 3)
    kept = a_lol(table, worth="critic", sampling="uniform")
    assert kept.tolist() == close([0.3 * 3 / 2, 0, 0.1 * 3 / 2])
    drawn = a_lol(table, worth="critic")
    assert (drawn / 3).tolist() == close([0.3 * 0.75, 0, 0.1 * 0.25])
    assert a_lol(table, worth="none", sampling="uniform").tolist() == close(R)  # R-LoL


def test_weights_per_turn(table_of: Any):
    """Payments 0, 1 and 0, 0: from turn 0 on 1 is paid, from turn 1 on as well; the mean of the task is ½."""
    table = table_of([[0.0, 1.0], [0.5, 0.0], [0.0]], [0, 0, 1])
    assert awr(table, per="turn").tolist() == close(np.exp([0.25, 0.25, -0.25, -0.75, 0]))
    kept = a_lol(table, per="turn", sampling="uniform")
    assert kept.tolist() == close([0.25 * 5 / 2, 0.25 * 5 / 2, 0, 0, 0])
    valued = table_of([[0.0, 1.0]], value_N=[0.5, 0.75])
    assert awr(valued, per="turn", worth="critic").tolist() == close(np.exp([0.5, 0.25]))
    assert awr(valued, per="episode", worth="critic").tolist() == close(np.exp([0.5, 0.5]))


def test_turns_that_are_too_easy_or_too_unlikely(table_of: Any):
    """One of 20 turns is the least likely one; two were surer than 0.05 nats; one holds nothing of the policy."""
    nats = [0.04, 0.05, *[1.0] * 14, 3.0, 2.9, 0.0, np.nan]
    found = bfs_prover(table_of([[0.0] * 20], surprisal_N=nats))
    assert found.tolist() == [0, 1, *[1] * 14, 1, 1, 0, 0]  # 5 % of the 19 turns that are known are none
    found = bfs_prover(table_of([[0.0] * 20], surprisal_N=nats), rarest=0.1)
    assert found.tolist() == [0, 1, *[1] * 14, 0, 1, 0, 0]
    with pytest.raises(ShapeError, match="bfs_prover needs column 'surprisal_N'"):
        bfs_prover(table_of([[0.0]]))


@given(PAID, st.floats(0.1, 3))
def test_against_plain_loops(table_of: Any, rows: list[tuple[int, float]], scale: float):
    table = table_of([[paid] for _, paid in rows], [cohort for cohort, _ in rows])
    siblings = [[paid for other, paid in rows if other == cohort] for cohort, _ in rows]
    beyond = [paid - np.mean(others) for (_, paid), others in zip(rows, siblings, strict=True)]
    np.testing.assert_allclose(awr(table, beta=scale), np.minimum(np.exp(np.divide(beyond, scale)), 20), rtol=1e-5)
    powers = [
        np.exp(paid / scale) / np.mean(np.exp(np.divide(others, scale)))
        for (_, paid), others in zip(rows, siblings, strict=True)
    ]
    np.testing.assert_allclose(rise(table, tau=scale), powers, rtol=1e-5)
    better = [max(one, 0) if abs(one) > 1e-9 else 0 for one in beyond]
    drawn = [one**2 * len(rows) / sum(better) if sum(better) else 0 for one in better]
    np.testing.assert_allclose(a_lol(table), drawn, rtol=1e-4, atol=1e-6)
    assert imitate(table).tolist() == [1] * len(rows)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_what_awr_converges_to(table_of: Any, beta: float):
    """The gradient of Σ_a μ(a)·exp(A(a)/β)·log π(a), enumerated, is 0 at π ∝ μ·exp(A/β), and nowhere near it."""
    played, paid = np.array([0.5, 0.3, 0.2]), [0.0, 0.5, 1.0]
    value = float(played @ paid)
    weight = awr(table_of([[one] for one in paid], value_N=[value] * 3), beta=beta, worth="critic").astype(float)

    def gradient(policy: np.ndarray) -> np.ndarray:
        scores = np.eye(3) - policy  # ∂ log π(a) / ∂ logits
        return (played * weight) @ scores

    best = played * np.exp((np.array(paid) - value) / beta)
    np.testing.assert_allclose(gradient(best / best.sum()), 0, atol=1e-6)
    assert np.abs(gradient(played)).max() > 0.05


@pytest.mark.parametrize("name", ["imitate", "awr", "a_lol", "rise", "bfs_prover"])
def test_an_episode_without_siblings_is_learned_from(name: str):
    assert CreditRule.load(name).imitates
    assert not CreditRule.load("grpo").imitates


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        ("awr", {"beta": 0.0}, "beta > 0"),
        ("awr", {"worth": "mean"}, "worth is 'mean'"),
        ("a_lol", {"sampling": "best"}, "sampling is 'best'"),
        ("a_lol", {"per": "token"}, "per is 'token'"),
        ("rise", {"tau": 0.0}, "tau > 0"),
        ("bfs_prover", {"rarest": 2.0}, "rarest is 2"),
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, name: str, bad: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        CREDITS[name](table_of([[0], [1]], surprisal_N=[1, 1]), **bad)
