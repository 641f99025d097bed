"""RLVMR against its worked numbers. ddof 1, eps 0 unless stated."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.numbers import near
from turngate.errors import ConfigError, ShapeError
from turngate.rewards import FromEvidence, Rubric
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.rlvmr import Tag, rlvmr, tag_rewards, tags

nan = np.nan
SIZES = [1, 2, 1, 1]
VERDICTS = [[1.0], [1.0, 0.0], [0.0], [0.0]]


def tagged(table_of: Any, tag_N: Any, verdicts: Any = VERDICTS, **columns: Any) -> Any:
    rows = [[0.0] * (n - 1) + [float(i == 0)] for i, n in enumerate(SIZES)]
    return table_of(rows, process=verdicts, tag_N=tag_N, **columns)


def test_the_worked_example(table_of: Any):
    """Explore rewards 1, 1, 0, 0, 0: z(1) = 1.095445; A of the success 1.5, so 1.297723, and 2.595445 in the code."""
    table = tagged(table_of, [Tag.EXPLORE] * 5)
    assert rlvmr(table, eps=0.0)[0] == near(1.297723)
    assert rlvmr(table, alpha=1.0, form="code", eps=0.0)[0] == near(2.595445)
    assert rlvmr(table, alpha=0.0, eps=0.0)[0] == near(1.095445)


def test_the_worked_example_through_a_rubric(tabled_of: Any):
    rubric = Rubric(
        rewards=(
            FromEvidence(name="won", evidence="won", kind="outcome"),
            FromEvidence(name="step", evidence="step", per_turn=True, agg="sum"),
        )
    )
    table = tabled_of(rubric, [{"won": float(i == 0), "step": row} for i, row in enumerate(VERDICTS)])
    table.measured["tag_N"] = np.ones(5)
    assert rlvmr(table, eps=0.0)[0] == near(1.297723)


def test_a_tag_seen_once_gives_nothing(table_of: Any):
    assert rlvmr(tagged(table_of, [0, 1, 1, 1, 1]), eps=0.0)[0] == near(0.5 * 1.5)


def test_turns_are_compared_inside_cohort_and_tag(table_of: Any):
    rows = [[0, 0], [0, 0], [0], [0]]
    verdicts = [[1, 0], [1, 0], [5], [3]]
    table = table_of(rows, cohorts=[0, 0, 1, 1], process=verdicts, tag_N=[1, 1, 0, 0, 1, 1])
    assert rlvmr(table, alpha=0.0, eps=0.0).tolist() == near([0.707107, -0.707107] * 3)


def test_malformed_and_untagged_turns_share_a_pool(table_of: Any):
    table = table_of([[0], [0], [0]], process=[[-0.1], [0.0], [0.1]], tag_N=[Tag.MALFORMED, Tag.NONE, nan])
    assert rlvmr(table, alpha=0.0, eps=0.0).tolist() == near([-1, 0, 1])


def test_it_becomes_grpo_of_the_outcome(table_of: Any):
    table = tagged(table_of, [1] * 5)
    assert rlvmr(table, alpha=1.0).tolist() == near(grpo(table).tolist())
    assert rlvmr(table, alpha=0.0, form="code").tolist() == near(grpo(table).tolist())
    silent = tagged(table_of, [1] * 5, [[nan], [nan, nan], [nan], [nan]])
    assert rlvmr(silent).tolist() == near((0.5 * grpo(table)).tolist())


STEPS = [  # tag, repeated, valid, changed → reward, in a success
    (Tag.REFLECTION, 0, 1, 1, 0.0),  # nothing to reflect on yet
    (Tag.PLANNING, 0, 1, 1, 1.0),
    (Tag.EXPLORE, 0, 1, 1, 1.0),
    (Tag.EXPLORE, 1, 1, 0, 0.0),  # a repeat
    (Tag.EXPLORE, 0, 0, 1, 0.0),  # not valid: earns nothing
    (Tag.REFLECTION, 0, 1, 1, 1.0),
    (Tag.REFLECTION, 0, 1, 1, 0.0),  # the step before was fine
    (Tag.NONE, 0, 0, 1, 0.0),
    (Tag.REFLECTION, 1, 1, 0, 0.0),  # the action did not change
    (Tag.MONITOR, 0, 1, 1, 0.0),
    (Tag.MALFORMED, 0, 0, 1, -0.1),
]


def checked(table_of: Any, won: float) -> Any:
    tag, repeated, valid, changed, _ = zip(*STEPS, strict=True)
    rows = [[0.0] * (len(STEPS) - 1) + [won], [0.0, 0.0]]
    return table_of(
        rows,
        tag_N=[*tag, Tag.NONE, Tag.REFLECTION],
        repeated_N=[*repeated, 0, 0],
        valid_N=[*valid, 0, 1],
        changed_N=[*changed, 1, 1],
    )


def test_tags_are_checked_against_what_the_step_did(table_of: Any):
    table = checked(table_of, 1.0)
    found = tag_rewards(table, tags(table), 0.5, -0.1)
    assert found.tolist() == near([*(step[-1] for step in STEPS), 0.0, 1.0])
    failed = checked(table_of, 0.0)
    assert tag_rewards(failed, tags(failed), 0.5, -0.1)[1] == 0.0
    explore = rlvmr(table, rewards="checked", alpha=0.0, eps=0.0)[[2, 3, 4]]
    assert explore.tolist() == near([1.154701, -0.577350, -0.577350])


@pytest.mark.parametrize("name", ["repeated_N", "valid_N", "changed_N"])
def test_checked_rewards_need_their_columns(table_of: Any, name: str):
    table = checked(table_of, 1.0)
    table.measured[name][3] = 2
    with pytest.raises(ShapeError, match=f"{name} is 2 at trajectory 0, turn 3; it must be 0 or 1"):
        rlvmr(table, rewards="checked")
    del table.measured[name]
    with pytest.raises(ShapeError, match=f"rlvmr needs column '{name}'"):
        rlvmr(table, rewards="checked")


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"alpha": -1.0, "form": "code"}, "alpha is -1.0"),
        ({"form": "yaml"}, "form is 'yaml'"),
        ({"rewards": "x"}, "rewards is 'x'"),
        ({"eps": -1.0}, "eps=-1.0"),
        ({"malformed": nan, "rewards": "checked"}, "malformed is nan"),
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        rlvmr(checked(table_of, 1.0), **bad)


def test_a_number_that_is_no_tag_is_refused(table_of: Any):
    with pytest.raises(ShapeError, match=r"tag_N is 6 at trajectory 1, turn 0; tags are 0\.\.5"):
        rlvmr(tagged(table_of, [0, 6, 1, 1, 1]))
