"""Messages between the library and its helper processes: one JSON object and some open files per packet."""

from __future__ import annotations

import json
import socket
from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

from turngate.errors import EnvError

Message: TypeAlias = dict[str, Any]

MAX_BYTES = 180_000  # a packet must fit into the default send buffer of the kernel
_MAX_FILES = 16


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send ``message``; the receiver gets its own copies of ``files``. Raises EnvError if it is too long."""
    packet = json.dumps(message, separators=(",", ":")).encode()
    if len(packet) > MAX_BYTES:
        raise EnvError(
            f"a request to the sandbox has {len(packet)} bytes, and {MAX_BYTES} are allowed: "
            "pass long input through stdin or a file, not through arguments"
        )
    socket.send_fds(channel, [packet], files)


def receive(channel: socket.socket) -> tuple[Message, list[int]]:
    """The next message and its files, which no program inherits. Raises EOFError when the other end is gone."""
    room = socket.CMSG_LEN(_MAX_FILES * array("i").itemsize)
    size = channel.recv_into(bytearray(1), 1, socket.MSG_PEEK | socket.MSG_TRUNC)  # room for the longest costs time
    if not size:
        raise EOFError("the other end of the channel is closed")
    packet, extras, _flags, _address = channel.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)  # recv_fds drops flags
    files = array("i")
    for _level, _kind, data in extras:
        files.frombytes(data[: len(data) - len(data) % files.itemsize])
    message: Message = json.loads(packet)
    return message, list(files)
