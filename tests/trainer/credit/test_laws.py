"""What these estimators promise in common. Each law names the methods that claim it; nobody claims by silence.

1. Shape and type: one finite float32 per turn, whatever the lengths, verdicts and gates.
2. The order of trajectories does not matter.
3. Cohorts do not act on each other, except in methods that whiten over the batch.
4. A cohort of one gets exactly 0, never its raw reward, except in methods that compare with no siblings.
5. Equal rewards give exactly 0, in float32 too.
6. What sums to 0 sums to 0.
7. In its degenerate case a method is the simpler one that its docstring names.
8. Columns that are absent, of the wrong shape or not finite are refused by name.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from tests.trainer.credit.refusing import not_refused
from turngate.errors import ShapeError
from turngate.trainer.credit.canon import canon
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.lambda_grpo import lambda_grpo
from turngate.trainer.credit.maxrl import maxrl
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.ngrpo import ngrpo
from turngate.trainer.credit.opo import opo
from turngate.trainer.credit.pass_at_k import pass_at_k
from turngate.trainer.credit.qae import qae
from turngate.trainer.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.riskpo import riskpo
from turngate.trainer.credit.rl_zvp import rl_zvp
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.step_grpo import step_grpo
from turngate.trainer.credit.turn_gae import turn_gae
from turngate.types import FloatArray, TurnTable

METHODS: dict[str, Callable[[TurnTable], FloatArray]] = {
    "canon by surprisal": partial(canon, by="surprisal", mu=0.7),
    "canon by tokens": partial(canon, mu=0.3),
    "canon by turns": partial(canon, by="turns", mu=1.0),
    "dr_grpo": dr_grpo,
    "lambda_grpo": partial(lambda_grpo, merge="recorded"),
    "lambda_grpo tokens": lambda_grpo,
    "maxrl": maxrl,
    "mt_grpo": mt_grpo,
    "mt_grpo corrected": partial(mt_grpo, mode="corrected"),
    "ngrpo": partial(ngrpo, best=100.0),
    "opo": opo,
    "pass_at_k": partial(pass_at_k, k=1, threshold=1.0),
    "qae": qae,
    "reinforce_plus_plus": reinforce_plus_plus,
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
    "riskpo": partial(riskpo, bundle=1),
    "rl_zvp": rl_zvp,
    "step_grpo": step_grpo,
    "step_grpo mean": partial(step_grpo, mode="mean", gamma=0.9),
    "step_grpo to_go": partial(step_grpo, mode="to_go", gamma=0.9),
    "turn_gae": turn_gae,
    "turn_gae whitened": partial(turn_gae, whitened=True),
}
BATCH_WIDE = {"reinforce_plus_plus", "reinforce_plus_plus_baseline", "turn_gae whitened"}
WITHOUT_SIBLINGS = {"reinforce_plus_plus", "turn_gae", "turn_gae whitened"}
EVERY = sorted(METHODS)
every_method = for_every("name", EVERY)
TIGHT = {"rtol": 2e-4, "atol": 2e-4}
NAN = float("nan")

QUARTERS = st.integers(0, 8).map(lambda k: k / 4)
TURN = st.fixed_dictionaries(
    {
        "reward": QUARTERS,
        "process": st.one_of(st.just(NAN), QUARTERS),
        "open": st.booleans(),
        "tokens": st.integers(1, 9),
        "surprisal": st.one_of(st.just(NAN), QUARTERS),
        "value": QUARTERS,
    }
)
BATCH = st.lists(st.tuples(st.integers(0, 3), st.lists(TURN, min_size=1, max_size=5)), min_size=1, max_size=9)
FEW = settings(max_examples=20)


def tabled(table_of: Any, batch: list[Any], **columns: Any) -> TurnTable:
    numbers: dict[int, int] = {}
    rows = [[turn["reward"] for turn in turns] for _, turns in batch]
    flat = [turn for _, turns in batch for turn in turns]
    measured = {
        "tokens_N": np.array([turn["tokens"] for turn in flat], np.int32),
        "surprisal_N": np.array([turn["surprisal"] for turn in flat], np.float32),
        "value_N": np.array([turn["value"] for turn in flat], np.float32),
        "parent_B": np.full(len(batch), -1, np.int32),
        "branch_B": np.zeros(len(batch), np.int32),
        "said_N": np.array([turn["tokens"] for turn in flat], np.int64),
    }
    table: TurnTable = table_of(
        rows,
        cohorts=[numbers.setdefault(cohort, len(numbers)) for cohort, _ in batch],
        process=[[turn["process"] for turn in turns] for _, turns in batch],
        is_open=[[turn["open"] for turn in turns] for _, turns in batch],
        outcome=[row[-1] for row in rows],
        **(measured | columns),
    )
    return table


def plain(table_of: Any, rows: Any, cohorts: Any = None, tokens: int = 3) -> TurnTable:
    """No verdicts, no branches, a critic that says 0, all turns equally long and equally surprising."""
    n = sum(len(row) for row in rows)
    table: TurnTable = table_of(
        rows,
        cohorts,
        tokens_N=np.full(n, tokens, np.int32),
        surprisal_N=np.full(n, 1.0, np.float32),
        value_N=np.zeros(n, np.float32),
        parent_B=np.full(len(rows), -1, np.int32),
        branch_B=np.zeros(len(rows), np.int32),
        said_N=np.arange(n),
    )
    return table


def rows_of(batch: list[Any], keep: list[int]) -> list[int]:
    """Rows of the trajectories ``keep``, in that order."""
    starts = np.cumsum([0, *(len(turns) for _, turns in batch)])
    return [int(starts[i]) + t for i in keep for t in range(len(batch[i][1]))]


@given(batch=BATCH, seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_the_shape_and_that_neither_order_nor_other_cohorts_matter(table_of: Any, batch: list[Any], seed: int):
    """One batch for all methods: drawing it takes longer than crediting it."""
    order = np.random.default_rng(seed).permutation(len(batch)).tolist()
    keep = [i for i, (cohort, _) in enumerate(batch) if cohort == batch[0][0]]
    table = tabled(table_of, batch)
    shuffled = tabled(table_of, [batch[i] for i in order])
    alone = tabled(table_of, [batch[i] for i in keep])
    for name in EVERY:
        advantage_N = METHODS[name](table)
        assert advantage_N.dtype == np.float32, name
        assert advantage_N.shape == (table.n_turns,), name
        assert np.isfinite(advantage_N).all(), name
        moved_N = advantage_N[rows_of(batch, order)]
        np.testing.assert_allclose(METHODS[name](shuffled), moved_N, err_msg=name, **TIGHT)
        if name not in BATCH_WIDE:
            kept_N = advantage_N[rows_of(batch, keep)]
            np.testing.assert_allclose(METHODS[name](alone), kept_N, err_msg=name, **TIGHT)


@for_every("name", sorted(BATCH_WIDE))
def test_whitening_does_reach_across_cohorts(table_of: Any, name: str):
    """So that the exemption above stays honest."""
    together = METHODS[name](plain(table_of, [[1], [0], [9], [0]], [0, 0, 1, 1]))
    assert not np.allclose(together[:2], METHODS[name](plain(table_of, [[1], [0]])), atol=0.1)


@given(batch=BATCH)
@FEW
def test_a_cohort_of_one_gets_exactly_zero(table_of: Any, batch: list[Any]):
    """All alone, and alone beside a cohort of others."""
    lone = tabled(table_of, [(i, turns) for i, (_, turns) in enumerate(batch)])
    beside = tabled(table_of, [(100, batch[0][1]), *((101, turns) for _, turns in batch)])
    for name in sorted(set(EVERY) - WITHOUT_SIBLINGS):
        assert not METHODS[name](lone).any(), name
        assert not METHODS[name](beside)[: len(batch[0][1])].any(), name


def test_a_lone_turn_has_nothing_to_be_whitened_against(table_of: Any):
    for name in ("reinforce_plus_plus", "turn_gae whitened"):
        assert METHODS[name](plain(table_of, [[5]], tokens=1)).tolist() == [0]


EQUAL: dict[str, Callable[[float], Callable[[TurnTable], FloatArray]]] = {
    name: lambda value, name=name: METHODS[name] for name in EVERY if name != "turn_gae"
} | {
    "grpo with other eps": lambda value: partial(lambda_grpo, merge="recorded", eps=1e-8),
    "mt_grpo": lambda value: partial(mt_grpo, eps=1e-8),
    "ngrpo": lambda value: partial(ngrpo, best=value, eps=1e-8),
    "qae": lambda value: partial(qae, eps=1e-8),
    "rl_zvp": lambda value: partial(rl_zvp, alpha=0.0, eps=1e-8),
    "step_grpo": lambda value: partial(step_grpo, eps=1e-8),
}


@for_every("name", sorted(EQUAL))
@for_every("value, count", [(0.9, 12), (0.7, 7), (0.1, 10), (1e6 + 0.1, 9), (0.0, 3)])
def test_equal_rewards_never_train(table_of: Any, name: str, value: float, count: int):
    """Without the snap, twelve float32 copies of 0.9 give 0.886 at eps=1e-8. ``turn_gae`` compares with a critic."""
    method = EQUAL[name](float(np.float32(value)))
    rows = [[value]] * count if "to_go" in name or "plus_plus" in name or "gae" in name else [[0, value]] * count
    assert not method(plain(table_of, rows)).any()


def test_equal_failures_train_only_where_it_is_the_point(table_of: Any):
    failures = plain(table_of, [[0, 0]] * 3)
    assert (ngrpo(failures) < 0).all()
    assert not rl_zvp(failures).any()
    surprising = replace(failures, measured={**failures.measured, "surprisal_N": np.array([1, 2] * 3, np.float32)})
    np.testing.assert_allclose(rl_zvp(surprising), [-0.1, 0] * 3, atol=1e-6)


PER_TRAJECTORY = ["dr_grpo", "maxrl", "pass_at_k", "mt_grpo corrected"]


@given(batch=BATCH)
@FEW
def test_trajectories_of_a_cohort_sum_to_zero(table_of: Any, batch: list[Any]):
    """At the first turn, which all have."""
    table = tabled(table_of, batch)
    firsts = np.flatnonzero(table.index_N == 0)
    for name in PER_TRAJECTORY:
        sums = np.bincount(table.cohort_B, weights=METHODS[name](table)[firsts])
        np.testing.assert_allclose(sums, 0, atol=1e-3, err_msg=name)


@given(batch=st.lists(st.lists(TURN, min_size=1, max_size=4), min_size=1, max_size=4))
@FEW
def test_canon_sums_to_zero_over_even_cohorts(table_of: Any, batch: list[Any]):
    table = tabled(table_of, [(0, turns) for turns in batch] + [(0, turns[:1]) for turns in batch])
    for name in ("canon by tokens", "canon by surprisal", "canon by turns"):
        assert METHODS[name](table)[table.index_N == 0].sum() == pytest.approx(0, abs=1e-4), name


@given(batch=BATCH)
@FEW
def test_sums_weighted_by_tokens(table_of: Any, batch: list[Any]):
    """OPO per cohort, whitening over the batch; a cohort of one has no part in either."""
    table = tabled(table_of, batch)
    tokens_N = table.measured["tokens_N"].astype(np.float64)
    weighted = np.bincount(table.cohort_B[table.traj_N], weights=tokens_N * opo(table))
    np.testing.assert_allclose(weighted, 0, atol=1e-3)
    for name in sorted(BATCH_WIDE):
        assert (tokens_N * METHODS[name](table)).sum() == pytest.approx(0, abs=1e-2)


Rule = Callable[[TurnTable], FloatArray]
REDUCTIONS: dict[str, tuple[Rule, Rule]] = {
    "opo of equal lengths": (opo, dr_grpo),
    "step_grpo": (step_grpo, grpo),
    "step_grpo mean": (partial(step_grpo, mode="mean", gamma=0.5), grpo),
    # The sample std of n·T turns is not that of n trajectories; the population std is.
    "step_grpo to_go": (partial(step_grpo, mode="to_go", ddof=0), partial(grpo, ddof=0)),
    "mt_grpo": (mt_grpo, partial(grpo, eps=1e-4)),
    "mt_grpo corrected": (partial(mt_grpo, mode="corrected"), rloo),
    "lambda_grpo": (partial(lambda_grpo, merge="recorded"), partial(grpo, eps=1e-4)),
    "lambda_grpo without std": (partial(lambda_grpo, merge="recorded", std=False), dr_grpo),
    "ngrpo without imagination": (partial(ngrpo, best=100.0, imagined=0), grpo),
    "canon of ties": (partial(canon, mu=0.9), dr_grpo),
    "rl_zvp without alpha": (partial(rl_zvp, alpha=0.0), grpo),
    "turn_gae without critic": (partial(turn_gae, gamma=0.5, lam=1.0), partial(returns, gamma=0.5, baseline="none")),
}
OUTCOMES = st.lists(st.tuples(st.integers(0, 2), QUARTERS), min_size=1, max_size=10)


EQUAL_LENGTHS = {"opo of equal lengths", "step_grpo to_go", "canon of ties"}


@given(outcomes=OUTCOMES, lengths=st.lists(st.integers(1, 4), min_size=10, max_size=10))
@FEW
def test_without_verdicts_it_is_the_simpler_method(table_of: Any, outcomes: Any, lengths: list[int]):
    """No verdict anywhere, everything paid at the end."""
    cohorts = [cohort for cohort, _ in outcomes]
    equal = plain(table_of, [[0.0] * lengths[0] + [reward] for _, reward in outcomes], cohorts)
    rows = [[0.0] * (n - 1) + [reward] for (_, reward), n in zip(outcomes, lengths, strict=False)]
    unequal = plain(table_of, rows, cohorts)
    for name, (rule, simpler) in REDUCTIONS.items():
        np.testing.assert_allclose(rule(equal), simpler(equal), atol=1e-5, err_msg=name)
        if name not in EQUAL_LENGTHS:
            np.testing.assert_allclose(rule(unequal), simpler(unequal), atol=1e-5, err_msg=name)


@given(outcomes=OUTCOMES)
@FEW
def test_canon_in_the_middle_is_dr_grpo_for_even_cohorts(table_of: Any, outcomes: Any):
    doubled = [*outcomes, *outcomes]
    table = plain(table_of, [[reward] for _, reward in doubled], [cohort for cohort, _ in doubled])
    tokens_N = np.arange(len(doubled), dtype=np.int32)
    table = replace(table, measured={**table.measured, "tokens_N": tokens_N})
    np.testing.assert_allclose(canon(table), dr_grpo(table), atol=1e-5)


@given(outcomes=OUTCOMES)
@FEW
def test_maxrl_times_the_mean_is_dr_grpo(table_of: Any, outcomes: Any):
    table = plain(table_of, [[reward] for _, reward in outcomes], [cohort for cohort, _ in outcomes])
    mean_G = np.bincount(table.cohort_B, weights=table.total_B) / np.maximum(np.bincount(table.cohort_B), 1)
    product = maxrl(table, eps=0.0) * mean_G[table.cohort_B]
    np.testing.assert_allclose(product, dr_grpo(table), atol=1e-5)


def test_reinforce_plus_plus_over_one_cohort_of_equal_lengths_is_grpo(table_of: Any):
    table = plain(table_of, [[1], [0.5], [0], [0]], tokens=1)
    for method in (reinforce_plus_plus, reinforce_plus_plus_baseline):
        np.testing.assert_allclose(method(table, eps=0.0), grpo(table, eps=0.0), atol=1e-6)


@for_every(
    "column, value, match",
    [
        ("process_N", np.zeros(2, np.float32), r"process_N has shape \(2,\), expected \(3,\)"),
        ("reward_N", np.zeros((3, 1), np.float32), r"reward_N has shape \(3, 1\), expected \(3,\)"),
        ("cohort_B", np.zeros(3, np.int32), r"cohort_B has shape \(3,\), expected \(2,\)"),
        ("reward_N", np.array([0, np.nan, 0], np.float32), "reward_N is nan at trajectory 0, turn 1"),
        ("reward_N", np.array([0, 0, -np.inf], np.float32), "reward_N is -inf at trajectory 1, turn 0"),
        ("process_N", np.array([0, np.inf, 0], np.float32), "process_N is inf at trajectory 0, turn 1"),
        ("outcome_B", np.array([0, np.nan], np.float32), "trajectory 1"),
        ("traj_N", np.array([0, 0, 2], np.int32), "traj_N"),
        ("cohort_B", np.array([0, -1], np.int32), "cohort_B"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table_of: Any, column: str, value: Any, match: str):
    found = not_refused(METHODS, replace(plain(table_of, [[0, 1], [0]]), **{column: value}), match)
    assert not found, "\n".join(found)


@every_method
def test_an_empty_table_is_refused(table_of: Any, name: str):
    with pytest.raises(ShapeError, match="no turns"):
        METHODS[name](plain(table_of, []))


READS = {
    "canon by surprisal": ["tokens_N", "surprisal_N"],
    "canon by tokens": ["tokens_N"],
    "lambda_grpo": ["parent_B", "branch_B"],
    "lambda_grpo tokens": ["said_N"],
    "mt_grpo": ["settled_B"],
    "mt_grpo corrected": ["process_paid_N"],
    "opo": ["tokens_N"],
    "reinforce_plus_plus": ["tokens_N"],
    "reinforce_plus_plus_baseline": ["tokens_N"],
    "rl_zvp": ["surprisal_N"],
    "turn_gae": ["value_N"],
    "turn_gae whitened": ["value_N", "tokens_N"],
}
READ_PAIRS = [(name, column) for name, columns in READS.items() for column in columns]


@for_every("name, column", READ_PAIRS)
def test_a_column_that_nobody_measured_is_asked_for(table_of: Any, name: str, column: str):
    table = plain(table_of, [[0, 1], [0]])
    rest = {key: array for key, array in table.measured.items() if key != column}
    with pytest.raises(ShapeError, match=f"{name.split()[0]} needs column '{column}'"):
        METHODS[name](replace(table, measured=rest))


@for_every("name, column", [pair for pair in READ_PAIRS if pair[1].endswith("_N") and pair[1] != "said_N"])
def test_an_infinite_entry_is_refused_by_place(table_of: Any, name: str, column: str):
    table = plain(table_of, [[0, 1], [0]])
    bad = {**table.measured, column: np.array([1, np.inf, 1], np.float32)}
    with pytest.raises(ShapeError, match=f"{column} is inf at trajectory 0, turn 1"):
        METHODS[name](replace(table, measured=bad))


@for_every("name", sorted(set(EVERY) - set(READS)))
def test_the_others_read_no_measured_column(table_of: Any, name: str):
    table = plain(table_of, [[0, 1], [0]])
    np.testing.assert_array_equal(METHODS[name](replace(table, measured={})), METHODS[name](table))
