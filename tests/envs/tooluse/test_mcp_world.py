"""MCP servers as worlds of tools: real ones, by the real client, that work, die, hang, flood and lie."""

import contextlib
import http.server as http_server
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import turngate
from tests.envs.tooluse.lamps import write
from tests.helpers.waiting import wait_until
from turngate.cli.main import app
from turngate.envs.tooluse.engine.mcp_world import McpHttp, McpStdio
from turngate.errors import ConfigError, EnvError
from turngate.tools.read import find
from turngate.types import Ending, ToolCall

SERVER = str(Path(__file__).with_name("stock_server.py"))
COMMAND = (sys.executable, SERVER)
ODD = str(Path(__file__).with_name("odd_server.py"))
TASKS = (
    {
        "id": "count",
        "prompt": "How many apples are there?",
        "gold": [{"name": "count", "arguments": {"goods": "apples"}}],
        "goal": {"type": "answer", "answer": "3", "match": "number"},
    },
    {
        "id": "add",
        "prompt": "Add 2 pears.",
        "gold": [{"name": "add", "arguments": {"goods": "pears", "number": 2}}],
        "goal": {"type": "calls"},
    },
)


def ask(world, name, **arguments):
    return world.call(find(name, world.tools), arguments, ToolCall(name=name, arguments=arguments))


def running(words):
    """The processes with these words in their command, by process id."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and words in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def servers():
    """The servers of this process that run, what guards them, and those that lost it: other tests have their own."""
    found = running(b"_server.py")
    return [pid for pid in found if next(above for above in ancestors(pid) if above not in found) in (1, os.getpid())]


def ancestors(process):
    """Its parent, the parent of that, and so on; 0 at the end."""
    with contextlib.suppress(OSError):
        while process > 1:
            process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
            yield process
    yield 0


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name == "turngate mcp"]


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left():
    yield
    assert servers() == []
    assert threads() == []


@pytest.mark.timeout(300)
def test_a_server_works_and_begins_anew_after_writing():
    world = McpStdio(command=COMMAND).open()
    try:
        marks = {tool.name: tool.read_only for tool in world.tools}
        assert marks["count"]
        assert not marks["add"]
        schema = find("add", world.tools).schema["function"]
        assert schema["description"] == "Put goods into the stock."
        assert schema["parameters"]["required"] == ["goods"]
        assert schema["parameters"]["properties"]["number"]["type"] == "integer"
        world.start(None)
        assert ask(world, "count", goods="apples").text == "3"
        assert ask(world, "add", goods="apples", number=2).text == "5 apples"
        failed = ask(world, "count", goods="plums")
        assert not failed.ok
        assert failed.text.startswith("error: ")
        world.start(None)
        assert ask(world, "count", goods="apples").text == "3"  # a new server, with its first stock
        with pytest.raises(ConfigError, match="cannot have a state"):
            world.start({"apples": 1})
    finally:
        world.close()
        world.close()


@pytest.fixture(scope="module")
def odd():
    world = McpStdio(command=(sys.executable, ODD), deadline_s=2).open()
    yield world
    world.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("leave", "the tool server failed"),
        ("hang", "the tool server failed: it did not answer within 2 s"),
        ("endless", "the tool server failed: it did not answer within 2 s"),
        ("progress", "the tool server failed: it did not answer within 2 s"),
        ("astray", "the tool server failed: it did not answer within 2 s"),
        ("lie", "the tool answered in a form that it does not declare"),
        ("torn", "the tool server failed"),
        ("failed", "error: success: it is done"),
        ("refuse", "not like this"),
        ("broken", "the tool answered in a form that it does not declare"),
    ],
)
def test_what_a_server_does_in_an_episode_is_an_observation(odd, tool, said):
    odd.start(None)
    assert ask(odd, "fine").text == "fine"
    before = set(servers())
    reply = ask(odd, tool)
    assert not reply.ok
    assert said in reply.text
    assert "\n" not in reply.text
    after = ask(odd, "fine")
    lost = tool in ("leave", "hang", "endless", "progress", "astray", "torn")
    assert after.ok is not lost
    assert lost is before.isdisjoint(servers())
    odd.start(None)
    assert ask(odd, "fine").text == "fine"


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("resource", "what it found"),
        ("link", "[resource_link a file:///a]"),
        ("blob", "[resource file:///a]"),
        ("bare", '{"sum": 3}'),
    ],
)
def test_what_a_result_holds_arrives_wherever_it_stands(odd, tool, told):
    odd.start(None)
    assert ask(odd, tool).text == told


def test_what_is_no_message_is_passed_over_and_said_once(odd, caplog):
    odd.start(None)
    for tool in ("babble", "latin", "babble"):
        assert ask(odd, tool).text == "fine"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"'{sys.executable} {ODD}' prints lines that are no messages of MCP; they are passed over"
    ]


def test_a_second_answer_to_a_call_is_passed_over(odd):
    odd.start(None)
    for _ in range(3):
        assert ask(odd, "twice").text == "fine"
        assert ask(odd, "refuse").text.endswith("not like this")


def test_an_error_and_a_result_in_one_is_answered(odd):
    odd.start(None)
    ask(odd, "both")
    odd.start(None)
    assert ask(odd, "fine").text == "fine"


def test_tools_stay_as_they_were_when_a_server_says_that_they_are_others(odd):
    odd.start(None)
    before = odd.tools
    assert ask(odd, "change").ok
    assert ask(odd, "fine").text == "fine"
    assert odd.tools is before
    odd.start(None)
    assert ask(odd, "fine").text == "fine"


def test_two_tools_of_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(TASKS[0] | {"gold": [{"name": "fine"}]})
    tools = {"type": "mcp_stdio", "command": [sys.executable, ODD], "env": {"MODE": "twins"}}
    with pytest.raises(ConfigError, match="two tools named 'fine'"):
        turngate.make("turngate/ToolUse-v1", tools=tools, tasks={"type": "tool_tasks", "file": "tasks.jsonl"})
    assert len(servers()) <= 2  # only that of the other tests, and its guard


def test_a_flood_is_cut_and_a_result_is_no_call(odd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(TASKS[0] | {"gold": [{"name": "fine"}]})
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    with turngate.make("turngate/ToolUse-v1", tools=f"{sys.executable} {ODD}", tasks=tasks, max_chars=200) as env:
        _, info = env.reset(seed=0, options={"task": "count"})
        assert all(len(json.dumps(schema)) < 1000 for schema in info["tools"])
        assert len(env.step("flood")[0].text) < 300
        env.step("injected")
        info = env.step("answer")[4]
        assert info["score"].outcome == 0.0
        assert {fact.name: fact.value for fact in info["evidence"]}["answer"] == ""


def test_a_server_that_cannot_be_started_again_makes_the_episode_unusable(tmp_path):
    copy = tmp_path / "odd_server.py"
    copy.write_text(Path(ODD).read_text())
    world = McpStdio(command=(sys.executable, str(copy))).open()
    try:
        world.start(None)
        copy.unlink()
        with pytest.raises(EnvError, match="cannot be started again"):
            ask(world, "leave")
    finally:
        world.close()


OWNERS = """
import os, signal, sys, time
import mcp.client.stdio
from turngate.cli.main import app
from turngate.envs.tooluse.engine.mcp_world import McpStdio
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
while end := os.read(0, 100).decode():
    pid = os.fork()
    if pid == 0:
        break
    os.waitpid(pid, 0)
    print("ended", flush=True)
