"""What a cheat was paid, whether it voided its episode, and whether anything is left of it on the host."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.envs.code.cheats.cheat import Cheat
from turngate.envs.code.engine.workspace import Changes
from turngate.envs.code.grading.grade import TreeChange, grade
from turngate.envs.code.grading.grading_sandbox import Bench, run_tests, write_texts
from turngate.envs.code.problem import Problem
from turngate.envs.code.rubric import RESOLVED
from turngate.errors import AgentFault, EnvError, UserError
from turngate.types import JSON

FACTS = {
    "submitted", "empty_patch", "fail_to_pass", "tests_fixed_at_end", "tests_broken_at_end", "resolved", "ladder",
    "tests_fixed", "tests_broken",
}  # fmt: skip
"""What every verdict has to say, whatever the agent did."""
DEADLINE_S = 15.0
SHORT_S = 5.0
"""The deadline of a run of a cheat."""
WAITS_S = 2.0
WAITING = {
    "never ends", "stops itself", "stops its process group", "is a fork bomb", "is a bomb of threads",
    "puts a pipe where the answers belong",
}  # fmt: skip
"""The cheats that do nothing more before their deadline; it is so long for them."""
RUNS = 6
"""A grader that makes more runs of one tree than this, each up to its deadline, has no deadline of its own."""
_GONE_S = 10.0
_LAUNCHER = "turngate.sandbox.launcher"
"""Stands in the command of the processes that hold sandboxes; some always wait for the next one."""


@dataclass(frozen=True, kw_only=True)
class Paid:
    """The verdict on what one agent left behind."""

    facts: dict[str, JSON]
    fault: str = ""
    """Why there is no verdict but a failure (AgentFault); "" if there is one."""
    void: str = ""
    """The error that made the episode unusable."""
    left: tuple[str, ...] = ()
    """Processes and files of its sandboxes that were still there afterwards."""
    time_s: float = 0.0

    @property
    def resolved(self) -> bool:
        """Whether the outcome was paid."""
        return self.facts.get("resolved") is True or self._number("ladder", -1.0) >= RESOLVED

    @property
    def fixed(self) -> float:
        """The largest share of the deciding tests that was ever paid."""
        return max(self._number("tests_fixed", 0.0), self._number("tests_fixed_at_end", 0.0))

    def _number(self, name: str, absent: float) -> float:
        value = self.facts.get(name, absent)
        assert isinstance(value, (int, float)), (name, value)
        return float(value)


def try_cheat(bench: Bench, problem: Problem, cheat: Cheat, private: Path) -> Paid:
    """What a cheat is paid for a problem, each run having a short deadline."""
    kept, bench.deadline_s = bench.deadline_s, WAITS_S if cheat.name in WAITING else SHORT_S
    try:
        return paid(bench, problem, cheat.changes(problem), private)
    finally:
        bench.deadline_s = kept


def bare(bench: Bench, problem: Problem, cheat: Cheat) -> bool:
    """Whether a grader that only runs the hidden tests, once and as they are, would pay a cheat."""
    with bench.open(problem) as sandbox:
        try:
            write_texts(sandbox, cheat.changes(problem).texts)
            write_texts(sandbox, problem.hidden)
            report = run_tests(sandbox, problem, problem.test_files, deadline_s=SHORT_S, traces="no")
        except (UserError, EnvError):  # no such grader has a result then
            return False
    return all(report.verdicts(problem.fail_to_pass, problem.pass_to_pass).values())


def paid(bench: Bench, problem: Problem, changes: Changes, private: Path) -> Paid:
    """Grade one tree as the last turn of an episode leaves it. ``private``: where the bench keeps its folders."""
    before = _present(private)
    start_s = time.monotonic()
    facts: dict[str, JSON] = {}
    fault = void = ""
    try:
        existed = frozenset(problem.files) | frozenset(_tree(problem.folder))
        steps = [TreeChange(turn=0, changes=changes)]
        facts = {
            item.name: item.value for item in grade(bench, problem, steps, submitted=True, existed=existed, each=True)
        }
        if missing := FACTS - facts.keys():
            void = f"no evidence of {sorted(missing)}"
    except AgentFault as error:
        fault = str(error) or "a fault"
    except Exception as error:  # whatever it is, an episode that raises it is in no mean
        void = f"{type(error).__name__}: {error}"
    time_s = time.monotonic() - start_s
    return Paid(facts=facts, fault=fault, void=void, left=_left(private, before), time_s=time_s)


@contextmanager
def private_bench(deadline_s: float = DEADLINE_S) -> Iterator[tuple[Bench, Path]]:
    """A bench whose folders all lie in one that nobody else uses; that one is empty when the bench is closed."""
    folder = Path(tempfile.mkdtemp(prefix="paid-"))
    folder.chmod(0o755)
    kept, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        bench = Bench(deadline_s=deadline_s)
    finally:
        tempfile.tempdir = kept
    try:
        with bench:
            assert list(folder.glob("turngate-sandbox-*")), "the bench keeps its sandboxes somewhere else"
            yield bench, folder
        assert not list(folder.iterdir()), "the bench left folders behind"
    finally:
        shutil.rmtree(folder)


def _left(private: Path, before: frozenset[str]) -> tuple[str, ...]:
    end_s = time.monotonic() + _GONE_S
    while (left := _present(private) - before) and time.monotonic() < end_s:
        time.sleep(0.05)
    return tuple(sorted(left))


def _present(private: Path) -> frozenset[str]:
    """What runs in sandboxes of a bench, how many wait to be used, and sandboxes among its folders."""
    running = list(_processes(private.name))
    own = [words for words in running if _LAUNCHER in words]
    return frozenset({*(words for words in running if words not in own), *(f"supervisor {n}" for n in range(len(own)))})


def _processes(mark: str) -> Iterator[str]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            mounts = Path("/proc", pid, "mountinfo").read_text()
            words = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if mark in mounts:
            yield f"{pid} {words}"


def _tree(folder: str) -> Iterator[str]:
    if folder:
        yield from (path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())
