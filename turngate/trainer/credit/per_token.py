"""Credit rules whose unit is the token, as a config can name them: a ``TurnTable`` in, a ``TokenCredit`` out.

A turn's payment is booked on its last policy token. The payment of a turn without policy tokens is booked on the turn
before it; before the first turn with tokens there was no decision to credit. The maths over flat arrays is in
``token_credit``.
"""

import numpy as np

import turngate.trainer.credit.token_credit as arrays
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.baselines import beyond_siblings, mean_rate, non_negative, z_beyond_siblings
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, check_scale, group, validate
from turngate.trainer.credit.pay_sources import column, turn_of_tokens
from turngate.trainer.credit.rl_zvp import signs, zero_variance_credit
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import carry, goes_on, scan_back
from turngate.trainer.credit.settings import (
    Ddof,
    EntropyAlpha,
    Eps,
    Gamma,
    ImplicitBeta,
    Kl,
    Lam,
    Std,
    Threshold,
    TokenGamma,
    Whitened,
)
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TokenCredit, TurnTable


def token_targets(table: TurnTable, *, gamma: float = 1.0, lam: float = 0.95) -> FloatArray:
    """The targets of ``token_gae``'s critic, before whitening, one per policy token: float32[S]."""
    return _gae(table, gamma, lam)[1]


@rule(reads=("value_S", "bootstrap_B"), value_targets=token_targets)
def token_gae(table: TurnTable, *, gamma: Gamma = 1.0, lam: Lam = 0.95, whitened: Whitened = False) -> TokenCredit:
    """PPO: advantages from a critic (GAE), from token to token.

    ``A_j = δ_j + γλ A_{j+1}``, ``δ_j = r_j + γ V_{j+1} − V_j``: PPO's advantage, one step per policy token.

    The next token is the next *policy* token of the trajectory: tool output and injected text are skipped. V is
    ``measured["value_S"]``, the critic's value of the state before each policy token; after the last it is
    ``measured["bootstrap_B"]`` if that is there, else 0. ``whitened`` moves and scales the result to mean 0 and
    variance 1 over all policy tokens of the batch.

    Source: https://arxiv.org/abs/1506.02438; γ = 1 and λ = 0.95 as in PPO for language models. γ < 1 discounts long
    turns more. Siblings are not compared. Turns of one token make it ``turn_gae``; with V = 0 and λ = 1 it is the
    reward to go. Raises ShapeError (see ``validate``; a column that is missing or not finite), ConfigError for γ or λ
    outside [0, 1].
    """
    advantage_S, _ = _gae(table, gamma, lam)
    if whitened:
        advantage_S = arrays.whiten(advantage_S.astype(np.float64), np.ones(len(advantage_S))).astype(np.float32)
    return _credit(table, advantage_S, "token_gae")


@rule(reads=("logratio_S",))
def reinforce_plus_plus_tokens(
    table: TurnTable, *, gamma: TokenGamma = 1.0, kl: Kl = 0.0, eps: Eps = 1e-8
) -> TokenCredit:
    """REINFORCE++ by token: the payments from each token on, scaled to mean 0 and variance 1.

    ``A_j = (G_j − mean) / sqrt(var + eps)`` over all policy tokens of the batch, ``G_j = r_j + γ G_{j+1}``.

    ``kl`` subtracts ``kl · measured["logratio_S"]`` (log π/π_ref of the token) from each token's reward. Source:
    https://arxiv.org/abs/2501.03262, which uses kl 0.001–0.01; 0 here because a reference model is not always at hand.
    ``reinforce_plus_plus`` is the same with one discount per turn.

    Equal returns give exactly 0. Raises ShapeError (see ``validate``; a column that is missing or not finite),
    ConfigError for γ outside [0, 1] or a negative kl or eps.
    """
    non_negative("reinforce_plus_plus_tokens", kl=kl, eps=eps)
    validate(table)
    turn_S = turn_of_tokens(table, "reinforce_plus_plus_tokens")
    reward_S = _rewards(table, turn_S)
    if kl:
        reward_S -= kl * column(table, "logratio_S", "reinforce_plus_plus_tokens")
    advantage_S = arrays.reinforce_plus_plus_tokens(
        reward_S.astype(np.float32), table.traj_N[turn_S], gamma=gamma, eps=eps
    )
    return _credit(table, advantage_S, "reinforce_plus_plus_tokens")


