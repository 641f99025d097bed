"""``turngate doctor``: whether a model and an environment go together, and the needs of a run of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.config.run_config import Config, load, parse_with
from turngate.errors import ConfigError, UnknownName
from turngate.report.show import indented
from turngate.run.doctor.diagnosis import DoctorLine, findings
from turngate.run.doctor.first_episodes import first_episodes, understood
from turngate.run.environments import Environments


def settings_of(model: str, env: str, config: Path | None, overrides: Sequence[str]) -> Config:
    """The config to look at: that of a file, with another model and one of its environments if they are given, or the
    defaults. Raises ConfigError, UnknownName."""
    if config is None:
        if not model or not env:
            raise ConfigError("name a model and an environment, or a config: turngate doctor --config CONFIG")
        data: dict[str, Any] = {"model": model, "env": {"id": env}}
        return parse_with(data, overrides)
    settings = load(config, [*overrides, *([f"--model={model}"] if model else [])])
    if not env:
        return settings
    chosen = tuple(section for section in settings.env if env in (section.label, section.id))
    if not chosen:
        raise UnknownName("environment of the config", env, [section.label for section in settings.env])
    return settings.model_copy(update={"env": chosen})


def doctor(console: Console, config: Config, *, n_played: int = 0) -> bool:
    """Print the findings; returns whether a run with this config would begin.

    ``n_played``: so many tasks of each environment are then played with the model as it is, and shown.
    """
    fine = True
    for one in chain(findings(config), _played(config, n_played) if n_played else ()):
        fine &= not one.refused
        mark = "refused: " if one.refused else ""
        console.print(f"{one.about + ':':<18}{mark}{one.line}", markup=False, highlight=False)
        if one.text:
            indented(console, Text(one.text), 4)
    console.print(f"{'verdict:':<18}{'a run would begin' if fine else 'a run would be refused'}", highlight=False)
    return fine


def _played(config: Config, n_tasks: int) -> Iterator[DoctorLine]:
    """Episodes of the model as it is, turn by turn, and advice."""
    with Environments(config.env) as environments:
        try:
            found = asyncio.run(first_episodes(config, environments, n_tasks))
        except ConfigError as error:
            yield DoctorLine(about="episodes", line=str(error), refused=True)
            return
    for trajectory in found.trajectories:
        turns = [
            f"{turn.observation.text}\n> {turn.completion.text}\n  understood: {understood(turn.action)}"
            for turn in trajectory.turns
        ]
        line = f"'{trajectory.task.id}' ended with {trajectory.ending} after {len(turns)} turns"
        yield DoctorLine(about="episode", line=line, text="\n".join(turns))
    yield DoctorLine(about="solved", line=f"{found.n_solved} of {len(found.trajectories)}, taking the likeliest tokens")
    for line in found.advice():
        yield DoctorLine(about="advice", line=line)
