"""Go on from a turn of recorded episodes with another policy: what would it have done from there?

The recorded actions up to the turn are given to the run's own environment, which begins as it did then; the policy
samples the rest. The recorded turns are tokenised again in the policy's chat format and marked as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.agents.given import given_again
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.config.run_config import Config
from turngate.errors import ReplayRefused
from turngate.judges.examiners.base import ExamineContext
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import recorded_answer
from turngate.run.environments import Environments
from turngate.run.replay.replayed_actions import ReplayableEpisode
from turngate.types import Group, Guidance, Observation, Score, ScoredGroup, Trajectory

BRANCH = "branch"
"""Kind of the guidance of a continued episode that had no help when it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A recorded episode to go on from, and what it was paid."""

    episode: ReplayableEpisode
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """``groups`` hold the continued episodes of each task; ``recorded_B`` and ``continued_B`` say whether the usable
    episodes succeeded, ``of_recorded_B`` and ``of_continued_B`` of which task each is."""

    groups: Sequence[ScoredGroup]
    recorded_B: Sequence[bool]
    of_recorded_B: Sequence[str]
    continued_B: Sequence[bool]
    of_continued_B: Sequence[str]
    unusable: int


def given_turns(begun: ReplayableEpisode, turn: int) -> PrefixTurns:
    """The turns of an episode before ``turn``, for the environment to be given; the help of the episode goes on."""
    recorded = begun.trajectory
    help_ = recorded.guidance or Guidance(kind=BRANCH, level=turn, text="", source="recorded")
    return PrefixTurns(
        turns=tuple(map(given_again, recorded.turns[:turn])),
        guidance=help_,
        parent=(recorded.id, turn),
        seed=begun.seed,
    )


async def continue_from(
    begun: Sequence[Begun],
    turn: int,
    *,
    config: Config,
    environments: Environments,
    worlds: Worlds,
    player: Player,
    samples: int,
    seed: int,
) -> Continued:
    """Continue each episode ``samples`` times from before ``turn``.

    The policy has to be running. Raises ReplayRefused where an environment does not come to the recorded observations.
    """
    by_task: dict[str, list[Begun]] = {}
    for one in begun:
        by_task.setdefault(one.episode.task.id, []).append(one)
    tasks = [some[0].episode.task for some in by_task.values()]
    plans = [[given_turns(one.episode, turn) for one in some for _ in range(samples)] for some in by_task.values()]
    groups = await play_groups(player, worlds, tasks, plans, seed=seed)
    for some, group in zip(by_task.values(), groups, strict=True):
        sources = [one.episode.trajectory for one in some for _ in range(samples)]
        for recorded, continued in zip(sources, group.trajectories, strict=True):
            _check(recorded, continued, turn)
    scored = await _scored(groups, config, environments, player)
    pairs = [(group.task, score) for group in scored for score in group.scores]
    usable = [(task, score) for task, score in pairs if score.usable]
    return Continued(
        groups=scored,
        recorded_B=[bool(one.score.success) for one in begun],
        of_recorded_B=[one.episode.task.id for one in begun],
        continued_B=[bool(score.success) for _, score in usable],
        of_continued_B=[task.id for task, _ in usable],
        unusable=len(pairs) - len(usable),
    )


async def _scored(
    groups: Sequence[Group], config: Config, environments: Environments, player: Player
) -> list[ScoredGroup]:
    """The groups with the facts that the rubrics read of examiners, and their scores."""
    reads = {name for rubric in environments.rubrics.values() for name in rubric.readers}
    desk = ExamineContext(player=player, step=0, seed=config.seed, answer=recorded_answer)
    async with Examining(config.examine, desk) as examining:
        examined, _ = await examining.examined(groups, 0, reads=reads)
    return [environments.score(group) for group in examined]


def _check(recorded: Trajectory, continued: Trajectory, turn: int) -> None:
    """Raise ReplayRefused where the given turns led to other observations than the recorded ones."""
    pairs = zip(recorded.turns[: turn + 1], continued.turns[: turn + 1], strict=False)
    for number, (one, other) in enumerate(pairs):
        if one.observation != other.observation:
            raise ReplayRefused(
                f"'{recorded.id}' cannot be continued from turn {turn}: before turn {number} its environment shows "
                f"{_shown(other.observation)}, where {_shown(one.observation)} was recorded; turngate replay shows "
                "what differs"
            )


def _shown(seen: Observation) -> str:
    return f"{seen.text!r:.120} (state '{seen.state_key:.40}')"
