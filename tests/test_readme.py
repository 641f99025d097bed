"""The README's files and commands work as they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from turngate.store import Store

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    """What stands between fences of that language."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the file of the environment and the config beside it."""
    (tmp_path / "order.py").write_text(*blocks("python"))
    (tmp_path / "order.toml").write_text(blocks("toml")[0])
    return tmp_path


def commands() -> dict[str, list[str]]:
    """Each command under the environment, by its name."""
    lines = [shlex.split(line, comments=True) for line in blocks("sh")[0].splitlines()]
    assert {words[0] for words in lines} == {"turngate"}
    return {words[1]: words[1:] for words in lines}


def test_the_environment_of_the_readme_is_checked_and_played(folder: Path) -> None:
    assert list(commands()) == ["check", "play", "train"]
    rules, verdict = run(commands()["check"], folder).splitlines()
    assert rules.startswith("rules, tried with 3 seeds: reset, answer, ")
    assert verdict == "order:acme/Order-v0: 0 errors, 0 warnings"
    assert "finished: outcome 1" in run(commands()["play"], folder)


def test_the_environment_of_the_readme_is_trained_on(folder: Path) -> None:
    assert "heldout" in run([*commands()["train"], "--train.steps=2"], folder)
    path = folder / "runs" / "order"
    assert (path / "report" / "success.png").exists()
    mixed = (group for group in Store(path).read(1, "train") if len({score.outcome for score in group.scores}) == 2)
    episode = next(mixed).trajectories[0].id
    assert episode in run(["show", "runs/order", "--step", "1"], folder)
    shown = run(["show", "runs/order", "--trajectory", episode], folder)
    assert re.search(r"because +episodes: [+-]\S+ against 15 others\n +because +turns in the same state: ", shown)


def test_tools_of_the_readme_are_listed_and_trained_with(tmp_path: Path) -> None:
    (line,) = blocks("json")
    first = json.loads(line)
    lines = [line.replace("take-0", f"take-{n}").replace("2", str(n)) for n in range(1, 9)]
    assert json.loads(lines[1]) == first | {"id": "take-2"}
    (tmp_path / "stock.py").write_text(*blocks("py"))
    (tmp_path / "stock.toml").write_text(blocks("toml")[1])
    (tmp_path / "tasks.jsonl").write_text("".join(lines))
    assert "WRITE take ITEM COUNT" in run(["tools", "stock"], tmp_path)
    short = [
        "--train.steps=2",
        "--train.tasks_per_step=4",
        "--warm_start.episodes=6",
        "--warm_start.epochs=2",
        "--eval.tasks=1",
    ]
    assert "heldout" in run(["train", "stock.toml", "--name=stock", *short], tmp_path)
    assert (tmp_path / "runs" / "stock" / "report" / "success.png").exists()


def run(words: list[str], folder: Path) -> str:
    """What the command prints, run as an installed one: -P keeps the current folder from Python's path."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "turngate", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_python_call_of_the_page_on_training_reads_the_config(folder: Path) -> None:
    page = (README.parent / "docs" / "training.md").read_text()
    (call,) = re.findall(r"`turngate\.cli\.train\.train\(Console\(\), (turngate\.config\.load\(.*\))\)`", page)
    script = f"from pathlib import Path\nimport turngate.cli.train, turngate.config\nprint({call}.env[0].label)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("acme/Order-v0\n", "")
