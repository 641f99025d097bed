"""GiGPO: compares siblings as whole episodes, and again at states in which several of them were."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, GroupStatistics, Int64Array, measured_column, validate
from turngate.trainer.credit.returns import reward_to_go
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Gamma
from turngate.trainer.credit.siblings import sibling_turns, siblings
from turngate.trainer.credit.terms import CreditTerm
from turngate.types import FloatArray, TurnTable

Omega: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of the comparison of turns that began in the same state (ω in the paper).")
]
Mode: TypeAlias = Annotated[
    Literal["mean_norm", "mean_std_norm"],
    Field(
        description="mean_norm: credit is the difference from the mean; mean_std_norm: it is also divided by the "
        "standard deviation, which exaggerates small differences."
    ),
]
Anchors: TypeAlias = Annotated[
    Literal["exact", "similar"],
    Field(
        description="Which turns count as beginning in the same state. exact: those with equal states; similar: those "
        "with nearly equal texts, which needs signals.similar."
    ),
]
EpisodeMean: TypeAlias = Annotated[
    Literal["trajectory", "step"],
    Field(
        description="Whether each episode counts once in the siblings' mean (trajectory), or each of its turns "
        "(step), as in the published code."
    ),
]


def gigpo_terms(
    table: TurnTable,
    *,
    gamma: Gamma = 0.95,
    omega: Omega = 1.0,
    mode: Mode = "mean_norm",
    anchors: Anchors = "exact",
    episode_mean: EpisodeMean = "trajectory",
    eps: Eps = 1e-6,
) -> tuple[CreditTerm, CreditTerm]:
    """The two parts of ``gigpo``, ``A^E`` and ``ω A^S``, whose sum it is; it raises what ``gigpo`` raises."""
    if mode not in ("mean_norm", "mean_std_norm") or eps < 0:
        raise ConfigError(f"gigpo needs mode 'mean_norm' or 'mean_std_norm' and eps ≥ 0, found '{mode}' and {eps}")
    if anchors not in ("exact", "similar") or episode_mean not in ("trajectory", "step"):
        raise ConfigError(
            "gigpo needs anchors 'exact' or 'similar' and episode_mean 'trajectory' or 'step', "
            f"found '{anchors}' and '{episode_mean}'"
        )
    validate(table)
    scale = mode == "mean_std_norm"
    if episode_mean == "trajectory":
        compared = siblings(table)
        episode_N = _normalise(compared.group(table.total_B), scale, eps)[compared.own_N]
    else:
        every = np.arange(table.n_turns)
        compared = sibling_turns(table, every, table.cohort_B[table.traj_N].astype(np.int64))
        episode_N = _normalise(compared.group(table.total_B[table.traj_N]), scale, eps)[compared.own_N]
    step_N, alike_N = np.zeros(table.n_turns), np.zeros(table.n_turns, np.int64)
    known_M, group_M = step_groups(table, anchors)
    if len(known_M):
        compared = sibling_turns(table, known_M, group_M)
        groups = compared.group(reward_to_go(table, gamma)[known_M])
        step_N[known_M] = omega * _normalise(groups, scale, eps)[compared.own_N]
        alike_N[known_M] = np.bincount(group_M)[group_M] - 1
    _, cohort_B, size_C = np.unique(table.cohort_B, return_inverse=True, return_counts=True)
    siblings_N = (size_C - 1)[cohort_B][table.traj_N]
    return CreditTerm("episodes", episode_N, siblings_N), CreditTerm("turns in the same state", step_N, alike_N)


@rule(reads=("similar_N",), terms=gigpo_terms)
def gigpo(
    table: TurnTable,
    *,
    gamma: Gamma = 0.95,
    omega: Omega = 1.0,
    mode: Mode = "mean_norm",
    anchors: Anchors = "exact",
    episode_mean: EpisodeMean = "trajectory",
    eps: Eps = 1e-6,
) -> FloatArray:
    """GiGPO: GRPO of whole episodes, plus a comparison of turns that began in the same state.

    ``A = A^E + ω A^S``: float32[N].

    * episode part ``A^E = (R − mean) / F`` over the trajectories of a cohort, R everything paid, undiscounted;
    * step part ``A^S = (G_t − mean) / F`` over the turns of a cohort that started in the same state, with
      ``G_t = Σ_{k≥t} γ^{k−t} r_k``.

    F = 1 in "mean_norm", std + eps (ddof 1) in "mean_std_norm". The same state is one ``state_N`` or, for
    ``anchors="similar"``, one ``measured["similar_N"]`` (see ``anchors.join_similar``); −1 is unknown.

    Source: https://arxiv.org/abs/2505.10978 and its code, whose episode mean and std are over turns by default, so that
    long trajectories weigh more: ``episode_mean="step"``. With "trajectory", ours, every trajectory counts once.

    Where siblings branched, both parts leave out those that share the turn (see ``siblings``).

    A state visited twice by one trajectory is compared with itself: the detour is paid less. Degenerate: a state met
    once, or unknown, has step part 0, so without state keys this is ``grpo(std=False)`` (``grpo`` in the other mode);
    a cohort of one has episode part 0. In "mean_std_norm" a state met twice always gives ±0.7071. Raises ShapeError
    (see ``validate``; ``similar_N`` missing), ConfigError for γ outside [0, 1], eps < 0, an unknown choice.
    """
    terms = gigpo_terms(table, gamma=gamma, omega=omega, mode=mode, anchors=anchors, episode_mean=episode_mean, eps=eps)
    return sum((term.credit_N for term in terms), np.zeros(table.n_turns)).astype(np.float32)


def step_groups(table: TurnTable, anchors: Literal["exact", "similar"] = "exact") -> tuple[Int64Array, Int64Array]:
    """Turns with a known state, and for each the dense number of its (cohort, state): two int64[M]."""
    state_N = table.state_N if anchors == "exact" else measured_column(table, "similar_N", "gigpo")
    known = np.flatnonzero(state_N >= 0)
    state_M, cohort_M = state_N[known], table.cohort_B[table.traj_N[known]]
    order = np.lexsort((state_M, cohort_M))
    known_M = known[order]
    starts = (np.diff(state_M[order], prepend=-1) != 0) | (np.diff(cohort_M[order], prepend=-1) != 0)
    return known_M, np.cumsum(starts) - 1


def _normalise(groups: GroupStatistics, scale: bool, eps: float) -> Float64Array:
    return groups.z_M(eps=eps) if scale else groups.centred_M
