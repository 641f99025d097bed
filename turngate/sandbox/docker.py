"""Sandboxes that are Docker containers: for machines without user namespaces, and where commands need another system
than the host's.

One container per sandbox: no network, a read-only root, no capabilities, no new privileges, the system-call filter of
``seccomp.py``, limits of memory, processes and CPU, file systems in memory of bounded size for the folders that can be
written, and a user id of its own. Commands are started with ``docker exec``; ``docker_exec.py`` says how they are
ended. Containers can be started ahead of need (``warm``); each serves one sandbox.

The daemon is found as Docker's own tools find it (``DOCKER_HOST``), or through ``base_url``. A daemon that runs without
root is refused, because it cannot give a sandbox a user id of its own; so is podman's service, which does not bound the
number of files. Access to the daemon is as good as root on its machine; processes in a sandbox have none.

The image must be named so that it cannot change (an id ``sha256:…`` or ``name@sha256:…``), or be the path of a root
file system in a tar file, which is imported. It needs ``sh``, ``tar``, ``find``, ``xargs`` and ``realpath``, and
``bash`` for sessions. ``/work`` gets half of the bytes and of the files that a sandbox may have.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tarfile
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from turngate.errors import ConfigError, DataError, EnvError
from turngate.sandbox import seccomp
from turngate.sandbox.base import HOME, TMP, WORK, Backend, FolderSnapshot, Path_, ResourceLimits
from turngate.sandbox.container import Archive, Container, DockerSandbox, sdk
from turngate.sandbox.trees import MAX_DEPTH

INSTALL = "apt-get install -y docker.io (then start it: dockerd, as root), or set DOCKER_HOST or base_url"
LABEL = "turngate.sandbox"
_PATH = re.compile(r"^[/.~]|\.(tar|tgz|tar\.\w+)$")  # such a name means a file and not an image
_FIRST_UID = 1_900_000_001
_SHARES = {WORK: 4, TMP: 2, HOME: 1, "/dev/shm": 1}  # eighths of the disk
_FIRST_PROCESS = ["/bin/sh", "-c", "while :; do sleep 86400 & wait; done"]  # waiting, it reaps orphans


class Docker(Backend):
    """The back end. ``image``: see the module's text. ``shown``: further paths that commands can read, as path inside →
    path on the daemon's machine. ``warm``: how many containers are started ahead of need, so that a sandbox opens at
    once. ``cpus``: processor time of one sandbox, in cores.

    Raises MissingExtra without the Python package ``docker``, ConfigError without a daemon or without the image.
    """

    name = "docker"

    def __init__(
        self,
        limits: ResourceLimits | None = None,
        *,
        image: str | Path,
        shown: Mapping[str, str] | None = None,
        base_url: str | None = None,
        warm: int = 0,
        cpus: float = 1.0,
    ) -> None:
        self.limits = limits or ResourceLimits()
        self._shown, self._cpus, self._wanted = dict(shown or {}), cpus, warm
        self._lock, self._closed = threading.RLock(), False
        self._warm: deque[Container] = deque()
        self._filler: threading.Thread | None = None
        self.sandboxes: set[DockerSandbox] = set()  # kept, so that sandboxes left open are closed here
        self.run_id = uuid.uuid4().hex
        self._client = _connect(base_url)
        self._labels, self._filter = {LABEL: self.run_id}, json.dumps(seccomp.profile())
        try:
            _check_engine(self._client)
            self._image = self._find(image)
            self._fill()
        except BaseException:
            self._client.close()
            raise

    def open(self, source: Path_ | FolderSnapshot | None = None) -> DockerSandbox:
        if isinstance(source, FolderSnapshot) and not isinstance(source, Archive):
            raise ConfigError(f"a {type(source).__name__} cannot be opened by Docker; use the back end that made it")
        archive = source if source is None or isinstance(source, Archive) else self.keep(source)
        with self._lock:
            if self._closed:
                raise EnvError("the sandbox back end is closed; open a new one")
            container = self._warm.popleft() if self._warm else None
        sandbox = DockerSandbox(self, container or Container(self))
        with self._lock:
            self.sandboxes.add(sandbox)
        self._fill()
        if archive is not None:
            try:
                sandbox.restore(archive)
            except BaseException:
                sandbox.close()
                raise
        return sandbox

    def keep(self, folder: Path_) -> Archive:
        """See ``Backend.keep``. Raises DataError if the folder cannot be read."""
        if not os.path.isdir(folder):
            raise DataError(folder, "is no folder; name the folder that /work shall begin with")
        file = tempfile.TemporaryFile(prefix="turngate-sandbox-")  # noqa: SIM115 (it lives as long as the snapshot)
        try:
            with tarfile.open(fileobj=file, mode="w") as archive:
                archive.add(folder, "work", filter=_shallow)
        except (OSError, RecursionError) as error:
            file.close()
            raise DataError(folder, f"cannot be copied into a sandbox: {error}") from error
        return Archive(file)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._filler is not None:
            self._filler.join()
        for sandbox in list(self.sandboxes):
            sandbox.close()
        while self._warm:
            self._warm.popleft().close()
        self._client.close()

    def create(self) -> tuple[Any, str]:
        """A running container, and the user in it. For ``Container``."""
        uid = _FIRST_UID + uuid.uuid4().int % 90_000_000
        name = f"turngate-{uuid.uuid4().hex}"
        try:
            container = self._create(name, uid)
            container.start()
        except BaseException:
            self.remove(name)
            raise
        return container, f"{uid}:{uid}"

    def remove(self, name: str) -> None:
        """Remove a container with everything in it. Safe to repeat. For ``Container``."""
        with suppress(sdk().errors.NotFound):
            self.api.remove_container(name, force=True)

    def works(self) -> bool:
        """Whether the daemon answers. For ``DockerSandbox``."""
        try:
            return not self._closed and bool(self._client.ping())
        except (sdk().errors.DockerException, OSError):
            return False

    @property
    def api(self) -> Any:
        """The daemon's interface. For ``Container``."""
        return self._client.api

    def _create(self, name: str, uid: int) -> Any:
        limits = self.limits
        memory = limits.memory_bytes + limits.disk_bytes
        ulimits = {"nproc": limits.processes, "nofile": limits.open_files, "fsize": limits.disk_bytes, "core": 0}
        ulimits |= {"memlock": 0, "msgqueue": 0}
        volumes = {host: {"bind": inside, "mode": "ro"} for inside, host in self._shown.items()}
        return self._client.containers.create(
            self._image,
            _FIRST_PROCESS,
            name=name,
            entrypoint="",
            user="0",
            environment={},
            hostname="sandbox",
            working_dir="/",
            network_mode="none",
            ipc_mode="private",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=["KILL"],  # for the supervisor; the agent's user gets no capability of the container's
            security_opt=["no-new-privileges:true", f"seccomp={self._filter}"],
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=limits.processes + 16,
            nano_cpus=int(self._cpus * 1e9),
            tmpfs=self._folders(uid),
            volumes=volumes,
            ulimits=[{"Name": kind, "Soft": value, "Hard": value} for kind, value in ulimits.items()],
            labels=self._labels,
        )

    def _folders(self, uid: int) -> dict[str, str]:
        """Each folder that can be written → the mount options of its file system in memory."""
        folders = {}
        for path, share in _SHARES.items():
            size, files = (max(8, total * share // 8) for total in (self.limits.disk_bytes, self.limits.files))
            folders[path] = f"rw,exec,nosuid,nodev,nr_inodes={files},mode=0755,uid={uid},gid={uid},size={size}"
        return folders

    def _find(self, image: str | Path) -> str:
        if isinstance(image, Path) or _PATH.search(image):
            return self._import(Path(image).expanduser())
        if not re.search(r"(^|@)sha256:[0-9a-f]{64}$", image):
            raise ConfigError(
                f"the image '{image}' may change under the same name; name it by its digest, which this prints: docker "
                f"image inspect --format '{{{{.Id}}}}' {image}"
            )
        try:
            return str(self._client.images.get(image).id)
        except sdk().errors.ImageNotFound:
            raise ConfigError(f"the image '{image}' is not here; run: docker pull {image}") from None

    def _import(self, path: Path) -> str:
        if not path.is_file():
            what = f"is a folder; pack it: tar -C {path} -cf root.tar ." if path.is_dir() else "is no file"
            raise DataError(path, f"{what}; name a root file system in a tar file, or an image by its digest")
        try:
            answer = json.loads(self.api.import_image_from_file(str(path)).splitlines()[-1])
        except sdk().errors.APIError as error:
            raise DataError(path, f"cannot be imported: {error.explanation}") from error
        return str(answer["status"])

    def _fill(self) -> None:
        """Start containers ahead of need, in a thread of their own."""
        with self._lock:
            if not self._closed and self._wanted and (self._filler is None or not self._filler.is_alive()):
                self._filler = threading.Thread(target=self._refill, name="turngate-docker", daemon=True)
                self._filler.start()

    def _refill(self) -> None:
        while not self._closed and len(self._warm) < self._wanted:
            self._warm.append(Container(self))


def _shallow(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if member.name.count("/") > MAX_DEPTH:
        raise OSError(errno.ELOOP, f"the folder is nested deeper than {MAX_DEPTH}", member.name)
    return member


def _connect(base_url: str | None) -> Any:
    docker = sdk()
    try:
        client = docker.DockerClient(base_url=base_url) if base_url else docker.from_env()
        client.ping()
    except sdk().errors.DockerException as error:
        where = base_url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise ConfigError(f"no Docker daemon answers at '{where}' ({error}); run: {INSTALL}") from error
    return client


def _check_engine(client: Any) -> None:
    """Raises ConfigError for a daemon whose containers would not isolate a sandbox well enough."""
    info = client.info()
    if info.get("Rootless") or "name=rootless" in (info.get("SecurityOptions") or ()):
        raise ConfigError(
            "the daemon runs without root, so no sandbox can have a user of its own; name one that root has started "
            "(dockerd) by DOCKER_HOST or base_url"
        )
    parts = client.version().get("Components") or ()
    if any("podman" in str(part.get("Name", "")).lower() for part in parts):
        raise ConfigError(
            "podman's service answers, which does not bound the number of files of a sandbox; name a Docker daemon by "
            "DOCKER_HOST or base_url, or use 'bubblewrap'"
        )
