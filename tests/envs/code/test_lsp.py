"""The client against servers that behave badly, played by a small program. Real servers: see test_diagnostics.py."""

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from turngate.envs.code.lsp import Client
from turngate.envs.reaper import processes_below
from turngate.errors import EnvError

SETTINGS = {"rule": "on"}

FAKE = """
import json, os, sys, time

def read():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        name, value = line.split(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(sys.stdin.buffer.read(length)) if length else sys.exit(3)

def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\nContent-Type: application/json\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()

def publish(uri, version, *items):
    send(method="textDocument/publishDiagnostics", params={"uri": uri, "version": version, "diagnostics": items})

def ask(method, params):
    send(id="mine", method=method, params=params)
    while (answer := read()).get("id") != "mine":
        pass
    return answer.get("result", answer.get("error", {}).get("code"))

mode = sys.argv[1]
sys.stderr.write("x" * 100_000 + "the last words")
sys.stderr.flush()
while True:
    message = read()
    method, number = message["method"], message.get("id")
    document = (message.get("params") or {}).get("textDocument", {})
    if method == "initialize":
        if mode == "mute":
            time.sleep(60)
        send(id=number, result={"capabilities": {} if mode == "publishes" else {"diagnosticProvider": {}}})
    elif method == "initialized" and mode == "complains":
        send(method="window/showMessage", params={"type": 1, "message": "unknown setting"})
    elif method == "textDocument/didOpen":
        if mode == "deaf":
            time.sleep(60)
        if mode == "publishes":
            publish(document["uri"], document["version"] - 1, {"code": "of the text before"})
            publish(document["uri"] + "i", document["version"], {"code": "of another document"})
            publish(document["uri"], document["version"], {"code": document["text"]})
    elif method == "textDocument/diagnostic":
        if mode == "dies":
            os._exit(7)
        if mode == "babbles":
            print("Hello: there\\r\\n\\r", flush=True)
        if mode == "shapeless":
            send(id=number, result=[])
        if mode == "floods":
            sys.stdout.write("Content-Length: 10000000\\r\\n\\r\\n")
            sys.stdout.flush()
        if mode == "refuses":
            send(id=number, error={"code": -32603, "message": "not today"})
        if mode == "curious":
            answers = [
                ask("workspace/configuration", {"items": [{"section": "a"}, {"section": "b"}]}),
                [folder["name"] for folder in ask("workspace/workspaceFolders", None)],
                ask("client/registerCapability", {"registrations": []}),
                ask("window/workDoneProgress/create", {"token": 1}),
                ask("workspace/applyEdit", {}),
            ]
            send(id="nobody's", result=None)
            send(id=number, result={"kind": "full", "items": [{"code": answers}]})
        send(id=number, result={"kind": "full", "items": []})
    elif method == "shutdown":
        send(id=number, result=None)
    elif method == "exit" and mode != "stays":
        sys.exit(0)
"""


def running(program: Path) -> list[int]:
    """Processes of this one that run it; others, such as spare sandboxes, come and go as they like."""
    found = []
    for pid in processes_below(os.getpid()):
        with suppress(OSError):
            if str(program).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.fixture
def start(tmp_path: Path):
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "folder").mkdir()
    clients: list[Client] = []

    def start(mode: str, deadline_s: float = 20.0) -> Client:
        argv = [sys.executable, "-I", "-S", str(tmp_path / "fake.py"), mode]
        deadline = time.monotonic() + deadline_s
        clients.append(Client(argv, folder=tmp_path / "folder", settings=SETTINGS, env={}, deadline=deadline))
        return clients[-1]

    threads = threading.active_count()
    yield start
    for client in clients:
        client.close()
    assert running(tmp_path / "fake.py") == []
    assert threading.active_count() == threads


def diagnose(client: Client, text: str = "", deadline_s: float = 20.0):
    return client.diagnose("module.py", text, deadline=time.monotonic() + deadline_s)


def test_a_server_that_is_asked(start):
    assert diagnose(start("plain")) == ()


def test_a_server_that_publishes_is_believed_for_the_text_at_hand_only(start):
    client = start("publishes")
    assert [diagnose(client, text) for text in ("one", "two")] == [({"code": "one"},), ({"code": "two"},)]


def test_what_a_server_asks_is_answered(start):
    not_offered = -32601
    assert diagnose(start("curious"))[0]["code"] == [[SETTINGS, SETTINGS], ["folder"], None, None, not_offered]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("dies", r"fake.py dies' ended; exit status 7, last errors: '.*the last words'"),
        ("complains", "says 'unknown setting'"),
        ("refuses", "refused 'textDocument/diagnostic'.*not today"),
        ("babbles", "not the protocol.*Hello"),
        ("shapeless", "not the protocol.*TypeError"),
        ("floods", "10 MB and more.*10000000"),
    ],
)
def test_a_server_that_misbehaves_is_an_error_of_the_environment(start, mode, message):
    client = start(mode)
    with pytest.raises(EnvError, match=message) as caught:
        diagnose(client)
    assert len(str(caught.value)) < 3_000  # the end of its errors, not all
    with pytest.raises(EnvError, match="is closed"):
        diagnose(client)


def test_a_server_that_does_not_answer_runs_into_the_deadline(start):
    with pytest.raises(EnvError, match="did not answer in time"):
        start("mute", deadline_s=0.5)


def test_a_server_that_does_not_read_runs_into_the_deadline(start):
    client = start("deaf")
    with pytest.raises(EnvError, match="did not answer in time"):
        diagnose(client, "x" * 1_000_000, deadline_s=0.3)


def test_a_server_that_does_not_exit_is_killed(start, monkeypatch):
    monkeypatch.setattr("turngate.envs.code.lsp.CLOSE_S", 0.3)
    client = start("stays")
    assert diagnose(client) == ()
    client.close()
    client.close()
    with pytest.raises(EnvError, match="is closed"):
        diagnose(client)


def test_a_program_that_is_not_there(tmp_path):
    argv = [str(tmp_path / "nothing"), "server"]
    with pytest.raises(EnvError, match="'nothing server' could not be started"):
        Client(argv, folder=tmp_path, settings={}, env={}, deadline=time.monotonic() + 1)
