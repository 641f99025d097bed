"""``turngate show``: list the recorded trajectories of a step, or print one turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from turngate.errors import ConfigError
from turngate.report.tables import print_table
from turngate.run.credit import RecordedRule, recorded_rule
from turngate.runs import RunFolder
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import withheld_lines
from turngate.types import FloatArray, ScoredGroup, Trajectory

if TYPE_CHECKING:
    from turngate.trainer.credit.rule import CreditRule
    from turngate.trainer.credit.terms import CreditTerm

LISTED = 40  # most rows of a listing


def list_trajectories(console: Console, path: Path, step: int | None) -> None:
    """Print the trajectories of a step (the last one if not given) with ids and results, the best paid first; with the
    last step, what of an experience memory its evaluations did not show."""
    run = RunFolder.of(path)
    store = Store(path)
    at = store.last_step(None) if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no trajectories yet")
    rows = [pair for group in store.read(at) for pair in zip(group.trajectories, group.scores, strict=True)]
    helped = ["help"] if any(trajectory.guidance for trajectory, _ in rows) else []
    table = Table("trajectory", "outcome", "paid", "turns", *helped, "ending", box=None, title=f"step {at}")
    for trajectory, score in sorted(rows, key=lambda pair: -pair[1].total)[:LISTED]:
        outcome = "unusable" if score.outcome is None else f"{score.outcome:g}"
        cells = [trajectory.id, outcome, f"{score.total:.3f}", str(len(trajectory.turns))]
        table.add_row(*cells, *[_help(trajectory) for _ in helped], trajectory.ending)
    print_table(console, table)
    if len(rows) > LISTED:
        console.print(f"{len(rows) - LISTED} more; all are in {run.trajectories} as Parquet", highlight=False)
    if at == store.last_step(None):
        for line in withheld_lines(path):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _help(trajectory: Trajectory) -> str:
    """Kind and level of the help that an episode had, and how many turns somebody else took; "" for none."""
    from turngate.report.show import is_forced

    guidance = trajectory.guidance
    if guidance is None:
        return ""
    forced = sum(map(is_forced, trajectory.turns))
    return f"{guidance.kind} {guidance.level}" + (f", {forced} forced" if forced else "")


def show_trajectory(console: Console, path: Path, trajectory_id: str, *, screenshots: Path | None = None) -> None:
    """Print one trajectory turn by turn. Its credit is computed again from its group, by the run's own rule.

    ``screenshots``: a folder into which the images of its observations are written. Raises ConfigError if it has none.
    """
    from turngate.report.screenshots import write_screenshots
    from turngate.report.show import show
    from turngate.trainer.filters.parts import keep
    from turngate.trainer.step import UNUSED

    run = RunFolder.of(path)
    store = Store(path)
    step, group, index = store.find(trajectory_id)
    recorded = recorded_rule(run)
    kept, _ = keep([group], {}, lone=recorded.alone)
    compared = any(one.id == trajectory_id for left in kept for one in left.trajectories)
    unused = step in store.steps(UNUSED) and any(
        one.id == trajectory_id for left in store.read(step, UNUSED) for one in left.trajectories
    )
    rule = recorded.rule
    advantage_T: FloatArray | None = None
    reasons: list[CreditTerm] = []
    if compared and not unused and rule is not None:
        advantage_T, reasons = _credit(rule, kept, trajectory_id)
    note = "; a filter dropped the group, so nothing was learned from it" if _filtered(recorded, group) else ""
    if unused:
        note = "; nothing was learned from it: it was tried, or another one took its place"
    elif group.scores[index].usable and not compared:
        note = "; nothing was learned from it: no sibling with the same help to compare it with"
    if rule is None:
        note += f"; credit is not shown: rule '{recorded.name}' reads values that only training measures"
    if recorded.note and advantage_T is not None:
        note += f"; {recorded.note}"
    console.print(f"step {step}, sibling {index + 1} of {len(group.trajectories)}{note}", highlight=False)
    show(console, group.trajectories[index], group.scores[index], advantage_T, reasons)
    if screenshots is not None:
        *images, strip = write_screenshots(group.trajectories[index], screenshots)
        told = f"{len(images)} images, {images[0]} to {images[-1].name}, and all of them in {strip}"
        console.print(told, markup=False, highlight=False, soft_wrap=True)


def _filtered(recorded: RecordedRule, group: ScoredGroup) -> bool:
    from turngate.trainer.filters.parts import keep

    return not keep([group], recorded.filters, lone=recorded.alone)[0]


def _credit(rule: CreditRule, kept: Sequence[ScoredGroup], trajectory_id: str) -> tuple[FloatArray, list[CreditTerm]]:
    """The credit of the turns of a trajectory, and what it is the sum of."""
    from turngate.trainer.batch.pack import by_turn
    from turngate.trainer.batch.table import tabulate
    from turngate.trainer.credit.terms import CreditTerm

    table = tabulate(kept)
    advantage_N = by_turn(rule(table), table.n_turns)
    (own,) = (n for n, trajectory in enumerate(kept[0].trajectories) if trajectory.id == trajectory_id)
    rows = table.traj_N == own
    reasons = [CreditTerm(name, credit_N[rows], compared_N[rows]) for name, credit_N, compared_N in rule.terms(table)]
    return advantage_N[rows], reasons
