"""Does an episode fit into ``policy.context``? Measured on a few tasks before any work.

An episode that does not fit ends without an error, so a run with too small a context would learn nothing in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from turngate.agents.chat import Chat
from turngate.agents.rollout import TokenLimits, Worlds
from turngate.envs.base import TurnEnv
from turngate.errors import ConfigError, EpisodeError
from turngate.run.environments import Environments
from turngate.types import Ending, IntArray, Task, Trajectory

SAMPLED = 4  # tasks of each environment whose first prompt is measured


async def check_room(
    environments: Environments,
    worlds: Worlds,
    chat: Chat,
    limits: TokenLimits,
    *,
    split: str | None = None,
    hinted: bool = False,
) -> None:
    """Raise ConfigError if the first prompts of an environment leave no room for a turn; it says how much they need.

    ``split`` is the split whose tasks are measured, by default the one that is trained on. ``hinted``: each prompt with
    its longest hint.
    """
    for label, section in environments.sections.items():
        tasks = environments.heldout(label, split or section.split, SAMPLED)
        hints = [_longest_hint(environments.of(task), task) if hinted else "" for task in tasks]
        asked = zip(tasks, hints, strict=True)
        found = await asyncio.gather(*(first_prompt(worlds, chat, task, hint) for task, hint in asked))
        lengths = [len(ids) for ids in found if ids is not None]
        if not lengths or min(lengths) + limits.turn_tokens <= limits.context:
            continue
        helped = " with their longest hints" if any(hints) else ""
        raise ConfigError(
            f"policy.context {limits.context} has no room for a turn of '{label}': the first prompts of {len(lengths)} "
            f"tasks{helped} have {min(lengths)} to {max(lengths)} tokens, and a turn up to {limits.turn_tokens} "
            f"(policy.turn_tokens); set policy.context to more than {max(lengths) + limits.turn_tokens}, as further "
            "turns need room too"
        )


def no_room(played: Sequence[Trajectory], limits: TokenLimits) -> str:
    """A sentence on how many demonstrations ended because the context was full, and what to do; "" if none did."""
    cut = [trajectory for trajectory in played if trajectory.ending is Ending.TOKEN_BUDGET]
    if not cut:
        return ""
    longest = max(len(trajectory.ids()) for trajectory in cut)
    return (
        f"{len(cut)} of them had no room left in policy.context {limits.context}: after {longest} tokens the next "
        f"observation and a turn of up to {limits.turn_tokens} (policy.turn_tokens) did not fit; raise policy.context"
    )


def _longest_hint(env: TurnEnv, task: Task) -> str:
    levels = range(1, env.turn_spec.hint_levels + 1)
    return max((env.hint(task, level) or "" for level in levels), key=len, default="")


async def first_prompt(worlds: Worlds, chat: Chat, task: Task, hint: str = "") -> IntArray | None:
    """The ids of the first prompt with a hint; None if the environment breaks, which is reported when it is played."""
    with suppress(EpisodeError):
        async with worlds.lease(task) as world:
            observation, info = await world.reset(task, 0, chat.tool_format)
        text = f"{observation.text}\n{hint}" if hint else observation.text
        return chat.frames(info["tools"], task.env_id).opening(text)
    return None
