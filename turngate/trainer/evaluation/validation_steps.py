"""How a run did on validation tasks after some of its training steps, and which is best: ``validation.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.store import write_json_atomic
from turngate.store.folder import RunFolder

Chooser: TypeAlias = Literal["mean", "sampled", "greedy"]
"""The rate by which steps are compared: that at the policy's temperature, that at temperature 0, or their mean."""
Kept: TypeAlias = Literal["best", "last"]
"""Which weights become the model of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedStep:
    """The model after one training step; 0 is the model that training began from.

    ``sampled`` and ``greedy`` are shares of validation tasks that were solved unaided, at the policy's temperature and
    at temperature 0, of usable episodes; ``unusable`` counts the others.
    """

    number: int
    sampled: float
    greedy: float
    unusable: int

    def rate(self, by: Chooser) -> float:
        """The rate by which steps are compared."""
        return {"mean": (self.sampled + self.greedy) / 2, "sampled": self.sampled, "greedy": self.greedy}[by]

    @property
    def line(self) -> str:
        """Both rates, in words."""
        lost = f", {self.unusable} episodes unusable" if self.unusable else ""
        return f"sampled {100 * self.sampled:.1f} %, greedy {100 * self.greedy:.1f} %{lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSteps:
    """The training steps that were validated, ascending.

    ``steps`` is the number of all of them, ``tasks`` that of the validation tasks, and ``left_out`` that of further
    ones whose question is evaluated, so that they were not used. ``by`` and ``keep`` are settings of the run.
    """

    steps: int
    split: str
    temperature: float
    tasks: int
    left_out: int
    by: Chooser
    keep: Kept
    tried: tuple[TriedStep, ...] = ()

    @property
    def best(self) -> TriedStep | None:
        """The step with the highest rate, of equal ones the earliest; None if none was tried."""
        return max(self.tried, key=lambda one: (one.rate(self.by), -one.number), default=None)

    def until(self, step: int) -> TriedSteps:
        """What was known after a step."""
        return replace(self, tried=tuple(one for one in self.tried if one.number <= step))

    def having(self, one: TriedStep) -> TriedSteps:
        """With one more step."""
        return replace(self, tried=(*self.tried, one))

    @property
    def line(self) -> str:
        """Which step is best, and what became of it, in words; "" if none was tried."""
        best = self.best
        if best is None:
            return ""
        left = f"; {self.left_out} further tasks left out: their questions are evaluated" if self.left_out else ""
        model = "the trained model is that of this step" if self.keep == "best" else "the trained model is the last one"
        return (
            f"steps: best {best.number} of {self.steps} by {self.by} on {self.tasks} validation tasks: {best.line}; "
            f"{model}{left}"
        )


def write_steps(run: RunFolder, steps: TriedSteps) -> None:
    """Write ``validation.json``, with the number of the best step."""
    best = steps.best
    write_json_atomic(run.validated, {"best": None if best is None else best.number, **asdict(steps)})


def read_steps(run: RunFolder) -> TriedSteps | None:
    """What ``write_steps`` wrote; None for a run without validation of steps. Raises DataError for another content."""
    if not run.validated.exists():
        return None
    row: Any = read_json(run.validated)
    try:
        return _read(row)
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(run.validated, f"does not hold validated training steps: {error!r:.200}") from error


def _read(row: Mapping[str, Any]) -> TriedSteps:
    known = {name: value for name, value in row.items() if name != "best"}
    return TriedSteps(**{**known, "tried": tuple(TriedStep(**one) for one in row["tried"])})
