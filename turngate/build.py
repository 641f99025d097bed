"""Config → objects. The only place where a name in a file becomes an object."""

from __future__ import annotations

import copy
import string
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from turngate.agents.chat import Chat
from turngate.agents.rollout import Limits, Player
from turngate.config import Config, EnvSection
from turngate.envs.base import TurnEnv
from turngate.envs.pool import EnvPool
from turngate.envs.registry import make
from turngate.errors import ConfigError, MissingExtra, ShapeError, UnknownName
from turngate.trainer.credit import CREDITS, TOKEN_CREDITS, VALUE_TARGETS, implicit
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories
from turngate.trainer.credit.rehearsal import rehearse
from turngate.trainer.filters import FILTERS, Filter
from turngate.trainer.loss_settings import LossBase
from turngate.trainer.pack import by_turn
from turngate.trainer.signal_settings import CRITIC_COLUMNS
from turngate.types import Credit, FloatArray, Task, TokenRule, TurnTable, derive_seed


def build_env(section: EnvSection) -> TurnEnv:
    """One environment."""
    return make(section.id, **section.kwargs)


def build_pool(section: EnvSection, size: int) -> EnvPool:
    """Environments on threads of their own."""
    return EnvPool(partial(build_env, section), size=size)


def build_model(config: Config, texts: Iterable[str]) -> tuple[Any, Any]:
    """Model and tokenizer: loaded by name, or made from nothing with a tokenizer trained on ``texts``."""
    tiny = _import_tiny()
    if isinstance(config.model, str):
        return load_model(config.model)
    tokenizer = tiny.train_tokenizer(texts, vocabulary=config.model.vocabulary)
    model = tiny.random_model(
        tokenizer,
        layers=config.model.layers,
        width=config.model.width,
        heads=config.model.heads,
        context=config.policy.context,
        seed=derive_seed(config.seed, "model"),
    )
    return model, tokenizer


def load_model(name: str) -> tuple[Any, Any]:
    """Model and tokenizer of a hub name or a folder, on the accelerator if there is one."""
    import torch

    model, tokenizer = _import_tiny().load(name)
    return (model.to("cuda") if torch.cuda.is_available() else model), tokenizer


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
    from turngate.trainer.learner import TorchLearner
    from turngate.trainer.values import Critic

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
    from turngate.trainer.learner import TorchLearner

    section = config.learner
    temperature, n_tokens = config.policy.temperature, section.tokens_per_pass
    return TorchLearner(model, lr=section.lr, temperature=temperature, tokens_per_pass=n_tokens)


