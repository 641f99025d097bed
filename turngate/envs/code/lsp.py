"""A language server as a function from a text to its diagnostics: JSON-RPC over the server's standard streams.

Written here because the libraries at hand are asynchronous, unkept, without pulled diagnostics, or depend on linters.
There is no thread: whoever waits for an answer moves the bytes of all three streams until it is there or the deadline
(a value of ``time.monotonic``) has passed. So a server that stops reading cannot block its caller either. POSIX only.

Protocol: https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from turngate.errors import EnvError
from turngate.types import JSON

Message: TypeAlias = dict[str, Any]

TAIL_BYTES = 2_000  # of a server's errors, for messages
CHUNK_BYTES = 1 << 16
ENDING_S, CLOSE_S = 0.5, 2.0  # for a server that closed its output, or was told to end, before it is killed
METHOD_NOT_FOUND, ERROR_MESSAGE = -32601, 1
_FIELDS = rb"(?:[\w-]+:[^\r\n]*\r\n)*?"
_HEAD = re.compile(rb"(?i)" + _FIELDS + rb"content-length: *(\d{1,7})\r\n" + _FIELDS + rb"\r\n")  # below 10 MB
_CAPABILITIES: Mapping[str, JSON] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {"diagnostic": {}, "publishDiagnostics": {"versionSupport": True}},
    "window": {"workDoneProgress": True},
    "workspace": {"configuration": True, "workspaceFolders": True},
}


class Client:
    """One running server. Used by one thread at a time.

    EnvError, with the end of what the server wrote to its error stream: it died, did not answer in time, refused a
    request, showed its user an error, or broke the protocol. The server is then dead, and the client closed.
    """

    def __init__(
        self, argv: Sequence[str], *, folder: Path, settings: JSON, env: Mapping[str, str], deadline: float
    ) -> None:
        """Start and initialise the server. ``settings``: its options, also whenever it asks for its configuration."""
        self._name = " ".join((Path(argv[0]).name, *argv[1:]))
        self._settings, self._uri = settings, folder.as_uri()
        self._outgoing, self._incoming, self._errors = bytearray(), bytearray(), b""
        self._last_id = self._version = 0
        pipe = subprocess.PIPE
        try:  # in a session of its own: an interrupt at the terminal is not for the server
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=dict(env), bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise EnvError(f"'{self._name}' could not be started: {error}") from error
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = cast("tuple[IO[bytes], IO[bytes], IO[bytes]]", streams)
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream.fileno(), False)
        self._folders: JSON = [{"uri": self._uri, "name": folder.name}]
        introduction: Message = {"processId": os.getpid(), "rootUri": self._uri, "workspaceFolders": self._folders}
        introduction |= {"capabilities": _CAPABILITIES, "initializationOptions": settings}
        with self._protocol():
            self._pulls = "diagnosticProvider" in self._ask("initialize", introduction, deadline)["capabilities"]
        self._send({"method": "initialized", "params": {}})

    def diagnose(self, name: str, text: str, *, deadline: float) -> tuple[Message, ...]:
        """The diagnostics of a text, alone in the folder, asked for, or published for this version; as sent."""
        self._version += 1
        document: Message = {"uri": f"{self._uri}/{name}"}
        opened = {**document, "languageId": "python", "version": self._version, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": opened}})
        try:
            with self._protocol():
                if self._pulls:
                    return tuple(self._ask("textDocument/diagnostic", {"textDocument": document}, deadline)["items"])
                wanted = {"uri": document["uri"], "version": self._version}.items()
                published = self._wait(lambda message: wanted <= message.get("params", {}).items(), deadline)
                return tuple(published["params"]["diagnostics"])
        finally:
            self._send({"method": "textDocument/didClose", "params": {"textDocument": document}})

    def close(self) -> None:
        """Let the server end, or kill it after ``CLOSE_S``. Safe to repeat."""
        if self._out.closed:
            return
        deadline = time.monotonic() + CLOSE_S
        with suppress(EnvError):  # dead already, or killed for not answering: closed in either case
            self._ask("shutdown", None, deadline)
            self._send({"method": "exit"})
            while self._outgoing:
                self._move(deadline)
            self._end(max(0.0, deadline - time.monotonic()))

    def _ask(self, method: str, params: JSON, deadline: float) -> Any:
        self._last_id = mine = self._last_id + 1
        self._send({"id": mine, "method": method} | ({} if params is None else {"params": params}))
        answer = self._wait(lambda message: message.get("id") == mine and "method" not in message, deadline)
        if "error" in answer:
            raise self._failure(f"refused '{method}': {answer['error']}")
        return answer["result"]

    def _wait(self, is_it: Callable[[Message], bool], deadline: float) -> Message:
        if self._out.closed:
            raise EnvError(f"the language server '{self._name}' is closed; start another one")
        while True:
            message = self._take()
            if message is None:
                self._move(deadline)
            elif is_it(message):
                return message
            elif "method" in message and "id" in message:
                self._send({"id": message["id"], **self._answer(message)})
            elif message.get("method") == "window/showMessage" and message["params"]["type"] == ERROR_MESSAGE:
                raise self._failure(f"says '{message['params']['message']}'")  # settings it cannot read, for instance

    def _answer(self, request: Message) -> Message:
        match request["method"]:
            case "workspace/configuration":
                return {"result": [self._settings for _ in request["params"]["items"]]}
            case "workspace/workspaceFolders":
                return {"result": self._folders}
            case "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create":
                return {"result": None}
            case method:
                return {"error": {"code": METHOD_NOT_FOUND, "message": f"this client does not offer '{method}'"}}

    def _send(self, message: Message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._outgoing += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def _take(self) -> Message | None:
        """The next message of those that have come in whole, or None."""
        head = _HEAD.match(self._incoming)
        if head is None and b"\r\n\r\n" in self._incoming[:CHUNK_BYTES]:
            raise self._failure(f"sent what is not the protocol, or 10 MB and more: {bytes(self._incoming[:80])!r}")
        if head is None or len(self._incoming) < (end := head.end() + int(head[1])):
            return None
        with self._protocol():
            message: Message = dict(json.loads(self._incoming[head.end() : end]))
        del self._incoming[:end]
        return message

    def _move(self, deadline: float) -> None:
        """Wait until a stream can be read or written; do so."""
        if (left_s := deadline - time.monotonic()) <= 0:
            raise self._failure("did not answer in time")
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._err, selectors.EVENT_READ)
            if self._outgoing:
                selector.register(self._in, selectors.EVENT_WRITE)
            ready = [key.fileobj for key, _ in selector.select(left_s)]
        try:
            if self._in in ready:
                del self._outgoing[: os.write(self._in.fileno(), self._outgoing[:CHUNK_BYTES])]
            if self._err in ready:
                self._errors = (self._errors + _read(self._err))[-TAIL_BYTES:]
            if self._out in ready:
                self._incoming += _read(self._out)
        except (BrokenPipeError, EOFError):
            raise self._failure("ended", wait_s=ENDING_S) from None

    @contextmanager
    def _protocol(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise self._failure(f"sent what is not the protocol: {error!r}") from error

    def _failure(self, what: str, wait_s: float = 0.0) -> EnvError:
        status = self._end(wait_s)
        tail = self._errors.decode(errors="replace").strip()
        return EnvError(f"the language server '{self._name}' {what}; exit status {status}, last errors: '{tail}'")

    def _end(self, wait_s: float) -> int:
        try:
            status = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        with suppress(EOFError, BlockingIOError):  # one reading empties a pipe
            self._errors = (self._errors + _read(self._err))[-TAIL_BYTES:]
        for stream in (self._in, self._out, self._err):
            stream.close()
        return status


def _read(stream: IO[bytes]) -> bytes:
    if not (chunk := os.read(stream.fileno(), CHUNK_BYTES)):
        raise EOFError
    return chunk
