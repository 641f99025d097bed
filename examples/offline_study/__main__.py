"""Learn from recorded episodes of mixed quality alone, in several ways, and by playing, and show what is learned:

    python -m examples.offline_study [--envs lock sql] [--seeds 3] [--updates N] [--jobs 2] [--arms bc dpo …]
                                     [--out runs/offline_study] [--results docs] [--settings FILE]

Runs of one seed begin with the same weak model. One run plays and records the store, another plays as many episodes and
learns from them ("online"). Every other arm learns from the store alone, in as many updates. Last, the arm that is best
on validation tasks goes on for a fifth as many updates, which play.

Runs go to ``--out``; a run that is complete is not run again. Into ``--results`` go
data/offline_study.csv, data/offline_study_episodes_ENV.csv (every evaluated episode) and figures/offline_study.png,
and the tables into an offline.md that is already there. They cover every complete run in ``--out`` with a chosen seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from examples.farming.report import write_page
from examples.measured import ResultFiles, about, commit
from examples.offline_study.report import Run, read_runs, tables, write_csv, write_figure
from examples.offline_study.settings import ENVIRONMENTS, OFFLINE, ON_TOP, ONLINE, START, STORE, Wanted
from examples.offline_study.training import best_arm, train
from examples.study import in_stages, parsed, study_parser
from turngate.report.episodes import write_episodes

NAME = "offline_study"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = study_parser(__doc__, f"runs/{NAME}")
    parser.add_argument("--envs", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS), help="learn in these")
    parser.add_argument("--arms", nargs="+", choices=OFFLINE, default=list(OFFLINE), help="learn from the store so")
    parser.add_argument("--settings", type=Path, help="config that all runs share, where --envs names one environment")
    parser.set_defaults(seeds=3)
    chosen = parsed(parser, arguments)
    if chosen.settings and len(chosen.envs) > 1:
        parser.error("--settings is for one environment; name it with --envs")
    if chosen.updates == 1:
        parser.error("--updates must be at least 2: the model is validated after half of them")
    return chosen


def main(arguments: Sequence[str]) -> None:
    """Every run, then what comes out."""
    chosen, began_s, before = options(arguments), time.perf_counter(), (commit(), os.getloadavg()[0])
    in_stages(train, _stages(chosen), chosen.jobs)
    took_s, runs = time.perf_counter() - began_s, dict[str, list[Run]]()
    for place in chosen.envs:
        runs[place] = list(read_runs([*_wanted(chosen, place, (STORE, ONLINE, *chosen.arms)), *_last(chosen, place)]))
        played = (one for run in runs[place] for one in run.played)
        write_episodes(played, ResultFiles(chosen.results, f"{NAME}_episodes_{place}").csv)
        times_s = [run.time_s for run in runs[place] if run.arm != START]
        text = f"{about(NAME, arguments, times_s, took_s, *before)}\n\n{tables(place, runs[place])}"
        page = chosen.results / "offline.md"
        if page.exists():
            write_page(text, page, place)
        print(f"\n{text}\n")
    files = ResultFiles(chosen.results, NAME)
    write_csv(runs, files.csv)
    write_figure(runs, files.figure)
    print(f"Every number: {files.csv}; the figure: {files.figure}")


def _stages(chosen: argparse.Namespace) -> Iterator[list[Wanted]]:
    """All environments at once, so that a core has work while another has a long run, which begins early."""
    places = [*reversed(chosen.envs)]
    for arms in ((START,), (STORE, ONLINE), chosen.arms):  # what begins with a run, or reads it, comes after it
        yield [one for place in places for one in _wanted(chosen, place, arms)]
    yield [one for place in places for one in _last(chosen, place)]


def _wanted(chosen: argparse.Namespace, place: str, arms: Sequence[str]) -> list[Wanted]:
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    fixed = {"place": place, "out": chosen.out, "settings": chosen.settings, "updates": chosen.updates}
    return [Wanted(arm=arm, seed=seed, **fixed) for seed, arm in product(seeds, arms)]


def _last(chosen: argparse.Namespace, place: str) -> list[Wanted]:
    return [_on_top(one, chosen.arms) for one in _wanted(chosen, place, (START,))]


def _on_top(start: Wanted, arms: Sequence[str]) -> Wanted:
    """The run that plays on top of the best arm of a seed."""
    return replace(start, arm=ON_TOP, best=best_arm({arm: start.beside(arm) for arm in arms}))


if __name__ == "__main__":
    main(sys.argv[1:])
