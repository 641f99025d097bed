"""A step is in the store whole or not at all, whatever kills the writer, and nothing is ever overwritten."""

import fcntl
import logging
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.store.test_trajectories import group
from turngate.errors import StoreError, WriteError
from turngate.store import Store


def test_a_step_is_never_overwritten(tmp_path):
    store = Store(tmp_path)
    store.write(4, [group("first")])
    with pytest.raises(StoreError, match="exists already"):
        store.write(4, [group("second")])
    assert [g.trajectories[0].id for g in store.read(4)] == ["first"]


def test_a_resume_sets_later_steps_aside_in_every_phase(tmp_path, caplog):
    store = Store(tmp_path)
    for step in range(5):
        store.write(step, [group(f"a{step}")])
    store.write(4, [group("e4")], phase="eval")
    assert store.set_aside_after(2) == [3, 4]
    assert "set aside steps 3..4" in caplog.text
    assert store.steps(None) == [0, 1, 2]
    assert store.set_aside_after(2) == []
    store.write(3, [group("again")])
    assert store.steps() == [0, 1, 2, 3]
    assert store.set_aside_after(2) == [3]
    aside = sorted(str(file.relative_to(tmp_path / "set_aside")) for file in tmp_path.glob("set_aside/*/*/*"))
    assert aside == [
        "0/step=000003/train.parquet",
        "0/step=000004/eval.parquet",
        "0/step=000004/train.parquet",
        "1/step=000003/train.parquet",
    ]


def test_discard_deletes_one_phase_of_one_step(tmp_path):
    store = Store(tmp_path)
    store.discard(0, "eval")
    store.write(0, [group("a")])
    store.write(0, [group("e")], phase="eval")
    store.discard(0, "eval")
    assert (store.steps("train"), store.steps("eval")) == ([0], [])
    store.write(0, [group("e2")], phase="eval")
    assert [g.trajectories[0].id for g in store.read(0, "eval")] == ["e2"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(table, file, **options):
        file.write(b"half a file")
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(WriteError, match=r"train.parquet' cannot be written: No space left on device"):
        store.write(0, [group("a")])
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p.name != ".lock"] == []
    assert store.steps() == []


def test_leftovers_of_a_killed_writer_are_removed_on_open(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    Store(tmp_path).write(0, [group("a")])
    leftover = tmp_path / "trajectories/step=000001/.train.parquet.99-1.tmp"
    leftover.parent.mkdir()
    leftover.write_bytes(b"PAR1 half")
    store = Store(tmp_path)
    assert not leftover.exists()
    assert f"removed {leftover}" in caplog.text
    assert store.steps(None) == [0]


def test_a_reader_spares_the_file_that_a_live_writer_is_writing(tmp_path):
    Store(tmp_path).write(0, [group("a")])
    unfinished = tmp_path / "trajectories/step=000000/.eval.parquet.99-1.tmp"
    unfinished.write_bytes(b"PAR1 half")
    with (tmp_path / "trajectories/.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert Store(tmp_path).steps(None) == [0]
        assert unfinished.exists()
    Store(tmp_path)
    assert not unfinished.exists()


KILLED_WRITER = """
import pickle
import sys
from dataclasses import replace
from turngate.store import Store
from turngate.types import ScoredGroup

model = pickle.loads(sys.stdin.buffer.read())
store = Store(sys.argv[1])
step = -1 if store.last_step() is None else store.last_step()
while True:
    step += 1
    names = [replace(t, id=f"{step}/{i}") for i, t in enumerate(model.trajectories)]
    store.write(step, [ScoredGroup(task=model.task, trajectories=tuple(names), scores=model.scores)])
    print(step, flush=True)
"""


def test_a_killed_writer_leaves_only_whole_steps(tmp_path):
    rng = random.Random(0)
    model = pickle.dumps(group(*map(str, range(40))))
    survived = 0
    for _ in range(10):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(model)
        writer.stdin.close()
        assert int(writer.stdout.readline()) == survived  # its first step is on disk; from here on it may die
        time.sleep(rng.uniform(0.0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        store = Store(tmp_path)
        steps = store.steps()
        assert steps == list(range(len(steps)))
        assert len(steps) > survived
        survived = len(steps)
        assert list(tmp_path.rglob("*.tmp")) == []
        for step in steps[-3:]:
            (whole,) = store.read(step)
            assert [t.id for t in whole.trajectories] == [f"{step}/{i}" for i in range(40)]
