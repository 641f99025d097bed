"""Rollouts whose tool calls take heavy-tailed times: no barrier against lockstep.

    OMP_NUM_THREADS=1 python -m benchmarks.latency [--episodes 128] [--mean 0.5] [--rounds 3]

Every tool call sleeps for a lognormal time of mean ``--mean`` seconds: σ = 0.5 in episodes of 3 turns, σ = 1.5 in
episodes of 16. The times are drawn from the seed of the episode, so all ways of playing wait for the same ones. Three
ways play the same episodes, all at once, with the same model, policy and pool of environments, in turn:

* ``ready``: ``Player.play`` with ``policy.order = "ready"``: an episode goes on as soon as its tool has answered;
* ``fixed``: the same with ``policy.order = "fixed"``, the default, which repeats bit for bit: it waits for a tool that
  takes longer than the decoding of a token, while whatever rejoined before decodes;
* ``lockstep``: a barrier per turn over all episodes: all tools have answered before any turn is sampled. It keeps no
  record of the episodes, which is work that it is spared.

The limit of the ratio is that of the waiting times alone: Σ over turns of the longest call, over the longest episode.
Prints JSON: the medians of the rounds, their ratios to ``lockstep``, and the load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from turngate.agents.chat import Chat
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Episode, Player, TokenLimits
from turngate.agents.tiny import random_model, train_tokenizer
from turngate.envs.base import Outcome
from turngate.envs.lock import LockEnv, LockTasks
from turngate.envs.pool.pool import EnvPool
from turngate.types import Action, Observation, Request, Task, Turn, derive_seed

SHAPES = {"sigma 0.5, 3 turns": (0.5, 3), "sigma 1.5, 16 turns": (1.5, 16)}
WAYS = ("lockstep", "ready", "fixed")
TURN_TOKENS = 4
MODEL = {"layers": 1, "width": 32, "heads": 2}  # decoding is cheap: what is compared is waiting


def naps(rng: np.random.Generator, sigma: float, turns: int, mean_s: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How long each tool call of an episode takes, in seconds: float64[turns], lognormal with this mean."""
    return rng.lognormal(math.log(mean_s) - sigma**2 / 2, sigma, size=turns)


