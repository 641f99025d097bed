"""``turngate train``: train from a config, then report."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.cli.crash import Crash, write_traceback
from turngate.cli.overrides import WITH_OVERRIDES, Methods, method_override
from turngate.errors import ConfigError, PartError, TurngateError, UserError, WriteError
from turngate.run.process.signals import Stopped

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.store.folder import RunFolder

app = typer.Typer(rich_markup_mode=None)


@app.command("train", context_settings=WITH_OVERRIDES)
def train_command(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file; turngate explain lists its keys.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse, not warn, if an evaluated split shares questions with training.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs made at once: the run, its baselines and controls, a process for each.")
    ] = 1,
    method: Methods = None,
    on: Annotated[
        str, typer.Option("--on", metavar="ADDRESS", help="Ray cluster for environments and fsdp: cluster.address.")
    ] = "",
) -> None:
    """Train from a config, or go on with a run that was stopped. Any key can be set here: --credit.type=gigpo."""
    from turngate.config.run_config import load

    cluster = ['--cluster.type="ray"', f"--cluster.address={json.dumps(on)}"] if on else []
    settings = load(
        config, [*method_override(method), *cluster, *context.args]
    )  # first: its mistakes are told without torch
    train(consoles.output(), settings, _command(), strict=strict, jobs=jobs)


def _command() -> list[str]:
    """The command as the user typed it."""
    started_as_module = Path(sys.argv[0]).name == "__main__.py"
    return [*(["python", "-m", "turngate"] if started_as_module else ["turngate"]), *sys.argv[1:]]


def train(
    console: Console, settings: Config, command: Sequence[str] = (), *, strict: bool = False, jobs: int = 1
) -> None:
    """Do the rest of a run, then print its tables and draw its curves.

    ``command`` is the command that the user typed, if there was one. It is printed when the run is stopped, because the
    same command goes on with it. ``strict`` and ``jobs``: see ``Job``.
    """
    from turngate.config.overlays import blamed
    from turngate.report.summary import write_report
    from turngate.run.job import Job
    from turngate.run.learner_restarts import run_with_learner
    from turngate.run.remote_folder import remote_folder
    from turngate.run.staged_job import StagedJob
    from turngate.store.folder import RunFolder

    remote = remote_folder(settings, console, jobs=jobs)
    settings = remote.settings
    run = RunFolder((settings.folder / settings.name).absolute())  # an environment may change the current folder
    tell_methods(console, settings)
    try:
        if settings.stages:
            if jobs > 1:
                raise ConfigError(f"--jobs {jobs} has no effect on stages, which are made one after the other")
            remote.fetch()
            stages = StagedJob(settings, console, strict=strict, commit=remote.commit)
            with remote.claim():
                stages.run()
                write_report(run.path, console)
            return

        def work() -> None:
            remote.fetch()
            job = Job(settings, console, strict=strict, jobs=jobs, commit=remote.commit)
            with remote.claim():
                job.run()
                write_report(run.path, console)

        run_with_learner(settings, run, work, console, jobs=jobs)
    except Stopped as stop:
        stop.advice = f"{safe(run, settings)}; to go on: {_again(command)}"
        raise
    except WriteError as error:
        error.add_note(f"{safe(run, settings)}; make room, then go on: {_again(command)}")
        raise
    except PartError as error:
        if error.__cause__ is not None and write_traceback(error, run.traceback):
            error.add_note(f"its traceback is in {run.traceback}")
        raise
    except UserError as error:
        if needs := blamed(str(error), settings.method):
            error.add_note(needs)
        raise
    except (TurngateError, OSError):
        raise
    except Exception as error:
        if write_traceback(error, run.traceback):
            raise Crash(run.traceback) from error
        raise


def tell_methods(console: Console, settings: Config) -> None:
    """Print a line for each setting of the user's that counts instead of that of a method which the config names."""
    for method in settings.method:
        for line in method.instead:
            console.print(f"method '{method.name}': {line}", markup=False, highlight=False, soft_wrap=True)


def _again(command: Sequence[str]) -> str:
    from turngate.trainer.torch.place import place

    here = place()
    if here is not None and command:
        arguments = command[command.index("turngate") + 1 :] if "turngate" in command else ()
        command = ["torchrun", "--nproc-per-node", str(here.local_size), "-m", "turngate", *arguments]
    return shlex.join(command) or "train with the same config once more"


def safe(run: RunFolder, settings: Config) -> str:
    """The part of a run that is on disk and will not be repeated, in words."""
    from turngate.run.staged_job import stage_in_work

    if settings.stages:
        left = stage_in_work(settings)
        if left is None:
            return "every stage is complete"
        stage, own = left
        return f"of stage '{stage.name}' (number {stage.number}) {_step(stage.folder, own.train.steps)} is safe"
    if not run.is_complete:
        return f"{_step(run, settings.train.steps)} is safe"
    begun = [("baseline", one) for one in run.baselines] + [("control", one) for one in run.controls]
    unfinished = [
        f"; of {kind} '{one.path.name}' {_step(one, settings.train.steps)} is safe"
        for kind, one in begun
        if not one.is_complete
    ]
    return "the training is complete" + "".join(unfinished)


def _step(run: RunFolder, total: int) -> str:
    from turngate.trainer.checkpoint import Checkpoints

    done = Checkpoints(run.checkpoints).last()
    if done is not None:
        return f"step {done} of {total}"
    return "the warm start" if run.warm_start.exists() else "no step yet, so nothing"
