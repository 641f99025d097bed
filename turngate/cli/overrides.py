"""What the commands share that read a config: settings on the command line, and the methods that are merged in."""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import typer

WITH_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that takes any key of a config, as in ``--credit.type=gigpo``."""
Methods: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--method", metavar="NAME", help="A published method to merge in; repeat. turngate methods lists them."
    ),
]


def method_override(methods: list[str] | None) -> list[str]:
    """The methods as an override of a config; empty where none is named."""
    return [f"--method={json.dumps(methods, ensure_ascii=False)}"] if methods else []
