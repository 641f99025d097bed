"""Dr. GRPO: the centred reward, not divided by anything."""

from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.rule import rule
from turngate.types import FloatArray, TurnTable


@rule
def dr_grpo(table: TurnTable) -> FloatArray:
    """Dr.GRPO: what an episode was paid, less the mean of its siblings.

    ``A_i = R_i − mean`` over the cohort of trajectory i, the same for all its turns: float32[N].

    ``R_i`` is everything paid to the trajectory. Source: https://arxiv.org/abs/2503.20783. It equals ``grpo``
    with ``std=False``, and (n−1)/n times ``rloo``. The paper also changes the loss, to a sum over tokens divided by a
    constant, so that long failures are not punished less per token: set ``loss.aggregate`` to a number for that.

    Degenerate: a cohort of one or of equal totals gives exactly 0. The gradient scales with the reward. Raises
    ShapeError (see ``validate``).
    """
    return grpo(table, std=False)
