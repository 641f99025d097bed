"""``turngate rescore``: score the recorded episodes of a run by another rubric and print how the payments differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError, UserError
from turngate.report.tables import print_table

if TYPE_CHECKING:
    from turngate.rescoring import Comparison

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs()
def rescore(
    run: RunPath,
    rubric: Annotated[
        str,
        typer.Option(metavar="RUBRIC", help="Name of a shipped rubric, a JSON or TOML file, or package.module:NAME."),
    ],
    write: Annotated[
        str, typer.Option(metavar="NAME", help="Scores go to RUN/rescored/NAME; named after the rubric if not given.")
    ] = "",
    phase: Annotated[
        str, typer.Option(help="Episodes to score: train, or an evaluation such as after-heldout-greedy.")
    ] = "train",
) -> None:
    """Score the recorded episodes of a run by another rubric. Prints how the payments differ; needs no model."""
    from turngate.config.run_config import import_modules
    from turngate.rescoring import rescore_run
    from turngate.rubrics import FILES, find_rubric
    from turngate.store.folder import RunFolder

    console = consoles.output()
    missing = import_modules(RunFolder.of(run))
    try:
        found = find_rubric(rubric)
    except UserError as error:
        raise ConfigError("; ".join([str(error), *missing])) from error
    name = write or (Path(rubric).stem if rubric.endswith(FILES) else rubric.replace(":", "."))
    show(console, rescore_run(run, found, name=name, phase=phase))
    console.print(f"scores: {RunFolder(run).rescored(name).path}", markup=False, highlight=False, soft_wrap=True)


def show(console: Console, comparison: Comparison) -> None:
    """Print the comparison as a table and a few lines."""
    found = comparison
    table = Table("mean paid", box=None)
    for head in ("old", "new", "change"):
        table.add_column(head, justify="right")
    for name, (old, new) in found.means().items():
        table.add_row(name, f"{old:.4f}", f"{new:.4f}", f"{new - old:+.4f}")
    print_table(console, table)
    lines = [
        f"means over the {found.n_common} of {found.n_trajectories} trajectories that are usable under both rubrics",
        f"{found.n_moved} of {found.n_common} trajectories changed their rank within their group "
        f"({found.n_groups_moved} of {found.n_groups} groups)",
        f"{found.lost.total()} of {found.n_trajectories} became unusable" + _listed(found.lost),
    ]
    if found.n_regained:
        lines.append(f"{found.n_regained} became usable")
    lines += [
        f"{' and '.join(readers)} had no effect: no trajectory has the evidence '{name}'"
        for name, readers in found.silent().items()
    ]
    lines += [
        f"{name} is left out of the new scores: guide '{guide}' paid it, which compares several episodes of a task"
        for name, guide in left_out(comparison).items()
    ]
    safety = comparison.rubric.check()
    lines.append("no worse outcome can be paid more" if safety.safe else f"warning: {safety.problems[0]}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def left_out(comparison: Comparison) -> dict[str, str]:
    """The payments that come from a guide and not from a rubric, and the guide."""
    from turngate.trainer.guidance.base import GuidePart

    parts = [part for part in GuidePart.catalogue().values() if issubclass(part, GuidePart)]
    known = {name: part.model_fields["type"].default for part in parts for name in part.bonuses}
    return {name: known[name] for name in comparison.means() if name in known and name not in comparison.names}


def _listed(reasons: Mapping[str, int]) -> str:
    return "".join(f"\n  {count} × {reason}" for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1]))
