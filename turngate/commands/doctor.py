"""``turngate doctor``: whether a model and an environment go together, and what a run of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.config import Config, load, parse_with
from turngate.errors import ConfigError, UnknownName
from turngate.report.show import indented
from turngate.run.diagnosis import findings


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


def doctor(console: Console, config: Config) -> bool:
    """Print what is found; whether a run with this config would begin."""
    fine = True
    for one in findings(config):
        fine &= not one.refused
        mark = "refused: " if one.refused else ""
        console.print(f"{one.about + ':':<18}{mark}{one.line}", markup=False, highlight=False)
        if one.text:
            indented(console, Text(one.text), 4)
    console.print(f"{'verdict:':<18}{'a run would begin' if fine else 'a run would be refused'}", highlight=False)
    return fine
