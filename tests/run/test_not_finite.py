"""A loss that is not a number, and memory that runs out, in a run: counted, kept, or one line that helps."""

import itertools
import json

import numpy as np
import pytest

from tests.run import learner_parts
from tests.run.test_lora import trained, written
from turngate.errors import NotFiniteError, OutOfMemory, RunError
from turngate.store.folder import RunFolder


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A run of up to six steps whose penalty is what the letters say; returns its folder and what stopped it."""

    def train(calls, **more):
        monkeypatch.setattr(learner_parts, "_calls", itertools.count())
        penalty = {"type": "tests.run.learner_parts:Breaking", "calls": calls}
        settings = {"loss": {"penalties": [penalty]}, "warm_start": {"episodes": 24, "lr": 5e-3}, **more}
        try:
            trained(written(tmp_path, {}, steps=6, **settings))
        except RunError as error:
            return RunFolder(tmp_path / "run"), error
        return RunFolder(tmp_path / "run"), None

    return train


def rows(run):
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_one_is_skipped_and_counted(train):
    run, stopped = train("0n0nn0")
    assert stopped is None
    assert [row["learner/skipped_updates"] for row in rows(run)] == [0, 1, 0, 1, 1, 0]
    assert [row["loss/policy"] is None for row in rows(run)] == [False] * 6  # that of the objective is a number
    assert not run.broken_batch.exists()


def test_minibatches_are_counted_and_not_averaged(train):
    steps = {"steps": 2, "tasks_per_step": 2, "group_size": 4, "filters": [], "minibatches": 2}
    run, stopped = train("nn00", train=steps)
    assert stopped is None
    assert [row["learner/skipped_updates"] for row in rows(run)] == [2, 0]


def test_three_in_a_row_stop_the_run_with_the_batch(train):
    run, stopped = train("0nnn")
    assert isinstance(stopped, NotFiniteError)
    assert str(stopped).startswith("3 updates in a row were skipped, the last because the loss is nan; ")
    assert str(stopped).endswith(f"; the batch is in '{run.broken_batch}'")
    assert "learner.lr" in str(stopped)
    assert len(rows(run)) == 3
    with np.load(run.broken_batch) as kept:
        assert {"ids_L", "advantage_L", "logprob_L", "segment_L"} <= set(kept)
        assert kept["policy_weight_L"].sum() == pytest.approx(1, abs=1e-5)


def test_memory_that_runs_out_is_one_line_that_names_settings(train):
    run, stopped = train("0m")
    assert isinstance(stopped, OutOfMemory)
    assert str(stopped) == (
        "the learner ran out of memory; lower learner.tokens_per_pass, which is 4096, or set "
        'learner.checkpoint_activations = true, or set learner.optimizer = "adamw_8bit"'
    )
    assert len(rows(run)) == 1
