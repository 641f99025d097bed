"""How a warm start did on validation tasks after each pass, and which pass is kept: ``warm_start.json`` of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.runs import RunFolder
from turngate.store import write_json_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPass:
    """The model after one pass over the demonstrations.

    ``number`` counts passes from 1. ``cross_entropy`` is the mean over the updates of the pass, in nats per token, on
    the demonstrations. ``sampled`` and ``greedy`` are shares of validation tasks that were solved unaided, at the
    policy's temperature and at temperature 0, of usable episodes; ``unusable`` counts the others.
    """

    number: int
    cross_entropy: float
    sampled: float
    greedy: float
    unusable: int

    @property
    def mean(self) -> float:
        """The mean of the two shares, by which passes are compared."""
        return (self.sampled + self.greedy) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPasses:
    """The passes that were evaluated, in their order, at least one.

    ``demonstrations`` is the number that were imitated, ``epochs`` that of all passes, ``tasks`` that of the validation
    tasks, and ``left_out`` that of further ones whose question is evaluated, so that they were not used.
    """

    demonstrations: int
    epochs: int
    split: str
    temperature: float
    tasks: int
    left_out: int
    tried: tuple[TriedPass, ...]

    @property
    def chosen(self) -> TriedPass:
        """The pass with the highest mean of its two shares; of equal ones the earliest."""
        return max(self.tried, key=lambda one: (one.mean, -one.number))

    @property
    def line(self) -> str:
        """What was chosen, in words."""
        best = self.chosen
        lost = f"; {best.unusable} episodes unusable" if best.unusable else ""
        left = f"; {self.left_out} further tasks left out: their questions are evaluated" if self.left_out else ""
        return (
            f"passes: chosen {best.number} of {self.epochs} on {self.tasks} validation tasks: "
            f"sampled {100 * best.sampled:.1f} %, greedy {100 * best.greedy:.1f} %{lost}{left}"
        )


def write_passes(run: RunFolder, passes: TriedPasses) -> None:
    """Write ``warm_start.json``, with the number of the chosen pass."""
    write_json_atomic(run.passes, {"chosen": passes.chosen.number, **asdict(passes)})


def read_passes(run: RunFolder) -> TriedPasses | None:
    """What ``write_passes`` wrote; None for a run without validation. Raises DataError for another content."""
    if not run.passes.exists():
        return None
    row: Any = read_json(run.passes)
    try:
        return _read(row)
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(run.passes, f"does not hold the passes of a warm start: {error!r:.200}") from error


def _read(row: Mapping[str, Any]) -> TriedPasses:
    known = {name: value for name, value in row.items() if name != "chosen"}
    return TriedPasses(**{**known, "tried": tuple(TriedPass(**one) for one in row["tried"])})