class SlowTools(LockEnv):
    """Sleeps in each step, for a time that the seed of the episode decides, and has a thread of its own."""

    turn_spec = replace(LockEnv.turn_spec, any_thread=False, deadline_s=600.0)

    def __init__(self, *, sigma: float, turns: int, mean_s: float) -> None:
        super().__init__(tasks=LockTasks(turns), max_turns=turns)
        self._sigma, self._turns, self._mean_s = sigma, turns, mean_s

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Draw the times of all calls."""
        self._naps = iter(naps(rng, self._sigma, self._turns, self._mean_s))
        return super().start(task, rng)

    def act(self, action: Action) -> Outcome:
        """Take a while."""
        time.sleep(next(self._naps))
        return super().act(action)


@dataclass(frozen=True, kw_only=True)
class Took:
    """What one way of playing took, and what it sampled."""

    wall_s: float
    turns: int
    tokens: int


async def lockstep(player: Player, pool: EnvPool, episodes: Sequence[Episode]) -> tuple[int, int]:
    """Turns and tokens of all episodes, each turn of which begins when all tools have answered."""
    policy, chat = player.policy, player.chat
    n_turns = n_tokens = 0
    async with AsyncExitStack() as stack:
        worlds = [await stack.enter_async_context(pool.lease(one.task)) for one in episodes]
        for _ in episodes:
            await stack.enter_async_context(policy.slot())
        begun = [world.reset(one.task, one.env_seed) for world, one in zip(worlds, episodes, strict=True)]
        contexts = [chat.opening(observation.text) for observation, _ in await asyncio.gather(*begun)]
        live, turn = list(range(len(episodes))), 0
        while live:
            asked = [_request(player, episodes[index], contexts[index], turn) for index in live]
            said = await asyncio.gather(*map(policy.complete, asked))
            steps = [worlds[index].step(one.text) for index, one in zip(live, said, strict=True)]
            answers = await asyncio.gather(*steps)
            n_turns, n_tokens = n_turns + len(live), n_tokens + sum(len(one.ids_K) for one in said)
            going = []
            for index, one, (reply, _, terminated, truncated, _) in zip(live, said, answers, strict=True):
                if not (terminated or truncated):
                    follow_up = chat.follow_up(reply.text, one.ended_by)
                    contexts[index] = np.concatenate([contexts[index], one.ids_K, follow_up])
                    going.append(index)
            live, turn = going, turn + 1
        for episode in episodes:
            policy.release(episode.id)
    return n_turns, n_tokens


def _request(player: Player, episode: Episode, ids: Any, turn: int) -> Request:
    return Request(
        episode=episode.id, task_id=episode.task.id, ids=ids, turn=turn, seed=derive_seed(episode.seed, turn),
        max_tokens=TURN_TOKENS, sampling=player.sampling,
    )  # fmt: skip


async def no_barrier(player: Player, pool: EnvPool, episodes: Sequence[Episode]) -> tuple[int, int]:
    """Turns and tokens of all episodes, as training plays them. Raises RuntimeError for an episode that broke."""
    turns: list[Turn] = []
    for trajectory in await player.play(pool, episodes):
        if not trajectory.ending.usable:
            raise RuntimeError(f"episode '{trajectory.id}' broke: {trajectory.error}")
        turns += trajectory.turns
    return len(turns), sum(len(turn.completion.ids_K) for turn in turns)


async def played(way: str, model: Any, chat: Chat, pool: EnvPool, episodes: Sequence[Episode]) -> Took:
    """One way of playing the episodes."""
    order = "fixed" if way == "fixed" else "ready"
    policy = LocalPolicy(model, chat, concurrency=len(episodes), order=order)
    limits = TokenLimits(turn_tokens=TURN_TOKENS, context=1024, episode_s=3600.0)
    play = lockstep if way == "lockstep" else no_barrier
    start = time.perf_counter()
    turns, tokens = await play(Player(policy, chat, limits), pool, episodes)
    return Took(wall_s=time.perf_counter() - start, turns=turns, tokens=tokens)


async def measured(sigma: float, turns: int, *, n: int, mean_s: float, rounds: int) -> dict[str, Any]:
    """The ways of playing ``n`` episodes, in turn, ``rounds`` times."""
    source = LockTasks(turns)
    tokenizer = train_tokenizer([source.task("train", at).prompt for at in range(64)], vocabulary=300)
    chat = Chat(tokenizer)
    model = random_model(tokenizer, **MODEL, context=1024, seed=0)
    took: dict[str, list[Took]] = {way: [] for way in WAYS}
    limits = []
    async with EnvPool(partial(SlowTools, sigma=sigma, turns=turns, mean_s=mean_s), size=n) as pool:
        for number in range(rounds):
            episodes = [
                Episode(id=f"{number}/{at}", task=source.task("train", at), seed=derive_seed(number, at))
                for at in range(n)
            ]
            for way in WAYS:
                took[way].append(await played(way, model, chat, pool, episodes))
            limits.append(_limit(episodes, sigma, turns, mean_s))
    wall = {way: statistics.median(one.wall_s for one in runs) for way, runs in took.items()}
    ratios = {
        way: statistics.median(a.wall_s / b.wall_s for a, b in zip(took["lockstep"], took[way], strict=True))
        for way in WAYS[1:]
    }
    return {
        "wall_s": wall,
        "lockstep_over": ratios,
        "limit_of_waiting": statistics.median(limits),
        "tokens_and_turns": {way: [(one.tokens, one.turns) for one in runs] for way, runs in took.items()},
    }


def _limit(episodes: Sequence[Episode], sigma: float, turns: int, mean_s: float) -> float:
    """Σ over turns of the longest call, over the longest sum of an episode's calls."""
    env = SlowTools(sigma=sigma, turns=turns, mean_s=mean_s)
    rows = []
    for one in episodes:
        env.reset(seed=one.env_seed, options={"task": one.task})
        rows.append(list(env._naps))
    calls = np.array(rows)
    return float(calls.max(0).sum() / calls.sum(1).max())


def main() -> None:
    """Measure both shapes and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=128, help="episodes, all played at once")
    parser.add_argument("--mean", type=float, default=0.5, help="mean seconds of a tool call")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each way")
    parser.add_argument("--only", choices=SHAPES, help="one shape")
    chosen = parser.parse_args()
    found: dict[str, Any] = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "episodes": chosen.episodes,
        "mean_s": chosen.mean,
        "load_before": os.getloadavg()[0],
    }
    shapes = {chosen.only: SHAPES[chosen.only]} if chosen.only else SHAPES
    for name, (sigma, turns) in shapes.items():
        found[name] = asyncio.run(measured(sigma, turns, n=chosen.episodes, mean_s=chosen.mean, rounds=chosen.rounds))
    print(json.dumps(found | {"load_after": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main()