def build_loss(config: Config) -> Any:
    """The ``PolicyLoss`` of the config. Raises ConfigError for a combination without effect."""
    from turngate.trainer import covariance, entropy, kl, loss, objectives, offpolicy

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
        "tis": offpolicy.Truncated,
        "mis": offpolicy.Masked,
        "geometric": offpolicy.GeometricRejection,
        "divergence": offpolicy.DivergenceRejection,
        "veto": offpolicy.Veto,
        "negative_drift": offpolicy.NegativeDriftMask,
    }
    section = config.loss
    chosen = [rules[rule.type](**rule.model_dump(exclude={"type"})) for rule in section.correction]
    penalties: list[Any] = [entropy.EntropyBonus(coef=section.entropy_bonus)] if section.entropy_bonus else []
    penalties += [kl.KlPenalty(**section.kl.model_dump())] if section.kl else []
    penalties += [entropy.Siren(**section.siren.model_dump())] if section.siren else []
    return loss.PolicyLoss(
        objective=kinds[section.type](**section.model_dump(exclude={"type", *LossBase.model_fields})),
        correction=offpolicy.Correction(rules=tuple(chosen), normalize=section.normalize) if chosen else None,
        penalties=tuple(penalties),
        decoupled=section.decoupled,
    )


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write both in Hugging Face format."""
    _import_tiny().save(model, tokenizer, folder)


def limits(config: Config) -> Limits:
    """What an episode may use."""
    section = config.policy
    return Limits(turn_tokens=section.turn_tokens, context=section.context, episode_s=section.episode_s)


def build_credit(config: Config, control: str | None) -> Credit | TokenRule:
    """The credit rule of a training run; under a control, for trajectories that it has nothing to do with.

    Raises ConfigError before any work for settings that the rule refuses, or if it needs what nobody measures here.
    """
    rule: Credit | TokenRule = partial(_rules()[config.credit.type], **config.credit.model_dump(exclude={"type"}))
    reads_of(config)

    def shuffled(table: TurnTable) -> FloatArray:
        credit_N = by_turn(rule(table), table.n_turns)
        return shuffle_between_trajectories(table, credit_N, _seed_of(table, config, "shuffle"))

    return shuffled if control == "shuffled_credit" else rule


def reads_of(config: Config) -> frozenset[str]:
    """The columns that the credit rule reads. Raises ConfigError for a rule that cannot be trained here."""
    name = config.credit.type
    rule = partial(_rules()[name], **config.credit.model_dump(exclude={"type"}))
    offered = config.signals.offered
    if config.value is None:
        offered = offered - CRITIC_COLUMNS | frozenset(config.signals.evidence)
    return _rehearsed(rule, name, offered, config.train.group_size)


def build_signals(
    config: Config,
    *,
    control: str | None,
    learner: Any,
    model: Any,
    reference: Any,
    chat: Chat,
    answer: Callable[[Task], tuple[str, str]] | None,
) -> Any:
    """The ``Signals`` that the credit rule reads.

    ``model`` is what training begins from, copied for an implicit reward model; ``reference`` a frozen learner on it,
    where ``needs_reference`` says so; ``answer`` comes from ``build_answer``.
    """
    from turngate.trainer import signals
    from turngate.trainer.similar import SharedTokens

    reads, section = reads_of(config), config.signals
    sources: list[Any] = []
    learners: dict[str, Any] = {}
    if any(name.endswith("_S") for name in reads):
        sources.append(signals.TokenRows())
    if "sharing_S" in reads:
        sources.append(SharedTokens())
    if section.evidence:
        sources.append(signals.FromEvidence(section.evidence))
    if config.value is not None:
        sources.append(_values(config, learner, per_token="value_S" in reads))
    if reads & {"entropy_N", "entropy_S"}:
        sources.append(signals.Entropies(learner))
    if answer is not None:
        sources.append(signals.Beliefs(learner=learner, chat=chat, answer=answer, log=section.log_gain))
    if config.reward_model is not None and config.reward_model.model == "trained":
        learners["reward_model"] = build_reward_model(config, copy.deepcopy(model))
        name, base = implicit.REWARD_MODELS[config.credit.type]
        losses = {"cross_entropy": implicit.cross_entropy, "preference": implicit.preference}
        loss = partial(losses[name], beta=config.credit.beta)  # type: ignore[attr-defined]
        against = reference if base == "start" else None
        sources.append(signals.LogRatios(model=learners["reward_model"], base=against, loss=loss))
    elif reads & LOG_RATIOS:
        sources.append(signals.LogRatios(base=reference))

    def tossed(table: TurnTable) -> TurnTable:
        return random_reward(table, _seed_of(table, config, "coin"))

    view = {"view": tossed} if control == "random_reward" else {}
    return signals.Signals(sources=tuple(sources), learners=learners, **view)


LOG_RATIOS = frozenset({"logratio_N", "logratio_S"})


def needs_reference(config: Config) -> bool:
    """Whether the loss or the credit rule compares with the model that training began from."""
    if config.loss.kl is not None:
        return True
    section = config.reward_model
    if section is not None and section.model == "trained":
        return implicit.REWARD_MODELS[config.credit.type][1] == "start"
    return bool(reads_of(config) & LOG_RATIOS)


def build_reward_model(config: Config, model: Any) -> Any:
    """A learner on ``model`` that becomes an implicit reward model."""
    from turngate.trainer.learner import TorchLearner

    assert config.reward_model is not None
    section = config.learner
    return TorchLearner(
        model,
        lr=section.lr * config.reward_model.lr_factor,
        clip_norm=section.clip_norm,
        temperature=config.policy.temperature,
        tokens_per_pass=section.tokens_per_pass,
    )


def build_answer(config: Config, env: TurnEnv) -> Callable[[Task], tuple[str, str]] | None:
    """What the assistant would say first, and the right answer, for rules that read the belief in it; else None.

    Raises ConfigError if nobody knows the answer.
    """
    if "gain_N" not in reads_of(config):
        return None
    template = config.signals.answer
    if template is not None:
        return partial(_filled, template)
    if not env.turn_spec.has_oracle:
        raise ConfigError(
            f"credit '{config.credit.type}' reads gain_N, the belief in the right answer, and {type(env).__name__} has "
            'no oracle; set signals.answer, for instance "{gold}" where the task keeps it under that name'
        )
    return lambda task: ("", "\n".join(env.oracle(task)))


def _filled(template: str, task: Task) -> tuple[str, str]:
    """The template's text before its first name, and the rest with the names filled in."""
    first = next(iter(string.Formatter().parse(template)))[0]
    try:
        return first, template.format_map(task.private).removeprefix(first)
    except KeyError as missing:
        raise ConfigError(
            f"signals.answer '{template}' names {missing}, but task '{task.id}' has only {sorted(task.private)}"
        ) from None


