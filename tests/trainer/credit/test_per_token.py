"""Rules whose unit is the token: worked numbers, plain loops, and the turn rule that each becomes."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.credit_rules import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.bilevel_gae import bilevel_gae, bilevel_targets
from turngate.trainer.credit.dry_run import columns_read
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.implicit import prime
from turngate.trainer.credit.per_token import (
    prime_tokens,
    reinforce_plus_plus_tokens,
    rl_zvp_tokens,
    token_gae,
    token_targets,
)
from turngate.trainer.credit.reinforce_plus_plus import reinforce_plus_plus
from turngate.trainer.credit.rl_zvp import rl_zvp
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.turn_gae import turn_gae
from turngate.types import TokenCredit

NUMBER = st.integers(-8, 8).map(lambda k: k / 4)
TURN = st.tuples(NUMBER, st.lists(NUMBER, max_size=3))  # what it was paid, and a number for each policy token
BATCH = st.lists(st.tuples(st.integers(0, 1), st.lists(TURN, min_size=1, max_size=3)), min_size=1, max_size=5)
OFFERED = ("value_S", "turn_S", "logratio_S", "surprisal_S", "entropy_S", "bootstrap_B")


def tabled(table_of: Any, batch: list[Any], **names: str) -> Any:
    """``names``: which columns the tokens' numbers stand in."""
    rows = [turn for _, turns in batch for turn in turns]
    numbers: dict[int, int] = {}
    columns: dict[str, Any] = {column: [x for _, tokens in rows for x in tokens] for column in names.values()}
    return table_of(
        [[reward for reward, _ in turns] for _, turns in batch],
        cohorts=[numbers.setdefault(cohort, len(numbers)) for cohort, _ in batch],
        turn_S=np.array([row for row, (_, tokens) in enumerate(rows) for _ in tokens], np.int32),
        tokens_N=[len(tokens) for _, tokens in rows],
        **columns,
    )


def spoken(batch: list[Any]) -> bool:
    return any(tokens for _, turns in batch for _, tokens in turns)


# --- worked numbers --------------------------------------------------------------------------------------------------


def test_token_gae_worked_example(table_of: Any):
    """One turn of three tokens, r = [0, 0, 1], V = [.5, .6, .7], γ = 1, λ = .95."""
    table = table_of([[1]], value_S=[0.5, 0.6, 0.7], turn_S=[0, 0, 0])
    np.testing.assert_allclose(token_gae(table).advantage_S, [0.46575, 0.385, 0.3], atol=1e-5)
    np.testing.assert_allclose(token_targets(table), [0.96575, 0.985, 1], atol=1e-5)


def test_token_gae_steps_over_what_the_policy_did_not_write(table_of: Any):
    """The same tokens in two turns with an observation between them: nothing changes."""
    table = table_of([[0, 1]], value_S=[0.5, 0.6, 0.7], turn_S=[0, 0, 1])
    np.testing.assert_allclose(token_gae(table).advantage_S, [0.46575, 0.385, 0.3], atol=1e-5)


def test_bilevel_worked_example(table_of: Any):
    """Two turns of two tokens, rewards 0 and 1, γ_turn = .95, λ = γ = 1: A^h = [.45, .3]."""
    table = table_of([[0, 1]], value_S=[0.4, 0.5, 0.6, 0.7], turn_S=[0, 0, 1, 1])
    np.testing.assert_allclose(bilevel_gae(table).advantage_S, [0.55, 0.45, 0.4, 0.3], atol=1e-5)
    np.testing.assert_allclose(bilevel_targets(table), [0.95, 0.95, 1, 1], atol=1e-5)


def test_whitening_is_over_tokens(table_of: Any):
    table = table_of([[1, 0]], value_S=[0, 0, 0, 0], turn_S=[0, 0, 1, 1])
    plain = token_gae(table, lam=1.0).advantage_S
    assert plain.tolist() == [1, 1, 0, 0]
    white = [0.866025, 0.866025, -0.866025, -0.866025]  # variance 1/3 with Bessel's factor
    np.testing.assert_allclose(token_gae(table, lam=1.0, whitened=True).advantage_S, white, atol=1e-5)
    np.testing.assert_allclose(bilevel_gae(table, whitened=True).per_turn(2), [0.866025, -0.866025], atol=1e-5)


