"""Speed of the store: a step of 128 episodes written, beside bare pyarrow that writes the same table.

    python -m benchmarks.store_write --seconds 5

Prints JSON. ``store`` is ``Store.write``: Python objects to Arrow columns (``table``), then Parquet (zstd), three syncs
and a rename. ``bare`` is ``pyarrow.parquet.write_table`` of the finished table; ``synced`` also syncs the file and its
folder. The jobs take turns, so that a busy machine slows all of them, and the figures are the best of their rounds:
milliseconds by the clock (``_ms``) and of the processor (``_cpu_ms``), and ``store`` divided by the others. On a busy
machine the processor's are the ones to trust: the others have the syncs of everybody else in them.

The step has the shape of the demo's: 16 tasks with 8 siblings of 2 to 6 turns, a first context of 300 tokens, answers
of 40, completions of 20, and per turn the evidence of ``turngate/Sql-v1`` and its payments.
"""

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from turngate.store import Store
from turngate.store.codecs import LAYOUTS, VERSION, Row
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
    ToolCall,
    Trajectory,
    Turn,
)

TASKS, SIBLINGS = 16, 8
OPENING, ANSWER, SAID = 300, 40, 20  # tokens
QUERY = "SELECT name, count(*) FROM books JOIN authors ON author_id = authors.id GROUP BY name ORDER BY 2 DESC"


def make_step(seed: int = 0) -> list[ScoredGroup]:
    """The groups of one step."""
    rng = np.random.default_rng(seed)
    return [_group(rng, task) for task in range(TASKS)]


def _group(rng: np.random.Generator, number: int) -> ScoredGroup:
    prompt = f"Question {number}: who wrote most books? The tables: authors(id, name), books(id, title, author_id)"
    task = Task(id=f"train/{number}", env_id="turngate/Sql-v1", prompt=prompt)
    trajectories = tuple(_trajectory(rng, task, sibling) for sibling in range(SIBLINGS))
    return ScoredGroup(task=task, trajectories=trajectories, scores=tuple(map(_score, trajectories)))


def _trajectory(rng: np.random.Generator, task: Task, sibling: int) -> Trajectory:
    turns = tuple(_turn(rng, turn) for turn in range(int(rng.integers(2, 7))))
    facts = [
        Evidence(name=name, value=value, turn=turn)
        for turn in range(len(turns))
        for name, value in (("parsed", True), ("tool", "run_sql"), ("executes", turn % 3 > 0), ("repeated", False))
    ]
    return Trajectory(
        id=f"{task.id}/{sibling}",
        task=task,
        turns=turns,
        ending=Ending.FINISHED,
        seed=int(rng.integers(2**62)),
        evidence=(*facts, Evidence(name="correct", value=bool(sibling % 2), by="verifier")),
    )


def _turn(rng: np.random.Generator, number: int) -> Turn:
    said, shown = int(rng.integers(5, 2 * SAID)), OPENING if number == 0 else int(rng.integers(5, 2 * ANSWER))
    return Turn(
        observation=Observation(text=f"{number} rows: " + "name, count | " * (shown // 4)),
        context_ids=rng.integers(0, 2048, shown, np.int32),
        completion=Completion(
            ids_K=rng.integers(0, 2048, said, np.int32),
            logprobs_K=rng.standard_normal(said).astype(np.float32),
            ended_by=EndedBy.STOP,
            policy_version=12,
        ),
        source=np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [shown, said]),
        action=Action(text=f"run_sql {QUERY}", calls=(ToolCall(name="run_sql", arguments={"query": QUERY}),)),
    )


def _score(trajectory: Trajectory) -> Score:
    n_turns = len(trajectory.turns)
    paid = tuple(
        RewardEvent(name="executes", kind="process", turn=turn, value=1.0, weight=0.1, share=1 / n_turns)
        for turn in range(n_turns)
    )
    won = RewardEvent(name="correct", kind="outcome", turn=None, value=1.0, weight=1.0)
    return Score(ledger=(*paid, won), reward_T=np.full(n_turns, 0.1, np.float32), outcome=1.0, usable=True)


def build(groups: Sequence[ScoredGroup]) -> pa.Table:
    """The table that the store writes."""
    rows = [
        Row(f"000012/train/{place}", sibling, "train", trajectory, score)
        for place, group in enumerate(groups)
        for sibling, (trajectory, score) in enumerate(zip(group.trajectories, group.scores, strict=True))
    ]
    return pa.table(LAYOUTS[VERSION].columns(rows))


def best_ms(jobs: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, tuple[float, float]]:
    """The best times of each job, by the clock and of the processor; the jobs take turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    begin_s = time.perf_counter()
    while len(next(iter(found.values()))) < 5 or time.perf_counter() - begin_s < seconds:
        for name, job in jobs.items():
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            job()
            found[name].append((1e3 * (time.perf_counter() - start_s), 1e3 * (time.process_time() - start_cpu_s)))
    return {name: (min(wall for wall, _ in times), min(cpu for _, cpu in times)) for name, times in found.items()}


def measure(seconds: float) -> dict[str, float]:
    """The times of each job in milliseconds, and how many times as long as pyarrow alone the store takes."""
    groups = make_step()
    table = build(groups)
    with tempfile.TemporaryDirectory() as folder:
        store, steps, file = Store(folder), itertools.count(), Path(folder) / "bare.parquet"

        def bare() -> None:
            pq.write_table(table, file, compression="zstd")

        def synced() -> None:
            bare()
            for path in (file, file.parent):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

        jobs = {"store": lambda: store.write(next(steps), groups), "table": lambda: build(groups)}
        times = best_ms({**jobs, "bare": bare, "synced": synced}, seconds)
    (store_ms, store_cpu_ms) = times["store"]
    return {
        "turns": float(sum(len(one.turns) for group in groups for one in group.trajectories)),
        **{f"{name}_ms": wall for name, (wall, _) in times.items()},
        **{f"{name}_cpu_ms": cpu for name, (_, cpu) in times.items()},
        **{f"store_to_{name}": store_ms / times[name][0] for name in ("bare", "synced")},
        **{f"store_to_{name}_cpu": store_cpu_ms / times[name][1] for name in ("bare", "synced")},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    print(json.dumps({name: round(value, 2) for name, value in measure(parser.parse_args().seconds).items()}, indent=2))
