"""A run that is kept in a store: made in a folder of this machine, and mirrored whenever something is finished.

1. ``fetch`` brings the folder to the newest state, or leaves it where it comes from that state and may be ahead of it.
2. ``claim`` makes this process the writer. Another one that works on the run is noticed by its heartbeat.
3. ``commit`` uploads what changed, then creates the next manifest. Without an answer the run goes on, and the next
   commit tries again.
4. At the end of the claim everything is uploaded, and the run is free for the next writer.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turngate.errors import ConfigError, RunError
from turngate.foreign import described
from turngate.store.files import locked, write_json_atomic
from turngate.store.folder import RunFolder
from turngate.store.remote.manifest import MANIFESTS, NOTHING, OBJECTS, Manifest, newest_manifest
from turngate.store.remote.object_store import ObjectStore
from turngate.store.remote.transfer import Uploads, download, object_name, with_newest

HEARTBEAT = "heartbeat.json"
HEARTBEAT_S = 5.0
SILENCE_S = 30.0
"""How long a writer that has not closed its run must show no heartbeat before another process takes over."""
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0
"""Pause after a failed commit, which doubles with each further one."""
END_S, STOP_S = 300.0, 15.0
"""How long the last commit is tried: at the end of the run, and after a signal or an error."""


class RunMirror:
    """The run at ``address`` and its ``folder`` on this machine. ``say`` prints a line.

    The constructor sends nothing. It raises MissingExtra, and ConfigError for an address that fsspec cannot open.
    """

    def __init__(self, address: str, folder: Path, say: Callable[[str], None]) -> None:
        self.address, self.run = address, RunFolder(folder)
        self._store, self._say = ObjectStore(address), say
        self._uploads = Uploads(self._store, self.run)
        self._writer = f"process {os.getpid()} on {socket.gethostname()}"
        self._own = {NOTHING.commit}  # commits that the folder comes from: two while it is not known which one counts
        self._retry_at_s = self._retry_s = 0.0
        self._is_over = False  # no further commit is tried

    def fetch(self) -> None:
        """Bring the folder to the newest state that was committed.

        A folder that comes from an older state is kept beside it under another name. Raises ConfigError where another
        process works on the run or the store does not answer, StoreError for what is damaged in it.
        """
        known = commits_of(self.run)

        def bring(newest: Manifest) -> None:
            if newest.writer:
                self._await_silence(newest)
            if newest.commit not in known and newest != NOTHING:
                with self._empty_folder() as temporary:
                    self._download(newest, temporary)

        with self._refusing():
            newest = with_newest(self._store, bring)
        self._own = {newest.commit}
        if newest != NOTHING:
            self._remember()

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Be the only writer in the block. At its end the rest is uploaded.

        Raises ConfigError where another process works on the run, or the store does not answer or cannot be written;
        RunError if the rest cannot be uploaded within ``END_S``.
        """
        with self._refusing():
            self._take()
        over = threading.Event()
        beating = threading.Thread(target=self._beat_until, args=(over,), daemon=True, name="turngate heartbeat")
        beating.start()
        try:
            yield
            self._close(END_S)
        except BaseException as error:
            if not self._is_over:
                try:
                    self._close(STOP_S)
                except RunError as problem:
                    error.add_note(str(problem))
            raise
        finally:
            over.set()
            beating.join(HEARTBEAT_S)

    def commit(self) -> None:
        """Upload what changed, if the store answers. Raises RunError if another process has taken the run over."""
        if time.monotonic() < self._retry_at_s:
            return
        try:
            self._put(self._writer)
        except OSError as error:
            self._retry_s = min(max(2 * self._retry_s, FIRST_RETRY_S), LONGEST_RETRY_S)
            self._retry_at_s = time.monotonic() + self._retry_s
            self._say(f"{self.address} does not answer, the run goes on in {self.run.path}: {described(error)}")
        else:
            if self._retry_s:
                self._say(f"{self.address} answers again: everything is uploaded")
            self._retry_s = 0.0

    # --- small parts --------------------------------------------------------------------------------------------------

    @contextmanager
    def _empty_folder(self) -> Iterator[Path]:
        """A folder beside that of the run, which no other process uses."""
        folder = self.run.path.with_name(f".{self.run.path.name}.fetch")
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, wait=False) as mine:
            if not mine:
                raise ConfigError(f"another process fetches '{self.address}'; wait until it has ended")
            for path in folder.iterdir():  # left by a process that was killed
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != ".lock":
                    path.unlink()
            yield folder

    def _download(self, newest: Manifest, temporary: Path) -> None:
        """Write a state into an empty folder, which then takes the place of the run's."""
        size = sum(file.size for file in newest.files.values())
        self._say(f"fetching {len(newest.files)} files, {size / 1e6:.1f} MB, of {self.address}")
        download(self._store, newest.files, temporary)
        if any(self.run.lasting_files()):
            kept = _free_name(self.run.path)
            self.run.path.rename(kept)
            self._say(f"{self.run.path} comes from an older state and was kept as {kept.name}")
        shutil.rmtree(self.run.path, ignore_errors=True)
        temporary.rename(self.run.path)

    def _take(self) -> None:
        newest = newest_manifest(self._store)
        if newest.commit not in self._own:
            raise ConfigError(f"'{self.address}' was changed by another process just now; {_OTHER}")
        self._beat(0)
        taken = newest.following(writer=self._writer, files=newest.files)
        if not self._create(taken, newest):
            raise ConfigError(f"another process began to work on '{self.address}' just now; {_OTHER}")
        parts = taken.parts
        stray = [object_name(name) for name in self._store.list_names(OBJECTS) if name not in parts]
        self._store.delete(stray)  # of an upload that was cut short

    def _await_silence(self, newest: Manifest) -> None:
        """Raise ConfigError if the heartbeat changes within ``SILENCE_S``: no clock of another machine is asked."""
        self._say(f"{newest.writer} did not close {self.address}; listening for {SILENCE_S:g} s")
        before, end_s = self._store.read([HEARTBEAT]), time.monotonic() + SILENCE_S
        while time.monotonic() < end_s:
            time.sleep(min(1.0, SILENCE_S / 4))
            if self._store.read([HEARTBEAT]) != before:
                raise ConfigError(f"{newest.writer} is working on '{self.address}'; {_OTHER}")

    def _put(self, writer: str) -> None:
        """Commit the folder as it is. Raises OSError, and RunError if another process has committed meanwhile."""
        newest = newest_manifest(self._store)
        if newest.commit not in self._own:
            raise self._lost(newest)
        files = self._uploads.upload(newest.parts)
        if (files, writer) == (newest.files, newest.writer):
            return
        following = newest.following(writer=writer, files=files)
        if not self._create(following, newest):
            raise self._lost(newest_manifest(self._store))
        with suppress(OSError):  # what stays is deleted by the next claim
            self._store.delete([object_name(part) for part in sorted(newest.parts - following.parts)])

    def _create(self, following: Manifest, newest: Manifest) -> bool:
        """Make ``following`` the newest state; returns whether it is that, and no other writer came first."""
        self._own = {newest.commit, following.commit}
        self._remember()  # before it exists: the process may be killed as soon as it does
        self._store.create(following.name, following.to_bytes())
        # Looked up, because a request that is sent twice may fail the second time, and because the name is free again
        # where another writer has gone far ahead.
        if newest_manifest(self._store).commit != following.commit:
            return False
        self._own = {following.commit}
        self._remember()
        with suppress(OSError):
            older = [name for name in self._store.list_names(MANIFESTS) if f"{MANIFESTS}/{name}" < following.name]
            self._store.delete([f"{MANIFESTS}/{name}" for name in older])
        return True

    def _close(self, limit_s: float) -> None:
        """Upload the rest and free the run; try for ``limit_s``."""
        end_s, pause_s = time.monotonic() + limit_s, FIRST_RETRY_S
        while True:
            try:
                self._put("")
                return
            except OSError as error:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    self._is_over = True
                    raise RunError(
                        f"not everything could be uploaded to '{self.address}' ({described(error)}); it lies in "
                        f"'{self.run.path}', and the same command uploads it"
                    ) from error
                if pause_s == FIRST_RETRY_S:
                    self._say(f"{self.address} does not answer; trying for {left_s:.0f} s: {described(error)}")
                time.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)

    def _lost(self, newest: Manifest) -> RunError:
        self._is_over = True
        by = f"by {newest.writer}" if newest.writer else "by another process" if newest != NOTHING else "and is gone"
        return RunError(
            f"'{self.address}' was changed {by} while this process worked on it; what was made here lies in "
            f"'{self.run.path}'; the same command goes on from what stands there now"
        )

    def _remember(self) -> None:
        write_json_atomic(self.run.stored, {"commits": sorted(self._own)})

    def _beat(self, number: int) -> None:
        self._store.write({HEARTBEAT: json.dumps({"writer": self._writer, "beat": number}).encode()})

    def _beat_until(self, over: threading.Event) -> None:
        number = 0
        while not over.wait(HEARTBEAT_S):
            number += 1
            with suppress(OSError):
                self._beat(number)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise an OSError of the block, before any work, as a ConfigError."""
        try:
            yield
        except FileNotFoundError as error:
            raise ConfigError(f"'{self.address}' cannot be used: {error}; make the bucket first") from error
        except OSError as error:
            raise ConfigError(f"'{self.address}' cannot be used: {described(error)}") from error


_OTHER = "wait until it has ended, or choose another --name"


def commits_of(run: RunFolder) -> set[str]:
    """The commits that a folder comes from; none if it comes from no store."""
    try:
        return set(map(str, json.loads(run.stored.read_text(encoding="utf-8"))["commits"]))
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _free_name(path: Path) -> Path:
    """``NAME.older-1``, or the first number that is free."""
    number = 1
    while (free := path.with_name(f"{path.name}.older-{number}")).exists():
        number += 1
    return free
