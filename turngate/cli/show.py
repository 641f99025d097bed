"""``turngate show``: list the recorded trajectories of a step, or print one turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError
from turngate.report.tables import print_table
from turngate.types import Trajectory

if TYPE_CHECKING:
    from turngate.store import Store

app = typer.Typer(rich_markup_mode=None)
LISTED = 40  # most rows of a listing


@app.command("show")
@reads_runs()
def show_command(
    run: RunPath,
    trajectory: Annotated[str, typer.Option(help="Id of a trajectory; without it, ids are listed.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="List the trajectories of this step.")] = None,
    screenshots: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --trajectory: write its images, with a ring where it pointed."),
    ] = None,
) -> None:
    """Print a recorded episode turn by turn. Shows what was measured, earned, paid after gates and credited."""
    console = consoles.output()
    if trajectory:
        show_trajectory(console, run, trajectory, screenshots=screenshots)
    elif screenshots is not None:
        raise ConfigError("--screenshots needs --trajectory ID; 'turngate show RUN' lists the ids")
    else:
        list_trajectories(console, run, step)


def list_trajectories(console: Console, path: Path, step: int | None) -> None:
    """Print the trajectories of a step (the last one if not given) with ids and results, the best paid first; of many
    the best and the worst. With the last step, the rules of an experience memory that its evaluations withheld."""
    from turngate.store import Store
    from turngate.store.folder import RunFolder
    from turngate.trainer.evaluation.evaluations_file import withheld_lines

    run = RunFolder.of(path)
    store = Store(path)
    at = store.last_step(None) if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no trajectories yet")
    rows = [pair for group in store.read(at) for pair in zip(group.trajectories, group.scores, strict=True)]
    helped = ["help"] if any(trajectory.guidance for trajectory, _ in rows) else []
    table = Table("trajectory", "outcome", "paid", "turns", *helped, "ending", box=None, title=f"step {at}")
    rows.sort(key=lambda pair: -pair[1].total)
    for trajectory, score in rows if len(rows) <= LISTED else [*rows[: LISTED // 2], *rows[-LISTED // 2 :]]:
        outcome = "unusable" if score.outcome is None else f"{score.outcome:g}"
        cells = [trajectory.id, outcome, f"{score.total:.3f}", str(len(trajectory.turns))]
        table.add_row(*cells, *[_help(trajectory) for _ in helped], trajectory.ending)
    print_table(console, table)
    if len(rows) > LISTED:
        more = f"{len(rows) - LISTED} more between the {LISTED // 2} best paid and the {LISTED // 2} worst"
        console.print(f"{more}; all are in {run.trajectories} as Parquet", highlight=False)
    console.print("--trajectory ID prints one turn by turn", highlight=False)
    if at == store.last_step(None):
        for line in withheld_lines(path):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _help(trajectory: Trajectory) -> str:
    """Kind and level of the help that an episode had, and how many turns the policy did not take; "" for none."""
    from turngate.report.episode_words import is_forced

    guidance = trajectory.guidance
    if guidance is None:
        return ""
    forced = sum(map(is_forced, trajectory.turns))
    return f"{guidance.kind} {guidance.level}" + (f", {forced} forced" if forced else "")


def _phase_of(store: Store, step: int, trajectory_id: str) -> str:
    """The phase of a recorded trajectory."""
    return next(
        phase
        for phase in reversed(store.phases())  # as in Store.find
        if step in store.steps(phase)
        and any(one.id == trajectory_id for group in store.read(step, phase) for one in group.trajectories)
    )


def show_trajectory(console: Console, path: Path, trajectory_id: str, *, screenshots: Path | None = None) -> None:
    """Print one trajectory turn by turn. Its credit is computed again from its group, by the run's own rule.

    ``screenshots``: a folder into which the images of its observations are written. Raises ConfigError if it has none.
    """
    from turngate.report.episode_words import literal
    from turngate.report.learned import TRAIN, UNUSED, drop_reasons, learned_from
    from turngate.report.same_state import sibling_turns
    from turngate.report.screenshots import write_screenshots
    from turngate.report.show import show
    from turngate.run.assembly.credit import recorded_rule
    from turngate.store import Store
    from turngate.store.folder import RunFolder
    from turngate.trainer.checks.alarm_log import read_alarms

    run = RunFolder.of(path)
    store = Store(path)
    step, group, index = store.find(trajectory_id)
    rule, phase = recorded_rule(run), _phase_of(store, step, trajectory_id)
    groups = list(store.read(step, phase))
    place = next(n for n, one in enumerate(groups) if any(t.id == trajectory_id for t in one.trajectories))
    all_learned = learned_from(groups, rule, store.credit(step), unused=phase == UNUSED)[place]
    learned = all_learned[index]
    notes = "".join(f"; {note}" for note in learned.notes)
    console.print(f"step {step}, {phase}, sibling {index + 1} of {len(group.trajectories)}{notes}", highlight=False)
    if phase == TRAIN and (reason := drop_reasons(groups, rule).get(trajectory_id)):
        console.print(f"dropped: {literal(reason)}", markup=False, highlight=False)
    for raised in read_alarms(path):
        if trajectory_id in raised.alarm.trajectories:
            told = f"alarm {raised.alarm.name} of step {raised.step} names this episode"
            console.print(literal(told), markup=False, highlight=False)
    siblings = sibling_turns(group, all_learned, index)
    trajectory, score = group.trajectories[index], group.scores[index]
    show(console, trajectory, score, learned.advantage_T, learned.terms, siblings, learned.tokens_T, learned.read_T)
    if screenshots is not None:
        *images, strip = write_screenshots(group.trajectories[index], screenshots)
        told = f"{len(images)} images, {images[0]} to {images[-1].name}, and all of them in {strip}"
        console.print(told, markup=False, highlight=False, soft_wrap=True)
