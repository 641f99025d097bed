"""A few episodes of a model before any training: the text that it is shown, its turns, and the calls read in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.assembly.learners import rounded_for
from turngate.run.assembly.models import load_model
from turngate.run.environments import Environments
from turngate.run.start.examples import tried_for_examples, with_examples
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.guidance.results import is_solved
from turngate.types import Action, ScoredGroup, Trajectory, derive_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEpisodes:
    """Episodes with their scores, in the order of their tasks. ``examples``: whether the policy was shown any."""

    groups: Sequence[ScoredGroup]
    examples: bool

    @property
    def trajectories(self) -> list[Trajectory]:
        """The episodes."""
        return [trajectory for group in self.groups for trajectory in group.trajectories]

    @property
    def n_solved(self) -> int:
        """How many of them solve their task."""
        return sum(is_solved(score) for group in self.groups for score in group.scores)

    def advice(self) -> Iterator[str]:
        """Advice, a line each."""
        actions = [turn.action for trajectory in self.trajectories for turn in trajectory.turns]
        without = sum(not action.calls for action in actions)
        cut_off = sum(action.cut_off for action in actions)
        if cut_off:
            yield f"{cut_off} of {len(actions)} turns were cut off at their end: raise policy.turn_tokens"
        if without and not self.examples:
            yield f"no call in {without} of {len(actions)} turns: try --policy.examples=3"
        elif without:
            yield f"no call in {without} of {len(actions)} turns: try more policy.examples, or a warm start"


async def first_episodes(config: Config, environments: Environments, n_tasks: int) -> FirstEpisodes:
    """Play the first tasks of the split that is trained on, those after the examples, taking the likeliest tokens.

    Raises ConfigError for a policy that samples from no model of its own, for a new model, and as ``load_model`` does.
    """
    if not config.policy.trainable:
        raise ConfigError(f'policy.type "{config.policy.type}" brings its own model; play it with turngate eval')
    if not isinstance(config.model, str):
        raise ConfigError(
            "a new model has learned nothing yet; play a trained one: turngate doctor RUN/model ENV --play N"
        )
    model, tokenizer = load_model(config.model)
    groups: list[ScoredGroup] = []
    async with environments.worlds(config.policy.concurrency) as worlds:
        chat = await with_examples(config, environments, worlds, config.policy.chat(model, tokenizer))
        player = config.policy.player(rounded_for(config, model), chat).greedy()
        async with player.policy.running():
            for label, section in environments.sections.items():
                tasks = environments.heldout(label, section.split, n_tasks + tried_for_examples(config.policy))
                _, played = await evaluate(
                    player,
                    worlds,
                    environments.score,
                    tasks[-n_tasks:],
                    split=section.split,
                    samples=1,
                    seed=derive_seed(config.seed, "first episodes", label),
                    reads=environments.rubrics[label].readers,
                )
                groups += played
    return FirstEpisodes(groups=groups, examples=bool(chat.examples))


def understood(action: Action) -> str:
    """The action that was read in a turn, in a line."""
    if action.calls:
        return "; ".join(f"{call.name} {dict(call.arguments)}" for call in action.calls)
    return f"nothing: {action.parse_error}" if action.parse_error else "speech, no call"
