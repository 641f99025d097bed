"""What the studies share: options of their commands, and runs in stages."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from examples.intervals import MOST_SEEDS
from examples.jobs import each

Wanted = TypeVar("Wanted")


def study_parser(description: str | None, out: str) -> argparse.ArgumentParser:
    """Options that every study has; runs go to ``out`` by default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, … of each")
    parser.add_argument("--first-seed", type=int, default=0, help="begin with this one")
    parser.add_argument("--updates", type=int, help="of each run; left out: what the settings say")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, a process of one thread each")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for the runs")
    parser.add_argument("--results", type=Path, help="folder for what is written about them; left out: --out")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; numbers that make no sense are refused."""
    chosen = parser.parse_args(arguments)
    if not 1 <= chosen.seeds <= MOST_SEEDS:
        parser.error(f"--seeds is {chosen.seeds}; choose 1 to {MOST_SEEDS}")
    if min(chosen.jobs, 1 if chosen.updates is None else chosen.updates) < 1:
        parser.error("--updates and --jobs must be at least 1")
    chosen.results = chosen.results or chosen.out
    return chosen


def in_stages(train: Callable[[Wanted], str], stages: Iterable[Sequence[Wanted]], jobs: int) -> None:
    """Make the runs of one stage after those of the one before, and print what ``train`` says of each."""
    for line in each(train, stages, jobs):
        print(line, flush=True)
