"""What a command writes, kept as its beginning and its end; the middle is counted and forgotten while it streams."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from typing import Protocol

CHUNK = 1 << 16  # what a pipe holds


class HeadTail:
    """A byte stream of any length in ``limit`` bytes of memory (twice that for a moment)."""

    def __init__(self, limit: int) -> None:
        self._head_bytes = limit - limit // 2
        self._tail_bytes = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._tail_bytes:
            self._tail[:] = data[len(data) - self._tail_bytes :]
        elif data:
            self._tail += data
            if len(self._tail) > 2 * self._tail_bytes:
                del self._tail[: -self._tail_bytes]

    @property
    def left_out(self) -> int:
        """How many bytes of the middle are missing."""
        return max(0, self._total - self._head_bytes - self._tail_bytes)

    def remove(self, marker: bytes) -> bool:
        """Take a marker out of what came last; whether it was there."""
        for part in (self._tail, self._head):
            at = part.rfind(marker)
            if at >= 0:
                del part[at : at + len(marker)]
                self._total -= len(marker)
                return True
        return False

    def content(self) -> bytes:
        """What is kept; where something is missing, a line says how much."""
        if not self.left_out:
            return bytes(self._head + self._tail)
        tail = self._tail[-self._tail_bytes :] if self._tail_bytes else b""
        return bytes(self._head) + f"\n[{self.left_out} bytes left out]\n".encode() + bytes(tail)


class StreamSink(Protocol):
    """Takes a stream piece by piece."""

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        ...


class Streams:
    """Several pipes, each read into its own sink, and one more file that is only waited for."""

    def __init__(self, sinks: Mapping[int, StreamSink], watched: int) -> None:
        self._sinks, self._poll = dict(sinks), select.poll()
        for fd in self._sinks:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        self._poll.register(watched, select.POLLIN)
        self._watched = watched

    def wait(self, limit_s: float) -> bool:
        """Read for at most ``limit_s`` what comes; whether the watched file is ready."""
        ready = [fd for fd, _event in self._poll.poll(max(0, int(limit_s * 1000) + 1))]
        for fd in ready:
            if fd in self._sinks and self._read(fd) == b"":
                self._poll.unregister(fd)
        return self._watched in ready

    def drain(self) -> None:
        """Read all that was written up to now."""
        for fd in self._sinks:
            while self._read(fd):
                pass

    def _read(self, fd: int) -> bytes | None:
        """One piece; nothing at the end of the stream, None if there is nothing now."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return None
        self._sinks[fd].feed(data)
        return data
