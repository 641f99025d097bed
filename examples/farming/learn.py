"""One run: a warm start on mixed behaviour, then reinforcement learning under one rubric.

Everything follows from the seed. Runs of one seed share the model, the demonstrations, the tasks and the randomness of
sampling, so until the first update they are the same run; afterwards only the rubric differs.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

from examples.farming.env import LOOK, MAX_TURNS, RUBRICS, HackableLockEnv, HackableLockTasks
from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs.lock import COLOURS, KEYS, colours_of, key_of
from turngate.envs.pool.pool import EnvPool
from turngate.errors import RunError
from turngate.report.episodes import PlayedEvaluation
from turngate.trainer.checks.monitoring import Watch
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.filters.parts import varied
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.imitate import Imitation, imitate
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.run import Run
from turngate.trainer.step import train_step
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Metrics, ScoredGroup, Task, derive_seed

TASKS, SIBLINGS = 16, 8  # of one update
DEMONSTRATIONS, HELDOUT = 200, 128
LOOKS, RIGHT = 0.25, 0.8  # shown: how often a look, and how often a key is the right one
LANES = 128
LIMITS = TokenLimits(turn_tokens=4, context=240)


class Point(NamedTuple):
    """Means over the episodes of one update, or of an evaluation. ``update``: how many came before.

    ``alarms`` are those that the monitors raised, in training only.
    """

    rubric: str
    seed: int
    split: str
    update: int
    episodes: int
    success: float
    looks: float
    turns: float
    paid: float
    alarms: str = ""


@dataclass(kw_only=True)
class Log:
    """What is kept of a run, its evaluations in ``played``. The monitors look at every update; their alarms stand in
    the point, by name."""

    rubric: str
    seed: int
    points: list[Point] = field(default_factory=list)
    played: list[PlayedEvaluation] = field(default_factory=list)
    _monitors: Watch = field(default_factory=Watch)

    def add(self, split: str, update: int, scored: Sequence[ScoredGroup], alarms: Sequence[str] = ()) -> None:
        """Keep the means of these episodes. Raises RunError for an episode that cannot be used."""
        self.points.append(Point(self.rubric, self.seed, split, update, *means(scored), " ".join(alarms)))

    def watch(self, step: int, scored: Sequence[ScoredGroup], metrics: Metrics) -> Metrics:
        """The episodes of an update, played before it, and what the monitors say about them."""
        seen = self._monitors(step, scored, metrics)
        found = [name for name, value in seen.items() if name.endswith("_alarm") and value]
        alarms = sorted(name.removeprefix("monitor/").removesuffix("_alarm") for name in found)
        self.add("train", step - 1, scored, alarms)
        return seen


class Forget:
    """Stands where a store would: nothing is kept."""

    def write(self, step: int, scored: Sequence[ScoredGroup]) -> None:
        """Nothing."""

    def write_credit(self, step: int, found: object) -> None:
        """Nothing."""


def means(scored: Sequence[ScoredGroup]) -> tuple[int, float, float, float, float]:
    """Episodes, and per episode: success, looks, turns, paid. Raises RunError for an episode that cannot be used."""
    episodes = [pair for group in scored for pair in zip(group.trajectories, group.scores, strict=True)]
    for trajectory, score in episodes:
        if not score.usable:
            raise RunError(f"episode '{trajectory.id}' cannot be used: {trajectory.error or score.problem}")
    return (
        len(episodes),
        fmean(score.outcome or 0.0 for _, score in episodes),
        fmean(sum(fact.name == "looked" and fact.value is True for fact in t.record().evidence) for t, _ in episodes),
        fmean(len(trajectory.turns) for trajectory, _ in episodes),
        fmean(score.total for _, score in episodes),
    )


def learn(rubric: str, seed: int, *, updates: int) -> Log:
    """Warm start, evaluation on held-out tasks, ``updates`` updates under ``rubric``, evaluation."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    chat = Chat(tiny.train_tokenizer(texts() * 4, vocabulary=320))
    return asyncio.run(_learn(rubric, seed, updates, chat))


