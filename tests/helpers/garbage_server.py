"""A server on loopback that answers in more than eighty wrong ways, on real sockets, each by its name."""

import gzip
import select
import socket
import struct
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
BOMB = gzip.compress(b" " * 20_000_000, 1)
RESET = object()
"""Ends a connection with a reset instead of a close."""
MOST_S = 20.0
"""How long a connection that nobody closes is waited for."""


@dataclass(frozen=True)
class Kind:
    """``parts(good)``: what is sent for the right body ``good``: bytes, seconds to wait, or RESET. ``hangs``: it stays
    open until the client leaves. ``early``: it is sent before the request is read. ``fine``: it is an answer, and a
    client that reads it is right."""

    parts: object
    hangs: bool = False
    early: bool = False
    fine: bool = False


def whole(body, *headers, status=b"200 OK"):
    lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"Connection: close", *headers, b"", body])


def _body(make, **marks):
    """Right HTTP with another body."""
    return Kind(lambda good: [whole(make(good))], **marks)


def _head(*headers, status=b"200 OK", **marks):
    """The right body behind other headers."""
    return Kind(lambda good: [whole(good, *headers, status=status)], **marks)


def _raw(make, **marks):
    return Kind(lambda good: [make(good)], **marks)


def _lengths(*said):
    return _raw(lambda good: OK + JSON + b"".join(b"Content-Length: %s\r\n" % one for one in said) + b"\r\n" + good)


