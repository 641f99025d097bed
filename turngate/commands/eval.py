"""``turngate eval``: the unaided success of a model on an environment."""

from __future__ import annotations

import asyncio

from rich.console import Console

from turngate.agents.policies.parts import LocalPolicyPart
from turngate.config import EnvSection
from turngate.errors import StoreError
from turngate.run.environments import Environments
from turngate.run.models import load_model
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
    from turngate.agents.chat import Chat
    from turngate.report.tables import wilson
    from turngate.trainer.evaluate import Evaluation, evaluate

    environments = Environments((EnvSection(id=env_id, kwargs=kwargs),), trained=False)

    async def go() -> Evaluation:
        tasks = environments.heldout(env_id, split, n_tasks)
        model, tokenizer = load_model(model_name)
        policy = LocalPolicyPart(turn_tokens=turn_tokens, context=context, temperature=temperature or 1.0)
        player = policy.player(model, Chat(tokenizer))
        if not temperature:
            player = player.greedy()
        async with environments.worlds(policy.lanes) as worlds:
            result, _ = await evaluate(
                player,
                worlds,
                environments.score,
                tasks,
                split=split,
                samples=samples,
                seed=derive_seed(seed, "eval"),
            )
            return result

    with environments:
        result = asyncio.run(go())
    n, successes = len(result.success_B), sum(result.success_B)
    if not n:
        raise StoreError(f"none of the {result.unusable} episodes could be used")
    low, high = wilson(successes, n)
    console.print(
        f"{env_id} {split}, temperature {temperature:g}: {successes} of {n} solved unaided = {successes / n:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}); {result.unusable} unusable, with them as failures "
        f"{successes} of {n + result.unusable} = {result.rate_of_all:.1%}",
        highlight=False,
    )
