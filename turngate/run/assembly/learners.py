"""The learners of a run: the one that trains the policy, the reference, the reward model; and their precision."""

from __future__ import annotations

from typing import Any

from turngate.agents.protocols import LanguageModel, Precision, Tokenizer
from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.assembly.models import load_model
from turngate.run.doctor.needed_memory import adapter_weights
from turngate.trainer.checks import learner_output as learner_answers
from turngate.trainer.learner import TOLERANCES, Learner, Lora, Measuring


def learner_of(config: Config, model: LanguageModel) -> Learner:
    """The learner that trains ``model`` in place, with a critic if the config has one."""
    critic = None if config.value is None else config.value.critic()
    return learner_answers.open_learner(config.learner, model, sampling=config.policy.sampling, critic=critic)


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


def tolerance_of(config: Config, sampler: LanguageModel) -> float:
    """``learner.tolerance``; left out, the default for the coarser precision of sampler and learner."""
    asked = config.learner.tolerance
    return max(TOLERANCES[one] for one in _precisions(config, sampler)) if asked is None else asked


def rounding_of(config: Config, sampler: LanguageModel) -> str:
    """What the user can do where sampler and learner differ by rounding alone, as advice for an error message."""
    sampled, learned = _precisions(config, sampler)
    if sampled != learned:
        return (
            f"the sampler computes in {sampled} and the learner in {learned}: leave out policy.dtype, or raise "
            "learner.tolerance if they differ by rounding only"
        )
    exact = ', or set learner.dtype = "float32"' if learned == "bfloat16" else ""
    return f"both compute in {learned}: raise learner.tolerance if they differ by rounding only{exact}"


def _precisions(config: Config, sampler: LanguageModel) -> tuple[str, str]:
    """The precisions of sampler and learner."""
    from turngate.agents.policies.forward import precision_of

    weight = next(sampler.parameters())
    dtypes = weight.dtype, precision_of(config.learner.dtype, weight.device)
    sampled, learned = (str(one).removeprefix("torch.") for one in dtypes)
    return sampled, learned


def about_learner(config: Config, model: LanguageModel) -> str:
    """How much of a pretrained model is trained, and at which rate, in a line."""
    weights = sum(weight.numel() for weight in model.parameters())
    lora: Lora | None = getattr(config.learner, "lora", None)
    if lora is not None:
        adapters = adapter_weights(model, lora)
        return (
            f"trained: adapters of rank {lora.rank}, {adapters:,} beside {weights:,} weights, lr {config.learner.lr:g}"
        )
    instead = "; learner.lora = {} trains adapters, in less memory" if hasattr(config.learner, "lora") else ""
    return f"trained: all {weights:,} weights, lr {config.learner.lr:g}{instead}"


def reference_of(config: Config, model: LanguageModel) -> Measuring:
    """The reference: measures log-probabilities under ``model``, which is never updated.

    It has the sampler's temperature but neither top_p nor top_k, which would make divergences infinite.
    """
    return learner_answers.measuring(config.learner, model, sampling=config.policy.sampling.whole)


def start_of(config: Config, learner: Learner, model: LanguageModel) -> Measuring:
    """The reference on ``model`` as it is before the first update of ``learner``, which trains it in place."""
    whole = config.policy.sampling.whole
    return learner_answers.measuring_start(config.learner, learner, model, sampling=whole)


def scorer_of(config: Config, tokenizer: Tokenizer) -> Measuring | None:
    """A ``Measuring`` of the scorer that was fitted before (``reward_model.fitted``); None where there is none."""
    name = None if config.reward_model is None else config.reward_model.fitted
    return None if name is None else frozen_measuring(config, name, tokenizer, what="reward model")


def frozen_measuring(config: Config, name: str, tokenizer: Tokenizer, *, what: str) -> Measuring:
    """A ``Measuring`` of another model, which is never updated, at the sampler's temperature.

    ``what``: its role in the run, for the message. Raises ConfigError where it has another tokenizer than the policy.
    """
    model, own = load_model(name)
    if _sample(own) != _sample(tokenizer):
        raise ConfigError(f"the {what} '{name}' has another tokenizer than the model; choose one of its family")
    return reference_of(config, model)


def _sample(tokenizer: Tokenizer) -> tuple[object, ...]:
    """A fingerprint of a tokenizer: its tokens, as far as a text of its own shows them."""
    said = tokenizer(str(tokenizer.chat_template), add_special_tokens=False)["input_ids"]
    return len(tokenizer), dict(tokenizer.get_added_vocab()), list(said)


def reward_model_of(config: Config, model: LanguageModel) -> Learner:
    """A learner that trains ``model`` in place as an implicit reward model."""
    assert config.reward_model is not None
    lr = config.learner.lr * config.reward_model.lr_factor
    return learner_answers.open_learner(config.learner, model, sampling=config.policy.sampling.whole, lr=lr)
