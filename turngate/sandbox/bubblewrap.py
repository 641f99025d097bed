"""Sandboxes of Linux namespaces, made by bubblewrap: the default. They start in milliseconds, without a daemon.

Three processes stand between the library and a command (see ``launcher.py``, ``supervisor.py``): one *launcher* for the
whole back end, one *supervisor* per sandbox, and bubblewrap itself per command. A sandbox is a file system that its
supervisor mounts, with a host name, IPC and a network of its own that leads nowhere; each command gets fresh processes
in it, a read-only system, no capabilities, no new privileges, a system-call filter (``seccomp.py``) and limits.

How each limit is enforced: resource limits (rlimits) bound processes, open files and the address space of each process;
the size of the sandbox's file system, which lies in memory, bounds files and their bytes; a control group bounds the
memory of all processes together, where one can be made (``Bubblewrap.memory_bound`` says which limit holds here).

Copy-on-write: a snapshot copies only what a sandbox changed, and a new sandbox is an overlay on the snapshot. Where
overlays are not allowed (as a rule before Linux 6.6), sandboxes and snapshots are full copies; ``Bubblewrap.storage``
says which of the two is used.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Literal

from turngate.errors import ConfigError, DataError, EnvError
from turngate.sandbox import messages, seccomp
from turngate.sandbox.base import Backend, FolderSnapshot, Path_, ResourceLimits
from turngate.sandbox.bubblewrap_sandbox import BubblewrapSandbox, Layer, Layers
from turngate.sandbox.cgroups import ControlGroup, ControlGroups, open_groups
from turngate.sandbox.confinement import real_places, write_settings
from turngate.sandbox.launcher import LAUNCH
from turngate.sandbox.mounts import FOLDER_MODE
from turngate.sandbox.trees import copy_tree

INSTALL = "apt-get install -y bubblewrap"
OUTSIDE_UID = 1_900_000_000
"""User id of sandboxes on the host if the library runs as root: a number that no user has."""
SPARE = 4
"""How many supervisors are started ahead of need, so that a sandbox opens at once; each serves one sandbox."""
CLOSE_S = 10.0
_LAUNCHER_S = 0.5

_log = logging.getLogger(__name__)


class Bubblewrap(Backend):
    """The back end. Its helper process and its folder of snapshots (the store) exist until ``close``.

    ``shown``: further host paths that commands can read, as path inside → path on the host, for instance
    ``{"/opt/python": sys.base_prefix}``. A link at the host's path leads there, because programs look for their
    libraries where they were built. ``store``: the folder in which the store is made (default: the system's temporary
    folder). ``storage``: ``overlay``, ``copy``, or ``auto`` for overlays where they work. ``groups``: ``auto`` uses
    control groups where they can be made, ``require`` fails without them, ``off`` uses none.

    Raises ConfigError if bubblewrap is not installed, or if this machine does not let it make a sandbox.
    """

    name = "bubblewrap"

    def __init__(
        self,
        limits: ResourceLimits | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        store: Path_ | None = None,
        storage: Literal["auto", "overlay", "copy"] = "auto",
        groups: Literal["auto", "require", "off"] = "auto",
    ) -> None:
        bwrap = _find()
        self.limits = limits or ResourceLimits()
        self._uid = OUTSIDE_UID if os.geteuid() == 0 else None
        self._pid, self._lock, self._closed = os.getpid(), threading.RLock(), False  # a collected layer locks again
        self._names = count()
        self.sandboxes: set[BubblewrapSandbox] = set()  # kept, so that sandboxes left open are closed here
        self._spare: deque[tuple[socket.socket, ControlGroup | None]] = deque()
        self._store = Path(os.path.realpath(tempfile.mkdtemp(prefix="turngate-sandbox-", dir=store)))
        try:
            plan = self._prepare(bwrap, real_places(shown or {}))
            self.groups: ControlGroups | None = open_groups(self.limits, groups)
            self._channel, self._process = _start_launcher()
            self.storage = self._greet(plan, storage)
            self._try()
        except BaseException:
            self.close()
            raise

    @property
    def memory_bound(self) -> str:
        """How the memory of a sandbox is bounded on this machine, in words."""
        each = f"{self.limits.memory_bytes} bytes for each of {self.limits.processes} processes"
        return each if self.groups is None else f"{each}, and for all together ({self.groups.kind})"

    def open(self, source: Path_ | FolderSnapshot | None = None) -> BubblewrapSandbox:
        """See ``Backend.open``. Raises EnvError if the sandbox cannot be made."""
        if self._closed:
            raise EnvError("the sandbox back end is closed; open a new one")
        layers: tuple[Layer, ...] = ()
        if isinstance(source, Layers):
            if source.store != str(self._store):
                raise ConfigError("this snapshot belongs to another back end; open it with the one that made it")
            layers = source.layers
        elif isinstance(source, FolderSnapshot):
            raise ConfigError(
                f"a {type(source).__name__} cannot be opened by bubblewrap; use the back end that made it"
            )
        elif source is not None:
            layers = self.keep(source).layers
        return BubblewrapSandbox(self, layers)

    def keep(self, folder: Path_) -> Layers:
        """See ``Backend.keep``. Raises DataError if the folder cannot be read."""
        if not os.path.isdir(folder):
            raise DataError(folder, "is no folder; name the folder that /work shall begin with")
        layer = self.new_layer()
        path = self._store / "layers" / layer.name
        try:
            path.mkdir()
            self._give(path)
            copy_tree(os.fspath(folder), str(path / "work"), owner=self._uid)
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise DataError(folder, f"cannot be copied into a sandbox: {error}") from error
        return Layers(str(self._store), (layer,))

    def close(self) -> None:
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        for sandbox in list(self.sandboxes):
            sandbox.close()
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)  # None: its start failed
        if process is not None:
            self._channel.close()
            try:
                process.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                _log.warning("the process that starts the sandboxes did not end within %g s and is killed", CLOSE_S)
                process.kill()
                process.wait()
        shutil.rmtree(self._store, ignore_errors=True)  # the launcher has removed it, unless its start failed
        for supervisor, group in self._spare:
            _leave(supervisor, group)
        groups: ControlGroups | None = getattr(self, "groups", None)
        if groups is not None:
            groups.close()

    # --- what its sandboxes use ---------------------------------------------------------------------------------------

    def new_layer(self) -> Layer:
        """A new name for a folder of the store, which is removed when nothing refers to the layer any more."""
        layer = Layer(str(next(self._names)))
        weakref.finalize(layer, self._forget, layer.name).atexit = False
        return layer

    def enter(
        self, sandbox: BubblewrapSandbox, layers: Sequence[Layer]
    ) -> tuple[socket.socket, int, ControlGroup | None]:
        """Give a sandbox its supervisor: the channel to it, a file that is ready once it has ended, and its group."""
        names = [layer.name for layer in layers]
        while True:
            with self._lock:
                if self._closed:
                    raise EnvError("the sandbox back end is closed; open a new one")
                if os.getpid() != self._pid:
                    raise EnvError("the sandbox back end was made by another process; make one in each process")
                was_spare = bool(self._spare)
                supervisor, group = self._spare.popleft() if was_spare else self._make_supervisor()
                with suppress(OSError):  # it has ended; the wait for its first answer reports that
                    messages.send(supervisor, {"layers": names})
                self.sandboxes.add(sandbox)
                self._fill()  # while that one works
            try:
                return supervisor, _welcome(supervisor), group
            except EnvError:
                _leave(supervisor, group)
                if not was_spare:
                    raise

    def _fill(self) -> None:
        while len(self._spare) < SPARE:
            self._spare.append(self._make_supervisor())

    def _make_supervisor(self) -> tuple[socket.socket, ControlGroup | None]:
        """Ask the launcher for a supervisor and do not wait for it: the channel to it, and its group."""
        group = self.groups.make() if self.groups else None
        ours, theirs = messages.pair()
        try:
            messages.send(self._channel, {"do": "open"}, [theirs.fileno(), *(group.entrances if group else ())])
        except OSError as error:
            _leave(ours, group)
            raise EnvError(f"the process that starts the sandboxes has ended ({error}); open a new back end") from error
        finally:
            theirs.close()
        return ours, group

    def works(self) -> bool:
        """Whether the launcher is running. Its supervisors end with it, a moment before its end can be seen here."""
        try:
            self._process.wait(_LAUNCHER_S)
        except subprocess.TimeoutExpired:
            return not self._closed
        return False

    def state_of(self, layers: Sequence[Layer]) -> Layers:
        """A snapshot of these layers."""
        return Layers(str(self._store), tuple(layers))

    def _give(self, path: Path) -> None:
        if self._uid is not None:
            os.chown(path, self._uid, self._uid, follow_symlinks=False)

    def _forget(self, name: str) -> None:
        with self._lock:
            if not self._closed and os.getpid() == self._pid:
                with suppress(OSError):  # the launcher is gone, and with it the store
                    messages.send(self._channel, {"do": "forget", "layer": name})

    # --- how it starts ------------------------------------------------------------------------------------------------

    def _prepare(self, bwrap: str, shown: Mapping[str, str]) -> dict[str, Any]:
        """Write the files of the store, and return what the launcher has to know: the fields of ``MountPlan``."""
        store = self._store
        store.chmod(0o711)
        write_settings(store / "etc")
        (store / "filter").write_bytes(seccomp.program())
        (store / "filter").chmod(0o644)
        empty = store / "layers" / "empty" / "work"
        empty.mkdir(parents=True)
        empty.chmod(FOLDER_MODE)
        (store / "private").mkdir()
        (store / "root").mkdir()
        for path in (store, *store.rglob("*")):
            self._give(path)
        limits = asdict(self.limits)
        return {
            "store": str(store),
            "bwrap": bwrap,
            "filter": str(store / "filter"),
            "shown": dict(shown),
            "limits": limits,
            "overlay": False,
        }

    def _greet(self, plan: dict[str, Any], storage: str) -> str:
        messages.send(self._channel, {"plan": plan, "uid": self._uid, "storage": storage})
        try:
            answer, _files = messages.receive(self._channel)
        except (EOFError, ConnectionError):
            raise EnvError("the process that starts the sandboxes ended at once; its message is on stderr") from None
        if "error" in answer:
            raise ConfigError(_no_namespaces(answer["error"]))
        if storage == "overlay" and not answer["overlay"]:
            raise ConfigError(f"storage is 'overlay', but this machine offers {answer['storage']}; use 'auto'")
        self.overlay = bool(answer["overlay"])
        return str(answer["storage"])

    def _try(self) -> None:
        """Run one command, so that a machine on which no sandbox works says so when the back end opens."""
        try:
            with self.open() as sandbox:
                result = sandbox.run(["/bin/true"], deadline_s=30)
        except EnvError as error:
            raise ConfigError(_no_namespaces(str(error))) from error
        if result.exit != 0:
            raise ConfigError(f"a sandbox cannot run /bin/true: {result.text().strip()!r}, exit status {result.exit}")


def _find() -> str:
    if not sys.platform.startswith("linux"):
        raise ConfigError(f"bubblewrap needs Linux, and this is '{sys.platform}'; use the Docker back end")
    path = shutil.which("bwrap")
    if path is None:
        raise ConfigError(f"bubblewrap ('bwrap') is not installed; run: {INSTALL}")
    return os.path.realpath(path)


def _start_launcher() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = messages.pair()
    with theirs:
        package = Path(__file__).parents[1]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCH, str(package), str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    return ours, process


def _leave(supervisor: socket.socket, group: ControlGroup | None) -> None:
    supervisor.close()  # the supervisor ends
    if group is not None:
        group.close()


def _welcome(supervisor: socket.socket) -> int:
    try:
        answer, files = messages.receive(supervisor)
    except (EOFError, ConnectionError):
        raise EnvError("a sandbox ended as it started; the message of its supervisor process is on stderr") from None
    if "error" in answer:
        raise EnvError(f"a sandbox could not be made: {answer['error']}")
    return files[0]


def _no_namespaces(problem: str) -> str:
    return (
        f"this machine does not let bubblewrap make a sandbox: {problem}. Unprivileged user namespaces must be allowed "
        "(sysctl user.max_user_namespaces above 0; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a "
        "container --security-opt seccomp=unconfined --security-opt systempaths=unconfined), or use 'docker'"
    )
