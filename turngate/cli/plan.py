"""``turngate plan``: memory, seconds and traffic of a run on machines that are not here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.cli.overrides import WITH_OVERRIDES
from turngate.errors import ConfigError

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.run.plan.rate_table import RateTable

app = typer.Typer(rich_markup_mode=None)


@app.command(context_settings=WITH_OVERRIDES)
def plan(
    context: typer.Context,
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG|RUN", help="TOML file, as for train; or a finished run, for its rates.")
    ],
    gpus: Annotated[int, typer.Option(help="GPUs in all machines together.")] = 1,
    nodes: Annotated[int, typer.Option(help="Machines that hold them.")] = 1,
    rates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own rates: a TOML file like rate_table.toml.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Take the rates from what this run recorded.")
    ] = None,
) -> None:
    """Estimate memory, seconds and traffic of a run on other machines, from measured rates, and say what limits it.

    A simulator of queues and failures plays the same step. All is modelled; assumptions are printed. Any key can be set
    here as for train: --train.group_size=16.
    """
    print_plan(consoles.output(), config, context.args, gpus=gpus, nodes=nodes, rates=rates, measured=run)


def print_plan(
    console: Console,
    path: Path,
    overrides: Sequence[str],
    *,
    gpus: int,
    nodes: int,
    rates: Path | None,
    measured: Path | None,
) -> None:
    """Print the plan. ``path`` is a config, or the folder of a run, whose config and rates are taken.

    Raises ConfigError as ``scale_plan`` does.
    """
    from turngate.config.run_config import load
    from turngate.run.assembly.models import outlined
    from turngate.run.plan.assumptions import assumptions
    from turngate.run.plan.plan_lines import head_lines, limit_lines, memory_lines, stage_lines
    from turngate.run.plan.rate_table import read_rates
    from turngate.run.plan.scale_plan import check_machines, model_name, scale_plan

    check_machines(gpus, nodes)
    if rates is not None and (measured is not None or path.is_dir()):
        raise ConfigError(f"--rates '{rates}' and the rates of a run exclude each other; leave one of them out")
    table = read_rates() if rates is None else read_rates(rates)
    run = path if measured is None and path.is_dir() else measured
    if run is not None:
        table = _rates_of(run, table)
    config = _config_of(path, overrides) if path.is_dir() else load(path, overrides)
    model, _ = outlined(model_name(config))
    found = scale_plan(config, model, table, gpus=gpus, nodes=nodes)
    simulated = found.simulated(config.seed)
    for line in chain(
        head_lines(found),
        [""],
        stage_lines(found, simulated),
        [""],
        memory_lines(found),
        [""],
        limit_lines(found, simulated),
    ):
        console.print(line, markup=False, highlight=False)
    console.print("\nassumptions", markup=False, highlight=False)
    for line in assumptions(config, found):
        console.print(f"* {line}", markup=False, highlight=False)


def _rates_of(run: Path, table: RateTable) -> RateTable:
    """The rates of a finished run. Raises ConfigError."""
    from turngate.config.run_config import load_run
    from turngate.run.assembly.models import outlined
    from turngate.run.doctor.needed_memory import size_of
    from turngate.run.plan.rate_table import rates_of_run
    from turngate.store.folder import RunFolder

    folder = RunFolder.of(run)
    config = load_run(folder)
    if not folder.is_complete:
        raise ConfigError(f"'{run}' is not finished (it has no model), so it tells no rates; go on with it first")
    return rates_of_run(folder, config, table, size_of(outlined(str(folder.model))[0]).weights)


def _config_of(run: Path, overrides: Sequence[str]) -> Config:
    """The config of a finished run, about the model that it made."""
    from turngate.config.run_config import load
    from turngate.store.folder import RunFolder

    folder = RunFolder.of(run)
    named = any(word.startswith("--model=") for word in overrides)
    return load(folder.config, [*([] if named else [f"--model={folder.model}"]), *overrides])
