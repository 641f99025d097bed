"""What the command line does besides training: evaluate a model, play by hand, look at what was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from turngate import build
from turngate.config import Config, EnvSection, PolicySection, load
from turngate.envs.base import TurnEnv
from turngate.errors import ConfigError, StoreError, UserError
from turngate.store import Store
from turngate.types import ScoredGroup, derive_seed

LISTED = 40  # rows of a listing


def evaluate_model(
    console: Console,
    model_name: str,
    *,
    env_id: str,
    kwargs: dict[str, Any],
    split: str,
    n_tasks: int,
    samples: int,
    temperature: float,
    seed: int,
    turn_tokens: int,
    context: int,
) -> None:
    """Print the unaided success of a model with a 95 % interval."""
    section = EnvSection(id=env_id, kwargs=kwargs)
    from turngate.agents.chat import Chat
    from turngate.report.tables import wilson
    from turngate.trainer.evaluate import evaluate

    async def go(env: TurnEnv) -> Any:
        tasks = build.heldout(env, split, n_tasks)
        model, tokenizer = build.load_model(model_name)
        config = Config.model_construct(policy=PolicySection(turn_tokens=turn_tokens, context=context))
        player = build.build_player(config, model, Chat(tokenizer), temperature=temperature)
        async with build.build_pool(section, config.policy.lanes) as worlds:
            score = env.turn_spec.rubric.score_group  # type: ignore[attr-defined]
            return await evaluate(
                player, worlds, score, tasks, split=split, samples=samples, seed=derive_seed(seed, "eval")
            )

    with build.build_env(section) as env:
        result, _ = asyncio.run(go(env))
    n, successes = len(result.success_B), sum(result.success_B)
    if not n:
        raise StoreError(f"none of the {result.unusable} episodes could be used")
    low, high = wilson(successes, n)
    console.print(
        f"{env_id} {split}, temperature {temperature:g}: {successes} of {n} solved unaided = {successes / n:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}); {result.unusable} unusable",
        highlight=False,
    )


def play_by_hand(console: Console, env_id: str, *, split: str, index: int, oracle: bool) -> None:
    """A person (or the oracle) writes the actions."""
    with build.build_env(EnvSection(id=env_id)) as env:
        _play(env, console, split=split, index=index, oracle=oracle)


def _play(env: TurnEnv, console: Console, *, split: str, index: int, oracle: bool) -> None:
    size = env.tasks.size(split)
    if size is not None and index >= size:
        raise ConfigError(f"split '{split}' holds {size} tasks; --index goes from 0 to {size - 1}")
    task = env.tasks.task(split, index)
    lines = iter(env.oracle(task)) if oracle else None
    observation, _ = env.reset(seed=0, options={"task": task})
    console.print(f"[{task.id}] {observation.text}", markup=False, highlight=False)
    for tool in env.turn_spec.tools:
        console.print(f"  {tool.usage:<24} {tool.description}", markup=False, highlight=False)
    total = 0.0
    while True:
        action = next(lines, "") if lines is not None else _ask(console)
        if not action:
            console.print("stopped")
            break
        if lines is not None:
            console.print(f"> {action}", markup=False, highlight=False)
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        console.print(observation.text, markup=False, highlight=False)
        if terminated or truncated:
            score = info["score"]
            outcome = "unknown" if score.outcome is None else f"{score.outcome:g}"
            console.print(f"{info['ending']}: outcome {outcome}, paid {total:.3f}", highlight=False)
            break


def _ask(console: Console) -> str:
    try:
        return console.input("> ", markup=False)
    except EOFError:
        return ""


def list_trajectories(console: Console, path: Path, step: int | None) -> None:
    """Ids of a step (the last one if not given), best first."""
    store = _store(path)
    at = store.last_step(None) if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no trajectories yet")
    table = Table("trajectory", "outcome", "paid", "turns", "ending", box=None, title=f"step {at}")
    rows = [pair for group in store.read(at) for pair in zip(group.trajectories, group.scores, strict=True)]
    for trajectory, score in sorted(rows, key=lambda pair: -pair[1].total)[:LISTED]:
        outcome = "unusable" if score.outcome is None else f"{score.outcome:g}"
        table.add_row(trajectory.id, outcome, f"{score.total:.3f}", str(len(trajectory.turns)), trajectory.ending)
    console.print(table, markup=False)
    if len(rows) > LISTED:
        console.print(f"{len(rows) - LISTED} more; all are in {path}/trajectories as Parquet", highlight=False)


def show_trajectory(console: Console, path: Path, trajectory_id: str) -> None:
    """One trajectory turn by turn. Credit is computed again from the step's groups, by the run's own rule."""
    from turngate.report.show import show
    from turngate.trainer.filters import keep
    from turngate.trainer.table import tabulate

    store = _store(path)
    step, group, index = store.find(trajectory_id)
    config = load(path / "config.toml")
    kept, _ = keep([group], {})
    passed, _ = keep([group], build.build_filters(config.train.filters))
    filtered = trajectory_id not in {one.id for each in passed for one in each.trajectories}
    advantage_T = None
    rule = build.own_credit(config)
    if kept and group.scores[index].usable and rule is not None:
        advantage_N = rule(tabulate(kept))
        start = 0
        for trajectory in kept[0].trajectories:
            if trajectory.id == trajectory_id:
                advantage_T = advantage_N[start : start + len(trajectory.turns)]
            start += len(trajectory.turns)
    note = "; it was filtered out and taught nothing" if filtered else ""
    if rule is None:
        note += f"; credit '{config.credit.type}' reads what only training measures, so it is not shown"
    console.print(f"step {step}, sibling {index + 1} of {len(group.trajectories)}{note}", highlight=False)
    show(console, group.trajectories[index], group.scores[index], advantage_T)


def credit_again(
    console: Console, path: Path, method: str, *, settings: dict[str, Any], step: int | None, top: int
) -> None:
    """Credit of a recorded step (the last one if not given) by another rule, beside the run's own."""
    from turngate.report.credits import show_moves
    from turngate.trainer.filters import keep
    from turngate.trainer.table import tabulate

    rule = build.credit_rule(method, settings)
    store, config = _store(path), load(path / "config.toml")
    at = store.last_step() if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no training steps yet")
    kept, _ = keep(list(store.read(at, "train")), {})
    if not kept:
        raise StoreError(f"step {at} holds no group with two usable trajectories; try another --step")
    table = tabulate(kept)
    trajectories = [trajectory for group in kept for trajectory in group.trajectories]
    taught = len(keep(kept, build.build_filters(config.train.filters))[0])
    console.print(f"step {at}, {len(kept)} groups, of which {taught} passed the filters", highlight=False)
    own_rule = build.own_credit(config)
    if own_rule is None:
        raise ConfigError(
            f"the run's own credit '{config.credit.type}' reads what only training measures, so there is nothing to "
            "compare with"
        )
    own = (config.credit.type, own_rule(table))
    show_moves(console, trajectories, table.reward_N, own, (method, rule(table)), top=top)


