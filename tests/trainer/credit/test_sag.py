"""SAG against its worked example and its definition, and one episode batch from evidence to loss."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards.gates.whole_kinds import needs_outcome
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.trainer.batch.pack import pack
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.sag import sag
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Observation,
    Source,
    Task,
    Trajectory,
    Turn,
)

EXACT = {"eps": 0.0}
NAN = math.nan


@pytest.fixture
def worked(table_of: Any) -> Any:
    return table_of(
        [[0, 1], [0, 1], [0, 0, 0], [0]],
        process=[[1, 1], [1, 0], [1, 1, 1], [0]],
        is_open=[[True] * 2, [True] * 2, [False] * 3, [False]],
    )


def test_the_worked_example(worked: Any):
    advantage_N = sag(worked, **EXACT)
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N[:4], [1.116025, 1.116025, 1.116025, 0.116025], atol=1e-5)
    np.testing.assert_allclose(advantage_N[4:], [-0.866025] * 4, atol=1e-5)


def test_the_weight_scales_the_process_part_only(worked: Any):
    np.testing.assert_allclose(sag(worked, weight=0.0, **EXACT), grpo(worked, eps=0.0), atol=1e-6)
    part_N = sag(worked, weight=1.0, **EXACT) - grpo(worked, eps=0.0)
    np.testing.assert_allclose(part_N, [0.5, 0.5, 0.5, -1.5, 0, 0, 0, 0], atol=1e-6)


def test_a_rare_verdict_is_clipped(worked: Any):
    part_N = sag(worked, weight=1.0, clip=1.0, **EXACT) - grpo(worked, eps=0.0)
    np.testing.assert_allclose(part_N[:4], [0.5, 0.5, 0.5, -1.0], atol=1e-6)


def test_a_judge_that_splits_hairs_keeps_a_small_weight(table_of: Any):
    """The std of 0.50 and 0.51 is 0.0071; with the floor of 0.05 the verdicts count a seventh of full size."""
    table = table_of([[1, 0], [0, 0]], process=[[0.50, 0.51], [np.nan, np.nan]])
    part_N = sag(table, weight=1.0, **EXACT) - grpo(table, eps=0.0)
    np.testing.assert_allclose(part_N, [-0.1, 0.1, 0, 0], atol=1e-5)
    part_N = sag(table, weight=1.0, min_std=0.0, **EXACT) - grpo(table, eps=0.0)
    np.testing.assert_allclose(part_N, [-0.707107, 0.707107, 0, 0], atol=1e-4)


def test_equal_verdicts_say_nothing_even_without_floor_and_eps(table_of: Any):
    table = table_of([[0, 1], [0, 0]], process=[[0.7, 0.7], [0.7, 0.7]])
    np.testing.assert_array_equal(sag(table, min_std=0.0, eps=0.0), grpo(table, eps=0.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"is_open": [[False] * 2, [False] * 2, [False] * 3, [False]]},  # the gate never opens
        {"process": [[NAN] * 2, [NAN] * 2, [NAN] * 3, [NAN]]},  # no verdict anywhere
        {"process": [[0.3] * 2, [0.3] * 2, [0.3] * 3, [0.3]]},  # equal verdicts
        {"process": [[0.3, NAN], [NAN] * 2, [0.1, 0.2, 0.9], [0.4]]},  # one open verdict
    ],
)
def test_without_a_process_signal_it_is_grpo_on_the_outcome(table_of: Any, changes: dict[str, Any]):
    columns = {
        "process": [[1, 1], [1, 0], [1, 1, 1], [0]],
        "is_open": [[True] * 2, [True] * 2, [False] * 3, [False]],
    }
    table = table_of([[0, 1], [0, 1], [0, 0, 0], [0]], **columns | changes)
    np.testing.assert_allclose(sag(table, **EXACT), [0.866025] * 4 + [-0.866025] * 4, atol=1e-5)


def test_a_missing_verdict_is_left_out_and_never_zero(table_of: Any):
    """Open verdicts 1, 1, 0: ±0.577350 and −1.154701, half of it added."""
    table = table_of([[0, 1], [0, 1], [0], [0]], process=[[1, NAN], [1, 0], [NAN], [NAN]])
    part = [0.288675, 0.0, 0.288675, -0.577350]
    np.testing.assert_allclose(sag(table, **EXACT)[:4], np.array(part) + 0.866025, atol=1e-5)


def test_a_cohort_of_one_gets_nothing_though_its_own_turns_differ(table_of: Any):
    assert sag(table_of([[0, 1]], process=[[0.2, 0.8]])).tolist() == [0.0, 0.0]


def test_a_single_open_trajectory_still_ranks_its_turns(table_of: Any):
    table = table_of(
        [[0, 1], [0], [0], [0]],
        process=[[1, 0], [1], [1], [1]],
        is_open=[[True, True], [False], [False], [False]],
    )
    half = 0.5 * 0.707107
    np.testing.assert_allclose(sag(table, **EXACT), [1.5 + half, 1.5 - half, -0.5, -0.5, -0.5], atol=1e-5)


def test_without_std_the_outcome_is_only_centred(table_of: Any):
    assert sag(table_of([[1], [0], [0], [0]]), std=False).tolist() == [0.75, -0.25, -0.25, -0.25]


def test_earned_outcomes_do_not_see_a_veto_and_settled_ones_do(table_of: Any):
    """The first trajectory earned 1, broke a rule, and was paid −1."""
    table = table_of(
        [[0, -1], [0, 0]],
        outcome=[1, 0],
        process=[[0.5, 0.5]] * 2,
        is_open=[[False] * 2, [True] * 2],
        settled_B=np.array([-1.0, 0.0]),
    )
    earned_N = sag(table, outcome="earned", **EXACT)
    np.testing.assert_allclose(earned_N, [0.707107, 0.707107, -0.707107, -0.707107], atol=1e-5)
    np.testing.assert_allclose(sag(table, **EXACT), [-0.707107, -0.707107, 0.707107, 0.707107], atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"weight": -1.0}, "sag: weight is -1.0"),
        ({"clip": float("nan")}, "sag: clip is nan"),
        ({"min_std": -0.1}, "min_std"),
        ({"eps": -0.1}, "eps"),
        ({"outcome": "paid"}, "sag: outcome is 'paid'"),
    ],
)
def test_settings_out_of_range_are_refused(worked: Any, settings: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        sag(worked, **settings)


# --- against its definition ------------------------------------------------------------------------------------------

TURN = st.tuples(st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans())
BATCH = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0]), st.lists(TURN, min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)


def tabled(table_of: Any, batch: Any) -> Any:
    numbers: dict[int, int] = {}
    return table_of(
        [[0.0] * len(turns) for _, _, turns in batch],
        cohorts=[numbers.setdefault(cohort, len(numbers)) for cohort, _, _ in batch],
        process=[[NAN if verdict is None else verdict for verdict, _ in turns] for _, _, turns in batch],
        is_open=[[is_open for _, is_open in turns] for _, _, turns in batch],
        outcome=[outcome for _, outcome, _ in batch],
    )


def z(own: float, pool: list[float], floor: float) -> float:
    mean = sum(pool) / len(pool)
    if len(pool) < 2 or max(pool) - min(pool) <= 1e-6:
        return 0.0
    std = math.sqrt(sum((x - mean) ** 2 for x in pool) / (len(pool) - 1))
    return (own - mean) / (max(std, floor) + 1e-6)


def sag_slowly(batch: Any) -> list[float]:
    result = []
    for cohort, outcome, turns in batch:
        mates = [(o, their) for c, o, their in batch if c == cohort]
        heard = [verdict for _, their in mates for verdict, is_open in their if is_open and verdict is not None]
        for verdict, is_open in turns:
            counts = is_open and verdict is not None and len(mates) > 1
            part = min(max(z(verdict, heard, 0.05), -2.0), 2.0) if counts else 0.0
            result.append(z(outcome, [o for o, _ in mates], 0.0) + 0.5 * part)
    return result


@settings(max_examples=60)
@given(BATCH)
def test_it_is_its_definition(table_of: Any, batch: Any):
    np.testing.assert_allclose(sag(tabled(table_of, batch)), sag_slowly(batch), rtol=1e-5, atol=1e-5)


@settings(max_examples=60)
@given(BATCH)
def test_process_moves_credit_between_open_turns_only_and_no_further_than_the_clip(table_of: Any, batch: Any):
    table = tabled(table_of, batch)
    plain_N = sag(table, weight=0.0)
    part_N = sag(table, weight=1.0, clip=np.inf) - plain_N
    for cohort in set(table.cohort_B.tolist()):
        assert part_N[table.cohort_B[table.traj_N] == cohort].sum() == pytest.approx(0.0, abs=1e-4)
    assert (part_N[~table.open_N | np.isnan(table.process_N)] == 0).all()
    assert (np.abs(sag(table) - plain_N) <= 0.5 * 2.0 + 1e-5).all()


# --- from evidence to loss -------------------------------------------------------------------------------------------

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome"),
        FromEvidence(name="good", evidence="good", per_turn=True),
    ),
    gates=(needs_outcome(1.0),),
)
TASK = Task(id="t", env_id="e", prompt="p")


def turn(context: int, written: list[Source]) -> Turn:
    return Turn(
        observation=Observation(text="o"),
        context_ids=np.ones(context, np.int32),
        completion=Completion(
            ids_K=np.ones(len(written), np.int32),
            logprobs_K=np.zeros(len(written), np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
        ),
        source=np.array([Source.CONTEXT] * context + written, np.uint8),
        action=Action(text="a"),
    )


def episode(name: str, turns: list[Turn], good: list[float], solved: float) -> Trajectory:
    return Trajectory(
        id=name,
        task=TASK,
        turns=tuple(turns),
        ending=Ending.FINISHED,
        seed=0,
        evidence=(
            *(Evidence(name="good", value=value, turn=index) for index, value in enumerate(good)),
            Evidence(name="solved", value=solved),
        ),
    )


@pytest.mark.parametrize(("aggregate", "loss"), [("token", -0.058926), ("turn", 0.0)])
def test_gate_then_sag_then_tokens_then_loss(aggregate: Any, loss: float):
    """Two trajectories of two turns; the failed one closes the gate. All ratios are 1, so the loss is −Σ w A."""
    one, two = [Source.POLICY], [Source.POLICY, Source.POLICY]
    group = Group(
        task=TASK,
        trajectories=(
            episode("a", [turn(1, two), turn(0, [Source.POLICY, Source.GUIDE])], [1.0, 0.0], 1.0),
            episode("b", [turn(1, one), turn(1, two)], [1.0, 1.0], 0.0),
        ),
    )
    scored = RUBRIC.score_group(group)
    table = tabulate([scored])
    assert table.open_N.tolist() == [True, True, False, False]
    advantage_N = sag(table, eps=0.0)
    np.testing.assert_allclose(advantage_N, [1.060660, 0.353553, -0.707107, -0.707107], atol=1e-5)
    batch = pack([scored], advantage_N, aggregate=aggregate)
    expected_L = [0, 1.060660, 1.060660, 0.353553, 0, 0, -0.707107, 0, -0.707107, -0.707107]
    np.testing.assert_allclose(batch.advantage_L, expected_L, atol=1e-5)
    assert -(batch.policy_weight_L * batch.advantage_L).sum() == pytest.approx(loss, abs=1e-5)
