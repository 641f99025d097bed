"""Where the runs of a config are kept: in a folder of this machine, or in a store that ``folder`` names by its address.

A run that is kept in a store is made in ``runs/PROTOCOL/…`` of the current folder and mirrored from there. That folder
has the same relative path on each machine, so what a stage says of the model before it is true on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.store.remote.object_store import address_of, local_path_of
from turngate.store.remote.run_mirror import RunMirror

WORK = Path("runs")
"""Folder below which runs are made that are kept in a store."""


def keep_here() -> None:
    """What a run does with finished work that is kept in its folder: nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """How a run meets the store that it is kept in; ``settings`` are those of the run in its folder on this machine."""

    settings: Config
    fetch: Callable[[], None] = keep_here
    """Before the run is looked at: see ``RunMirror.fetch``."""
    claim: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around its work: see ``RunMirror.claim``."""
    commit: Callable[[], None] = keep_here
    """Whenever something is finished: see ``RunMirror.commit``."""


def remote_folder(settings: Config, console: Console, *, jobs: int = 1) -> RemoteFolder:
    """The store of a run; one that does nothing where ``folder`` is a path.

    Raises MissingExtra, and ConfigError for an address that cannot be opened, for several ``jobs``, whose processes
    finish things at different times, and for a learner whose checkpoints several nodes write. Sends nothing.
    """
    address = address_of(settings.folder)
    if address is None:
        return RemoteFolder(settings=settings)
    if jobs > 1:
        raise ConfigError(
            f"--jobs {jobs} cannot be used with --folder {address}: a run that is kept in a store is made by one "
            "process; leave --jobs out"
        )

    if settings.cluster is not None and settings.learner.has_processes:
        raise ConfigError(
            f"folder = '{address}' cannot be used with learner.type \"{settings.learner.type}\" in a cluster, whose "
            "processes write their parts of a checkpoint on their own nodes; name a folder that all nodes see"
        )

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    folder = WORK / local_path_of(address)
    mirror = RunMirror(f"{address}/{settings.name}", (folder / settings.name).absolute(), say)
    local = settings.model_copy(update={"folder": folder})
    return RemoteFolder(settings=local, fetch=mirror.fetch, claim=mirror.claim, commit=mirror.commit)


def refuse_address(folder: Path) -> None:
    """Raise ConfigError for an address, where a run needs a folder of this machine."""
    if address := address_of(folder):
        raise ConfigError(f"folder = '{address}': only turngate train takes an address; write the path of a folder")
