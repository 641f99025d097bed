"""Build the ``Run``, which holds everything that a training step needs, from a config, its environments and a model."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from turngate.agents.chat import Chat
from turngate.agents.protocols import LanguageModel
from turngate.agents.rollout import Worlds
from turngate.agents.tree_rollout import refuse_unforkable
from turngate.config.run_config import Config
from turngate.errors import ConfigError, UnknownName
from turngate.judges.examiners.base import ExamineContext, Examiner
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import recorded_answer
from turngate.part_calls import call_part, instance_of
from turngate.run.assembly.auxiliary_setup import asks_start, auxiliary_of
from turngate.run.assembly.credit import Answer, needs_reference, rule_of, signals_of, trains_reward_model
from turngate.run.assembly.guide_help import EnvironmentHelp
from turngate.run.assembly.learners import (
    learner_of,
    reward_model_of,
    rounded_for,
    rounding_of,
    scorer_of,
    start_of,
    tolerance_of,
)
from turngate.run.assembly.recorded_runs import source_of
from turngate.run.assembly.reference_reset import ReferenceReset
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.branching.tree_play import Trees
from turngate.trainer.checks.broken_batch import save_batch
from turngate.trainer.checks.monitoring import Watch
from turngate.trainer.curriculum.base import Curriculum
from turngate.trainer.guidance.base import Guide, NoGuide
from turngate.trainer.guidance.guarded_help import GuardedHelp, LeakGuard
from turngate.trainer.guidance.writer import opened_writer
from turngate.trainer.learner import Measuring
from turngate.trainer.offline.episode_index import RecordedEpisodes
from turngate.trainer.publishing import Publishing
from turngate.trainer.run import Reset, Run
from turngate.trainer.signals.likelihoods import likelihoods_of


@asynccontextmanager
async def assembled(
    config: Config,
    environments: Environments,
    model: LanguageModel,
    chat: Chat,
    worlds: Worlds,
    *,
    folder: RunFolder,
    control: str | None,
    answer: Answer | None,
    watch: Watch,
    curriculum: Curriculum | None,
    recorded: RecordedEpisodes | None = None,
) -> AsyncIterator[Run]:
    """The ``Run``, for as long as the block lasts. The learner trains ``model``; the policy samples from a copy."""
    run, start = learning_run(config, environments, model, chat, worlds, folder=folder, control=control, answer=answer)
    player, learner = run.player, run.learner
    desk = ExamineContext(
        player=player,
        step=0,
        seed=config.seed,
        answer=recorded_answer,
        likelihoods=likelihoods_of(learner),
        verdicts=folder.verdicts,
    )
    help_ = EnvironmentHelp(environments, chat.tool_format, seed=config.seed)
    guard = LeakGuard(help_.secrets)
    async with (
        player.policy.running(),
        Examining(config.examine, desk) as examining,
        opened_writer(config.guide, player) as writer,
    ):
        yield replace(
            run,
            examining=examining,
            curriculum=curriculum,
            writer=writer,
            guide=call_part(
                "guide", config.guide.open, GuardedHelp(help_, guard), take=instance_of(Guide), must="a Guide"
            ),
            guard=guard,
            auxiliary=auxiliary_of(config, environments, player, worlds, start),
            episodes=source_of(config, recorded, learner=learner, chat=chat, model=model),
            publishing=publishing_of(config),
            trees=trees_of(config, environments),
            watch=watch,
        )


def publishing_of(config: Config) -> Publishing:
    """After which steps the sampler gets the weights; where no step asks the policy, before validations alone."""
    if config.episodes.plays or any(part.plays for part in config.auxiliary):
        return Publishing(every=config.train.sync_every, last=config.train.steps)
    validation = config.train.validation
    return Publishing(every=validation.every if validation else 0, last=config.train.steps, plays=False)


def learning_run(
    config: Config,
    environments: Environments,
    model: LanguageModel,
    chat: Chat,
    worlds: Worlds,
    *,
    folder: RunFolder,
    control: str | None,
    answer: Answer | None,
) -> tuple[Run, Measuring | None]:
    """A ``Run`` with the parts that learn from episodes, without curriculum, guide and examiners.

    The second result measures under the model that training begins from, where a part of the run compares with it.
    """
    sampler = rounded_for(config, copy.deepcopy(model))
    player = config.policy.player(sampler, chat)
    tolerance, rounding = tolerance_of(config, sampler), rounding_of(config, sampler)
    del sampler  # the policy keeps what it needs of it
    reward_model = reward_model_of(config, copy.deepcopy(model)) if trains_reward_model(config) else None
    at = config.train.reset_reference
    reset = Reset() if at is None else ReferenceReset(config, model, at=at)
    learner = learner_of(config, model)  # it may put adapters into the model: copy that before
    player.policy.expect(learner.weights)
    start = start_of(config, learner, model) if needs_reference(config) or asks_start(config) else None
    reference = start if needs_reference(config) else None
    if isinstance(reset, ReferenceReset):
        reference = reset.measuring
    run = Run(
        player=player,
        worlds=worlds,
        score=environments.score,
        guide=NoGuide(),
        batches=config.train.refill.batches if config.train.refill else 1,
        credit=rule_of(config, control),
        filters=config.filters,
        lone=config.credit.imitates,
        learner=learner,
        loss=config.loss.policy_loss(config.seed),
        experts=config.loss.experts is not None,
        store=Store(folder.path),
        keep_batch=partial(save_batch, folder.broken_batch),
        group_size=config.train.group_size,
        minibatches=config.train.minibatches,
        aggregate=config.loss.aggregate,
        tolerance=tolerance,
        max_kl=config.learner.max_kl,
        rounding=rounding,
        seed=config.seed,
        reference=reference,
        reset=reset,
        signals=signals_of(
            config,
            control=control,
            learner=learner,
            reward_model=reward_model,
            reference=reference,
            # of their own: signals are measured in the learner's thread, and a tokenizer serves one at a time
            chat=copy.deepcopy(chat) if config.train.ahead else chat,
            answer=answer,
            scorer=scorer_of(config, chat.tokenizer),
        ),
    )
    return run, start


def trees_of(config: Config, environments: Environments) -> Trees | None:
    """How episodes branch off others; None where they do not.

    Raises ConfigError for an environment without forks, and if no environment has episodes that are long enough.
    """
    if config.branching is None:
        return None
    for label, env in environments:
        refuse_unforkable(label, env.turn_spec.fork)
    longest = max(env.max_turns for _, env in environments)
    if longest < config.branching.least_turns:
        names = ", ".join(f"'{label}'" for label, _ in environments)
        raise ConfigError(
            f"branching '{config.branching.type}' cannot branch here: it lets episodes begin before the second turn of "
            f"others or later, and those of {names} have at most {longest}. Leave [branching] out, allow more turns "
            "(env.kwargs.max_turns), or use rise, whose new attempts share no turns"
        )
    return Trees(expander=config.branching, fork=lambda task: environments.of(task).turn_spec.fork)


def check_credit(config: Config, environments: Environments) -> None:
    """Raise ConfigError for a credit rule that names a component which a rubric does not have."""
    for rubric in environments.rubrics.values():
        config.columns_given([reward.name for reward in rubric.rewards])


def check_examiners(config: Config, environments: Environments) -> None:
    """Raise ConfigError for an examiner whose facts nothing reads, UnknownName for one with an unknown ``env``."""
    for place, examiner in enumerate(config.examine):
        if examiner.env and examiner.env not in environments.sections:
            raise UnknownName(f"environment in examine[{place}].env", examiner.env, environments.sections)
        if not _read(config, environments, examiner):
            names = ", ".join(f"'{name}'" for name in examiner.writes)
            raise ConfigError(
                f"examine[{place}] ('{examiner.type}') has no effect: it records {names}, which neither a rubric nor "
                "signals.evidence reads; name the fact there, or leave the examiner out"
            )


def _read(config: Config, environments: Environments, examiner: Examiner) -> bool:
    """Whether one of the examiner's facts is read by the credit rule or by the rubric of an environment it examines."""
    rubrics = [rubric for label, rubric in environments.rubrics.items() if examiner.env in ("", label)]
    read = {name for rubric in rubrics for name in rubric.readers}
    return not read.union(config.signals.evidence.values()).isdisjoint(examiner.writes)
