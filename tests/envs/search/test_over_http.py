"""Retrieval over HTTP: our server and our client, and servers that are slow, down or wrong."""

import json
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import StreamRequestHandler, TCPServer

import pytest
from rich.console import Console

import turngate
from tests.cli.small_run import COMMAND, variables
from turngate.cli.serve_search import corpus_named, serve_search
from turngate.envs.search.engine import over_http
from turngate.envs.search.engine.bm25 import Bm25
from turngate.envs.search.engine.over_http import RetrievalClient, RetrievalServer, answer_to, read_answer
from turngate.envs.search.engine.passages import Corpus, Document
from turngate.envs.search.engine.retrievers import RetrieverFailed
from turngate.errors import ConfigError, EnvError
from turngate.types import Ending, Task

CORPUS = Corpus([Document(id="a", title="Ann", text="Ants dig."), Document(id="b", title="", text="Bees fly.")])
WRONG = (b"", b"{", b"[]", b'{"result": [[{"document": {"id": "a"}}]]}', b'{"result": [[1]]}', b'{"result": 3}',
         b'{"result": [[], []]}', b'{"result": ["ants"]}', b"[" * 100_000)  # fmt: skip
OK = b"HTTP/1.1 200 OK\r\n"
GARBAGE = {
    "nothing": b"",
    "no status": b"ants\r\n\r\n",
    "a broken status": b"HTTP/1.1 abc OK\r\n\r\n{}",
    "a status of 600 digits": b"HTTP/1.1 " + b"2" * 600 + b" OK\r\n\r\n",
    "200 headers": OK + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n{}",
    "a header of 70 kB": OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n{}",
    "a cut chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{",
    "a chunk of no size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "less than it says": OK + b"Content-Length: 900\r\n\r\n{",
    "a length that is none": OK + b"Content-Length: many\r\n\r\n{",
    "no UTF-8": OK + b"\r\n\xff\xfe",
    "a redirect to itself": b"HTTP/1.1 302 Found\r\nLocation: /retrieve\r\n\r\n",
    "a redirect to a file": b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
}


@contextmanager
def answering(body, *, status=200, after=None):
    """A server that answers every request with ``body``, or, with ``after``, only once that event is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            if after is not None:
                after.wait(20)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/retrieve"
    finally:
        if after is not None:
            after.set()
        server.shutdown()
        thread.join()
        server.server_close()


def client(url, **settings):
    return RetrievalClient(url, **({"timeout_s": 5.0, "attempts": 1} | settings))


def test_client_and_server_understand_each_other():
    index = Bm25(CORPUS.passages)
    with RetrievalServer(index) as server:
        hits = client(server.url).search("ants bees", 2)
        assert [(hit.passage.id, hit.passage.title, hit.passage.text) for hit in hits] == [
            ("a#0", "Ann", "Ants dig."),
            ("b#0", "", "Bees fly."),
        ] or [hit.passage.id for hit in hits] == ["b#0", "a#0"]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in index.search("ants bees", 2)])
        assert client(server.url).search("zzz", 2) == []
        with pytest.raises(RetrieverFailed, match="404"):
            client(server.url + "x").search("ants", 2)
    with pytest.raises(RetrieverFailed, match="failed"):
        client(server.url).search("ants", 2)


def test_the_form_of_search_r1():
    index = Bm25(CORPUS.passages)
    asked = {"queries": ["ants", "bees"], "topk": 1, "return_scores": True}
    first, second = answer_to(index, json.dumps(asked).encode())["result"]
    assert first[0]["document"] == {"id": "a#0", "contents": '"Ann"\nAnts dig.'}
    assert second[0]["document"]["contents"] == "Bees fly."
    assert answer_to(index, b'{"query": "ants"}') == answer_to(index, b'{"queries": ["ants"]}')  # as skyrl-gym asks
    assert answer_to(index, b'{"queries": ["ants"]}')["result"] == [[{"id": "a#0", "contents": '"Ann"\nAnts dig.'}]]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"queries": "ants"}',
        b'{"queries": [1]}',
        b'{"query": 1}',
        b'{"queries": ["a"], "topk": -1}',
        b'{"queries": ["a"], "topk": 9999}',
        json.dumps({"queries": ["a"] * 21, "topk": 1000}).encode(),
    ],
)
def test_requests_of_another_form(body):
    with pytest.raises(ValueError):
        answer_to(Bm25(CORPUS.passages), body)
    with RetrievalServer(Bm25(CORPUS.passages)) as server:
        request = urllib.request.Request(server.url, data=body)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(request, timeout=10)


@pytest.mark.parametrize("body", WRONG)
def test_answers_of_another_form(body):
    with pytest.raises(ValueError, match=r"its answer is not a list of passages|none of its passages can be read"):
        read_answer(body.decode(), 3)
    with answering(body) as url, pytest.raises(RetrieverFailed):
        client(url).search("ants", 3)


@pytest.mark.parametrize("score", ["null", '"high"', "NaN", "1e999", "9" * 400, "true", "[]"])
def test_a_passage_is_shown_whatever_its_score_and_one_that_cannot_be_read_costs_itself(score, caplog):
    good = '{"document": {"id": "a", "contents": "Ants dig."}, "score": ' + score + "}"
    body = '{"result": [[' + good + ', {"document": {"id": "b", "contents": null}}, 7]]}'
    with answering(body.encode()) as url:
        asked = client(url)
        for _ in range(2):
            (hit,) = asked.search("ants", 3)
            assert (hit.passage.text, hit.score) == ("Ants dig.", 0.0)
    assert asked.n_unread == 4
    assert caplog.text.count("cannot be read") == 1


def test_no_passages_are_none():
    assert read_answer('{"result": []}', 3) == read_answer('{"result": [[]]}', 3) == ([], [])


@contextmanager
def raw(reply):
    """A server that answers every request with the bytes ``reply``, whatever they are."""

    class Handler(StreamRequestHandler):
        def handle(self):
            self.request.recv(65_536)
            with suppress(OSError):
                self.wfile.write(reply)

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/retrieve"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("reply", GARBAGE.values(), ids=GARBAGE)
def test_a_server_that_does_not_speak_http_is_down(reply):
    with raw(reply) as url:
        with pytest.raises(RetrieverFailed, match="the retrieval server"):
            client(url, attempts=2).search("ants", 3)
        told = env(url, on_failure="tell")
        told.reset(seed=0)
        assert told.step("search ants")[0].text == "error: the search engine did not answer; try again"


def task(url, **private):
    return Task(id="t", env_id="turngate/Search-v1", prompt="Who digs?", private={"gold": ["ants"], **private})


def env(url, **settings):
    retriever = {"type": "server", "url": url, "timeout_s": 0.5, "attempts": 1}
    return turngate.make("turngate/Search-v1", tasks=turngate.TaskList([task(url)]), retriever=retriever, **settings)


def test_an_episode_against_a_server():
    with RetrievalServer(Bm25(CORPUS.passages)) as server:
        played = env(server.url)
        played.reset(seed=0)
        assert played.step("search ants")[0].text == "[a#0] Ann: Ants dig."
        assert played.step("open a#0")[0].text == "[a#0] Ann: \n| Ants dig."
        assert played.step("open b#0")[0].text.startswith("error: there is no passage 'b#0'")
        *_, info = played.step("answer Ants.")
        assert info["score"].outcome == 1.0


@pytest.mark.parametrize("kind", ["down", "slow", "broken", "wrong"])
def test_a_server_that_fails_is_not_the_agents_fault(kind):
    after = threading.Event() if kind == "slow" else None
    with answering(b"no", status=500 if kind == "broken" else 200, after=after) as url:
        address = "http://127.0.0.1:9/retrieve" if kind == "down" else url
        played = env(address)
        played.reset(seed=0)
        with pytest.raises(EnvError, match=r"the retrieval server .* failed"):
            played.step("search ants")
        told = env(address, on_failure="tell")
        told.reset(seed=0)
        observation, *_, info = told.step("search ants")
        assert observation.text == "error: the search engine did not answer; try again"
        assert ("search_failed", True) in {(fact.name, fact.value) for fact in info["evidence"]}
        assert told.finish(Ending.TOKEN_BUDGET)[1]["score"].usable


@contextmanager
def streaming(chunk, pause_s):
    """A server whose answer never ends: ``chunk`` again and again, until the client goes away."""
    gone = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            try:
                while not gone.wait(pause_s):
                    self.wfile.write(chunk)
            except OSError:
                gone.set()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/retrieve", gone
    finally:
        gone.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("chunk", "pause_s", "said"),
    [(b"x" * 1_000_000, 0, "longer than 16000000 bytes"), (b" ", 0.05, "no reply within 2 s")],
    ids=["flood", "drip"],
)
def test_an_answer_without_an_end_is_cut_and_its_connection_closed(chunk, pause_s, said):
    with streaming(chunk, pause_s) as (url, gone):
        with pytest.raises(RetrieverFailed, match=said):
            client(url, timeout_s=2.0 if pause_s else 20.0).search("ants", 1)
        assert gone.wait(10), "the server still writes, so the client holds the connection"


def test_a_server_that_dies_in_mid_episode_and_comes_back():
    """What was shown stays known; the failed search costs one turn where the agent is told, else the episode."""
    index = Bm25(CORPUS.passages)
    with RetrievalServer(index) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        told, strict = env(server.url, on_failure="tell"), env(server.url)
        for one in (told, strict):
            one.reset(seed=0)
            one.step("search ants")
    assert told.step("search bees")[0].text.startswith("error: the search engine did not answer")
    with pytest.raises(EnvError):
        strict.step("search bees")
    with RetrievalServer(index, port=port):
        assert told.step("search bees")[0].text.startswith("[b#0]")
        assert told.step("open a#0")[0].text.endswith("| Ants dig.")
        assert told.step("answer ants")[-1]["score"].outcome == 1.0


def test_no_thread_is_left_behind():
    before = set(threading.enumerate())
    with RetrievalServer(Bm25(CORPUS.passages)) as server:
        for _ in range(20):
            client(server.url).search("ants", 1)
    assert {thread for thread in set(threading.enumerate()) - before if not thread.daemon} == set()


def test_one_connection_too_many_is_closed_and_a_slow_one_ends(monkeypatch):
    monkeypatch.setattr(over_http, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(over_http, "CONNECTION_S", 1.5)
    with RetrievalServer(Bm25(CORPUS.passages)) as server:
        address = ("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
        slow = [socket.create_connection(address, timeout=10) for _ in range(2)]
        for one in slow:
            one.sendall(b"POST /retrieve HTTP/1.1\r\nContent-Length: 900\r\n\r\n{")
        time.sleep(0.3)
        with socket.create_connection(address, timeout=10) as third:
            assert third.recv(10) == b""
        for one in slow:
            one.recv(1000)  # answered or ended, not waited for
            one.close()
        time.sleep(2)  # until its threads have ended
        assert client(server.url).search("ants", 1)[0].passage.title == "Ann"


def test_settings_that_are_wrong():
    with pytest.raises(ConfigError, match="is no address"):
        client("localhost:8000")
    with RetrievalServer(Bm25(CORPUS.passages)) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError, match=f"cannot serve at 127.0.0.1:{port}"):
            RetrievalServer(Bm25(CORPUS.passages), port=port)


def test_the_command_serves_a_folder(tmp_path):
    (tmp_path / "a.txt").write_text("Ants dig.")
    command = [*COMMAND, "serve-search", str(tmp_path), "--port", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables(PYTHONUNBUFFERED="1"))
    try:
        line = served.stdout.readline()
        assert line.startswith("1 documents, 1 passages at http://127.0.0.1:")
        (hit,) = client(line.split()[-1]).search("ants", 3)
        assert hit.passage.id == "a.txt#0"
    finally:
        served.terminate()
        assert served.wait(30) == 143
        served.stdout.close()


def test_the_command_says_what_is_wrong(tmp_path):
    for words, problem in ((str(tmp_path), "there are no documents"), ("x.pdf", "neither a folder nor")):
        with pytest.raises(ConfigError, match=problem):
            serve_search(Console(), corpus_named(words), {"type": "bm25"}, host="127.0.0.1", port=0)
    with pytest.raises(ConfigError, match="which searches no documents of its own"):
        serve_search(Console(), {"type": "pydoc"}, {"type": "server", "url": "http://x/"}, host="127.0.0.1", port=0)
