"""The learners of a run: the one that is trained, and those that measure or learn beside it."""

from __future__ import annotations

from turngate.agents.models import LanguageModel
from turngate.config import Config
from turngate.trainer.learner import Learner


def learner_of(config: Config, model: LanguageModel) -> Learner:
    """The learner of reinforcement learning on ``model``, with a critic if the credit rule has one."""
    critic = None if config.value is None else config.value.critic()
    return config.learner.open(model, sampling=config.policy.sampling, critic=critic)


def reference_of(config: Config, model: LanguageModel) -> Learner:
    """A learner that only measures: the sampler's temperature, but nothing cut, so that divergences stay finite."""
    return config.learner.open(model, sampling=config.policy.sampling.whole)


def reward_model_of(config: Config, model: LanguageModel) -> Learner:
    """A learner on ``model`` that becomes an implicit reward model."""
    assert config.reward_model is not None
    lr = config.learner.lr * config.reward_model.lr_factor
    return config.learner.open(model, sampling=config.policy.sampling.whole, lr=lr)
