"""Columns that several rules read from a table besides its totals: measured columns, successes, two sources of pay.

The two sources are payments to single turns and payments to the whole episode; rules that normalise them separately
need both. ``split_sources`` separates them so that together they are everything that was paid.
"""

import numpy as np

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, measured_column
from turngate.types import BoolArray, TurnTable

PAID = "paid/"
"""Columns ``paid/NAME_B`` hold what the component NAME was paid in each episode (see ``trainer.paid_columns``)."""


def column(table: TurnTable, name: str, method: str, *, missing: bool = False) -> Float64Array:
    """The measured column ``name`` in float64. ``missing`` allows NaN; an infinite entry is never allowed.

    Call it after ``validate``. Raises ShapeError, naming ``method``, if it is missing, or for a bad entry.
    """
    values = np.asarray(measured_column(table, name, method), np.float64)
    good = ~np.isinf(values) if missing else np.isfinite(values)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        where = f"trajectory {bad}"
        if name.endswith("_N"):
            where = f"trajectory {table.traj_N[bad]}, turn {table.index_N[bad]}"
        if name.endswith("_S"):
            where = f"policy token {bad}"
        raise ShapeError(f"{name} is {values[bad]} at {where}; {method} needs finite numbers")
    return values


def paid_to(table: TurnTable, component: str, method: str) -> Float64Array:
    """What the component was paid in each episode, NaN without a verdict: float64[B]. Raises as ``column`` does."""
    return column(table, f"{PAID}{component}_B", method, missing=True)


def components(table: TurnTable, method: str) -> tuple[str, ...]:
    """The components that have a column of what they were paid. Raises ShapeError if none has."""
    found = tuple(name.removeprefix(PAID)[:-2] for name in table.measured if name.startswith(PAID))
    if not found:
        raise ShapeError(f"{method} needs columns '{PAID}NAME_B', one per component, but the table has none")
    return found


def tokens(table: TurnTable, method: str) -> Float64Array:
    """Policy tokens of every turn: float64[N]. Raises ShapeError if ``tokens_N`` is absent or negative."""
    tokens_N = column(table, "tokens_N", method)
    if tokens_N.min() < 0:
        raise ShapeError(f"tokens_N holds {tokens_N.min():g}; a turn has at least 0 tokens")
    return tokens_N


def turn_of_tokens(table: TurnTable, method: str) -> Int64Array:
    """The row of each policy token: int64[S]. Call it after ``validate``.

    Raises ShapeError if it is missing, if there are no tokens, and for rows that decrease or lie outside the table.
    """
    turn_S = np.asarray(measured_column(table, "turn_S", method), np.int64)
    if not len(turn_S):
        raise ShapeError(f"{method} needs policy tokens, and this batch has none")
    if turn_S[0] < 0 or turn_S[-1] >= table.n_turns or (np.diff(turn_S) < 0).any():
        raise ShapeError(f"turn_S must never decrease and stay in 0..{table.n_turns - 1}")
    return turn_S


def successes(table: TurnTable, threshold: float | None) -> BoolArray:
    """Trajectories that succeeded: bool[B].

    With a threshold those whose outcome and whose total pay both reach it. The outcome alone would count successes that
    a veto cancelled; the total alone would count failures with enough process payments. None: as the rubric says
    (``measured["won_B"]``, which ``tabulate`` fills in); in a table without that column the threshold is then 0.5.
    """
    if threshold is None:
        if "won_B" in table.measured:
            won_B: BoolArray = table.measured["won_B"]
            return won_B
        threshold = 0.5
    reached_B: BoolArray = (table.outcome_B >= threshold) & (table.total_B >= threshold)
    return reached_B


def last_turns(table: TurnTable) -> BoolArray:
    """True at the last turn of each trajectory: bool[N]."""
    return np.append(table.traj_N[1:] != table.traj_N[:-1], True)


def verdicts(table: TurnTable) -> BoolArray:
    """Turns with a process verdict whose gates are open: bool[N]. A closed gate counts like no verdict."""
    spoken_N: BoolArray = table.open_N & ~np.isnan(table.process_N)
    return spoken_N


def scores(table: TurnTable) -> Float64Array:
    """The process verdict of every turn, NaN without one and where a gate closed it: float64[N]."""
    return np.where(verdicts(table), table.process_N.astype(np.float64), np.nan)


def split_sources(table: TurnTable, method: str) -> tuple[Float64Array, Float64Array]:
    """What each turn was paid for itself (float64[N], NaN = no verdict) and what the episode was paid (float64[B]).

    Before the last turn every payment belongs to its turn. The last turn holds both: its own share is what its open
    verdicts were paid (``measured["process_paid_N"]``), the rest belongs to the episode. So ``outcome + Σ turns`` is
    exactly the total, a veto counts against the episode, and a process payment that a gate cut counts as cut.
    Raises ShapeError, naming ``method``, if that column is missing.
    """
    reward_N = table.reward_N.astype(np.float64)
    spoken_N, last_N = verdicts(table), last_turns(table)
    turn_N = np.where(spoken_N | (reward_N != 0.0), reward_N, np.nan)
    share_M = np.where(spoken_N, column(table, "process_paid_N", method), 0.0)[last_N]
    turn_N[last_N] = np.where(spoken_N[last_N], share_M, np.nan)
    outcome_B = table.total_B.copy()  # an episode without turns keeps what it was paid
    outcome_B[table.traj_N[last_N]] = reward_N[last_N] - share_M
    return turn_N, outcome_B
