"""A server on loopback with the protocol of OpenAI's chat completions, whose replies a script makes."""

import json
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.helpers.scripted_judge import written


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.open.add(self.client_address)

    def finish(self):
        super().finish()
        self.server.open.discard(self.client_address)

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.heard.append((self.path, dict(self.headers), body))
            server.n_busy += 1
            server.most_busy = max(server.most_busy, server.n_busy)
            n = len(server.heard)
        try:
            self._answer(*completed(server.script(body, n)))
        except OSError:  # the client has gone
            self.close_connection = True
        finally:
            with server.lock:
                server.n_busy -= 1

    def _answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def completed(said):
    """(status, body, headers): of a text as a completion, of bytes as they are, of a status alone, or as given."""
    if isinstance(said, int):
        said = (said, b'{"error": {"message": "as the script wants it"}}', {})
    if isinstance(said, bytes):
        said = (200, said, {})
    return said if isinstance(said, tuple) else (200, completion(said), {})


def completion(text, *, finish="stop", used=None, **message):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {} if used is None else {"usage": {"total_tokens": used}}
    return json.dumps({"object": "chat.completion", "choices": [choice], **usage}).encode()


def slow(text, seconds):
    time.sleep(seconds)
    return text


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # a judge opens all its connections at once
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a client may hang up while its request is read
            super().handle_error(request, client_address)


@contextmanager
def serving_prompts(script):
    """``script(prompt, n)`` answers the n-th request with that prompt: a text, an object to be JSON, a status, or
    all of (status, body, headers)."""
    seen, lock = Counter(), threading.Lock()

    def answer(body, _):
        prompt = body["messages"][0]["content"]
        with lock:
            seen[prompt] += 1
            n = seen[prompt]
        said = script(prompt, n)
        return said if isinstance(said, int | tuple) else written(prompt, said)

    with serving(answer) as server:
        server.seen = seen
        yield server


@contextmanager
def serving(script):
    """``script(body, n)`` answers the n-th request; see ``completed``."""
    server = Server(("127.0.0.1", 0), Handler)
    server.script, server.heard, server.lock, server.n_busy, server.most_busy = script, [], threading.Lock(), 0, 0
    server.open = set()  # addresses of the clients that are connected
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
