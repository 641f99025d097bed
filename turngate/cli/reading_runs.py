"""What the commands share that read recorded runs: which run, and whether code that it names may be imported.

A run may be named by its address in a store, such as s3://bucket/runs/NAME. What the command needs is fetched into a
copy on this machine, which the command then reads; what a command writes into the folder of a run stays in the copy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from turngate.errors import ConfigError

RunPath: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder of a run, for instance runs/NAME, or its address in a store.")
]
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Import code that the run names. Without it, looking at a run executes nothing.")
]
RUNS = ("run", "beside", "store", "a", "b", "policy")
"""Parameters of commands that name runs."""
COPIES = "runs"
"""Where copies of stored runs are, below the folder of things that were fetched (``TURNGATE_CACHE``)."""


def reads_runs(*, weights_with: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same command with an option --trust, without which it imports nothing that a run names, and with addresses
    where it names runs. ``weights_with``: the options with which it reads weights of models and checkpoints too."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def guarded(*, trust: bool = False, **options: object) -> None:
            from turngate.config.run_config import reading_runs

            weights = any(options.get(name) not in (None, "") for name in weights_with)
            with reading_runs(trust=trust), _copies_of(options, weights=weights) as local:
                command(**local)

        own = inspect.signature(command, eval_str=True)
        option = inspect.Parameter("trust", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Trust)
        guarded.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
        guarded.__annotations__ = {**command.__annotations__, "trust": Trust}
        guarded.reads_addresses = True  # type: ignore[attr-defined]
        return guarded

    return decorated


def refuse_addresses(app: typer.Typer, before: str = "turngate") -> None:
    """Have every command of ``app`` refuse an address where it needs a file or folder of this machine."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            named = [name for name in (before, group.typer_instance.info.name) if isinstance(name, str)]
            refuse_addresses(group.typer_instance, " ".join(named))
    for declared in app.registered_commands:
        if declared.callback is not None:
            name = declared.name or declared.callback.__name__.replace("_", "-")
            declared.callback = _with_paths_alone(declared.callback, f"{before} {name}")


def _with_paths_alone(command: Callable[..., None], name: str) -> Callable[..., None]:
    reads = RUNS if getattr(command, "reads_addresses", False) else ()

    @functools.wraps(command)
    def refusing(**options: object) -> None:
        for option, value in options.items():
            for path in value if isinstance(value, list) else [value]:
                is_path = isinstance(path, Path) or (isinstance(path, str) and option in (*RUNS, "folder"))
                if is_path and option not in reads and (address := _address_of(path)):
                    raise ConfigError(
                        f"{name} takes no address: name a file or folder of this machine, not '{address}'"
                    )
        command(**options)

    return refusing


@contextmanager
def _copies_of(options: Mapping[str, object], *, weights: bool) -> Iterator[dict[str, object]]:
    """The options, with the folder of a copy for each address."""
    with ExitStack() as opened:

        def local(value: object) -> object:
            address = _address_of(value)
            if address is None:
                return value
            from turngate.agents.gguf_file import cache_folder
            from turngate.store.remote.run_copy import open_copy

            folder = opened.enter_context(open_copy(address, cache_folder() / COPIES, weights=weights))
            return str(folder) if isinstance(value, str) else folder

        yield {
            name: value if name not in RUNS else list(map(local, value)) if isinstance(value, list) else local(value)
            for name, value in options.items()
        }


def _address_of(value: object) -> str | None:
    """``address_of``, whose package is imported only for what may be an address."""
    if not (isinstance(value, str | Path) and ":/" in str(value)):
        return None
    from turngate.store.remote.object_store import address_of

    return address_of(value)
