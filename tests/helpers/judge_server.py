"""A server on loopback with the protocol of OpenAI's chat completions, which answers by a script."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][0]["content"]
        with server.lock:
            n = server.seen[prompt] = server.seen[prompt] + 1
        said = server.script(prompt, n)
        status = said if isinstance(said, int) else 200
        content = said if isinstance(said, str) else json.dumps(said)
        message = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        body = json.dumps({"object": "chat.completion", "choices": [message]}).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # a judge opens all its connections at once


@contextmanager
def serving(script):
    """``script(prompt, n)`` answers the n-th request with that prompt: a text, an object, or a status."""
    server = Server(("127.0.0.1", 0), Handler)
    server.script, server.seen, server.lock, server.open = script, Counter(), threading.Lock(), set()
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
