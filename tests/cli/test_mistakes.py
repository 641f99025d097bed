"""What a user sees when something is not as it should be: one line, an exit code, and nothing left behind."""

import fcntl
import io
import json
import os
import re
import socket
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console
from rich.table import Table

import turngate as package
from tests.cli.small_run import turngate_anew, turngate_in, write_config
from tests.helpers.command_line import turngate, turngate_at
from turngate.report.tables import print_table

CORE = """
import sys


class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "tokenizers", "safetensors", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Refuses())
from turngate.cli.main import main

main()
"""
MINE = """
from typing import Literal

from turngate import Gate, Rubric
from turngate.envs.lock import RUBRIC as LOCK


class Bedtime(Gate):
    type: Literal["bedtime"] = "bedtime"

    @property
    def name(self):
        return "bedtime"

    def touches(self, name, kind):
        return name == "right_key"

    def apply(self, draft):
        for line in draft.lines:
            if line.name == "right_key" and line.turn == 0:
                line.close(self.name)


RUBRIC = Rubric(rewards=LOCK.rewards, gates=[*LOCK.gates, Bedtime()])
"""


class Trained(NamedTuple):
    """A finished run in ``runs/lock`` of a folder, and what it printed."""

    folder: Path
    out: str
    errors: str


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Its rubric has a gate that only a module in the user's folder knows."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "mine.py").write_text(MINE)
    config = write_config(folder, steps=1)
    config.write_text(config.read_text().replace("[env]", '[env]\nrubric = "mine:RUBRIC"'))
    done = turngate_anew(folder, "train", "lock.toml")
    return Trained(folder, done.stdout, done.stderr)


