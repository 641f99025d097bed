"""Negative controls: runs that must not learn. If one does, the learning test measures something else than credit."""

from collections.abc import Sequence

import numpy as np

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import first_turns, validate
from turngate.types import FloatArray, RewardEvent, Score, ScoredGroup, TurnTable, derive_seed


def shuffle_between_trajectories(table: TurnTable, advantage_N: FloatArray, seed: int) -> FloatArray:
    """Give every trajectory the advantages of another one of the batch: float32[N].

    Nobody keeps its own (one random cycle through all trajectories). Turns are matched by index; a longer trajectory
    repeats the last number, a shorter one leaves the rest out. Raises ShapeError for a single trajectory.
    """
    validate(table)
    n_turns, n_trajectories = table.n_turns, table.n_trajectories
    if advantage_N.shape != (n_turns,):
        raise ShapeError(f"advantage_N has shape {advantage_N.shape}, expected ({n_turns},)")
    if n_trajectories < 2:
        raise ShapeError("one trajectory has nobody to swap advantages with; shuffle a batch of at least two")
    cycle = np.random.default_rng(derive_seed("shuffle", seed)).permutation(n_trajectories)
    donor_B = np.empty(n_trajectories, np.int64)
    donor_B[cycle] = np.roll(cycle, 1)
    last_B = np.bincount(table.traj_N) - 1
    donor_N = donor_B[table.traj_N]
    return advantage_N[first_turns(table)[donor_N] + np.minimum(table.index_N, last_B[donor_N])]


def random_reward(groups: Sequence[ScoredGroup], seed: int) -> list[ScoredGroup]:
    """The same groups, every usable score replaced by a fair coin: outcome 0 or 1, paid on the last turn.

    The ledger says so: its one event is named "random_reward". Scores that are not usable stay as they are.
    """
    rng = np.random.default_rng(derive_seed("random_reward", seed))
    return [
        ScoredGroup(
            task=scored.task,
            trajectories=scored.trajectories,
            scores=tuple(_coin(score, float(rng.integers(2))) if score.usable else score for score in scored.scores),
        )
        for scored in groups
    ]


def _coin(score: Score, value: float) -> Score:
    reward_T = np.zeros_like(score.reward_T)
    reward_T[-1:] = value
    event = RewardEvent(name="random_reward", kind="outcome", turn=None, value=value, weight=1.0)
    return Score(ledger=(event,), reward_T=reward_T, outcome=value, usable=True)
