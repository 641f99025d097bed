"""ProRAG: compares outcomes between trajectories, and process scores between tokens, and adds both."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import (
    as_credit,
    cohorts,
    non_negative,
    one_of,
    outcomes,
    without_siblings,
    z_beyond_siblings,
)
from turngate.trainer.credit.cohorts import Float64Array, group, validate
from turngate.trainer.credit.pay_sources import tokens, verdicts
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Outcome
from turngate.types import FloatArray, IntArray, TurnTable

VARIANCE_FLOOR = 1e-8  # inside the square root, as the authors' code has it


ScoreWeight: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of the turns' scores beside the outcome (β in the paper).")
]
Unscored: TypeAlias = Annotated[
    Literal["exclude", "zero"],
    Field(
        description="What happens to turns without a score. exclude: they are left out; zero: they count as 0, as in "
        "the published code."
    ),
]


@rule
def prorag(
    table: TurnTable,
    *,
    beta: ScoreWeight = 0.3,
    unscored: Unscored = "exclude",
    eps: Eps = 1e-4,
    outcome: Outcome = "settled",
) -> FloatArray:
    """ProRAG: the outcome against that of the siblings, plus each turn's score against the other turns' scores.

    ``A_t = z(o) + β (q_t − mean) / sqrt(var + 1e-8)``: float32[N].

    ``z(o) = (o − mean) / (std + eps)`` (ddof 1) of the outcome over the cohort, ``measured["settled_B"]`` or, with
    ``outcome="earned"``, ``outcome_B`` (see ``outcomes``). Mean and variance (population) of the scores
    ``q_t = process_N`` that no gate closed (``open_N``) are over the cohort's policy tokens: a turn counts
    ``measured["tokens_N"]`` times.

    Source: https://arxiv.org/abs/2601.21912; β=0.3 in its script. There a token without a score counts as 0
    (``unscored="zero"``), so that few scores shift the credit of all turns, and gates do not exist; here such turns are
    left out.

    Degenerate: fewer than two scored turns, or equal scores, give process part 0; without scores this is ``grpo`` of
    the outcome. A cohort of one gives exactly 0. Raises ShapeError (see ``validate``; ``settled_B`` missing,
    ``tokens_N`` missing or negative), ConfigError for a negative setting or an unknown choice.
    """
    non_negative("prorag", beta=beta, eps=eps)
    one_of("prorag", "unscored", unscored, ("exclude", "zero"))
    validate(table)
    tokens_N = tokens(table, "prorag")
    outcome_N = z_beyond_siblings(outcomes(table, outcome, "prorag"), table, eps=eps)
    scored_N = verdicts(table)
    score_N = np.where(scored_N, table.process_N.astype(np.float64), 0.0)
    keep_N = (tokens_N > 0) & ~without_siblings(table) & (scored_N | (unscored == "zero"))
    process_N = np.zeros(table.n_turns)
    process_N[keep_N] = _z_by_tokens(score_N[keep_N], tokens_N[keep_N], cohorts(table)[keep_N])
    return as_credit(outcome_N + beta * process_N)


def _z_by_tokens(score_M: Float64Array, tokens_M: Float64Array, cohort_M: IntArray) -> Float64Array:
    groups = group(score_M, cohort_M, weight_M=tokens_M)
    z_M: Float64Array = groups.centred_M / np.sqrt(groups.std_G(ddof=0) ** 2 + VARIANCE_FLOOR)[cohort_M]
    return z_M
