"""The store beside bare pyarrow and DuckDB: how fast tokens are written and read, and how fast episodes are asked for.

    python -m benchmarks.store --turns 1000000 --rounds 3 [--large 10000000]

Needs DuckDB (``pip install "turngate[sql]"``). Prints JSON.

``write`` and ``read`` are megabytes of tokens, log-probabilities and marks per second through ``Store``, which also
makes and unmakes the Python objects, and through ``pyarrow.parquet`` with the same four columns alone, without
dictionaries, which is faster than its default; ``share`` is the speed of the store divided by pyarrow's, for turns of
several lengths in tokens. Both are measured in processor time of all threads, which neither other work on the machine
nor the syncs of the store lengthen. ``query`` is the mean number of turns, and the number, of the episodes of one task
with an outcome of at least 0.5, in seconds by the clock: ``store_s`` by ``Store.read``, ``duckdb_s`` by DuckDB on the
store's own files, ``bare_s`` by DuckDB on a file that has the columns of the question alone. The jobs take turns, and
each figure is the best of its rounds.

``large`` is a store of so many turns, whose steps are links to the files of one, so that it is made at once: seconds to
list its steps, to read the first group of the last step, and of the question by DuckDB, with the largest memory of the
process after each in MB.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from turngate.store import Store
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
)

TURNS, SIBLINGS, GROUPS = 4, 8, 64  # of an episode, of a group, of a step
SHORT = 80  # tokens of a turn, of which the policy writes a quarter
LENGTHS = (SHORT, 800, 4000)
PER_STEP = TURNS * SIBLINGS * GROUPS


def make_step(step: int, length: int = SHORT) -> list[ScoredGroup]:
    """The groups of one step, in turns of ``length`` tokens."""
    rng = np.random.default_rng(step)
    return [_group(rng, step, number, length) for number in range(GROUPS)]


def _group(rng: np.random.Generator, step: int, number: int, length: int) -> ScoredGroup:
    task = Task(id=f"train/{(step * GROUPS + number) % 500}", env_id="bench", prompt="a question of the benchmark")
    wins = rng.random(SIBLINGS) < 0.4
    return ScoredGroup(
        task=task,
        trajectories=tuple(_episode(rng, task, f"{step}/{number}/{n}", length) for n in range(SIBLINGS)),
        scores=tuple(_score(float(won)) for won in wins),
    )


def _episode(rng: np.random.Generator, task: Task, name: str, length: int) -> Trajectory:
    facts = tuple(Evidence(name="call_ok", value=True, turn=turn) for turn in range(TURNS))
    turns = tuple(_turn(rng, length // 4) for _ in range(TURNS))
    return Trajectory(id=name, task=task, turns=turns, ending=Ending.FINISHED, seed=1, evidence=facts)


def _turn(rng: np.random.Generator, said: int) -> Turn:
    return Turn(
        observation=Observation(text="an observation of about forty characters", state_key="s"),
        context_ids=rng.integers(0, 150_000, 3 * said, np.int32),
        completion=Completion(
            ids_K=rng.integers(0, 150_000, said, np.int32),
            logprobs_K=rng.standard_normal(said).astype(np.float32),
            ended_by=EndedBy.STOP,
            policy_version=1,
            text="an action of twenty tokens",
        ),
        source=np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [3 * said, said]),
        action=Action(text="an action of twenty tokens"),
    )


def _score(outcome: float) -> Score:
    won = RewardEvent(name="won", kind="outcome", turn=None, value=outcome, weight=1.0)
    return Score(ledger=(won,), reward_T=np.array([0, 0, 0, outcome], np.float32), outcome=outcome, usable=True)


def bare_table(groups: list[ScoredGroup]) -> pa.Table:
    """Tokens, log-probabilities and marks of a step, one row per turn, as pyarrow alone would keep them."""
    turns = [turn for group in groups for one in group.trajectories for turn in one.turns]
    columns: dict[str, list[np.ndarray]] = {
        "context": [turn.context_ids for turn in turns],
        "said": [turn.completion.ids_K for turn in turns],
        "logprobs": [turn.completion.logprobs_K for turn in turns],
        "source": [turn.source for turn in turns],
    }
    return pa.table(
        {
            name: pa.ListArray.from_arrays(np.cumsum([0, *map(len, values)], dtype=np.int32), np.concatenate(values))
            for name, values in columns.items()
        }
    )


def best_s(
    jobs: dict[str, Callable[[int], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The best time of each job in seconds; it is told the number of the round, and the jobs take turns."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds):
        for name, job in jobs.items():
            start_s = clock()
            job(number)
            found[name].append(clock() - start_s)
    return {name: min(times) for name, times in found.items()}


def measure_tokens(folder: Path, length: int, rounds: int) -> dict[str, object]:
    """Writing and reading of one step in turns of ``length`` tokens."""
    groups = make_step(0, length)
    table, store, file = bare_table(groups), Store(folder / f"tokens-{length}"), folder / "bare.parquet"
    megabytes = table.nbytes / 1e6

    def bare_read(number: int) -> None:
        read = pq.read_table(file)
        for column in read.columns:
            for chunk in column.chunks:
                chunk.values.to_numpy()

    times = best_s(
        {
            "write": lambda number: store.write(number, groups),
            "bare_write": lambda number: pq.write_table(table, file, compression="zstd", use_dictionary=False),
            "read": lambda number: list(store.read(number)),
            "bare_read": bare_read,
        },
        rounds,
        time.process_time,
    )
    return {
        name: {
            "store_mb_per_s": megabytes / times[name],
            "pyarrow_mb_per_s": megabytes / times[f"bare_{name}"],
            "share": times[f"bare_{name}"] / times[name],
        }
        for name in ("write", "read")
    }


def measure_query(folder: Path, turns: int, rounds: int) -> dict[str, object]:
    """One question about all episodes of a long run."""
    store, bare = Store(folder / "run"), folder / "asked.parquet"
    for step in range(-(-turns // PER_STEP)):
        store.write(step, make_step(step))
    files = f"{folder}/run/trajectories/*/*.parquet"
    question = "SELECT avg(n_turns), count(*) FROM '{}' WHERE task_id = 'train/7' AND outcome >= 0.5"
    duckdb.sql(f"COPY (SELECT task_id, outcome, n_turns FROM '{files}') TO '{bare}'")

    def by_store(number: int) -> object:
        lengths = [len(one.turns) for one in _asked(store)]
        return sum(lengths) / len(lengths), len(lengths)

    jobs: dict[str, Callable[[int], object]] = {
        "store_s": by_store,
        "duckdb_s": lambda number: _answer(question.format(files)),
        "bare_s": lambda number: _answer(question.format(bare)),
    }
    answers = {name: job(0) for name, job in jobs.items()}
    if len(set(answers.values())) != 1:
        raise AssertionError(f"the three answers differ: {answers}")
    times = best_s(jobs, rounds)
    n_episodes = _answer(f"SELECT count(*) FROM '{files}'")
    return {
        **times,
        "duckdb_to_bare": times["duckdb_s"] / times["bare_s"],
        "episodes": n_episodes[0] if n_episodes else 0,
    }


def measure_large(folder: Path, turns: int) -> dict[str, object]:
    """What a store of so many turns takes that is not read as a whole."""
    store, last = Store(folder / "large"), -(-turns // PER_STEP) - 1
    store.write(0, make_step(0))
    (first,) = (folder / "large" / "trajectories").glob("step=*")
    for step in range(1, last + 1):
        other = first.with_name(f"step={step:06d}")
        other.mkdir()
        for file in first.iterdir():
            os.link(file, other / file.name)
    files = f"{folder}/large/trajectories/*/*.parquet"
    jobs: dict[str, Callable[[], object]] = {
        "steps": store.steps,
        "one_group": lambda: next(iter(store.read(last))),
        "duckdb": lambda: _answer(f"SELECT avg(outcome), count(*) FROM '{files}' WHERE task_id = 'train/7'"),
    }
    found: dict[str, object] = {"turns": (last + 1) * PER_STEP, "steps": last + 1}
    for name, job in jobs.items():
        start_s = time.perf_counter()
        job()
        found[f"{name}_s"] = time.perf_counter() - start_s
        found[f"{name}_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def _answer(query: str) -> tuple[Any, ...]:
    """The one row that a query returns."""
    found = duckdb.sql(query)
    assert found is not None
    (row,) = found.fetchall()
    return tuple(row)


def _asked(store: Store) -> Iterator[Trajectory]:
    for group in store.read():
        if group.task.id == "train/7":
            for one, score in zip(group.trajectories, group.scores, strict=True):
                if score.outcome is not None and score.outcome >= 0.5:
                    yield one


def measure(turns: int, rounds: int) -> dict[str, object]:
    """Everything, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            "turns_per_step": PER_STEP,
            "tokens": {length: measure_tokens(folder, length, rounds) for length in LENGTHS},
            "turns": turns,
            "query": measure_query(folder, turns, rounds),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, help="measure a store of so many turns instead")
    given = parser.parse_args()
    if given.large:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure_large(Path(folder), given.large), indent=2))
    else:
        print(json.dumps(measure(given.turns, given.rounds), indent=2))
