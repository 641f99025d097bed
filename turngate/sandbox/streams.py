"""Output of a command as it arrives: the beginning and the end are kept, the bytes between are only counted."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from typing import Protocol

CHUNK = 1 << 16  # what a pipe holds


class HeadTail:
    """Keeps the beginning and the end of a byte stream, ``limit`` bytes in all (up to twice that for a moment)."""

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
        """How many bytes between the kept beginning and end were dropped."""
        return max(0, self._total - self._head_bytes - self._tail_bytes)

    def remove(self, marker: bytes) -> bool:
        """Remove the last ``marker`` from the kept bytes; whether there was one."""
        for part in (self._tail, self._head):
            at = part.rfind(marker)
            if at >= 0:
                del part[at : at + len(marker)]
                self._total -= len(marker)
                return True
        return False

    def content(self) -> bytes:
        """The kept bytes; a line in their middle says how many bytes were dropped, if any."""
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
    """Reads several pipes, each into its own sink, and waits for one more file (``watched``) to become ready."""

    def __init__(self, sinks: Mapping[int, StreamSink], watched: int) -> None:
        self._sinks, self._poll = dict(sinks), select.poll()
        for fd in self._sinks:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        self._poll.register(watched, select.POLLIN)
        self._watched = watched

    def wait(self, limit_s: float) -> bool:
        """Read what arrives within ``limit_s`` at most; whether the watched file is ready."""
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
