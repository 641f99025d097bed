"""Messages between the library and its helper processes: each is one JSON object with some open files, in one packet.

An object that is too long for a packet is written to a file in memory, and that file is sent as the last one.
"""

from __future__ import annotations

import json
import os
import socket
from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

from turngate.sandbox.descriptors import file_of

Message: TypeAlias = dict[str, Any]

PACKET_BYTES = 180_000  # a packet must fit into the default send buffer of the kernel
_IN_FILE = b"file"
_MAX_FILES = 16


def pair() -> tuple[socket.socket, socket.socket]:
    """A channel: two connected sockets, one for each side."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send ``message``; the receiver gets its own copies of ``files``."""
    packet = json.dumps(message, separators=(",", ":")).encode()
    if len(packet) <= PACKET_BYTES:
        socket.send_fds(channel, [packet], files)
        return
    long = file_of("message", packet)
    try:
        socket.send_fds(channel, [_IN_FILE], [*files, long])
    finally:
        os.close(long)


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
    if packet == _IN_FILE:
        with os.fdopen(files.pop(), "rb") as file:
            packet = file.read()
    message: Message = json.loads(packet)
    return message, list(files)
