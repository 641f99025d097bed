"""RL-ZVP: cohorts without any difference learn from the policy's own uncertainty."""

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import z_beyond_siblings
from turngate.trainer.credit.cohorts import Float64Array, GroupStatistics, Int64Array, group, validate
from turngate.trainer.credit.pay_sources import column, successes
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, EntropyAlpha, Eps, Threshold
from turngate.types import FloatArray, TurnTable


@rule(reads=("entropy_N",))
def rl_zvp(
    table: TurnTable, *, alpha: EntropyAlpha = 0.1, threshold: Threshold = None, eps: Eps = 1e-6, ddof: Ddof = 1
) -> FloatArray:
    """RL-ZVP: GRPO, and credit by the policy's uncertainty where all siblings were paid the same.

    ``grpo`` where siblings were paid differently. Where all were paid the same, credit depends on entropy: float32[N].

    * all succeeded: ``A_t = +α H_t``, so uncertain turns are confirmed most;
    * all failed: ``A_t = −α (max_s H_s − H_t)``, max over the turns of the trajectory, so certain turns are blamed
      most and the most uncertain one not at all.

    H is ``measured["entropy_N"]`` (mean entropy per policy token in nats) if it was measured, else
    ``measured["surprisal_N"]``, its estimate from the sampled tokens. A success is an outcome and a total of at least
    ``threshold``; a cohort of equal totals in which only some succeeded gets 0.

    Source: https://arxiv.org/abs/2509.21880, which works per token (``rl_zvp_tokens``) and uses α 0.1 to 0.2
    by model size; 0.1 here is not fixed by the paper. Per turn, the boilerplate inside tool calls is not
    blamed more than the turn that it is in. ``alpha=0`` is ``grpo``. Not zero-mean in cohorts without differences.
    Degenerate: a cohort of one, and a turn without policy tokens (NaN), get exactly 0. Raises ShapeError (see
    ``validate``), also without either column, ConfigError for α < 0, eps < 0 or another ddof than 0 or 1.
    """
    if alpha < 0 or eps < 0 or ddof not in (0, 1):
        raise ConfigError(f"rl_zvp needs alpha ≥ 0, eps ≥ 0 and ddof 0 or 1, found {alpha}, {eps}, {ddof}")
    validate(table)
    name = "entropy_N" if "entropy_N" in table.measured else "surprisal_N"
    entropy_N = column(table, name, "rl_zvp", missing=True)
    groups = group(table.total_B, table.cohort_B)
    sign_B = signs(table, groups, threshold)[table.cohort_B]
    start_N = np.flatnonzero(table.index_N == 0).astype(np.int64, copy=False)
    shaped_N = zero_variance_credit(entropy_N, start_N, sign_B[table.traj_N[start_N]], alpha=alpha)
    return (z_beyond_siblings(table.total_B, table, eps=eps, ddof=ddof) + shaped_N).astype(np.float32)


def signs(table: TurnTable, groups: GroupStatistics, threshold: float | None) -> Int64Array:
    """+1 for cohorts of equal totals that all succeeded, −1 where all failed, else 0: int64[G].

    ``groups`` are the totals by cohort.
    """
    won_G = np.bincount(table.cohort_B, weights=successes(table, threshold))
    same_G = groups.degenerate_G & (groups.count_G > 1)
    sign_G: Int64Array = np.where(same_G & (won_G == groups.count_G), 1, np.where(same_G & (won_G == 0), -1, 0))
    return sign_G


def zero_variance_credit(
    entropy_M: Float64Array, start_B: Int64Array, sign_B: Int64Array, *, alpha: float
) -> Float64Array:
    """``+αH`` where sign is +1, ``−α(max H − H)`` where −1, else 0, and 0 where H is NaN: float64[M].

    Members (turns or tokens) lie end to end; ``start_B`` (int[B]) is where each trajectory begins, ``sign_B`` (int[B])
    its result as ``signs`` has it; the maximum is over its members.
    """
    length_B = np.diff(start_B, append=len(entropy_M))
    known_M = ~np.isnan(entropy_M)
    top_B = np.maximum.reduceat(np.where(known_M, entropy_M, -np.inf), start_B)
    sign_M, top_M = np.repeat(sign_B, length_B), np.repeat(top_B, length_B)
    credit_M = np.zeros(len(entropy_M))
    up_M, down_M = known_M & (sign_M > 0), known_M & (sign_M < 0)
    credit_M[up_M] = alpha * entropy_M[up_M]
    credit_M[down_M] = -alpha * (top_M[down_M] - entropy_M[down_M])
    return credit_M
