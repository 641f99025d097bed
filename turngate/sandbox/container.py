"""One Docker sandbox: a container, its supervisor, and the commands in it."""

from __future__ import annotations

import os
import select
import tarfile
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

from turngate.errors import EnvError, MissingExtra
from turngate.sandbox.base import (
    ENVIRONMENT,
    FOLDERS,
    TMP,
    WORK,
    CommandResult,
    Entry,
    FolderSnapshot,
    KilledBy,
    Path_,
    ResourceLimits,
    SandboxFileError,
    check_command,
    in_folders,
    unstarted,
)
from turngate.sandbox.digests import digest_archive
from turngate.sandbox.docker_exec import ContainerSupervisor, Exec
from turngate.sandbox.managed import ManagedSandbox, blamed
from turngate.sandbox.session import REPORT, START_S
from turngate.sandbox.streams import HeadTail, Streams, StreamSink

FILE_S = 60.0  # for reading, writing and copying files
_HEADS_BYTES = 2048  # of each file in a tar stream, besides its content
_TAR_DONE = (0, 1)  # 1: a file changed while it was read
_REAL = 'path=$(realpath -- "$1") || exit 66; case $path in "$2"|"$2"/*) ;; *) exit 67;; esac; '


def sdk() -> Any:
    """The Python package ``docker``. Raises MissingExtra if it is not installed."""
    try:
        import docker  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("docker", "docker") from None
    return docker


@dataclass(frozen=True, slots=True)
class Archive(FolderSnapshot):
    """A snapshot: the folders of a sandbox as one tar file, removed when nothing refers to it any more."""

    file: IO[bytes]


class ContainerBackend(Protocol):
    """The methods that a container and its sandbox need of the back end that made them, ``Docker``."""

    limits: ResourceLimits
    sandboxes: set[DockerSandbox]

    @property
    def api(self) -> Any: ...

    def open(self, source: Path_ | FolderSnapshot | None = None) -> DockerSandbox: ...

    def create(self) -> tuple[Any, str]: ...

    def remove(self, name: str) -> None: ...

    def works(self) -> bool: ...


class Container:
    """A running container with its supervisor; ``user`` is the user id of the agent's commands in it."""

    def __init__(self, backend: ContainerBackend) -> None:
        try:
            self.container, self.user = backend.create()
        except sdk().errors.APIError as error:
            raise EnvError(f"Docker could not start a container: {error.explanation or error}") from error
        self._backend, self.api, self.id = backend, backend.api, self.container.id
        try:
            self.supervisor = ContainerSupervisor(self.api, self.id)
            self.supervisor.mark()
        except BaseException:
            backend.remove(self.container.name)
            raise

    def start(self, argv: Sequence[str], cwd: str = "/", env: Mapping[str, str] | None = None) -> Exec:
        """Start a process as the agent's user. Raises EnvError if Docker cannot start it."""
        try:
            return Exec(self.api, self.id, argv, user=self.user, cwd=cwd, env=dict(ENVIRONMENT) | dict(env or {}))
        except (sdk().errors.DockerException, OSError) as error:
            raise EnvError(f"Docker could not start a command: {error}") from error

    def close(self) -> None:
        """Remove the container with everything in it."""
        try:
            self._backend.remove(self.container.name)
        finally:
            self.supervisor.close()


