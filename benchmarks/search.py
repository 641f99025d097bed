"""Searches per second: bare tantivy, the retriever over it, the environment, and servers; ratios of one run.

    python -m benchmarks.search [--passages 100000] [--queries 300] [--rounds 7]

1. ``retriever``: ``TantivyIndex.search`` against tantivy called as by hand on the same folder, k = 3, the ids read.
   Limit: 0.8 of its rate.
2. ``env``: ``env.step("search …")`` of ``turngate/Search-v1`` on the same index, evidence and reward included, in
   episodes of ten searches; resets are not in the time.
3. ``served``: the same steps, where the environment asks ``turngate serve-search``'s server over HTTP.

    python -m benchmarks.search --against SKYRL/skyrl-gym --python OTHER/bin/python

plays the steps of skyrl-gym's search environment (a clone of https://github.com/NovaSky-AI/SkyRL; a Python that has
its requirements) in a process of its own against the same server, in turn with ours, and gives the ratio of the rates.

The parts of a round are measured one after another; printed are medians over the rounds, as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tantivy

import turngate
from turngate.envs.base import TurnEnv
from turngate.envs.search.engine.corpora import JsonlDocuments
from turngate.envs.search.engine.over_http import RetrievalServer
from turngate.envs.search.engine.tantivy_index import TantivyIndex
from turngate.envs.tasks import TaskList
from turngate.types import Task

K, N_WORDS = 3, 50_000
TURNS = 10  # searches of an episode

THEIRS = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig
for line in sys.stdin:
    asked = json.loads(line)
    turns, spent = int(sys.argv[4]), 0.0
    for start in range(0, len(asked), turns):
        extras = {"reward_spec": {"ground_truth": {"target": ["none"]}}, "max_turns": turns + 1}
        env = SearchEnv(SearchEnvConfig(search_url=sys.argv[2], topk=int(sys.argv[3])), extras)
        begin = time.perf_counter()
        seen = [env.step(f"<search>{query}</search>")["observations"] for query in asked[start : start + turns]]
        spent += time.perf_counter() - begin
        assert all("Doc 1" in one[0]["content"] for one in seen), seen[0]
    print(spent, flush=True)
"""


def texts(n: int, words: int, seed: int) -> Iterator[str]:
    """``n`` texts of ``words`` words out of 50,000, frequent ones more often (Zipf); the same on every machine."""
    vocabulary = np.array([f"{'bdfgklmnprstvz'[i % 14]}{'aeiou'[i % 5]}{i:x}" for i in range(N_WORDS)])
    share = 1.0 / np.arange(1, N_WORDS + 1)
    bounds, rng = np.cumsum(share / share.sum()), np.random.default_rng(seed)
    for _ in range(n):
        drawn = np.searchsorted(bounds, rng.random(words)).clip(max=N_WORDS - 1)
        yield " ".join(vocabulary[drawn])


def write(file: Path, n: int) -> None:
    """A JSON lines file of ``n`` passages."""
    rows = ({"id": f"p{number}", "text": text} for number, text in enumerate(texts(n, words=60, seed=0)))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def by_hand(folder: Path) -> Callable[[str], list[str]]:
    """A search by tantivy alone: the ids of the passages."""
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        hits = searcher.search(index.parse_query(query, ["text"]), K).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]

    return search


def stepped(env: TurnEnv, asked: Sequence[str]) -> Callable[[], float]:
    """Seconds of the searches by steps of an environment."""

    def play() -> float:
        total = 0.0
        for start in range(0, len(asked), TURNS):
            env.reset(seed=0)
            total += spent(env.step, [f"search {query}" for query in asked[start : start + TURNS]])
        return total

    return play


def spent(call: Callable[[str], object], asked: Sequence[str]) -> float:
    """Seconds of a call for each of ``asked``."""
    begin = time.perf_counter()
    for one in asked:
        call(one)
    return time.perf_counter() - begin


def env_of(corpus: Path, retriever: Mapping[str, str]) -> TurnEnv:
    """The environment with one question about these passages."""
    table = {"type": "jsonl", "path": str(corpus)}
    private = {"corpus": table, "gold": ["none"], "documents": ["p0", "p1"], "path": ["p0", "p1"], "between": []}
    task = Task(id="t", env_id="turngate/Search-v1", prompt="Which?", private=private)
    made = turngate.make(
        "turngate/Search-v1", tasks=TaskList([task]), retriever=retriever, max_turns=TURNS + 1, k=K, passage_chars=600
    )
    assert isinstance(made, TurnEnv)
    return made


def theirs(
    folder: Path, python: Path, url: str, asked: Sequence[str]
) -> tuple[Callable[[], float], Callable[[], None]]:
    """Seconds of the searches by skyrl-gym's environment, and how its process is ended."""
    command = [str(python), "-c", THEIRS, str(folder), url, str(K), str(TURNS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    given, said = process.stdin, process.stdout

    def play() -> float:
        given.write(json.dumps(list(asked)) + "\n")
        given.flush()
        return float(said.readline())

    def end() -> None:
        given.close()
        process.wait(30)
        said.close()

    return play, end


def measure(parts: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each part in each round, one after another, after one round that counts for nothing."""
    found: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(rounds + 1):
        for name, play in parts.items():
            took = play()
            if number:
                found[name].append(took)
    return found


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", type=Path, help="folder skyrl-gym of a clone of SkyRL")
    parser.add_argument("--python", type=Path, help="a Python that has what skyrl-gym needs")
    chosen = parser.parse_args()
    drawn = texts(chosen.queries, words=4, seed=1)
    asked, end = (
        [" ".join(dict.fromkeys(text.split())) for text in drawn],
        None,
    )  # tantivy counts a word once, we do not
    with tempfile.TemporaryDirectory() as name:
        corpus, folder = Path(name, "passages.jsonl"), Path(name, "index")
        write(corpus, chosen.passages)
        index, bare = TantivyIndex(JsonlDocuments(path=corpus).open(), folder), by_hand(folder)
        if odd := [query for query in asked if bare(query) != [hit.passage.id for hit in index.search(query, K)]]:
            raise SystemExit(f"'{odd[0]}' finds other passages through the retriever than by hand")
        local = {"type": "tantivy", "folder": str(folder)}
        with RetrievalServer(index) as server:
            parts = {
                "bare": lambda: spent(bare, asked),
                "retriever": lambda: spent(lambda query: index.search(query, K), asked),
                "env": stepped(env_of(corpus, local), asked),
                "served": stepped(env_of(corpus, {"type": "server", "url": server.url}), asked),
            }
            if chosen.against:
                parts["skyrl-gym"], end = theirs(chosen.against, chosen.python, server.url, asked)
            found = measure(parts, chosen.rounds)
        if end:
            end()
    rates = {f"{name}, searches/s": len(asked) / statistics.median(times) for name, times in found.items()}
    pairs = [("retriever", "bare"), ("env", "bare"), *([("served", "skyrl-gym")] if chosen.against else [])]
    ratios = {
        f"{one}/{other}": statistics.median(b / a for a, b in zip(found[one], found[other], strict=True))
        for one, other in pairs
    }
    print(json.dumps({name: round(value, 3) for name, value in {**rates, **ratios}.items()}, indent=2))


if __name__ == "__main__":
    main()
