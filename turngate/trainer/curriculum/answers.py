"""What a curriculum answers, read before it is used: tasks and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from turngate.errors import UserError
from turngate.part_calls import Unusable, answering, call_part, ignored, metrics_of, short_result
from turngate.trainer.curriculum.base import Curriculum, CurriculumPart, Supply
from turngate.types import Metrics, ScoredGroup, Task

CURRICULUM = "curriculum"
_METHODS = ("pick", "more", "observe", "metrics", "save", "load")


def opened_curriculum(part: CurriculumPart, supply: Supply, *, find: Callable[[str], Task]) -> Curriculum:
    """The curriculum of one run, whose answers are read. ``find``: the task of an id; raises UserError for others.

    Raises PartError for an object without the methods of a ``Curriculum``, and what ``open`` raises on purpose.
    """
    must = f"a Curriculum, with {', '.join(_METHODS)}"
    own = call_part(CURRICULUM, part.open, supply, take=answering(*_METHODS), must=must)
    return _ReadCurriculum(own, find)


class _ReadCurriculum:
    """Passes on what another curriculum answers. Every method raises PartError for what cannot be used."""

    def __init__(self, own: Curriculum, find: Callable[[str], Task]) -> None:
        self._own, self._find = own, find
        self._picked: set[str] = set()
        self.stateful = bool(getattr(own, "stateful", True))

    def pick(self, step: int) -> list[Task]:
        self._picked = set()

        def read(found: Iterable[object]) -> list[Task]:
            if tasks := self._new(found):
                return tasks
            raise Unusable("there are none")

        return call_part(CURRICULUM, self._own.pick, step, take=read, must="different tasks of the run, at least one")

    def more(self, n: int) -> list[Task]:
        must = "tasks of the run that the step does not have yet"
        return call_part(CURRICULUM, self._own.more, n, take=self._new, must=must)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        call_part(CURRICULUM, self._own.observe, groups, take=ignored, must="")

    def metrics(self) -> Metrics:
        return call_part(CURRICULUM, self._own.metrics, take=metrics_of, must="a dictionary of numbers by name")

    def save(self, path: Path) -> None:
        call_part(CURRICULUM, self._own.save, path, take=ignored, must="")

    def load(self, path: Path) -> None:
        call_part(CURRICULUM, self._own.load, path, take=ignored, must="")

    def _new(self, found: Iterable[object]) -> list[Task]:
        """Tasks that the step does not have yet, and that the run knows."""
        tasks = []
        for task in found:
            if not isinstance(task, Task):
                raise Unusable(short_result(task))
            if task.id in self._picked:
                raise Unusable(f"task '{task.id}' twice in a step")
            try:
                known = self._find(task.id)
            except UserError as error:
                raise Unusable(str(error)) from error
            if known.env_id != task.env_id:
                raise Unusable(
                    f"env_id of task '{task.id}' is '{task.env_id}', and that of the run's is '{known.env_id}'"
                )
            self._picked.add(task.id)
            tasks.append(task)
        return tasks
