"""Progress: a turn earns what it adds to the chance of success, as forced answers or a critic's values measure it."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.baselines import as_credit, non_negative, one_of, outcomes, with_outcome
from turngate.trainer.credit.cohorts import Float64Array, first_turns, lengths, validate
from turngate.trainer.credit.pay_sources import column, last_turns
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import following, last_known, next_known, preceding
from turngate.trainer.credit.settings import Baseline, Outcome, ProcessWeight
from turngate.types import FloatArray, TurnTable

Read: TypeAlias = Annotated[
    Literal["accuracy", "value"],
    Field(
        description="How the chance of success is measured. accuracy: by forced answers after each turn (column "
        "accuracy_N); value: by the values of a critic, or of a prover policy (column value_N)."
    ),
]
Start: TypeAlias = Annotated[
    float | None,
    Field(
        ge=0,
        le=1,
        description="Chance of success before the first turn, with read = accuracy; leave it out to give the first "
        "turn no progress.",
    ),
]
ProverK: TypeAlias = Annotated[
    int,
    Field(
        ge=1,
        description="With read = value: number of tries of which the best counts, which rewards progress on hard tasks "
        "more; 1: a single try.",
    ),
]


@rule(reads=("accuracy_N", "value_N"))
def progress(
    table: TurnTable,
    *,
    read: Read = "accuracy",
    start: Start = None,
    prover_k: ProverK = 1,
    weight: ProcessWeight = 1.0,
    baseline: Baseline = "rloo",
    outcome: Outcome = "settled",
) -> FloatArray:
    """Progress: each turn earns what it adds to the chance of success (VSRM, PAV).

    ``A_t = Σ_{s≥t} r_s + o − mean of the siblings' G_0``, ``r_s = weight · (p_s − p_{s−1})``: float32[N].

    ``p_s`` is the chance of success after turn s, and ``read`` says how it is measured:

    * "accuracy" (VSRM): ``measured["accuracy_N"]``, how often an answer that is forced after the turn is right.
      ``start`` is the chance before the first turn; left out, the first turn earns nothing;
    * "value" (PAV): from ``measured["value_N"]``, the success rate of a prover from the state *before* each turn; after
      the last turn it is o. ``prover_k`` > 1 makes each V the success of the best of k tries, ``1 − (1 − V)^k``.

    o is ``measured["settled_B"]``, or ``outcome_B`` with ``outcome="earned"`` (see ``outcomes``); ``G_0`` is what a
    sibling earns in all. ``baseline="none"`` subtracts nothing. The r of an episode telescope: turns that add nothing
    earn nothing.

    Source: VSRM (⚠ from its abstract) and PAV, https://arxiv.org/abs/2410.08146, where k = 4 and the weight is between
    0.2 and 5 (⚠ uncertain). A prover that always fails or always succeeds shows no progress; the values of the policy
    itself (k = 1) add nothing to its gradient. Values for branched rollouts are ``tempo``'s.

    Degenerate: a turn that was not measured (NaN) shares evenly with the next ones that were; before the first and
    after the last measurement a turn earns nothing; without any, or if all are equal, this is ``rloo`` of the outcome.
    A cohort of one gives exactly 0 with the baseline. Raises ShapeError (see ``validate``; a column missing or
    infinite; a value outside [0, 1] for k > 1), ConfigError for k < 1, a negative weight or an unknown choice.
    """
    one_of("progress", "read", read, ("accuracy", "value"))
    one_of("progress", "baseline", baseline, ("rloo", "none"))
    non_negative("progress", weight=weight)
    if prover_k < 1 or (prover_k > 1 and read == "accuracy") or (start is not None and read == "value"):
        raise ConfigError(
            f"progress needs prover_k ≥ 1, above 1 only with read 'value', and start only with read 'accuracy'; "
            f"found {prover_k}, {start} and '{read}'"
        )
    validate(table)
    outcome_B = outcomes(table, outcome, "progress")
    if read == "value":
        value_N = best_of(column(table, "value_N", "progress", missing=True), prover_k)
        end_B = outcome_B if prover_k == 1 else best_of(np.clip(outcome_B, 0.0, 1.0), prover_k)
        step_N = rises_before(value_N, end_B, table)
    else:
        step_N = rises_after(column(table, "accuracy_N", "progress", missing=True), start, table)
    return as_credit(with_outcome(weight * step_N, outcome_B, table, baseline))


def best_of(value_M: Float64Array, k: int) -> Float64Array:
    """Success of the best of k tries, ``1 − (1 − V)^k``: float64[M]. Raises ShapeError if k > 1 and V is no rate."""
    if k > 1 and ((value_M < 0) | (value_M > 1)).any():
        bad = value_M[(value_M < 0) | (value_M > 1)][0]
        raise ShapeError(f"progress: value_N holds {bad}; the best of {k} tries needs success rates in [0, 1]")
    return value_M if k == 1 else 1.0 - (1.0 - value_M) ** k


def rises_after(value_N: Float64Array, start: float | None, table: TurnTable) -> Float64Array:
    """``V_t − V_{t−1}`` for values *after* each turn, ``start`` before the first one: float64[N].

    NaN where a turn earns nothing, because nothing was measured before it or from it on.
    """
    start_B = np.full(table.n_trajectories, np.nan if start is None else start)
    end_B = np.full(table.n_trajectories, np.nan)
    end_B[lengths(table) > 0] = value_N[last_turns(table)]
    return rises_before(preceding(value_N, table.traj_N, start_B), end_B, table)


def rises_before(value_N: Float64Array, end_B: Float64Array, table: TurnTable) -> Float64Array:
    """``V_{t+1} − V_t`` for values *before* each turn, ``end_B`` after the last one: float64[N].

    Turns between two measurements share their difference evenly. NaN before the first measurement and after the last.
    """
    place_N = np.arange(table.n_turns, dtype=np.float64)
    past_B = np.where(np.isnan(end_B), np.nan, first_turns(table) + lengths(table))
    known_N = np.where(np.isnan(value_N), np.nan, place_N)
    rise_N = _next(value_N, end_B, table) - last_known(value_N, table.traj_N)
    return rise_N / (_next(known_N, past_B, table) - last_known(known_N, table.traj_N))


def _next(value_N: Float64Array, end_B: Float64Array, table: TurnTable) -> Float64Array:
    """The next measured value strictly after each turn, ``end_B`` beyond the last one: float64[N]."""
    return next_known(following(value_N, table.traj_N, end_B), table.traj_N)
