"""Train with trajectory-level and turn-level credit from the same starting models, and show how each one learns:

    python -m examples.credit_study [--envs lock lock3 sql code] [--rules grpo …] [--seeds 5] [--updates N] [--jobs 2]
                                    [--out runs/credit_study] [--results docs]

All runs of an environment get the same learner settings, tasks and number of episodes; those of one seed begin with the
same warm-started model. Payments are the same too, except for "rloo_heavy", whose verdicts are paid what "capo" weighs
them; "capo_light" weighs them as "rloo" is paid. "shuffled" is the negative control.
Runs go to ``--out``; a run that is complete is not run again. Into ``--results`` go
data/credit_study_ENV.csv, data/credit_study_ENV_episodes.csv (every evaluated episode) and
figures/credit_study_ENV.png of each chosen environment, and its tables into a credit_study.md that is already there.
With a ``--first-seed`` other than 0 names of files and places of tables end in it: credit_study_ENV_5.csv. They cover
every complete run in ``--out`` with one of the chosen seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import product

from examples.credit_study.report import read_run, table, write_csv, write_figure
from examples.credit_study.settings import ENVIRONMENTS, RULES, rules_in
from examples.credit_study.training import Wanted, train
from examples.farming.report import write_page
from examples.measured import ResultFiles, about, commit
from examples.study import in_stages, parsed, study_parser
from turngate.report.episodes import write_episodes
from turngate.store.folder import RunFolder


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/credit_study")
    parser.add_argument("--envs", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS), help="train in these")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES), help="train with these")
    return parsed(parser, arguments)


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"out": chosen.out, "updates": chosen.updates}
    starts = [Wanted(label, None, seed, **fixed) for label, seed in product(chosen.envs, seeds)]
    # all rules of a seed one after the other, so that a study which is stopped has whole pairs
    learning = [
        Wanted(label, rule, seed, **fixed)
        for label, seed in product(chosen.envs, seeds)
        for rule in chosen.rules
        if rule in rules_in(label)
    ]
    in_stages(train, (starts, learning), chosen.jobs)  # every start is there before a run needs it
    part = f"_{chosen.first_seed}" if chosen.first_seed else ""
    for label in chosen.envs:
        places = [(chosen.out / label / f"{rule}-{seed}", label, rule, seed) for rule, seed in product(RULES, seeds)]
        runs = [read_run(*place) for place in places if RunFolder(place[0]).is_complete]
        files = ResultFiles(chosen.results, f"credit_study_{label}{part}")
        write_csv(runs, files.csv)
        write_episodes((one for run in runs for one in run.played), files.episodes)
        write_figure(runs, files.figure)
        said = about("credit_study", arguments, [run.time_s for run in runs], time.perf_counter() - began_s, *before)
        text = f"{said}\n\n{table(runs)}"
        page = chosen.results / "credit_study.md"
        if page.exists():
            write_page(text, page, label + part)
        print(f"\n{text}\n\nEvery number: {files.csv}; the curves: {files.figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