def _values(config: Config, learner: Any, *, per_token: bool) -> Any:
    from turngate.trainer.signals import Values

    assert config.value is not None
    settings = config.credit.model_dump()
    discounts = {name: value for name, value in settings.items() if name.startswith("gamma")}
    targets = partial(VALUE_TARGETS[config.credit.type], lam=config.value.lam, **discounts)
    return Values(learner=learner, targets=targets, per_token=per_token, bootstrap=config.value.bootstrap)


SIBLINGS = 64  # of the rehearsal where no config says how many: enough for any k that a rule may ask for


def credit_rule(name: str, settings: Mapping[str, Any]) -> Credit:
    """A rule with its settings for recorded episodes: tried out without any model. Raises UnknownName, ConfigError."""
    if name not in _rules():
        raise UnknownName("credit", name, _rules())
    rule = partial(_rules()[name], **settings)
    _rehearsed(rule, name, (), SIBLINGS, branching=True)
    return rule


def own_credit(config: Config) -> Credit | None:
    """The run's rule for recorded episodes; None if it reads what only training measures (a critic's values …)."""
    settings = config.credit.model_dump(exclude={"type"})
    try:
        return credit_rule(config.credit.type, settings)
    except ConfigError:
        reads_of(config)  # raises if nobody could measure it
        return None


def _rules() -> Mapping[str, Callable[..., Any]]:
    return {**CREDITS, **TOKEN_CREDITS}


def _rehearsed(
    rule: Callable[[TurnTable], object], name: str, offered: Iterable[str], siblings: int, *, branching: bool = False
) -> frozenset[str]:
    try:
        return rehearse(rule, offered, siblings=siblings, branching=branching)
    except (ShapeError, TypeError) as error:
        raise ConfigError(f"credit '{name}' cannot be used here: {error}") from None


def _seed_of(table: TurnTable, config: Config, purpose: str) -> int:
    """A seed that comes from the table, not from a counter, so that a resumed run draws alike."""
    return derive_seed(config.seed, purpose, table.state_N.tobytes().hex(), table.reward_N.tobytes().hex())


def build_filters(names: tuple[str, ...]) -> dict[str, Filter]:
    """Filters by name. Raises UnknownName."""
    for name in names:
        if name not in FILTERS:
            raise UnknownName("filter", name, FILTERS)
    return {name: FILTERS[name] for name in names}


def heldout(env: TurnEnv, split: str, count: int) -> list[Task]:
    """The first ``count`` tasks of a split, or all of a smaller one."""
    size = env.tasks.size(split)
    return [env.tasks.task(split, index) for index in range(count if size is None else min(size, count))]


def _import_tiny() -> Any:
    try:
        import tokenizers  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from None
    from turngate.agents import tiny

    return tiny