def test_prime_worked_example(table_of: Any):
    """Log-ratios [2, −1, 3] and [0], β = .05: rewards [.1, −.05, .15], rates .2/3 and 0, so baselines 0 and .2/3."""
    table = table_of([[1], [0]], turn_S=[0, 0, 0, 1], logratio_S=[2.0, -1.0, 3.0, 0.0])
    expected = [1 + 0.2, 1 + 0.1, 1 + 0.15, -1 - 0.2 / 3]
    np.testing.assert_allclose(prime_tokens(table).advantage_S, expected, atol=1e-5)


def test_reinforce_plus_plus_pays_kl_token_by_token(table_of: Any):
    """Returns [1 − .1·(1 + 2), 1 − .1·2] and [0, 0] whitened."""
    table = table_of([[1], [0]], turn_S=[0, 0, 1, 1], logratio_S=[1.0, 2.0, 0.0, 0.0])
    to_go = np.array([0.7, 0.8, 0, 0])
    expected = (to_go - to_go.mean()) / to_go.std(ddof=1)
    np.testing.assert_allclose(reinforce_plus_plus_tokens(table, kl=0.1).advantage_S, expected, atol=1e-5)


def test_where_all_failed_certain_tokens_are_blamed(table_of: Any):
    """α = .1: max H of the trajectory is 3, so −.1·[2, 0] and −.1·[0]; where siblings differ it is GRPO."""
    table = table_of([[0], [0], [1], [0]], [0, 0, 1, 1], turn_S=[0, 0, 1, 2, 3], surprisal_S=[1.0, 3.0, 2.0, 5.0, 7.0])
    expected = [-0.2, 0, 0, 0.707106, -0.707106]
    np.testing.assert_allclose(rl_zvp_tokens(table).advantage_S, expected, atol=1e-5)


# --- plain loops and simpler rules -----------------------------------------------------------------------------------


@given(BATCH.filter(spoken))
@settings(max_examples=40)
def test_prime_against_plain_loops(table_of: Any, batch: list[Any]):
    table, beta = tabled(table_of, batch, ratio="logratio_S"), 0.5
    outcome = rloo(table)
    rate = [
        np.mean([beta * x for _, xs in turns for x in xs]) if any(xs for _, xs in turns) else None for _, turns in batch
    ]
    expected, row = [], 0
    for i, (cohort, turns) in enumerate(batch):
        others = [rate[k] for k, (c, _) in enumerate(batch) if c == cohort and k != i and rate[k] is not None]
        tokens = [beta * x for _, xs in turns for x in xs]
        for j in range(len(tokens)):
            process = sum(r - np.mean(others) for r in tokens[j:]) if others else 0.0
            expected.append(outcome[row] + process)
        row += len(turns)
    np.testing.assert_allclose(prime_tokens(table, beta=beta).advantage_S, expected, atol=1e-4)


@given(BATCH.filter(spoken))
@settings(max_examples=40)
def test_the_first_token_of_a_turn_has_primes_credit_of_the_turn(table_of: Any, batch: list[Any]):
    table = tabled(table_of, batch, ratio="logratio_S")
    rows = [sum(tokens) for _, turns in batch for _, tokens in turns]
    table.measured["logratio_N"] = np.array(rows)
    credit, turn_N = prime_tokens(table), prime(table)
    first = np.flatnonzero(np.diff(credit.turn_S, prepend=-1))
    np.testing.assert_allclose(credit.advantage_S[first], turn_N[credit.turn_S[first]], atol=1e-4)


def one_token_each(batch: list[Any]) -> list[Any]:
    return [(cohort, [(reward, [*tokens, 0.25][:1]) for reward, tokens in turns]) for cohort, turns in batch]


@given(BATCH.map(one_token_each))
@settings(max_examples=40)
def test_turns_of_one_token_make_a_token_rule_the_turn_rule(table_of: Any, batch: list[Any]):
    table = tabled(table_of, batch, value="value_S", ratio="logratio_S", entropy="entropy_S")
    numbers = table.measured["value_S"]
    table.measured.update(value_N=numbers, logratio_N=numbers, entropy_N=numbers)
    pairs = [
        (token_gae(table, gamma=0.9, lam=0.8), turn_gae(table, gamma=0.9, lam=0.8)),
        (bilevel_gae(table, gamma_turn=0.9, lam=0.8), turn_gae(table, gamma=0.9, lam=0.8)),
        (reinforce_plus_plus_tokens(table, gamma=0.9, kl=0.1), reinforce_plus_plus(table, gamma=0.9, kl=0.1)),
        (prime_tokens(table), prime(table)),
        (rl_zvp_tokens(table), rl_zvp(table)),
    ]
    for credit, expected in pairs:
        np.testing.assert_allclose(credit.advantage_S, expected, atol=1e-4)
        np.testing.assert_array_equal(credit.turn_S, np.arange(table.n_turns))


