"""The command line. What goes wrong is one line on stderr, and nothing heavy is imported for it.

Exit codes: 0 done; 1 a check that failed, a run that had to stop, a bug; 2 a mistake of the user; 130 and 143 ended by
SIGINT and SIGTERM.
"""

from __future__ import annotations

import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate import __version__
from turngate.commands.crash import crash_line
from turngate.errors import TurngateError, UserError
from turngate.run.stopping import Stopped, stopping_in_order

app = typer.Typer(
    help="Train tool-using agents over many turns.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
tasks_app = typer.Typer(help="Make tasks for an environment.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(tasks_app, name="tasks")
_WITH_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]


def main() -> None:
    """Entry point of ``turngate``."""
    try:
        with stopping_in_order():
            app()
    except Stopped as stop:
        _end(stop, str(stop), stop.code)
    except UserError as error:
        _end(error, f"error: {error}", 2)
    except TurngateError as error:
        _end(error, f"{type(error).__name__}: {error}", 1)
    except OSError as error:
        _end(error, f"error: {_os_problem(error)}", 1)
    except Exception as error:
        _end(error, crash_line(error), 1)


def _end(error: BaseException, line: str, code: int) -> None:
    if "--debug" in takewhile(lambda word: word.startswith("-"), sys.argv[1:]):
        traceback.print_exception(error)
    line = "; ".join([line, *getattr(error, "__notes__", ())])
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _os_problem(error: OSError) -> str:
    """What the system refused, and where."""
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"'{error.filename}': {said}"


def _console() -> Console:
    """Lines for people; a pipe or a file has no width at which they would have to be broken."""
    return Console(soft_wrap=not sys.stdout.isatty())


def _command() -> list[str]:
    """What the user typed."""
    started_as_module = Path(sys.argv[0]).name == "__main__.py"
    return [*(["python", "-m", "turngate"] if started_as_module else ["turngate"]), *sys.argv[1:]]


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turngate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of whatever goes wrong.")] = False,
) -> None:
    """Train tool-using agents over many turns."""


@app.command(context_settings=_WITH_OVERRIDES)
def train(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse, not warn, if an evaluated split shares questions with training.")
    ] = False,
) -> None:
    """Train from a config; goes on where a killed run stopped. Any key can be set: --credit.type=gigpo."""
    from turngate.config import load

    settings = load(config, context.args)  # first: a mistake in it is told before anything heavy is imported
    from turngate.commands.train import train

    train(_console(), settings, _command(), strict=strict)


@app.command("eval", context_settings=_WITH_OVERRIDES)
def evaluate(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="[MODEL]", help="A hub name, a model folder, or RUN/model.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="A TOML file, as for train: its environments, policy and eval count.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where all is kept; evaluations/NAME if not given.")
    ] = None,
    env: Annotated[str, typer.Option(help="Registered id.")] = "turngate/Sql-v1",
    split: Annotated[str, typer.Option(help="Split of its tasks.")] = "heldout",
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 200,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="0 = greedy.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    kwargs: Annotated[str, typer.Option(help="Arguments of the environment as a TOML inline table.")] = "{}",
    turn_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a turn.")] = 64,
    context_tokens: Annotated[int, typer.Option("--context", min=16, help="Most tokens of an episode.")] = 1024,
    policy: Annotated[str, typer.Option(help="local, or openai for a server.")] = "local",
    url: Annotated[str, typer.Option(help="Address of the server.")] = "",
    model: Annotated[str, typer.Option(help="Name of the model on the server, or the model of --config.")] = "",
    key_variable: Annotated[
        str, typer.Option(help="Environment variable that holds the server's key.")
    ] = "OPENAI_API_KEY",
) -> None:
    """Unaided success of a model or a server, with a 95 % interval; every episode is kept.

    With --config, keys are set as for train: --eval.tasks=50.
    """
    from turngate.commands.eval import evaluate_config, settings_for
    from turngate.config import load, parse_table
    from turngate.errors import ConfigError

    words = [word for word in (folder, *context.args) if word]
    overrides = [word for word in words if word.startswith("--")]  # they may stand where the model could
    folder, *others = [*(word for word in words if word not in overrides), ""]
    if others[:-1]:
        raise ConfigError(f"'{others[0]}' is one model too many; evaluate one after the other")
    if config is not None:
        source = context.get_parameter_source
        given = [name for name in context.params if (found := source(name)) and found.name == "COMMANDLINE"]
        idle = [name for name in given if name not in ("config", "out", "model", "folder")]
        if idle:
            raise ConfigError(f"--{idle[0].replace('_', '-')} has no effect with --config; set a key: --eval.tasks=50")
        named = [f"--model={folder or model}"] if folder or model else []
        settings = load(config, [*overrides, *named])
        if named and not settings.policy.trainable:
            raise ConfigError(f"{named[0]} has no effect on a server; write --policy.model=NAME")
        evaluate_config(_console(), settings, out=out, temperatures=(settings.policy.temperature, 0.0))
        return
    if overrides:
        raise ConfigError(f"unknown option '{overrides[0]}'; keys of a config can be set with --config only")
    limits = {"turn_tokens": turn_tokens, "context": context_tokens, "temperature": temperature or 1.0}
    asked: dict[str, object] = {"type": policy, **limits}
    if policy == "openai":
        asked |= {"url": url, "model": model or folder, "key_variable": key_variable}
    elif url or model:
        raise ConfigError("--url and --model need --policy openai; a model of your own is the first argument")
    elif not folder:
        raise ConfigError(
            "name a model to evaluate, for instance RUN/model, or a server: --policy openai --url … --model …"
        )
    settings = settings_for(
        model or folder,
        policy=asked,
        env_id=env,
        kwargs=parse_table("kwargs", kwargs),
        split=split,
        n_tasks=tasks,
        samples=samples,
        seed=seed,
    )
    evaluate_config(_console(), settings, out=out, temperatures=(temperature,))


