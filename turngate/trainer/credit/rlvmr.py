"""RLVMR: compares outcomes between trajectories, and rewards of turns between turns with the same tag."""

from enum import IntEnum
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.baselines import (
    as_credit,
    cohorts,
    non_negative,
    one_of,
    outcomes,
    unit_interval,
    without_siblings,
    z_beyond_siblings,
    z_of,
)
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, check_scale, validate
from turngate.trainer.credit.pay_sources import column, scores, successes
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import preceding
from turngate.trainer.credit.settings import Ddof, Eps, Outcome, Threshold
from turngate.types import FloatArray, TurnTable


class Tag(IntEnum):
    """What a turn claims to do, by a tag in its text. NONE: no tag, or an invalid step; MALFORMED: the tag does not
    parse."""

    PLANNING = 0
    EXPLORE = 1
    REFLECTION = 2
    MONITOR = 3
    NONE = 4
    MALFORMED = 5


Balance: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="With form = paper: weight of the outcome, 1 − alpha being that of the tags. With form = code: "
        "weight of the tags beside the outcome.",
    ),
]
Form: TypeAlias = Annotated[
    Literal["paper", "code"],
    Field(
        description="How outcome and tags are combined. paper: as an average weighted by alpha; code: tags are added "
        "to the outcome, as in the released code."
    ),
]
Rewards: TypeAlias = Annotated[
    Literal["verdicts", "checked"],
    Field(
        description="Where a turn's reward comes from. verdicts: its process verdict; checked: a comparison of its tag "
        "with what the turn did."
    ),
]
Malformed: TypeAlias = Annotated[
    float, Field(description='Reward of a turn whose tag cannot be read, with rewards = "checked".')
]


@rule(reads=("tag_N", "repeated_N", "valid_N", "changed_N"))
def rlvmr(
    table: TurnTable,
    *,
    alpha: Balance = 0.5,
    form: Form = "paper",
    rewards: Rewards = "verdicts",
    threshold: Threshold = None,
    malformed: Malformed = -0.1,
    eps: Eps = 1e-6,
    ddof: Ddof = 1,
    outcome: Outcome = "settled",
) -> FloatArray:
    """RLVMR: the outcome against that of the siblings, plus turns against those with the same tag (planning, …).

    ``A_t = α z(o) + (1 − α) z_tag(r_t)``: float32[N]. z_tag compares the turns of one cohort that bear one tag.

    ``measured["tag_N"]`` is the tag of each turn, a ``Tag`` as a number; NaN counts as NONE, and NONE and MALFORMED are
    compared with each other. ``rewards`` says where r comes from:

    * "verdicts": ``process_N`` where no gate closed it; a turn without such a verdict is in no statistic and gets 0;
    * "checked": the tag against what the step did, see ``tag_rewards``, from ``measured["repeated_N"]``, ``valid_N``
      and ``changed_N`` (0 or 1 each). An episode succeeded if outcome and total reach ``threshold``; a malformed tag
      earns ``malformed``.

    ``form="code"`` is ``z(o) + α z_tag(r)``; the released scripts have α = 1 there, twice the scale of the paper's
    form. o is ``measured["settled_B"]``, or ``outcome_B`` with ``outcome="earned"`` (see ``outcomes``); z divides by
    ``std + eps``.

    Source: https://arxiv.org/abs/2507.22844 and its code, α = 0.5. The code takes the outcome's statistics over turns,
    so that long episodes weigh more; here they are over trajectories. Known weakness: new actions are paid even if
    they do not help, and a turn tagged as planning earns the outcome a second time.

    Degenerate: a tag seen once, and equal rewards, give 0 (the code gives a lone turn its reward). α = 1 in the paper's
    form, α = 0 in the code's, and a table without verdicts up to the factor α, are ``grpo`` of the outcome. A cohort of
    one gives exactly 0. Raises ShapeError (see ``validate``; a column that is missing or out of range), ConfigError for
    α outside [0, 1] ("paper") or below 0, a negative eps, another ddof than 0 or 1 or an unknown choice.
    """
    check_scale("rlvmr", eps=eps, ddof=ddof)
    one_of("rlvmr", "form", form, ("paper", "code"))
    one_of("rlvmr", "rewards", rewards, ("verdicts", "checked"))
    unit_interval("rlvmr", alpha=alpha) if form == "paper" else non_negative("rlvmr", alpha=alpha)
    validate(table)
    tag_N = tags(table)
    reward_N = scores(table) if rewards == "verdicts" else tag_rewards(table, tag_N, threshold, malformed)
    pool_N = np.minimum(tag_N, int(Tag.NONE)) + len(Tag) * cohorts(table)
    step_N = z_of(reward_N, ~np.isnan(reward_N) & ~without_siblings(table), pool_N, eps=eps, ddof=ddof)
    outcome_N = z_beyond_siblings(outcomes(table, outcome, "rlvmr"), table, eps=eps, ddof=ddof)
    return as_credit(outcome_N + alpha * step_N if form == "code" else alpha * outcome_N + (1 - alpha) * step_N)


def tags(table: TurnTable) -> Int64Array:
    """The tag of each turn: int64[N]. Raises ShapeError without ``tag_N``, or for a number that is no ``Tag``."""
    tag_N = np.nan_to_num(column(table, "tag_N", "rlvmr", missing=True), nan=float(Tag.NONE))
    unknown = np.flatnonzero(~np.isin(tag_N, list(Tag)))
    if len(unknown):
        where = f"trajectory {table.traj_N[unknown[0]]}, turn {table.index_N[unknown[0]]}"
        raise ShapeError(f"tag_N is {tag_N[unknown[0]]:g} at {where}; tags are 0..{len(Tag) - 1}, see rlvmr.Tag")
    return tag_N.astype(np.int64)


def tag_rewards(table: TurnTable, tag_N: Int64Array, threshold: float | None, malformed: float) -> Float64Array:
    """What a tag earns, checked against what the step did: float64[N].

    PLANNING 1 if the episode succeeds; EXPLORE 1 if the action was not taken before (``repeated_N`` 0); REFLECTION 1
    if the step before was not valid and the action changed; MALFORMED ``malformed``; everything else 0. An invalid
    step earns nothing for its tag. The first turn earns nothing for REFLECTION.
    """
    if not np.isfinite(malformed):
        raise ConfigError(f"rlvmr: malformed is {malformed}; it must be finite")
    repeated_N, valid_N, changed_N = (_flags(table, name) for name in ("repeated_N", "valid_N", "changed_N"))
    was_valid_N = preceding(valid_N, table.traj_N, np.ones(table.n_trajectories))
    earned_N = np.zeros(table.n_turns)
    earned_N[tag_N == Tag.PLANNING] = successes(table, threshold)[table.traj_N][tag_N == Tag.PLANNING]
    earned_N[(tag_N == Tag.EXPLORE) & (repeated_N == 0)] = 1.0
    earned_N[(tag_N == Tag.REFLECTION) & (was_valid_N == 0) & (changed_N == 1)] = 1.0
    earned_N[valid_N == 0] = 0.0
    earned_N[tag_N == Tag.MALFORMED] = malformed
    return earned_N


def _flags(table: TurnTable, name: str) -> Float64Array:
    flag_N = column(table, name, "rlvmr")
    bad = np.flatnonzero((flag_N != 0) & (flag_N != 1))
    if len(bad):
        where = f"trajectory {table.traj_N[bad[0]]}, turn {table.index_N[bad[0]]}"
        raise ShapeError(f"{name} is {flag_N[bad[0]]:g} at {where}; it must be 0 or 1")
    return flag_N
