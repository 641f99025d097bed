"""Whatever a server sends over a real socket, its client has a reply or says typed that the server is down.

For the retrieval client, a judge and a policy behind a server of the OpenAI kind. Nothing is nobody's fault: no reply
makes the client raise anything else, and none is read as an empty reply of a model.
"""

import asyncio
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.budget import examples
from tests.fuzz.request import REQUEST
from tests.fuzz.texts import TEXTS, json_texts
from turngate.agents.policies.openai import OpenAIPolicy
from turngate.agents.server import ChatServer
from turngate.envs.search.engine.over_http import RetrievalClient
from turngate.envs.search.engine.retrievers import RetrieverFailed
from turngate.errors import ConfigError, EpisodeError
from turngate.judges.asking.openai import OpenAITextModel
from turngate.judges.asking.text_model import Prompt

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
CHAT = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"total_tokens": 9, "completion_tokens": 3},
}
FOUND = {"result": [[{"document": {"id": "a", "contents": '"A"\nAnts dig.'}, "score": 1.5}]]}
HEADERS = [
    *(b"Content-Type: application/json", b"Content-Length: 3", b"Content-Length: -1", b"Content-Length: 99999999"),
    *(b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Connection: close", b"Location: /", b"X: \xff\xfe"),
    *(
        b"no colon",
        b": nothing",
        b"X: " + b"x" * 70_000,
        b"Retry-After: 0",
        b"Retry-After: nan",
        b"Content-Encoding: br",
    ),
]
STATUSES = [
    *(b"HTTP/1.1 200 OK",) * 6,
    *(b"HTTP/1.1 404 No", b"HTTP/1.1 429 Slow", b"HTTP/1.1 500 Oh", b"HTTP/1.1 400 Bad", b"HTTP/1.1 204 None"),
    *(b"HTTP/1.1 100 Go", b"HTTP/1.1 302 Away", b"HTTP/1.1 abc", b"HTTP/9.9 200 OK", b"ICY 200", b"", b"\xff\xfe\0"),
    *(b"HTTP/1.1 999 Odd", b"HTTP/1.1 -200 OK", b"HTTP/1.1 " + b"2" * 600),
]


@st.composite
def json_bodies(draw: st.DrawFn, whole: object) -> bytes:
    """A right answer of which one value, at any depth, is an odd one."""
    marks: list[object] = []
    table = json.loads(json.dumps(whole), parse_float=float)

    def places(value: object) -> Iterator[tuple[object, object]]:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):  # type: ignore[arg-type]
            yield value, key
            if isinstance(inner, dict | list):
                yield from places(inner)

    holder, key = draw(st.sampled_from(list(places(table))))
    holder[key] = marks = "\x01odd\x01"  # type: ignore[index]
    odd = draw(st.one_of(json_texts(4), TEXTS.map(json.dumps), st.just('"ok"')))
    return json.dumps(table).replace(json.dumps(marks), odd).encode(errors="surrogatepass")


def replies(whole: object) -> st.SearchStrategy[bytes]:
    """What is sent over the socket: a status, headers and a body, any of them odd; or anything."""
    bodies = st.one_of(
        json_bodies(whole),
        json_bodies(whole),
        json_texts().map(lambda text: text.encode(errors="replace")),
        st.binary(max_size=60),
    )

    @st.composite
    def one(draw: st.DrawFn) -> bytes:
        body = draw(bodies)
        right = [b"Content-Length: %d" % len(body)] if draw(st.booleans()) else []
        head = [draw(st.sampled_from(STATUSES)), *right, *draw(st.lists(st.sampled_from(HEADERS), max_size=2))]
        return b"\r\n".join([*head, b"", body])

    return st.one_of(one(), one(), st.binary(max_size=80))


class Server(socketserver.ThreadingTCPServer):
    """Sends ``reply`` to whoever asks, and closes."""

    allow_reuse_address = daemon_threads = True
    reply = b""


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(5)
        with suppress(OSError):
            heard = b""
            while b"\r\n\r\n" not in heard:
                heard += self.request.recv(65_536) or b"\r\n\r\n"
            head, _, body = heard.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            while len(body) < length:
                body += self.request.recv(65_536) or b" " * length
            self.request.sendall(self.server.reply)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as up:
        thread = threading.Thread(target=up.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield up
        up.shutdown()
        thread.join()


def address(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{path}"


def refuse_unless_wrong_address(reply: bytes, error: ConfigError) -> None:
    """Raise the error again unless the server said itself that it is not the one that is meant."""
    said_so = b" 404 " in reply[:20] or b" 302 " in reply[:20]
    if not (said_so and "check the address" in str(error)):
        raise error


@examples(100)
@given(reply=replies(FOUND))
def test_a_retrieval_server_found_something_or_is_down(server, reply):
    server.reply = reply
    client = RetrievalClient(address(server, "retrieve"), timeout_s=5.0, attempts=1)
    try:
        hits = client.search("ants", 2)
    except RetrieverFailed:
        return
    assert all(hit.passage.text.strip() for hit in hits)
    json.dumps([hit.score for hit in hits], allow_nan=False)


@pytest.fixture(scope="module")
def asking(server) -> Iterator[tuple[asyncio.Runner, OpenAIPolicy, OpenAITextModel]]:
    """A loop, and what is opened in it once, because that takes longer than a question."""
    url = address(server, "v1")
    text_model = OpenAITextModel(url, "m")
    with asyncio.Runner() as runner:
        policy = OpenAIPolicy(ChatServer(url, "m", concurrency=2), concurrency=2, context=100, attempts=1, call_s=5.0)
        policy._was_reached = True  # else the first failure says to check the address
        slot = policy.slot()
        runner.run(text_model.__aenter__())
        runner.run(slot.__aenter__())
        yield runner, policy, text_model
        runner.run(slot.__aexit__(None, None, None))
        runner.run(text_model.__aexit__(None, None, None))


@examples(100)
@given(reply=replies(CHAT))
@example(reply=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}")  # raised what it was not made for
def test_a_judge_said_something_or_gave_no_reply(server, asking, reply):
    server.reply = reply
    runner, _, text_model = asking
    question = Prompt(name="q", text="Right?", seed=1, temperature=0.0, max_tokens=8)
    try:
        said = runner.run(asyncio.wait_for(text_model.complete(question), 60))
    except ConfigError as error:
        refuse_unless_wrong_address(reply, error)
        return
    assert said.fault is not None or isinstance(said.text, str)
    assert said.tokens is None or said.tokens >= 0


@examples(100)
@given(reply=replies(CHAT))
@example(reply=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}")
def test_a_policy_wrote_something_or_the_episode_cannot_be_used(server, asking, reply):
    server.reply = reply
    runner, policy, _ = asking

    async def ask():
        async with policy.slot():
            return await policy.complete(REQUEST)

    try:
        said = runner.run(asyncio.wait_for(ask(), 60))
    except EpisodeError:
        return
    except ConfigError as error:
        refuse_unless_wrong_address(reply, error)
        return
    said.text.encode()
