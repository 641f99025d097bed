"""Train with look-ups summed, gated and not paid from the same starting models, and show what each leads to:

    python -m examples.sql_gates [--repeated] [--kinds direct …] [--seeds 5] [--updates N] [--jobs 2]
                                 [--out runs/sql_gates] [--results docs] [--settings FILE]

Runs of one seed begin with the same warm-started model and get the same tasks and number of episodes; only what is paid
differs. "shuffled" is the negative control: gated, but every episode is paid what another one earned.
With ``--repeated`` the models imitate demonstrations in which look-ups are made again, so that farming can be found.

Runs go to ``--out``; a run that is complete is not run again. Into ``--results`` go
data/sql_gates.csv, data/sql_gates_episodes.csv (every evaluated episode) and figures/sql_gates.png (with
``--repeated`` data/sql_gates_repeated.csv and so on), and the tables into a sql_gates.md that is already there. They
cover every complete run in ``--out`` with a chosen seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from examples.code_repair.report import write_csv
from examples.farming.report import write_page
from examples.measured import ResultFiles, about, commit
from examples.sql_gates.report import foretold, read_run, tables, time_of, write_figure
from examples.sql_gates.settings import PAYMENTS, SETTINGS
from examples.sql_gates.training import Wanted, train
from examples.study import in_stages, parsed, study_parser
from turngate.report.episodes import write_episodes
from turngate.store.folder import RunFolder


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/sql_gates")
    parser.add_argument("--kinds", nargs="+", choices=PAYMENTS, default=list(PAYMENTS), help="train with these")
    parser.add_argument("--repeated", action="store_true", help="begin with models that repeat look-ups")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="config that all runs share")
    chosen = parsed(parser, arguments)
    chosen.name = "repeated" if chosen.repeated else ""
    chosen.out /= chosen.name
    return chosen


def main(arguments: Sequence[str]) -> None:
    """What the check of the rubrics says, every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    print(*foretold(), sep="\n", flush=True)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {
        "settings": chosen.settings,
        "out": chosen.out,
        "updates": chosen.updates,
        "repeated": chosen.repeated,
    }
    starts = [Wanted(None, seed, **fixed) for seed in seeds]
    learning = [Wanted(kind, seed, **fixed) for seed, kind in product(seeds, chosen.kinds)]
    in_stages(train, (starts, learning), chosen.jobs)  # every start is there before a run needs it
    places = [(chosen.out / f"{kind}-{seed}", kind, seed) for kind, seed in product(PAYMENTS, seeds)]
    complete = [place for place in places if RunFolder(place[0]).is_complete]
    runs, times_s = [read_run(*place) for place in complete], [time_of(path) for path, *_ in complete]
    files = ResultFiles(chosen.results, f"sql_gates{'_' * chosen.repeated}{chosen.name}")
    write_csv(runs, files.csv)
    write_episodes((one for run in runs for one in run.played), files.episodes)
    write_figure(runs, files.figure)
    said = about("sql_gates", arguments, times_s, time.perf_counter() - began_s, *before)
    text = f"{said}\n\n{tables(runs)}"
    page = chosen.results / "sql_gates.md"
    if page.exists():
        write_page(text, page, chosen.name)
    print(f"\n{text}\n\nEvery number: {files.csv}; the curves: {files.figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
