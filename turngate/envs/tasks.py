"""Task sources, which give an environment its tasks. Some generate task number ``i`` of a split, others hold a list.

A config names a source as a part, ``tasks = {type = "spider", folder = "…"}``, and the environment opens it. The parts
that ship are defined beside their environments (``sql/sources.py``, ``code/sources.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from turngate.errors import ConfigError, MissingExtra, UnknownName, UserError
from turngate.foreign import guarded
from turngate.parts import Part
from turngate.problems import one_line
from turngate.types import Action, Task, derive_seed

T = TypeVar("T")

_log = logging.getLogger(__name__)


@runtime_checkable
class TaskSource(Protocol):
    """Tasks by split and number. The same split and number always give the same task, on every machine.

    ``splits``: the names of its splits, the one for training first.
    """

    splits: tuple[str, ...]

    def size(self, split: str) -> int | None:
        """How many tasks ``split`` holds; None = endless, made on demand. Raises UnknownName."""
        ...

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` (0-based) of ``split``. Raises UnknownName, IndexError."""
        ...

    def find(self, task_id: str) -> Task:
        """The task of that id. Raises UnknownName."""
        ...


@runtime_checkable
class Relabels(Protocol):
    """A task source that can say what an episode has achieved instead of what it was asked for."""

    def achieved(self, task: Task, actions: Sequence[Action]) -> Task | None:
        """A task that begins as ``task`` does, and that these actions solve; None if they changed nothing, or if no
        task asks for their result. Its goal must not hold at the start."""
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """A task source that holds something until it is closed, such as a temporary folder."""

    def close(self) -> None:
        """Free the source's resources. Safe to repeat."""
        ...


@runtime_checkable
class SupportsMarks(Protocol):
    """An environment that can say more about a task than its text, so that splits can be compared before a run."""

    answers: tuple[str, ...]
    """Names of the marks that solve a task: training and held-out tasks should not share them."""

    def marks(self, task: Task) -> Mapping[str, str]:
        """Marks that other tasks may share with this one, by name, such as the gold query."""
        ...


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A task that a source could not use, and why. ``line``: its line in the file, from 1; None if it has none."""

    id: str
    reason: str
    line: int | None = None


def warn_of(dropped: Sequence[Dropped], total: int, what: str) -> None:
    """Log how many of ``total`` are dropped, and the first reason."""
    if dropped:
        first = dropped[0]
        _log.warning("dropped %d of %d %s, the first being %s: %s", len(dropped), total, what, first.id, first.reason)


class TaskList:
    """A fixed list of tasks, split by ``Task.split``. ``dropped``: what the files held that could not be used as a
    task.
    """

    def __init__(self, tasks: Iterable[Task], dropped: Sequence[Dropped] = ()) -> None:
        by_split: dict[str, list[Task]] = {}
        self._by_id: dict[str, Task] = {}
        for task in tasks:
            if task.id in self._by_id:
                raise ConfigError(f"task id '{task.id}' is used twice; ids must be unique")
            self._by_id[task.id] = task
            by_split.setdefault(task.split, []).append(task)
        self._by_split: Mapping[str, list[Task]] = by_split
        self.splits = tuple(by_split)
        self.dropped = tuple(dropped)

    def size(self, split: str) -> int:
        """How many tasks ``split`` holds."""
        return len(self._of(split))

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``, in the order given."""
        return self._of(split)[index]

    def find(self, task_id: str) -> Task:
        """The task of that id."""
        if task_id not in self._by_id:
            raise UnknownName("task", task_id, self._by_id)
        return self._by_id[task_id]

    def _of(self, split: str) -> list[Task]:
        if split not in self._by_split:
            raise UnknownName("split", split, self.splits)
        return self._by_split[split]


