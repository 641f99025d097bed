"""Train in a lock of twelve dials, which nobody opens by chance, with help of several kinds and without any:

    python -m examples.guidance_study [--kinds plain ladder …] [--seeds 5] [--updates N] [--jobs 2]
                                      [--out runs/guidance_study] [--results docs] [--settings FILE]

Runs of one seed begin with the same model, which can press keys and follow hints and knows no key, and get the same
number of updates; only the help differs. "silent" is the negative control: hints that say nothing.
Runs go to ``--out``; a run that is complete is not run again. Into ``--results`` go guidance.csv and guidance.png, and
the tables into a guidance.md that is already there. They cover every complete run in ``--out`` with a chosen seed.
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
from examples.guidance_study.report import read_run, tables, write_csv, write_figure
from examples.guidance_study.settings import HELP, SETTINGS
from examples.guidance_study.training import Wanted, train
from examples.measured import about, commit
from examples.study import in_stages, parsed, study_parser
from turngate.runs import RunFolder


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/guidance_study")
    parser.add_argument("--kinds", nargs="+", choices=HELP, default=list(HELP), help="train with these")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="config that all runs share")
    return parsed(parser, arguments)


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"settings": chosen.settings, "out": chosen.out, "updates": chosen.updates}
    starts = [Wanted(None, seed, **fixed) for seed in seeds]
    learning = [Wanted(kind, seed, **fixed) for seed, kind in product(seeds, chosen.kinds)]
    in_stages(train, (starts, learning), chosen.jobs)  # every start is there before a run needs it
    places = [(chosen.out / f"{kind}-{seed}", kind, seed) for kind, seed in product(HELP, seeds)]
    runs = [read_run(*place) for place in places if RunFolder(place[0]).is_complete]
    chosen.results.mkdir(parents=True, exist_ok=True)
    write_csv(runs, chosen.results / "guidance.csv")
    write_figure(runs, chosen.results / "guidance.png")
    said = about("guidance_study", arguments, [run.time_s for run in runs], time.perf_counter() - began_s, *before)
    text, page = f"{said}\n\n{tables(runs)}", chosen.results / "guidance.md"
    if page.exists():
        write_page(text, page)
    print(f"\n{text}\n\nEvery number: {chosen.results / 'guidance.csv'}; the curves: {chosen.results / 'guidance.png'}")


if __name__ == "__main__":
    main(sys.argv[1:])
