"""Sandboxes: where an agent's commands run. ``base`` defines the interface; each back end is a module.

``open_backend`` opens the back end that is asked for, or says what this machine lacks for it. It never falls back to
another one.
"""

from __future__ import annotations

from typing import Any

from turngate.errors import UnknownName
from turngate.sandbox.base import (
    Backend,
    CommandResult,
    Entry,
    FolderSnapshot,
    KilledBy,
    ResourceLimits,
    Sandbox,
    SandboxFileError,
    SandboxLost,
)

__all__ = [
    "Backend",
    "CommandResult",
    "Entry",
    "FolderSnapshot",
    "KilledBy",
    "ResourceLimits",
    "Sandbox",
    "SandboxFileError",
    "SandboxLost",
    "open_backend",
]


def open_backend(name: str = "bubblewrap", limits: ResourceLimits | None = None, **settings: object) -> Backend:
    """Open the back end ``bubblewrap``, ``docker`` or ``local``; ``settings`` are the arguments of its class.

    Raises UnknownName for another name, and MissingExtra or ConfigError (with the command that installs what is
    missing) if the back end cannot work on this machine.
    """
    chosen: Any = settings
    if name == "bubblewrap":
        from turngate.sandbox.bubblewrap import Bubblewrap

        return Bubblewrap(limits, **chosen)
    if name == "docker":
        from turngate.sandbox.docker import Docker

        return Docker(limits, **chosen)
    if name == "local":
        from turngate.sandbox.local import Local

        return Local(limits, **chosen)
    raise UnknownName("sandbox back end", name, ("bubblewrap", "docker", "local"))