def test_without_its_signal_a_rule_is_the_simpler_one(table_of: Any):
    columns = {"turn_S": [0, 0, 1, 2], "logratio_S": [0.0] * 4, "entropy_S": [1.0, 2.0, 3.0, 4.0]}
    table = table_of([[0.5, 0.5], [0]], **columns)
    np.testing.assert_allclose(prime_tokens(table).advantage_S, rloo(table)[[0, 0, 1, 2]], atol=1e-6)
    np.testing.assert_allclose(rl_zvp_tokens(table, eps=0.0).advantage_S, grpo(table, eps=0.0)[[0, 0, 1, 2]], atol=1e-6)


def test_an_only_child_gets_nothing(table_of: Any):
    table = table_of([[3]], turn_S=[0, 0], logratio_S=[1.0, 2.0], surprisal_S=[1.0, 2.0])
    assert not prime_tokens(table).advantage_S.any()
    assert not rl_zvp_tokens(table).advantage_S.any()


# --- the whole family ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKEN_CREDITS)
def test_one_finite_number_per_policy_token(table_of: Any, name: str):
    numbers = {key: [0.5, -0.5, 1.0, 0.0, 0.25] for key in ("value_S", "logratio_S", "surprisal_S")}
    table = table_of([[1, 0], [0.5], [1]], turn_S=[0, 0, 1, 2, 2], sharing_S=[2, 1, 2, 1, 1], **numbers)
    credit = TOKEN_CREDITS[name](table)
    assert isinstance(credit, TokenCredit)
    assert credit.advantage_S.dtype == np.float32
    assert credit.advantage_S.shape == (5,)
    assert np.isfinite(credit.advantage_S).all()
    assert credit.turn_S.tolist() == [0, 0, 1, 2, 2]
    assert credit.turn_S.dtype == np.int32


@pytest.mark.parametrize("name", TOKEN_CREDITS)
def test_rows_that_are_missing_or_wrong_are_refused(table_of: Any, name: str):
    with pytest.raises(ShapeError, match=f"{name} needs column 'turn_S'"):
        TOKEN_CREDITS[name](table_of([[1]]))
    with pytest.raises(ShapeError, match=r"turn_S must never decrease and stay in 0\.\.0"):
        TOKEN_CREDITS[name](table_of([[1]], turn_S=[0, 1]))
    with pytest.raises(ShapeError, match="needs policy tokens, and this batch has none"):
        TOKEN_CREDITS[name](table_of([[1]], turn_S=np.zeros(0, np.int32)))


def test_token_columns_must_be_as_long_as_the_tokens_and_finite(table_of: Any):
    with pytest.raises(ShapeError, match=r"value_S has shape \(1,\), expected \(2,\)"):
        token_gae(table_of([[1]], turn_S=[0, 0], value_S=[0.0]))
    with pytest.raises(ShapeError, match="value_S is nan at policy token 1"):
        token_gae(table_of([[1]], turn_S=[0, 0], value_S=[0.0, np.nan]))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("token_gae", {"lam": 1.5}),
        ("bilevel_gae", {"gamma_turn": -0.1}),
        ("reinforce_plus_plus_tokens", {"kl": -1.0}),
        ("prime_tokens", {"beta": -1.0}),
        ("rl_zvp_tokens", {"alpha": -1.0}),
        ("rl_zvp_tokens", {"ddof": 2}),
        ("lambda_grpo_tokens", {"ddof": 2}),
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, name: str, bad: dict[str, Any]):
    numbers = {key: [0.0] for key in ("value_S", "logratio_S", "surprisal_S")}
    with pytest.raises(ConfigError):
        TOKEN_CREDITS[name](table_of([[1]], turn_S=[0], **numbers), **bad)


def test_credit_of_tokens_as_credit_of_turns():
    credit = TokenCredit(advantage_S=np.array([1, 2, 4], np.float32), turn_S=np.array([0, 0, 2], np.int32))
    assert credit.per_turn(4).tolist() == [1.5, 0, 4, 0]
    with pytest.raises(ValueError, match="must be equal and flat"):
        TokenCredit(advantage_S=np.zeros(2, np.float32), turn_S=np.zeros(3, np.int32))


