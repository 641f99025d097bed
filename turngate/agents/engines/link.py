"""Messages between this process and an engine's: JSON of any length over a socket, one request and one reply at a time.

Both processes import this module, and the engine's has none of turngate's dependencies, so it needs the standard
library alone.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""JSON whose keys depend on the request."""
_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 20


def send(channel: socket.socket, message: Message) -> None:
    """Send a message; waits. Raises OSError, also TimeoutError by the timeout of the socket."""
    channel.sendall(_framed(message))


def receive(channel: socket.socket) -> Message | None:
    """The next message; None where the other side has closed or died. Raises OSError as ``send``."""
    size = _LENGTH.size
    head = _exactly(channel, size)
    body = None if head is None else _exactly(channel, *_LENGTH.unpack(head))
    return None if body is None else json.loads(body)


async def ask(channel: socket.socket, message: Message) -> Message | None:
    """Send a message over a socket that does not block, and return the reply; None where the other side has died."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(channel, _framed(message))
    head = await _exactly_async(channel, _LENGTH.size)
    body = None if head is None else await _exactly_async(channel, *_LENGTH.unpack(head))
    return None if body is None else json.loads(body)


def _framed(message: Message) -> bytes:
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


def _exactly(channel: socket.socket, n: int) -> bytes | None:
    found = bytearray()
    while len(found) < n:
        part = channel.recv(min(n - len(found), _CHUNK))
        if not part:
            return None
        found += part
    return bytes(found)


async def _exactly_async(channel: socket.socket, n: int) -> bytes | None:
    found, loop = bytearray(), asyncio.get_running_loop()
    while len(found) < n:
        part = await loop.sock_recv(channel, min(n - len(found), _CHUNK))
        if not part:
            return None
        found += part
    return bytes(found)
