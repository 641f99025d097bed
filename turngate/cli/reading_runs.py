"""What the commands share that read recorded runs: which run, and whether code that it names may be imported."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

RunPath: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, for instance runs/NAME.")]
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Import code that the run names. Without it, looking at a run executes nothing.")
]


def reads_runs(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with an option --trust, without which it imports nothing that a run names."""

    @functools.wraps(command)
    def guarded(*, trust: bool = False, **options: object) -> None:
        from turngate.config.run_config import reading_runs

        with reading_runs(trust=trust):
            command(**options)

    own = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("trust", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Trust)
    guarded.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
    guarded.__annotations__ = {**command.__annotations__, "trust": Trust}
    return guarded
