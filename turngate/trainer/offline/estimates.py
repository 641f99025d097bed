"""All estimators on one set of recorded episodes: their intervals, and refusals where the episodes do not suffice.

Two intervals of 95 % belong to each: a percentile bootstrap that draws tasks, because episodes of one task are alike,
and the estimator's own normal one, ``value ± 1.96 s``, with s from leaving out one task at a time (the jackknife, which
for a plain mean over tasks is the textbook's interval).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from turngate.errors import EstimateRefused, ShapeError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array
from turngate.trainer.offline.doubly_robust import doubly_robust, weighted_doubly_robust
from turngate.trainer.offline.fitted_q import END, TabularQ, fitted_table
from turngate.trainer.offline.importance import (
    Sums,
    effective_size,
    largest_share,
    log_weights,
    ordinary,
    per_decision,
    weighted,
    weighted_per_decision,
)
from turngate.trainer.offline.marginalized import values_by_state, weights_of_turns

Z = 1.96
LEAST_SHARE = 0.05
"""Smallest effective number of episodes, as a share of all, from which importance weights are trusted."""
LEAST_SIZE = 10.0
"""Smallest effective number of episodes itself: below it no interval means anything."""
LARGE_SHARE = 0.2
"""From this share on, the largest weight is worth a warning."""
MOST_SIGMAS = 4.0
"""How many standard errors the mean weight, which is 1 in expectation, may be from 1."""
FOLDS = 5
"""The model of a doubly robust estimate is fitted to the other folds of episodes."""
_REFITS = 200
_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurns:
    """Recorded turns end to end, with their probabilities under the policy to be evaluated.

    Of each turn: ``episode_N`` its episode, from 0 and ascending; ``reward_N``; ``log_ratio_N`` log π − log μ of its
    action and ``policy_logprob_N`` log π alone; numbers of its state (``state_N``), of everything seen before it
    (``history_N``) and of its action (``action_N``). ``task_B``: the number of each episode's task; every episode has a
    turn. Raises ShapeError.
    """

    episode_N: Int64Array
    reward_N: Float64Array
    log_ratio_N: Float64Array
    policy_logprob_N: Float64Array
    state_N: Int64Array
    history_N: Int64Array
    action_N: Int64Array
    task_B: Int64Array

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__ if name.endswith("_N")}
        if len({value.shape for value in columns.values()}) > 1:
            raise ShapeError(f"columns differ in shape: { {name: value.shape for name, value in columns.items()} }")
        if (
            not np.array_equal(np.unique(self.episode_N), np.arange(len(self.task_B)))
            or (np.diff(self.episode_N) < 0).any()
        ):
            raise ShapeError("episode_N must ascend from 0, with at least one turn of each of the episodes in task_B")

    @property
    def turn_N(self) -> Int64Array:
        """Number of each turn in its episode."""
        first_B = np.searchsorted(self.episode_N, np.arange(len(self.task_B)))
        found: Int64Array = np.arange(len(self.episode_N)) - first_B[self.episode_N]
        return found

    def next_of(self, key_N: Int64Array) -> Int64Array:
        """For each turn the key of the next one of its episode, or ``END``."""
        goes_on = np.append(self.episode_N[1:] == self.episode_N[:-1], False)
        return np.where(goes_on, np.append(key_N[1:], END), END)

    def rows(self, value_N: Float64Array) -> Float64Array:
        """One row per episode, filled up with 0: float64[B, T]."""
        turn_N = self.turn_N
        rows_BT = np.zeros((len(self.task_B), int(turn_N.max(initial=0)) + 1))
        rows_BT[self.episode_N, turn_N] = value_N
        return rows_BT


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its two intervals, or the reason why there is none (then all of these are None)."""

    name: str
    value: float | None = None
    bootstrap: tuple[float, float] | None = None
    normal: tuple[float, float] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOverlap:
    """How much the recorded episodes can tell about the policy.

    ``effective_size`` and ``largest_share`` are of the weights of whole episodes, ``effective_share_T`` of those up to
    each turn, as a share of all episodes; ``mean_weight`` is 1 in expectation, ``weight_error`` its standard error.
    ``coverage``: mean share of the policy's probability that is on actions recorded in the states of the turns.
    ``known_states``: share of turns whose state occurs in another episode.
    """

    episodes: int
    tasks: int
    effective_size: float
    largest_share: float
    mean_weight: float
    weight_error: float
    effective_share_T: tuple[float, ...]
    coverage: float
    known_states: float


