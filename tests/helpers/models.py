"""Tiny models, environments and trajectories that the tests of agents and trainer share."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs.lock import COLOURS, KEYS, LockEnv, LockTasks
from turngate.envs.pool.pool import EnvPool
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Observation,
    Sampling,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
)

torch.set_num_threads(int(os.environ.get("TEST_THREADS", "1")))

LIMITS = TokenLimits(turn_tokens=6, context=200)
TEXTS = ["Open the lock: press the key of each colour."]
TEXTS += [f"press {key}" for key in KEYS] + [f"{word} {colour}" for colour in COLOURS for word in ("click", "clunk")]


@cache
def tokenizer():
    return tiny.train_tokenizer(TEXTS * 4, vocabulary=320)


@cache
def chat():
    return Chat(tokenizer())


def plain_model(seed=0):
    """Two layers of width 32, as one would train them."""
    return tiny.random_model(tokenizer(), layers=2, width=32, heads=2, context=256, seed=seed)


def model(seed=0):
    """The same, but the end of a turn is often likely or unlikely, so that turns end in both ways."""
    made = plain_model(seed)
    with torch.no_grad():
        made.get_input_embeddings().weight[chat().eos_id] *= 3
    return made


class ShortLock(LockEnv):
    """Ends after one, two or three turns, as the task has it."""

    def act(self, action):
        outcome = super().act(action)
        return replace(outcome, done=len(self._right) == 1 + COLOURS.index(self._colours[0]) % 3)


def tasks(n, split="train"):
    return [LockTasks().task(split, index) for index in range(n)]


def player(policy, *, limits=LIMITS, **sampling):
    return Player(policy, chat(), limits, sampling=Sampling(**sampling))


def play(policy, *, make_env=ShortLock, n_tasks=4, siblings=3, limits=LIMITS, seed=1, most_s=200, **sampling):
    """Trajectories of ``n_tasks`` groups, end to end."""

    async def go():
        async with EnvPool(make_env, size=policy.concurrency) as pool:
            who = player(policy, limits=limits, **sampling)
            groups = await play_groups(who, pool, tasks(n_tasks), [[None] * siblings] * n_tasks, seed=seed)
        return [trajectory for group in groups for trajectory in group.trajectories]

    return asyncio.run(asyncio.wait_for(go(), most_s))


def local(source=None, *, concurrency=5, order="fixed"):
    return LocalPolicy(source if source is not None else model(), chat(), concurrency=concurrency, order=order)


def learner(source=None, *, lr=1e-3, **settings):
    """A learner on ``source``; temperature, top_p and top_k among the settings are the sampler's."""
    sampling = {name: settings.pop(name) for name in ("temperature", "top_p", "top_k") if name in settings}
    return TorchLearner(source if source is not None else model(), lr=lr, sampling=Sampling(**sampling), **settings)


@torch.no_grad()
def naive_logprobs(source, ids, temperature=1.0):
    """One plain forward pass: log-probability of every id given those before it, float32[L]; 0 for the first."""
    logits = source(torch.as_tensor(np.asarray(ids), dtype=torch.long)[None]).logits[0].float() / temperature
    logprobs = torch.log_softmax(logits[:-1], -1)
    chosen = torch.as_tensor(np.asarray(ids)[1:], dtype=torch.long)
    return np.concatenate([[0.0], logprobs.gather(1, chosen[:, None])[:, 0].numpy()]).astype(np.float32)


def turn(context: Sequence[int], said: Sequence[int], *, logprobs=None, source=None, text="") -> Turn:
    marks = [Source.CONTEXT] * len(context) + [Source.POLICY] * len(said) if source is None else source
    return Turn(
        observation=Observation(text=text, state_key="s"),
        context_ids=np.asarray(context, np.int32),
        completion=Completion(
            ids_K=np.asarray(said, np.int32),
            logprobs_K=np.asarray(np.zeros(len(said)) if logprobs is None else logprobs, np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
        ),
        source=np.asarray(marks, np.uint8),
        action=Action(text=""),
    )


def trajectory(turns: Sequence[Turn], *, name="t", task="task", ending=Ending.FINISHED) -> Trajectory:
    return Trajectory(id=name, task=Task(id=task, env_id="e", prompt=""), turns=tuple(turns), ending=ending, seed=0)


def score(n_turns: int, total: float, *, usable=True) -> Score:
    """A score that pays ``total`` on the last turn, without a ledger."""
    reward_T = np.zeros(n_turns, np.float32)
    reward_T[-1:] = total
    return Score(ledger=(), reward_T=reward_T, outcome=total if usable else None, usable=usable)


def scored(trajectories: Sequence[Trajectory], totals: Sequence[float] | None = None) -> ScoredGroup:
    paid = totals if totals is not None else [0.0] * len(trajectories)
    scores = tuple(score(len(t.turns), total) for t, total in zip(trajectories, paid, strict=True))
    return ScoredGroup(task=trajectories[0].task, trajectories=tuple(trajectories), scores=scores)


def random_trajectories(rng: np.random.Generator, n=5, *, vocabulary=300) -> list[Trajectory]:
    """One task; one to three turns of random ids each."""
    return [
        trajectory(
            [
                turn(
                    rng.integers(vocabulary, size=rng.integers(1, 6)),
                    said := rng.integers(vocabulary, size=rng.integers(1, 5)),
                    logprobs=-rng.random(len(said)),
                )
                for _ in range(rng.integers(1, 4))
            ],
            name=f"t{index}",
        )
        for index in range(n)
    ]
