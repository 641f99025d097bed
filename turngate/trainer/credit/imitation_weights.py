"""How much each turn is imitated: credit of at least 0 for the objectives ``imitation`` and ``a_lol``.

R is everything that an episode was paid. V(x), the value of the task, is the mean of its episodes in the batch, or a
critic's value. Each rule also gives credit to an episode without siblings (``alone``), which filters then leave in.
"""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import one_of, unit_interval
from turngate.trainer.credit.cohorts import (
    Float64Array,
    first_turns,
    group,
    lengths,
    per_trajectory,
    to_turns,
    validate,
)
from turngate.trainer.credit.pay_sources import column
from turngate.trainer.credit.returns import reward_to_go
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, IntArray, TurnTable

Worth: TypeAlias = Annotated[
    Literal["siblings", "critic", "none"],
    Field(
        description="What an episode is compared with. siblings: the mean of its task's episodes in the step, itself "
        "included; critic: what a critic expects; none: nothing, so the payment itself is the weight."
    ),
]
Per: TypeAlias = Annotated[
    Literal["episode", "turn"],
    Field(
        description="What has a weight of its own. episode: all its turns have that of everything it was paid; turn: "
        "each has that of what is paid from it on."
    ),
]
AwrBeta: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        description="Advantage, in units of reward, that multiplies a weight by 2.72 (β in the paper); the lower, the "
        "more the best alone are imitated.",
    ),
]
MostWeight: TypeAlias = Annotated[float, Field(gt=0, description="Largest weight of an episode or turn.")]
Sampling: TypeAlias = Annotated[
    Literal["advantage", "uniform"],
    Field(
        description="How often what is kept is learned from. advantage: in proportion to its advantage, as the paper "
        "finds best; uniform: all alike."
    ),
]
Tau: TypeAlias = Annotated[
    float,
    Field(gt=0, description="Temperature, in units of reward; the lower, the more the best sibling alone counts."),
]
Easy: TypeAlias = Annotated[
    float, Field(ge=0, description="A turn whose tokens cost its player fewer nats than this on average is too easy.")
]
BestScored: TypeAlias = Annotated[
    int, Field(ge=1, description="How many of the siblings are imitated, those that the scorer scores highest.")
]
Rarest: TypeAlias = Annotated[
    float,
    Field(ge=0, lt=1, description="Share of the batch's turns, the least likely ones, that are not imitated."),
]


@rule(imitates=True)
def imitate(table: TurnTable) -> FloatArray:
    """Behaviour cloning: every turn is imitated alike: 1, float32[N].

    With the filter "successes" it is filtered behaviour cloning, RAFT (https://arxiv.org/abs/2304.06767). Raises
    ShapeError (see ``validate``).
    """
    validate(table)
    return np.ones(table.n_turns, np.float32)


@rule(reads=("value_N",), imitates=True)
def awr(
    table: TurnTable, *, beta: AwrBeta = 1.0, cap: MostWeight = 20.0, worth: Worth = "siblings", per: Per = "episode"
) -> FloatArray:
    """AWR: imitates turns that were better than expected more and others less, by the exponential of the advantage.

    ``min(exp(A/β), cap)`` with ``A = R − V(x)``, or per turn ``A_t = G_t − V``, G_t the payments from it on:
    float32[N].

    Source: advantage-weighted regression, https://arxiv.org/abs/1910.00177, whose cap is 20. A = 1, 0, −1 and β = 1:
    2.718282, 1, 0.367879. ``worth`` says what V is. In expectation, and without the cap, the best policy is ∝
    μ·exp(A/β), μ the policy that played. A lone episode has the weight 1, unless a critic knows better. Known weakness:
    a small β imitates the best alone. Raises ShapeError (see ``validate``), ConfigError for β or a cap that is not
    positive.
    """
    if not beta > 0 or not cap > 0:
        raise ConfigError(f"awr needs beta > 0 and cap > 0, found beta={beta}, cap={cap}")
    advantage_N = _beyond(table, worth, per, "awr")
    return np.exp(np.minimum(advantage_N / beta, np.log(cap))).astype(np.float32)


