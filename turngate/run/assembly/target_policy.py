"""The policy that a name stands for, to evaluate it on recorded episodes or to let it continue them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

from turngate.agents.chat import Chat
from turngate.agents.policies.base import Weights
from turngate.agents.policies.parts import PolicyPart
from turngate.agents.protocols import LanguageModel
from turngate.agents.rollout import Player
from turngate.config.run_config import Config, load_run
from turngate.errors import ConfigError, EstimateRefused, StoreError
from turngate.run.assembly.learners import rounded_for
from turngate.run.assembly.models import load_model
from turngate.store.folder import RunFolder
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.checks import learner_output as learner_answers
from turngate.trainer.learner import Learner, Measuring
from turngate.trainer.step import UNUSED
from turngate.types import Sampling

TRAINING = "train"
"""The phase of the episodes that steps played and learned from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPolicy:
    """``measuring`` gives the log-probabilities of the model under ``sampling``; ``chat`` is its chat format.

    ``context``: most tokens that the model has positions for; None = not known. ``label`` says which model it is.
    """

    measuring: Measuring
    chat: Chat
    sampling: Sampling
    context: int | None
    label: str


def target_policy(name: str, behaviour: Config, sampled: Sampling, *, temperature: float | None = None) -> TargetPolicy:
    """The policy of a run's folder, a checkpoint (RUN/checkpoints/step=…), a model folder or a name on the hub.

    It is measured as the learner of ``behaviour`` measures, at ``temperature``; left out, at that of its own run, else
    at that of ``sampled``, the distribution from which the episodes come. top_p and top_k are those of ``sampled``.
    Raises ConfigError for a policy that samples from another cut of its distribution: a ratio of a cut and an uncut
    distribution says nothing; StoreError for a run without a model.
    """
    if temperature == 0:
        raise ConfigError(
            "temperature 0 is one action per turn, which recorded episodes hardly ever follow; name one above 0"
        )
    run, step = _run_of(Path(name))
    own = behaviour if run is None else load_run(run)
    played = own.policy.sampling
    if run is not None and replace(played, temperature=1.0) != replace(sampled, temperature=1.0):
        raise ConfigError(
            f"'{name}' samples with top_p {played.top_p:g} and top_k {played.top_k}, the episodes were sampled with "
            f"top_p {sampled.top_p:g} and top_k {sampled.top_k}: the two distributions are of different kinds; record "
            "episodes with the same settings"
        )
    kept = (played.temperature if run is not None else sampled.temperature) if temperature is None else temperature
    sampling = replace(sampled, temperature=kept)
    model, tokenizer = load_model(_model_of(name, run, step, own))
    measuring: Measuring
    if run is None or step is None:
        measuring = learner_answers.measuring(own.learner, model, sampling=sampling)
    else:
        measuring = _at_checkpoint(run, step, own, model, sampling)
    return TargetPolicy(
        measuring=measuring,
        chat=own.policy.chat(model, tokenizer),
        sampling=sampling,
        context=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        label=name if run is None or step is not None else f"{name} (its trained model)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayingPolicy:
    """``player`` samples with the weights of a model, by the settings of ``part``; ``weights`` are to be published
    before it plays, None = it has them. ``label`` says which model it is."""

    player: Player
    part: PolicyPart
    weights: Weights | None
    label: str


def playing_policy(name: str, behaviour: Config) -> PlayingPolicy:
    """A policy, named as for ``target_policy``, to play with the settings of its own run, else those of ``behaviour``.

    Raises ConfigError for one that has no model of its own to sample from, StoreError for a run without a model.
    """
    run, step = _run_of(Path(name))
    own = behaviour if run is None else load_run(run)
    if not own.policy.trainable:
        raise ConfigError(
            f"'{name}' would be played by policy.type \"{own.policy.type}\", which cannot be given recorded turns as "
            "tokens; name a run, a checkpoint, a model folder or a name on the hub"
        )
    model, tokenizer = load_model(_model_of(name, run, step, own))
    sampler = rounded_for(own, copy.deepcopy(model) if step is not None else model)
    player = own.policy.player(sampler, own.policy.chat(model, tokenizer))
    if run is None or step is None:
        return PlayingPolicy(player=player, part=own.policy, weights=None, label=name)
    learner = _at_checkpoint(run, step, own, model, own.policy.sampling)
    player.policy.expect(learner.weights)
    return PlayingPolicy(player=player, part=own.policy, weights=learner.weights(), label=name)


def _model_of(name: str, run: RunFolder | None, step: int | None, own: Config) -> str:
    """The folder or name of the model to load: for a checkpoint the one that its run began from."""
    if run is None:
        return name
    if step is not None:
        return started_from(run, own)
    if not run.is_complete:
        steps = ", ".join(map(str, Checkpoints(run.checkpoints).steps())) or "none"
        raise StoreError(
            f"'{name}' has no finished model; name one of its checkpoints, RUN/checkpoints/step=000012 (steps: {steps})"
        )
    return str(run.model)


def _at_checkpoint(run: RunFolder, step: int, own: Config, model: LanguageModel, sampling: Sampling) -> Learner:
    """A learner with the weights of a checkpoint."""
    critic = None if own.value is None else own.value.critic()
    learner = learner_answers.open_learner(own.learner, model, sampling=sampling, critic=critic)
    Checkpoints(run.checkpoints).load(step, learner)
    return learner


def _run_of(path: Path) -> tuple[RunFolder | None, int | None]:
    """The run that a path names, and the step of a checkpoint in it; (None, None) for a model."""
    number = path.name.removeprefix("step=")
    if path.parent.name == "checkpoints" and number.isdecimal():
        return RunFolder.of(path.parent.parent), int(number)
    inside = RunFolder(path.parent)  # RUN/model was trained and is played with the settings of its run
    if path.name == "model" and inside.exists and inside.is_complete:
        return inside, None
    run = RunFolder(path)
    return (run, None) if run.exists else (None, None)


def started_from(run: RunFolder, config: Config) -> str:
    """The model that the run began from. Raises StoreError."""
    if config.warm_start is None:
        return str(config.model)
    if run.first_model is not None:
        return str(run.first_model)
    raise StoreError(f"the model that '{run.path}' began from is gone: its folder warm_start is missing")


def sampling_of(config: Config, phase: str) -> Sampling:
    """The distribution that the episodes of a phase were sampled from. Raises EstimateRefused where there was none."""
    if not config.policy.trainable:
        raise EstimateRefused(
            f'the episodes were played by policy.type "{config.policy.type}", whose log-probabilities are not known'
        )
    if phase.endswith("-greedy"):
        raise EstimateRefused(
            f"phase '{phase}' was played at temperature 0: it shows one action per turn and says nothing of others"
        )
    evaluated = phase != TRAINING and phase != UNUSED
    temperature = config.eval_temperature if evaluated else config.policy.temperature
    sampling = config.policy.sampling
    return Sampling(temperature=temperature, top_p=sampling.top_p, top_k=sampling.top_k)
