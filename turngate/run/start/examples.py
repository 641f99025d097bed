"""``policy.examples``: solved episodes of training tasks, which the policy is shown before each of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from turngate.agents.chat import Chat, TextChat
from turngate.agents.few_shot import Example, example_of
from turngate.agents.policies.parts import PolicyPart
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, Worlds, play_groups
from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.run.start.demonstrations import Demonstrations, of_oracles, read_demonstrations
from turngate.tools.read import rewritten
from turngate.trainer.guidance.results import is_solved
from turngate.types import Task, Trajectory, derive_seed

_TRIED = 4  # how many times as many tasks as examples are asked for, where oracles do not solve all
_SEED = derive_seed(0, "examples")  # a model is evaluated with the examples that it was trained with
_LIMITS = TokenLimits(turn_tokens=1, context=2**40)  # texts alone, which have no tokens


async def with_examples(config: Config, environments: Environments, worlds: Worlds, chat: Chat) -> Chat:
    """The chat with the examples that ``policy.examples`` asks for, the same for all episodes of an environment.

    Raises ConfigError for an environment without an oracle, DataError for a file that cannot be read, and ConfigError
    where fewer episodes than asked for solve their task.
    """
    wanted = config.policy.examples
    if not wanted:
        return chat
    if isinstance(wanted, int):
        tried = tried_for_examples(config.policy)
        shown = of_oracles(environments, {label: tried for label, _ in environments}, "policy.examples")
    else:
        shown = read_demonstrations(environments, wanted)
        _check_file(environments, shown, wanted)
    solving = await _played(config, environments, worlds, shown, chat.tool_format)
    if isinstance(wanted, Path) and len(solving) < len(shown.tasks):
        unsolved = {task.id for task in shown.tasks} - {one.task.id for one in solving}
        raise ConfigError(f"policy.examples: the actions of '{wanted}' for '{min(unsolved)}' do not solve that task")
    of_env = {label: [one for one in solving if one.task.env_id == label] for label, _ in environments}
    return chat.with_examples({label: _examples(label, found, wanted) for label, found in of_env.items()})


def _check_file(environments: Environments, shown: Demonstrations, path: Path) -> None:
    """Raise ConfigError for what would have no effect, for a task that is not trained on, and for an environment
    without any."""
    if shown.hints:
        raise ConfigError(f"policy.examples: '{path}' has hints, which examples do not show; leave them out")
    for task in shown.tasks:
        if task.split != environments.sections[task.env_id].split:
            raise ConfigError(
                f"policy.examples: '{task.id}' in '{path}' is of split '{task.split}', which may be held out"
            )
    for label, _ in environments:
        if not any(task.env_id == label for task in shown.tasks):
            raise ConfigError(f"policy.examples: '{path}' has no task of '{label}'")


def tried_for_examples(policy: PolicyPart) -> int:
    """How many of the first tasks of each environment examples are made of."""
    return _TRIED * policy.examples if isinstance(policy.examples, int) else 0


def _examples(label: str, solving: Sequence[Trajectory], wanted: int | Path) -> tuple[Example, ...]:
    if isinstance(wanted, Path):
        return tuple(map(example_of, solving))
    if len(solving) < wanted:
        raise ConfigError(
            f"policy.examples = {wanted}: the oracle of '{label}' solves {len(solving)} of its first {_TRIED * wanted} "
            "training tasks; ask for fewer, or name a file of episodes"
        )
    return tuple(map(example_of, solving[:wanted]))


async def _played(
    config: Config, environments: Environments, worlds: Worlds, shown: Demonstrations, tool_format: str
) -> list[Trajectory]:
    """The demonstrations that solve their task, played as texts in the policy's tool format."""
    spoken: Mapping[str, list[str]] = {
        task.id: [rewritten(line, environments.of(task).turn_spec.tools, tool_format) for line in shown.lines[task.id]]
        for task in shown.tasks
    }
    chat = TextChat(tool_format=tool_format)
    player = Player(ScriptedPolicy(by_task(spoken), chat, concurrency=config.policy.concurrency), chat, _LIMITS)
    tasks: list[Task] = shown.tasks
    groups = await play_groups(player, worlds, tasks, [[None]] * len(tasks), seed=_SEED)
    examined = {name for examiner in config.examine for name in examiner.writes}
    scored = [environments.score_demonstration(group, examined) for group in groups]
    pairs = [pair for group in scored for pair in zip(group.trajectories, group.scores, strict=True)]
    return [trajectory for trajectory, score in pairs if is_solved(score)]
