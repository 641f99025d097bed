"""Hints, solutions and secrets of a run's environments, for the guide of its training."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.config.run_config import Config
from turngate.envs.base import TurnEnv
from turngate.envs.tasks import Relabels
from turngate.errors import ConfigError, EnvError
from turngate.foreign import guarded, staying
from turngate.run.environments import Environments
from turngate.tools.read import rewritten
from turngate.trainer.auxiliary.base import AuxiliaryPart
from turngate.trainer.guidance.base import GuidePart
from turngate.types import Task


class EnvironmentHelp:
    """The ``Helpers`` of a run. ``tool_format``: the one in which the policy writes calls; solutions are written in
    it."""

    def __init__(self, environments: Environments, tool_format: str, *, seed: int) -> None:
        self._environments, self._tool_format, self._seed = environments, tool_format, seed

    @property
    def seed(self) -> int:
        return self._seed

    def hint(self, task: Task, level: int) -> str | None:
        """See ``Helpers``. Raises EnvError for an environment whose hint is neither text nor None."""
        env = self._environments.of(task)
        with guarded(lambda why: EnvError(f"hint() of {type(env).__name__} raised {why} for task '{task.id}'")):
            text = env.hint(task, level)
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise EnvError(f"hint() of {type(env).__name__} returned {text!r:.60}; it must return text or None")
        return text

    def hint_levels(self, task: Task) -> int:
        return self._environments.of(task).turn_spec.hint_levels

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        env = self._environments.of(task)
        tools, tool_format = env.turn_spec.tools, self._tool_format
        with staying():
            return [[rewritten(text, tools, tool_format) for text in actions] for actions in env.solutions(task)]

    def secrets(self, task: Task) -> Sequence[str]:
        """The secrets of ``task``. Raises EnvError where they are no texts: without them nothing is guarded."""
        env = self._environments.of(task)
        with (
            staying(),
            guarded(lambda why: EnvError(f"secrets() of {type(env).__name__} raised {why} for task '{task.id}'")),
        ):
            found = env.secrets(task)
        if isinstance(found, str) or not all(isinstance(text, str) for text in found):
            raise EnvError(f"secrets() of {type(env).__name__} returned {found!r:.60}; it must return a list of texts")
        return found


def check_guide(config: Config, environments: Environments) -> None:
    """Raise ConfigError for a guide or an auxiliary loss that needs what an environment of the run does not have."""
    named: dict[str, GuidePart | AuxiliaryPart] = {"guide": config.guide}
    named |= {f"auxiliary[{place}]": part for place, part in enumerate(config.auxiliary)}
    for label, env in environments:
        solvable = env.turn_spec.has_oracle or type(env).solutions is not TurnEnv.solutions
        for key, part in named.items():
            if "solutions" in part.needs and not solvable:
                raise ConfigError(
                    f"{key}: '{part.type}' needs solutions, and '{label}' has none (its turn_spec.has_oracle is "
                    "false); write TurnEnv.oracle or TurnEnv.solutions, or choose another one"
                )
            if "other_goals" in part.needs and not isinstance(env.tasks, Relabels):
                raise ConfigError(
                    f"{key}: '{part.type}' needs tasks that can be asked for otherwise, and those of '{label}' cannot "
                    "(its task source has no method 'achieved'); write it, or leave the auxiliary loss out"
                )
            if "hints" in part.needs and not env.turn_spec.hint_levels:
                raise ConfigError(
                    f"{key}: '{part.type}' needs hints, and '{label}' has none (its turn_spec.hint_levels is 0); write "
                    "TurnEnv.hint, or choose another one"
                )
