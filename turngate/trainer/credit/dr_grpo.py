"""Dr. GRPO: the centred reward, not divided by anything."""

from turngate.trainer.credit.grpo import grpo
from turngate.types import FloatArray, TurnTable


def dr_grpo(table: TurnTable) -> FloatArray:
    """Dr.GRPO: what an episode was paid, less the mean of its siblings.

    ``A_i = R_i − mean`` over the cohort of trajectory i, the same for all its turns: float32[N].

    ``R_i`` is everything paid to the trajectory. Source: https://arxiv.org/abs/2503.20783. The name of ``grpo`` with
    ``std=False``, and (n−1)/n times ``rloo``. Its other half belongs to the loss: sum over tokens and divide by a
    constant length, so that long failures are not punished less per token.

    Degenerate: a cohort of one or of equal totals gives exactly 0. The gradient scales with the reward. Raises
    ShapeError (see ``validate``).
    """
    return grpo(table, std=False)
