"""``turngate doctor``: whether a model and an environment go together, and the needs of a run of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from turngate.cli import consoles
from turngate.cli.overrides import WITH_OVERRIDES, Methods, method_override
from turngate.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.run.doctor.diagnosis import DoctorLine

app = typer.Typer(rich_markup_mode=None)


@app.command("doctor", context_settings=WITH_OVERRIDES)
def doctor_command(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A name on the Hugging Face hub, a model folder, or RUN/model.")
    ] = "",
    env: Annotated[str, typer.Argument(metavar="[ENV]", help="Registered id, or MODULE:ID of a module here.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file, as for train; it names model and environment where they are left out."),
    ] = None,
    play: Annotated[int, typer.Option(min=0, help="Load the weights, play so many tasks and show every turn.")] = 0,
    method: Methods = None,
) -> None:
    """Tell before any training what a model's files hold, what it is shown, the memory needed and what is refused.

    Weights are not loaded without --play. Any key can be set here as for train: --policy.context=4096. Exit code 1 if
    a run would be refused.
    """
    words = [word for word in (model, env, *context.args) if word]
    named = [word for word in words if not word.startswith("--")]
    if len(named) > 2:
        raise ConfigError(f"'{named[2]}' is neither the model nor the environment; write: turngate doctor MODEL ENV")
    overrides = [*method_override(method), *(word for word in words if word.startswith("--"))]
    model, env, *_ = [*named, "", ""]
    settings = settings_of(model, env, config, overrides)
    raise typer.Exit(0 if doctor(consoles.output(), settings, n_played=play) else 1)


def settings_of(model: str, env: str, config: Path | None, overrides: Sequence[str]) -> Config:
    """The config to look at: that of a file, with another model and one of its environments if they are given, or the
    defaults. Raises ConfigError, UnknownName."""
    from turngate.config.run_config import load, parse_with

    if config is None:
        if not model or not env:
            raise ConfigError("name a model and an environment, or a config: turngate doctor --config CONFIG")
        data: dict[str, Any] = {"model": model, "env": {"id": env}}
        return parse_with(data, overrides)
    settings = load(config, [*overrides, *([f"--model={model}"] if model else [])])
    if model:  # a run of another model has another folder
        settings = settings.model_copy(update={"name": f"{settings.name}-with-another-model"})
    if not env:
        return settings
    chosen = tuple(section for section in settings.env if env in (section.label, section.id))
    if not chosen:
        raise UnknownName("environment of the config", env, [section.label for section in settings.env])
    return settings.model_copy(update={"env": chosen})


def doctor(console: Console, config: Config, *, n_played: int = 0) -> bool:
    """Print the findings; returns whether a run with this config would begin.

    ``n_played``: so many tasks of each environment are then played with the model as it is, and shown.
    """
    from turngate.report.show import indented
    from turngate.run.doctor.diagnosis import findings

    fine = True
    for one in chain(findings(config), _played(config, n_played) if n_played else ()):
        fine &= not one.refused
        mark = "refused: " if one.refused else ""
        console.print(f"{one.about + ':':<18}{mark}{one.line}", markup=False, highlight=False)
        if one.text:
            indented(console, Text(one.text), 4)
    console.print(f"{'verdict:':<18}{'a run would begin' if fine else 'a run would be refused'}", highlight=False)
    return fine


def _played(config: Config, n_tasks: int) -> Iterator[DoctorLine]:
    """Episodes of the model as it is, turn by turn, and advice."""
    from turngate.run.doctor.diagnosis import DoctorLine
    from turngate.run.doctor.first_episodes import first_episodes, understood
    from turngate.run.environments import Environments

    with Environments(config.env) as environments:
        try:
            found = asyncio.run(first_episodes(config, environments, n_tasks))
        except ConfigError as error:
            yield DoctorLine(about="episodes", line=str(error), refused=True)
            return
    for trajectory in found.trajectories:
        turns = [
            f"{turn.observation.text}\n> {turn.completion.text}\n  understood: {understood(turn.action)}"
            for turn in trajectory.turns
        ]
        line = f"'{trajectory.task.id}' ended with {trajectory.ending} after {len(turns)} turns"
        yield DoctorLine(about="episode", line=line, text="\n".join(turns))
    yield DoctorLine(about="solved", line=f"{found.n_solved} of {len(found.trajectories)}, taking the likeliest tokens")
    for line in found.advice():
        yield DoctorLine(about="advice", line=line)
