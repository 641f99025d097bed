"""Config → objects. The only place where a name in a file becomes an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.rollout import Limits, Player
from turngate.config import Config, EnvSection, WarmStart
from turngate.envs.base import TurnEnv
from turngate.envs.pool import EnvPool
from turngate.envs.registry import make
from turngate.errors import ConfigError, DataError, MissingExtra, ShapeError, UnknownName
from turngate.trainer.credit import CREDITS
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories
from turngate.trainer.filters import FILTERS, Filter
from turngate.trainer.loss_settings import LossBase
from turngate.types import Credit, FloatArray, Task, TurnTable, derive_seed


def build_env(section: EnvSection) -> TurnEnv:
    """One environment."""
    return make(section.id, **section.kwargs)


def build_pool(section: EnvSection, size: int) -> EnvPool:
    """Environments on threads of their own."""
    return EnvPool(partial(build_env, section), size=size)


def build_model(config: Config, texts: list[str]) -> tuple[Any, Any]:
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
    """A local policy under the config's limits. ``model`` is the sampler's own copy."""
    from turngate.agents.policies.local import LocalPolicy

    section = config.policy
    policy = LocalPolicy(model, chat, lanes=section.lanes, order=section.order)
    return Player(policy, chat, limits(config), temperature=temperature)


def build_learner(config: Config, model: Any, *, lr: float | None = None) -> Any:
    """A learner on ``model``; ``lr`` replaces the one of reinforcement learning, for a warm start."""
    from turngate.trainer.learner import TorchLearner

    section = config.learner
    return TorchLearner(
        model,
        lr=section.lr if lr is None else lr,
        weight_decay=section.weight_decay,
        clip_norm=section.clip_norm,
        temperature=config.policy.temperature if lr is None else 1.0,
        tokens_per_pass=section.tokens_per_pass,
    )


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


def build_credit(config: Config, control: str | None) -> Credit:
    """The credit rule; under a control, of rewards or for trajectories that it has nothing to do with.

    Raises ConfigError before any work for settings that the rule refuses, or if it needs what nobody measures here.
    """
    rule = credit_rule(config.credit.type, config.credit.model_dump(exclude={"type"}))

    def shuffled(table: TurnTable) -> FloatArray:
        return shuffle_between_trajectories(table, rule(table), _seed_of(table, config, "shuffle"))

    def tossed(table: TurnTable) -> FloatArray:
        return rule(random_reward(table, _seed_of(table, config, "coin")))

    return {None: rule, "shuffled_credit": shuffled, "random_reward": tossed}[control]


def credit_rule(name: str, settings: Mapping[str, Any]) -> Credit:
    """A rule with its settings, tried out on two small trajectories. Raises UnknownName, ConfigError."""
    if name not in CREDITS:
        raise UnknownName("credit", name, CREDITS)
    rule: Credit = partial(CREDITS[name], **settings)
    try:
        rule(_rehearsal())
    except (ShapeError, TypeError) as error:
        raise ConfigError(f"credit '{name}' cannot be used here: {error}") from None
    return rule


def _rehearsal() -> TurnTable:
    """Two siblings of two turns, with the columns that ``tabulate`` measures."""
    return TurnTable(
        reward_N=np.array([0, 1, 0, 0], np.float32),
        process_N=np.array([1, 0, 0, np.nan], np.float32),
        open_N=np.array([True, True, False, False]),
        traj_N=np.array([0, 0, 1, 1], np.int32),
        index_N=np.array([0, 1, 0, 1], np.int32),
        state_N=np.array([1, 2, 1, 3], np.int64),
        outcome_B=np.array([1, 0], np.float32),
        cohort_B=np.zeros(2, np.int32),
        measured={
            "tokens_N": np.full(4, 3, np.int32),
            "surprisal_N": np.array([1, 0.5, 1, 2], np.float32),
            "parent_B": np.array([-1, 0], np.int32),
            "branch_B": np.array([0, 1], np.int32),
        },
    )


def _seed_of(table: TurnTable, config: Config, purpose: str) -> int:
    """A seed that comes from the table, not from a counter, so that a resumed run draws alike."""
    return derive_seed(config.seed, purpose, table.state_N.tobytes().hex(), table.reward_N.tobytes().hex())


def build_filters(names: tuple[str, ...]) -> dict[str, Filter]:
    """Filters by name. Raises UnknownName."""
    for name in names:
        if name not in FILTERS:
            raise UnknownName("filter", name, FILTERS)
    return {name: FILTERS[name] for name in names}


def demonstration_lines(env: TurnEnv, section: WarmStart, split: str) -> tuple[list[Task], dict[str, list[str]]]:
    """Tasks and what to write in each turn of them: from the oracle, or from a file."""
    if section.demonstrations is not None:
        return _read_demonstrations(env, section.demonstrations)
    if not env.turn_spec.has_oracle:
        raise ConfigError(f"{type(env).__name__} has no oracle; give warm_start.demonstrations, a JSONL file")
    assert section.episodes is not None
    size = env.tasks.size(split)
    count = section.episodes if size is None else min(size, section.episodes)
    tasks = [env.tasks.task(split, index) for index in range(count)]
    return tasks, {task.id: list(env.oracle(task)) for task in tasks}


def _read_demonstrations(env: TurnEnv, path: Path) -> tuple[list[Task], dict[str, list[str]]]:
    tasks: dict[str, Task] = {}
    lines: dict[str, list[str]] = {}
    for number, row in enumerate(path.read_text().splitlines(), 1):
        try:
            data = json.loads(row)
        except json.JSONDecodeError as error:
            raise DataError(path, f"not JSON: {error.msg}", line=number) from None
        for key, kind in (("task", str), ("actions", list)):
            if not isinstance(data, dict) or not isinstance(data.get(key), kind):
                raise DataError(path, f"must be a {'text' if kind is str else 'list of texts'}", line=number, field=key)
        if not data["actions"] or not all(isinstance(text, str) for text in data["actions"]):
            raise DataError(path, "must be a non-empty list of texts", line=number, field="actions")
        if data["task"] in lines:
            raise DataError(path, f"task '{data['task']}' has a demonstration already", line=number, field="task")
        try:
            tasks[data["task"]] = env.tasks.find(data["task"])
        except UnknownName as error:
            raise DataError(path, str(error), line=number, field="task") from None
        lines[data["task"]] = data["actions"]
    if not lines:
        raise DataError(path, "holds no demonstration")
    return list(tasks.values()), lines


def heldout(env: TurnEnv, split: str, count: int) -> list[Task]:
    """The first ``count`` tasks of a split, or all of a smaller one."""
    size = env.tasks.size(split)
    return [env.tasks.task(split, index) for index in range(count if size is None else min(size, count))]


def oracle_texts(tasks: list[Task], lines: dict[str, list[str]], env: TurnEnv) -> list[str]:
    """Everything that is read or written when the lines are played: what a tokenizer for this environment learns."""
    texts: list[str] = []
    for task in tasks:
        observation, _ = env.reset(seed=0, options={"task": task})
        texts.append(observation.text)
        for line in lines[task.id]:
            reply, _, terminated, truncated, _ = env.step(line)
            texts += [line, reply.text]
            if terminated or truncated:
                break
    return texts


def _import_tiny() -> Any:
    try:
        import tokenizers  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from None
    from turngate.agents import tiny

    return tiny
