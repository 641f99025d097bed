"""``turngate eval``: its options. What it does is in ``turngate.cli.eval``, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.cli import consoles
from turngate.cli.named_env import EnvKwargs
from turngate.cli.overrides import WITH_OVERRIDES, Methods, method_override
from turngate.errors import ConfigError

if TYPE_CHECKING:
    from turngate.config.run_config import Config

app = typer.Typer(rich_markup_mode=None)


@app.command("eval", context_settings=WITH_OVERRIDES)
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
    kwargs: EnvKwargs = "{}",
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
    method: Methods = None,
) -> None:
    """Measure how often a model or a server solves tasks.

    It gets no hints, unless --memory names an experience memory; then the results say so. The rate has a 95 % interval,
    and every episode is kept. With --config, any key can be set here as for train: --eval.tasks=50.
    """
    from turngate.cli.eval import Further, evaluate_config, settings_for
    from turngate.config.run_config import parse_table

    further = Further(best_of=best_of, vote=vote, base=buckets)
    words = [word for word in (folder, *context.args) if word]
    overrides = [word for word in words if word.startswith("--")]  # typer takes the first one for the model
    folder, *others = [*(word for word in words if word not in overrides), ""]
    if others[:-1]:
        raise ConfigError(f"'{others[0]}' is a second model; evaluate one model per command")
    if config is not None:
        settings = _evaluated(context, config, [*method_override(method), *overrides], folder or model)
        both = (settings.eval_temperature, 0.0)
        evaluate_config(consoles.output(), settings, out=out, temperatures=both, memory=memory, further=further)
        return
    if overrides := [*method_override(method), *overrides]:
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
    if of_server:
        raise ConfigError("--url and --model need --policy openai; name a model of your own without an option")
    if not folder:
        raise ConfigError("name a model to evaluate, such as RUN/model, or a server: --policy openai --url … --model …")


def _evaluated(context: typer.Context, config: Path, overrides: list[str], model: str) -> Config:
    """The config of an evaluation with --config. Raises ConfigError for options that it does not read."""
    from turngate.config.run_config import load

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
