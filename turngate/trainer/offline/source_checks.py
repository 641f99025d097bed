"""Which source of episodes, and which interval of publishing, fit which run: settings without effect are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turngate.trainer.offline.mixed import MixedPart
from turngate.trainer.offline.replays import ExGrpo, Remix, n_replayed
from turngate.trainer.offline.sources import EpisodesPart

if TYPE_CHECKING:
    from turngate.config.sections import TrainSection


def check_episodes(
    part: EpisodesPart,
    train: TrainSection,
    *,
    guide: str,
    branching: str | None,
    curriculum: str,
    learner: str,
    together: bool,
    weighted: bool,
) -> None:
    """Raise ValueError for settings that have no effect, or a wrong one, with this source of episodes."""
    if not part.reads:
        return
    name = f'episodes.type = "{part.type}"'
    if learner == "frozen":
        raise ValueError(f'{name} has no effect: learner.type = "frozen" learns from no episode; leave it out')
    if branching is not None:
        why = "shares turns among its episodes" if part.plays else "has no effect, as no step plays"
        raise ValueError(f"branching '{branching}' does not go with {name}: it {why}; leave [branching] out")
    if train.refill is not None:
        raise ValueError(
            f"train.refill does not go with {name}: it plays further tasks in place of groups that filters drop, and "
            "recorded groups take places of their own; leave it out"
        )
    if not part.plays:
        _check_nothing_plays(name, train, guide=guide, curriculum=curriculum, together=together, weighted=weighted)
    elif isinstance(part, MixedPart):
        _check_mixed(part, train, guide=guide, together=together)


def check_sync(train: TrainSection, *, plays: bool, adapters: bool, policy: str) -> None:
    """Raise ValueError for a ``train.sync_every`` without effect, and for parts that need the weights of other
    steps."""
    every = train.sync_every
    if every == 1:
        return
    said = f"train.sync_every = {every}"
    if not plays:
        raise ValueError(f"{said} has no effect: no step plays, so the sampler needs no weights; leave it out")
    if every >= train.steps:
        raise ValueError(
            f"{said} has no effect beyond that of 0: there are {train.steps} steps; lower it, or write 0 for never"
        )
    if train.ahead:
        raise ValueError(f"{said} does not go with train.ahead: both decide how old episodes are; leave one out")
    validated = getattr(train.validation, "every", None)
    if validated is not None and (not every or validated % every):
        raise ValueError(
            f"train.validation.every = {validated} needs the sampler's weights of its steps, and {said} gives them to "
            "it after others; make it a multiple, or leave one out"
        )
    if adapters and policy != "local":
        raise ValueError(
            f'{said} does not go with learner.lora and policy.type = "{policy}", which takes adapters as they are '
            "trained; leave one out"
        )


def _check_nothing_plays(
    name: str, train: TrainSection, *, guide: str, curriculum: str, together: bool, weighted: bool
) -> None:
    without_effect = {
        f"guide '{guide}'": guide != "none",
        f"curriculum '{curriculum}'": curriculum != "order",
        f"train.ahead = {train.ahead}": bool(train.ahead),
        "env.together": together,
        "env.weight": weighted,
    }
    for setting, is_set in without_effect.items():
        if is_set:
            raise ValueError(f"{setting} has no effect with {name}: no step plays; leave it out")


def _check_mixed(part: MixedPart, train: TrainSection, *, guide: str, together: bool) -> None:
    replay = part.replay
    said = f"episodes.replay '{replay.type}'"
    if isinstance(replay, Remix | ExGrpo):
        if not n_replayed(replay.share, train.tasks_per_step):
            raise ValueError(
                f"{said} has no effect: {replay.share:g} of train.tasks_per_step = {train.tasks_per_step} is no group; "
                "raise one of them"
            )
        if together:
            raise ValueError(f"{said} plays a part of the picked tasks, so env.together = 1 is needed; leave it out")
    least = 1 if part.runs else 2
    if isinstance(replay, Remix) and replay.until is not None and not least <= replay.until < train.steps:
        raise ValueError(
            f"{said}: until = {replay.until} has no effect with train.steps = {train.steps}: a first step has "
            "nothing of its own run to replay, and none follows the last; name a step between them, or leave it out"
        )
    if replay.measures and train.ahead:
        raise ValueError(
            f"{said} does not go with train.ahead: it measures under the learner's weights, which change while "
            "episodes are played; set train.ahead = 0"
        )
    if replay.plays_again and guide != "none":
        raise ValueError(
            f"{said} does not go with guide '{guide}': it has tasks played with one episode fewer, and the guide plans "
            "whole groups; leave one out"
        )
