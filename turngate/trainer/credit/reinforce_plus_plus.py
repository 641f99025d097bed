"""REINFORCE++: one baseline and one scale for the whole batch."""

from dataclasses import replace

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.pay_sources import column, tokens
from turngate.trainer.credit.returns import reward_to_go
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Gamma, Kl
from turngate.trainer.credit.siblings import siblings
from turngate.trainer.credit.token_credit import whiten
from turngate.types import FloatArray, TurnTable


@rule(reads=("logratio_N",))
def reinforce_plus_plus(table: TurnTable, *, gamma: Gamma = 1.0, kl: Kl = 0.0, eps: Eps = 1e-8) -> FloatArray:
    """REINFORCE++: the payments from each turn on, scaled to mean 0 and variance 1 over the batch.

    ``A_t = (G_t − mean) / sqrt(var + eps)`` over all tokens of the batch, ``G_t = Σ_{k≥t} γ^{k−t} r_k``: float32[N].

    A turn counts as often as it has policy tokens (``measured["tokens_N"]``), so the statistics depend mostly on long
    turns; var has Bessel's factor. ``kl`` subtracts ``kl · measured["logratio_N"]`` (Σ log π/π_ref over the turn) from
    the reward of each turn. Source: https://arxiv.org/abs/2501.03262, per turn instead of per token: one discount per
    turn. γ=1 is its default; it uses kl 0.001–0.01, which is 0 here because a reference model is not always at hand.

    The token-weighted mean over the batch is 0; cohorts are not used, so the mix of easy and hard tasks in a batch
    shifts all credit. Equal returns give exactly 0. Raises ShapeError (see ``validate``), also without ``tokens_N``,
    ConfigError for γ outside [0, 1] or a negative kl or eps.
    """
    if kl < 0 or eps < 0:
        raise ConfigError(f"reinforce_plus_plus needs kl ≥ 0 and eps ≥ 0, found kl={kl}, eps={eps}")
    validate(table)
    if kl:
        penalty_N = kl * column(table, "logratio_N", "reinforce_plus_plus")
        table = replace(table, reward_N=(table.reward_N - penalty_N).astype(np.float32))
    to_go_N = reward_to_go(table, gamma)
    return whiten(to_go_N, tokens(table, "reinforce_plus_plus"), eps=eps).astype(np.float32)


@rule
def reinforce_plus_plus_baseline(table: TurnTable, *, eps: Eps = 1e-8) -> FloatArray:
    """REINFORCE++ with a baseline: payment less the siblings' mean, then scaled over the batch.

    ``R_i − mean of the cohort``, then whitened over all tokens of the batch: float32[N].

    ``R_i`` is everything paid to the trajectory; turns are weighted by ``measured["tokens_N"]`` as in
    ``reinforce_plus_plus``. Source: https://arxiv.org/abs/2501.03262 and its implementations.

    With one cohort of equal lengths it is ``grpo`` up to how many tokens the variance counts. Degenerate: a cohort of
    one gets exactly 0 and is left out of the statistics (published code gives it its raw reward); a cohort of equal
    totals gets the shift of the whitening, which is 0 if all lengths are equal; a batch without differences gives 0.
    Raises ShapeError (see ``validate``), also without ``tokens_N``, ConfigError for eps < 0.
    """
    if eps < 0:
        raise ConfigError(f"reinforce_plus_plus_baseline needs eps ≥ 0, found {eps}")
    validate(table)
    compared = siblings(table)
    compared_N = ~compared.alone_N
    weight_N = np.where(compared_N, tokens(table, "reinforce_plus_plus_baseline"), 0.0)
    white_N = whiten(compared.group(table.total_B).centred_M[compared.own_N], weight_N, eps=eps)
    return np.where(compared_N, white_N, 0.0).astype(np.float32)