def probe_turn(
    console: Console,
    path: Path,
    method: str,
    *,
    settings: dict[str, Any],
    trajectory: str,
    turn: int,
    delta: float,
    earned: bool,
    top: int,
) -> None:
    """Perturb the reward of one recorded turn and print whose gradient changes, beside what the credit rule says.

    The gradient is that of the run's loss over the whole step that the trajectory was played in, by the weights that
    played it if they are still there. ``earned``: perturb what the process earned before gates, not what was paid.
    """
    from turngate.report.probes import show_probe
    from turngate.trainer.filters import keep
    from turngate.trainer.probe import probe_gradient

    rule = build.credit_rule(method, settings)
    store, config = _store(path), load(path / "config.toml")
    at, _, _ = store.find(trajectory)
    if at not in store.steps():
        raise ConfigError(f"'{trajectory}' was played in an evaluation, which teaches nothing; name one of training")
    kept, _ = keep(list(store.read(at, "train")), build.build_filters(config.train.filters))
    if trajectory not in {one.id for group in kept for one in group.trajectories}:
        raise ConfigError(
            f"'{trajectory}' taught nothing in step {at}: it was not usable, or a filter of {config.train.filters} "
            "dropped its group; name another"
        )
    learner, whose = _learner_at(path, config, at)
    console.print(f"step {at}, {len(kept)} groups; gradient by {whose}", highlight=False)
    loss, aggregate = build.build_loss(config), config.loss.aggregate
    found = probe_gradient(
        learner,
        kept,
        rule,
        loss,
        trajectory=trajectory,
        turn=turn,
        delta=delta,
        aggregate=aggregate,
        column="process_N" if earned else "reward_N",
        measured=_measured(path, config, learner, loss, kept),
    )
    what = "earned by the process in" if earned else "paid for"
    console.print(f"{delta:+g} {what} turn {turn} of {trajectory}:", markup=False, highlight=False)
    show_probe(console, found, name=method, top=top)


def _learner_at(path: Path, config: Config, step: int) -> tuple[Any, str]:
    """A learner with the weights that played ``step``, or else the nearest later ones; and whose they are."""
    from turngate.trainer.checkpoint import Checkpoints

    if step == 1:
        return build.build_learner(config, build.load_model(_start(path, config))[0]), "the weights that played it"
    checkpoints = Checkpoints(path / "checkpoints")
    kept = [known for known in checkpoints.steps() if known >= step - 1]
    if kept:
        learner = build.build_learner(config, build.load_model(_start(path, config))[0])
        checkpoints.load(kept[0], learner)
        played = kept[0] == step - 1
        return learner, "the weights that played it" if played else f"the weights after step {kept[0]}"
    if not (path / "model").exists():
        raise StoreError(f"'{path}' holds neither a checkpoint of step {step - 1} or later nor a finished model")
    return build.build_learner(config, build.load_model(str(path / "model"))[0]), "the weights at the end of the run"


def _measured(path: Path, config: Config, learner: Any, loss: Any, groups: Sequence[ScoredGroup]) -> Any:
    """The columns that the loss needs: by the learner itself and by the model that the run began from."""
    from turngate.trainer.learner import measured_for
    from turngate.trainer.pack import pack

    n_turns = sum(len(trajectory.turns) for group in groups for trajectory in group.trajectories)
    batch = pack(groups, np.zeros(n_turns, np.float32))
    reference = build.build_reference(config, build.load_model(_start(path, config))[0]) if config.loss.kl else None
    return measured_for(loss, batch, learner, reference)


def _start(path: Path, config: Config) -> str:
    """The model that the run began from. A control's lies in the run that it belongs to. Raises StoreError."""
    if config.warm_start is None:
        return str(config.model)
    for folder in (path / "warm_start", path.parent.parent / "warm_start"):
        if folder.exists():
            return str(folder)
    raise StoreError(f"'{path}' has no warm_start, so the model that it began from is gone")


def _store(path: Path) -> Store:
    if not (path / "config.toml").exists():
        raise UserError(f"'{path}' is not the folder of a run (it has no config.toml)")
    return Store(path)
