"""Print a gradient probe: which turns' credit changed, which tokens' gradient changed, and whether the two agree."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.report.episode_words import literal
from turngate.report.tables import print_table
from turngate.trainer.checks.gradient_probe import GradientProbe, TurnShift
from turngate.types import IntArray

AGREES = 1e-3  # relative error within which two gradients agree: float32 sums over a few hundred tokens


def show_probe(console: Console, found: GradientProbe, *, name: str, top: int) -> None:
    """Print the ``top`` turns that changed most under the credit rule ``name``, and what the rule does not explain."""
    shifts = sorted(found.shifts, key=lambda shift: -shift.norm)
    touched = [shift for shift in shifts if len(shift.changed) or shift.after != shift.before]
    n_tokens = sum(len(shift.changed) for shift in touched)
    n_trajectories = len({shift.trajectory for shift in found.moved})
    console.print(
        f"the gradient changed at {n_tokens} tokens in {len(found.moved)} of {len(shifts)} turns, {n_trajectories} "
        f"trajectories; the whole gradient moved by {found.norm:.3g}",
        highlight=False,
    )
    table = Table(
        "turn, and where its tokens changed", *("credit", "moved by", "gradient", "predicted", "norm"), box=None
    )
    for shift in touched[:top]:
        table.add_row(Text(_place(shift)), *_numbers(shift))
    print_table(console, table)
    if len(touched) > top:
        console.print(f"{len(touched) - top} more turns; raise --top to see them", highlight=False)
    console.print(
        f"credit: by {name}; gradient: change of Σ ∂loss/∂log π over the turn's tokens; predicted: −weight · change of "
        "the turn's credit",
        highlight=False,
    )
    untouched = [f"no credit changed: {name} does not read what was changed"]
    for line in _unexplained(touched) if touched else untouched:
        console.print(line, highlight=False)


def _place(shift: TurnShift) -> str:
    places = f" at {ranges(shift.changed)}" if len(shift.changed) else ""
    return f"turn {shift.turn} of {literal(shift.trajectory)}\n{len(shift.changed)} of {shift.n_tokens} tokens{places}"


def _numbers(shift: TurnShift) -> list[str]:
    return [
        f"{shift.before:+.4f}",
        f"{shift.after - shift.before:+.4f}",
        f"{shift.by.sum():+.3e}",
        f"{shift.predicted:+.3e}",
        f"{shift.norm:.3g}",
    ]


def _unexplained(touched: Sequence[TurnShift]) -> list[str]:
    """Changes that the credit alone does not explain, one line each."""
    still = [shift for shift in touched if not len(shift.changed) and shift.n_tokens]
    spread = [shift for shift in touched if len(shift.changed) and shift.after == shift.before]
    both = [shift for shift in touched if len(shift.changed) and shift.after != shift.before]
    other = [shift for shift in both if abs(shift.by.sum() - shift.predicted) > AGREES * abs(shift.predicted)]
    lines = []
    if still:
        lines.append(f"{len(still)} turns: the credit changed, the gradient did not: the loss clips or drops tokens")
    if spread:
        lines.append(f"{len(spread)} turns: the gradient changed, the credit did not: the loss mixes tokens of turns")
    if other:
        lines.append(
            f"{len(other)} turns: the gradient did not change as predicted: ratios other than 1, or a loss that "
            "weights tokens"
        )
    return lines or ["the gradient of every turn whose credit changed did so as predicted, and no other changed"]


def ranges(places: IntArray) -> str:
    """Ascending positions as text: ``3-5,9`` for 3, 4, 5 and 9."""
    parts: list[list[int]] = []
    for place in places.tolist():
        if parts and place == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], place]
        else:
            parts.append([place])
    return ",".join("-".join(map(str, part)) for part in parts)
