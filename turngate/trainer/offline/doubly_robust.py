"""Doubly robust estimators: importance sampling of the rewards that a model of the values does not explain.

``model_q_BT`` is Q̂(h_t, a_t) of the action that was taken and ``model_v_BT`` is V̂(h_t) = E_{a~π} Q̂(h_t, a); both are
0 after the end of an episode, and from a model that was not fitted to the same episode. If the ratios are right the
first estimator is unbiased whatever the model says, and if the model is right too its weights multiply nothing but
noise of the environment. Rows, rewards and ratios are those of ``importance``.
"""

from __future__ import annotations

import numpy as np

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import Float64Array
from turngate.trainer.offline.importance import Sums, log_weights, mean, quotient, relative


def doubly_robust(
    log_ratio_BT: Float64Array, reward_BT: Float64Array, model_q_BT: Float64Array, model_v_BT: Float64Array
) -> Sums:
    """``mean_i X_{i,0}`` with ``X_t = V̂_t + ρ_t (r_t + X_{t+1} − Q̂_t)`` (Jiang and Li 2016, arXiv 1511.03722, eq.
    10).

    With Q̂ = V̂ = 0 it is ``importance.per_decision``. Raises ShapeError.
    """
    _check(log_ratio_BT, reward_BT, model_q_BT, model_v_BT)
    ratio_BT, found_B = np.exp(log_ratio_BT), np.zeros(len(reward_BT))
    for turn in reversed(range(reward_BT.shape[1])):
        rest_B = reward_BT[:, turn] + found_B - model_q_BT[:, turn]
        found_B = model_v_BT[:, turn] + ratio_BT[:, turn] * rest_B
    return mean(found_B)


def weighted_doubly_robust(
    log_ratio_BT: Float64Array, reward_BT: Float64Array, model_q_BT: Float64Array, model_v_BT: Float64Array
) -> Sums:
    """``Σ_t Σ_i [w_{i,t} (r_{i,t} − Q̂_{i,t}) + w_{i,t−1} V̂_{i,t}]`` with ``w_{i,t} = W_{i,t} / Σ_j W_{j,t}``.

    ``w_{i,−1} = 1/n``. Less variance than ``doubly_robust`` for a bias that vanishes as episodes grow many (Thomas and
    Brunskill 2016, arXiv 1604.00923, section 5). With Q̂ = V̂ = 0 it is ``importance.weighted_per_decision``. Raises
    ShapeError.
    """
    _check(log_ratio_BT, reward_BT, model_q_BT, model_v_BT)
    weight_BT, n_turns = relative(log_weights(log_ratio_BT)), reward_BT.shape[1]
    before_BT = np.concatenate([np.ones((len(weight_BT), 1)), weight_BT[:, :-1]], axis=1)
    columns = (weight_BT * (reward_BT - model_q_BT), weight_BT, before_BT * model_v_BT, before_BT)

    def of(sum_C: Float64Array) -> Float64Array:
        rest, weight, value, before = np.split(sum_C, [n_turns, 2 * n_turns, 3 * n_turns], axis=-1)
        found: Float64Array = (quotient(rest, weight) + quotient(value, before)).sum(axis=-1)
        return found

    return Sums(column_BC=np.concatenate(columns, axis=1), of=of)


def _check(log_ratio_BT: Float64Array, *others_BT: Float64Array) -> None:
    if any(other_BT.shape != log_ratio_BT.shape for other_BT in others_BT):
        raise ShapeError(
            f"log_ratio_BT has shape {log_ratio_BT.shape}, but rewards and model have "
            + ", ".join(str(other_BT.shape) for other_BT in others_BT)
        )
