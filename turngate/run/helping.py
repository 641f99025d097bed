"""What the environments of a run say about their tasks, for the guide of its training."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.config import Config
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.tools.read import rewritten
from turngate.trainer.aside import AsidePart
from turngate.trainer.guidance import GuidePart
from turngate.types import Task


class EnvironmentHelp:
    """The ``Helpers`` of a run. ``notation``: the one in which the policy writes calls; solutions are written in it."""

    def __init__(self, environments: Environments, notation: str) -> None:
        self._environments, self._notation = environments, notation

    def hint(self, task: Task, level: int) -> str | None:
        """See ``Helpers``."""
        return task.hints[level - 1] if 1 <= level <= len(task.hints) else None

    def hint_levels(self, task: Task) -> int:
        """See ``Helpers``."""
        return len(task.hints)

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        """See ``Helpers``."""
        env = self._environments.of(task)
        if not env.turn_spec.has_oracle:
            return ()
        return [[rewritten(text, env.turn_spec.tools, self._notation) for text in env.oracle(task)]]


def check_guide(config: Config, environments: Environments) -> None:
    """Raise ConfigError for a guide or an aside that needs what an environment of the run does not have."""
    named: dict[str, GuidePart | AsidePart] = {"guide": config.guide}
    named |= {f"aside[{place}]": part for place, part in enumerate(config.aside)}
    for label, env in environments:
        for key, part in named.items():
            if "solutions" in part.needs and not env.turn_spec.has_oracle:
                raise ConfigError(
                    f"{key}: '{part.type}' needs solutions, and '{label}' has none (its turn_spec.has_oracle is "
                    "false); write TurnEnv.oracle, or choose another one"
                )
