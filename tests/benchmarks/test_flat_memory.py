"""The benchmark of growth: short runs of the cheap cases leave nothing behind, and a leak is named."""

import sys
import threading
from contextlib import contextmanager

import pytest

from benchmarks import flat_memory
from benchmarks.flat_memory import measured, search_local, slope


@pytest.mark.parametrize("name", ["search_local", "search_server", "tools_python"])
def test_episodes_leave_nothing_behind(name):
    found = measured(name, 100)
    assert found["before"] == found["after"]
    assert found["kib_per_episode"] < 20


def test_a_case_that_leaks_memory_and_threads_fails(monkeypatch):
    kept, stop = [], threading.Event()

    @contextmanager
    def leaks():
        def task(number):
            kept.append(bytearray(b"x" * 200_000))
            return env.tasks.task("train", number % 3)

        with search_local() as (env, _):
            yield env, task
        threading.Thread(target=stop.wait, daemon=True).start()

    monkeypatch.setitem(flat_memory.CASES, "search_local", leaks)
    monkeypatch.setattr(sys, "argv", ["flat_memory", "--episodes", "40", "--only", "search_local"])
    with pytest.raises(SystemExit, match="grows or leaves something behind: search_local"):
        flat_memory.main()
    stop.set()


def test_the_slope_is_that_of_a_line():
    assert slope([3.0 * episode + 7 for episode in range(10)]) == pytest.approx(3.0)
