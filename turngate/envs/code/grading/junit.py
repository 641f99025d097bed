"""The results of a run of tests, and whether they can be trusted: pure functions over its XML and its exit status."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from xml.parsers import expat

from turngate.envs.code.grading.returned import Answers

Status: TypeAlias = Literal["passed", "failed", "error", "skipped", "xfailed"]

FIXED: frozenset[Status] = frozenset({"passed", "xfailed"})
"""Statuses that a test which has to pass may report."""
KEPT: frozenset[Status] = FIXED | {"skipped"}
"""Statuses that a test which must not break may report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the tests of a problem on one tree."""

    status: Mapping[str, Status]
    """By test id. A test that did not run is not among them."""
    problem: str = ""
    """Why the report does not count; "" if exit status and results agree."""
    overridden: bool = False
    """The run ended as if all were well, without a report: something ended it early."""
    killed: bool = False
    """The run was ended from outside, at its deadline or at a limit."""
    output: str = ""
    """The output of the runner, shortened."""
    time_s: float = 0.0
    answers: Answers = field(default_factory=dict, repr=False)
    """The values of asked tests, by their ids inside."""

    def verdicts(self, fail_to_pass: Collection[str], pass_to_pass: Collection[str]) -> dict[str, bool]:
        """Test id → whether it holds, as SWE-bench grades. A test without a result is a failure.

        ``fail_to_pass`` may pass or fail as expected, ``pass_to_pass`` may also be skipped. Of a run with a problem
        nothing counts. Source: swebench/harness/grading.py of SWE-bench 5.
        """
        lists = ((fail_to_pass, FIXED), (pass_to_pass, KEPT))
        return {name: self.says(name, good) for names, good in lists for name in names}

    def says(self, name: str, good: Collection[Status]) -> bool:
        """Whether a test reports one of these."""
        found = match(name, self.status)
        return not self.problem and bool(found) and all(self.status[one] in good for one in found)


def read_report(
    xml: bytes | None, exit_status: int, killed_by: str, output: str, time_s: float, answers: Answers | None = None
) -> Report:
    """The report of a run. ``xml``: None if the run wrote none. ``killed_by``: "" if it ended by itself.

    Exit status and results must agree: 0 with failures, or a failure that no test reports, means that the code under
    test wrote one of the two.
    """
    status, unknown = _statuses(xml)
    fell = sum(verdict in ("failed", "error") for verdict in status.values())
    problem, overridden = "", False
    if killed_by:
        problem = f"the tests were ended: {killed_by}"
    elif xml is None:
        problem = f"the run wrote no report (exit status {exit_status})"
        overridden = exit_status == 0
    elif unknown is None:
        problem = "the report of the run cannot be read"
    elif exit_status not in (0, 1):
        problem = f"the runner ended with exit status {exit_status}"
    elif exit_status == 0 and (fell or unknown):
        problem, overridden = f"exit status 0, but {fell + unknown} tests failed", True
    elif exit_status == 1 and not (fell or unknown):
        problem = "exit status 1, but no test failed"
    return Report(
        status={} if problem else status,
        problem=problem,
        overridden=overridden,
        killed=bool(killed_by),
        output=output,
        time_s=time_s,
        answers={} if problem or answers is None else answers,
    )


def fallen(report: Report) -> set[str]:
    """Ids of the tests that failed or ended in an error."""
    return {name for name, verdict in report.status.items() if verdict in ("failed", "error")}


def _statuses(xml: bytes | None) -> tuple[dict[str, Status], int | None]:
    """By test id; and how many failures belong to no test (modules that cannot be imported), None if unreadable."""
    if xml is None:
        return {}, 0
    reading = _Reading()
    try:
        reading.parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError):  # the last two for an unknown encoding
        return {}, None
    return reading.found, reading.unknown


class _Reading:
    """Reads a report event by event: an endlessly nested one must not become a tree."""

    def __init__(self) -> None:
        self.found: dict[str, Status] = {}
        self.unknown = 0
        self._depth, self._names, self._verdict = 0, list[str](), _PASSED
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise ValueError("nested too deeply")
        if tag == "testcase":
            self._names, self._verdict = [], _PASSED
        elif tag == "property" and attributes.get("name") == "nodeid":
            self._names.append(attributes.get("value", ""))
        elif tag in ("failure", "error", "skipped"):
            verdict: Status = "failed" if tag == "failure" else "error" if tag == "error" else "skipped"
            if tag == "skipped" and attributes.get("type") == "pytest.xfail":
                verdict = "xfailed"
            self._verdict = min(self._verdict, verdict, key=_WORST.index)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag != "testcase":
            return
        if not self._names:
            self.unknown += self._verdict in ("failed", "error")
        for name in self._names:  # a test that was reported twice, for its call and its teardown, holds if both do
            if self.found.get(name) not in ("failed", "error"):
                self.found[name] = self._verdict


_DEPTH = 20
_PASSED: Status = "passed"
_WORST: tuple[Status, ...] = ("failed", "error", "xfailed", "skipped", "passed")


_OPEN = re.compile(r"\[[^\]]*\Z")


def match(wanted: str, reported: Collection[str]) -> tuple[str, ...]:
    """The reported ids that ``wanted`` means: itself, or, cut off inside its brackets, all that begin with it."""
    if wanted in reported:
        return (wanted,)
    if _OPEN.search(wanted):
        return tuple(name for name in reported if name.startswith(wanted))
    return ()
