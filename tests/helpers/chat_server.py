"""A server on loopback with the protocol of OpenAI's chat completions, whose replies a script makes."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

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
    request_queue_size = 64
    daemon_threads = True


@contextmanager
def serving(script):
    """``script(body, n)`` answers the n-th request; see ``completed``."""
    server = Server(("127.0.0.1", 0), Handler)
    server.script, server.heard, server.lock, server.n_busy, server.most_busy = script, [], threading.Lock(), 0, 0
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
