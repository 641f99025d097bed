"""What a killed process leaves behind is removed by the next one, and nothing that is in use."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from turngate.envs.code.grading import toolbox
from turngate.envs.code.grading.toolbox import Toolbox

MAKE = """
import tempfile, time
tempfile.tempdir = {folder!r}
from turngate.envs.code.grading.toolbox import Toolbox
box = Toolbox()
print("made", flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(toolbox, "_YOUNG_S", 0.0)
    return tmp_path


def test_a_folder_that_a_killed_process_left_is_removed_by_the_next(temporary):
    command = [sys.executable, "-c", MAKE.format(folder=str(temporary))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"made\n"
        (left,) = temporary.iterdir()
        own = Toolbox()
        assert left.is_dir()  # its owner lives
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    another = Toolbox()
    assert not left.exists()
    assert len(list(temporary.iterdir())) == 2  # the first of this process is not touched
    for box in (own, another):
        box.close()
        box.close()
    assert not list(temporary.iterdir())


def test_a_folder_that_may_not_be_locked_yet_stays(temporary, monkeypatch):
    monkeypatch.setattr(toolbox, "_YOUNG_S", 60.0)
    young = temporary / "turngate-tools-abc"
    young.mkdir()
    Toolbox().close()
    assert young.is_dir()
