"""Tables written by hand: one list of rewards per trajectory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from turngate.types import TurnTable


def make_table(
    rewards: Sequence[Sequence[float]],
    cohorts: Sequence[int] | None = None,
    states: Sequence[Sequence[int]] | None = None,
    process: Sequence[Sequence[float]] | None = None,
    is_open: Sequence[Sequence[bool]] | None = None,
    outcome: Sequence[float] | None = None,
    **measured: npt.ArrayLike,
) -> TurnTable:
    """``settled_B`` is the outcome where nothing is said: no gate took anything back.

    ``process_paid_N`` is the verdict where it is open, as a component of weight 1 without a mean pays it. An empty row
    is an episode without turns, which was paid its outcome.
    """
    lengths = [len(row) for row in rewards]
    n = sum(lengths)
    flat = [reward for row in rewards for reward in row]
    outcome_B = np.array([sum(row) for row in rewards] if outcome is None else outcome, np.float32)
    process_N = np.full(n, np.nan, np.float32) if process is None else flatten(process, np.float32)
    open_N = np.ones(n, np.bool_) if is_open is None else flatten(is_open, np.bool_)
    unplaced_B = np.where(np.array(lengths) == 0, outcome_B, 0)
    paid_N = np.where(open_N, np.nan_to_num(process_N), 0)
    recorded = {"unplaced_B": unplaced_B, "settled_B": outcome_B, "process_paid_N": paid_N}
    return TurnTable(
        reward_N=np.array(flat, np.float32),
        process_N=process_N,
        open_N=open_N,
        traj_N=np.repeat(np.arange(len(rewards), dtype=np.int32), lengths),
        index_N=np.array([index for length in lengths for index in range(length)], np.int32),
        state_N=np.array([s for row in states for s in row] if states is not None else [-1] * n, np.int64),
        outcome_B=outcome_B,
        cohort_B=np.array(cohorts if cohorts is not None else [0] * len(rewards), np.int32),
        measured=recorded | {name: np.asarray(array) for name, array in measured.items()},
    )


def flatten(rows: Sequence[Sequence[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.array([value for row in rows for value in row], dtype)


@pytest.fixture(scope="session")
def table_of() -> Callable[..., TurnTable]:
    return make_table
