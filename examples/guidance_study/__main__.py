"""Train with help of several kinds and without any, and show what is learned:

    python -m examples.guidance_study [--envs lock sql] [--kinds plain ladder …] [--seeds 5] [--updates N] [--jobs 2]
                                      [--out runs/guidance_study] [--results docs] [--settings FILE]

"lock" is a lock of twelve dials, which nobody opens by chance, "sql" asks questions whose literals have to be looked
up. Runs of one seed begin with the same model, which can act and follow hints, and get the same number of updates; only
the help differs. "silent" is the negative control: hints that say nothing. "longer" has no help either, and as many
environment steps as the run of its seed that plays most.
Runs go to ``--out``; a run that is complete is not run again. Into ``--results`` go
data/guidance_ENV.csv, data/guidance_ENV_episodes.csv (every evaluated episode) and figures/guidance_ENV.png, and the
tables into a guidance.md that is already there. They cover every complete run in ``--out`` with a chosen seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil
from pathlib import Path

from examples.farming.report import write_page
from examples.guidance_study.report import Run, read_run, tables, write_csv, write_figure
from examples.guidance_study.settings import ENVIRONMENTS
from examples.guidance_study.training import Wanted, train
from examples.measured import ResultFiles, about, commit
from examples.study import in_stages, parsed, study_parser
from turngate.report.episodes import write_episodes
from turngate.store.folder import RunFolder

KINDS = tuple(dict.fromkeys(kind for environment in ENVIRONMENTS.values() for kind in environment.help))


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, "runs/guidance_study")
    parser.add_argument("--envs", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS), help="train in these")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="train with these")
    parser.add_argument("--settings", type=Path, help="config that all runs share, where --envs names one environment")
    chosen = parsed(parser, arguments)
    if chosen.settings and len(chosen.envs) > 1:
        parser.error("--settings is for one environment; name it with --envs")
    return chosen


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, before = options(arguments), (commit(), os.getloadavg()[0])
    for place in chosen.envs:
        began_s = time.perf_counter()
        runs = list(_made(place, chosen))
        files = ResultFiles(chosen.results, f"guidance_{place}")
        write_csv(runs, files.csv)
        write_episodes((one for run in runs for one in run.played), files.episodes)
        write_figure(place, runs, files.figure)
        said = about("guidance_study", arguments, [run.time_s for run in runs], time.perf_counter() - began_s, *before)
        text, page = f"{said}\n\n{tables(place, runs)}", chosen.results / "guidance.md"
        if page.exists():
            write_page(text, page, place)
        print(f"\n{text}\n\nEvery number: {files.csv}; the curves: {files.figure}")


def _made(place: str, chosen: argparse.Namespace) -> Iterator[Run]:
    """Train in an environment; every complete run with a chosen seed."""
    environment, out = ENVIRONMENTS[place], chosen.out / place
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"settings": chosen.settings or environment.settings, "out": out}
    kinds = [kind for kind in environment.help if kind in chosen.kinds]
    longer = [kind for kind in kinds if environment.help[kind].as_many_steps]
    starts = [Wanted(place, None, seed, **fixed, updates=chosen.updates) for seed in seeds]
    learning = [
        Wanted(place, kind, seed, **fixed, updates=chosen.updates)
        for seed, kind in product(seeds, kinds)
        if kind not in longer
    ]
    first = [kind for kind in environment.help if not environment.help[kind].as_many_steps]

    def stages() -> Iterator[list[Wanted]]:
        yield starts  # every start is there before a run needs it
        yield learning
        made = list(_complete(out, first, seeds))
        yield [
            Wanted(place, kind, seed, **fixed, updates=as_many([run for run in made if run.seed == seed]))
            for kind, seed in product(longer, seeds)
        ]

    in_stages(train, stages(), chosen.jobs)
    yield from _complete(out, environment.help, seeds)


def _complete(out: Path, kinds: Sequence[str], seeds: Sequence[int]) -> Iterator[Run]:
    for kind, seed in product(kinds, seeds):
        if RunFolder(out / f"{kind}-{seed}").is_complete:
            yield read_run(out / f"{kind}-{seed}", kind, seed)


def as_many(runs: Sequence[Run]) -> int:
    """Updates after which a run without help has played at least as many environment steps as any of these runs.

    Judged by the mean of the one without help among them, "plain".
    """
    (plain,) = (run for run in runs if run.kind == "plain")
    most = max(sum(run.env_steps) for run in runs)
    return ceil(most * len(plain.env_steps) / sum(plain.env_steps))


if __name__ == "__main__":
    main(sys.argv[1:])