class TasksBySplit:
    """A source whose splits are each read when first needed: a run that trains on one does not read the others.

    A split that cannot be read, or holds nothing that can be used, raises ConfigError at that moment.
    """

    def __init__(self, readers: Mapping[str, Callable[[], TaskList]]) -> None:
        """``readers``: for each split the function that reads it; its list holds tasks of that split only."""
        self.splits = tuple(readers)
        self._readers = dict(readers)
        self._read: dict[str, TaskList] = {}

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """Unusable tasks of the splits that have been read so far."""
        return tuple(item for tasks in self._read.values() for item in tasks.dropped)

    def size(self, split: str) -> int:
        """How many tasks ``split`` holds."""
        return self._of(split).size(split)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``, in the order of its file."""
        return self._of(split).task(split, index)

    def find(self, task_id: str) -> Task:
        """The task of that id. Reads splits until it is found, first those that the id names."""
        known: list[str] = []
        for split in sorted(self.splits, key=lambda split: (split not in self._read, split not in task_id)):
            try:
                return self._of(split).find(task_id)
            except UnknownName as error:
                known += error.close
        raise UnknownName("task", task_id, known)

    def _of(self, split: str) -> TaskList:
        if split not in self._readers:
            raise UnknownName("split", split, self.splits)
        if split not in self._read:
            tasks = _with_key(self._readers[split])
            if split not in tasks.splits:
                raise ConfigError(f"tasks: split '{split}' holds no tasks{_reason(tasks.dropped)}")
            self._read[split] = tasks
        return self._read[split]


class GivenTasks:
    """A source without tasks, for the environments of a pool: every ``reset`` hands them the task to play."""

    splits: tuple[str, ...] = ("given",)

    def size(self, split: str) -> None:
        """None: any number of tasks may be handed over."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Raises ConfigError."""
        raise ConfigError('this environment has no tasks of its own; give it one: reset(options={"task": TASK})')

    def find(self, task_id: str) -> Task:
        """Raises ConfigError."""
        return self.task("given", 0)


def split_of(task_id: str, one_in: int) -> str:
    """The split of a task by its id alone: every ``one_in``-th task on average is "heldout", the others are "train".

    5 holds out about 20 % of the tasks; 0 holds out none.
    """
    return "heldout" if one_in and derive_seed("split", task_id) % one_in == 0 else "train"


# --- parts ------------------------------------------------------------------------------------------------------------


class TaskSourcePart(Part):
    """A task source as a config names it. A subclass sets ``type``, declares its settings and writes ``open``.

    A plain function can take its place: it returns a list of tasks or a TaskSource, and its keyword-only arguments are
    its settings.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "task source"
    shipped_in: ClassVar[tuple[str, ...]] = (
        "turngate.envs.lock",
        "turngate.envs.sql.sources",
        "turngate.envs.code.sources",
        "turngate.envs.search.sources",
        "turngate.envs.tooluse.sources",
        "turngate.envs.web.generated.shop.shop_source",
        "turngate.envs.web.loaders.miniwob.sources",
        "turngate.envs.web.loaders.own.own_source",
        "turngate.envs.web.generated.slides.slide_source",
        "turngate.envs.router.sources",
        "turngate.envs.tooluse.generated.domains.domain_sources",
        "turngate.envs.tooluse.loaders.tau.tau_sources",
        "turngate.envs.tooluse.loaders.bfcl.bfcl_source",
    )
    from_function: ClassVar[bool] = True
    kind: ClassVar[str] = ""
    """The kind of its tasks, in the plural, for instance "locks". An environment refuses a source of another kind than
    its own tasks; with "" the source fits any environment."""

    def open(self) -> TaskSource:
        """Read the tasks. Raises UserError for a file that is missing or has another form than it should."""
        if self.function is None:
            raise NotImplementedError(f"{type(self).__name__} must write open()")
        with guarded(lambda why: ConfigError(f"'{self.type}' raised {why}"), through=UserError):
            found = self.function(**self.settings())
            tasks = found if isinstance(found, TaskSource) else list(found)
        if isinstance(tasks, TaskSource):
            return tasks
        if strange := next((item for item in tasks if not isinstance(item, Task)), None):
            raise ConfigError(f"'{self.type}' must return tasks or a TaskSource; among them is {strange!r:.80}")
        return TaskList(tasks)

    def folder_of(self, key: str) -> Path:
        """The folder that the setting ``key`` names. Raises ConfigError if there is none, or nothing in it."""
        folder = Path(getattr(self, key))
        if not folder.is_dir():
            raise BadPath(f".{key}: there is no folder '{folder}'")
        if not any(folder.iterdir()):
            raise BadPath(f".{key}: the folder '{folder}' is empty")
        return folder

    def file_of(self, key: str) -> Path:
        """The file that the setting ``key`` names. Raises ConfigError if there is none."""
        file = Path(getattr(self, key))
        if not file.is_file():
            raise BadPath(f".{key}: there is no file '{file}'")
        return file


class BadPath(ConfigError):
    """A setting that names no such file or folder. The message begins with ".SETTING: ", after the key of the part."""


# --- opening ----------------------------------------------------------------------------------------------------------

TasksLike: TypeAlias = (
    TaskSource | TaskSourcePart | Callable[..., Iterable[Task] | TaskSource] | Mapping[str, object] | str | None
)
"""What ``TurnSpec.tasks`` and an environment's argument ``tasks`` may be: a source, a part, a function that makes tasks
from settings that have defaults, a part's table or its name; None: the default."""


