"""Train with gated and with directly accumulated rewards from the same warm start, and show what each leads to:

    python -m examples.code_repair [--seeds 3] [--updates 25] [--out runs/code_repair]

The gated rewards are the default of ``turngate/CodeRepair-v1`` (G-RA), the direct ones the same list summed (D-RA,
https://arxiv.org/abs/2508.10548); "shuffled" is the negative control: gated rewards, but every episode gets the credit
of another one. Every run begins with the same warm-started model and gets the same tasks in the same order; seeds
differ in what is sampled. Numbers of updates and episodes are equal.
Writes data/code_repair.csv, data/code_repair_episodes.csv (every evaluated episode) and figures/code_repair.png into
``--out``, and the tables into a code_repair.md that is already there.
A run that is complete is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from rich.console import Console

from examples.code_repair.report import read_run, tables, write_csv, write_figure, write_page
from examples.measured import ResultFiles
from turngate.config.run_config import Config, load
from turngate.report.episodes import write_episodes
from turngate.run.job import Job
from turngate.store.folder import RunFolder

SETTINGS = Path(__file__).parents[1] / "code_demo.toml"
KINDS = ("gated", "direct", "shuffled")
DIRECT = ("--env.rubric=code_repair_direct", "--env.allow_unsafe=true")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, … of each kind")
    parser.add_argument("--first-seed", type=int, default=0, help="begin with this one")
    parser.add_argument("--updates", type=int, default=25, help="of each run")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="train with these only")
    parser.add_argument("--out", type=Path, default=Path("runs/code_repair"), help="folder for runs and results")
    chosen = parser.parse_args(arguments)
    if min(chosen.seeds, chosen.updates) < 1:
        parser.error("--seeds and --updates must be at least 1")
    return chosen


def config_of(kind: str, seed: int, chosen: argparse.Namespace) -> Config:
    """The settings of one run."""
    changes = [
        f"--name={kind}-{seed}",
        f"--folder={chosen.out}",
        f"--seed={seed}",
        f"--train.steps={chosen.updates}",
        *(DIRECT if kind == "direct" else ()),
    ]
    return load(SETTINGS, changes)


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, console = options(arguments), Console()
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    start = RunFolder(chosen.out / "gated-0")
    for seed, kind in product(seeds, chosen.kinds):
        control = "shuffled_credit" if kind == "shuffled" else None
        known = start if start.warm_start.exists() else None
        Job(config_of(kind, seed, chosen), console, control=control, start=known).run()
    runs = [read_run(chosen.out / f"{kind}-{seed}", kind, seed) for kind in chosen.kinds for seed in seeds]
    files = ResultFiles(chosen.out, "code_repair")
    write_csv(runs, files.csv)
    write_episodes((one for run in runs for one in run.played), files.episodes)
    write_figure(runs, files.figure)
    text = tables(runs)
    write_page(text, chosen.out / "code_repair.md")
    console.print(text, markup=False)


if __name__ == "__main__":
    main(sys.argv[1:])
