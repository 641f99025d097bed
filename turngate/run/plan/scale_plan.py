"""A plan: memory, seconds and traffic of a config on so many GPUs, by measured rates, and which stage limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turngate.agents.protocols import LanguageModel, Precision
from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.assembly.learners import sampler_precision
from turngate.run.doctor.diagnosis import HELP, SMALLER, bytes_text, memory_use
from turngate.run.doctor.needed_memory import needed_memory, size_of
from turngate.run.plan.fleet_simulation import SimulatedStep, simulate_step
from turngate.run.plan.memory_per_gpu import START, GpuMemory, fits, memory_per_gpu
from turngate.run.plan.rate_table import RateTable
from turngate.run.plan.stage_seconds import (
    Split,
    StageSeconds,
    StepCounts,
    fleet_of,
    splits_of,
    stage_seconds,
    useful_engines,
)
from turngate.trainer.learner import tokens_of_a_pass
from turngate.types import derive_seed

MOST_GPUS = 100_000
MOST_SIMULATED = 2_000_000
"""Turns of a step beyond which it is not simulated: more would take minutes."""
SIMULATED_STEPS, TURNS_OF_ALL = 9, 300_000
"""Most steps that are simulated, and most turns of all of them, as long as there is one: the slowest call of a step
decides how long it takes, and differs from step to step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """What a run would take. ``useful``: engines beyond which playing gets no faster."""

    counts: StepCounts
    split: Split
    memory: list[GpuMemory]
    stages: StageSeconds
    useful: int
    rates: RateTable
    env_turn_s: float

    def simulated(self, seed: int) -> list[SimulatedStep]:
        """Steps played event by event, the fastest first: up to nine, fewer of many turns, and none of too many."""
        turns = self.counts.episodes * self.counts.turns
        if turns > MOST_SIMULATED:
            return []
        fleet = fleet_of(self.counts, self.split, self.rates, self.env_turn_s)
        steps = (
            simulate_step(
                fleet,
                episodes=self.counts.episodes,
                turns=self.counts.turns,
                seed=derive_seed(seed, "simulated step", number),
            )
            for number in range(max(1, min(SIMULATED_STEPS, TURNS_OF_ALL // turns)))
        )
        return sorted(steps, key=lambda step: step.collect_s)


def scale_plan(config: Config, model: LanguageModel, rates: RateTable, *, gpus: int, nodes: int) -> ScalePlan:
    """The plan of a run on ``gpus`` GPUs in ``nodes`` machines, in the fastest split that fits their memory.

    ``model`` may be without weights. Raises ConfigError for numbers that are no machines, where an
    episode does not fit its context, and where memory does not suffice: what to change.
    """
    check_machines(gpus, nodes)
    needed = _needed(config, model, rates)
    counts, env_turn_s = _counts(config, model, rates), rates.env_turn_s(config)
    splits = splits_of(gpus, nodes, ahead=config.train.ahead > 0)
    memories = [memory_per_gpu(needed, counts.weights, split) for split in splits]
    there = rates.device.memory_bytes
    fitting = [(split, memory) for split, memory in zip(splits, memories, strict=True) if fits(memory, there)]
    if not fitting:
        raise ConfigError(_refusal(config, needed, counts, rates, gpus, min(memories, key=_largest)))
    planned = [(stage_seconds(counts, split, rates, env_turn_s), split, memory) for split, memory in fitting]
    stages, split, memory = min(planned, key=lambda one: one[0].step_s)
    return ScalePlan(
        counts=counts,
        split=split,
        memory=memory,
        stages=stages,
        useful=useful_engines(counts, split, rates, env_turn_s),
        rates=rates,
        env_turn_s=env_turn_s,
    )


def check_machines(gpus: int, nodes: int) -> None:
    """Raise ConfigError for numbers of machines that cannot be."""
    if not 1 <= gpus <= MOST_GPUS:
        raise ConfigError(f"--gpus {gpus} is not a number of GPUs; give one from 1 to {MOST_GPUS:,}")
    if not 1 <= nodes <= gpus:
        raise ConfigError(f"--nodes {nodes} cannot hold {gpus} GPUs; give a number from 1 to {gpus}")


def model_name(config: Config) -> str:
    """The name of the model whose run can be planned. Raises ConfigError where there is none, or several runs."""
    if not config.policy.trainable:
        raise ConfigError(f'policy.type "{config.policy.type}" brings its own model; a plan needs one that is trained')
    if config.stages:
        raise ConfigError("the config has stages, which differ in their needs; plan the config of one of them")
    if not isinstance(config.model, str):
        raise ConfigError(
            "model is a table for a new model, whose vocabulary is known after its warm start only; name one that "
            "exists: --model=FOLDER or a name of the hub"
        )
    return config.model


def _needed(config: Config, model: LanguageModel, rates: RateTable) -> dict[str, int]:
    """Bytes by purpose for one device that does everything, of the kind that the rates are of."""
    kind, prompt = rates.device.kind, rates.episode.prompt_tokens
    numbers = _itemsize(config.learner.dtype, kind), _itemsize(sampler_precision(config), kind)
    return needed_memory(size_of(model), memory_use(config, model, prompt, kind, numbers))


def _itemsize(precision: Precision, kind: str) -> int:
    return 2 if precision == "bfloat16" or (precision == "auto" and kind == "cuda") else 4


def _counts(config: Config, model: LanguageModel, rates: RateTable) -> StepCounts:
    episode, policy, train = rates.episode, config.policy, config.train
    weights = size_of(model).weights
    counts = StepCounts(
        episodes=train.tasks_per_step * train.group_size,
        turns=episode.turns,
        prompt_tokens=episode.prompt_tokens,
        turn_tokens=min(episode.turn_tokens, policy.turn_tokens),
        observed_tokens=episode.observed_tokens,
        slots=policy.concurrency,
        pass_tokens=tokens_of_a_pass(getattr(config.learner, "tokens_per_pass", "auto"), rates.device.kind),
        weights=weights,
        push_bytes=_itemsize(sampler_precision(config), rates.device.kind) * weights,
        learns=config.learner.type != "frozen",
    )
    if counts.episode_tokens > policy.context:
        raise ConfigError(
            f"a typical episode of the rates has {counts.episode_tokens} tokens and policy.context is "
            f"{policy.context}; raise it, or change [episode] in a file of rates: --rates FILE"
        )
    return counts


def _largest(memory: list[GpuMemory]) -> int:
    return max(kind.most for kind in memory)


def _refusal(
    config: Config,
    needed: Mapping[str, int],
    counts: StepCounts,
    rates: RateTable,
    gpus: int,
    memory: list[GpuMemory],
) -> str:
    """What does not fit, what to change, and how many GPUs would do."""
    worst, there = max(memory, key=lambda kind: kind.most), rates.device.memory_bytes
    enough = next((n for n in _more(gpus) if any(fits(one, there) for one in _memories(config, needed, counts, n))), 0)
    advice = "one process reads it, whatever the number of GPUs; " if worst.largest == START else ""
    advice += HELP.get(worst.largest, SMALLER)
    more = f"; or --gpus {enough}" if enough else "; more GPUs alone do not help"
    size = bytes_text(worst.parts[worst.largest])
    return (
        f"does not fit: {worst.role} of {gpus} needs {bytes_text(worst.most)}, and {rates.device.name} has "
        f"{bytes_text(there)}. The most is the {worst.largest}, {size}: {advice}{more}"
    )


def _memories(config: Config, needed: Mapping[str, int], counts: StepCounts, gpus: int) -> Iterator[list[GpuMemory]]:
    for split in splits_of(gpus, 1, ahead=config.train.ahead > 0):
        yield memory_per_gpu(needed, counts.weights, split)


def _more(gpus: int) -> range:
    return range(gpus + 1, min(max(64, 4 * gpus), 512))
