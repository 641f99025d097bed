"""A package's suite, run once: what each test reported, what it cost and what it called, as far as the time reaches."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngate.envs.code.grading.grading_sandbox import Bench, run_tests
from turngate.envs.code.grading.junit import Report
from turngate.envs.code.problem import Problem
from turngate.errors import TaskRefused
from turngate.sandbox import Sandbox, SandboxFileError
from turngate.sandbox.base import TMP

TEST_S = 10.0
"""A test that takes longer is ended, and not used."""
TRACED = 3.0
"""A traced test may take so many times as long."""
MAX_LOG_BYTES = 64 << 20

_LOG = f"{TMP}/suite.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a package."""

    path: str
    name: str
    """Qualified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of one test."""

    passed: bool
    slow: bool
    """Whether it was ended because it took longer than ``TEST_S``."""
    cpu_s: float
    """Of the CPU, so that a busy machine finds the same tests fast enough."""
    time_s: float
    calls: frozenset[Function]
    """Functions of the work folder that it called; empty if the run was not traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The result of one run."""

    found: tuple[str, ...]
    """Ids of the tests that were to be run."""
    n_deselected: int
    """Tests that the options left out."""
    ran: Mapping[str, Ran]
    stuck: frozenset[str]
    """Tests during which the whole run ended: they could not be interrupted, or crashed it."""

    @property
    def passed(self) -> frozenset[str]:
        """Ids of the tests that passed."""
        return frozenset(name for name, test in self.ran.items() if test.passed)


class NotRun(TaskRefused):
    """pytest did not come to run any test. ``output``: what it wrote."""

    def __init__(self, why: str, output: str) -> None:
        super().__init__(why)
        self.output = output


def run_suite(problem: Problem, bench: Bench, *, deadline_s: float, traced: bool = False) -> Suite:
    """Run the test files of a problem on what the agent finds, for at most ``deadline_s``; a test that ends the whole
    run is passed over. Raises NotRun, or TaskRefused if what happened is not known.
    """
    test_s = TEST_S * TRACED if traced else TEST_S
    env = {"TURNGATE_SUITE": _LOG, "TURNGATE_TEST_S": str(test_s)} | ({"TURNGATE_TRACE": "1"} if traced else {})
    end_s = time.monotonic() + deadline_s
    lines: Sequence[Mapping[str, Any]] = ()
    with bench.open(problem) as sandbox:
        sandbox.write(_LOG, b"")
        while True:
            left_s = max(1.0, end_s - time.monotonic())
            report = run_tests(sandbox, problem, problem.test_files, deadline_s=left_s, plugin="suite_plugin", env=env)
            before, lines = _begun(lines), _read(sandbox)
            found: list[str] = next((line["found"] for line in lines if "found" in line), [])
            if not found:
                late = f"its tests were not even collected within {deadline_s:.0f} s" if report.killed else ""
                raise NotRun(late or _why(report), report.output)
            begun = _begun(lines)
            if len(begun) >= len(found) or len(begun) == len(before) or time.monotonic() >= end_s:
                return _suite(lines, interrupted=report.killed)


def _why(report: Report) -> str:
    """Why pytest ran nothing, in one line."""
    if missing := re.search(r"No module named '(\w+)", report.output):
        return f"its tests need '{missing[1]}', which is not installed here; install it and name another folder"
    return f"its tests do not run here: {report.problem or 'pytest found none'}; {report.output[-300:].strip()!r}"


def _begun(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line["test"] for line in lines if "test" in line]


def _read(sandbox: Sandbox) -> list[Mapping[str, Any]]:
    """The lines of the log, without a last one that is torn."""
    try:
        log = sandbox.read(_LOG, max_bytes=MAX_LOG_BYTES)
    except SandboxFileError as error:
        raise TaskRefused(f"what its tests do is not known: {error}") from error
    return [json.loads(line) for line in log.decode().split("\n")[:-1]]


def _suite(lines: Sequence[Mapping[str, Any]], *, interrupted: bool) -> Suite:
    """``interrupted``: the last run was ended from outside, which is not the fault of the test that it was at."""
    first = next(line for line in lines if "found" in line)
    functions: list[Function] = []
    ran: dict[str, Ran] = {}
    for line in lines:
        if "found" in line:
            functions = []  # every run counts them from 0
        elif "ended" in line:
            functions += [Function(path=path, name=name) for path, name in line["new"]]
            ran[line["ended"]] = Ran(
                passed=line["verdict"] == "passed",
                slow=line["verdict"] == "slow",
                cpu_s=line["cpu_s"],
                time_s=line["time_s"],
                calls=frozenset(functions[number] for number in line["calls"]),
            )
    begun = _begun(lines)
    stuck = set(begun) - ran.keys() - ({begun[-1]} if interrupted and begun else set())
    return Suite(found=tuple(first["found"]), n_deselected=first["deselected"], ran=ran, stuck=frozenset(stuck))
