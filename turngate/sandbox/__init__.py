"""Sandboxes: where an agent's commands run. ``base`` says what one is; each back end is a module.

``open_backend`` takes the one that is asked for or says what is missing. It never takes another one instead.
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
    """The back end ``bubblewrap``, ``docker`` or ``local``. ``settings``: see its class.

    Raises UnknownName for another name, MissingExtra or ConfigError (with the line that installs it) if it cannot work
    on this machine.
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