@rule(reads=("logratio_S",))
def prime_tokens(table: TurnTable, *, beta: ImplicitBeta = 0.05) -> TokenCredit:
    """PRIME by token: RLOO plus implicit process rewards, log-ratios of a model that learns from outcomes.

    ``A_j = RLOO(R) + Σ_{k≥j} (r_k − b)``, ``r_k = β · logratio_k``, sums over the trajectory's policy tokens.

    R is everything paid, ``logratio_S`` is ``log π_φ − log π_ref`` of each token, and b the mean over the siblings of
    their mean reward per token. ``prime`` gives all tokens of a turn the number of its first one.

    Source: PRIME, https://arxiv.org/abs/2502.01456 and its code, β = 0.05. Its optional division by the largest
    process return is left out. Degenerate: log-ratios of 0 make it ``rloo``; a cohort of one gives exactly 0; a
    trajectory whose siblings have no policy tokens has process part 0. Raises ShapeError (see ``validate``; a column
    that is missing or not finite), ConfigError for β < 0.
    """
    non_negative("prime_tokens", beta=beta)
    validate(table)
    turn_S = turn_of_tokens(table, "prime_tokens")
    owner_S = table.traj_N[turn_S]
    reward_S = beta * column(table, "logratio_S", "prime_tokens")
    count_B = np.bincount(owner_S, minlength=table.n_trajectories).astype(np.float64)
    sum_B = np.bincount(owner_S, weights=reward_S, minlength=table.n_trajectories).astype(np.float64)
    base_S = mean_rate(sum_B, count_B, table)[turn_S]
    known_S, carry_S = np.nan_to_num(base_S), carry(owner_S, 1.0)
    if siblings(table).weight_M is None:  # one b for the whole trajectory
        to_go_S = scan_back(reward_S - known_S, carry_S)
    else:
        to_go_S = scan_back(reward_S, carry_S) - known_S * scan_back(np.ones(len(turn_S)), carry_S)
    process_S = np.where(np.isnan(base_S), 0.0, to_go_S)
    return _credit(table, beyond_siblings(table.total_B, table)[turn_S] + process_S, "prime_tokens")


@rule(reads=("entropy_S", "surprisal_S"))
def rl_zvp_tokens(
    table: TurnTable, *, alpha: EntropyAlpha = 0.1, threshold: Threshold = None, eps: Eps = 1e-6, ddof: Ddof = 1
) -> TokenCredit:
    """RL-ZVP by token: GRPO, and credit by each token's uncertainty where all siblings were paid the same.

    ``grpo`` where siblings were paid differently. Where all were paid the same, credit depends on each token's entropy:

    * all succeeded: ``A_j = +α H_j``;
    * all failed: ``A_j = −α (max_k H_k − H_j)``, max over the policy tokens of the trajectory.

    H is ``measured["entropy_S"]`` (nats) if it was measured, else ``measured["surprisal_S"]``, −log of the sampled
    token's probability, its estimate from one sample. A success is an outcome and a total of at least ``threshold``.

    Source: https://arxiv.org/abs/2509.21880, which works per token and uses α 0.1 to 0.2 by model size; 0.1 here is not
    fixed by the paper. ``rl_zvp`` is the same per turn. Degenerate: a cohort of one gives exactly 0; a token without
    entropy (NaN) gets no credit of this kind. Raises ShapeError (see ``validate``), also without either column,
    ConfigError for α < 0, eps < 0 or another ddof than 0 or 1.
    """
    non_negative("rl_zvp_tokens", alpha=alpha, eps=eps)
    if ddof not in (0, 1):
        raise ConfigError(f"rl_zvp_tokens: ddof is {ddof}; it must be 0 or 1")
    validate(table)
    turn_S = turn_of_tokens(table, "rl_zvp_tokens")
    owner_S = table.traj_N[turn_S]
    name = "entropy_S" if "entropy_S" in table.measured else "surprisal_S"
    entropy_S = column(table, name, "rl_zvp_tokens", missing=True)
    groups = group(table.total_B, table.cohort_B)
    sign_B = signs(table, groups, threshold)[table.cohort_B]
    start_S = np.flatnonzero(np.diff(owner_S, prepend=-1)).astype(np.int64)
    shaped_S = zero_variance_credit(entropy_S, start_S, sign_B[owner_S[start_S]], alpha=alpha)
    z_N = z_beyond_siblings(table.total_B, table, eps=eps, ddof=ddof)
    return _credit(table, z_N[turn_S] + shaped_S, "rl_zvp_tokens")


