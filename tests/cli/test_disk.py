"""A full, a read-only and a damaged disk: one line, an exit code, and what was written before stays as it was.

Full and read-only file systems are real ones: bubblewrap mounts them for a process, without needing to be root.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small_run import COMMAND, variables, write_config
from tests.helpers.command_line import turngate_at
from tests.helpers.run_metrics import MEASURED

pytestmark = pytest.mark.component

WRITERS = {
    "metrics": """
from turngate.store.metrics import JsonlSink
sink, step = JsonlSink("metrics.jsonl"), 0
while True:
    step += 1
    sink.write(step, {"train/success": 0.5})
""",
    "store": """
from turngate.store import write_text_atomic
size = 1
while True:
    size *= 2
    write_text_atomic("evaluations.jsonl", "x" * size)
""",
    "checkpoint": """
from pathlib import Path
import torch
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.torch.shards import write_state
class Learner:
    def save(self, path):
        write_state({"weights": torch.ones(self.size)}, path)
checkpoints, learner, step = Checkpoints(Path("checkpoints")), Learner(), 0
while True:
    step += 1
    learner.size = 4 ** step
    checkpoints.save(step, learner)
""",
}


def in_sandbox(folder: Path, script: str, *mounts: str) -> "subprocess.CompletedProcess[str]":
    """A shell script in ``folder`` with more mounts; the rest of the system as it is."""
    base = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]
    command = [*base, *mounts, "--chdir", str(folder), "bash", "-c", script]
    return subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("what", WRITERS)
def test_a_file_that_cannot_grow_is_one_error_and_no_torn_file(what: str, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the system refuses a write in the middle, as a full disk does."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    done = subprocess.run(
        [sys.executable, "-c", WRITERS[what]], cwd=tmp_path, env=variables(), preexec_fn=limited, capture_output=True
    )
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("turngate.errors.WriteError: "), done.stderr.decode()
    assert " cannot be written: " in last
    if what == "metrics":
        steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        assert steps == list(range(1, len(steps) + 1))
    elif what == "store":
        assert set((tmp_path / "evaluations.jsonl").read_text()) == {"x"}
        assert [path.name for path in tmp_path.iterdir()] == ["evaluations.jsonl"]
    else:
        names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
        assert len(names) == 2
        assert all(name.startswith("step=") for name in names)


def test_a_run_whose_disk_becomes_full_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """The disk has room for the run; somebody fills it after the third checkpoint, and makes room again."""
    write_config(tmp_path, steps=5000)
    (tmp_path / "runs").mkdir()
    (tmp_path / "out").mkdir()
    train = " ".join([*COMMAND, "train", "lock.toml"])
    script = f"""
        checkpoints=runs/lock/checkpoints
        newest() {{ ls $checkpoints | grep step= | tail -1; }}
        {train} > out/first 2> out/first_errors & first=$!
        while [ ! -d $checkpoints/step=000003 ] && kill -0 $first; do sleep 0.05; done
        head -c 100000000 /dev/zero > runs/filler
        wait $first; echo $? > out/first_code
        ls $checkpoints > out/left
        at=$(newest)
        rm runs/filler
        {train} > out/second 2> out/second_errors & second=$!
        while [ "$(newest)" = "$at" ] && kill -0 $second; do sleep 0.05; done
        kill -TERM $second
        wait $second; echo $? > out/second_code
    """
    done = in_sandbox(tmp_path, script, "--size", "20000000", "--tmpfs", str(tmp_path / "runs"))
    out = tmp_path / "out"
    errors = (out / "first_errors").read_text()
    left = (out / "left").read_text().split()
    last = int(left[-1].removeprefix("step="))
    assert errors.count("\n") == 1, errors + done.stderr
    assert re.fullmatch(
        rf"WriteError: '{tmp_path}/runs/lock/\S+' cannot be written: No space left on device; step {last} of 5000 is "
        r"safe; make room, then go on: python -m turngate train lock\.toml\n",
        errors,
    ), errors
    assert (out / "first_code").read_text() == "1\n"
    assert left == [f"step={last - 1:06d}", f"step={last:06d}"]
    assert (out / "second_code").read_text() == "143\n", (out / "second_errors").read_text()


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    write_config(tmp_path)
    (tmp_path / "runs").mkdir()
    runs = str(tmp_path / "runs")
    done = in_sandbox(tmp_path, " ".join([*COMMAND, "train", "lock.toml"]), "--ro-bind", runs, runs)
    assert done.stderr == (
        f"error: the run's folder '{runs}/lock' cannot be written: Read-only file system; choose another --folder or "
        "--name\n"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert list((tmp_path / "runs").iterdir()) == []


# --- damaged ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a config and a run of two steps that has yet to make its model."""
    folder = tmp_path_factory.mktemp("stopped")
    write_config(folder)
    assert turngate_at(folder, "train", "lock.toml") == 0
    shutil.rmtree(folder / "runs/lock/model")
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(stopped, tmp_path / "copy")
    return tmp_path / "copy"


def damage(state: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)


def test_a_damaged_checkpoint_is_left_for_the_one_before(
    folder: Path, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = folder / "runs/lock/checkpoints"
    damage(checkpoints / "step=000002/state.pt")
    assert turngate_at(folder, "train", "lock.toml") == 0
    said = "the checkpoint of step 2 is damaged (state.pt is not what was written): set aside; step 1 is the newest"
    assert said in capsys.readouterr().out.splitlines()
    assert {path.name for path in checkpoints.iterdir()} == {"step=000001", "step=000002", "damaged-000002"}
    assert rows(folder) == rows(stopped)


def rows(folder: Path) -> list[dict[str, float]]:
    """The metrics of the run without the clocks, and its evaluations."""
    text = (folder / "runs/lock/metrics.jsonl").read_text() + (folder / "runs/lock/evaluations.jsonl").read_text()
    found = map(json.loads, text.splitlines())
    return [{name: value for name, value in row.items() if not name.startswith(MEASURED)} for row in found]


def test_checkpoints_that_are_all_damaged_are_a_clear_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = folder / "runs/lock/checkpoints"
    damage(checkpoints / "step=000001/state.pt")
    (checkpoints / "step=000002/state.pt").unlink()
    assert turngate_at(folder, "train", "lock.toml") == 1
    assert capsys.readouterr().err == (
        f"StoreError: no checkpoint in '{checkpoints}' can be used (step 2: state.pt is missing; step 1: "
        "state.pt is not what was written); restore one of them from a backup, or remove the run's folder to begin "
        "again\n"
    )
    assert {path.name for path in checkpoints.iterdir()} == {"step=000001", "step=000002"}


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluations.jsonl", "alarms.jsonl"])
def test_a_torn_last_line_is_cut_off_aloud(
    name: str, folder: Path, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "runs/lock" / name
    with file.open("a") as torn:
        torn.write('{"step": 3, "train/succ')
    assert turngate_at(folder, "train", "lock.toml") == 0
    said = capsys.readouterr()
    assert f"{file}: its last line was incomplete, so its 23 bytes were cut off" in said.out.splitlines()
    assert said.err == ""
    assert rows(folder) == rows(stopped)
    assert "train/succ" not in file.read_text().splitlines()[-1] or name == "metrics.jsonl"
