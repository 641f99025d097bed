"""The environment that a command names: its arguments, given on the command line or taken from a config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from turngate.errors import ConfigError, UnknownName

EnvId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")]
EnvKwargs: TypeAlias = Annotated[
    str, typer.Option(help="Arguments of the environment as a TOML inline table, such as {max_turns = 4}.")
]


def arguments_of(env: str, kwargs: str, config: Path | None) -> Mapping[str, object]:
    """Arguments for making ``env``: the inline table ``kwargs``, or those of the entry of ``config`` with that id.

    Raises ConfigError for both at once, UnknownName for an environment that the config does not have.
    """
    from turngate.config.run_config import load, parse_table

    given = parse_table("kwargs", kwargs)
    if config is None:
        return given
    if given:
        raise ConfigError("--kwargs has no effect with --config, whose env.kwargs are taken; leave one of them out")
    entries = load(config).env
    found = next((entry for entry in entries if entry.id == env), None)
    if found is None:
        raise UnknownName(f"environment of '{config}'", env, [entry.id for entry in entries])
    return found.arguments
