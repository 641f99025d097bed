"""What an index of a large corpus costs: time, memory, disk, and bringing it up to date after 1 % has changed.

    python -m benchmarks.search_index [--passages 1000000] [--folder FOLDER]

For a hundredth, a tenth and all of ``--passages`` it writes a made corpus (JSON lines; 60 words each, drawn by Zipf's
law from 50,000 made-up words, in phrases of ten that recur, the same on every machine), and in a fresh process each:

1. reads it as ``turngate/Search-v1`` does and indexes it on disk by tantivy: seconds, peak memory, size of the index;
2. opens it again after nothing changed, and after every hundredth document was rewritten.

Prints JSON. ``growth`` is what ten times as many passages cost against ten times the cost: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from turngate.envs.search.engine.corpora import JsonlDocuments
from turngate.envs.search.engine.tantivy_index import TantivyIndex

VOCABULARY, PHRASES, PHRASE_WORDS, BLOCK = 50_000, 50_000, 10, 10_000
ONE_IN, LONGEST = 100, 1000
SYLLABLES = "ba de fi go ku la me ni po ru sa te vi wo xu za".split()


def vocabulary() -> list[str]:
    """``VOCABULARY`` different words of three to five syllables, the same on every machine."""
    found: dict[str, None] = {}
    rng = np.random.default_rng(1)
    while len(found) < VOCABULARY:
        found["".join(rng.choice(SYLLABLES, size=rng.integers(3, 6)))] = None
    return list(found)


@cache
def phrases() -> list[str]:
    """``PHRASES`` made phrases of ``PHRASE_WORDS`` words, drawn by Zipf's law."""
    words = vocabulary()
    chance = 1 / np.arange(1, VOCABULARY + 1)
    drawn = np.random.default_rng(2).choice(VOCABULARY, size=(PHRASES, PHRASE_WORDS), p=chance / chance.sum())
    return [" ".join([words[number] for number in row]) for row in drawn.tolist()]


def texts(n: int) -> Iterator[str]:
    """``n`` made texts of six phrases."""
    known = phrases()
    for first in range(0, n, BLOCK):
        rng = np.random.default_rng([3, first])
        for row in rng.integers(PHRASES, size=(min(BLOCK, n - first), 6)).tolist():
            yield " ".join([known[number] for number in row])


def write(path: Path, n: int, *, changed: bool = False) -> None:
    """A corpus of ``n`` documents of one passage each; with ``changed``, every hundredth one lacks its first word."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts(n)):
            said = text.partition(" ")[2] if changed and number % ONE_IN == 0 else text
            file.write(json.dumps({"id": f"d{number}", "title": f"Document {number}", "text": said}) + "\n")


def peak_mib() -> float:
    """Most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def opened(path: Path, folder: Path) -> tuple[TantivyIndex, dict[str, float]]:
    """The index of the corpus; the seconds to read the documents and to bring the index up to date, and those of them
    that a CPU was at work."""
    times = [(time.perf_counter(), time.process_time())]
    corpus = JsonlDocuments(path=path, chunk_chars=LONGEST).open()
    times.append((time.perf_counter(), time.process_time()))
    index = TantivyIndex(corpus, folder)
    times.append((time.perf_counter(), time.process_time()))
    (read, read_cpu), (indexed, index_cpu) = [
        (round(after[0] - before[0], 2), round(after[1] - before[1], 2)) for before, after in pairwise(times)
    ]
    return index, {"read_s": read, "read_cpu_s": read_cpu, "index_s": indexed, "index_cpu_s": index_cpu}


def measured(n: int, home: Path, stage: str) -> dict[str, float]:
    """One stage ("built", "unchanged" or "changed") of an index of ``n`` passages; call it in a fresh process."""
    index, found = opened(home / "corpus.jsonl", home / "index")
    found["peak_mib"] = round(peak_mib())
    if stage == "built":
        found["disk_mib"] = round(sum(one.stat().st_size for one in (home / "index").iterdir()) / 2**20, 1)
    wanted = {"built": n, "unchanged": 0, "changed": -(-n // ONE_IN)}[stage]
    if index.added != wanted:
        raise RuntimeError(f"{stage}: {index.added} passages were indexed; {wanted} were expected")
    return found


def stages(n: int, home: Path) -> dict[str, dict[str, float]]:
    """All stages of an index of ``n`` passages."""
    found = {}
    for stage in ("built", "unchanged", "changed"):
        if stage != "unchanged":
            write(home / "corpus.jsonl", n, changed=stage == "changed")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[stage] = pool.apply(measured, (n, home, stage))
        print(json.dumps({f"{n} {stage}": found[stage]}), flush=True)
    return found


def growth(small: dict[str, float], large: dict[str, float]) -> dict[str, float]:
    """How much more ten times as many passages cost than ten times the cost."""
    return {name: round(large[name] / (10 * small[name]), 2) for name in small if small[name]}


def main() -> None:
    """Run what the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where corpus and index are written, and removed again")
    args = parser.parse_args()
    sizes, found = [args.passages // 100, args.passages // 10, args.passages], {}
    for n in sizes:
        with tempfile.TemporaryDirectory(dir=args.folder) as home:
            found[n] = stages(n, Path(home))
    print(json.dumps({"growth": [growth(found[a]["built"], found[b]["built"]) for a, b in pairwise(sizes)]}))


if __name__ == "__main__":
    main()
