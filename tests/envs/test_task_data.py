"""Task data as a dataclass: what is written is read back, and what is missing is named."""

from dataclasses import dataclass

import pytest

from turngate.envs.task_data import TaskData
from turngate.errors import ConfigError
from turngate.types import Task


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sum(TaskData):
    terms: tuple[int, ...]
    result: int
    note: str = ""


def task(private):
    return Task(id="sum/1", env_id="own/Sums-v0", prompt="?", private=private)


def test_what_is_written_is_read_back_and_defaults_are_no_entries():
    plain = Sum(terms=(1, 2), result=3)
    assert plain.private() == {"terms": (1, 2), "result": 3}
    assert Sum.of(task(plain.private())) == plain
    noted = Sum(terms=(1,), result=1, note="short")
    assert Sum.of(task(noted.private())) == noted


def test_entries_of_others_are_left_alone():
    assert Sum.of(task({"terms": (), "result": 0, "kind": "hard"})) == Sum(terms=(), result=0)


def test_a_missing_entry_is_named():
    with pytest.raises(ConfigError, match=r"task 'sum/1' has no 'result' .* own/Sums-v0 needs"):
        Sum.of(task({"terms": (1,)}))


def test_no_message_shows_it():
    assert "known" not in f"{Sum(terms=(41, 1), result=42, note='known')!r}"
