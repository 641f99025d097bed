"""Values that examiners read from tasks and recorded episodes."""

from __future__ import annotations

import string

from turngate.errors import ConfigError, UnknownName
from turngate.types import JSON, Task, Trajectory


def fill_template(template: str, task: Task) -> tuple[str, str]:
    """The template's text before its first ``{name}``, and the rest with the names filled in from ``task.private``.

    Raises ConfigError for a name that the task does not have.
    """
    first = next(iter(string.Formatter().parse(template)))[0]
    try:
        return first, template.format_map(task.private).removeprefix(first)
    except KeyError as missing:
        unknown = UnknownName("entry of the task's private data", missing.args[0], task.private)
        raise ConfigError(f"the answer '{template}' of task '{task.id}': {unknown}") from None


def names_something(template: str) -> str:
    """``template``. Raises ValueError if it has no ``{name}``, so that it would be the same for every task."""
    if not any(name for _, name, _, _ in string.Formatter().parse(template)):
        raise ValueError(f"'{template}' without {{name}} is the same for every task; name an entry of the private data")
    return template


def last_value(trajectory: Trajectory, name: str) -> JSON:
    """The last value recorded under ``name``; None if there is none, or if it could not be measured."""
    values = [fact.value for fact in trajectory.record().evidence if fact.name == name]
    return values[-1] if values else None