@rule(reads=("sharing_S",))
def lambda_grpo_tokens(table: TurnTable, *, eps: Eps = 1e-4, ddof: Ddof = 1, std: Std = True) -> TokenCredit:
    """λ-GRPO by token: GRPO in which a token that several siblings share counts once, not once for each.

    ``A_{i,j} = z_i / |λ_{i,j}|``, λ = the siblings that agree with token j and with everything before it.

    z is ``grpo``'s advantage of the trajectory (``std=False``: only centred), |λ| is ``measured["sharing_S"]``: so
    shared tokens count once. ``lambda_grpo`` is the same per turn.

    Source: https://arxiv.org/abs/2509.21154, eps 1e-4. Where nothing is shared it is ``grpo`` with this eps; k equal
    siblings weigh 1/k each. Degenerate: a cohort of one or of equal totals gives exactly 0. Raises ShapeError (see
    ``validate``; a column that is missing, not finite or below 1), ConfigError for eps < 0 or another ddof than 0 or 1.
    """
    check_scale("lambda_grpo_tokens", eps=eps, ddof=ddof)
    validate(table)
    turn_S = turn_of_tokens(table, "lambda_grpo_tokens")
    sharing_S = column(table, "sharing_S", "lambda_grpo_tokens")
    if sharing_S.min() < 1:
        raise ShapeError(f"sharing_S holds {sharing_S.min():g}; a token is shared by its own trajectory at least")
    groups = group(table.total_B, table.cohort_B)
    advantage_B = groups.z_M(eps=eps, ddof=ddof) if std else groups.centred_M
    return _credit(table, advantage_B[table.traj_N[turn_S]] / sharing_S, "lambda_grpo_tokens")


def _gae(table: TurnTable, gamma: float, lam: float) -> tuple[FloatArray, FloatArray]:
    validate(table)
    turn_S = turn_of_tokens(table, "token_gae")
    bootstrap_B = column(table, "bootstrap_B", "token_gae") if "bootstrap_B" in table.measured else None
    return arrays.token_gae(
        _rewards(table, turn_S).astype(np.float32),
        column(table, "value_S", "token_gae").astype(np.float32),
        table.traj_N[turn_S],
        gamma=gamma,
        lam=lam,
        bootstrap_B=None if bootstrap_B is None else bootstrap_B.astype(np.float32),
    )


def _rewards(table: TurnTable, turn_S: Int64Array) -> Float64Array:
    """Each turn's payment on its last policy token: float64[S]."""
    last_U = np.flatnonzero(~goes_on(turn_S))
    reward_S = np.zeros(len(turn_S))
    reward_S[last_U] = arrays.rewards_of_trained(table.reward_N, table.traj_N, turn_S[last_U].astype(np.int32))
    return reward_S


def _credit(table: TurnTable, advantage_S: FloatArray | Float64Array, method: str) -> TokenCredit:
    turn_S = turn_of_tokens(table, method).astype(np.int32)
    return TokenCredit(advantage_S=advantage_S.astype(np.float32, copy=False), turn_S=turn_S)