# --- what is not installed, what cannot be named, what is in use -----------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "lock.toml"],
        ["train", "lock.toml", "--model=somewhere", "--warm_start.episodes=2"],
        ["eval", "somewhere", "--env", "turngate/Lock-v1"],
        ["judge-check", "rows.jsonl", "--judge", "somewhere"],
    ],
)
def test_the_core_install_names_the_install_line(arguments: list[str], tmp_path: Path) -> None:
    write_config(tmp_path)
    rows = [{"task": "1 + 1", "response": str(n), "label": n == 2} for n in (2, 3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = sorted(tmp_path.iterdir())
    done = turngate_anew(tmp_path, *arguments, command=[sys.executable, "-c", CORE], code=2)
    assert re.fullmatch(r"error: '\w+' is not installed; run: pip install \"turngate\[train\]\"\n", done.stderr)
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["..", ".", "../other", "a/b", "/tmp/other", "", ".hidden", "-x", "a b", "a\nb"])
def test_a_name_that_is_no_folder_inside_of_the_runs_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    assert turngate("train", "lock.toml", f"--name={name}") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: name: ")
    assert "begin with a letter" in error
    assert [path.name for path in tmp_path.iterdir()] == ["lock.toml"]


@pytest.mark.parametrize("name", ["..", ".", "../other", "a/b", "/tmp/other", ".hidden"])
def test_so_is_a_name_of_rescored_trajectories(name: str, trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained.folder / "runs/lock"
    before = sorted(run.rglob("*"))
    assert turngate("rescore", run, "--rubric", "lock", "--write", name) == 2
    assert "cannot be the name of a folder" in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before


def test_two_runs_in_one_folder_are_refused_and_a_stale_lock_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(tmp_path, steps=1)
    lock = tmp_path / "runs/lock/.in_use"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        assert turngate_at(tmp_path, "train", "lock.toml") == 2
    assert capsys.readouterr().err == (
        f"error: process {os.getpid()} on {socket.gethostname()} is working on '{lock.parent}'; wait until it has "
        "ended, or choose another --name\n"
    )
    assert [path.name for path in lock.parent.iterdir()] == [".in_use"]
    assert lock.read_text()  # as a process leaves it that was killed
    assert turngate_at(tmp_path, "train", "lock.toml") == 0
    assert lock.read_text() == ""


# --- what is read back -----------------------------------------------------------------------------------------------


def test_a_run_is_read_back_with_the_modules_that_it_was_made_with(trained: Trained) -> None:
    """Its config says ``type = "bedtime"``, which only the module ``mine`` explains."""
    folder = trained.folder
    assert json.loads((folder / "runs/lock/machine.json").read_text())["modules"] == ["mine"]
    listed = turngate_in(folder, "show", "runs/lock").stdout
    one = next(word for word in listed.split() if "lock/train/" in word)
    assert "turn 0" in turngate_in(folder, "show", "runs/lock", "--trajectory", one, "--trust").stdout
    turngate_in(folder, "report", "runs/lock", "--trust")
    turngate_in(folder, "credit", "runs/lock", "--method", "rloo", "--step", 1, "--trust")
    stored = tomllib.loads((folder / "runs/lock/config.toml").read_text())["env"][0]["rubric"]
    assert stored["gates"][-1] == {"type": "bedtime"}
    (folder / "again.json").write_text(json.dumps(stored))
    done = turngate_in(folder, "rescore", "runs/lock", "--rubric", "again.json", "--write", "again", "--trust")
    assert "0 of 12 became unusable" in done.stdout
    turngate_in(folder, "credit", "runs/lock/rescored/again", "--method", "rloo", "--step", 1, "--trust")


def test_a_module_that_is_gone_is_named(trained: Trained, tmp_path: Path) -> None:
    """From another folder ``mine`` cannot be imported."""
    done = turngate_in(tmp_path, "report", trained.folder / "runs/lock", "--trust", code=2)
    assert done.stderr.count("\n") == 1
    assert "unknown gate type 'bedtime'" in done.stderr
    assert "of the modules that the run was made with, 'mine' cannot be imported" in done.stderr


# --- what is printed -------------------------------------------------------------------------------------------------


def test_no_library_talks_and_no_line_is_broken_in_a_pipe(trained: Trained) -> None:
    assert trained.errors == ""
    for noise in ("Writing model shards", "Loading weights", "shards:"):
        assert noise not in trained.out
    assert trained.out.endswith("/report:\nsummary.md, episodes.csv, success.png, curves.png, monitors.png\n")
    assert "where both sides were asked the same, else Newcombe." in trained.out  # the end of a long line
    assert "…" not in trained.out


def test_tables_are_whole_in_a_pipe_and_fold_on_a_narrow_terminal() -> None:
    table = Table("trajectory", "ending", box=None)
    name = "lock/train/" + "0123456789" * 12
    table.add_row(name, "agent_fault")
    pipe = Console(file=io.StringIO(), width=80)
    print_table(pipe, table)
    lines = pipe.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert name in lines[1]
    assert pipe.width == 80
    terminal = Console(file=io.StringIO(), width=40, force_terminal=True, color_system=None)
    print_table(terminal, table)
    lines = terminal.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 40
    assert "".join(line.replace("agent_fault", "").strip() for line in lines[1:]) == name


def test_the_version_is_told(tmp_path: Path) -> None:
    assert turngate_in(tmp_path, "--version").stdout == f"turngate {package.__version__}\n"


# --- what nobody expected --------------------------------------------------------------------------------------------

BROKEN = """
from pathlib import Path

import numpy as np


def broken(table):
    return 1 / 0 if Path("runs/lock/trajectories").exists() else np.zeros(table.n_turns, np.float32)
"""


def test_an_exception_of_a_part_names_the_part_and_keeps_the_traceback(tmp_path: Path) -> None:
    write_config(tmp_path, steps=1)
    (tmp_path / "parts.py").write_text(BROKEN)
    done = turngate_in(tmp_path, "train", "lock.toml", "--credit.type=parts:broken", code=1)
    assert re.fullmatch(
        r"'parts' \(\S+/parts\.py, line 8\) raised ZeroDivisionError: division by zero; its traceback is in "
        rf"{tmp_path}/runs/lock/traceback\.txt\n",
        done.stderr,
    ), done.stderr
    assert "ZeroDivisionError" in (tmp_path / "runs/lock/traceback.txt").read_text()


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_of_turngate_is_called_one(
    debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("turngate.cli.envs.registered", lambda: None)
    assert turngate(*(["--debug"] if debug else []), "envs") == 1
    *before, line = capsys.readouterr().err.splitlines()
    assert line == (
        "a bug of turngate: AttributeError: 'NoneType' object has no attribute 'items'; turngate --debug COMMAND shows "
        "where; please report it with that"
    )
    assert before[:1] == (["Traceback (most recent call last):"] if debug else [])
