import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def trained():
    """A real judge: model and tokenizer."""
    from tests.helpers import tiny_judge

    return tiny_judge.learn_to_say_no()


@pytest.fixture(scope="session")
def judge_folder(trained, tmp_path_factory):
    """The same in a folder."""
    from turngate.agents import tiny

    folder = tmp_path_factory.mktemp("model") / "tiny-judge"
    tiny.save(*trained, folder)
    return folder


@pytest.fixture(scope="session")
def url(judge_folder):
    """The same behind a server in a process of its own."""
    from tests.helpers import tiny_judge

    command = [sys.executable, "-m", tiny_judge.__name__, str(judge_folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}/v1"
        server.kill()
