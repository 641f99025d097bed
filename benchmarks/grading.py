"""What grading costs: runs of tests and wall seconds for a repair that fails and one that passes, by kind of problem.

    python benchmarks/grading.py                  # generated problems, and the two small ones of the test suite
    python benchmarks/grading.py FOLDER           # also QuixBugs as published, settled first

Needs bubblewrap. Runs on this version and on those before pairs and asked tests, which it can be compared with.
"""

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.envs.code.conftest import make_problem
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.engine.workspace import Changes
from turngate.envs.code.grading import grading_sandbox as benches
from turngate.envs.code.grading.grade import TreeChange, grade
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.loaders import quixbugs
from turngate.envs.code.problem import Problem
from turngate.envs.code.sources import GeneratedCode

N = 12


def main(folder: str = "") -> None:
    runs: list[float] = []
    run_tests = benches.run_tests

    def counted(*args: Any, **options: Any) -> Any:
        report = run_tests(*args, **options)
        runs.append(report.time_s)
        return report

    benches.run_tests = counted
    with Bench() as bench:
        source = GeneratedCode().open()
        report("generated", bench, [Problem.of(source.task("train", index)) for index in range(N)], runs)
        for runner in ("plain", "pytest"):
            problem = settle(make_problem(runner), bench, repetitions=1)
            report(f"small, {runner}", bench, [problem], runs)
        if folder:
            problems = quixbugs(Path(folder)).settled(bench, repetitions=1).problems
            report("QuixBugs", bench, list(problems), runs)


def report(kind: str, bench: Bench, problems: list[Problem], runs: list[float]) -> None:
    """Print a line for repairs that fail (a comment in the bug) and one for those that pass."""
    for what in ("fails", "passes"):
        counts, times = [], []
        for problem in problems:
            bug = {path: f"{problem.original(path)}\n# {what}\n" for path in problem.solved}
            changes = Changes(texts=bug if what == "fails" else problem.solved)
            runs.clear()
            start_s = time.monotonic()
            facts = grade(
                bench, problem, [TreeChange(turn=0, changes=changes)], submitted=True, existed=frozenset(), each=True
            )
            resolved = {fact.name: fact.value for fact in facts}["resolved"]
            assert resolved is (what == "passes"), (problem.id, resolved)
            counts.append(len(runs))
            times.append(time.monotonic() - start_s)
        print(
            f"{kind:15} {what:6}  n {len(problems):3}  runs {sum(counts) / len(counts):4.1f} (at most {max(counts)})"
            f"  seconds {median(times):5.2f} (median)",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
