"""Negative controls: runs that must not learn, because credit has nothing to do with what the policy did.

If such a run improves, its improvement does not come from credit. Which episodes are learned from is decided by their
true scores, as in the run itself; ``check_controls`` refuses parts that would learn from that. Facts that a rule reads
beside rewards (tags, entropies, beliefs) stay true too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, first_turns, lengths, validate
from turngate.trainer.credit.pay_sources import PAID, last_turns
from turngate.types import FloatArray, TurnTable, derive_seed


def check_controls(controls: Sequence[str], *, guide: str, auxiliary: Sequence[str]) -> None:
    """Raise ValueError for controls of a run that could learn from true results, although its credit is false.

    A guide reads true scores when it decides which episodes are learned from, and an auxiliary loss learns
    independently of credit. A curriculum chooses among tasks alone, so it may stay: no episode of a task is preferred
    to another one.
    """
    if controls and auxiliary:
        raise ValueError(
            f"controls cannot be made of a run with auxiliary loss '{auxiliary[0]}': it learns from true results or "
            "somebody else's episodes, whatever credit says; leave controls out, or leave the auxiliary loss out"
        )
    if controls and guide != "none":
        raise ValueError(
            f"controls cannot be made of a run with guide '{guide}': a guide decides by true results which episodes "
            "are learned from, so a control could learn from its choice; leave controls out, or leave the guide out"
        )


def shuffle_between_trajectories(table: TurnTable, advantage_N: FloatArray, seed: int) -> FloatArray:
    """Give every trajectory the advantages of another one of the batch: float32[N].

    No trajectory keeps its own: they are swapped along one random cycle through all trajectories with turns. Turns are
    matched by index; a longer trajectory repeats the last number, and a shorter one ignores the rest. Raises ShapeError
    for a single trajectory.
    """
    validate(table)
    if advantage_N.shape != (table.n_turns,):
        raise ShapeError(f"advantage_N has shape {advantage_N.shape}, expected ({table.n_turns},)")
    played = np.flatnonzero(lengths(table))
    if len(played) < 2:
        raise ShapeError("a single trajectory cannot swap advantages with another; shuffle a batch of at least two")
    donor_B = _donors(played, table.n_trajectories, derive_seed("shuffle", seed))
    last_B = lengths(table) - 1
    donor_N = donor_B[table.traj_N]
    return advantage_N[first_turns(table)[donor_N] + np.minimum(table.index_N, last_B[donor_N])]


def shuffled_reward(table: TurnTable, seed: int) -> TurnTable:
    """The same table, but every trajectory is paid, at its end, what another one of the batch was paid in total.

    No trajectory keeps its own: totals, outcomes, ``won_B`` and ``paid/NAME_B`` are exchanged together along one random
    cycle through all trajectories of the batch, over all tasks, also through those without turns. So the rewards are
    those of the batch, each exactly once, and credit is computed from them as always.

    Payments for single turns cannot be exchanged, because the other trajectory has other turns. They are in the total,
    so the same sum is paid, but on the last turn; no turn has a process verdict, and ``settled_B`` is the total. Raises
    ShapeError for a single trajectory.
    """
    validate(table)
    if table.n_trajectories < 2:
        raise ShapeError("a single trajectory cannot exchange its reward; shuffle a batch of at least two")
    donor_B = _donors(np.arange(table.n_trajectories), table.n_trajectories, derive_seed("shuffled_reward", seed))
    results = {
        name: column_B[donor_B] for name, column_B in table.measured.items() if name.startswith(PAID) or name == "won_B"
    }
    return _paid_at_the_end(table, outcome_B=table.outcome_B[donor_B], total_B=table.total_B[donor_B], results=results)


def random_reward(table: TurnTable, seed: int) -> TurnTable:
    """The same table, but every trajectory is paid 0 or 1 at random at its end, and nothing else.

    Outcome, ``won_B`` and ``settled_B`` are the same random number; each ``paid/NAME_B`` is one of its own. Scores and
    metrics stay true; only what credit sees is random.
    """
    validate(table)
    rng = np.random.default_rng(derive_seed("random_reward", seed))
    outcome_B = rng.integers(2, size=table.n_trajectories).astype(np.float32)
    names = sorted(name for name in table.measured if name.startswith(PAID))
    results: dict[str, npt.NDArray[Any]] = {
        name: rng.integers(2, size=table.n_trajectories).astype(np.float32) for name in names
    }
    results["won_B"] = outcome_B > 0
    return _paid_at_the_end(table, outcome_B=outcome_B, total_B=outcome_B.astype(np.float64), results=results)


def _donors(members: Int64Array, n: int, seed: int) -> Int64Array:
    """For each of ``members`` another member, along one random cycle through all of them; 0 elsewhere: int64[n]."""
    cycle = np.random.default_rng(seed).permutation(members)
    donor_B = np.zeros(n, np.int64)
    donor_B[cycle] = np.roll(cycle, 1)
    return donor_B


def _paid_at_the_end(
    table: TurnTable, *, outcome_B: FloatArray, total_B: Float64Array, results: Mapping[str, npt.NDArray[Any]]
) -> TurnTable:
    """The table with ``total_B`` as the only payment of each trajectory, on its last turn."""
    total_B = total_B.astype(np.float32)
    reward_N = np.zeros(table.n_turns, np.float32)
    last_N = last_turns(table)
    reward_N[last_N] = total_B[table.traj_N[last_N]]
    process_N = np.full(table.n_turns, np.nan, np.float32)
    measured = {
        **table.measured,
        **results,
        "settled_B": total_B,
        "unplaced_B": np.where(lengths(table) > 0, np.float32(0), total_B),
        "process_paid_N": np.zeros(table.n_turns, np.float32),
    }
    return replace(table, reward_N=reward_N, process_N=process_N, outcome_B=outcome_B, measured=measured)
