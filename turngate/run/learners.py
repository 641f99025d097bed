"""The learners of a run: the one that trains the policy, the reference, the reward model; and their precision."""

from __future__ import annotations

from typing import Any

from turngate.agents.protocols import LanguageModel, Precision
from turngate.config import Config
from turngate.trainer.learner import Learner, Measuring


def learner_of(config: Config, model: LanguageModel) -> Learner:
    """The learner that trains ``model`` in place, with a critic if the config has one."""
    critic = None if config.value is None else config.value.critic()
    return config.learner.open(model, sampling=config.policy.sampling, critic=critic)


def rounded_for(config: Config, model: LanguageModel) -> LanguageModel:
    """Round ``model`` in place to the precision of the learner's forward pass, and return it; for the policy's copy."""
    from turngate.agents.policies.forward import cast, precision_of

    cast(model, precision_of(config.learner.dtype, next(model.parameters()).device))
    return model


def device_here() -> str:
    """The kind of device on which a model would be."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def bytes_of_passes(config: Config) -> tuple[int, int]:
    """Bytes of a number in the passes of the learner, and of the sampler, on the device where a model would be."""
    import torch

    from turngate.agents.policies.forward import precision_of

    device = torch.device(device_here())
    learner, sampler = config.learner.dtype, sampler_precision(config)
    return precision_of(learner, device).itemsize, precision_of(sampler, device).itemsize


def sampler_precision(config: Config) -> Precision:
    """The precision that the config asks of the sampler, by its own setting or the learner's."""
    asked: Any = getattr(config.policy, "dtype", "learner")
    sampler: Precision = config.learner.dtype if asked == "learner" else asked
    return sampler


def rounding_of(config: Config, sampler: LanguageModel) -> str:
    """What the user can do where sampler and learner differ by rounding alone, as advice for an error message."""
    from turngate.agents.policies.forward import precision_of

    weight = next(sampler.parameters())
    dtypes = weight.dtype, precision_of(config.learner.dtype, weight.device)
    sampled, learned = (str(one).removeprefix("torch.") for one in dtypes)
    if sampled != learned:
        return (
            f"the sampler computes in {sampled} and the learner in {learned}: leave out policy.dtype, or raise "
            "learner.tolerance if they differ by rounding only"
        )
    exact = ', or set learner.dtype = "float32"' if learned == "bfloat16" else ""
    return f"both compute in {learned}: raise learner.tolerance if they differ by rounding only{exact}"


def reference_of(config: Config, model: LanguageModel) -> Measuring:
    """The reference: measures log-probabilities under ``model``, which is never updated.

    It has the sampler's temperature but neither top_p nor top_k, which would make divergences infinite.
    """
    return config.learner.measuring(model, sampling=config.policy.sampling.whole)


def start_of(config: Config, learner: Learner, model: LanguageModel) -> Measuring:
    """The reference on ``model`` as it is before the first update of ``learner``, which trains it in place."""
    return config.learner.measuring_start(learner, model, sampling=config.policy.sampling.whole)


def reward_model_of(config: Config, model: LanguageModel) -> Learner:
    """A learner that trains ``model`` in place as an implicit reward model."""
    assert config.reward_model is not None
    lr = config.learner.lr * config.reward_model.lr_factor
    return config.learner.open(model, sampling=config.policy.sampling.whole, lr=lr)
