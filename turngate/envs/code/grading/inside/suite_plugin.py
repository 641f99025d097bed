"""A plugin of pytest that keeps a log of a whole suite: what each test reported, what it cost and what it called.

    TURNGATE_SUITE=LOG TURNGATE_TEST_S=10 [TURNGATE_TRACE=1] python3 … -p suite_plugin

A line of JSON is written as soon as it is known, so a run that is killed leaves its results so far. Tests that the log
names already are not run again, so a second start of the same run goes on after the test that ended the first. A test
that takes too long is failed; if it does not let itself be failed, the process ends. Only calls are traced, not lines,
so a traced suite takes about twice its time.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from types import CodeType, FrameType

import pytest

LOG = os.environ["TURNGATE_SUITE"]
TEST_S = float(os.environ["TURNGATE_TEST_S"])
TRACE = "TURNGATE_TRACE" in os.environ
ROOT = os.getcwd() + os.sep
NOTHING = -1
numbers: dict[tuple[str, str], int] = {}  # path and qualified name of a function → its number
known: dict[int, tuple[CodeType, int]] = {}  # id of a code object → itself, so that the id stays its own; its number
seen: set[int] = set()
fell: set[str] = set()  # reports of the phases of the present test
start_s = start_cpu_s = 0.0
n_written = 0  # functions that the log names already
n_deselected = 0


class TooSlow(BaseException):
    """A test has taken too long. No handler of ordinary errors keeps it from failing."""


def write(line: dict[str, object]) -> None:
    """Append a line to the log."""
    with open(LOG, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def cpu_s() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that were run already."""
    done = set[str]()
    if os.path.exists(LOG):
        with open(LOG, encoding="utf-8") as lines:
            done = {line["test"] for line in map(json.loads, lines) if "test" in line}
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Say how many tests the options leave out."""
    global n_deselected
    n_deselected += len(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say which tests are to be run."""
    write({"found": [item.nodeid for item in session.items], "deselected": n_deselected})


def pytest_runtest_logstart(nodeid: str, location: object) -> None:
    """A test begins, with its fixtures."""
    global start_s, start_cpu_s
    write({"test": nodeid})
    seen.clear()
    fell.clear()
    faulthandler.dump_traceback_later(2 * TEST_S, exit=True)
    signal.signal(signal.SIGALRM, give_up)
    start_s, start_cpu_s = time.monotonic(), cpu_s()
    signal.setitimer(signal.ITIMER_REAL, TEST_S)
    if TRACE:
        threading.settrace(trace)
        sys.settrace(trace)


def give_up(number: int, frame: object) -> None:
    """End the test."""
    fell.add("slow")
    raise TooSlow


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the result of a phase."""
    if report.failed:
        fell.add("failed")
    elif report.skipped or hasattr(report, "wasxfail"):
        fell.add("skipped")


def pytest_runtest_logfinish(nodeid: str, location: object) -> None:
    """It has ended, and its use of time is recorded; functions are numbered in the order of their first call."""
    global n_written
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.settrace(None)
    threading.settrace(None)
    faulthandler.cancel_dump_traceback_later()
    verdict = next((word for word in ("slow", "failed", "skipped") if word in fell), "passed")
    used = {"verdict": verdict, "cpu_s": cpu_s() - start_cpu_s, "time_s": time.monotonic() - start_s}
    new = [*numbers][n_written:]
    n_written += len(new)
    write({"ended": nodeid, **used, "new": new, "calls": sorted(seen - {NOTHING})})


def trace(frame: FrameType, event: str, argument: object) -> None:
    """A function is called; None as an answer: its lines need no tracing."""
    seen.add(place(frame.f_code))


def place(code: CodeType) -> int:
    """The number of a function; ``NOTHING`` for one outside of the work folder."""
    found = known.get(id(code))
    if found is None:
        path, number = os.path.abspath(code.co_filename), NOTHING
        if path.startswith(ROOT):
            key = (path[len(ROOT) :].replace(os.sep, "/"), code.co_qualname)
            number = numbers.setdefault(key, len(numbers))
        found = known[id(code)] = (code, number)
    return found[1]
