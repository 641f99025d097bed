"""The asides of a run, with what they work with: the environments' solutions, a way to play, and teachers."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.agents.forced import Entry
from turngate.agents.protocols import Tokenizer
from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.config import Config
from turngate.errors import ConfigError
from turngate.examine.base import Likelihoods
from turngate.run.environments import Environments, naming_key
from turngate.run.helping import EnvironmentHelp
from turngate.run.learners import reference_of
from turngate.run.models import check_model, load_model
from turngate.tools.read import parse
from turngate.trainer.aside import AsideMeans, Asides
from turngate.trainer.learner import Measuring
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import ScoredGroup, Task

START = "start"


def asks_start(config: Config) -> bool:
    """Whether an aside has the model that training began from as its teacher."""
    return any(START in part.teachers for part in config.aside)


def check_teachers(config: Config) -> None:
    """Raise ConfigError for a teacher that cannot be found."""
    for place, part in enumerate(config.aside):
        for name in part.teachers:
            if name != START:
                with naming_key(f"aside[{place}]"):
                    check_model(name)


def asides_of(
    config: Config, environments: Environments, player: Player, worlds: Worlds, start: Measuring | None
) -> Asides:
    """The opened asides. ``start`` measures under the model that training begins from, if ``asks_start``."""
    examined = {name for examiner in config.examine for name in examiner.writes}

    async def play(tasks: Sequence[Task], entries: Sequence[Sequence[Entry]], *, seed: int) -> list[ScoredGroup]:
        groups = await play_groups(player, worlds, tasks, entries, seed=seed)
        return [environments.score_demonstration(group, examined) for group in groups]

    def teacher(name: str) -> Likelihoods:
        if name == START:
            assert start is not None
            return likelihoods_of(start)
        model, tokenizer = load_model(name)
        if _sample(tokenizer) != _sample(player.chat.tokenizer):
            raise ConfigError(f"the teacher '{name}' has another tokenizer than the model; choose one of its family")
        return likelihoods_of(reference_of(config, model))

    means = AsideMeans(
        helpers=EnvironmentHelp(environments, player.chat.notation, seed=config.seed),
        play=play,
        teacher=teacher,
        read=lambda task, text: parse(text, environments.of(task).turn_spec.tools, player.chat.notation),
        player=player,
        seed=config.seed,
    )
    return Asides(sources={part.type: part.open(means) for part in config.aside})


def _sample(tokenizer: Tokenizer) -> tuple[object, ...]:
    """What two tokenizers agree on if they are the same: their tokens, as far as a text of their own shows them."""
    said = tokenizer(str(tokenizer.chat_template), add_special_tokens=False)["input_ids"]
    return len(tokenizer), dict(tokenizer.get_added_vocab()), list(said)
