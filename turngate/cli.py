"""The command line. An error is printed as one line on stderr, and torch is not imported to find it.

Exit codes: 0 done; 1 a check that failed, a run that had to stop, a bug; 2 a mistake of the user; 130 and 143 ended by
SIGINT and SIGTERM.
"""

from __future__ import annotations

import os
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate import __version__
from turngate.commands.crash import crash_line
from turngate.commands.thread_waiting import bound_spinning
from turngate.errors import TurngateError, UserError
from turngate.run.stopping import Stopped, stopping_in_order

app = typer.Typer(
    help="Train tool-using agents over many turns.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
tasks_app = typer.Typer(help="Make tasks for an environment.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(tasks_app, name="tasks")
_WITH_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, for instance runs/NAME.")]


def main() -> None:
    """Entry point of the command ``turngate``."""
    bound_spinning(os.environ)
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
    """The system's reason, with the file that it is about."""
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"'{error.filename}': {said}"


def _console() -> Console:
    """A console that breaks lines on a terminal only: in a pipe or a file every line stays whole."""
    return Console(soft_wrap=not sys.stdout.isatty())


def _command() -> list[str]:
    """The command as the user typed it."""
    started_as_module = Path(sys.argv[0]).name == "__main__.py"
    return [*(["python", "-m", "turngate"] if started_as_module else ["turngate"]), *sys.argv[1:]]


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turngate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error too.")] = False,
) -> None:
    """Train tool-using agents over many turns."""


@app.command(context_settings=_WITH_OVERRIDES)
def train(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file; turngate explain lists its keys.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse, not warn, if an evaluated split shares questions with training.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs made at once: the run, its baselines and controls, a process for each.")
    ] = 1,
) -> None:
    """Train from a config, or go on with a run that was stopped. Any key can be set here: --credit.type=gigpo."""
    from turngate.config import load

    settings = load(config, context.args)  # first, so that a mistake in it is reported before torch is imported
    from turngate.commands.train import train

    train(_console(), settings, _command(), strict=strict, jobs=jobs)


@app.command("eval", context_settings=_WITH_OVERRIDES)
def evaluate(
    context: typer.Context,
    folder: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A name on the Hugging Face hub, a model folder, or RUN/model.")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file, as for train; its sections env, policy and eval say what is played."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="New folder for episodes and results, else evaluations/NAME.")
    ] = None,
    env: Annotated[str, typer.Option(help="Registered id, or MODULE:ID of a module here.")] = "turngate/Sql-v1",
    split: Annotated[str, typer.Option(help="Split of the environment's tasks.")] = "heldout",
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 200,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature; 0 = greedy.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed samples other episodes.")] = 0,
    kwargs: Annotated[
        str, typer.Option(help="Arguments of the environment as a TOML inline table, such as {max_turns = 4}.")
    ] = "{}",
    turn_tokens: Annotated[int, typer.Option(min=1, help="Most tokens that the model may write in a turn.")] = 64,
    context_tokens: Annotated[
        int, typer.Option("--context", min=16, help="Most tokens of an episode, all turns together.")
    ] = 1024,
    policy: Annotated[str, typer.Option(help="local: the model runs here; vllm: in vLLM; openai: a server.")] = "local",
    url: Annotated[str, typer.Option(help="Address of the server.")] = "",
    model: Annotated[str, typer.Option(help="Name of the model on the server, or the model of --config.")] = "",
    key_variable: Annotated[str, typer.Option(help="Environment variable with the server's key.")] = "OPENAI_API_KEY",
    memory: Annotated[Path | None, typer.Option(metavar="FILE", help="memory.json of a run: rules to show.")] = None,
) -> None:
    """Measure how often a model or a server solves tasks.

    It gets no hints, unless --memory names an experience memory; then the results say so. The rate has a 95 % interval,
    and every episode is kept. With --config, any key can be set here as for train: --eval.tasks=50.
    """
    from turngate.commands.eval import evaluate_config, settings_for
    from turngate.config import load, parse_table
    from turngate.errors import ConfigError

    words = [word for word in (folder, *context.args) if word]
    overrides = [word for word in words if word.startswith("--")]  # typer takes the first one for the model
    folder, *others = [*(word for word in words if word not in overrides), ""]
    if others[:-1]:
        raise ConfigError(f"'{others[0]}' is a second model; evaluate one model per command")
    if config is not None:
        source = context.get_parameter_source
        given = [name for name in context.params if (found := source(name)) and found.name == "COMMANDLINE"]
        idle = [name for name in given if name not in ("config", "out", "model", "folder", "memory")]
        if idle:
            raise ConfigError(f"--{idle[0].replace('_', '-')} has no effect with --config; set a key: --eval.tasks=50")
        named = [f"--model={folder or model}"] if folder or model else []
        settings = load(config, [*overrides, *named])
        if named and not settings.policy.trainable:
            raise ConfigError(f"{named[0]} has no effect on a server; write --policy.model=NAME")
        evaluate_config(_console(), settings, out=out, temperatures=(settings.policy.temperature, 0.0), memory=memory)
        return
    if overrides:
        raise ConfigError(f"unknown option '{overrides[0]}'; keys of a config can be set only together with --config")
    limits = {"turn_tokens": turn_tokens, "context": context_tokens, "temperature": temperature or 1.0}
    asked: dict[str, object] = {"type": policy, **limits}
    if policy == "openai":
        asked |= {"url": url, "model": model or folder, "key_variable": key_variable}
    elif url or model:
        raise ConfigError("--url and --model need --policy openai; name a model of your own without an option")
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
    evaluate_config(_console(), settings, out=out, temperatures=(temperature,), memory=memory)