def _chunked(make, **marks):
    return _raw(lambda good: OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n" + make(good), **marks)


def _status(code, *headers):
    return Kind(lambda _: [whole(b'{"error": {"message": "as it is"}}', *headers, status=code)])


def _drip(what):
    """A byte at a time, for longer than anybody waits."""
    return Kind(lambda good: [part for byte in what(good) for part in (bytes([byte]), 0.05)], hangs=True)


# fmt: off
KINDS = {
    # --- no HTTP
    "a broken status line": _raw(lambda good: b"HTTP/1.1 abc OK\r\n\r\n" + good),
    "no status line": _raw(lambda good: JSON + b"\r\n" + good),
    "text of HTTP 0.9": _raw(lambda good: good),
    "another protocol": _raw(lambda good: b"ICY 200 OK\r\n\r\n" + good),
    "HTTP 9.9": _raw(lambda good: b"HTTP/9.9 200 OK\r\n\r\n" + good, fine=True),
    "a status of 600 digits": _raw(lambda good: b"HTTP/1.1 " + b"2" * 600 + b" OK\r\n\r\n" + good),
    "a negative status": _raw(lambda good: b"HTTP/1.1 -200 OK\r\n\r\n" + good),
    "a TLS alert": _raw(lambda good: b"\x15\x03\x03\x00\x02\x02\x46"),
    "bytes of chance": _raw(lambda good: bytes(range(256)) * 4),
    "closed at once": Kind(lambda good: [], early=True),
    "closed after the request": _raw(lambda good: b""),
    "a reset": Kind(lambda good: [RESET]),
    "a reset in the body": Kind(lambda good: [whole(good)[:-9], RESET]),
    "answers before it has read": Kind(lambda good: [whole(good)], early=True, fine=True),
    # --- chunks and lengths
    "a cut chunk": _chunked(lambda good: b"fff\r\n" + good),
    "a wrong chunk size": _chunked(lambda good: b"3\r\n" + good + b"\r\n0\r\n\r\n"),
    "a chunk of no size": _chunked(lambda good: b"zz\r\n" + good),
    "a negative chunk size": _chunked(lambda good: b"-5\r\n" + good),
    "no last chunk": _chunked(lambda good: b"%x\r\n%s\r\n" % (len(good), good)),
    "right chunks": _chunked(lambda good: b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(good), good), fine=True),
    "a length too long": _lengths(b"999999"),
    "a length too short": _lengths(b"9"),
    "a negative length": _lengths(b"-1"),
    "a length that is none": _lengths(b"many"),
    "a length of 400 digits": _lengths(b"9" * 400),
    "two lengths": _lengths(b"9", b"12"),
    "a body until the end": _raw(lambda good: OK + JSON + b"\r\n" + good, fine=True),
    "too long and held open": Kind(lambda good: [OK + JSON + b"Content-Length: 999999\r\n\r\n" + good], hangs=True),
    # --- headers
    "200 headers": _head(*(b"X-%d: 1" % n for n in range(200)), fine=True),
    "20,000 headers": _head(*(b"X-%d: 1" % n for n in range(20_000))),
    "a header of 70 kB": _head(b"X: " + b"x" * 70_000, fine=True),
    "a header of 2 MB": _head(b"X: " + b"x" * 2_000_000),
    "a header without a colon": _head(b"no colon"),
    "a header without a name": _head(b": nothing"),
    "NUL in a header": _head(b"X: a\0b"),
    "a folded header": _head(b"X: a\r\n  b", fine=True),
    "a cookie that cannot be sent": _head(b"Set-Cookie: a=\xc3\xa9; Path=/", fine=True),
    "a cookie of 60 kB": _head(b"Set-Cookie: a=" + b"x" * 60_000, fine=True),
    "gzip that is none": _head(b"Content-Encoding: gzip"),
    "gzip": _raw(lambda good: whole(gzip.compress(good), b"Content-Encoding: gzip")),
    "a bomb": _raw(lambda good: whole(BOMB, b"Content-Encoding: gzip")),
    "br": _head(b"Content-Encoding: br"),
    "an odd type": _raw(lambda good: whole(good).replace(b"application/json", b"image/png; charset=rot13"), fine=True),
    "1xx once": _raw(lambda good: b"HTTP/1.1 103 Hints\r\n\r\n" + whole(good), fine=True),
    "1xx for ever": Kind(lambda good: [part for _ in range(400) for part in (b"HTTP/1.1 102 Wait\r\n\r\n", 0.05)],
                         hangs=True),
    "101": _raw(lambda good: b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
    # --- statuses
    "204": _raw(lambda good: b"HTTP/1.1 204 None\r\n\r\n"),
    "205": _raw(lambda good: b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n"),
    "206 of half a body": _raw(lambda good: whole(good[:20], status=b"206 Partial")),
    "a redirect to itself": _status(b"307 Again", b"Location: ./"),
    "a redirect to a file": _status(b"302 Found", b"Location: file:///etc/passwd"),
    "a redirect to nowhere": _status(b"301 Moved"),
    "a redirect to no address": _status(b"308 Moved", b"Location: http://[::1"),
    "304": _raw(lambda good: b"HTTP/1.1 304 Same\r\n\r\n"),
    **{str(code): _status(b"%d No" % code)
       for code in (400, 401, 403, 404, 408, 409, 413, 418, 422, 425, 429, 500, 502, 503, 504, 599, 700, 999)},
    **{f"429 with Retry-After {said[:20]}": _status(b"429 Slow", b"Retry-After: " + said.encode())
       for said in ("soon", "-5", "nan", "0", "Wed, 21 Oct 2015 07:28:00 GMT")},
    # --- bodies
    "an empty body": _body(lambda good: b""),
    "blanks": _body(lambda good: b" \r\n\t"),
    "no UTF-8": _body(lambda good: b"\xff\xfe\xfd"),
    "UTF-16": _body(lambda good: good.decode().encode("utf-16")),
    "a byte order mark": _body(lambda good: b"\xef\xbb\xbf" + good, fine=True),
    "HTML": _body(lambda good: b"<!doctype html><title>Bad gateway</title>"),
    **{f"JSON that is {said.decode()}": _body(lambda good, said=said: said)
       for said in (b"[]", b"{}", b"null", b"17", b'"text"', b"true", b"NaN", b"-Infinity")},
    "a list around it": _body(lambda good: b"[" + good + b"]"),
    "nested 10,000 deep": _body(lambda good: b"[" * 10_000 + b"]" * 10_000),
    "nested in it": _body(lambda good: good[:-1] + b', "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "a number of 5,000 digits in it": _body(lambda good: good[:-1] + b', "x": ' + b"9" * 5000 + b"}"),
    "a number of 400 digits in it": _body(lambda good: good[:-1] + b', "x": ' + b"9" * 400 + b"}", fine=True),
    "keys twice": _body(lambda good: good[:-1] + b"," + good[1:], fine=True),
    "cut off": _body(lambda good: good[:-2]),
    "something after it": _body(lambda good: good + b"#"),
    "two documents": _body(lambda good: good + b"\n" + good),
    "100 MB": Kind(lambda good: [OK + JSON + b"Content-Length: 100000000\r\n\r\n", *[b"x" * 1_000_000] * 100]),
    # --- never
    "never answers": Kind(lambda good: [MOST_S], hangs=True),
    "drips a status line": _drip(lambda good: b"HTTP/1.1 200 " + b"x" * 400),
    "drips headers": _drip(lambda good: OK + b"X: 1\r\n" * 80),
    "drips a body": _drip(lambda good: OK + JSON + b"Content-Length: 400\r\n\r\n" + b" " * 400),
    "stops in the headers": Kind(lambda good: [OK + JSON, MOST_S], hangs=True),
}
# fmt: on


class GarbageServer:
    """Answers each connection with ``kind`` of ``good(path, body)``. ``paths``: those that were asked; ``n_open``:
    connections that are open; ``accepted``: who was the last."""

    def __init__(self):
        self.kind, self.good = Kind(lambda good: [whole(good)], fine=True), lambda path, body: b"{}"
        self.paths, self.n_open, self.accepted = [], 0, None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.place = self._socket.getsockname()
        self.address = f"http://127.0.0.1:{self.place[1]}"
        self._lock, self._threads = threading.Lock(), []
        self._accepting = threading.Thread(target=self._accept, name="garbage")
        self._accepting.start()

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        while True:
            try:
                connection, client = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self.n_open += 1
                self.accepted = client
            thread = threading.Thread(target=self._serve, args=(connection, self.kind), name="garbage")
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _serve(self, connection, kind):
        try:
            with connection:
                connection.settimeout(MOST_S)
                self._answer(connection, kind)
        except OSError:  # the client has gone
            pass
        finally:
            with self._lock:
                self.n_open -= 1

    def _answer(self, connection, kind):
        if kind.early:
            self.paths.append("early")
            for part in kind.parts(self.good("", b"")):
                connection.sendall(part)
            if kind.fine:
                read_request(connection)
            return
        path, body = read_request(connection)
        self.paths.append(path)
        self.send(connection, kind, self.good(path, body))

    def send(self, connection, kind, good):
        """What ``kind`` makes of the right body, to a client that has sent its request."""
        for part in kind.parts(good):
            if part is RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if not isinstance(part, bytes):
                if _left(connection, part):
                    return
            else:
                connection.sendall(part)
        if kind.hangs:
            _left(connection, MOST_S)


def read_request(connection):
    """Path and body of a request."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        if not (part := connection.recv(65_536)):
            return "", b""
        heard += part
    head, _, body = heard.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
    while len(body) < length and (part := connection.recv(65_536)):
        body += part
    return head.split(b" ")[1].decode(), body


def _left(connection, seconds):
    """Whether the client closes the connection within so many seconds."""
    return bool(select.select([connection], [], [], seconds)[0]) and connection.recv(1) == b""


@contextmanager
def garbage_server():
    server = GarbageServer()
    try:
        yield server
    finally:
        server.close()


def settled(server, *, seconds=5.0):
    """Whether all connections to the server are closed, soon; those that it has not yet accepted, too."""
    end_s = time.monotonic() + seconds
    with socket.create_connection(server.place) as probe:  # accepted after all others
        last = probe.getsockname()
    while (server.n_open or server.accepted != last) and time.monotonic() < end_s:
        time.sleep(0.005)
    return server.n_open == 0 and server.accepted == last
