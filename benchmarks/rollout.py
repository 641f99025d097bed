"""Speed of everything that a rollout is made of:

    python -m benchmarks.rollout [--model FOLDER] [--seconds 3] [--rounds 3]

1. environment steps/s of ``Sql-v1`` on one thread without a model, 50 kB database. Limit: SQLite itself (see below);
2. sampled tokens/s of ``LocalPolicy`` and of ``model.generate`` on the same model and the same four-turn episodes, in
   turn, as a ratio of wall times and of CPU times (steadier beside other work). ``generate`` gets every advantage that
   its interface allows: all episodes of a turn in one call over their whole contexts, left padding, its own key-value
   cache within the call, scaled-dot-product attention (eager attention, a static cache and inference mode were not
   faster), and no log-probabilities asked for. Weights are random, so nearly all turns use their whole budget: nobody
   in the batch of ``generate`` waits for the longest. Limit: memory bandwidth of reading caches per decoded token;
3. the share of a rollout's wall time that is neither model nor environment.

Without ``--model`` two Qwen3 architectures with random weights are used: a small one, and the demo's as
``examples/sql_demo.toml`` has it. Prints JSON.
"""

import argparse
import asyncio
import json
import statistics
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.sql_env import steps_per_second
from turngate.agents.chat import Chat
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.agents.tiny import load, random_model, train_tokenizer
from turngate.config.sections import EnvSection
from turngate.envs.pool.pool import EnvPool
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.sources import GeneratedSql
from turngate.run.environments import Environments
from turngate.run.start.demonstrations import Demonstrations, texts_of
from turngate.types import Request

EPISODES, TURNS, TURN_TOKENS = 64, 4, 32
TASKS = GeneratedSql(families=("library", "shop", "school", "football"), max_level=2)
SETTINGS: dict[str, Any] = {"tasks": TASKS, "max_rows": 3}


SMALL: dict[str, int] = {"layers": 4, "width": 128, "heads": 4, "vocabulary": 1500}
DEMO: dict[str, int] = tomllib.loads(Path("examples/sql_demo.toml").read_text(encoding="utf-8"))["model"]


def random_pair(layers: int, width: int, heads: int, vocabulary: int) -> tuple[Any, Any]:
    """A model with random weights and a tokenizer trained on the environment's text."""
    name = "turngate/Sql-v1"
    with Environments((EnvSection(id=name, kwargs=SETTINGS),)) as environments:
        tasks = environments.heldout(name, "train", 1000)
        lines = {task.id: list(environments[name].oracle(task)) for task in tasks}

        async def texts() -> list[str]:
            async with environments.worlds(8) as worlds:
                return await texts_of(Demonstrations(tasks=tasks, lines=lines), worlds)

        tokenizer = train_tokenizer(asyncio.run(texts()), vocabulary=vocabulary)
    return random_model(tokenizer, layers=layers, width=width, heads=heads, context=1024, seed=0), tokenizer