@app.command(context_settings=_WITH_OVERRIDES)
def doctor(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A name on the Hugging Face hub, a model folder, or RUN/model.")
    ] = "",
    env: Annotated[str, typer.Argument(metavar="[ENV]", help="Registered id, or MODULE:ID of a module here.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file, as for train; it names model and environment where they are left out."),
    ] = None,
) -> None:
    """Tell before any training what a model's files hold, what it is shown, the memory needed and what is refused.

    Weights are not loaded. Any key can be set here as for train: --policy.context=4096. Exit code 1 if a run would be
    refused.
    """
    from turngate.commands.doctor import doctor, settings_of
    from turngate.errors import ConfigError

    words = [word for word in (model, env, *context.args) if word]
    named = [word for word in words if not word.startswith("--")]
    if len(named) > 2:
        raise ConfigError(f"'{named[2]}' is neither the model nor the environment; write: turngate doctor MODEL ENV")
    overrides = [word for word in words if word.startswith("--")]
    model, env, *_ = [*named, "", ""]
    settings = settings_of(model, env, config, overrides)
    raise typer.Exit(0 if doctor(_console(), settings) else 1)


@app.command()
def explain(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="A key, such as credit or train.group_size.")] = "",
) -> None:
    """Print the keys of a config with types, defaults and help. For a key that takes a part: every type of part."""
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
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed plays other episodes.")] = 0,
) -> None:
    """Check that an environment keeps the common rules. Exit code 1 if it does not."""
    from turngate.commands.check import check

    raise typer.Exit(0 if check(_console(), env, episodes=episodes, seed=seed) else 1)


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    split: Annotated[str, typer.Option(help="Split of the environment's tasks.")] = "train",
    index: Annotated[int, typer.Option(min=0, help="Number of the task in its split, from 0.")] = 0,
    oracle: Annotated[bool, typer.Option(help="Let the environment's oracle (its own solution) play.")] = False,
) -> None:
    """Play an environment at the keyboard. An empty line or Ctrl-D ends the episode."""
    from turngate.commands.play import play_by_hand

    play_by_hand(_console(), env, split=split, index=index, oracle=oracle)


@app.command()
def hints(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    task: Annotated[str, typer.Option(help="Id of the task; without it, --split and --index say which.")] = "",
    level: Annotated[int | None, typer.Option(min=1, help="Print this level only.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the environment's tasks; its first one.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Number of the task in its split, from 0.")] = None,
) -> None:
    """Print the hints of a task, level by level. Training refuses those that hold the answer."""
    from turngate.commands.hints import print_hints
    from turngate.errors import ConfigError

    if task and (split is not None or index is not None):
        raise ConfigError("--split and --index have no effect with --task, which says which task it is")
    print_hints(_console(), env, split=split, index=index or 0, task_id=task, level=level)


