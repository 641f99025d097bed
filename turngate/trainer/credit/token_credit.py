"""Credit per token, as pure functions of flat arrays.

``_S`` marks the trained tokens of a batch: trajectories end to end, each in order, without tool output, prompts or
injected text. Because these are left out, values and advantages carry over from the last token before them to the
next one after. ``per_token`` and ``bilevel_gae`` make credit rules of these functions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.cohorts import Float64Array, group
from turngate.trainer.credit.scans import carry, gae, goes_on, scan_back
from turngate.types import FloatArray, IntArray


def token_gae(
    reward_S: FloatArray,
    value_S: FloatArray,
    segment_S: IntArray,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap_B: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Advantage and return of each trained token, ``A_j = δ_j + γλ A_{j+1}`` and ``A + V``: two float32[S].

    ``δ_j = r_j + γ V_next − V_j``, next = the next *trained* token of the same segment (trajectory); after the last it
    is ``bootstrap_B`` (truncated episodes) or 0. The return is taken before any whitening.

    Source: https://arxiv.org/abs/1506.02438; defaults as in PPO for language models (λ = 1 or 0.95). γ < 1 discounts
    long turns more. With λ=1 and V=0 it is the reward-to-go of the tokens. Segments of one token give ``r − V``. Raises
    ShapeError for arrays that do not fit or are not finite, ConfigError for γ or λ outside [0, 1].
    """
    check_discounts(gamma=gamma, lam=lam)
    check_flat(reward_S=reward_S, value_S=value_S, segment_S=segment_S)
    _check_order("segment_S", segment_S)
    value = value_S.astype(np.float64)
    bootstrap_S = _bootstrap(bootstrap_B, segment_S)
    advantage_S = gae(reward_S.astype(np.float64), value, segment_S, gamma=gamma, lam=lam, bootstrap_M=bootstrap_S)
    return advantage_S.astype(np.float32), (advantage_S + value).astype(np.float32)


def bilevel_token_gae(
    reward_N: FloatArray,
    traj_N: IntArray,
    value_S: FloatArray,
    turn_S: IntArray,
    *,
    gamma_turn: float = 0.95,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap_B: FloatArray | None = None,
) -> FloatArray:
    """GAE over turns, then inside each turn over its tokens: float32[S].

    * turns: ``A^h_t = δ_t + γ_h λ A^h_{t+1}``, ``δ_t = r_t + γ_h V_{t+1} − V_t`` with V the value at the *last* trained
      token of a turn;
    * tokens: the last one of a turn gets ``A^h_t``, the others ``A_j = γ V_{j+1} − V_j + γλ A_{j+1}``.

    ``turn_S`` (int, the row in ``reward_N`` that a token belongs to) says where turns end; looking for rewards that
    are not 0 would lose every turn that was paid nothing. The reward of a turn without trained tokens is added to the
    one before it; before the first such turn there was no decision to credit.

    Source: VAGEN, https://arxiv.org/abs/2510.16907, whose scripts use γ_h = 0.95 and λ 0.95–1. Turns of one token make
    it ``turn_gae`` with γ_h. Raises ShapeError for arrays that do not fit or are not finite, ConfigError for γ_h, γ or
    λ outside [0, 1].
    """
    check_discounts(gamma_turn=gamma_turn, gamma=gamma, lam=lam)
    check_flat(reward_N=reward_N, traj_N=traj_N)
    check_flat(value_S=value_S, turn_S=turn_S)
    _check_order("traj_N", traj_N)
    _check_order("turn_S", turn_S)
    if turn_S[-1] >= len(reward_N):
        raise ShapeError(f"turn_S holds {turn_S[-1]}, but reward_N has shape {reward_N.shape}")
    value = value_S.astype(np.float64)
    end_U = np.flatnonzero(~goes_on(turn_S))
    row_U = turn_S[end_U]
    high_U = gae(
        rewards_of_trained(reward_N, traj_N, row_U),
        value[end_U],
        traj_N[row_U],
        gamma=gamma_turn,
        lam=lam,
        bootstrap_M=_bootstrap(bootstrap_B, traj_N)[row_U],
    )
    delta_S = np.where(goes_on(turn_S), gamma * np.append(value[1:], 0.0) - value, 0.0)
    delta_S[end_U] = high_U
    return scan_back(delta_S, carry(turn_S, gamma * lam)).astype(np.float32)


def reinforce_plus_plus_tokens(
    reward_S: FloatArray, segment_S: IntArray, *, gamma: float = 1.0, eps: float = 1e-8
) -> FloatArray:
    """``G_j = r_j + γ G_{j+1}`` inside each segment, whitened over all tokens of the batch: float32[S].

    Source: https://arxiv.org/abs/2501.03262; subtract a KL penalty from ``reward_S`` beforehand.
    ``reinforce_plus_plus`` is the same per turn. Equal returns give exactly 0. Raises ShapeError for arrays that do not
    fit or are not finite, ConfigError for γ outside [0, 1].
    """
    check_discounts(gamma=gamma)
    check_flat(reward_S=reward_S, segment_S=segment_S)
    _check_order("segment_S", segment_S)
    to_go_S = scan_back(reward_S.astype(np.float64), carry(segment_S, gamma))
    return whiten(to_go_S, np.ones(len(to_go_S)), eps=eps).astype(np.float32)


