"""Pickles that hold data alone: what is data comes back, and nothing else is looked up, let alone called."""

import datetime
import functools
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import turngate
from turngate.errors import StoreError
from turngate.trainer.ahead import Ahead
from turngate.trainer.auxiliary.learning import TowardsTeacher, towards_text
from turngate.trainer.auxiliary.preference import Cpl, Kto, Prdp, Preference
from turngate.trainer.torch import plain_pickle
from turngate.types import Evidence, Task


def test_data_comes_back():
    fact = Evidence(name="a", value={"b": [1, None, "c"]}, turn=2)
    task = Task(
        id="t", env_id="e", prompt="p", split="train", private={"when": datetime.date(2024, 1, 2), "at": Path("x")}
    )
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = plain_pickle.loads(plain_pickle.dumps([fact, task, numbers, {1, 2}, b"x", np.int64(3)]))
    assert found[:2] == [fact, task]
    assert found[2].dtype == numbers.dtype
    assert found[2].tolist() == numbers.tolist()
    assert found[3:] == [{1, 2}, b"x", 3]


@pytest.mark.parametrize(
    "loss",
    [
        Preference(beta=0.1, imitated=0.0),
        Cpl(alpha=0.1, bias=0.5, gamma=1.0, imitated=0.0),
        Kto(beta=0.1),
        Prdp(beta=0.1),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_losses_of_asides_come_back(loss):
    assert plain_pickle.loads(plain_pickle.dumps(loss)) == loss


def test_losses_without_settings_come_back():
    assert plain_pickle.loads(plain_pickle.dumps(towards_text)) is towards_text
    assert type(plain_pickle.loads(plain_pickle.dumps(TowardsTeacher()))) is TowardsTeacher


class Forged:
    """What it stands for is called when it is read."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "forged",
    [
        Forged(os.system, "touch forged"),
        Forged(eval, "open('forged', 'w')"),
        Forged(getattr, "text", "upper"),
        Forged(functools.partial, os.system, "touch forged"),
        Forged(turngate.make, "turngate/Lock-v1"),
        Forged(__import__, "this"),
        Forged(io.open, "forged", "w"),
    ],
    ids=lambda forged: forged.call[0].__name__,
)
def test_nothing_else_is_looked_up_at_reading_or_written(forged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match="is no plain data"):
        plain_pickle.dumps(forged)
    (tmp_path / "ahead.pt").write_bytes(pickle.dumps(forged))
    with pytest.raises(
        StoreError, match=r"ahead\.pt does not hold episodes that were played ahead: .* is no plain data"
    ):
        Ahead.load(object.__new__(Ahead), tmp_path / "ahead.pt")
    assert not (tmp_path / "forged").exists()


def test_a_module_that_was_not_imported_is_not_imported():
    unknown = b"cturngate.never_imported\nThing\n."
    with pytest.raises(pickle.UnpicklingError, match=r"'turngate\.never_imported\.Thing' is no plain data"):
        plain_pickle.loads(unknown)
