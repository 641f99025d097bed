"""Whatever an MCP server sends while a tool is called, the agent reads an observation and the episode goes on.

1. Over standard output and over HTTP: nothing raw leaves ``env.step``, no episode is void, nobody waits beyond the
   deadline. It is the server's fault, so the agent is told and loses nothing by it.
2. The next episode has a server that works.
"""

import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import turngate
from tests.fuzz.budget import examples
from tests.fuzz.texts import TEXTS, json_texts
from tests.helpers.garbage_server import KINDS, GarbageServer, read_request, settled, whole

SERVER = str(Path(__file__).with_name("blurting_server.py"))
DEADLINE_S = 5.0
WHOLE = {"jsonrpc": "2.0", "id": 0, "result": {"content": [{"type": "text", "text": "ok"}], "isError": False}}
NOTED = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
ERROR = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "no", "data": {}}}
ASKED = {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}


@st.composite
def messages(draw):
    """A message of the protocol of which one value, at any depth, is an odd one."""
    table = json.loads(json.dumps(draw(st.sampled_from([WHOLE, WHOLE, ERROR, NOTED, ASKED]))))
    places = []

    def collect(holder):
        for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            places.append((holder, key))
            if isinstance(value, dict | list):
                collect(value)

    collect(table)
    holder, key = draw(st.sampled_from(places))
    holder[key] = "\x01odd\x01"
    if "id" in table and table["id"] == 0:
        table["id"] = "\x01id\x01"
    odd = draw(st.one_of(json_texts(4), TEXTS.map(json.dumps)))
    text = json.dumps(table).replace(json.dumps("\x01odd\x01"), odd)
    return text.replace(json.dumps("\x01id\x01"), "ID")


ANSWERS = {"right chunks", "a header of 70 kB", "keys twice"}  # of Content-Type application/json

RAW = st.one_of(messages(), messages(), messages(), json_texts(), TEXTS)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    row = {"id": "a", "prompt": "p", "gold": [{"name": "fine", "arguments": {}}], "goal": {"type": "calls"}}
    path.write_text(json.dumps(row) + "\n")
    return str(path)


def made(world, file):
    tasks = {"type": "tool_tasks", "file": file, "held_out": 0}
    return turngate.make("turngate/ToolUse-v1", tools=world, tasks=tasks, max_chars=2000)


@pytest.fixture(scope="module")
def spoken(file):
    command = [sys.executable, "-I", "-S", SERVER]
    with made({"type": "mcp_stdio", "command": command, "deadline_s": DEADLINE_S}, file) as env:
        yield env


def said(env, name, **arguments):
    """What the agent reads of a call. It can be kept, and the call took no longer than it may."""
    start_s = time.monotonic()
    call = json.dumps({"name": name, "arguments": arguments})
    observation, _, terminated, truncated, _ = env.step(f"<tool_call>{call}</tool_call>")
    assert not terminated
    assert not truncated
    assert time.monotonic() - start_s < 60
    observation.text.encode()
    return observation.text


@examples(60)
@given(raw=RAW, name=st.sampled_from(["say", "say", "sum"]))
@example(raw='{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "a\\ud800b"}]}}', name="say")
@example(raw='{"jsonrpc": "2.0", "id": ID, "result": {"content": [], "structuredContent": {"sum": 1e999}}}', name="sum")
@example(raw='{"jsonrpc": "2.0", "id": ID, "error": {"code": "a", "message": "a\\nb\\ud800"}}', name="say")
@example(raw='{"jsonrpc": "2.0", "id": ID, "error": {"code": -32000, "message": "a\\nb\\ud800"}}', name="say")
@example(raw=f'{{"jsonrpc": "2.0", "id": ID, "result": {"[" * 5000}', name="say")
@example(raw=f'{{"jsonrpc": "2.0", "id": ID, "result": {{"content": [], "x": {"9" * 5000}}}}}', name="say")
@example(raw="\xff\xfe{\x00", name="say")
def test_what_a_server_prints_during_a_call_is_read_or_passed_over(spoken, raw, name):
    spoken.reset(seed=0, options={"task": "a"})
    said(spoken, name, raw=raw)
    spoken.reset(seed=0, options={"task": "a"})
    assert said(spoken, "fine").endswith("fine")


class HttpServer(GarbageServer):
    """Speaks MCP over HTTP, and answers tool ``say`` with what ``kind`` makes of the right answer."""

    def _answer(self, connection, kind):
        _, body = read_request(connection)
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            asked = {}
        number, params = asked.get("id"), asked.get("params") or {}
        if number is None:  # a notification; or a GET, for a stream of messages, or a DELETE
            connection.sendall(whole(b"", status=b"202 Yes" if asked else b"405 No"))
            return
        served = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        tools = [
            {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            for name in ("say", "fine")
        ]
        results = {
            "initialize": lambda: {"protocolVersion": params["protocolVersion"], **served},
            "tools/list": lambda: {"tools": tools},
            "tools/call": lambda: {"content": [{"type": "text", "text": "fine"}]},
        }
        if asked["method"] not in results:
            good = {"error": {"code": -32601, "message": "no"}}
        else:
            good = {"result": results[asked["method"]]()}
        answer = json.dumps({"jsonrpc": "2.0", "id": number, **good}).encode()
        if params.get("name") != "say":
            connection.sendall(whole(answer))
            return
        self.send(connection, kind, answer)


@pytest.fixture(scope="module")
def served():
    server = HttpServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def asking(served, file):
    """Environments with a short and with a long deadline."""
    url = f"{served.address}/mcp"
    with (
        made({"type": "mcp_http", "url": url, "deadline_s": 0.4}, file) as short,
        made({"type": "mcp_http", "url": url, "deadline_s": DEADLINE_S}, file) as long,
    ):
        yield {True: short, False: long}
    assert settled(served)


@pytest.mark.parametrize("name", KINDS)
def test_what_a_server_answers_over_http_during_a_call_is_an_observation(served, asking, name, caplog):
    env, served.kind = asking[KINDS[name].hangs], KINDS[name]
    env.reset(seed=0, options={"task": "a"})
    text = said(env, "say")
    assert "\n" not in text.strip()
    if name in ANSWERS:
        assert text.endswith("fine")
    env.reset(seed=0, options={"task": "a"})
    assert said(env, "fine").endswith("fine")
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
