"""A temporary folder goes with its owner; what a killed process left is removed by the next, and nothing in use is."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from turngate.sandbox import scratch
from turngate.sandbox.scratch import Scratch

MAKE = """
import tempfile, time
tempfile.tempdir = {folder!r}
from turngate.sandbox.scratch import Scratch
own = Scratch("kind")
print("made", flush=True)
{then}
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_YOUNG_S", 0.0)
    return tmp_path


def started(folder, then):
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE.format(folder=str(folder), then=then)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"made\n"
    return process


def test_a_folder_that_a_killed_process_left_is_removed_by_the_next(temporary):
    with started(temporary, "time.sleep(600)") as process:
        (left,) = temporary.iterdir()
        own = Scratch("kind")
        assert left.is_dir()  # its owner lives
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    other = Scratch("other")
    assert left.is_dir()  # it is of another kind
    another = Scratch("kind")
    assert not left.exists()
    assert set(temporary.iterdir()) == {own.path, other.path, another.path}  # those of this process are not touched
    for one in (own, other, another):
        one.close()
        one.close()
    assert not list(temporary.iterdir())


def test_a_folder_that_nobody_closed_goes_with_the_program(temporary):
    with started(temporary, "del own"):
        pass
    assert not list(temporary.iterdir())


def test_a_process_that_was_forked_from_the_owner_removes_nothing(temporary):
    with Scratch("kind") as folder:
        then = "import os, sys\nif os.fork() == 0: sys.exit()\nos.wait()\nprint('forked', flush=True)\ntime.sleep(600)"
        with started(temporary, then) as process:
            (left,) = set(temporary.iterdir()) - {folder}
            assert process.stdout.readline() == b"forked\n"
            assert left.is_dir()
            os.kill(process.pid, signal.SIGKILL)


def test_a_folder_that_may_not_be_locked_yet_stays(temporary, monkeypatch):
    monkeypatch.setattr(scratch, "_YOUNG_S", 60.0)
    young = temporary / "turngate-kind-abc"
    young.mkdir()
    Scratch("kind").close()
    assert young.is_dir()


LOCKED = """
import os, sys, tempfile
from turngate.sandbox.scratch import Scratch
tempfile.tempdir = sys.argv[1]
if os.geteuid() == 0:  # whom no permission stops
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
with Scratch("kind") as folder:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").touch()
    for path in (folder / "a" / "b", folder / "a"):
        path.chmod(0o500)
    try:
        (folder / "a" / "b" / "file").unlink()
    except PermissionError:
        print("locked")
"""


def test_folders_that_may_not_be_written_go_too():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        done = subprocess.run([sys.executable, "-c", LOCKED, place], capture_output=True, text=True, check=True)
        assert done.stdout == "locked\n"
        assert os.listdir(place) == []
