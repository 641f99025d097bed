"""``turngate show``: what a run recorded, trajectory by trajectory."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from turngate.config import load_run
from turngate.errors import ConfigError
from turngate.report.tables import print_table
from turngate.run.credit import own_rule
from turngate.runs import RunFolder
from turngate.store import Store

LISTED = 40  # rows of a listing


def list_trajectories(console: Console, path: Path, step: int | None) -> None:
    """Ids of a step (the last one if not given), best first."""
    run = RunFolder.of(path)
    store = Store(path)
    at = store.last_step(None) if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no trajectories yet")
    table = Table("trajectory", "outcome", "paid", "turns", "ending", box=None, title=f"step {at}")
    rows = [pair for group in store.read(at) for pair in zip(group.trajectories, group.scores, strict=True)]
    for trajectory, score in sorted(rows, key=lambda pair: -pair[1].total)[:LISTED]:
        outcome = "unusable" if score.outcome is None else f"{score.outcome:g}"
        table.add_row(trajectory.id, outcome, f"{score.total:.3f}", str(len(trajectory.turns)), trajectory.ending)
    print_table(console, table)
    if len(rows) > LISTED:
        console.print(f"{len(rows) - LISTED} more; all are in {run.trajectories} as Parquet", highlight=False)


def show_trajectory(console: Console, path: Path, trajectory_id: str) -> None:
    """One trajectory turn by turn. Credit is computed again from the step's groups, by the run's own rule."""
    from turngate.report.show import show
    from turngate.trainer.filters import keep
    from turngate.trainer.pack import by_turn
    from turngate.trainer.table import tabulate

    run = RunFolder.of(path)
    store = Store(path)
    step, group, index = store.find(trajectory_id)
    config = load_run(run)
    kept, _ = keep([group], {})
    filtered = not keep([group], config.train.filters_by_name)[0]
    advantage_T = None
    rule = own_rule(config)
    if kept and group.scores[index].usable and rule is not None:
        table = tabulate(kept)
        advantage_N = by_turn(rule(table), table.n_turns)
        start = 0
        for trajectory in kept[0].trajectories:
            if trajectory.id == trajectory_id:
                advantage_T = advantage_N[start : start + len(trajectory.turns)]
            start += len(trajectory.turns)
    note = "; the group was filtered out and taught nothing" if filtered else ""
    if rule is None:
        note += f"; credit '{config.credit.type}' reads what only training measures, so it is not shown"
    console.print(f"step {step}, sibling {index + 1} of {len(group.trajectories)}{note}", highlight=False)
    show(console, group.trajectories[index], group.scores[index], advantage_T)
