"""A gradient probe in words: whose credit moved, whose tokens' gradient changed, and whether the two agree."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from turngate.report.tables import print_table
from turngate.trainer.probe import GradientProbe, TurnShift
from turngate.types import IntArray

PLACES_CHARS = 24
AGREES = 1e-3  # relative: float32 sums of a few hundred tokens


def show_probe(console: Console, found: GradientProbe, *, name: str, top: int) -> None:
    """Print the ``top`` turns that changed most under the credit rule ``name``, and what does not fit together."""
    shifts = sorted(found.shifts, key=lambda shift: -shift.norm)
    touched = [shift for shift in shifts if len(shift.changed) or shift.after != shift.before]
    n_tokens = sum(len(shift.changed) for shift in touched)
    n_trajectories = len({shift.trajectory for shift in found.moved})
    console.print(
        f"the gradient changed at {n_tokens} tokens in {len(found.moved)} of {len(shifts)} turns, {n_trajectories} "
        f"trajectories; the whole gradient moved by {found.norm:.3g}",
        highlight=False,
    )
    columns = ("trajectory", "turn", name, "moved by", "tokens", "at", "gradient", "predicted", "norm")
    table = Table(*columns, box=None)
    for shift in touched[:top]:
        table.add_row(shift.trajectory, str(shift.turn), *_numbers(shift))
    print_table(console, table)
    if len(touched) > top:
        console.print(f"{len(touched) - top} more turns; raise --top to see them", highlight=False)
    console.print(
        "gradient: change of Σ ∂loss/∂log π over the turn's tokens; predicted: −weight · move of the credit",
        highlight=False,
    )
    silent = [f"no credit moved: {name} does not read what was changed"]
    for line in _surprises(touched) if touched else silent:
        console.print(line, highlight=False)


def _numbers(shift: TurnShift) -> list[str]:
    return [
        f"{shift.before:+.4f}",
        f"{shift.after - shift.before:+.4f}",
        f"{len(shift.changed)} of {shift.n_tokens}",
        ranges(shift.changed)[:PLACES_CHARS],
        f"{shift.by.sum():+.3e}",
        f"{shift.predicted:+.3e}",
        f"{shift.norm:.3g}",
    ]


def _surprises(touched: Sequence[TurnShift]) -> list[str]:
    """What the credit rule alone does not explain, one line each."""
    still = [shift for shift in touched if not len(shift.changed) and shift.n_tokens]
    spread = [shift for shift in touched if len(shift.changed) and shift.after == shift.before]
    both = [shift for shift in touched if len(shift.changed) and shift.after != shift.before]
    other = [shift for shift in both if abs(shift.by.sum() - shift.predicted) > AGREES * abs(shift.predicted)]
    lines = []
    if still:
        lines.append(f"{len(still)} turns whose credit moved kept their gradient: the loss clips or drops their tokens")
    if spread:
        lines.append(f"{len(spread)} turns whose credit stayed changed their gradient: the loss mixes tokens")
    if other:
        lines.append(f"{len(other)} turns changed otherwise than predicted: ratios other than 1, or a loss that weighs")
    return lines or ["every turn whose credit moved changed its gradient as predicted, and no other did"]


def ranges(places: IntArray) -> str:
    """``3-5,9`` for positions 3, 4, 5 and 9, which ascend."""
    parts: list[list[int]] = []
    for place in places.tolist():
        if parts and place == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], place]
        else:
            parts.append([place])
    return ",".join("-".join(map(str, part)) for part in parts)
