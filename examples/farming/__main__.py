"""Train under both rubrics and show what each leads to:

    python -m examples.farming [--seeds 5] [--updates 16] [--jobs 2] [--out runs/farming]

Writes data/farming.csv, data/farming_episodes.csv (every evaluated episode) and figures/farming.png into ``--out``, and
the tables into a farming.md that is already there.
"""

import argparse
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from examples.farming.env import LOOK, MAX_TURNS, RUBRICS, HackableLockEnv, totals
from examples.farming.learn import DEMONSTRATIONS, HELDOUT, SIBLINGS, TASKS, Log, learn, tasks
from examples.farming.report import tables, write_csv, write_figure, write_page
from examples.intervals import MOST_SEEDS
from examples.measured import ResultFiles
from turngate.report.episodes import write_episodes


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, … of each rubric")
    parser.add_argument("--updates", type=int, default=16, help="of each run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, a process each")
    parser.add_argument("--out", type=Path, default=Path("runs/farming"), help="folder for what is written")
    chosen = parser.parse_args(arguments)
    if not 1 <= chosen.seeds <= MOST_SEEDS:
        parser.error(f"--seeds is {chosen.seeds}; choose 1 to {MOST_SEEDS}")
    if min(chosen.updates, chosen.jobs) < 1:
        parser.error("--updates and --jobs must be at least 1")
    return chosen


def foretold() -> Iterator[str]:
    """What can be said before any training: the safety check of each rubric, and two episodes played by hand."""
    for name, rubric in RUBRICS.items():
        safety = rubric.check()
        yield f"{name} rewards are {'safe' if safety.safe else 'UNSAFE'}:\n{safety}\n"
    task = tasks("heldout", 0, 1)[0]
    for story, actions in (
        ("open at once", HackableLockEnv().oracle(task)),
        (f"look {MAX_TURNS} times", [LOOK] * MAX_TURNS),
    ):
        paid = ", ".join(f"{name} {total:.2f}" for name, total in totals(task, actions).items())
        yield f"{story}: paid {paid}"


def train(chosen: argparse.Namespace) -> list[Log]:
    """Every run, in the order of rubrics and seeds, whichever ends first."""
    logs: dict[tuple[str, int], Log] = {}
    for log in played(chosen):
        logs[log.rubric, log.seed] = log
        before, *_, after = [point for point in log.points if point.split == "heldout"]
        print(
            f"{log.rubric}, seed {log.seed}: success {before.success:.2f} → {after.success:.2f}, "
            f"looks per episode {before.looks:.2f} → {after.looks:.2f}",
            flush=True,
        )
    return [logs[rubric, seed] for rubric in RUBRICS for seed in range(chosen.seeds)]


def played(chosen: argparse.Namespace) -> Iterator[Log]:
    """Runs as they end; a single job stays in this process."""
    wanted = [(rubric, seed) for seed in range(chosen.seeds) for rubric in RUBRICS]
    if chosen.jobs == 1:
        yield from (learn(rubric, seed, updates=chosen.updates) for rubric, seed in wanted)
        return
    fresh = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(chosen.jobs, mp_context=fresh) as pool:
        started = [pool.submit(learn, rubric, seed, updates=chosen.updates) for rubric, seed in wanted]
        yield from (done.result() for done in as_completed(started))


def about(chosen: argparse.Namespace, wall_s: float, load: float) -> str:
    """How it was measured."""
    spent = os.times()
    processor_s = spent.user + spent.system + spent.children_user + spent.children_system
    return (
        f"Seeds 0 to {chosen.seeds - 1} of each rubric; {DEMONSTRATIONS} demonstrations, then {chosen.updates} updates "
        f"of {TASKS} tasks × {SIBLINGS} episodes;\nheld-out: {HELDOUT} tasks, one sampled episode each. "
        f"Python {platform.python_version()}, torch {torch.__version__}, {chosen.jobs} at a time on {os.cpu_count()} "
        f"cores\nwith a load average of {load:.1f} beforehand: {wall_s:.0f} s by the clock, {processor_s:.0f} s of "
        "processor time."
    )


def main(arguments: Sequence[str]) -> int:
    """Foretell, train, write."""
    chosen = options(arguments)
    start_s, load = time.perf_counter(), os.getloadavg()[0]
    files = ResultFiles(chosen.out, "farming")
    print(*foretold(), sep="\n", flush=True)
    logs = train(chosen)
    write_csv(logs, files.csv)
    write_episodes((one for log in logs for one in log.played), files.episodes)
    write_figure(logs, files.figure)
    text = f"{about(chosen, time.perf_counter() - start_s, load)}\n\n{tables(logs)}"
    page = chosen.out / "farming.md"
    if page.exists():
        write_page(text, page)
    print(f"\n{text}\n\nEvery number: {files.csv}; the curves: {files.figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
