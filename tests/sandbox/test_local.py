"""The back end for trusted code: it must be asked for by name and says what it is; results are as elsewhere."""

import logging
import os
import time
from pathlib import Path

import pytest

from turngate.errors import ConfigError
from turngate.sandbox import KilledBy, ResourceLimits, SandboxFileError, open_backend

LONG_S = 60.0


@pytest.fixture
def sandbox():
    with open_backend("local", ResourceLimits(output_bytes=1000), trusted=True) as backend, backend.open() as sandbox:
        yield sandbox


def shell(sandbox, text, deadline_s=LONG_S, **more):
    return sandbox.run(["bash", "-c", text], deadline_s=deadline_s, **more)


def marked(sandbox):
    """How many processes of the sandbox are alive."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += sandbox._mark.encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
    return found


def test_it_must_be_trusted_and_says_so_loudly(caplog):
    with pytest.raises(ConfigError, match="no sandbox"):
        open_backend("local")
    with caplog.at_level(logging.WARNING), open_backend("local", trusted=True):
        assert "NO SANDBOX" in caplog.text


def test_results_are_as_elsewhere(sandbox):
    result = shell(sandbox, "cat; echo err >&2; exit 3", stdin=b"in")
    assert (result.exit, result.stdout, result.stderr) == (3, b"in", b"err\n")
    assert shell(sandbox, "kill -9 $$").exit == 137
    assert sandbox.run(["no-such-program"], deadline_s=LONG_S).exit == 127
    assert len(shell(sandbox, "head -c 1000000 /dev/zero").stdout) < 1100
    with pytest.raises(SandboxFileError, match="missing"):
        shell(sandbox, "true", cwd="missing")


def test_the_deadline_reaches_who_has_left_the_group(sandbox):
    result = shell(sandbox, "(setsid sleep 600 &); sleep 600", deadline_s=0.5)
    assert result.killed_by is KilledBy.DEADLINE
    assert marked(sandbox) == 0


def test_files_stay_in_the_folders(sandbox):
    sandbox.write("a/b", "1", executable=True)
    assert sandbox.read("/work/a/b") == b"1"
    assert [entry.name for entry in sandbox.list("a")] == ["b"]
    os.symlink("/etc", sandbox.inside("/work") + "/out")
    for action in (lambda: sandbox.read("out/passwd"), lambda: sandbox.write("out/x", ""), lambda: sandbox.list("out")):
        with pytest.raises(SandboxFileError, match="leads out"):
            action()
    for action in (lambda: sandbox.read("a"), lambda: sandbox.list("missing"), lambda: sandbox.write("a", "")):
        with pytest.raises(SandboxFileError):
            action()


def test_forks_are_copies(sandbox):
    shell(sandbox, "echo 1 > a; echo t > $TMPDIR/t; echo h > ~/h")
    with sandbox.fork() as branch:
        sandbox.write("a", "2")
        assert shell(branch, "cat a $TMPDIR/t ~/h").stdout == b"1\nt\nh\n"


def test_a_session_and_a_command_beside_it(sandbox):
    with sandbox.session() as session:
        session.run("X=5; sleep 600 &", deadline_s=LONG_S)
        time.sleep(0.05)  # what is as old as the command, to a hundredth of a second, counts as started by it
        shell(sandbox, "true")
        result = session.run("sleep 600", deadline_s=0.5)
        assert (result.killed_by, result.note) == (KilledBy.DEADLINE, "")
        assert session.run("jobs -r | wc -l; echo $X", deadline_s=LONG_S).stdout == b"1\n5\n"
    assert marked(sandbox) == 0