@app.command()
def show(
    run: RunPath,
    trajectory: Annotated[str, typer.Option(help="Id of a trajectory; without it, ids are listed.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="List the trajectories of this step.")] = None,
) -> None:
    """Print a recorded episode turn by turn. Shows what was measured, earned, paid after gates and credited."""
    from turngate.commands.show import list_trajectories, show_trajectory

    console = _console()
    if trajectory:
        show_trajectory(console, run, trajectory)
    else:
        list_trajectories(console, run, step)


@app.command()
def credit(
    run: RunPath,
    method: Annotated[str, typer.Option(help="Credit rule to apply, for instance gigpo.")],
    settings: Annotated[
        str, typer.Option(help="Settings of the rule as a TOML inline table, such as {gamma = 0.9}.")
    ] = "{}",
    step: Annotated[int | None, typer.Option(min=0, help="Training step; the last one if not given.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many turns to list.")] = 20,
    probe: Annotated[
        int | None, typer.Option(min=0, help="Number of a turn: change its reward, and print whose gradient changes.")
    ] = None,
    trajectory: Annotated[str | None, typer.Option(help="With --probe: id of the turn's trajectory.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --probe: what is added to the reward; 1 if not given.")
    ] = None,
    earned: Annotated[
        bool, typer.Option("--earned", help="With --probe: change the process reward before gates, not what was paid.")
    ] = False,
) -> None:
    """Apply another credit rule to a recorded step.

    Lists the turns whose credit differs most from that of the run's own rule. With --probe and --trajectory: which
    tokens learn from the reward of one turn.
    """
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
        str,
        typer.Option(
            help="A name on the Hugging Face hub, a model folder, the address of an OpenAI-style server, or a table "
            "{type = …}."
        ),
    ],
    model: Annotated[str, typer.Option(help="Name of the model on the server.")] = "",
    version: Annotated[
        str, typer.Option(help="Version of the judge; a model folder has a hash of its files instead.")
    ] = "",
    criterion: Annotated[
        str, typer.Option(help="What has to be true for the verdict yes; if not given, that the task is done.")
    ] = "",
    key_variable: Annotated[str, typer.Option(help="Environment variable that holds the server's key.")] = "",
    tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a reply; 512 if not given.")] = None,
    context: Annotated[
        int | None, typer.Option(min=16, help="Most tokens of prompt and reply together, for a model run here.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed samples other replies.")] = 0,
    cache: Annotated[
        Path | None, typer.Option(help="File that keeps verdicts, so that the same question is asked once.")
    ] = None,
) -> None:
    """Measure the errors of a judge on labelled answers.

    Prints error rates, consistency when the order is changed, length bias, and accepted canaries (known fakes).
    """
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
    write: Annotated[
        str, typer.Option(metavar="NAME", help="Scores go to RUN/rescored/NAME; named after the rubric if not given.")
    ] = "",
    phase: Annotated[
        str, typer.Option(help="Episodes to score: train, or an evaluation such as after-heldout-greedy.")
    ] = "train",
) -> None:
    """Score the recorded episodes of a run by another rubric. Prints how the payments differ; needs no model."""
    from turngate.commands.rescore import rescore_command

    rescore_command(_console(), run, rubric, name=write, phase=phase)


@app.command()
def tools(
    world: Annotated[
        str,
        typer.Argument(
            metavar="MODULE|SERVER",
            help="A Python module or file, the command of an MCP server in quotes, or the address of one.",
        ),
    ],
) -> None:
    """List the tools of a module or an MCP server as an agent sees them: READ or WRITE, usage, description, schema."""
    from turngate.commands.tools import list_tools

    list_tools(_console(), world)


@tasks_app.command("code")
def code_tasks(
    package: Annotated[
        list[str], typer.Option(help="A source distribution, such as toolz==1.0, or its folder; repeat for more.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the task set: a new one, or one to add to.")],
    n: Annotated[int, typer.Option(min=1, help="Number of tasks, in equal shares of the packages.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other tasks.")] = 0,
    repetitions: Annotated[
        int, typer.Option(min=1, help="How often each test is run; one whose result changes is left out.")
    ] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes that run at once.")] = 1,
    limit_s: Annotated[
        float, typer.Option(min=1, help="Most seconds for each package, which keeps the tasks found by then.")
    ] = 600.0,
) -> None:
    """Make code-repair tasks by breaking functions of packages.

    The tasks are for turngate/CodeRepair-v1. Started again, the command goes on where it stopped.
    """
    from turngate.commands.tasks import make_tasks

    make_tasks(_console(), package, out, n=n, seed=seed, repetitions=repetitions, workers=workers, limit_s=limit_s)


@tasks_app.command("check")
def check_tasks(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a task set.")],
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes that run at once.")] = 1,
) -> None:
    """Check that repairs pass their tests and bugs fail them. Exit code 1 if a task of the set does not hold."""
    from turngate.commands.tasks import check_tasks

    raise typer.Exit(0 if check_tasks(_console(), folder, workers=workers) else 1)


@app.command("serve-search")
def serve_search(
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="A folder, a .jsonl or .parquet file, a name, or a table {type = …}."),
    ],
    retriever: Annotated[str, typer.Option(help="Name of a retriever, or a table {type = …}.")] = "bm25",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8000,
) -> None:
    """Serve documents for searches, as Search-R1's retrieval server does: POST /retrieve. Ctrl-C ends it."""
    from turngate.commands.serve_search import corpus_named, serve_search
    from turngate.config import parse_table

    documents = parse_table("corpus", corpus) if corpus.startswith("{") else corpus_named(corpus)
    found = parse_table("retriever", retriever) if retriever.startswith("{") else {"type": retriever}
    serve_search(_console(), documents, found, host=host, port=port)


@app.command()
def export(
    run: RunPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the model.")],
    best: Annotated[
        bool, typer.Option("--best", help="The best validated step of a run with [train.validation].")
    ] = False,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="The adapter alone, of a run with learner.lora, as peft reads it.")
    ] = False,
) -> None:
    """Write the trained model of a run as a Hugging Face folder, with a model card.

    The folder has weights, tokenizer, chat template, generation settings with the tokens that end a turn, and a
    README.md that states data, rubric, settings and results. It loads with transformers alone; an adapter, with peft.
    """
    from turngate.commands.export import export

    export(_console(), run, out, best=best, adapter=adapter)


@app.command()
def report(run: RunPath) -> None:
    """Print the tables of a run again and redraw its curves."""
    from turngate.commands.report import report

    report(_console(), run)
