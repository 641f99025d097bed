"""Fitted Q evaluation (FQE) at turn level: the value of a policy from recorded turns, one regression after another.

    Q_{k+1} = argmin_Q Σ_n (Q(s_n, a_n) − r_n − V_k(s'_n))²        V_k(s) = E_{a~π} Q_k(s, a)

until it no longer changes, where V is 0 after the end of an episode. It needs the policy's probabilities and not the
behaviour's. Turns are rows ``_N``, end to end; s' of a turn is the state of the next one.
Source: Le, Voloshin and Yue 2019, "Batch policy learning under constraints", arXiv 1903.08738, algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turngate.errors import EstimateRefused, ShapeError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array

END = -1
"""In ``next_N``: the episode is over after this turn."""
_SLACK = 1e-9
_ROUNDS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularQ:
    """A table of values: ``q_P`` by pair of state and action, ``v_S`` by state, and the ``pair_N`` of each turn.

    ``seen_S``: share of the policy's probability in a state that is on recorded actions. An action that was not seen
    there counts as V of its state, so that V is the mean of Q under the policy.
    """

    q_P: Float64Array
    v_S: Float64Array
    seen_S: Float64Array
    state_P: Int64Array
    action_P: Int64Array

    def of_turns(self, state_N: Int64Array, action_N: Int64Array) -> tuple[Float64Array, Float64Array]:
        """Q and V of turns, also of such that the table was not fitted to: V where the action, 0 where the state is
        not in it. Two float64[N]."""
        known = np.flatnonzero(state_N < len(self.v_S))
        v_N = np.zeros(len(state_N))
        v_N[known] = self.v_S[state_N[known]]
        q_N = v_N.copy()
        key_P, key_N = _keys(self.state_P, self.action_P), _keys(state_N, action_N)
        place_N = np.searchsorted(key_P, key_N).clip(max=max(len(key_P) - 1, 0))
        found_N = key_P[place_N] == key_N if len(key_P) else np.zeros(len(key_N), bool)
        q_N[found_N] = self.q_P[place_N[found_N]]
        return q_N, v_N


def fitted_table(
    state_N: Int64Array,
    action_N: Int64Array,
    reward_N: Float64Array,
    next_N: Int64Array,
    policy_logprob_N: Float64Array,
    count_N: Float64Array | None = None,
) -> TabularQ:
    """FQE over a table: Q(s, a) is the mean of ``r + V(s')`` over the turns with s and a, V as in ``TabularQ``.

    ``state_N`` and ``action_N`` are numbers of states and actions (of all states, from 0); ``next_N`` is the state
    after the turn or ``END``. ``policy_logprob_N``: log π(a|s) of the action that was taken; where it differs between
    turns with one state and action, because it depends on more than the state, their mean probability counts.
    ``count_N``: how often each turn counts; None = once. A state whose recorded actions the policy never takes has V 0
    and seen 0. Raises ShapeError, and EstimateRefused if the values do not settle, as in a circle that never ends.
    """
    count_N = np.ones(len(state_N)) if count_N is None else count_N
    kept = count_N > 0
    turns = _Turns.of(state_N[kept], action_N[kept], reward_N[kept], next_N[kept], policy_logprob_N[kept])
    (q_P,), (v_S,), (seen_S,) = turns.fitted(count_N[None, kept])
    return TabularQ(q_P=q_P, v_S=v_S, seen_S=seen_S, state_P=turns.state_P, action_P=turns.action_P)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """Turns in order of state and action, so that pairs and states are runs of them, and sums over runs are fast."""

    order_N: Int64Array
    first_P: Int64Array
    first_S: Int64Array
    state_P: Int64Array
    action_P: Int64Array
    reward_N: Float64Array
    next_N: Int64Array
    chance_N: Float64Array
    shift_S: Float64Array
    n_states: int

    @classmethod
    def of(
        cls,
        state_N: Int64Array,
        action_N: Int64Array,
        reward_N: Float64Array,
        next_N: Int64Array,
        policy_logprob_N: Float64Array,
    ) -> _Turns:
        if len({column.shape for column in (state_N, action_N, reward_N, next_N, policy_logprob_N)}) > 1:
            raise ShapeError("states, actions, rewards, next states and log-probabilities need one entry per turn each")
        if not len(state_N):
            raise ShapeError("there are no turns to fit values to")
        n_states = int(max(state_N.max(), next_N.max())) + 1
        key_N = _keys(state_N, action_N)
        order_N = np.argsort(key_N, kind="stable")
        _, first_P = np.unique(key_N[order_N], return_index=True)
        state_P, action_P = state_N[order_N][first_P], action_N[order_N][first_P]
        _, first_S = np.unique(state_P, return_index=True)
        # Probabilities of long turns underflow; V needs them relative to the largest of their state only.
        largest_S = np.full(n_states, -np.inf)
        np.maximum.at(largest_S, state_N, policy_logprob_N)
        shift_S = np.where(np.isfinite(largest_S), largest_S, 0.0)
        return cls(
            order_N=order_N,
            first_P=first_P,
            first_S=first_S,
            state_P=state_P,
            action_P=action_P,
            reward_N=reward_N[order_N],
            next_N=next_N[order_N],
            chance_N=np.exp(policy_logprob_N - shift_S[state_N])[order_N],
            shift_S=shift_S,
            n_states=n_states,
        )

    def fitted(self, count_RN: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Q by pair, and V and the share seen by state, for each row of counts."""
        count_RN = count_RN[:, self.order_N]
        n_RP = self._over_pairs(count_RN)
        once_RP = np.where(n_RP > 0, n_RP, 1.0)
        weight_RP = self._over_pairs(count_RN * self.chance_N) / once_RP
        total_RS = self._over_states(weight_RP)
        share_RP = weight_RP / np.where(total_RS > 0, total_RS, 1.0)[:, self.state_P]
        paid_RP = self._over_pairs(count_RN * self.reward_N)
        v_RS = np.zeros((len(count_RN), self.n_states))
        for _ in range(max(self.n_states + 2, _ROUNDS)):  # without circles the longest way through all is enough
            later_RN = np.where(self.next_N == END, 0.0, v_RS[:, self.next_N])
            q_RP = (paid_RP + self._over_pairs(count_RN * later_RN)) / once_RP
            before_RS, v_RS = v_RS, self._over_states(share_RP * q_RP)
            if np.abs(v_RS - before_RS).max() <= _SLACK * max(1.0, float(np.abs(v_RS).max())):
                return q_RP, v_RS, np.minimum(total_RS * np.exp(self.shift_S), 1.0)
        raise EstimateRefused(
            "the values of the states do not settle: some lead back to themselves too often for a table of values"
        )

    def _over_pairs(self, value_RN: Float64Array) -> Float64Array:
        found_RP: Float64Array = np.add.reduceat(value_RN, self.first_P, axis=1)
        return found_RP

    def _over_states(self, value_RP: Float64Array) -> Float64Array:
        found_RS = np.zeros((len(value_RP), self.n_states))
        found_RS[:, self.state_P[self.first_S]] = np.add.reduceat(value_RP, self.first_S, axis=1)
        return found_RS


def fitted_linear(
    feature_ND: Float64Array,
    reward_N: Float64Array,
    next_feature_ND: Float64Array,
    *,
    ridge: float = 1e-6,
    most_rounds: int = 1000,
) -> Float64Array:
    """FQE with ``Q(s, a) = w·φ(s, a)``: the weights w, float64[D].

    ``feature_ND`` is φ(s_n, a_n), ``next_feature_ND`` is E_{a'~π} φ(s'_n, a'), 0 where the episode is over. ``ridge``
    times ``|w|²`` is added to the mean square. The value of a start is w times the mean features of the policy's first
    actions there. Raises ShapeError, and EstimateRefused if the regressions do not settle, which they need not with
    features (the update is a contraction only where these fit the policy's own states).
    """
    if feature_ND.shape != next_feature_ND.shape or reward_N.shape != feature_ND.shape[:1] or feature_ND.ndim != 2:
        raise ShapeError(
            f"feature_ND {feature_ND.shape} and next_feature_ND {next_feature_ND.shape} must be equal, with one row "
            f"per reward; there are {reward_N.shape}"
        )
    n_turns, n_features = feature_ND.shape
    gram_DD = feature_ND.T @ feature_ND / n_turns + ridge * np.eye(n_features)
    fixed_D = np.linalg.solve(gram_DD, feature_ND.T @ reward_N / n_turns)
    step_DD = np.linalg.solve(gram_DD, feature_ND.T @ next_feature_ND / n_turns)
    weight_D: Float64Array = fixed_D
    for _ in range(most_rounds):
        before_D, weight_D = weight_D, fixed_D + step_DD @ weight_D
        change = float(np.abs(weight_D - before_D).max(initial=0.0))
        if not np.isfinite(change) or change > 1e12:
            break
        if change <= _SLACK * max(1.0, float(np.abs(weight_D).max(initial=0.0))):
            return weight_D
    raise EstimateRefused("the regressions do not settle with these features; use others, or a table of the states")


def _keys(state_N: Int64Array, action_N: Int64Array) -> npt.NDArray[np.int64]:
    """One number per pair of state and action."""
    return state_N.astype(np.int64) * (1 << 32) + action_N.astype(np.int64)
