"""Reads the episodes that a study or a report wrote."""

import csv
from collections import defaultdict
from statistics import fmean


def rates_of_episodes(path):
    """Success rate by (run, seed, split, sampling, phase), of the usable episodes in the file, as studies write it."""
    found = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            place = tuple(row[name] for name in ("run", "seed", "split", "sampling", "phase"))
            found[place] += [int(row["success"])] * bool(row["task"])
    return {place: f"{fmean(successes):.6g}" for place, successes in found.items() if successes}
