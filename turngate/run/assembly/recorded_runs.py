"""The recorded episodes that a run learns from, checked before its first step, and the source that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.protocols import LanguageModel
from turngate.config.run_config import Config, load_run
from turngate.errors import ConfigError
from turngate.run.assembly.target_policy import sampling_of
from turngate.run.environments import Environments, naming_key
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.batch.pack import pack
from turngate.trainer.filters.parts import keep
from turngate.trainer.learner import Learner
from turngate.trainer.offline.answers import opened_source
from turngate.trainer.offline.episode_index import RecordedEpisodes
from turngate.trainer.offline.mixed import MixedPart
from turngate.trainer.offline.sources import EpisodeSource, PlayedEpisodes, SourceMeans
from turngate.trainer.offline.stored import ReadingPart, said_of
from turngate.trainer.offline.usable import LEAVABLE, unlike
from turngate.types import ScoredGroup, Trajectory, derive_seed

KEY = "episodes"


def recorded_of(config: Config, environments: Environments) -> RecordedEpisodes | None:
    """The index of the episodes that the config names, or an empty one of the run's own; None for a run without steps.

    Raises ConfigError for folders without episodes, and for episodes that cannot be learned from.
    """
    part = config.episodes
    if not config.train.steps:
        return None
    reading = part if isinstance(part, ReadingPart) else MixedPart()
    own = (config.folder / config.name).absolute()
    with naming_key(KEY):
        recorded = RecordedEpisodes(
            stores=tuple(map(Store.found, part.folders)) or (Store(own),),
            score=environments.score,
            find=environments.find,
            labels=frozenset(environments.sections),
            needs_logprobs=config.loss.needs_sampler,
            where=reading.where,
            leave_out=reading.leave_out if part.folders else LEAVABLE,
        )
        if part.folders:
            if config.loss.needs_sampler:
                for run in part.folders:
                    _check_sampling(config, run, reading.phase)
            recorded.add_all(reading.phase)
            _check_evidence(environments, recorded)
            if not recorded.rows:
                raise ConfigError(f"nothing is left to learn from; {said_of(recorded)}")
            _check_guided(config, recorded)
    return recorded


def evaluated_too(config: Config, environments: Environments, recorded: RecordedEpisodes) -> str:
    """A warning where recorded episodes that are learned from are of tasks that the run is evaluated on; "" if not."""
    labels = environments.sections
    evaluated = {
        task.id
        for label in labels
        for split in config.eval.splits
        for task in environments.heldout(label, split, config.eval.tasks)
    }
    shared = evaluated & {row.task for row in recorded.rows}
    if not shared:
        return ""
    return (
        f"{len(shared)} of the {len(evaluated)} evaluated tasks are among those of the recorded episodes that training "
        "learns from, so the evaluation says nothing of new tasks; learn from another phase, or name others in "
        "episodes.where.tasks"
    )


def source_of(
    config: Config, recorded: RecordedEpisodes | None, *, learner: Learner, chat: Chat, model: LanguageModel
) -> EpisodeSource:
    """The opened source. Raises ConfigError for episodes that the model's chat format would show otherwise than they
    are recorded."""
    if recorded is None:
        return PlayedEpisodes()
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    with naming_key(KEY):
        return opened_source(
            config.episodes,
            SourceMeans(
                recorded=recorded.shown_by(partial(unlike, chat=chat, context=context)),
                entropies=partial(mean_entropies, learner),
                group_size=config.train.group_size,
                seed=derive_seed(config.seed, KEY),
                filters_pass=lambda group: bool(
                    keep([group], config.train.filters_by_name, lone=config.credit.imitates)[0]
                ),
            ),
        )


def mean_entropies(learner: Learner, trajectories: Sequence[Trajectory]) -> list[float]:
    """The mean entropy of the sampled tokens of each episode, in nats; infinite for one without any."""
    spoken = [one for one in trajectories if one.turns]
    n_turns = sum(len(one.turns) for one in spoken)
    groups = [ScoredGroup(task=spoken[0].task, trajectories=tuple(spoken), scores=(None,) * len(spoken))]  # type: ignore[arg-type]
    batch = pack(groups, np.zeros(n_turns, np.float32))
    entropy_L, sampled_L = learner.entropies(batch), batch.policy_weight_L > 0
    sums = np.bincount(batch.segment_L, weights=entropy_L * sampled_L, minlength=len(spoken))
    counts = np.bincount(batch.segment_L, weights=sampled_L, minlength=len(spoken))
    means = iter(np.where(counts > 0, sums / np.maximum(counts, 1), np.inf).tolist())
    return [next(means) if one.turns else float("inf") for one in trajectories]


def _check_sampling(config: Config, run: Path, phase: str) -> None:
    """Raise ConfigError, or EstimateRefused, for episodes that were sampled from another kind of distribution than that
    whose log-probabilities the learner computes."""
    folder = RunFolder(Store.found(run).path)
    if not folder.exists:
        raise ConfigError(
            f"'{run}' has no config.toml, so it is not known from which distribution its episodes were sampled; learn "
            "with an objective without a ratio and without corrections"
        )
    sampled, own = sampling_of(load_run(folder), phase), config.policy.sampling
    if replace(sampled, temperature=1.0) != replace(own, temperature=1.0):
        raise ConfigError(
            f"the episodes of '{run}' were sampled with top_p {sampled.top_p:g} and top_k {sampled.top_k}, and this "
            f"run has top_p {own.top_p:g} and top_k {own.top_k}: a ratio of the two says nothing; set the same in "
            "[policy]"
        )


def _check_guided(config: Config, recorded: RecordedEpisodes) -> None:
    """Raise ConfigError for a setting about hints that training leaves out, where no recorded episode had one."""
    plain = type(config.loss).model_fields["guided"].default
    if config.loss.guided != plain and not config.guide.strips and not recorded.stripped:
        raise ConfigError(
            f"loss.guided has no effect: none of the {len(recorded.rows)} recorded episodes had a hint that training "
            "leaves out; read others, or leave it out"
        )


def _check_evidence(environments: Environments, recorded: RecordedEpisodes) -> None:
    """Raise ConfigError for a rubric that reads facts which none of the recorded episodes has."""
    for label, names in recorded.evidence.items():
        rubric = environments.rubrics[label]
        unfed = rubric.unfed(names | rubric.occasional)
        for reader, missing in unfed.items():
            raise ConfigError(
                f"no recorded episode of '{label}' has the evidence {' and '.join(map(repr, missing))}, which "
                f"'{reader}' reads and only playing could measure; leave it out of env.rubric, or read other runs "
                f"(recorded: {', '.join(sorted(names)) or 'nothing'})"
            )
