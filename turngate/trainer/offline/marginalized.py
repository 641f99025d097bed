"""Marginalized importance sampling: the value of a policy from turns that share states, one ratio per turn.

    V(s) = mean over the turns n in s of ρ_n (r_n + V(s'_n))

where ρ is the ratio of that turn alone and V is 0 after the end. Where no two episodes meet in a state this is
``importance.per_decision``; the more they meet, the less its variance grows with the turns, because a state's turns
count for all ways that lead there. States have to tell all that the future depends on. Unlike a table of π over
recorded actions (``fitted_q``) it needs no action to be recorded twice, so it suits text.
Source: Xie, Ma and Wang 2019, "Towards optimal off-policy evaluation … with marginalized importance sampling", arXiv
1906.03393; here per recorded turn instead of per estimated transition, which is the same sum.
"""

from __future__ import annotations

import numpy as np

from turngate.errors import EstimateRefused
from turngate.trainer.credit.cohorts import Float64Array, Int64Array
from turngate.trainer.offline.fitted_q import END

_SLACK = 1e-9
_ROUNDS = 2000
_CIRCLES = "the values of the states do not settle: some lead back to themselves too often"


def values_by_state(
    state_N: Int64Array, reward_N: Float64Array, next_N: Int64Array, log_ratio_N: Float64Array, count_RN: Float64Array
) -> Float64Array:
    """V by state, 0 for one without turns, for each row of counts: float64[R, S].

    ``next_N`` is the state after a turn or ``END``; ``count_RN`` says how often each turn counts. Raises
    EstimateRefused if the values do not settle, as in a circle that never ends.
    """
    order_N = np.argsort(state_N, kind="stable")
    state_of_run, first = np.unique(state_N[order_N], return_index=True)
    count_RN = count_RN[:, order_N]
    n_R = np.add.reduceat(count_RN, first, axis=1)
    weight_RN = count_RN * np.exp(log_ratio_N[order_N])
    reward_N, next_N = reward_N[order_N], next_N[order_N]
    v_RS = np.zeros((len(count_RN), int(max(state_N.max(), next_N.max())) + 1))
    for _ in range(max(v_RS.shape[1] + 2, _ROUNDS)):  # without circles the longest way through all states is enough
        before_RS, v_RS = v_RS, np.zeros_like(v_RS)
        target_RN = reward_N + np.where(next_N == END, 0.0, before_RS[:, next_N])
        v_RS[:, state_of_run] = np.add.reduceat(weight_RN * target_RN, first, axis=1) / np.where(n_R > 0, n_R, 1.0)
        if np.abs(v_RS - before_RS).max() <= _SLACK * max(1.0, float(np.abs(v_RS).max())):
            return v_RS
    raise EstimateRefused(_CIRCLES)


def weights_of_turns(
    state_N: Int64Array, next_N: Int64Array, log_ratio_N: Float64Array, start_B: Int64Array
) -> Float64Array:
    """How much the reward of each turn counts in the mean V of the starts: ``Σ_n w_n r_n`` is that mean; float64[N].

    ``start_B`` is the first state of each episode. Raises EstimateRefused as ``values_by_state`` does.
    """
    n_states = int(max(state_N.max(), next_N.max())) + 1
    start_S = np.bincount(start_B, minlength=n_states) / len(start_B)
    share_N = np.exp(log_ratio_N) / np.bincount(state_N, minlength=n_states)[state_N]
    goes_on, reached_S = next_N != END, start_S
    for _ in range(max(n_states + 2, _ROUNDS)):
        weight_N: Float64Array = reached_S[state_N] * share_N
        came_S = np.bincount(next_N[goes_on], weights=weight_N[goes_on], minlength=n_states)
        before_S, reached_S = reached_S, start_S + came_S
        if np.abs(reached_S - before_S).max() <= _SLACK * max(1.0, float(reached_S.max())):
            return weight_N
    raise EstimateRefused(_CIRCLES)
