"""Implicit process rewards: a turn's reward is computed from the log-probabilities of a reward model φ.

``measured["logratio_N"]`` is ``Σ log π_φ − log π_ref`` over the policy tokens of each turn. ``prime`` and ``istar``
compute credit from it. The two losses train φ. They return their gradient with respect to each trajectory's summed
log-ratio, so a learner only has to differentiate ``Σ_i gradient_i · logratio_i``.
"""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ShapeError
from turngate.trainer.credit.baselines import (
    as_credit,
    beyond_siblings,
    cohorts,
    non_negative,
    rate_baseline,
    without_siblings,
    z_beyond_siblings,
)
from turngate.trainer.credit.cohorts import Float64Array, group, lengths, per_trajectory, validate
from turngate.trainer.credit.pay_sources import column, tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, ImplicitBeta, Std
from turngate.types import FloatArray, TurnTable

REWARD_MODELS = {
    "prime": ("cross_entropy", "start"),
    "prime_tokens": ("cross_entropy", "start"),
    "istar": ("preference", "policy"),
    "top_scored": ("", "start"),
}
"""Rules with a reward model φ, each with the loss that trains φ beside the policy ("" = none: φ is fitted before) and
the reference of its log-ratios: "start", the model that training began from, or "policy", the policy before the step's
update. A φ that was fitted before is compared with "start"."""


@rule(reads=("logratio_N",))
def prime(table: TurnTable, *, beta: ImplicitBeta = 0.05) -> FloatArray:
    """PRIME: RLOO plus implicit process rewards: log-ratios of a model that learns from outcomes.

    ``A_t = RLOO(R) + Σ_{s≥t} (r_s − n_s b)``, ``r_s = β · logratio_s``: float32[N].

    R is everything paid, ``n_s`` is ``measured["tokens_N"]``, and b the mean of the siblings' reward per token: the
    process return from the first token of turn t, with a leave-one-out baseline of its own.

    Source: PRIME, https://arxiv.org/abs/2502.01456 and its code, β=0.05, π_ref fixed. Its optional division by the
    largest process return is left out.

    Degenerate: a turn whose log-ratio is NaN is left out of sums and rates; without any, and for log-ratios of 0, this
    is ``rloo``. With equal totals only the process part is left. A cohort of one gives exactly 0. Raises ShapeError
    (see ``validate``; ``logratio_N`` missing or infinite, ``tokens_N`` missing or negative), ConfigError for β < 0.
    """
    non_negative("prime", beta=beta)
    validate(table)
    logratio_N = column(table, "logratio_N", "prime", missing=True)
    known_N = ~np.isnan(logratio_N)
    weight_N = np.where(known_N, tokens(table, "prime"), 0.0)
    reward_N = np.where(weight_N > 0, beta * logratio_N, 0.0)
    process_N = rate_baseline(reward_N, weight_N, table)
    return as_credit(beyond_siblings(table.total_B, table) + process_N)


StepWeight: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of the turns' own rewards beside the outcome (α in the paper).")
]


@rule(reads=("logratio_N",))
def istar(
    table: TurnTable, *, alpha: StepWeight = 1.0, beta: ImplicitBeta = 0.05, std: Std = True, eps: Eps = 1e-6
) -> FloatArray:
    """iStar: GRPO plus an implicit reward of each turn, the policy's log-ratio, compared with those of other turns.

    ``A_t = z(R) + α · z(β · logratio_t)``: float32[N].

    The first z is over the trajectories of the cohort, the second over all its turns (ddof 1, ``std + eps``;
    ``std=False`` only centres both). The log-ratio is against π_old, the policy before the step's update, or, where the
    policy itself is the reward model, that of the policy against the model that training began from.

    Source: OPRL / iStar, https://arxiv.org/abs/2509.19199, α=1, β=0.05. Its code takes the second mean and std over
    the first row of each trajectory only; this is the paper's formula. β cancels in the std, up to eps.

    Degenerate: turns whose log-ratio is NaN are left out of statistics and have step part 0; without any, and for equal
    log-ratios, this is ``grpo``. With equal totals only the step part is left. A cohort of one gives exactly 0. Raises
    ShapeError (see ``validate``; ``logratio_N`` missing or infinite), ConfigError for a negative setting.
    """
    non_negative("istar", alpha=alpha, beta=beta, eps=eps)
    validate(table)
    reward_N = beta * column(table, "logratio_N", "istar", missing=True)
    keep_N = ~np.isnan(reward_N) & ~without_siblings(table)
    steps = group(reward_N[keep_N], cohorts(table)[keep_N])
    advantage_N = z_beyond_siblings(table.total_B, table, eps=eps, std=std)
    advantage_N[keep_N] += alpha * (steps.z_M(eps=eps) if std else steps.centred_M)
    return as_credit(advantage_N)


