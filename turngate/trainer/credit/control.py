"""Negative controls: runs that must not learn, because credit has nothing to do with what the policy did.

If such a run improves, its improvement does not come from credit.
"""

from dataclasses import replace

import numpy as np

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import first_turns, lengths, validate
from turngate.trainer.credit.pay_sources import last_turns
from turngate.types import FloatArray, TurnTable, derive_seed


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
    cycle = np.random.default_rng(derive_seed("shuffle", seed)).permutation(played)
    donor_B = np.empty(table.n_trajectories, np.int64)
    donor_B[cycle] = np.roll(cycle, 1)
    last_B = lengths(table) - 1
    donor_N = donor_B[table.traj_N]
    return advantage_N[first_turns(table)[donor_N] + np.minimum(table.index_N, last_B[donor_N])]


def random_reward(table: TurnTable, seed: int) -> TurnTable:
    """The same table, but every trajectory is paid 0 or 1 at random at its end, and nothing else.

    Outcome and ``settled_B`` are the same random number. Scores and metrics stay true; only what credit sees is random.
    """
    validate(table)
    rng = np.random.default_rng(derive_seed("random_reward", seed))
    outcome_B = rng.integers(2, size=table.n_trajectories).astype(np.float32)
    reward_N = np.zeros(table.n_turns, np.float32)
    last_N = last_turns(table)
    reward_N[last_N] = outcome_B[table.traj_N[last_N]]
    process_N = np.full(table.n_turns, np.nan, np.float32)
    unplaced_B = np.where(lengths(table) > 0, 0, outcome_B)
    measured = {**table.measured, "settled_B": outcome_B, "unplaced_B": unplaced_B}
    return replace(table, reward_N=reward_N, process_N=process_N, outcome_B=outcome_B, measured=measured)