@app.command()
def explain(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="A key, such as credit or train.group_size.")] = "",
) -> None:
    """Print the keys of a config with types, defaults and help; for a key that takes parts, every type of them."""
    from turngate.commands.explain import explain
    from turngate.config import Config

    explain(_console(), Config, key)


@app.command()
def envs() -> None:
    """List the registered environments."""
    from turngate.commands.envs import list_envs

    list_envs(_console())


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 3,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Check that an environment keeps its contract. Exit code 1 if it does not."""
    from turngate.commands.check import check

    raise typer.Exit(0 if check(_console(), env, episodes=episodes, seed=seed) else 1)


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id.")],
    split: Annotated[str, typer.Option(help="Split of its tasks.")] = "train",
    index: Annotated[int, typer.Option(min=0, help="Number of the task.")] = 0,
    oracle: Annotated[bool, typer.Option(help="Let the oracle play.")] = False,
) -> None:
    """Play an environment at the keyboard. An empty line or Ctrl-D ends the episode."""
    from turngate.commands.play import play_by_hand

    play_by_hand(_console(), env, split=split, index=index, oracle=oracle)


@app.command()
def show(
    run: RunPath,
    trajectory: Annotated[str, typer.Option(help="Id of a trajectory; without it, ids are listed.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="List the trajectories of this step.")] = None,
) -> None:
    """Print a recorded trajectory turn by turn: evidence, earned, paid, gate and credit."""
    from turngate.commands.show import list_trajectories, show_trajectory

    console = _console()
    if trajectory:
        show_trajectory(console, run, trajectory)
    else:
        list_trajectories(console, run, step)


@app.command()
def credit(
    run: RunPath,
    method: Annotated[str, typer.Option(help="Credit rule, for instance gigpo.")],
    settings: Annotated[str, typer.Option(help="Its arguments as a TOML inline table.")] = "{}",
    step: Annotated[int | None, typer.Option(min=0, help="Training step; the last one if not given.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many turns to list.")] = 20,
    probe: Annotated[int | None, typer.Option(min=0, help="Change the reward of this turn of --trajectory …")] = None,
    trajectory: Annotated[str | None, typer.Option(help="… this trajectory of a training step …")] = None,
    delta: Annotated[float | None, typer.Option(help="… by so much (1 if not given): whose gradient changes?")] = None,
    earned: Annotated[bool, typer.Option("--earned", help="Change what the process earned, before gates.")] = False,
) -> None:
    """Credit of a recorded step by another rule: which turns move; with --probe, whose tokens learn from a turn."""
    from turngate.commands.credit import credit_again, probe_turn
    from turngate.config import parse_table
    from turngate.errors import ConfigError

    arguments = parse_table("settings", settings)
    if (probe is None) != (trajectory is None):
        raise ConfigError("--probe TURN and --trajectory ID go together; 'turngate show RUN' lists the ids")
    if probe is None or trajectory is None:
        if delta is not None or earned:
            raise ConfigError("--delta and --earned have no effect without --probe")
        credit_again(_console(), run, method, settings=arguments, step=step, top=top)
        return
    if step is not None:
        raise ConfigError("--step has no effect with --probe: the trajectory says which step it was played in")
    probe_turn(
        _console(),
        run,
        method,
        settings=arguments,
        trajectory=trajectory,
        turn=probe,
        delta=1.0 if delta is None else delta,
        earned=earned,
        top=top,
    )


@app.command("judge-check")
def judge_check(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="JSON lines of labelled responses or pairs.")],
    judge: Annotated[
        str, typer.Option(help="A hub name, a model folder, the address of an OpenAI-style server, or a {type = …}.")
    ],
    model: Annotated[str, typer.Option(help="Name of the model on the server.")] = "",
    version: Annotated[str, typer.Option(help="Version of the judge; a folder's is a hash of its files.")] = "",
    criterion: Annotated[str, typer.Option(help="When the verdict is yes; by default, when the task is done.")] = "",
    key_variable: Annotated[str, typer.Option(help="Environment variable that holds the server's key.")] = "",
    tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a reply; 512 if not given.")] = None,
    context: Annotated[int | None, typer.Option(min=16, help="Most tokens of prompt and reply of a model.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    cache: Annotated[Path | None, typer.Option(help="File that keeps verdicts.")] = None,
) -> None:
    """Measure a judge on labelled work: error rates, order consistency, length bias, canaries."""
    from turngate.commands.judge_check import judge_check, judge_named

    options = {"model": model, "version": version, "key_variable": key_variable}
    part = judge_named(judge, **options, max_tokens=tokens, context=context)
    judge_check(_console(), labelled, part, criterion=criterion, seed=seed, cache=cache)


@app.command()
def rescore(
    run: RunPath,
    rubric: Annotated[
        str,
        typer.Option(metavar="RUBRIC", help="Name of a shipped rubric, a JSON or TOML file, or package.module:NAME."),
    ],
    write: Annotated[str, typer.Option(metavar="NAME", help="Scores go to RUN/rescored/NAME.")] = "",
    phase: Annotated[str, typer.Option(help="What to score: train, or an evaluation.")] = "train",
) -> None:
    """Score the recorded trajectories of a run by another rubric, without a model: what would be paid, and to whom."""
    from turngate.commands.rescore import rescore_command

    rescore_command(_console(), run, rubric, name=write, phase=phase)


@tasks_app.command("code")
def code_tasks(
    package: Annotated[
        list[str], typer.Option(help="A source distribution, such as toolz==1.0, or a folder with one.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the task set is, or shall be.")],
    n: Annotated[int, typer.Option(min=1, help="How many tasks, in equal shares of the packages.")] = 200,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each verdict of a test is measured.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes at a time.")] = 1,
    limit_s: Annotated[
        float, typer.Option(min=1, help="Seconds for each package; then it ends with the tasks that it has.")
    ] = 600.0,
) -> None:
    """Break functions of Python packages on purpose, as tasks for turngate/CodeRepair-v1; goes on where it stopped."""
    from turngate.commands.tasks import make_tasks

    make_tasks(_console(), package, out, n=n, seed=seed, repetitions=repetitions, workers=workers, limit_s=limit_s)


@tasks_app.command("check")
def check_tasks(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A task set.")],
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes at a time.")] = 1,
) -> None:
    """Measure every task of a set anew: repairs pass, bugs fail. Exit code 1 if one does not hold."""
    from turngate.commands.tasks import check_tasks

    raise typer.Exit(0 if check_tasks(_console(), folder, workers=workers) else 1)


@app.command()
def report(run: RunPath) -> None:
    """Print a run's table again and redraw its curves."""
    from turngate.commands.report import report

    report(_console(), run)