@rule(reads=("value_N",), imitates=True)
def a_lol(
    table: TurnTable, *, worth: Worth = "siblings", per: Per = "episode", sampling: Sampling = "advantage"
) -> FloatArray:
    """A-LoL: imitates only what was better than expected, in proportion to its advantage.

    ``A·n·p`` where ``A = R − V(x) > 0``, else 0: float32[N]. n counts the episodes (or turns, with ``per``) of the
    batch, and p is the chance that the paper's sampler takes this one: ``A / Σ A`` of those that are kept, or alike
    (``sampling``). So a mean over all episodes (``loss.aggregate = "sequence"``) is that sampler's expected loss,
    without its noise.

    Source: https://arxiv.org/abs/2305.14718 and its code; the objective "a_lol" has its ratio. ``worth = "none"`` is
    R-LoL. Payments .9, .4, .7 and V = .6: the first and the last are kept, and drawn with 3/4 and 1/4. Degenerate: with
    nothing above V all is 0, so a lone episode needs a critic. Raises ShapeError (see ``validate``), ConfigError for an
    unknown choice.
    """
    one_of("a_lol", "sampling", sampling, ("advantage", "uniform"))
    kept_N = np.maximum(_beyond(table, worth, per, "a_lol"), 0.0)
    kept_R = kept_N if per == "turn" else _of_episodes(kept_N, table, worth)
    if not kept_R.any():
        return np.zeros(table.n_turns, np.float32)
    often_N = kept_N / kept_R.sum() if sampling == "advantage" else (kept_N > 0) / np.count_nonzero(kept_R)
    return (kept_N * often_N * len(kept_R)).astype(np.float32)


@rule(imitates=True)
def rise(table: TurnTable, *, tau: Tau = 0.5) -> FloatArray:
    """RISE: imitates siblings by a softmax of what they were paid.

    ``n·exp(R_i/τ) / Σ_k exp(R_k/τ)`` over the n siblings, so that their mean is 1, the same for all turns: float32[N].

    Source: https://arxiv.org/abs/2407.18219, read from its abstract; τ is ours. Payments 1, .5, 0 and τ = .5: .665241,
    .244728, .090031, times 3. Raises ShapeError (see ``validate``), ConfigError for τ that is not positive.
    """
    if not tau > 0:
        raise ConfigError(f"rise needs tau > 0, found {tau}")
    validate(table)
    return to_turns(reward_softmax(table.total_B.astype(np.float64), table.cohort_B, tau), table)


def reward_softmax(paid_B: Float64Array, cohort_B: IntArray, tau: float) -> Float64Array:
    """``n·exp(R_i/τ) / Σ_k exp(R_k/τ)`` over the n members of each cohort, whose mean is 1: float64[B]."""
    best_G = np.full(int(cohort_B.max()) + 1, -np.inf)
    np.maximum.at(best_G, cohort_B, paid_B)
    power_B = np.exp((paid_B - best_G[cohort_B]) / tau)
    mean_G = np.bincount(cohort_B, power_B) / np.maximum(np.bincount(cohort_B), 1)
    weight_B: Float64Array = power_B / mean_G[cohort_B]
    return weight_B


