"""The auxiliary losses of a run, with the environments' solutions, a way to play, and teachers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from turngate.agents.prefix_turns import Entry
from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.config.run_config import Config
from turngate.envs.tasks import Relabels
from turngate.judges.examiners.base import Likelihoods
from turngate.part_calls import call_part, instance_of
from turngate.run.assembly.guide_help import EnvironmentHelp
from turngate.run.assembly.learners import frozen_measuring
from turngate.run.assembly.models import check_model
from turngate.run.environments import Environments, naming_key
from turngate.tools.read import parse
from turngate.trainer.auxiliary.base import AuxiliaryContext, AuxiliarySource
from turngate.trainer.auxiliary.learning import AuxiliaryLosses
from turngate.trainer.learner import Measuring
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import Action, ScoredGroup, Task

START = "start"


def asks_start(config: Config) -> bool:
    """Whether an auxiliary loss has the model that training began from as its teacher."""
    return any(START in part.teachers for part in config.auxiliary)


def check_teachers(config: Config, unmade: Collection[str] = ()) -> None:
    """Raise ConfigError for a teacher, or a scorer that was fitted before, that cannot be found.

    ``unmade``: folders of models that will be there when the run begins.
    """
    named = [(f"auxiliary[{place}]", name) for place, part in enumerate(config.auxiliary) for name in part.teachers]
    if config.reward_model is not None and config.reward_model.fitted:
        named.append(("reward_model.model", config.reward_model.fitted))
    for key, name in named:
        if name != START and name not in unmade:
            with naming_key(key):
                check_model(name)


def auxiliary_of(
    config: Config, environments: Environments, player: Player, worlds: Worlds, start: Measuring | None
) -> AuxiliaryLosses:
    """The opened auxiliary losses. ``start`` measures under the model that training begins from, if ``asks_start``."""
    examined = {name for examiner in config.examine for name in examiner.writes}

    async def play(tasks: Sequence[Task], entries: Sequence[Sequence[Entry]], *, seed: int) -> list[ScoredGroup]:
        groups = await play_groups(player, worlds, tasks, entries, seed=seed)
        return [environments.score_demonstration(group, examined) for group in groups]

    def teacher(name: str) -> Likelihoods:
        if name == START:
            assert start is not None
            return likelihoods_of(start)
        return likelihoods_of(frozen_measuring(config, name, player.chat.tokenizer, what="teacher"))

    def achieved(task: Task, actions: Sequence[Action]) -> Task | None:
        source = environments.of(task).tasks
        if not isinstance(source, Relabels):
            return None
        return source.achieved(task if task.private else environments.find(task.id), actions)

    means = AuxiliaryContext(
        helpers=EnvironmentHelp(environments, player.chat.tool_format, seed=config.seed),
        play=play,
        teacher=teacher,
        read=lambda task, text: parse(text, environments.of(task).turn_spec.tools, player.chat.tool_format),
        player=player,
        seed=config.seed,
        achieved=achieved,
        tools=lambda task: [tool.schema for tool in environments.of(task).turn_spec.tools],
    )
    sources = {
        part.type: call_part(part.noun, part.open, means, take=instance_of(AuxiliarySource), must="an AuxiliarySource")
        for part in config.auxiliary
    }
    return AuxiliaryLosses(sources=sources, n_tokens=player.n_tokens)
