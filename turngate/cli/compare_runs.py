"""``turngate compare``: two runs, or two recorded phases, on the same tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import reads_runs
from turngate.errors import ConfigError

if TYPE_CHECKING:
    from turngate.store import Store

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, or a folder with trajectories/.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, or the same with --other.")],
    phase: Annotated[
        str, typer.Option(help="Episodes to compare, such as before-heldout-greedy; else the last evaluations of both.")
    ] = "",
    other: Annotated[str, typer.Option(help="Phase of B, if not that of A.")] = "",
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the differences into this file.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
) -> None:
    """Compare two runs on the same tasks: success, rewards, turns, tokens, and which tasks changed sides.

    Episodes are paired by task and seed; every difference has a 95 % interval over distinct questions.
    """
    from turngate.report.paired_runs import paired, plot_paired, print_paired
    from turngate.store import Store, write_json_atomic

    stores = Store.found(a), Store.found(b)
    if other and not phase:
        raise ConfigError("--other names the phase of B; name that of A with --phase")
    found = [
        paired(*(list(store.read(phase=name)) for store, name in zip(stores, names, strict=True)), phases=names)
        for names in (_given(stores, phase, other or phase) if phase else _common(stores))
    ]
    console = consoles.output()
    console.print(f"A: {a}\nB: {b}", markup=False, highlight=False, soft_wrap=True)
    for one in found:
        console.print()
        print_paired(console, one)
    if json is not None:
        write_json_atomic(json, {"a": str(a), "b": str(b), "phases": [one.as_json() for one in found]})
    if png is not None:
        plot_paired(found, png, title=f"{a.name} (A) and {b.name} (B); bars: 95 % of B − A")


def _given(stores: tuple[Store, Store], *names: str) -> list[tuple[str, str]]:
    for store, name in zip(stores, names, strict=True):
        if name not in store.phases():
            raise ConfigError(
                f"'{store.path}' has no episodes of phase '{name}'; recorded phases: {', '.join(store.phases())}"
            )
    return [(names[0], names[1])]


def _common(stores: tuple[Store, Store]) -> list[tuple[str, str]]:
    """The phases of A and B for each split and sampling that both evaluated."""
    from turngate.report.paired_runs import last_evaluations

    last = [last_evaluations(store.phases()) for store in stores]
    if common := [split for split in last[0] if split in last[1]]:
        return [(last[0][split], last[1][split]) for split in common]
    known = "; ".join(f"{name}: {', '.join(store.phases())}" for name, store in zip("AB", stores, strict=True))
    raise ConfigError(
        f"no split was evaluated in both at one sampling; name the phases with --phase and --other. Recorded: {known}"
    )
