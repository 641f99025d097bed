"""Compare two credit rules on the same recorded turns: how alike they are, and on which turns they differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.errors import ShapeError
from turngate.report.episode_words import literal
from turngate.report.tables import print_table
from turngate.types import FloatArray, Trajectory

ACTION_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditComparison:
    """Two credits of N turns, each divided by its root mean square, so that rules of different scales can be compared.

    ``cosine`` is the cosine of the two vectors. ``flipped`` is the share of turns to which one rule gives more than 0
    and the other less. Both are NaN if one of the rules gives 0 to every turn. ``move_N`` is the second credit minus
    the first, float32[N].
    """

    cosine: float
    flipped: float
    move_N: FloatArray


def compare(before_N: FloatArray, after_N: FloatArray) -> CreditComparison:
    """Compare two credits of the same turns. Raises ShapeError if they have different lengths."""
    if before_N.shape != after_N.shape:
        raise ShapeError(f"after_N has shape {after_N.shape}, expected {before_N.shape} as before_N")
    first_N, second_N = _scaled(before_N), _scaled(after_N)
    silent = not (first_N.any() and second_N.any())
    return CreditComparison(
        cosine=float("nan") if silent else float(np.mean(first_N * second_N)),
        flipped=float("nan") if silent else float(np.mean(first_N * second_N < 0)),
        move_N=(second_N - first_N).astype(np.float32),
    )


def _scaled(credit_N: FloatArray) -> FloatArray:
    size = float(np.sqrt(np.mean(np.square(credit_N, dtype=np.float64)))) if len(credit_N) else 0.0
    return credit_N / np.float32(size) if size else np.zeros_like(credit_N)


def show_moves(
    console: Console,
    trajectories: Sequence[Trajectory],
    reward_N: FloatArray,
    before: tuple[str, FloatArray],
    after: tuple[str, FloatArray],
    *,
    whose: str = "the run's own rule",
    top: int,
) -> None:
    """Print how alike two rules are, and the ``top`` turns on which they differ most.

    ``before`` and ``after`` are (name of the rule, its credit float32[N]); ``whose`` says what the first is.
    """
    comparison = compare(before[1], after[1])
    places = [(trajectory, index) for trajectory in trajectories for index in range(len(trajectory.turns))]
    console.print(
        f"{len(places)} turns of {len(trajectories)} trajectories: cosine of {before[0]} and {after[0]} "
        f"{comparison.cosine:.3f}, opposite sign on {comparison.flipped:.1%} of the turns",
        highlight=False,
    )
    table = Table(*("move", "reward", "own", "new"), box=None)
    table.add_column("turn of trajectory, and how the action begins")
    for place in np.argsort(-np.abs(comparison.move_N), kind="stable")[:top]:
        trajectory, index = places[place]
        numbers = (comparison.move_N[place], reward_N[place], before[1][place], after[1][place])
        told = f"turn {index} of {literal(trajectory.id)}\n{_beginning(trajectory.turns[index].action.text)}"
        table.add_row(*[f"{number:+.3f}" for number in numbers], Text(told))
    print_table(console, table)
    console.print(
        f"own: credit by {before[0]}, {whose}; new: by {after[0]}; move: difference of the two credits, "
        "each divided by its root mean square",
        highlight=False,
    )


def _beginning(action: str) -> str:
    """The first characters of what a model wrote, in one line."""
    text = " ".join(literal(action).split())
    return text if len(text) <= ACTION_CHARS else f"{text[:ACTION_CHARS]}…"
