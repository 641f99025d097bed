"""The trackio sink, with the real trackio: what its file holds after a run, and that nothing is asked of anybody.

trackio fixes its folder when it is imported, so each run here is a process of its own, forked from one that has not.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest

from benchmarks.viewer_figures import played_shop
from tests.helpers.forked_commands import Forks
from tests.helpers.tiny_run import tiny_model
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="trackio is not installed"),
]

Train: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

CONFIG = (
    """
name = "lock"
folder = "runs"

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model(episodes=16, epochs=1)
    + """
[train]
steps = 5
tasks_per_step = 2
group_size = 3
checkpoint_every = 2

[eval]
tasks = 2

[[sink]]
type = "trackio"
project = "locks"
{more}
"""
)
# A sink that writes down every connection that the process tries to open, and fails after a step if it is told to.
WATCHER = '''
import socket
from pathlib import Path

from turngate.sinks import SinkPart

class Watcher(SinkPart):
    """Every address that the process wants to reach, as a line."""
    limit: int

    def open(self, opening):
        def refuse(*arguments, **named):
            with Path("asked.txt").open("a") as file:
                file.write(f"{arguments}\\\\n")
            raise OSError("there is no network")
        socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
        return WatcherSink(self.limit)

class WatcherSink:
    def __init__(self, limit):
        self.limit = limit

    def write(self, step, metrics):
        if step > self.limit:
            raise ValueError("stop here")

    def close(self):
        pass
'''


@pytest.fixture(scope="module")
def logged_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Forks, dict[str, str]]]:
    """Commands of somebody who is logged in and online: trackio's own init would ask the Hub whose token that is."""
    folder = tmp_path_factory.mktemp("logged_in")
    path = os.pathsep.join(filter(None, sys.path))
    env = os.environ | {"PYTHONPATH": path, "HF_HOME": str(folder), "HF_TOKEN": "hf_made", "HF_HUB_OFFLINE": "0"}
    with contextlib.closing(Forks(folder, env)) as forks:
        yield forks, env


@pytest.fixture
def train(logged_in: tuple[Forks, dict[str, str]], tmp_path: Path) -> Train:
    """``turngate train`` of the config, whose trackio folder is in ``tmp_path``."""
    forks, env = logged_in

    def train(more: str, *words: str, **changed: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "watcher.py").write_text(WATCHER.replace("\\\\n", "\\n"))
        (tmp_path / "lock.toml").write_text(CONFIG.format(more=more))
        named = env | {"TRACKIO_DIR": str(tmp_path / "kept"), **changed}
        return forks.run("train", "lock.toml", *words, cwd=tmp_path, env=named)

    return train


def rows(folder: Path, question: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "kept" / "locks.db") as database:
        return database.execute(question).fetchall()


def watcher(limit: int) -> str:
    return f'[[sink]]\ntype = "watcher:Watcher"\nlimit = {limit}'


def test_trackio_has_each_step_once_and_nobody_is_asked(train: Train, tmp_path: Path) -> None:
    stopped = train(watcher(3))
    assert stopped.returncode == 1, stopped.stderr
    assert "stop here" in stopped.stderr
    assert [step for (step,) in rows(tmp_path, "SELECT step FROM metrics ORDER BY id")] == [1, 2, 3, 4]
    whole = train(watcher(9))
    assert whole.returncode == 0, whole.stderr
    assert not (tmp_path / "asked.txt").exists()
    assert "Trackio" not in whole.stdout + whole.stderr  # what its own init prints
    run = RunFolder(tmp_path / "runs" / "lock")
    found = rows(tmp_path, "SELECT step, metrics, run_id, run_name FROM metrics ORDER BY id")
    assert [row[0] for row in found] == [1, 2, 3, 4, 5]
    assert {row[2:] for row in found} == {(json.loads((run.trackio / "sink.json").read_text())["id"], "lock")}
    for (step, metrics, *_), kept in zip(found, read_metrics(run.metrics), strict=True):
        numbers = json.loads(metrics)
        assert numbers["train/paid"] == kept["train/paid"], step
        assert set(numbers) == set(kept) - {"step"}
    (((config,)),) = rows(tmp_path, "SELECT config FROM configs")
    assert json.loads(config)["train"]["steps"] == 5
    assert json.loads(config)["folder_of_the_run"] == str(run.path)
    traces = rows(tmp_path, "SELECT step, messages, metadata FROM traces ORDER BY step, trace_index")
    assert [row[0] for row in traces] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    played = [t for g in Store(run.path).read_groups(5, "train", [0]) for t in g.trajectories][:2]
    for (_, messages, metadata), trajectory in zip(traces[-2:], played, strict=True):
        facts = json.loads(metadata)
        assert facts["episode"] == trajectory.id
        assert facts["page"] == f"http://127.0.0.1:8765/#/run/lock/episode/{quote(trajectory.id, safe='')}"
        assert facts["page_is_served_by"] == f"turngate view {run.path}"
        said = [m["content"] for m in json.loads(messages) if m["role"] == "assistant"]
        assert said == [turn.action.text for turn in trajectory.turns]


IMAGES = """
import sys
from rich.console import Console
from turngate.sinks import Opening, Trackio
from turngate.store.folder import RunFolder

opening = Opening(run=RunFolder.of(sys.argv[1]), done=0, config={}, console=Console(quiet=True))
for _ in range(2):  # a step that is played again
    sink = Trackio(project="locks", episodes=1).open(opening)
    sink.write(1, {"train/success": 0.5})
    sink.close()
"""


def test_a_trace_has_the_images_that_were_seen_once(tmp_path: Path) -> None:
    run = asyncio.run(played_shop(tmp_path))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TRACKIO_DIR": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-c", IMAGES, run], env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    ((messages,),) = rows(tmp_path, "SELECT messages FROM traces")
    (played,) = Store(run).read(1, "train")
    seen = [message["content"] for message in json.loads(messages) if message["role"] == "user"]
    files = [tmp_path / "kept" / "media" / part["file_path"] for content in seen for part in content[1:]]
    turns = played.trajectories[0].turns
    assert [content[0]["text"] for content in seen] == [turn.observation.text for turn in turns]
    assert [file.read_bytes() for file in files] == [image for turn in turns for image in turn.observation.images]
    assert sorted(files) == sorted(file for file in (tmp_path / "kept" / "media").rglob("*") if file.is_file())


def test_no_episodes_where_none_are_wanted(train: Train, tmp_path: Path) -> None:
    done = train("episodes = 0", "--train.steps=1")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path, "SELECT count(*) FROM metrics") == [(1,)]
    assert rows(tmp_path, "SELECT count(*) FROM traces") == [(0,)]


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"TRACKIO_STORAGE_MODE": "jsonl"}, "set TRACKIO_DIR to a folder of this machine"),
        ({"TRACKIO_DIR": "/dev/null/x"}, "sink 'trackio' failed in step 1"),
    ],
)
def test_a_file_that_cannot_be_written_stops_the_run(train: Train, env: dict[str, str], problem: str) -> None:
    refused = train("", "--train.steps=1", **env)
    assert refused.returncode in (1, 2)
    assert problem in refused.stderr
    assert "Traceback" not in refused.stderr
