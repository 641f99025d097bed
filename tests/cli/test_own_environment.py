"""An environment in one file of the current folder, named ``module:namespace/Name-vN``: every command reaches it.

1. ``check``, ``play``, ``train``, ``eval``, ``show``, ``rescore`` work in the file's folder, and a run goes on there.
2. A run keeps the id as it was written, so that it can go on; tasks and what is printed bear the registered id alone.
3. Environments in processes of their own import the file, too.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.forked_commands import Forks
from turngate.store import Store
from turngate.store.folder import RunFolder

ID = "coin:acme/Coin-v0"
COIN = '''
import turngate
from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, TurnSpec, tool

RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))


def tosses(*, n: int = 4):
    for split in ("train", "heldout"):
        for i in range(n):
            side = ("heads", "tails")[i % 2]
            yield Task(id=f"{split}/{i}", env_id="acme/Coin-v0", prompt="Call it.", private={"side": side}, split=split)


class Coin(ToolEnv):
    turn_spec = TurnSpec(tasks=tosses, rubric=Rubric(rewards=(RIGHT,)), max_turns=2, has_oracle=True)

    def begin(self, task):
        self.called = None
        return task.prompt

    @tool
    def call(self, side: str) -> str:
        """Call a side."""
        self.called = side
        self.end()
        return "called"

    def state(self):
        return f"{self.task.id} {self.called}"

    def verify(self):
        yield Evidence(name="right", value=self.called == self.task.private["side"])

    def oracle(self, task):
        return [f"call {task.private['side']}"]


turngate.register("acme/Coin-v0", f"{__name__}:Coin", description="Call a coin.")
'''
CONFIG = f"""
name = "coin"
model = {{layers = 1, width = 16, heads = 2, vocabulary = 300}}
warm_start = {{episodes = 4, epochs = 1}}
policy = {{turn_tokens = 8, context = 128}}
train = {{steps = 1, tasks_per_step = 1, group_size = 2}}
eval = {{tasks = 1}}

[env]
id = "{ID}"
isolation = "process"
tasks = {{type = "coin:tosses", n = 5}}
"""
RUBRIC = 'rewards = [{type = "from_evidence", name = "right", evidence = "right", kind = "outcome", levels = [0, 1]}]'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds one file, one config and one rubric."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in (("coin.py", COIN), ("coin.toml", CONFIG), ("right.toml", RUBRIC)):
        (folder / name).write_text(text)
    return folder


Done = Callable[..., str]


@pytest.fixture(scope="module")
def done(forked: Forks) -> Done:
    """What a command that works prints."""

    def run(folder: Path, *words: str) -> str:
        result = forked.run(*words, cwd=folder, env=os.environ)
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout

    return run


def test_check_and_play(folder: Path, done: Done) -> None:
    """The first as an installed command runs: -P keeps Python from adding the current folder to its path by itself."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "turngate", "check", ID]
    checked = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (checked.returncode, checked.stdout.splitlines()[1:]) == (0, [f"{ID}: 0 errors, 0 warnings"]), checked.stderr
    assert "finished: outcome 1, paid 1.000" in done(folder, "play", ID, "--oracle")


@pytest.fixture(scope="module")
def run(folder: Path, done: Done) -> RunFolder:
    """What ``turngate train`` made of the config, in the folder of the file."""
    done(folder, "train", "coin.toml")
    return RunFolder(folder / "runs" / "coin")


def test_a_run_plays_it_in_processes_under_the_registered_id(run):
    assert tomllib.loads(run.config.read_text())["env"][0]["id"] == ID
    for group in Store(run.path).read(1, "train"):
        assert group.task.env_id == "acme/Coin-v0"
        assert [trajectory.error for trajectory in group.trajectories] == ["", ""]


def test_show_and_rescore(folder, run, done):
    trajectory = next(iter(Store(run.path).read(1, "train"))).trajectories[0]
    assert " of acme/Coin-v0, split train" in done(
        folder, "show", "runs/coin", "--trajectory", trajectory.id, "--trust"
    )
    assert "of 2 trajectories" in done(
        folder, "rescore", "runs/coin", "--rubric", "right.toml", "--write", "right", "--trust"
    )


@pytest.mark.usefixtures("run")
def test_eval(folder, done):
    options = ("--env", ID, "--tasks", "1", "--turn-tokens", "8", "--context", "128")
    assert "\nacme/Coin-v0 heldout" in done(folder, "eval", "runs/coin/model", *options)


def test_a_run_goes_on(folder, run, done):
    run.model.rename(folder / "before")  # as if it had been killed in its last moments
    assert "written into " in done(folder, "train", "coin.toml")
    assert run.is_complete


def test_away_from_its_folder_the_module_is_not_found(tmp_path, forked):
    result = forked.run("check", ID, cwd=tmp_path, env=os.environ)
    assert result.returncode == 2
    assert result.stderr.startswith("error: unknown module 'coin'; ")
    assert f"looked in the current folder, '{tmp_path}', and on Python's path" in result.stderr


MOVING = COIN.replace("Coin-v0", "Moving-v0").replace(
    "        self.called = None\n", '        self.called = None\n        __import__("os").chdir("/")\n'
)


def test_a_run_stays_in_its_folder_whatever_folder_its_environment_goes_to(folder, done):
    """Training, a baseline and a control, going on, and an evaluation; reports are read from the folder it began in."""
    (folder / "moving.py").write_text(MOVING)
    config = CONFIG.replace('"coin"', '"moving"').replace("coin:", "moving:").replace("Coin-v0", "Moving-v0")
    (folder / "moving.toml").write_text(config.replace('isolation = "process"\n', ""))
    for more in ([], ["--train.steps=2"]):
        done(folder, "train", "moving.toml", "--baselines.demonstrations=[5]", *more)
        run = RunFolder(folder / "runs" / "moving")
        assert run.is_complete
        assert len(list(Store(run.path).read(1, "train"))) == 1
        assert run.metrics.read_text().count("\n") == 1 + len(more)
    assert [one.is_complete for one in run.baselines] == [True]
    done(folder, "eval", "runs/moving/model", "--env", "moving:acme/Moving-v0", "--tasks", "1", "--out", "moved")
    assert RunFolder(folder / "moved").result.exists()
    assert not Path("/runs").exists()
    assert not Path("/moved").exists()
