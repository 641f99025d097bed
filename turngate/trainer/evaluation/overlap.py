"""What a held-out split shares with training: a share that is solved says little where the answers were seen before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.types import Task

QUESTION = "question text"
"""The mark that every task has: its question or else its prompt, with single blanks."""

Marks = Mapping[str, str]
"""What two tasks can have in common, by name, such as a gold query. A mark that is missing was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Of ``n`` held-out tasks with this mark, ``count`` have one that occurs in training."""

    count: int
    n: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.count / self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOverlap:
    """What a split has in common with the training tasks that it was compared with.

    ``split``: as its evaluation is called; ``trained``, ``tasks``, ``questions``: how many training tasks, tasks of the
    split and distinct questions among these; ``leaks``: the marks that it should not share and does.
    """

    split: str
    trained: int
    tasks: int
    questions: int
    shared: Mapping[str, Shared]
    leaks: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The counts in words."""
        counts = [f"{name} {shared.count} of {shared.n}" for name, shared in self.shared.items()]
        found = ", ".join(counts) or "nothing that could be compared: all tasks have one text"
        return (
            f"split '{self.split}': {self.tasks} tasks, {self.questions} distinct questions; "
            f"in common with {self.trained} training tasks: {found}"
        )

    @property
    def problem(self) -> str:
        """The leak in words; empty if there is none."""
        if not self.leaks:
            return ""
        found = " and ".join(
            f"{self.shared[name].count} of {self.shared[name].n} tasks have a {name}" for name in self.leaks
        )
        return f"split '{self.split}' is not apart from training: {found} that {self.trained} training tasks have too"


def overlap_lines(found: Iterable[SplitOverlap]) -> list[str]:
    """A line for each split, and a warning for each that is not apart from training."""
    return [line for one in found for line in (one.line, one.problem and f"warning: {one.problem}") if line]


def read_overlaps(path: Path) -> list[SplitOverlap]:
    """What a run wrote into its ``overlap.json``. Raises DataError."""
    found: Any = read_json(path)
    try:
        return [_read(row) for row in found["splits"]]
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(path, f"does not say what splits have in common: {error}") from error


def _read(row: dict[str, Any]) -> SplitOverlap:
    shared = {name: Shared(**counts) for name, counts in row["shared"].items()}
    return SplitOverlap(**{**row, "shared": shared, "leaks": tuple(row["leaks"])})


def overlap(
    trained: Iterable[Task], heldout: Sequence[Task], marks: Callable[[Task], Marks] | None = None
) -> dict[str, Shared]:
    """Per mark, how many held-out tasks have one that some training task has too: question text first, then ``marks``.

    A mark that is the same for all tasks, such as the fixed instruction of a game, tells no two of them apart and is
    left out; so is one that no held-out task has.
    """
    seen = {name: set(values) for name, values in _values(trained, marks).items()}
    return {
        name: Shared(count=sum(value in seen.get(name, ()) for value in values), n=len(values))
        for name, values in _values(heldout, marks).items()
        if len({*values, *seen.get(name, ())}) > 1
    }


def question_of(tasks: Sequence[Task]) -> dict[str, str]:
    """By id, the question that each task asks: its text, or its id where all tasks have one text and differ in data."""
    texts = {task.id: _text(task) for task in tasks}
    return texts if len(set(texts.values())) > 1 else {task_id: task_id for task_id in texts}


def _values(tasks: Iterable[Task], marks: Callable[[Task], Marks] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in tasks:
        for name, value in {QUESTION: _text(task), **(marks(task) if marks else {})}.items():
            found.setdefault(name, []).append(value)
    return found


def _text(task: Task) -> str:
    return " ".join((task.question or task.prompt).split())
