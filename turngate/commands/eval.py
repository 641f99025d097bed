"""``turngate eval``: the unaided success of a model on an environment."""

from __future__ import annotations

import asyncio

from rich.console import Console

from turngate import build
from turngate.config import Config, EnvSection, PolicySection
from turngate.envs.base import TurnEnv
from turngate.errors import StoreError
from turngate.types import JSON, derive_seed


def evaluate_model(
    console: Console,
    model_name: str,
    *,
    env_id: str,
    kwargs: dict[str, JSON],
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
    from turngate.trainer.evaluate import Evaluation, evaluate

    async def go(env: TurnEnv) -> Evaluation:
        tasks = build.heldout(env, split, n_tasks)
        model, tokenizer = build.load_model(model_name)
        config = Config.model_construct(policy=PolicySection(turn_tokens=turn_tokens, context=context))
        player = build.build_player(config, model, Chat(tokenizer), temperature=temperature)
        async with build.build_pool(section, config.policy.lanes) as worlds:
            score = env.turn_spec.rubric.score_group  # type: ignore[attr-defined]
            result, _ = await evaluate(
                player, worlds, score, tasks, split=split, samples=samples, seed=derive_seed(seed, "eval")
            )
            return result

    with build.build_env(section) as env:
        result = asyncio.run(go(env))
    n, successes = len(result.success_B), sum(result.success_B)
    if not n:
        raise StoreError(f"none of the {result.unusable} episodes could be used")
    low, high = wilson(successes, n)
    console.print(
        f"{env_id} {split}, temperature {temperature:g}: {successes} of {n} solved unaided = {successes / n:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}); {result.unusable} unusable",
        highlight=False,
    )
