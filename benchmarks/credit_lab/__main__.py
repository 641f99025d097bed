"""Run the laboratory and write its table, its figure and the measured part of its page:

    python -m benchmarks.credit_lab [--trajectories 200000] [--updates 80] [--seeds 10] [--quick] [--out docs]

Exit code 1 if an estimator does not keep what it claims. ``--quick`` is a smoke run: few samples, so claims hold
easily and numbers mean little; give it another ``--out``.
"""

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.credit_lab.estimators import BATCH, ESTIMATORS, Estimator
from benchmarks.credit_lab.figure import write_figure
from benchmarks.credit_lab.learn import STEP, Curve, learn
from benchmarks.credit_lab.measure import Measurement, measure, sample
from benchmarks.credit_lab.paths import Paths, comparison_policy, enumerate_paths
from benchmarks.credit_lab.processes import all_processes
from benchmarks.credit_lab.report import Results, write_csv, write_page


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; ``--quick`` replaces the three counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=200_000, help="drawn for each process and kind of cohort")
    parser.add_argument("--siblings", type=int, default=8, help="trajectories of a cohort")
    parser.add_argument("--updates", type=int, default=80, help="of a learning curve")
    parser.add_argument("--seeds", type=int, default=10, help="of a learning curve")
    parser.add_argument("--seed", type=int, default=0, help="of the draws in which bias is measured")
    parser.add_argument("--only", nargs="+", default=[], metavar="LABEL", help="estimators; all if left out")
    parser.add_argument("--quick", action="store_true", help="4000 trajectories, 5 updates, 2 seeds")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of data/, figures/ and credit_lab.md")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.trajectories, chosen.updates, chosen.seeds = 4000, 5, 2
    unknown = set(chosen.only) - {estimator.label for estimator in ESTIMATORS}
    if unknown:
        known = ", ".join(f"'{estimator.label}'" for estimator in ESTIMATORS)
        parser.error(f"unknown estimator '{sorted(unknown)[0]}'; known: {known}")
    return chosen


def run(chosen: argparse.Namespace) -> Results:
    """Measure and train everything."""
    start_s = time.perf_counter()
    estimators = [one for one in ESTIMATORS if not chosen.only or one.label in chosen.only]
    processes = all_processes()
    measured: dict[tuple[str, str], Measurement] = {}
    curves: dict[tuple[str, str], Curve] = {}
    for process in processes:
        asked = [one for one in estimators if process.name not in one.skips]
        paths = enumerate_paths(process)
        for one, measurement in zip(asked, _measure(chosen, paths, asked), strict=True):
            measured[process.name, one.label] = measurement
        for one in asked:
            curve = learn(one, paths, updates=chosen.updates, seeds=chosen.seeds, siblings=chosen.siblings)
            curves[process.name, one.label] = curve
        print(f"{process.name}: {time.perf_counter() - start_s:.0f} s", file=sys.stderr)
    return Results(
        processes=processes,
        estimators=estimators,
        measured=measured,
        curves=curves,
        about=_about(chosen, time.perf_counter() - start_s),
    )


def _measure(chosen: argparse.Namespace, paths: Paths, asked: Sequence[Estimator]) -> list[Measurement]:
    logits_OA = comparison_policy(paths.process, paths.shape)
    draws = {
        forked: sample(
            paths, logits_OA, trajectories=chosen.trajectories, siblings=chosen.siblings, forked=forked,
            seed=chosen.seed,
        )
        for forked in sorted({one.forked for one in asked})
    }  # fmt: skip
    return [measure(one, paths, logits_OA, draws[one.forked], chosen.siblings) for one in asked]


def _about(chosen: argparse.Namespace, wall_s: float) -> str:
    lines = (
        f"{chosen.trajectories:,} trajectories for each process and estimator in cohorts of {chosen.siblings}, draws",
        f"of seed {chosen.seed}; {chosen.updates} updates of {BATCH} × {chosen.siblings} trajectories, step {STEP},",
        f"seeds 0 to {chosen.seeds - 1}. Python {platform.python_version()}, numpy {np.__version__};",
        f"{wall_s:.0f} s by the clock, {time.process_time():.0f} s of processor time.",
    )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run, write, and say which claims were broken."""
    chosen = options(arguments)
    table, figure = chosen.out / "data" / "credit_lab.csv", chosen.out / "figures" / "credit_lab.png"
    for file in (table, figure):
        file.parent.mkdir(parents=True, exist_ok=True)
    results = run(chosen)
    write_csv(results, table)
    write_figure(results, figure)
    page = chosen.out / "credit_lab.md"
    if page.exists():
        write_page(results, page)
    for label in results.broken():
        worst, allowed = next(results.verdict(one) for one in results.estimators if one.label == label)
        print(f"'{label}' does not keep its claim: {worst:.1f} standard errors, allowed {allowed:.1f}")
    return int(bool(results.broken()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
