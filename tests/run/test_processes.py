"""``turngate train`` with torchrun: two processes train as one does, also after they were killed; errors name a cause.

1. Metrics of every step are those of a run in one process, to rounding: with a critic, one step ahead, and with a loss
   of one's own.
2. A run whose first process dies while step 4 is played and step 3 learned from leaves no process behind.
3. Its newest checkpoint lacks the end of what the second process wrote: the same command goes on from the one before.
4. An error in the second process is printed, and ends both.
5. Without torchrun, or with another learner under torchrun, the error says what to write.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import turngate as turngate_package
from tests.cli.small_run import variables
from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.rounding import GRADIENT
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import tiny
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "turngate"]
PROGRAM = Path(turngate_package.__file__).with_name("__main__.py")
LIMIT_S = 600
CONFIG = """
name = "run"
folder = "{folder}"

[env]
id = "tests.run.killing_parts:test/KillingLock-v0"
[env.kwargs]
marker = "{folder}/marker"

[learner]
type = "{learner}"
lr = 1e-3

[loss]
objective = {{type = "tests.run.rank_parts:{objective}"{more}}}

[train]
steps = {steps}
ahead = {ahead}
tasks_per_step = 2
group_size = 6
filters = []

[guide]
type = "tests.run.killing_parts:WavesPart"
by = "env"
low = 0.0
high = 0.01
kills = 4

[value]
lr_factor = 10.0
epochs = 2

[eval]
tasks = 1
""" + tiny().replace("tests.helpers.thinking_lock:alternating", "tests.run.rank_parts:valued")

pytestmark = pytest.mark.timeout(4 * LIMIT_S)


def written(folder: Path, learner: str = "fsdp", *, objective: str = "scaled", steps: int = 4, killed: bool = False):
    """The config; a run that is not to be killed has been killed before, as its marker says."""
    folder.mkdir(exist_ok=True)
    if not killed:
        (folder / "marker").touch()
    path = folder / "run.toml"
    more = ", by = 0.5" if objective == "scaled" else ""
    path.write_text(
        CONFIG.format(folder=folder, learner=learner, objective=objective, more=more, steps=steps, ahead=int(steps > 1))
    )
    return path


def torchrun(config: Path, forked: Forks) -> "subprocess.CompletedProcess[str]":
    """``torchrun … -m turngate train`` of the config, in processes that have imported everything."""
    return forked.torchrun(PROGRAM, "train", config, cwd=config.parent, env=variables(), timeout=LIMIT_S)


def steps_of(folder: Path) -> list[dict[str, float]]:
    rows = read_metrics(RunFolder(folder / "run").metrics)
    return [{name: value for name, value in row.items() if not name.startswith(MEASURED)} for row in rows]


def left_in(folder: Path) -> list[str]:
    """The processes that work in the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(path / "cwd")) == folder:
                found.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended meanwhile, or is another user's
            continue
    return found


def test_two_processes_train_as_one_does_also_after_one_was_killed(tmp_path: Path, forked: Forks) -> None:
    whole = written(tmp_path / "one", "torch")
    assert turngate("train", whole) == 0
    config = written(tmp_path / "two", killed=True)
    killed = torchrun(config, forked)
    assert killed.returncode == 1
    assert f"exitcode  : -{signal.SIGKILL.value}" in killed.stderr
    assert left_in(config.parent) == []
    assert [row["step"] for row in steps_of(config.parent)] == [1, 2]
    shard = RunFolder(config.parent / "run").checkpoints / "step=000002" / "state" / "__1_0.distcp"
    os.truncate(shard, shard.stat().st_size // 2)
    ended = torchrun(config, forked)
    assert ended.returncode == 0, ended.stderr
    assert "the checkpoint of step 2 is damaged (state/__1_0.distcp is not what was written)" in ended.stdout
    assert "step     1" not in ended.stdout
    assert "step     4" in ended.stdout
    expected, found = steps_of(whole.parent), steps_of(config.parent)
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert [row["policy/age"] for row in found] == [0, 1, 1, 1]
    for row, other in zip(found, expected, strict=True):
        assert row.keys() == other.keys()
        for name, value in other.items():
            if name == "offpolicy/changed_share":  # on-policy it counts what differs by rounding
                continue
            within = row["step"] * GRADIENT  # updates add up
            np.testing.assert_allclose(row[name], value, rtol=within, atol=within, err_msg=name)
    assert all(min(row["learner/grad_norm"], row["value/grad_norm"]) > 0 for row in found)
    assert RunFolder(config.parent / "run").is_complete


def test_an_error_in_the_second_process_is_told_by_the_first(tmp_path: Path) -> None:
    config = written(tmp_path / "run", objective="fails", steps=1)
    command = [*TORCHRUN, "train", str(config)]
    done = subprocess.run(
        command, cwd=tmp_path / "run", env=variables(), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 1
    assert done.stderr.count("RunError: rank 1 of 2: it has had enough") == 2, done.stderr  # by either
    assert left_in(config.parent) == []


def test_without_torchrun_the_error_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = written(tmp_path / "run")
    assert turngate("train", config) == 2
    assert "start them with torchrun --nproc-per-node 2 -m turngate train CONFIG" in capsys.readouterr().err
    assert not (config.parent / "run").exists()
