"""``turngate replay RUN --update STEP``: learn a training step again and compare the weights bit for bit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from turngate.config.run_config import load_run
from turngate.run.replay.replayed_update import replay_update_of
from turngate.store import write_json_atomic
from turngate.store.folder import RunFolder

LISTED = 10
"""Most differences that are printed; all are in the JSON file."""


def replay_update(console: Console, path: Path, step: int, *, json: Path | None) -> bool:
    """Learn ``step`` again and print the differences; returns whether there are none. Raises ReplayRefused."""
    run = RunFolder.of(path)
    found = replay_update_of(run, load_run(run), step)
    what = f"{found.n_arrays} arrays and numbers of the learner's state and {found.n_metrics} metrics"
    lines = [f"update {step}: {what} are identical, bit for bit"]
    if found.differences:
        lines = [f"update {step}: {len(found.differences)} of {what} differ"]
        for one in found.differences[:LISTED]:
            lines.append(f"  {one.name}: recorded {one.recorded}, replayed {one.replayed}")
        if (more := len(found.differences) - LISTED) > 0:
            lines.append(f"  {more} more differ; --json FILE lists all")
        lines.append(
            "another processor, number of threads (OMP_NUM_THREADS) or version of torch rounds otherwise; with those "
            "of the run, code or settings of the update have changed"
        )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        write_json_atomic(
            json,
            {
                "run": str(path),
                "step": step,
                "arrays": found.n_arrays,
                "metrics": found.n_metrics,
                "differences": [asdict(one) for one in found.differences],
            },
        )
    return not found.differences