def cross_entropy(table: TurnTable, *, beta: float = 0.05) -> tuple[float, Float64Array]:
    """PRIME's loss for φ, ``mean −log σ(±β Σ logratio)`` (+ for outcome 1), and its gradient: float, float64[B].

    The gradient is with respect to ``Σ logratio`` of each trajectory. Trajectories without turns are
    left out. Raises ShapeError for outcomes outside [0, 1] and log-ratios that are missing or not finite.
    """
    logit_B = _logits(table, beta, "cross_entropy")
    outcome_B = table.outcome_B.astype(np.float64)
    bad = np.flatnonzero((outcome_B < 0) | (outcome_B > 1))
    if len(bad):
        raise ShapeError(
            f"cross_entropy: outcome_B is {outcome_B[bad[0]]} at trajectory {bad[0]}; it must be in [0, 1]"
        )
    played_B = lengths(table) > 0
    loss_B = outcome_B * np.logaddexp(0.0, -logit_B) + (1.0 - outcome_B) * np.logaddexp(0.0, logit_B)
    gradient_B = np.where(played_B, beta * (_sigmoid(logit_B) - outcome_B) / played_B.sum(), 0.0)
    return float(loss_B[played_B].mean()), gradient_B


def preference(table: TurnTable, *, beta: float = 0.05, success: float = 0.5) -> tuple[float, Float64Array]:
    """iStar's loss for φ, ``mean −log σ(β (Σ₊ − Σ₋))`` over pairs, and its gradient: float, float64[B].

    Pairs are every (success, failure) of one cohort, both with turns; ``Σ`` is the sum, not the mean, of a trajectory's
    log-ratios; success is ``outcome_B ≥ success``. Without any pair the loss is 0. The gradient is with respect to ``Σ
    logratio``. Raises ShapeError for log-ratios that are missing or not finite.
    """
    logit_B = _logits(table, beta, "preference")
    won_B, played_B = table.outcome_B >= success, lengths(table) > 0
    order = np.argsort(table.cohort_B, kind="stable")
    losses: list[Float64Array] = []
    gradient_B = np.zeros(len(logit_B))
    for members in np.split(order, np.flatnonzero(np.diff(table.cohort_B[order])) + 1):
        win, fail = members[(won_B & played_B)[members]], members[(~won_B & played_B)[members]]
        gap = logit_B[win][:, None] - logit_B[fail][None, :]
        losses.append(np.logaddexp(0.0, -gap).ravel())
        pull = -beta * _sigmoid(-gap)
        gradient_B[win] += pull.sum(axis=1)
        gradient_B[fail] -= pull.sum(axis=0)
    loss = np.concatenate(losses)
    return (float(loss.mean()), gradient_B / len(loss)) if len(loss) else (0.0, gradient_B)


def _logits(table: TurnTable, beta: float, method: str) -> Float64Array:
    non_negative(method, beta=beta)
    validate(table)
    return beta * per_trajectory(column(table, "logratio_N", method), table)


def _sigmoid(values: Float64Array) -> Float64Array:
    probability: Float64Array = 0.5 * (1.0 + np.tanh(0.5 * values))
    return probability
