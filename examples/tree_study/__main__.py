"""Train on trees and on chains with equally many sampled turns, and measure turn values by forking:

    python -m examples.tree_study [--envs lock3 sql] [--kinds chains tree_grpo …] [--seeds 3] [--updates N]
                                  [--locks 400] [--jobs 2] [--out runs/tree_study] [--results docs]

Runs of one seed and environment begin with the same model. ``--updates`` are those of chains; trees, whose episodes
share turns, get as many more as sample equally many turns. ``flat_rpo`` is the degenerate form of ``tree_rpo``. Runs go
to ``--out``; a run that is complete is not run again. Into ``--results`` go
data/branching_ENV.csv, data/branching_ENV_episodes.csv (every evaluated episode) and figures/branching_ENV.png, and
the tables into a branching.md that is already there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from examples.farming.report import write_page
from examples.measured import ResultFiles, about, commit
from examples.study import in_stages, parsed, study_parser
from examples.tree_study.report import read_run, table, value_table, write_csv, write_figure
from examples.tree_study.settings import KINDS, TURNS
from examples.tree_study.training import Wanted, train
from examples.tree_study.values import turn_values
from turngate.report.episodes import write_episodes
from turngate.store.folder import RunFolder


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/tree_study")
    parser.set_defaults(seeds=3)
    parser.add_argument("--envs", nargs="+", choices=TURNS, default=list(TURNS), help="train in these")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="train on these")
    parser.add_argument("--locks", type=int, default=400, help="locks whose turn values are measured")
    chosen = parsed(parser, arguments)
    if chosen.locks < 2:
        parser.error(f"--locks is {chosen.locks}; a standard error needs at least 2")
    return chosen


def main(arguments: Sequence[str]) -> None:
    """Turn values, then every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    page = chosen.results / "branching.md"
    _tell(value_table(turn_values(chosen.locks, chosen.first_seed), chosen.locks), page, "values")
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"out": chosen.out, "updates": chosen.updates}
    starts = [Wanted(label, None, seed, **fixed) for label, seed in product(chosen.envs, seeds)]
    learning = [Wanted(*run, **fixed) for run in product(chosen.envs, chosen.kinds, seeds)]
    in_stages(train, (starts, learning), chosen.jobs)  # every start is there before a run needs it
    for label in chosen.envs:
        places = [(chosen.out / label / f"{kind}-{seed}", label, kind, seed) for kind, seed in product(KINDS, seeds)]
        runs = [read_run(*place) for place in places if RunFolder(place[0]).is_complete]
        files = ResultFiles(chosen.results, f"branching_{label}")
        write_csv(runs, files.csv)
        write_episodes((one for run in runs for one in run.played), files.episodes)
        write_figure(runs, files.figure)
        said = about("tree_study", arguments, [run.time_s for run in runs], time.perf_counter() - began_s, *before)
        _tell(f"{said}\n\n{table(runs)}", page, label)
        print(f"Every number: {files.csv}; the curves: {files.figure}")


def _tell(text: str, page: Path, name: str) -> None:
    if page.exists():
        write_page(text, page, name)
    print(f"\n{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