# --- what rules read -------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_what_a_rule_reads():
    everything = ("value_N", "gain_N", "similar_N", "entropy_N", *OFFERED)
    assert columns_read(CREDITS["grpo"], everything) == set()
    assert columns_read(CREDITS["turn_gae"], everything) == {"value_N", "bootstrap_B"}
    assert columns_read(CREDITS["igpo"], everything) == {"gain_N"}
    assert columns_read(CREDITS["rl_zvp"], everything) == {"entropy_N"}
    assert columns_read(CREDITS["rl_zvp"]) == {"surprisal_N"}
    assert columns_read(token_gae, everything) == {"value_S", "turn_S", "bootstrap_B"}
    assert columns_read(rl_zvp_tokens, ("turn_S", "surprisal_S")) == {"turn_S", "surprisal_S"}
    assert columns_read(lambda table: CREDITS["gigpo"](table, anchors="similar"), everything) == {"similar_N"}
    assert columns_read(CREDITS["gdpo"], components=("won", "style")) == {"paid/won_B", "paid/style_B"}
    assert columns_read(CREDITS["tempo"]) == {"said_N"}
    assert columns_read(CREDITS["arpo"], branching=True) == {"parent_B", "branch_B"}


def weighing(table: Any) -> Any:
    return CREDITS["gdpo"](table, weights={"style": 1.0})


def careless(table: Any) -> Any:
    return table.measured["mine_N"]


def own_refusal(table: Any) -> Any:
    if "entropy_N" not in table.measured:
        raise ShapeError("it is too hot")


@pytest.mark.parametrize(
    ("rule", "settings", "match"),
    [
        (
            CREDITS["turn_gae"],
            {},
            "it needs column 'value_N', which nothing in this run fills; a critic measures it in training",
        ),
        (token_gae, {"offered": ("turn_S",)}, "'value_S', which nothing in this run fills; only training measures it"),
        (CREDITS["spae"], {}, "'accuracy_N', .*: signals.evidence = {accuracy_N = \"...\"}"),
        (
            partial(CREDITS["gigpo"], anchors="similar"),
            {},
            "'similar_N', which nothing in this run fills; set signals.similar",
        ),
        (weighing, {"components": ("won",)}, "'paid/style_B', but the rubric has no component 'style'"),
        (careless, {}, "it needs column 'mine_N', which nothing in this run fills"),
        (own_refusal, {}, "it is too hot"),
    ],
)
def test_a_rule_whose_columns_nobody_fills_is_refused(rule: Any, settings: dict[str, Any], match: str):
    with pytest.raises(ShapeError, match=match):
        columns_read(rule, **settings)


def test_a_component_that_nobody_named_may_be_there():
    assert columns_read(weighing) == {"paid/style_B"}


@pytest.mark.parametrize("name", ["tree_rpo", "tree_grpo", "tree_rl", "portool", "arpo", "r3l", "tempo", "lambda_grpo"])
def test_rules_over_recorded_branches_need_branching(name: str):
    """Without branches tree_rpo would pay every turn after the first nothing."""
    rule = partial(CREDITS[name], merge="recorded") if name in ("tempo", "lambda_grpo") else CREDITS[name]
    with pytest.raises(
        ShapeError, match=r"it needs branches \(parent_B, branch_B\), which no rollout of this run makes"
    ):
        columns_read(rule)
    assert columns_read(rule, branching=True) == {"parent_B", "branch_B"}


def test_a_dry_run_has_as_many_siblings_as_it_is_told():
    with pytest.raises(ConfigError, match="k is 4, but no cohort has more than 2"):
        columns_read(CREDITS["pass_at_k"])
    assert columns_read(CREDITS["pass_at_k"], siblings=4) == set()


def test_the_rules_that_read_values_are_those_with_targets_for_a_critic():
    offered = ("value_N", "gain_N", "logratio_N", "tag_N", "accuracy_N", "confidence_N", "sharing_S", *OFFERED)
    readers = {
        name
        for name, rule in {**CREDITS, **TOKEN_CREDITS}.items()
        if columns_read(rule, offered, siblings=8, branching=True) & {"value_N", "value_S"}
    }
    assert readers == set(VALUE_TARGETS)
