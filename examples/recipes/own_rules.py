"""A credit rule of one's own: from the table of a batch to one number per turn. See own_credit.toml."""

import numpy as np

from turngate.trainer.credit.rloo import rloo
from turngate.types import FloatArray, TurnTable


def late(table: TurnTable, *, decay: float = 0.8) -> FloatArray:
    """``rloo``, and the earlier a turn stands before the end of its episode, the less it counts: float32[N].

    Multiplies by ``decay`` to the power of how many turns follow; ``decay=1`` is ``rloo``.
    """
    turns_B = np.bincount(table.traj_N, minlength=table.n_trajectories)
    follow_N = turns_B[table.traj_N] - 1 - table.index_N
    return (rloo(table) * decay**follow_N).astype(np.float32)