class _TasksArgument(BaseModel):
    tasks: TaskSourcePart


def part_of(tasks: TasksLike, default: TasksLike, env: str) -> TaskSourcePart | TaskSource:
    """The meaning of the argument ``tasks`` of the environment ``env``: a part to open, or a source.

    ``default``: that of the environment, for None. Raises ConfigError for a part that does not exist, has a wrong
    setting, or gives tasks of another kind than the default.
    """
    if tasks is None:
        if default is None:
            raise ConfigError(f"{env} has no tasks of its own; name some: tasks = {{type = …}}, or tasks=TaskList([…])")
        return _meant(default)
    part = _meant(tasks)
    kind = getattr(default, "kind", "")
    if isinstance(part, TaskSourcePart) and part.kind and kind and part.kind != kind:
        fitting = sorted(name for name, one in TaskSourcePart.catalogue().items() if getattr(one, "kind", "") == kind)
        raise ConfigError(
            f"tasks: '{part.type}' gives tasks of {part.kind}, and {env} plays {kind}; use one of "
            f"{', '.join(fitting)}, or package.module:Name for your own"
        )
    return part


def _meant(tasks: TasksLike) -> TaskSourcePart | TaskSource:
    if isinstance(tasks, FunctionType):
        tasks = _name_of(tasks)
    if not isinstance(tasks, TaskSourcePart | Mapping | str):
        if isinstance(tasks, TaskSource):
            return tasks
        raise ConfigError(f"tasks: {tasks!r:.80} is neither a task source nor a table with its type; {_mend(tasks)}")
    data = {"tasks": tasks}
    try:
        return _TasksArgument.model_validate(data).tasks
    except ValidationError as error:
        raise ConfigError(one_line(error, _TasksArgument, data)) from None


def _name_of(function: FunctionType) -> str:
    """Define a function as a part, and return the path by which a config names it."""
    path = f"{function.__module__}:{function.__qualname__}"
    known = TaskSourcePart.types.get(path)
    if known is None or known.function is not function:
        TaskSourcePart.of_function(path, function)
    return path


def _mend(tasks: object) -> str:
    """How to make a task source of ``tasks``, for an error message."""
    has = [name for name in ("splits", "size", "task", "find") if hasattr(tasks, name)]
    if has:
        return f"a source also has {', '.join(name for name in ('splits', 'size', 'task', 'find') if name not in has)}"
    return "make one of a list or generator of tasks: TaskList(tasks)"


def open_source(part: TaskSourcePart, opening: Callable[[TaskSourcePart], TaskSource]) -> TaskSource:
    """The task source that ``opening`` makes of a part. Raises ConfigError, whose message begins with ``tasks``."""
    return _with_key(lambda: opening(part))


def _with_key(read: Callable[[], T]) -> T:
    try:
        return read()
    except MissingExtra:  # says what to install
        raise
    except BadPath as error:
        raise ConfigError(f"tasks{error}") from error
    except UserError as error:
        raise ConfigError(f"tasks: {error}") from error


def first_split(source: TaskSource, split: str | None) -> str:
    """``split``, or the first one of the source. Raises UnknownName, and ConfigError for a source without splits.

    Only a split that is named is looked into, because the first one may never be used and reading it takes time.
    """
    if split is not None:
        source.size(split)
        return split
    for first in source.splits:
        return first
    raise ConfigError(f"tasks: the task source holds no tasks{_reason(getattr(source, 'dropped', ()))}")


def _reason(dropped: Sequence[Dropped]) -> str:
    return f"; the first that cannot be used is {dropped[0].id}: {dropped[0].reason}" if dropped else ""
