"""The learners of a run: the one that is trained, and those that measure or learn beside it; and their precision."""

from __future__ import annotations

from turngate.agents.protocols import LanguageModel
from turngate.config import Config
from turngate.trainer.learner import Learner


def learner_of(config: Config, model: LanguageModel) -> Learner:
    """The learner of reinforcement learning on ``model``, with a critic if the credit rule has one."""
    critic = None if config.value is None else config.value.critic()
    return config.learner.open(model, sampling=config.policy.sampling, critic=critic)


def rounded_for(config: Config, model: LanguageModel) -> LanguageModel:
    """``model``, rounded in place to the precision of the learner's forward pass: what a policy is given."""
    from turngate.agents.policies.forward import cast, precision_of

    cast(model, precision_of(config.learner.dtype, next(model.parameters()).device))
    return model


def rounding_of(config: Config, sampler: LanguageModel) -> str:
    """What to do where sampler and learner differ by no more than rounding, in the words of the config."""
    from turngate.agents.policies.forward import precision_of

    weight = next(sampler.parameters())
    dtypes = weight.dtype, precision_of(config.learner.dtype, weight.device)
    sampled, learned = (str(one).removeprefix("torch.") for one in dtypes)
    if sampled != learned:
        return (
            f"the sampler computes in {sampled} and the learner in {learned}: leave out policy.dtype, or raise "
            "learner.tolerance if no more than rounding parts them"
        )
    exact = ', or set learner.dtype = "float32"' if learned == "bfloat16" else ""
    return f"both compute in {learned}: raise learner.tolerance if no more than rounding parts them{exact}"


def reference_of(config: Config, model: LanguageModel) -> Learner:
    """A learner that only measures: the sampler's temperature, but nothing cut, so that divergences stay finite."""
    return config.learner.open(model, sampling=config.policy.sampling.whole)


def reward_model_of(config: Config, model: LanguageModel) -> Learner:
    """A learner on ``model`` that becomes an implicit reward model."""
    assert config.reward_model is not None
    lr = config.learner.lr * config.reward_model.lr_factor
    return config.learner.open(model, sampling=config.policy.sampling.whole, lr=lr)
