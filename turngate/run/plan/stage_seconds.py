"""Seconds and bytes of the stages of a step, from counts and measured rates.

W: weights of the model; W₀: those of the model that was measured. Time per token is taken to grow with W / W₀.
E engines sample, G GPUs learn; n episodes of T turns, k tokens written in each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from turngate.run.plan.fleet import CollectBounds, Fleet, collect_bounds
from turngate.run.plan.rate_table import RateTable

FLOAT = 4
TOKEN_BYTES = 4 + 4 + 1
"""Of a token of an episode: its id, its log-probability, who wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """What a step is made of. ``pass_tokens``: most tokens of one pass of the learner, on each GPU. ``weights``: W.
    ``push_bytes``: what one engine is sent after an update. ``learns``: False where the learner is frozen."""

    episodes: int
    turns: int
    prompt_tokens: int
    turn_tokens: int
    observed_tokens: int
    slots: int
    pass_tokens: int
    weights: int
    push_bytes: int
    learns: bool = True

    @property
    def episode_tokens(self) -> int:
        """L = prompt + T·k + (T − 1)·observed."""
        return self.prompt_tokens + self.turns * self.turn_tokens + (self.turns - 1) * self.observed_tokens

    @property
    def written(self) -> int:
        """n·T·k: tokens that the policy writes."""
        return self.episodes * self.turns * self.turn_tokens

    @property
    def learned(self) -> int:
        """n·L: tokens that the learner goes through."""
        return self.episodes * self.episode_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How GPUs are used. ``shared``: each samples, then learns, so ``sampling`` and ``learning`` are the same ones;
    else the one half plays a step while the other learns from the step before."""

    sampling: int
    learning: int
    nodes: int
    shared: bool

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.sampling if self.shared else self.sampling + self.learning


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeconds:
    """Seconds of the stages of a step, and bytes that each sends between GPUs or machines."""

    collect: CollectBounds
    learn_s: float
    exchange_s: float
    push_s: float
    rollout_bytes: int
    exchange_bytes: int
    push_bytes: int
    overlapped: bool

    @property
    def train_s(self) -> float:
        """Learning, and the exchange of weights and gradients within it."""
        return self.learn_s + self.exchange_s

    @property
    def step_s(self) -> float:
        """collect + train + push, or max(collect, train) + push where both run at once."""
        return self.step_with(self.collect.most_s)

    def step_with(self, collect_s: float) -> float:
        """The same with other seconds of playing."""
        both = max(collect_s, self.train_s) if self.overlapped else collect_s + self.train_s
        return both + self.push_s

    @property
    def limit(self) -> str:
        """The stage that takes most of a step."""
        stages = {
            self.collect.limit: self.collect.most_s,
            "learner": self.learn_s,
            "exchange": self.exchange_s,
            "push": self.push_s,
        }
        return max(stages, key=lambda stage: stages[stage])


def fleet_of(counts: StepCounts, split: Split, rates: RateTable, env_turn_s: float) -> Fleet:
    """The fleet that plays a step. A turn is decoded in d = k · max(S, S₀) / r₀ · W / W₀ seconds: r₀ tokens a second
    were measured with S₀ slots, fewer make no slot faster, and more add nothing."""
    device = rates.device
    token_s = max(counts.slots, device.slots) / device.sampled_tokens_per_s * counts.weights / device.weights
    return Fleet(
        engines=split.sampling,
        slots=counts.slots,
        workers=split.nodes * rates.node.workers,
        decode_s=counts.turn_tokens * token_s,
        env_s=env_turn_s,
        host_s=rates.host.turn_s,
        env_sigma=rates.episode.env_sigma,
        engine_failures_per_s=rates.failures.engine_per_s,
        engine_restart_s=rates.failures.engine_restart_s,
        env_failures_per_s=rates.failures.env_per_s,
        env_restart_s=rates.failures.env_restart_s,
    )


def stage_seconds(counts: StepCounts, split: Split, rates: RateTable, env_turn_s: float) -> StageSeconds:
    """The stages of a step.

    * collect: ``collect_bounds``.
    * learn: n·L · W / W₀ / (G · r), as if G GPUs were G times as fast.
    * exchange: each pass gathers the weights in float32 twice and adds the gradients up once, so every GPU receives
      3 · 4W · (G − 1) / G bytes for each of its ⌈n·L / G / pass_tokens⌉ passes; nothing of it is hidden behind
      computing.
    * push: one process sends ``push_bytes`` to each engine that has not its own GPU, one after the other.
    """
    device, learning = rates.device, split.learning
    scale = counts.weights / device.weights
    passes = math.ceil(counts.learned / learning / counts.pass_tokens)
    exchanged = 3 * FLOAT * counts.weights * (learning - 1) / learning * passes
    engines = split.sampling - split.shared
    node, across = rates.node, split.nodes > 1
    bytes_per_s = node.network_bytes_per_s if across else node.bytes_per_s
    learns = int(counts.learns)
    return StageSeconds(
        collect=collect_bounds(
            fleet_of(counts, split, rates, env_turn_s), episodes=counts.episodes, turns=counts.turns
        ),
        learn_s=learns * counts.learned * scale / (learning * device.learned_tokens_per_s),
        exchange_s=learns * exchanged / bytes_per_s,
        push_s=learns * engines * counts.push_bytes / bytes_per_s,
        rollout_bytes=counts.learned * TOKEN_BYTES,
        exchange_bytes=int(learns * exchanged * learning),
        push_bytes=learns * engines * counts.push_bytes,
        overlapped=not split.shared,
    )


def splits_of(gpus: int, nodes: int, *, ahead: bool) -> list[Split]:
    """Ways to use GPUs: together in turn; or, where a step is played while the one before is learned from, every
    division into engines and learners. One GPU is always shared."""
    if not ahead or gpus == 1:
        return [Split(sampling=gpus, learning=gpus, nodes=nodes, shared=True)]
    return [
        Split(sampling=gpus - learning, learning=learning, nodes=nodes, shared=False) for learning in range(1, gpus)
    ]


def useful_engines(counts: StepCounts, split: Split, rates: RateTable, env_turn_s: float) -> int:
    """Least engines with which playing takes at most 1 % longer than with one slot for every episode: more are idle."""

    def collect_s(engines: int) -> float:
        fleet = fleet_of(counts, replace(split, sampling=engines), rates, env_turn_s)
        return collect_bounds(fleet, episodes=counts.episodes, turns=counts.turns).most_s

    low, high = 1, math.ceil(counts.episodes / counts.slots)
    enough_s = 1.01 * collect_s(high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if collect_s(middle) <= enough_s else (middle + 1, high)
    return high
