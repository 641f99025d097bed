"""The model that reinforcement learning begins from: the one that the config names, or one after a warm start."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from rich.console import Console

from turngate.agents.chat import Chat
from turngate.agents.policies.base import Weights
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.agents.rollout import Player, TokenLimits, Worlds, play_groups
from turngate.config.run_config import Config
from turngate.errors import RunError
from turngate.progress_bar import Progress
from turngate.run.assembly.models import load_model, new_model, save_model
from turngate.run.checks.context_fit import check_room, no_room
from turngate.run.environments import Environments
from turngate.run.start.demonstrations import Demonstrations, demonstrations, texts_of
from turngate.run.start.examples import with_examples
from turngate.run.validation import trying
from turngate.store.folder import RunFolder
from turngate.tools.read import rewritten
from turngate.trainer.checks import learner_output as learner_answers
from turngate.trainer.evaluation.validation_passes import write_passes
from turngate.trainer.guidance.results import is_solved
from turngate.trainer.imitate import Imitation, imitate
from turngate.trainer.learner import Learner
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.types import FAULT, Ending, Guidance, Metrics, Score, Trajectory, derive_seed

RISE = 1.1
"""A batch differs from the next by less than this factor; a cross-entropy that rises further has got worse."""


async def starting_model(
    config: Config, environments: Environments, worlds: Worlds, folder: RunFolder, console: Console
) -> tuple[LanguageModel, Chat]:
    """Model and chat format to begin from. A warm start is made once; ``folder`` keeps the model.

    Raises ConfigError if ``policy.context`` has no room for an episode.
    """
    if config.warm_start is None:
        model, tokenizer = load_model(str(config.model))
        chat = await with_examples(config, environments, worlds, config.policy.chat(model, tokenizer))
        await check_room(environments, worlds, chat, config.policy.limits(), hinted="hints" in config.guide.needs)
        return model, chat
    if not folder.warm_start.exists():
        await _make(config, environments, worlds, folder, console)
    model, tokenizer = load_model(str(folder.warm_start))
    return model, await with_examples(config, environments, worlds, config.policy.chat(model, tokenizer))


async def _make(
    config: Config, environments: Environments, worlds: Worlds, folder: RunFolder, console: Console
) -> None:
    """Train the model of the warm start and write it into the folder."""
    assert config.warm_start is not None
    if isinstance(config.model, str):
        what = f"adapters of rank {config.adapter_rank}" if config.imitates_adapters else "all weights"
        rates = ", ".join(dict.fromkeys(f"{lr:g}" for lr, _ in config.warm_start.grid(config.imitation_lr)))
        _say(console, f"the warm start trains {what}, lr {rates}")
    shown = demonstrations(environments, config.warm_start)
    model, tokenizer = await untrained(config, shown, worlds)
    chat = await with_examples(config, environments, worlds, config.policy.chat(model, tokenizer))
    await check_room(environments, worlds, chat, config.policy.limits(), hinted="hints" in config.guide.needs)
    solved = await _played(config, environments, worlds, shown, chat, console)
    if config.warm_start.validation is not None:
        weights = await _converged(config, environments, worlds, model, chat, solved, folder, console)
    else:
        weights = await _imitated(config, model, solved, console)
    save_model(model, tokenizer, folder.warm_start, weights)


async def _imitated(config: Config, model: LanguageModel, solved: Sequence[Trajectory], console: Console) -> Weights:
    """The weights after the configured number of passes."""
    section = config.warm_start
    assert section is not None
    ((lr, episodes_per_batch),) = section.grid(config.imitation_lr)
    learner = learner_answers.imitating(config.learner, model, lr=lr, adapters=config.imitates_adapters)
    with Progress(console, "warm start") as progress:
        passes = _passes(config, learner, solved, episodes_per_batch, progress)
        imitate(passes, epochs=section.epochs)
    _warn_of_rise(console, passes.start, passes.passes[-1], lr)
    return learner.weights()


def _warn_of_rise(console: Console, before: float, after: float, lr: float) -> None:
    """Say where imitation made the model worse at the very texts that it imitates."""
    if after > RISE * before + 0.1:
        _say(
            console,
            f"warning: the warm start raised the cross-entropy of its demonstrations from {before:.2f} to {after:.2f} "
            f"nats per token: the learning rate {lr:g} is too high for this model. Lower warm_start.lr; pretrained "
            "weights take 1e-5 to 1e-4, their adapters ten times as much, and random weights 1e-3",
        )


async def _converged(
    config: Config,
    environments: Environments,
    worlds: Worlds,
    model: LanguageModel,
    chat: Chat,
    solved: Sequence[Trajectory],
    folder: RunFolder,
    console: Console,
) -> Weights:
    """The best weights on validation tasks, of all pairs of learning rate and batch size."""
    assert config.warm_start is not None
    grid = []
    with Progress(console, "warm start") as progress:
        async with trying(config, environments, worlds, model, chat, folder=folder, progress=progress) as trial:
            for lr, episodes_per_batch in config.warm_start.grid(config.imitation_lr):
                adapters = config.imitates_adapters
                learner = learner_answers.imitating(config.learner, copy.deepcopy(model), lr=lr, adapters=adapters)
                passes = _passes(config, learner, solved, episodes_per_batch, progress)
                grid.append(await trial.converge(passes, lr=lr, episodes_per_batch=episodes_per_batch))
                _warn_of_rise(console, passes.start, min(passes.passes[1:], default=passes.start), lr)
    record = trial.record(len(solved), grid)
    write_passes(folder, record)
    _say(console, record.line)
    assert trial.best is not None
    return trial.best


def _passes(
    config: Config, learner: Learner, solved: Sequence[Trajectory], episodes_per_batch: int, progress: Progress
) -> Imitation:
    """Passes over the demonstrations in an order that is the same for every learning rate."""
    assert config.warm_start is not None
    per_pass = math.ceil(len(solved) / episodes_per_batch)
    most = per_pass * config.warm_start.epochs

    def report(step: int, metrics: Metrics) -> None:
        progress.update(min(step, most), most, f"cross-entropy {metrics['loss/imitation']:.3f} nats/token")

    return Imitation(
        learner,
        PolicyLoss(),
        solved,
        episodes_per_batch=episodes_per_batch,
        seed=derive_seed(config.seed, "imitate"),
        report=report,
    )


async def _played(
    config: Config, environments: Environments, worlds: Worlds, shown: Demonstrations, chat: Chat, console: Console
) -> list[Trajectory]:
    """Play the demonstrations; returns those that solve their task. Raises RunError if none does."""
    limits = config.policy.limits()
    spoken = {
        task.id: [
            rewritten(line, environments[task.env_id].turn_spec.tools, chat.tool_format)
            for line in shown.lines[task.id]
        ]
        for task in shown.tasks
    }
    player = Player(ScriptedPolicy(by_task(spoken), chat, concurrency=config.policy.concurrency), chat, limits)
    seed = derive_seed(config.seed, "demonstrations")
    plans = [[_shown(shown.hints[task.id]) if task.id in shown.hints else None] for task in shown.tasks]
    groups = await play_groups(player, worlds, shown.tasks, plans, seed=seed)
    played = [trajectory for group in groups for trajectory in group.trajectories]
    examined = {name for examiner in config.examine for name in examiner.writes}
    scored = [environments.score_demonstration(group, examined) for group in groups]
    return _solved(played, [score for group in scored for score in group.scores], shown.failed, limits, console)


def _shown(hint: str) -> Guidance:
    """A hint that a demonstration follows, so that the model learns what hints are for."""
    return Guidance(kind="shown", level=0, text=hint, source="demonstration")


async def untrained(config: Config, shown: Demonstrations, worlds: Worlds) -> tuple[LanguageModel, Tokenizer]:
    """The model before the warm start: the one that is named, or a new one with the demonstrations' vocabulary.

    Raises RunError if no demonstration can be used.
    """
    if not shown.tasks:
        raise RunError(f"none of {len(shown.failed)} demonstrations can be used: {shown.failed[0]}")
    if isinstance(config.model, str):
        return load_model(config.model)
    texts, seed = await texts_of(shown, worlds), derive_seed(config.seed, "model")
    return new_model(config.model, texts, context=config.policy.context, seed=seed)


def _solved(
    played: Sequence[Trajectory], scores: Sequence[Score], failed: Sequence[str], limits: TokenLimits, console: Console
) -> list[Trajectory]:
    """The demonstrations that solve their task, which are imitated; prints how many of the others there are and why.

    ``failed`` has a line for each demonstration that could not even be played. Raises RunError if none is left.
    """
    pairs = list(zip(played, scores, strict=True))
    solved = [t for t, s in pairs if is_solved(s)]
    n = len(played) + len(failed)
    broken = [*failed, *(_why(t, s) for t, s in pairs if not s.usable or t.ending is Ending.AGENT_FAULT)]
    full = no_room(played, limits)
    cut = f"; {full}" if full else ""
    if not solved:
        problem = f"{broken[0]}{cut}" if broken else full or "none of them solves its task"
        raise RunError(f"none of {n} demonstrations can be used: {problem}")
    if broken:
        _say(console, f"{len(broken)} of {n} demonstrations broke and are left out; the first: {broken[0]}")
    if unsolved := n - len(solved) - len(broken):
        _say(console, f"{unsolved} of {n} demonstrations do not solve their task{cut}")
    return solved


def _why(trajectory: Trajectory, score: Score) -> str:
    faults = [str(fact.value) for fact in trajectory.evidence if fact.name == FAULT]
    return f"task '{trajectory.task.id}': {trajectory.error or next(iter(faults), score.problem)}"


def _say(console: Console, line: str) -> None:
    console.print(" ".join(line.split()), markup=False, highlight=False, soft_wrap=True)
