"""R3L: a retry is credited from its pivot on, and turns that went well count more."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.rewards.columns import ZERO_RANGE
from turngate.trainer.credit.baselines import as_credit, non_negative, without_siblings
from turngate.trainer.credit.cohorts import group, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.tree import branches
from turngate.types import BoolArray, FloatArray, TurnTable

Success: TypeAlias = Annotated[
    float, Field(description="Least total payment of an episode that counts as a success; a success gets credit 1.")
]
Amplify: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Factor on the credit of episodes that did not succeed but were paid more than their siblings' "
        "mean.",
    ),
]


@rule
def r3l(table: TurnTable, *, success: Success = 1.0, amplify: Amplify = 3.0) -> FloatArray:
    """R3L: for retries that branch off: credit from the turn on at which a retry leaves the episode that it retries.

    ``A = 1 if R ≥ success, else amplify · (R − mean) if R ≥ mean, else R − mean``; 0 before the pivot: float32[N].

    R is everything paid, the mean is over the cohort, and the pivot is the turn at which a retry leaves the trajectory
    that it retries (see ``after_pivot``). Both share the turns before it, so these cannot explain the difference.

    Source: https://arxiv.org/abs/2601.03715 and its code: success=1, amplify=3, no std. It learns by
    ``−A log π / 2`` without an importance ratio. A 0 here trains nothing, but the turn still counts in an average over
    tokens; drop it there with ``after_pivot``.

    Branches: turns that leaves share learn nothing, by this mask; the rule is meant for retries, whose shared turns are
    prefix turns.

    Not zero-mean. For R ≤ success no sign is flipped. Equal totals give 0 below ``success``, and 1 each from there on,
    by the paper's rule. A cohort of one gives exactly 0 (the code leaves its reward in). Without branches and with
    amplify=1 it is ``grpo(std=False)`` for totals below ``success``. Raises ShapeError (see ``validate`` and
    ``tree.branches``), ConfigError for a negative ``amplify``.
    """
    non_negative("r3l", amplify=amplify)
    validate(table)
    centred_B = group(table.total_B, table.cohort_B).centred_M
    score_B = np.where(centred_B > 0, amplify * centred_B, centred_B)
    score_B[table.total_B >= success - ZERO_RANGE] = 1.0
    return as_credit(np.where(after_pivot(table) & ~without_siblings(table), score_B[table.traj_N], 0.0))


def after_pivot(table: TurnTable) -> BoolArray:
    """False on the turns that a retry shares with the trajectory that it retries, in both of them: bool[N].

    A trajectory that was retried several times is compared from its first pivot on. Retries in other cohorts do not
    mask the turns of their parent. Raises ShapeError as ``tree.branches`` does.
    """
    parent_B, branch_B = branches(table, "r3l")
    child = np.flatnonzero((parent_B >= 0) & (table.cohort_B == table.cohort_B[parent_B]))
    never = np.iinfo(np.int64).max
    first_B = np.full(table.n_trajectories, never)
    np.minimum.at(first_B, parent_B[child], branch_B[child])
    first_B[first_B == never] = 0
    masked_B = np.maximum(branch_B, first_B)
    after_N: BoolArray = table.index_N >= masked_B[table.traj_N]
    return after_N
