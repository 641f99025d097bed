"""A tiny model imitates few demonstrations, then learns from reward alone; beside it are negative controls and models
that imitate more demonstrations:

    python -m examples.learning_study {sql,tool_use,search,real_model} [--settings FILE] [--seeds 3] [--updates N]
                                [--jobs 2] [--kinds training 400 …] [--out runs/learning_study] [--results docs]

sql answers questions about databases (examples/sql_demo.toml), tool_use serves a desk of ``turngate/ToolUse-v1``
(examples/tool_use_demo.toml), search answers questions from documents in ``turngate/Search-v1``
(examples/search_demo.toml). Training begins with the supervised model, whose passes go on until validation stops
improving; a control begins with the same model and runs as long. A supervised baseline imitates more demonstrations by
the same recipe.

real_model begins with a pretrained model that sees three solved tasks, without training on any
(examples/real_model_demo.toml; docs/real_models.md).

Runs go to ``--out``; a run that is complete is not run again, and ``turngate report`` reads each. Into ``--results`` go
data/NAME.csv, data/NAME_episodes.csv (every evaluated episode) and figures/NAME.png, and the table into a NAME.md that
is already there. They cover every complete run in ``--out`` with a chosen seed.
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
from examples.learning_study.report import beforehand, read_runs, supervised_table, table, write_csv, write_figure
from examples.learning_study.training import TRAINED, Wanted, config_of, side_kinds, train
from examples.measured import ResultFiles, about, commit
from examples.study import in_stages, parsed, study_parser
from turngate.report.episodes import write_episodes
from turngate.store.folder import RunFolder

EXAMPLES = Path(__file__).parent.parent
TITLES = {
    "sql": "Questions about databases",
    "tool_use": "Serving a desk",
    "search": "Questions about documents",
    "real_model": "Taking what a list names",
}


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/learning_study")
    parser.add_argument("study", choices=TITLES, help="what is learned")
    parser.add_argument("--settings", type=Path, help="config of the runs; left out: examples/STUDY_demo.toml")
    parser.add_argument("--kinds", nargs="+", help="training, controls, numbers of demonstrations; left out: all")
    parser.set_defaults(seeds=3)
    chosen = parsed(parser, arguments)
    chosen.settings = chosen.settings or EXAMPLES / f"{chosen.study}_demo.toml"
    chosen.out /= chosen.study
    return chosen


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"settings": chosen.settings, "out": chosen.out, "updates": chosen.updates}
    sides = side_kinds(config_of(seed=chosen.first_seed, **fixed))
    kinds = [kind for kind in sides if chosen.kinds is None or kind in chosen.kinds]
    trained = [Wanted(seed=seed, kind=TRAINED, **fixed) for seed in seeds]
    beside = [Wanted(seed=seed, kind=kind, **fixed) for seed, kind in product(seeds, kinds)]
    in_stages(train, (trained, beside), chosen.jobs)  # a control begins with the model of its training
    folders = {seed: RunFolder(chosen.out / f"seed-{seed}") for seed in seeds}
    runs = [run for seed, folder in folders.items() for run in read_runs(folder, seed)]
    files = ResultFiles(chosen.results, chosen.study)
    write_csv(runs, files.csv)
    write_episodes((one for run in runs for one in run.played), files.episodes)
    write_figure(runs, files.figure, TITLES[chosen.study])
    said = about("learning_study", arguments, [run.time_s for run in runs], time.perf_counter() - began_s, *before)
    notes = [f"* seed {seed}: {line}" for seed, folder in folders.items() for line in beforehand(folder)]
    text = "\n\n".join([said, table(runs), *supervised_table(runs, folders), "\n".join(notes)])
    page = chosen.results / f"{chosen.study}.md"
    if page.exists():
        write_page(text, page)
    print(f"\n{text}\n\nEvery number: {files.csv}; the curves: {files.figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