def prefix_counts(ids_L: IntArray, segment_L: IntArray, cohort_B: IntArray) -> IntArray:
    """|λ| of each token: the trajectories of its cohort that agree up to and with this token, at least 1: int32[L].

    ``ids_L`` must hold *all* tokens, also tool output, because a prefix is shared only if the context is;
    ``segment_L`` is the trajectory of each, one without tokens is left out. Where nothing is shared it is 1.
    Source: https://arxiv.org/abs/2509.21154. Raises ShapeError for arrays that do not fit.
    """
    check_flat(ids_L=ids_L, segment_L=segment_L)
    _check_order("segment_L", segment_L)
    start_M = np.flatnonzero(np.diff(segment_L, prepend=-1))
    if segment_L[-1] >= len(cohort_B):
        raise ShapeError(f"segment_L holds {segment_L[-1]}, but cohort_B has {len(cohort_B)} entries")
    length_M = np.diff(start_M, append=len(ids_L))
    count_L = np.ones(len(ids_L), np.int32)
    prefix_M, active = cohort_B[segment_L[start_M]].astype(np.int64), np.arange(len(start_M))
    depth = 0
    while len(active):
        at = start_M[active] + depth
        longer = (prefix_M[active] << 32) | ids_L[at].astype(np.int64)
        _, prefix_M[active], count = np.unique(longer, return_inverse=True, return_counts=True)
        shared = count[prefix_M[active]]
        count_L[at] = shared
        depth += 1
        active = active[(shared > 1) & (length_M[active] > depth)]
    return count_L


def whiten(value_M: Float64Array, weight_M: Float64Array, *, eps: float = 1e-8) -> Float64Array:
    """``(x − mean) / sqrt(var + eps)`` where entry m stands for ``weight_m`` tokens: float64[M].

    The variance has Bessel's factor n/(n−1), n = Σ weights. Entries without weight are moved like the others but do
    not count. Values that differ by rounding only, or fewer than two tokens, give exactly 0.
    """
    batch = group(value_M, np.zeros(len(value_M), np.int64), weight_M=weight_M)
    white_M: Float64Array = batch.centred_M / np.sqrt(batch.std_G() ** 2 + np.where(batch.degenerate_G, 1.0, eps))
    return white_M


def check_discounts(**factors: float) -> None:
    """Raise ConfigError, naming the factor, unless all lie in [0, 1]."""
    for name, factor in factors.items():
        if not 0.0 <= factor <= 1.0:
            raise ConfigError(f"{name} is {factor}; it must lie in [0, 1]")


def check_flat(**arrays: npt.NDArray[Any]) -> None:
    """Raise ShapeError, naming the array, unless all are flat, equally long, not empty and finite."""
    named: Mapping[str, npt.NDArray[Any]] = arrays
    first, *_ = named.values()
    for name, array in named.items():
        if array.ndim != 1 or array.shape != first.shape:
            raise ShapeError(f"{name} has shape {array.shape}, expected ({first.shape[0] if first.ndim else 0},)")
        if not len(array):
            raise ShapeError(f"{name} is empty; there is nothing to credit")
        if not np.isfinite(array).all():
            bad = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ShapeError(f"{name} is {array[bad]} at {bad}; it must be finite")


def _check_order(name: str, number_S: IntArray) -> None:
    if number_S[0] < 0 or (np.diff(number_S) < 0).any():
        raise ShapeError(f"{name} must start at 0 or above and never decrease")


def _bootstrap(bootstrap_B: FloatArray | None, segment_S: IntArray) -> Float64Array:
    if bootstrap_B is None:
        return np.zeros(len(segment_S))
    check_flat(bootstrap_B=bootstrap_B)
    if len(bootstrap_B) <= segment_S[-1]:
        raise ShapeError(f"bootstrap_B has shape {bootstrap_B.shape}, expected ({segment_S[-1] + 1},)")
    values_S: Float64Array = bootstrap_B.astype(np.float64)[segment_S]
    return values_S


def rewards_of_trained(reward_N: FloatArray, traj_N: IntArray, row_U: IntArray) -> Float64Array:
    """Each reward at its own turn if that has trained tokens, else at the one before it in the same trajectory."""
    taker_N = np.searchsorted(row_U, np.arange(len(reward_N)), side="right") - 1
    valid_N = (taker_N >= 0) & (traj_N[row_U[np.maximum(taker_N, 0)]] == traj_N)
    taken_U = np.bincount(taker_N[valid_N], weights=reward_N[valid_N], minlength=len(row_U))
    return taken_U.astype(np.float64, copy=False)
