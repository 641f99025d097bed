"""Where podman's service differs from Docker's daemon, though both speak Docker's language.

Podman reads the filter of system calls from a file, so its service has to run on this machine. For a memory file system
of a container it takes no bound on the number of files, and no owner; so each is a *volume* here, which podman mounts
with every option that the kernel has, and which is removed after its container. Podman's own memory file systems have
no bound (``/run``, ``/var/tmp``): others that cannot be written cover them. The machine's host names are covered too.

For five minutes after each command podman keeps two small processes (``exit_command_delay`` in ``containers.conf``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from turngate.envs.scratch import Scratch

_COVERS = dict.fromkeys(("/run", "/var/tmp"), "ro,nosuid,nodev,noexec,size=4096,mode=0555")
_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"


Mounts: TypeAlias = tuple[dict[str, str], dict[str, dict[str, str]]]
"""What a container is given as ``tmpfs`` and as ``volumes``."""


class Engine:
    """Docker's daemon. ``filter``: how it is told of the profile."""

    file_bound = "the inodes of each memory file system"

    def __init__(self, client: Any, profile: str, labels: Mapping[str, str]) -> None:
        self._client, self.filter, self._labels = client, profile, dict(labels)

    def mount(self, name: str, folders: Mapping[str, tuple[int, str]]) -> Mounts:
        """What the container is given as ``tmpfs`` and as ``volumes`` for folders in memory.

        ``folders``: path → bytes, and the options of the mount besides.
        """
        return {path: f"{options},size={size_bytes}" for path, (size_bytes, options) in folders.items()}, {}

    def unmount(self, name: str) -> None:
        """Remove what ``mount`` made, after the container. Safe to repeat."""

    def close(self) -> None:
        """Remove what the engine itself needed."""


class Podman(Engine):
    """Podman's service."""

    file_bound = "the inodes of each memory volume"

    def __init__(self, client: Any, profile: str, labels: Mapping[str, str]) -> None:
        self._own = Scratch("podman")
        for name, text in (("profile", profile), ("hosts", _HOSTS)):
            (self._own.path / name).write_text(text)
            (self._own.path / name).chmod(0o644)
        super().__init__(client, f"{self._own.path}/profile", labels)
        self._volumes: dict[str, list[Any]] = {}

    def mount(self, name: str, folders: Mapping[str, tuple[int, str]]) -> Mounts:
        """See ``Engine.mount``."""
        made, page_bytes = self._volumes.setdefault(name, []), os.sysconf("SC_PAGE_SIZE")
        volumes = {f"{self._own.path}/hosts": {"bind": "/etc/hosts", "mode": "ro"}}
        for path, (size_bytes, options) in folders.items():
            blocks = -(-size_bytes // page_bytes)  # podman would take ``size`` for a quota of its disk
            mount = {"type": "tmpfs", "device": "tmpfs", "o": f"{options},nr_blocks={blocks}"}
            volume = self._client.volumes.create(name + path.replace("/", "-"), driver_opts=mount, labels=self._labels)
            made.append(volume)
            volumes[volume.name] = {"bind": path, "mode": "nocopy"}
        return dict(_COVERS), volumes

    def unmount(self, name: str) -> None:
        """See ``Engine.unmount``."""
        for volume in self._volumes.pop(name, ()):
            volume.remove(force=True)

    def close(self) -> None:
        """See ``Engine.close``."""
        self._own.close()