async def _learn(rubric: str, seed: int, updates: int, chat: Chat) -> Log:
    log = Log(rubric=rubric, seed=seed)
    async with EnvPool(HackableLockEnv, size=LANES) as worlds:
        model = await warm_start(chat, worlds, seed)
        run = assemble(model, chat, worlds, log)
        await _evaluate(run, log, 0)
        for step in range(1, updates + 1):
            await train_step(run, tasks("train", DEMONSTRATIONS + step * TASKS, TASKS), step)
        await _evaluate(run, log, updates)
    return log


async def _evaluate(run: Run, log: Log, update: int) -> None:
    """Sampled and unaided, like training."""
    asked, seed = tasks("heldout", 0, HELDOUT), derive_seed(log.seed, "heldout", update)
    found, played = await evaluate(run.player, run.worlds, run.score, asked, split="heldout", samples=1, seed=seed)
    log.add("heldout", update, played)
    log.played.append(PlayedEvaluation(log.rubric, log.seed, "after" if update else "before", found))


def assemble(model: Any, chat: Chat, worlds: EnvPool, log: Log) -> Run:
    """A training run under the rubric of ``log``; its other settings are those with which the suite trains Lock-v1.

    RLOO compares whole trajectories. It fits both rubrics: behind a gate on the outcome, what a turn is paid depends on
    later turns, which credit "from here on" would leave out.
    """
    learner = TorchLearner(model, lr=3e-3)
    sampler = LocalPolicy(copy.deepcopy(model), chat, concurrency=LANES)
    return Run(
        player=Player(sampler, chat, LIMITS),
        worlds=worlds,
        score=RUBRICS[log.rubric].score_group,
        guide=NoGuide(),
        credit=rloo,
        filters={"varied": varied},
        learner=learner,
        loss=PolicyLoss(),
        store=Forget(),
        group_size=SIBLINGS,
        minibatches=1,
        aggregate="token",
        tolerance=1e-4,
        seed=log.seed,
        watch=log.watch,
    )


# --- where it starts -------------------------------------------------------------------------------------------------


async def warm_start(chat: Chat, worlds: EnvPool, seed: int) -> Any:
    """A model that imitates ``mixed_behaviour``; good and bad demonstrations alike."""
    model = tiny.random_model(chat.tokenizer, layers=2, width=32, heads=2, context=256, seed=derive_seed(seed, "model"))
    shown = tasks("train", 0, DEMONSTRATIONS)
    policy = ScriptedPolicy(by_task({task.id: mixed_behaviour(task, seed) for task in shown}), chat, concurrency=LANES)
    groups = await play_groups(Player(policy, chat, LIMITS), worlds, shown, [[None]] * len(shown), seed=seed)
    played = [trajectory for group in groups for trajectory in group.trajectories]
    passes = Imitation(
        TorchLearner(model, lr=1e-2), PolicyLoss(), played, episodes_per_batch=16, seed=derive_seed(seed, "imitate")
    )
    imitate(passes, epochs=6)
    return model


def mixed_behaviour(task: Task, seed: int) -> list[str]:
    """A line for every turn: a look with probability ``LOOKS``, else the right key with probability ``RIGHT``."""
    rng = np.random.default_rng(derive_seed(seed, "shown", task.id))
    right = [key_of(colour) for colour in colours_of(task)]
    lines: list[str] = []
    while right and len(lines) < MAX_TURNS:
        if rng.random() < LOOKS:
            lines.append(LOOK)
            continue
        key = right.pop(0)
        others = [other for other in KEYS if other != key]
        lines.append(f"press {key if rng.random() < RIGHT else rng.choice(others)}")
    return lines


def tasks(split: str, first: int, n: int) -> list[Task]:
    """``n`` tasks of a split from number ``first`` on."""
    return [HackableLockTasks().task(split, first + index) for index in range(n)]


def texts() -> list[str]:
    """What is read and written in this environment, for the tokenizer."""
    replies = [f"{word} {colour}" for colour in COLOURS for word in ("click", "clunk", "it shows")]
    return [*{task.prompt for task in tasks("train", 0, 1)}, LOOK, *(f"press {key}" for key in KEYS), *replies]