class DockerSandbox(ManagedSandbox):
    """A sandbox in a container of its own."""

    def __init__(self, backend: ContainerBackend, container: Container) -> None:
        super().__init__(backend.limits, backend.sandboxes.discard)
        self._backend, self.container, self._killed = backend, container, 0
        self.shells: set[int] = set()

    @blamed
    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        cwd: str = WORK,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        check_command(argv, deadline_s)
        if (refused := unstarted(argv)) is not None:
            return refused
        folder = os.path.join(WORK, cwd)
        enter = ["/bin/sh", "-c", 'cd -- "$0" || exit 125; exec "$@"', folder, *argv]
        result = self._exec(enter, deadline_s, self.limits.output_bytes, stdin, env, ours=False)
        if result.exit == 125 and b"cd:" in result.stderr:
            raise SandboxFileError(f"Can't chdir to {folder}; choose a folder that exists")
        return result

    def _exec(
        self,
        argv: Sequence[str],
        deadline_s: float,
        output_bytes: int,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        *,
        ours: bool = True,
    ) -> CommandResult:
        """Run a program to its end. ``ours``: it is one of the library's helpers and not the agent's."""
        self._check_open()
        start_s = time.monotonic()
        mark = self.container.supervisor.mark()
        process = self.container.start(argv, env=env)
        self._acted = self._acted or not ours
        try:
            process.feed(stdin)
            out, err = HeadTail(output_bytes), HeadTail(output_bytes)
            streams = Streams({process.stdout: out, process.stderr: err}, process.ended)
            ended = _wait(streams, start_s + deadline_s)
            kills = self.container.supervisor.reap(mark, tuple(self.shells))
            if not ended and not _wait(streams, time.monotonic() + FILE_S):
                raise EnvError("a command in a container could not be ended")
            streams.drain()
            code = process.exit_code() if ended else 137
        finally:
            process.close()
        killed = None if ended else KilledBy.DEADLINE
        if kills > self._killed and code != 0:
            killed = killed or KilledBy.MEMORY
        self._killed = kills
        return CommandResult(
            exit=code,
            stdout=out.content(),
            stderr=err.content(),
            truncated=bool(out.left_out or err.left_out),
            killed_by=killed,
            time_s=time.monotonic() - start_s,
        )

    def _backend_works(self) -> bool:
        return self._backend.works()

    def _shell(self, argv: Sequence[str]) -> ContainerShell:
        self._acted = True
        return ContainerShell(self, argv)

    @blamed
    def read(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        script = _REAL + 'test -f "$path" || exit 68; head -c "$3" -- "$path"'
        content = self._on_file(path, script, str(max_bytes + 1), output_bytes=2 * (max_bytes + 1)).stdout
        if len(content) > max_bytes:
            raise SandboxFileError(f"'{path}' has more than {max_bytes} bytes; read a part of it with a command")
        return content

    @blamed
    def write(self, path: str, content: bytes | str, *, executable: bool = False) -> None:
        data = content.encode() if isinstance(content, str) else content
        script = (
            'path=$(realpath -m -- "$1") || exit 66; case $path in "$2"/*) ;; *) exit 67;; esac; '
            '{ test ! -e "$path" || test -f "$path"; } || exit 68; mkdir -p -- "${path%/*}" && '
            'cat > "$path" && chmod "$3" -- "$path" || { echo "disk full?" >&2; exit 69; }'
        )
        try:
            self._on_file(path, script, "755" if executable else "644", stdin=data)
        except SandboxFileError as error:  # with an engine's own words in it, if a full disk cut its stream off
            raise SandboxFileError(f"cannot be written: {error}") from error

    @blamed
    def list(self, path: str = WORK) -> tuple[Entry, ...]:
        script = _REAL + 'test -d "$path" || exit 68; find "$path" -mindepth 1 -maxdepth 1 -printf "%y %s %f\\0"'
        found = self._on_file(path, script, "", output_bytes=64 << 20).stdout.decode(errors="surrogateescape")
        kinds: dict[str, Literal["file", "folder", "link", "other"]] = {"f": "file", "d": "folder", "l": "link"}
        entries = [line.split(" ", 2) for line in found.split("\0")[:-1]]
        try:
            return tuple(
                Entry(name=name, kind=kinds.get(kind, "other"), size_bytes=int(size))
                for kind, size, name in sorted(entries, key=lambda entry: entry[2])
            )
        except (ValueError, IndexError):  # a program of the agent can write into the listing's stream
            raise SandboxFileError(f"'{path}': what lies in it cannot be read") from None

    @blamed
    def tree(self, path: str = WORK) -> Mapping[str, str]:
        """See ``Sandbox.tree``: from a tar stream, because an image need not have anything that makes digests."""
        self._check_open()
        name, below = in_folders(path)
        script = _REAL + 'test -d "$path" || exit 68; exec tar -C "$path" -cf - .'
        argv = ["/bin/sh", "-c", script, "sh", os.path.join(FOLDERS[name], below), FOLDERS[name]]
        with tempfile.TemporaryFile(prefix="turngate-sandbox-") as file:
            process = self.container.start(argv)
            errors = HeadTail(1 << 12)
            code = self._carry(process, {process.stdout: self._file_sink(file), process.stderr: errors})
            if code not in _TAR_DONE:
                raise _no_file(path, code, errors.content())
            file.seek(0)
            try:
                return digest_archive(file)
            except (tarfile.TarError, KeyError, ValueError, OSError) as error:  # the agent may disturb the archiver
                raise SandboxFileError(f"'{path}': what lies in it cannot be read: {error!r}") from error

    @blamed
    def snapshot(self) -> Archive:
        """See ``Sandbox.snapshot``. The folders are streamed into a file of the temporary folder."""
        file = tempfile.TemporaryFile(prefix="turngate-sandbox-")  # noqa: SIM115 (it lives as long as the snapshot)
        process = self.container.start(["tar", "-C", "/", "-cf", "-", "work", "tmp", "home/agent"])
        sink, errors = self._file_sink(file), HeadTail(1 << 12)
        try:
            _check_copied(self._carry(process, {process.stdout: sink, process.stderr: errors}), errors)
        except SandboxFileError as error:
            raise EnvError(f"the folders of a container cannot be copied: {error}") from error
        return Archive(file)

    def restore(self, archive: Archive) -> None:
        """Unpack a snapshot. For ``Docker.open``."""
        process = self.container.start(["tar", "-C", "/", "--no-same-owner", "-xpf", "-"])
        process.feed(_content(archive.file))
        errors = HeadTail(1 << 12)
        _check_copied(self._carry(process, {process.stdout: errors, process.stderr: errors}), errors)

    def fork(self) -> DockerSandbox:
        return self._backend.open(self.snapshot())

    def _release(self) -> None:
        self.container.close()

    def _file_sink(self, file: IO[bytes]) -> _FileSink:
        return _FileSink(file, 2 * self.limits.disk_bytes + _HEADS_BYTES * self.limits.files)

    def _carry(self, process: Exec, sinks: dict[int, StreamSink]) -> int:
        """Wait for a process that copies files: its exit status."""
        try:
            streams = Streams(sinks, process.ended)
            if not _wait(streams, time.monotonic() + FILE_S):
                raise EnvError(f"copying the folders of a container took longer than {FILE_S:g} s")
            streams.drain()
            return process.exit_code()
        finally:
            process.close()

    def _on_file(
        self, path: str, script: str, third: str, *, stdin: bytes = b"", output_bytes: int = 4096
    ) -> CommandResult:
        folder, below = in_folders(path)
        root = FOLDERS[folder]
        argv = ["/bin/sh", "-c", script, "sh", os.path.join(root, below), root, third]
        result = self._exec(argv, FILE_S, output_bytes, stdin)
        if result.exit != 0:
            raise _no_file(path, result.exit, result.stderr)
        return result


class ContainerShell:
    """The shell of a session in a container (see ``session.ShellProcess``). It reports through a named pipe in /tmp."""

    needs_marker = True

    def __init__(self, sandbox: DockerSandbox, argv: Sequence[str]) -> None:
        self._sandbox, container = sandbox, sandbox.container
        self._mark = container.supervisor.mark()
        pipe = f"{TMP}/.report-{uuid.uuid4().hex}"
        follow = 'until test -p "$0"; do sleep 0.01; done; exec cat "$0"'
        self._reports = container.start(["/bin/sh", "-c", follow, pipe])
        begin = 'mkfifo "$0" || exit; exec 9> "$0"; rm "$0"; echo $$ >&2; cd "$1"; shift; exec "$@"'
        words = [pipe, WORK, *[_numbered(word) for word in argv]]
        self._shell = container.start(["/bin/sh", "-c", begin, *words])
        self.stdin, self.stdout, self.stderr = self._shell.stdin, self._shell.stdout, self._shell.stderr
        self.report, self.watched = self._reports.stdout, self._shell.ended
        line, end_s = b"", time.monotonic() + START_S
        while not line.endswith(b"\n"):
            left_s = max(0.0, end_s - time.monotonic())
            byte = os.read(self.stderr, 1) if select.select([self.stderr], [], [], left_s)[0] else b""
            line += byte
            if not byte or (line.endswith(b"\n") and not line.strip().isdigit()):
                self.close()
                said = line.decode(errors="replace").strip() or "the image needs 'mkfifo' and 'cat', and room in /tmp"
                raise EnvError(f"the shell of a session could not be started: {said}")
        self.number = int(line)
        sandbox.shells.add(self.number)

    def ended(self) -> bool:
        return True  # the watched file is ready at the end, and only then

    def mark(self) -> int:
        return self._sandbox.container.supervisor.mark()

    def reap(self, mark: int, end_s: float) -> bool:
        self._sandbox.container.supervisor.reap(mark, tuple(self._sandbox.shells))
        return True

    def close(self) -> None:
        self._sandbox.shells.discard(getattr(self, "number", 0))
        self._sandbox.container.supervisor.reap(self._mark, tuple(self._sandbox.shells))
        self._shell.close()
        self._reports.close()


def _no_file(path: str, code: int, errors: bytes) -> SandboxFileError:
    problems = {67: "its links lead out of the sandbox's folders", 68: "it is not of the kind that was asked for"}
    said = errors.decode(errors="replace").strip()
    return SandboxFileError(f"'{path}': {problems.get(code) or said or 'there is no such file'}")


def _check_copied(code: int, errors: HeadTail) -> None:
    if code not in _TAR_DONE:
        raise EnvError(f"the folders of a container cannot be copied: {errors.content().decode(errors='replace')}")


class _FileSink:
    """Writes a stream into a file of at most ``room`` bytes.

    The bound is needed because the holes of a sparse file take no room in the sandbox, but are written out here.
    """

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file, self._room = file, room

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises SandboxFileError."""
        self._room -= len(data)
        if self._room < 0:
            raise SandboxFileError("the sandbox holds sparse files that are larger than its disk; remove them")
        self._file.write(data)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    content: bytes = file.read()
    return content


def _numbered(word: str) -> str:
    return "9" if word == REPORT else word


def _wait(streams: Streams, end_s: float) -> bool:
    """Whether the process ended by ``end_s``."""
    while (left_s := end_s - time.monotonic()) > 0:
        if streams.wait(left_s):
            return True
    return False