def overlap_of(logged: LoggedTurns) -> PolicyOverlap:
    """The measures of ``PolicyOverlap``."""
    log_weight_BT = log_weights(logged.rows(logged.log_ratio_N))
    n_episodes = len(logged.task_B)
    ones_BT = np.zeros_like(log_weight_BT)
    ones_BT[:, -1] = 1.0
    weight = ordinary(logged.rows(logged.log_ratio_N), ones_BT)
    state_of_episode = np.unique(np.stack([logged.state_N, logged.episode_N]), axis=1)[0]
    visitors_S = np.bincount(state_of_episode)
    return PolicyOverlap(
        episodes=n_episodes,
        tasks=len(np.unique(logged.task_B)),
        effective_size=effective_size(log_weight_BT[:, -1]),
        largest_share=largest_share(log_weight_BT[:, -1]),
        mean_weight=weight.value,
        weight_error=jackknife_error(weight, logged.task_B),
        effective_share_T=tuple(effective_size(log_weight_B) / n_episodes for log_weight_B in log_weight_BT.T),
        coverage=float(_table(logged, logged.state_N).seen_S[logged.state_N].mean()),
        known_states=float((visitors_S[logged.state_N] > 1).mean()),
    )


def refusal(overlap: PolicyOverlap) -> str:
    """Why weights of whole episodes cannot be trusted, in words; "" if they can."""
    return wrong_weights(overlap, few=too_few(overlap.effective_size, overlap.episodes))


def wrong_weights(overlap: PolicyOverlap, *, few: str = "") -> str:
    """The problem of the weights themselves, for every use of them; "" if there is none. ``few``: the first sentence
    about weights that are finite."""
    if overlap.tasks < 2:
        return "the episodes are of one task, and an interval needs at least two"
    if not np.isfinite(overlap.mean_weight):
        return "the weights are not finite: the policy finds some episodes far too likely beside who played them"
    if few:
        return few
    if abs(overlap.mean_weight - 1) > MOST_SIGMAS * overlap.weight_error + 1e-3:
        return (
            f"the weights average {overlap.mean_weight:.3f} ± {overlap.weight_error:.3f}, not 1: the policy does what "
            "was never recorded, or the recorded log-probabilities are not those of who played"
        )
    return ""


def too_few(effective: float, n: int) -> str:
    """That the weights leave too few of ``n`` episodes, in words; "" if they do not."""
    least = max(LEAST_SIZE, LEAST_SHARE * n)
    if effective >= least:
        return ""
    return (
        f"the {n} episodes are worth {effective:.1f} of the policy's own, fewer than {least:.0f}; record more, or "
        "judge a policy that is closer to the one that played"
    )