@rule(imitates=True)
def bfs_prover(table: TurnTable, *, easy: Easy = 0.05, rarest: Rarest = 0.05) -> FloatArray:
    """BFS-Prover: imitates turns that were neither too easy for the policy that played them nor among the least likely
    ones.

    1, or 0 where the mean of −log p over the turn's tokens, measured when it was sampled, is below ``easy``, for the
    ⌊rarest·N⌋ turns of the batch in which it is largest, and for turns in which the policy wrote nothing: float32[N].

    Source: https://arxiv.org/abs/2509.06493, read from its abstract; a perplexity per token, and both bounds, are ours.
    Use it with the filter "successes". Raises ShapeError (see ``validate``), also for a table without ``surprisal_N``,
    ConfigError for a share outside [0, 1].
    """
    unit_interval("bfs_prover", rarest=rarest)
    validate(table)
    nats_N = column(table, "surprisal_N", "bfs_prover", missing=True)
    known = np.flatnonzero(~np.isnan(nats_N))
    rare = known[np.argsort(-nats_N[known], kind="stable")][: int(rarest * len(known))]
    kept_N = nats_N >= easy  # false where nothing was written
    kept_N[rare] = False
    return kept_N.astype(np.float32)


@rule(reads=("logratio_N",), imitates=True)
def top_scored(table: TurnTable, *, most: BestScored = 2) -> FloatArray:
    """muCode: imitates the siblings that a separately fitted scorer scores highest, whatever they were paid.

    1 for every turn of the ``most`` siblings with the highest ``s = Σ_t logratio_t``, else 0: float32[N]. The scorer is
    a model φ, fitted to prefer successes, and s its ``log π_φ − log π_ref`` over an episode's own tokens (DPO's
    implicit reward). Of equal scores the first ones count; a turn that the policy did not write adds nothing, and an
    episode without turns is never among them.

    Source: muCode, https://arxiv.org/abs/2502.20380 and its code (select_topK.py), whose scorer has a head that gives a
    number; here it is a log-ratio, which ``reward_model.model`` names. Left out: the 100 points that passing the public
    tests adds, and a best solution as the target of other episodes' states. Scores 1.2, .4, −1 and ``most`` = 2: 1, 1,
    0. Known weakness: the errors of the scorer are imitated, and s sums over tokens. Raises ShapeError (see
    ``validate``; ``logratio_N`` missing or infinite), ConfigError for most < 1.
    """
    if most < 1:
        raise ConfigError(f"top_scored: most is {most}; at least one sibling must be imitated")
    validate(table)
    ratio_N = np.nan_to_num(column(table, "logratio_N", "top_scored", missing=True), nan=0.0)
    score_B = per_trajectory(ratio_N, table)
    score_B[lengths(table) == 0] = -np.inf
    order = np.lexsort((np.arange(len(score_B)), -score_B, table.cohort_B))
    first_G = np.searchsorted(table.cohort_B[order], table.cohort_B[order])
    kept_B = np.zeros(len(score_B))
    kept_B[order] = np.arange(len(order)) - first_G < most
    return to_turns(kept_B, table)


def _of_episodes(kept_N: Float64Array, table: TurnTable, worth: Worth) -> Float64Array:
    """``max(A, 0)`` of every episode, also of one without a turn, for which a critic has no value: float64[B]."""
    kept_B = np.zeros(table.n_trajectories)
    if worth != "critic":
        centred_B = group(table.total_B, table.cohort_B).centred_M
        kept_B = np.maximum(table.total_B if worth == "none" else centred_B, 0.0)
    kept_B[table.traj_N[::-1]] = kept_N[::-1]
    return kept_B


def _beyond(table: TurnTable, worth: Worth, per: Per, method: str) -> Float64Array:
    """``R − V`` or ``G_t − V`` of each turn: float64[N]."""
    one_of(method, "worth", worth, ("siblings", "critic", "none"))
    one_of(method, "per", per, ("episode", "turn"))
    validate(table)
    paid_N = table.total_B.astype(np.float64)[table.traj_N]
    own_N = paid_N if per == "episode" else reward_to_go(table, 1.0)
    if worth == "none":
        return own_N
    if worth == "siblings":
        compared = siblings(table)
        return own_N - (paid_N - compared.to_turns(compared.group(table.total_B).centred_M))
    value_N = column(table, "value_N", method)
    return own_N - (value_N[first_turns(table)[table.traj_N]] if per == "episode" else value_N)
