"""``turngate train --jobs``: baselines and controls made by other processes while the run is made."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.cli.small_run import variables
from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.run_metrics import MEASURED
from tests.helpers.waiting import wait_until
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.evaluations_file import read_evaluations

TABLE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 8, "epochs": 2, "episodes_per_batch": 8, "lr": 5e-3},
    "baselines": {"demonstrations": [24]},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "train": {"steps": 2, "tasks_per_step": 2, "group_size": 2, "filters": []},
    "eval": {"tasks": 4},
    "controls": ["shuffled_reward"],
}


def written(folder: Path, *, without: Sequence[str] = (), **changes: Any) -> Path:
    table = {key: value for key, value in {**TABLE, **changes}.items() if key not in without}
    path = folder / "lock.toml"
    path.write_text(tomli_w.dumps({**table, "folder": str(folder / "runs")}))
    return path


def numbers(run: RunFolder) -> tuple[object, ...]:
    """All that a run measured but times."""
    rows = read_metrics(run.metrics) if run.metrics.exists() else []
    steps = [{key: value for key, value in row.items() if not key.startswith(MEASURED)} for row in rows]
    return steps, read_evaluations(run.path), (run.model / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory, forked: Forks) -> tuple[RunFolder, str]:
    """A run made with --jobs 2, and what the command printed."""
    folder = tmp_path_factory.mktemp("two")
    done = forked.run("train", written(folder), "--jobs", 2, cwd=folder, env=variables(), timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    return RunFolder(folder / "runs" / "lock"), done.stdout


def test_every_number_is_the_same_for_one_job_and_two(two_jobs: tuple[RunFolder, str], tmp_path: Path) -> None:
    together, _ = two_jobs
    assert turngate("train", written(tmp_path)) == 0
    alone = RunFolder(tmp_path / "runs" / "lock")
    for pick in (lambda run: run, lambda run: run.baseline(24), lambda run: run.control("shuffled_reward")):
        assert numbers(pick(together)) == numbers(pick(alone))
    assert not alone.baseline(24).log.exists(), "one job needs no other process"


def test_what_another_process_printed_is_in_its_folder(two_jobs: tuple[RunFolder, str]) -> None:
    run, told = two_jobs
    baseline, control = run.baseline(24), run.control("shuffled_reward")
    assert f"baseline: supervised learning from 24 demonstrations; its output: {baseline.log}\n" in told
    assert f"control: shuffled_reward; its output: {control.log}\n" in told
    assert "baseline '24': complete after " in told
    assert "control 'shuffled_reward': complete after " in told
    assert "warm start" in baseline.log.read_text()
    assert "shuffled_reward" in control.log.read_text()


def test_a_process_that_fails_is_named_and_the_others_are_complete(
    two_jobs: tuple[RunFolder, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = two_jobs
    path = written(tmp_path)
    ours = RunFolder(tmp_path / "runs" / "lock")
    shutil.copytree(run.path, ours.path)
    for one in (ours, ours.baseline(24), ours.control("shuffled_reward")):
        text = one.config.read_text().replace(str(run.path.parent), str(ours.path.parent))
        one.config.write_text(text)
    broken, control = ours.baseline(24), ours.control("shuffled_reward")
    broken.config.write_text(broken.config.read_text().replace("seed = 0", "seed = 1", 1))
    shutil.rmtree(broken.model)
    shutil.rmtree(control.model)
    assert turngate("train", path, "--jobs", 2) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "RunError: baseline '24' failed: " in error
    assert "holds a run with other settings" in error
    assert error.endswith(f"all that it printed is in {broken.log}")
    assert control.is_complete
    assert not broken.is_complete


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_when_the_command_is_stopped(number: signal.Signals, tmp_path: Path, forked: Forks) -> None:
    config = written(tmp_path, without=["baselines"], train={**TABLE["train"], "steps": 50000})
    control = RunFolder(tmp_path / "runs" / "lock").control("shuffled_reward")
    process = forked.start("train", config, "--jobs", 2, cwd=tmp_path, env=variables())
    try:
        wait_until(lambda: any(control.checkpoints.glob("step=*")))
        other = int(control.lock.read_text().split()[1])
        assert other != process.pid
        process.send_signal(number)
        _, errors = process.communicate(timeout=100)
        wait_until(lambda: not lives(other))
        if number == signal.SIGTERM:
            assert (process.returncode, errors.count("\n")) == (143, 1)
            assert "; to go on: python -m turngate train " in errors
        assert control.log.read_text().splitlines()[-1] == "stopped by SIGTERM"
    finally:
        process.kill()


def lives(pid: int) -> bool:
    """Whether a process exists and is not waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (0, "Invalid value for '--jobs': Input should be greater than or equal to 1"),
        (2, "error: --jobs 2 has no effect: the config has one run, without baselines and controls; leave --jobs out"),
    ],
)
def test_numbers_of_jobs_that_mean_nothing_are_refused(
    jobs: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, without=["baselines", "controls"])
    assert turngate("train", path, "--jobs", jobs) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "runs").exists()
