"""GRPO and Dr.GRPO: a trajectory against its siblings."""

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps, Std
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable


@rule
def grpo(table: TurnTable, *, eps: Eps = 1e-6, ddof: Ddof = 1, std: Std = True) -> FloatArray:
    """GRPO: what an episode was paid, less the mean of its siblings, divided by their standard deviation.

    ``A_i = (R_i − mean) / (std + eps)`` over the cohort of trajectory i, the same for all its turns: float32[N].

    ``R_i`` is everything paid to the trajectory. ``std=False`` leaves out the division: Dr.GRPO's centring
    (https://arxiv.org/abs/2503.20783), which is (n−1)/n times ``rloo``.

    Source: DeepSeekMath, https://arxiv.org/abs/2402.03300. ``ddof=1`` is what torch.std computes, and eps=1e-6 is
    verl's; TRL uses 1e-4. Where siblings branched, those that do not share the turn stand in for the others (see
    ``siblings``). Degenerate: a cohort of one or of equal totals gives exactly 0. Known weakness: dividing by
    the std enlarges tiny differences to full size. Raises ShapeError (see ``validate``), ConfigError for
    eps < 0 or another ddof than 0 or 1.
    """
    if eps < 0 or ddof not in (0, 1):
        raise ConfigError(f"grpo needs eps ≥ 0 and ddof 0 or 1, found eps={eps}, ddof={ddof}")
    validate(table)
    compared = siblings(table)
    groups = compared.group(table.total_B)
    return compared.to_turns(groups.z_M(eps=eps, ddof=ddof) if std else groups.centred_M)