def episodes(chat: Chat) -> list[tuple[Any, list[Any]]]:
    """What each episode reads: its opening and the observations between its turns, as recorded from the oracle."""
    env = SqlEnv(**SETTINGS)
    script = []
    for index in range(EPISODES):
        task = env.tasks.task("heldout", index // 8)  # groups of eight siblings, as in training
        observation, _ = env.reset(seed=0, options={"task": task})
        replies = [env.step(action)[0].text for action in env.oracle(task)][: TURNS - 1]
        script.append((chat.opening(observation.text), replies))
    return script


async def ours(policy: LocalPolicy, chat: Chat, script: list[tuple[Any, list[Any]]], seed: int) -> int:
    """Sampled tokens of all episodes through ``LocalPolicy``."""

    async def play(number: int) -> int:
        ids, replies = script[number]
        count = 0
        async with policy.slot():
            for turn in range(TURNS):
                request = Request(
                    episode=str(number), task_id="", ids=ids, turn=turn, seed=seed + number * TURNS + turn,
                    max_tokens=TURN_TOKENS,
                )  # fmt: skip
                completion = await policy.complete(request)
                count += len(completion.ids_K)
                if turn < len(replies):
                    ids = np.concatenate([ids, completion.ids_K, chat.follow_up(replies[turn], completion.ended_by)])
            policy.release(str(number))
        return count

    return sum(await asyncio.gather(*[play(number) for number in range(len(script))]))


@torch.no_grad()
def theirs(model: Any, chat: Chat, script: list[tuple[Any, list[Any]]]) -> int:
    """Sampled tokens of all episodes, one ``generate`` call per turn for all of them (left padding)."""
    contexts = [ids for ids, _ in script]
    count = 0
    for turn in range(TURNS):
        width = max(map(len, contexts))
        ids = torch.full((len(contexts), width), chat.eos_id)
        mask = torch.zeros((len(contexts), width), dtype=torch.long)
        for row, context in enumerate(contexts):
            ids[row, width - len(context) :] = torch.as_tensor(context)
            mask[row, width - len(context) :] = 1
        output = model.generate(
            ids, attention_mask=mask, max_new_tokens=TURN_TOKENS, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            pad_token_id=chat.eos_id, eos_token_id=chat.eos_id,
        )  # fmt: skip
        for row, (_, replies) in enumerate(script):
            said = output[row, width:].numpy().astype(np.int32)
            ends = np.flatnonzero(said == chat.eos_id)
            said = said[: ends[0] + 1] if len(ends) else said
            count += len(said)
            if turn < len(replies):
                closing = [] if len(ends) else [chat.eos_id]
                follow = chat.follow_up(replies[turn], "stop")  # type: ignore[arg-type]
                contexts[row] = np.concatenate([contexts[row], said, closing, follow]).astype(np.int32)
    return count


def tokens_per_second(model: Any, tokenizer: Any, rounds: int) -> dict[str, float]:
    """Both ways in turn; medians and the median of the ratios."""
    chat = Chat(tokenizer)
    script = episodes(chat)
    policy = LocalPolicy(model, chat, concurrency=EPISODES)
    rates: dict[str, list[float]] = {"ours": [], "generate": []}
    cpu_ratios = []
    for number in range(rounds + 1):
        start = _clocks()
        count = asyncio.run(ours(policy, chat, script, seed=number * 10_000))
        middle = _clocks()
        torch.manual_seed(number)
        other = theirs(model, chat, script)
        end = _clocks()
        if number:  # the first round warms up
            rates["ours"].append(count / (middle[0] - start[0]))
            rates["generate"].append(other / (end[0] - middle[0]))
            cpu_ratios.append(count / (middle[1] - start[1]) / (other / (end[1] - middle[1])))
    ratios = [a / b for a, b in zip(rates["ours"], rates["generate"], strict=True)]
    return {
        "local_policy_tokens_per_s": statistics.median(rates["ours"]),
        "generate_tokens_per_s": statistics.median(rates["generate"]),
        "ratio": statistics.median(ratios),
        "lowest_ratio": min(ratios),
        "cpu_ratio": statistics.median(cpu_ratios),
        "lowest_cpu_ratio": min(cpu_ratios),
    }


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


class _Timed(LocalPolicy):
    """Counts the seconds inside the model: forward pass, logits and the choice of tokens."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_s = 0.0
        go_on = self._forward
        self._forward: Any = lambda feeds: self._count(go_on, feeds)

    def _logits(self, *args: Any) -> Any:
        return self._count(super()._logits, *args)

    def _draw(self, *args: Any) -> Any:
        return self._count(super()._draw, *args)

    def _count(self, call: Any, *args: Any) -> Any:
        start_s = time.perf_counter()
        result = call(*args)
        self.model_s += time.perf_counter() - start_s
        return result


def time_shares(model: Any, tokenizer: Any) -> dict[str, float]:
    """Where the wall time of a real rollout on ``Sql-v1`` goes."""
    chat = Chat(tokenizer)
    env = SqlEnv(**SETTINGS)
    policy = _Timed(model, chat, concurrency=128)
    player = Player(policy, chat, TokenLimits(turn_tokens=TURN_TOKENS, context=1024))
    tasks = [env.tasks.task("heldout", index) for index in range(16)]

    async def play() -> tuple[float, float]:
        async with EnvPool(lambda: SqlEnv(**SETTINGS), size=128) as worlds:
            for seed in (1, 2):  # the first fills the pool
                policy.model_s, before_s, start_s = 0.0, worlds.env_time_s, time.perf_counter()
                await play_groups(player, worlds, tasks, [[None] * 8] * 16, seed=seed)
            return time.perf_counter() - start_s, worlds.env_time_s - before_s

    wall_s, env_s = asyncio.run(play())
    return {
        "wall_s": wall_s,
        "model_share": policy.model_s / wall_s,
        "environment_share": env_s / wall_s,
        "neither_share": max(0.0, 1 - (policy.model_s + env_s) / wall_s),
    }


def main() -> None:
    """Run all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="a model folder, for instance runs/sql-demo/model")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.model:
        pairs = {options.model: load(options.model)}
    else:
        pairs = {"small": random_pair(**SMALL), "demo": random_pair(**DEMO)}
    result: dict[str, Any] = {
        "environment": steps_per_second(options.seconds),
        "torch_threads": torch.get_num_threads(),
    }
    for name, (model, tokenizer) in pairs.items():
        tokens = tokens_per_second(model.eval(), tokenizer, options.rounds)
        result[name] = {"tokens": tokens, "time": time_shares(model, tokenizer)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
