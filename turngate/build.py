"""Config → objects. The only place where a name in a file becomes an object."""

from __future__ import annotations

from functools import partial
from typing import Any

from turngate.agents.chat import Chat
from turngate.agents.rollout import Limits, Player
from turngate.config import Config
from turngate.errors import ConfigError, UnknownName
from turngate.trainer.filters import FILTERS, Filter
from turngate.trainer.loss.settings import LossBase
from turngate.types import derive_seed


def build_player(config: Config, model: Any, chat: Chat, *, temperature: float) -> Player:
    """A local policy under the config's limits. ``model`` is the sampler's own copy.

    Raises ConfigError for a ``top_k`` that keeps the whole vocabulary.
    """
    from turngate.agents.policies.local import LocalPolicy

    section = config.policy
    n_tokens = model.get_output_embeddings().weight.shape[0]
    if section.top_k >= n_tokens:
        raise ConfigError(f"policy.top_k {section.top_k} has no effect on a vocabulary of {n_tokens}; leave it out")
    policy = LocalPolicy(model, chat, lanes=section.lanes, order=section.order)
    return Player(policy, chat, limits(config), temperature=temperature, top_p=section.top_p, top_k=section.top_k)


def build_learner(config: Config, model: Any, *, lr: float | None = None) -> Any:
    """A learner on ``model``; ``lr`` replaces the one of reinforcement learning, for a warm start."""
    from turngate.trainer.torch.critic import Critic
    from turngate.trainer.torch.learner import TorchLearner

    section, value = config.learner, config.value
    critic = None
    if value is not None and lr is None:
        critic = Critic(shared=value.trunk == "shared", **value.model_dump(exclude={"trunk", "lam", "bootstrap"}))
    return TorchLearner(
        model,
        critic=critic,
        lr=section.lr if lr is None else lr,
        weight_decay=section.weight_decay,
        clip_norm=section.clip_norm,
        temperature=config.policy.temperature if lr is None else 1.0,
        top_p=config.policy.top_p if lr is None else 1.0,
        top_k=config.policy.top_k if lr is None else 0,
        tokens_per_pass=section.tokens_per_pass,
    )


def build_reference(config: Config, model: Any) -> Any:
    """A learner that only measures: the sampler's temperature, but nothing cut, so that divergences stay finite."""
    from turngate.trainer.torch.learner import TorchLearner

    section = config.learner
    temperature, n_tokens = config.policy.temperature, section.tokens_per_pass
    return TorchLearner(model, lr=section.lr, temperature=temperature, tokens_per_pass=n_tokens)


def build_loss(config: Config) -> Any:
    """The ``PolicyLoss`` of the config. Raises ConfigError for a combination without effect."""
    from turngate.trainer.loss import corrections, covariance, entropy, kl, objectives, policy_loss

    kinds: dict[str, Any] = {
        "clipped": objectives.Clipped,
        "gspo": objectives.Gspo,
        "cispo": objectives.Cispo,
        "gmpo": objectives.Gmpo,
        "sapo": objectives.Sapo,
        "reinforce": objectives.Reinforce,
        "kl_cov": covariance.KlCov,
        "clip_cov": partial(covariance.ClipCov, seed=derive_seed(config.seed, "clip_cov")),
        "simko": objectives.SimKo,
    }
    rules: dict[str, Any] = {
        "tis": corrections.Truncated,
        "mis": corrections.Masked,
        "geometric": corrections.GeometricRejection,
        "divergence": corrections.DivergenceRejection,
        "veto": corrections.Veto,
        "negative_drift": corrections.NegativeDriftMask,
    }
    section = config.loss
    chosen = [rules[rule.type](**rule.model_dump(exclude={"type"})) for rule in section.correction]
    penalties: list[Any] = [entropy.EntropyBonus(coef=section.entropy_bonus)] if section.entropy_bonus else []
    penalties += [kl.KlPenalty(**section.kl.model_dump())] if section.kl else []
    penalties += [entropy.Siren(**section.siren.model_dump())] if section.siren else []
    return policy_loss.PolicyLoss(
        objective=kinds[section.type](**section.model_dump(exclude={"type", *LossBase.model_fields})),
        correction=corrections.Correction(rules=tuple(chosen), normalize=section.normalize) if chosen else None,
        penalties=tuple(penalties),
        decoupled=section.decoupled,
    )


def limits(config: Config) -> Limits:
    """What an episode may use."""
    section = config.policy
    return Limits(turn_tokens=section.turn_tokens, context=section.context, episode_s=section.episode_s)


def build_reward_model(config: Config, model: Any) -> Any:
    """A learner on ``model`` that becomes an implicit reward model."""
    from turngate.trainer.torch.learner import TorchLearner

    assert config.reward_model is not None
    section = config.learner
    return TorchLearner(
        model,
        lr=section.lr * config.reward_model.lr_factor,
        clip_norm=section.clip_norm,
        temperature=config.policy.temperature,
        tokens_per_pass=section.tokens_per_pass,
    )


def build_filters(names: tuple[str, ...]) -> dict[str, Filter]:
    """Filters by name. Raises UnknownName."""
    for name in names:
        if name not in FILTERS:
            raise UnknownName("filter", name, FILTERS)
    return {name: FILTERS[name] for name in names}