else:
    sys.exit()
mark = sys.argv[1]
world = McpStdio(command=(sys.executable, sys.argv[2]), env={"MARK": mark}).open()
print("open", os.getpid(), flush=True)
os.read(0, 100)
if end == "close": world.close()
elif end == "lose": os._exit(3)
elif end == "forget": sys.exit()
print("closed", flush=True)
time.sleep(600)
"""
"""Forks, for each kind of end that it reads, a process that owns a server: to import what it needs takes seconds."""


@pytest.fixture(scope="module")
def owners():
    mark = f"1000.{os.getpid()}"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OWNERS, mark, ODD], stdin=pipe, stdout=pipe, text=True) as first:
        yield first, mark
        first.kill()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", ["close", "lose", "forget", "SIGKILL", "SIGTERM", "SIGINT", "server"])
def test_nothing_of_a_server_outlives_its_owner(owners, end):
    """Closed, left open at two kinds of exit, and killed; the last time it is the server that is killed. Two children
    are daemons: in sessions of their own, and their parent has ended."""
    first, mark = owners
    tell(first, end)
    said, _, owner = hear(first).partition(" ")
    assert said == "open"
    is_over = False
    try:
        wait_until(lambda: len(running(f"sleep {mark}".encode())) == 2)  # one that is being made is counted twice
        if end.startswith("SIG"):
            os.kill(int(owner), getattr(signal, end))
        elif end == "server":
            others = {first.pid, int(owner), *running(b"server_guard.py")}
            (server,) = (pid for pid in running(ODD.encode()) if pid not in others and int(owner) in ancestors(pid))
            os.kill(server, signal.SIGKILL)
        else:
            tell(first, "go on")
        if end == "close":
            assert hear(first) == "closed"
        elif end != "server":
            is_over = hear(first) == "ended"
            assert is_over
        wait_until(lambda: not running(f"sleep {mark}".encode()))
    finally:
        if not is_over:
            os.kill(int(owner), signal.SIGKILL)
            assert hear(first) == "ended"


def tell(process, text):
    process.stdin.write(text)
    process.stdin.flush()


def hear(process):
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("flood of tools", "has 322 tools; it needs 1 to 256"),
        ("escape", r"has a tool named 'look\x1b[2J'; names have no blanks and no control characters"),
        ("same page", "its list of tools does not end: the page after 'again' is that page again"),
        ("two words", "has a tool named 'look around'; names have no blanks"),
    ],
)
def test_a_server_that_is_refused_is_closed(mode, said):
    mark = f"2000.{os.getpid()}"
    with pytest.raises(ConfigError) as raised:
        McpStdio(command=(sys.executable, ODD), env={"MODE": mode, "MARK": mark}).open()
    assert said in str(raised.value)
    assert str(raised.value).isprintable()
    assert running(f"sleep {mark}".encode()) == []


def test_an_empty_cursor_is_the_end_of_the_list():
    world = McpStdio(command=(sys.executable, ODD), env={"MODE": "empty cursor"}).open()
    world.close()
    assert len(world.tools) == 22


def test_what_a_server_says_of_its_tools_steers_no_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    app(["tools", f"env MODE=colours {sys.executable} {ODD}"], standalone_mode=False)
    out = capsys.readouterr().out
    assert r"red \x1b[31m \x9b2J \u202e" in out
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("true",), "'true' is no MCP server that can be used"),
        (("no-such-command",), "FileNotFoundError"),
        (("cat",), "'cat' is no MCP server that can be used"),
        (("sleep", "600"), "it did not answer within 2 s"),
    ],
)
def test_what_is_no_server(command, said):
    with pytest.raises(ConfigError) as raised:
        McpStdio(command=command, start_s=2).open()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


class Http:
    """The stock server behind a port, which can be killed and started again."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process = None

    def start(self):
        command = [*COMMAND, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + 120
        while time.monotonic() < deadline_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError("the server does not start")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def http():
    server = Http()
    yield server
    server.kill()


def sockets():
    """The sockets that this process has open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@pytest.mark.timeout(300)
def test_a_server_over_http_that_is_killed(http):
    before = sockets()
    with pytest.raises(ConfigError, match="is no MCP server that can be used"):
        McpHttp(url=http.url, start_s=20).open()
    http.start()
    world = McpHttp(url=http.url).open()
    try:
        world.start(None)
        assert ask(world, "count", goods="pears").text == "0"
        http.kill()
        with pytest.raises(EnvError, match="cannot be started again"):
            ask(world, "count", goods="pears")
        http.start()  # somebody repairs it: the next episode goes on
        world.start(None)
        assert ask(world, "count", goods="pears").text == "0"
        http.kill()
        http.start()  # back before anybody noticed: where the protocol has no sessions, nobody does
        reply = ask(world, "count", goods="pears")
        assert reply.text == "0" if reply.ok else reply.text.startswith("error: the tool server failed")
        world.start(None)
        assert ask(world, "count", goods="pears").text == "0"
    finally:
        world.close()
    assert sockets() <= before


@pytest.mark.timeout(300)
def test_a_server_over_http_that_hangs_and_floods(http):
    before = sockets()
    http.start()
    world = McpHttp(url=http.url, deadline_s=3).open()
    try:
        world.start(None)
        assert len(ask(world, "flood", characters=3_000_000).text) == 3_000_000
        began = time.monotonic()
        reply = ask(world, "nap", seconds=30.0)
        assert not reply.ok
        assert "the tool server failed" in reply.text
        assert time.monotonic() - began < 25
    finally:
        world.close()
    assert sockets() <= before


class _Page(http_server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>welcome</h1>")

    do_GET = do_POST

    def log_message(self, *_):
        """Say nothing."""


def test_a_web_page_is_no_server():
    with http_server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as page:
        thread = threading.Thread(target=page.serve_forever)
        thread.start()
        try:
            with pytest.raises(ConfigError, match="is no MCP server that can be used") as raised:
                McpHttp(url=f"http://127.0.0.1:{page.server_port}/mcp", start_s=10).open()
            assert "\n" not in str(raised.value)
        finally:
            page.shutdown()
            thread.join()


@pytest.mark.timeout(300)
def test_episodes_with_a_server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(*TASKS)
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    with turngate.make("turngate/ToolUse-v1", tools=f"{sys.executable} {SERVER}", tasks=tasks, max_chars=200) as env:
        assert env.turn_spec.fork == "none"

        def played(task, *actions):
            env.reset(seed=0, options={"task": task})
            for action in actions:
                observation, _, terminated, _, info = env.step(action)
            if not terminated:
                _, info = env.finish(Ending.TIME_BUDGET)
            return observation.text, info["score"].outcome

        for task in ("count", "add"):
            assert played(task, *env.oracle(env.tasks.find(task)))[1] == 1.0
        assert played("add", "add pears 1", "add pears 1", "answer")[1] == 0.0
        assert played("add", "count pears", "answer") == ("done", 0.0)
        assert played("count", "count apples", "answer 3")[1] == 1.0
    write(TASKS[1] | {"goal": {"type": "state"}})
    with pytest.raises(turngate.UserError, match="a goal about the state, which this world of tools does not show"):
        turngate.make("turngate/ToolUse-v1", tools=f"{sys.executable} {SERVER}", tasks=tasks)
