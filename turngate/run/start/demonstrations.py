"""The demonstrations that a warm start imitates: actions for a number of tasks, from a file or from the oracles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngate.agents.rollout import Worlds
from turngate.config.sections import WarmStart
from turngate.errors import ConfigError, DataError, EnvError, EpisodeError, UnknownName, UserError
from turngate.jsonl import read_rows
from turngate.run.environments import Environments
from turngate.types import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrations:
    """Tasks with actions that solve them.

    ``lines`` maps the id of each task to the texts to write in its turns, ``hints`` to the hint that its first
    observation shows, if it has one. ``failed`` has a line for each task whose oracle raised, with the reason.
    """

    tasks: list[Task]
    lines: dict[str, list[str]]
    hints: dict[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()


def demonstrations(environments: Environments, section: WarmStart) -> Demonstrations:
    """Read the demonstrations of a file, or ask the oracles. Raises what ``check_demonstrations`` raises."""
    if section.demonstrations is not None:
        return read_demonstrations(environments, section.demonstrations)
    assert section.episodes is not None
    return of_oracles(environments, environments.split(section.episodes), "warm_start.episodes")


def of_oracles(environments: Environments, counts: Mapping[str, int], key: str) -> Demonstrations:
    """Ask the oracles for the first so many training tasks of each environment. ``key``: the setting that wants them.

    Raises ConfigError for an environment without an oracle.
    """
    _need_oracles(environments, counts, key)
    tasks: list[Task] = []
    lines: dict[str, list[str]] = {}
    failed: list[str] = []
    for label, count in counts.items():
        split = environments.sections[label].split
        for index in environments.indices(label, split, count):
            try:
                task = environments.task(label, split, index)
                lines[task.id] = _lines(environments[label].oracle(task))
            except UserError:
                raise
            except (Exception, SystemExit) as error:  # a broken task loses its own demonstration and no other
                failed.append(f"task {index} of '{label}' {split}: {error!r:.200}")
            else:
                tasks.append(task)
    return Demonstrations(tasks=tasks, lines=lines, failed=tuple(failed))


def _lines(written: Sequence[str]) -> list[str]:
    lines = list(written)
    if odd := [line for line in lines if not isinstance(line, str)]:
        raise EnvError(f"the oracle returned {odd[0]!r:.80} as an action; actions must be texts")
    return lines


def check_demonstrations(environments: Environments, section: WarmStart) -> None:
    """Raise ConfigError for a missing oracle, DataError for a file that cannot be read."""
    if section.demonstrations is not None:
        read_demonstrations(environments, section.demonstrations)
    else:
        _need_oracles(environments, environments.split(section.episodes or 0), "warm_start.episodes")


def _need_oracles(environments: Environments, counts: Mapping[str, int], key: str) -> None:
    instead = {"warm_start.episodes": "set warm_start.demonstrations, a JSONL file, instead"}
    for label, count in counts.items():
        if count and not environments[label].turn_spec.has_oracle:
            advice = instead.get(key, "name a JSONL file of episodes instead")
            raise ConfigError(f"{key}: '{label}' has no oracle to play them; {advice}")


async def texts_of(shown: Demonstrations, worlds: Worlds) -> list[str]:
    """All texts that appear when the demonstrations are played, for training a tokenizer.

    They are played like episodes, so an environment that breaks loses only its own texts.
    """

    async def texts(task: Task) -> list[str]:
        found: list[str] = []
        with suppress(EpisodeError):  # reported when the demonstration itself is played
            async with worlds.lease(task) as world:
                observation, _ = await world.reset(task, 0)
                found += [observation.text, *shown.hints.get(task.id, "").splitlines()]
                for line in shown.lines[task.id]:
                    reply, _, terminated, truncated, _ = await world.step(line)
                    found += [line, reply.text]
                    if terminated or truncated:
                        break
        return found

    played = await asyncio.gather(*map(texts, shown.tasks))
    return [text for one in played for text in one]


def read_demonstrations(environments: Environments, path: Path) -> Demonstrations:
    """The demonstrations of a file, one a line. Raises DataError for one that cannot be read."""
    tasks: dict[str, Task] = {}
    lines: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    data: Any
    for number, data in read_rows(path):
        for key, kind in (("task", str), ("actions", list)):
            if not isinstance(data, dict) or not isinstance(data.get(key), kind):
                raise DataError(path, f"must be a {'text' if kind is str else 'list of texts'}", line=number, field=key)
        if not data["actions"] or not all(isinstance(text, str) for text in data["actions"]):
            raise DataError(path, "must be a non-empty list of texts", line=number, field="actions")
        if not isinstance(data.get("hint", ""), str):
            raise DataError(path, "must be a text", line=number, field="hint")
        try:
            task = environments.find(data["task"])
        except UnknownName as error:
            raise DataError(path, str(error), line=number, field="task") from None
        if task.id in lines:
            raise DataError(path, f"task '{data['task']}' has a demonstration already", line=number, field="task")
        tasks[task.id], lines[task.id] = task, data["actions"]
        if data.get("hint"):
            hints[task.id] = data["hint"]
    if not lines:
        raise DataError(path, "has no line with a demonstration")
    return Demonstrations(tasks=list(tasks.values()), lines=lines, hints=hints)
