"""MT-GRPO: turn rewards and outcome are normalised apart, then added."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import beyond_siblings, outcomes, z_beyond_siblings
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, group, validate
from turngate.trainer.credit.pay_sources import scores, split_sources
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import carry, scan_back
from turngate.trainer.credit.settings import Ddof, Eps
from turngate.trainer.credit.siblings import sibling_turns, siblings
from turngate.types import FloatArray, TurnTable

Mode: TypeAlias = Annotated[
    Literal["published", "corrected"],
    Field(
        description="published: a turn's reward is compared with those of the siblings' turns of the same number; "
        "corrected: with all that siblings earned from that turn on, which is unbiased."
    ),
]
TurnWeight: TypeAlias = Annotated[
    float, Field(description="Weight of turn rewards beside the outcome (λ in the paper).")
]


@rule
def mt_grpo(
    table: TurnTable,
    *,
    mode: Mode = "published",
    weight: TurnWeight = 1.0,
    eps: Eps = 1e-4,
    ddof: Ddof = 1,
) -> FloatArray:
    """MT-GRPO: the outcome against that of the siblings, plus turn rewards against theirs.

    ``A_t = A^O + λ Σ_{s≥t} A^T_s``: float32[N]. ``weight`` is λ.

    * "published": ``A^O = z(o)`` over the cohort, o = ``measured["settled_B"]``; ``A^T_s = z(process_N)`` over the
      siblings' turns with index s that have an open verdict. The paper has two turns; this is its form for any number
      (reconstructed).
    * "corrected": ``A_t = O_i + λ G_t − mean_{k≠i} (O_k + λ G_{k,t})``, ``G_t = Σ_{s≥t}`` what turns were paid, and 0
      for a sibling that ended before t; ``split_sources`` divides the payments into those to turns and those to the
      episode. Nothing is divided by a std, so eps and ddof have no effect.

    Why a correction: subtracting the mean over the siblings that reached a turn index says what a turn was worth
    *given* that it exists. Where the policy decides whether to go on, the value of going on is lost: if a further turn
    always pays ½ and the policy continues with probability ½, the true gradient of its logit is 0.125 and the published
    estimate is 0. The corrected baseline depends on the siblings only, so it leaves the gradient of ``E[O + λ Σ turn
    rewards]`` unbiased where no later action changes what a turn was paid (not with gates that open on the outcome;
    ``Rubric.book_last`` repairs that).

    Source: https://arxiv.org/abs/2505.11821 and its code (λ=1, eps=1e-4, the std of torch). Without turn rewards
    "published" is ``grpo`` with this eps and "corrected" is ``rloo``; the latter holds too for episodes of one turn
    at λ=1. Degenerate: a cohort of one, a turn index that one sibling reached, and equal rewards add 0. Raises
    ShapeError (see ``validate``), ConfigError for an unknown mode, eps < 0 or another ddof than 0 or 1.
    """
    if mode not in ("published", "corrected") or eps < 0 or ddof not in (0, 1):
        raise ConfigError(
            f"mt_grpo needs mode 'published' or 'corrected', eps ≥ 0 and ddof 0 or 1, found '{mode}', {eps}, {ddof}"
        )
    validate(table)
    if mode == "published":
        outcome_part_N = z_beyond_siblings(outcomes(table, "settled", "mt_grpo"), table, eps=eps, ddof=ddof)
        turn_part_N = _summed_z(scores(table), table, eps, ddof)
    else:
        turn_N, outcome_B = split_sources(table, "mt_grpo")
        outcome_part_N = beyond_siblings(outcome_B, table)
        turn_part_N = _to_go_beyond_siblings(turn_N, table)
    return (outcome_part_N + weight * turn_part_N).astype(np.float32)


def _loo_factor(count_G: Int64Array) -> Float64Array:
    factor_G: Float64Array = count_G / np.maximum(count_G - 1, 1)
    return factor_G


def _places(table: TurnTable) -> Int64Array:
    """One dense number per (cohort, turn index): int64[N]."""
    width = int(table.index_N.max()) + 1
    key_N = table.cohort_B[table.traj_N].astype(np.int64) * width + table.index_N
    place_N: Int64Array = np.unique(key_N, return_inverse=True)[1].astype(np.int64, copy=False)
    return place_N


def _summed_z(turn_N: Float64Array, table: TurnTable, eps: float, ddof: int) -> Float64Array:
    said_N = ~np.isnan(turn_N)
    z_N = np.zeros(table.n_turns)
    if said_N.any():
        z_N[said_N] = group(turn_N[said_N], _places(table)[said_N]).z_M(eps=eps, ddof=ddof)
    return scan_back(z_N, carry(table.traj_N, 1.0))


def _to_go_beyond_siblings(turn_N: Float64Array, table: TurnTable) -> Float64Array:
    """``G_t − mean of the other siblings' G_t``, where a sibling that has ended counts as 0."""
    to_go_N = scan_back(np.nan_to_num(turn_N), carry(table.traj_N, 1.0))
    siblings_N = np.bincount(table.cohort_B)[table.cohort_B][table.traj_N]
    place_N = _places(table)
    compared = sibling_turns(table, np.arange(table.n_turns), place_N)
    if compared.weight_M is not None:
        there = compared.group(to_go_N)
        others_N = there.leave_one_out_mean_M(to_go_N[compared.member_M])[compared.own_N]
        among_N = there.count_G[there.group_M[compared.own_N]] - 1  # others that have this turn and do not share it
        outside_N = siblings(table).outside_N
        return np.where(outside_N > 0, to_go_N - others_N * among_N / np.maximum(outside_N, 1), 0.0)
    places = group(to_go_N, place_N)
    beyond_N = to_go_N - (places.mean_G * places.count_G)[place_N] / siblings_N
    all_there_N = places.count_G[place_N] == siblings_N
    beyond_N[all_there_N] = places.centred_M[all_there_N]
    return np.where(siblings_N > 1, beyond_N * _loo_factor(siblings_N), 0.0)
