"""How a warm start did on validation tasks after its passes, and which pass is kept: ``warm_start.json`` of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.store import write_json_atomic
from turngate.store.folder import RunFolder
from turngate.trainer.imitate import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPass:
    """The model after one pass over the demonstrations.

    ``number`` counts passes from 1; in ``phase`` "decay", in which the learning rate falls, from the pass that it began
    after. ``cross_entropy`` is the mean over the updates of the pass, in nats per token, on the demonstrations.
    ``sampled`` and ``greedy`` are shares of validation tasks that were solved unaided, at the temperature of the
    evaluation and at temperature 0, of usable episodes; ``unusable`` counts the others.
    """

    number: int
    phase: Phase
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
    """The passes of one learning rate and batch size that were evaluated, in their order, at least one.

    ``converged``: validation had stopped improving for ``patience`` passes when the learning rate began to fall; False
    means that the bound on passes ended it.
    """

    lr: float
    episodes_per_batch: int
    patience: int
    converged: bool
    tried: tuple[TriedPass, ...]

    @property
    def chosen(self) -> TriedPass:
        """The pass with the highest mean of its two shares; of equal ones the earliest."""
        return max(self.tried, key=lambda one: one.mean)  # the first of equal ones

    @property
    def constant(self) -> int:
        """Passes before the learning rate began to fall, those without improvement included."""
        return max(one.number for one in self.tried if one.phase == "constant")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStartRecord:
    """What a warm start tried: ``grid`` has an entry for each learning rate and batch size, at least one.

    ``demonstrations`` is the number that were imitated, ``tasks`` that of the validation tasks, and ``left_out`` that
    of further ones whose question is evaluated, so that they were not used. ``temperature`` is that of sampled shares.
    """

    demonstrations: int
    split: str
    temperature: float
    tasks: int
    left_out: int
    grid: tuple[TriedPasses, ...]

    @property
    def best(self) -> TriedPasses:
        """The entry whose chosen pass is best; of equal ones the earliest."""
        return max(self.grid, key=lambda one: one.chosen.mean)

    @property
    def converged(self) -> bool:
        """Whether more passes were of no use for any entry of the grid. Where this is False, nothing here may be called
        the best supervised model."""
        return all(one.converged for one in self.grid)

    @property
    def line(self) -> str:
        """What was chosen, in words."""
        found, one = self.best, self.best.chosen
        fell = " of falling learning rate" if one.phase == "decay" else ""
        of_grid = f", lr {found.lr:g} and {found.episodes_per_batch} episodes an update, of {len(self.grid)} pairs"
        lost = f"; {one.unusable} episodes unusable" if one.unusable else ""
        left = f"; {self.left_out} further tasks left out: their questions are evaluated" if self.left_out else ""
        return (
            f"warm start: pass {one.number}{fell} chosen{of_grid if len(self.grid) > 1 else ''} on {self.tasks} "
            f"validation tasks: sampled {100 * one.sampled:.1f} %, greedy {100 * one.greedy:.1f} %{lost}{left}; "
            f"{self._end}"
        )

    @property
    def _end(self) -> str:
        cut = next((one for one in self.grid if not one.converged), None)
        if cut is None:
            found = self.best
            return f"not better in {found.patience} further passes"
        return (
            f"cut off after {cut.constant} passes, before validation stopped improving: not the best supervised model; "
            "raise warm_start.epochs"
        )


def write_passes(run: RunFolder, record: WarmStartRecord) -> None:
    """Write ``warm_start.json``, with what was chosen."""
    best = record.best
    chosen = {"lr": best.lr, "episodes_per_batch": best.episodes_per_batch, "pass": asdict(best.chosen)}
    write_json_atomic(run.passes, {"chosen": chosen, "converged": record.converged, **asdict(record)})


def read_passes(run: RunFolder) -> WarmStartRecord | None:
    """What ``write_passes`` wrote; None for a run without validation. Raises DataError for another content."""
    if not run.passes.exists():
        return None
    row: Any = read_json(run.passes)
    try:
        return _read(row)
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(run.passes, f"does not hold the passes of a warm start: {error!r:.200}") from error


def _read(row: Mapping[str, Any]) -> WarmStartRecord:
    known = {name: value for name, value in row.items() if name not in ("chosen", "converged")}
    grid = tuple(
        TriedPasses(**{**one, "tried": tuple(TriedPass(**tried) for tried in one["tried"])}) for one in row["grid"]
    )
    return WarmStartRecord(**{**known, "grid": grid})