def estimate_all(logged: LoggedTurns, *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Every estimate of the mean sum of rewards of an episode, in the order ordinary, weighted, per decision, weighted
    per decision, doubly robust, weighted doubly robust, marginalized. An estimate that is refused has its reason
    instead.

    The value is that of the recorded tasks, each as often as it was played. The doubly robust model is a table over
    whole histories, for which the policy's probabilities are exact, fitted to other episodes.
    """
    log_ratio_BT, reward_BT = logged.rows(logged.log_ratio_N), logged.rows(logged.reward_N)
    overlap = overlap_of(logged)
    draws = task_draws(logged.task_B, seed=seed, resamples=resamples)
    reason = refusal(overlap)

    def modelled(estimator: Callable[..., Sums]) -> Sums:
        q_N, v_N = crossed_model(logged)
        return estimator(log_ratio_BT, reward_BT, logged.rows(q_N), logged.rows(v_N))

    weighing: dict[str, Callable[[], Sums]] = {
        "ordinary": lambda: ordinary(log_ratio_BT, reward_BT),
        "weighted": lambda: weighted(log_ratio_BT, reward_BT),
        "per decision": lambda: per_decision(log_ratio_BT, reward_BT),
        "weighted per decision": lambda: weighted_per_decision(log_ratio_BT, reward_BT),
        "doubly robust": lambda: modelled(doubly_robust),
        "weighted doubly robust": lambda: modelled(weighted_doubly_robust),
    }
    found = [
        Estimate(name=name, reason=reason) if reason else _estimate(name, sums, logged.task_B, draws)
        for name, sums in weighing.items()
    ]
    return [*found, _marginalized(logged, overlap, draws)]


def _estimate(name: str, make: Callable[[], Sums], task_B: Int64Array, draws: npt.NDArray[np.int64]) -> Estimate:
    try:
        sums = make()
    except EstimateRefused as refused:
        return Estimate(name=name, reason=str(refused))
    value, error = sums.value, jackknife_error(sums, task_B)
    if not np.isfinite([value, error]).all():
        return Estimate(name=name, reason="its value is not finite")
    return Estimate(
        name=name,
        value=value,
        bootstrap=bootstrap(sums, task_B, draws),
        normal=(value - Z * error, value + Z * error),
    )


def _marginalized(logged: LoggedTurns, overlap: PolicyOverlap, draws: npt.NDArray[np.int64]) -> Estimate:
    """The mean value of the starts by state; its normal interval has the standard deviation of the bootstrap."""
    empty = Estimate(name="marginalized")
    if reason := wrong_weights(overlap):
        return replace(empty, reason=reason)
    place_B = np.unique(logged.task_B, return_inverse=True)[1]
    counts = np.concatenate([np.ones((1, overlap.tasks), np.int64), draws[:_REFITS]])[:, place_B]
    start_B = logged.state_N[logged.turn_N == 0]
    next_N = logged.next_of(logged.state_N)
    rows, values = max(1, _AT_ONCE // len(logged.episode_N)), list[float]()
    try:
        weight_N = weights_of_turns(logged.state_N, next_N, logged.log_ratio_N, start_B)
        if reason := too_few(_least_effective(logged, weight_N), overlap.episodes):
            return replace(empty, reason=reason)
        for at in range(0, len(counts), rows):
            count_RB = counts[at : at + rows].astype(np.float64)
            count_RN = count_RB[:, logged.episode_N]
            v_RS = values_by_state(logged.state_N, logged.reward_N, next_N, logged.log_ratio_N, count_RN)
            values += list((v_RS[:, start_B] * count_RB).sum(axis=1) / count_RB.sum(axis=1))
    except EstimateRefused as refused:
        return replace(empty, reason=str(refused))
    found, *again = values
    low, high = np.quantile(again, (0.025, 0.975))
    half = Z * float(np.std(again, ddof=1))
    return replace(empty, value=found, bootstrap=(float(low), float(high)), normal=(found - half, found + half))


def _least_effective(logged: LoggedTurns, weight_N: Float64Array) -> float:
    """The least effective number of episodes of any turn; an episode that is over keeps its last weight."""
    weight_BT, turn_N = logged.rows(weight_N), logged.turn_N
    length_B = np.bincount(logged.episode_N)
    last_B = weight_N[np.cumsum(length_B) - 1]
    over_BT = np.arange(int(turn_N.max()) + 1) >= length_B[:, None]
    with np.errstate(divide="ignore"):
        log_weight_BT = np.log(np.where(over_BT, last_B[:, None], weight_BT))
    return min(effective_size(log_weight_B) for log_weight_B in log_weight_BT.T)


# --- intervals -------------------------------------------------------------------------------------------------------


def task_draws(task_B: Int64Array, *, seed: int, resamples: int) -> npt.NDArray[np.int64]:
    """How often each task, in ascending order, is in each resample: int64[resamples, tasks]."""
    n_tasks = len(np.unique(task_B))
    found: npt.NDArray[np.int64] = np.random.default_rng(seed).multinomial(
        n_tasks, np.full(n_tasks, 1 / n_tasks), size=resamples
    )
    return found


def bootstrap(sums: Sums, task_B: Int64Array, draws: npt.NDArray[np.int64]) -> tuple[float, float]:
    """The percentile interval of 95 % over ``draws`` of tasks, from ``task_draws``."""
    sum_QC = _by_task(sums.column_BC, task_B)
    rows = max(1, _AT_ONCE // max(1, len(sum_QC)))
    found = np.concatenate([sums.of(draws[at : at + rows] @ sum_QC) for at in range(0, len(draws), rows)])
    low, high = np.nanquantile(found, (0.025, 0.975))
    return float(low), float(high)


def jackknife_error(sums: Sums, task_B: Int64Array) -> float:
    """The standard error ``√((m−1)/m · Σ_q (v_q − v̄)²)``, v_q the value without task q (Efron and Stein 1981)."""
    sum_QC = _by_task(sums.column_BC, task_B)
    n_tasks = len(sum_QC)
    with np.errstate(invalid="ignore"):
        value_Q = sums.of(sum_QC.sum(axis=0) - sum_QC)
        return float(np.sqrt((n_tasks - 1) / n_tasks * ((value_Q - value_Q.mean()) ** 2).sum()))


def _by_task(column_BC: Float64Array, task_B: Int64Array) -> Float64Array:
    names, place_B = np.unique(task_B, return_inverse=True)
    sum_QC = np.zeros((len(names), column_BC.shape[1]))
    np.add.at(sum_QC, place_B, column_BC)
    return sum_QC


# --- the model -------------------------------------------------------------------------------------------------------


def crossed_model(logged: LoggedTurns, folds: int = FOLDS) -> tuple[Float64Array, Float64Array]:
    """Q̂ and V̂ of each turn from a table over histories that was fitted to the other folds: two float64[N].

    Episodes of a task are dealt to the folds in turn, so that each table knows each task.
    """
    order = np.argsort(logged.task_B, kind="stable")
    first = np.searchsorted(logged.task_B[order], logged.task_B[order])
    fold_B = np.empty(len(order), np.int64)
    fold_B[order] = (np.arange(len(order)) - first) % folds
    fold_N = fold_B[logged.episode_N]
    q_N, v_N = np.zeros(len(fold_N)), np.zeros(len(fold_N))
    for fold in range(folds):
        own = fold_N == fold
        if own.any() and not own.all():
            table = _table(logged, logged.history_N, (~own).astype(np.float64))
            q_N[own], v_N[own] = table.of_turns(logged.history_N[own], logged.action_N[own])
    return q_N, v_N


def _table(logged: LoggedTurns, key_N: Int64Array, count_N: Float64Array | None = None) -> TabularQ:
    return fitted_table(
        key_N, logged.action_N, logged.reward_N, logged.next_of(key_N), logged.policy_logprob_N, count_N
    )


def number_names(names: Sequence[object]) -> Int64Array:
    """Equal names get equal numbers, from 0 in order of their first place."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)
