"""MCP servers as worlds of tools: real ones, by the real client, that work, die, hang, flood and lie."""

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import turngate
from tests.envs.tooluse.lamps import write
from turngate.envs.tooluse.mcp_world import McpHttp, McpStdio
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


def servers():
    """The servers that run, by process id."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"_server.py" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


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
    world = McpStdio(command=(sys.executable, ODD), deadline_s=3).open()
    yield world
    world.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("leave", "the tool server failed"),
        ("hang", "the tool server failed: it did not answer within 3 s"),
        ("endless", "the tool server failed: it did not answer within 3 s"),
        ("lie", "the tool answered in a form that it does not declare"),
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
    lost = tool in ("leave", "hang", "endless")
    assert after.ok is not lost
    assert lost is before.isdisjoint(servers())
    odd.start(None)
    assert ask(odd, "fine").text == "fine"


def test_what_is_no_message_is_passed_over(odd):
    odd.start(None)
    assert ask(odd, "babble").text == "fine"


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


@pytest.mark.timeout(300)
def test_a_server_over_http():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    with pytest.raises(ConfigError, match="is no MCP server that can be used"):
        McpHttp(url=url, start_s=20).open()
    process = subprocess.Popen([*COMMAND, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + 120
        while time.monotonic() < deadline_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        world = McpHttp(url=url).open()
        try:
            world.start(None)
            assert ask(world, "count", goods="pears").text == "0"
            process.kill()
            process.wait(10)
            with pytest.raises(EnvError, match="cannot be started again"):
                ask(world, "count", goods="pears")
        finally:
            world.close()
    finally:
        process.kill()
        process.wait(10)


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
