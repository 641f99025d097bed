"""Measured rates, with the source of each: the shipped table, a user's own, or those of a finished run."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from turngate.config.run_config import Config
from turngate.config.sections import Section
from turngate.errors import ConfigError, DataError
from turngate.problems import one_line
from turngate.run.assembly.learners import device_here
from turngate.run.assembly.models import memory_here
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.types import Metrics, Source, Trajectory

SHIPPED = Path(__file__).with_name("rate_table.toml")
LAST_STEPS = 5
"""Most steps of a run, its last ones, of which rates are the medians."""


class _Sourced(Section):
    source: str = Field(min_length=1)
    """Where the numbers come from: a command, a page, or "assumed"."""


class DeviceRates(_Sourced):
    """What one GPU did with one model."""

    name: str
    """What it is called in the plan."""
    kind: Literal["cuda", "cpu"]
    """Decides what dtype = "auto" and learner.tokens_per_pass = "auto" mean."""
    memory_bytes: float = Field(gt=0)
    """Its memory."""
    weights: int = Field(ge=1)
    """Weights of the model that was measured. Another model is taken to need time in proportion to its weights."""
    slots: int = Field(ge=1)
    """Episodes that were sampled at once. With fewer, each is taken to be no faster; more, to gain nothing."""
    sampled_tokens_per_s: float = Field(gt=0)
    """Tokens of the policy a second, prompts included in the time."""
    learned_tokens_per_s: float = Field(gt=0)
    """Tokens of whole episodes that the learner goes through, a second."""


class HostRates(_Sourced):
    """What the one process that starts episodes did."""

    turn_s: float = Field(ge=0)
    """Seconds of a turn that are neither model nor environment."""


class NodeRates(_Sourced):
    """A machine with GPUs."""

    workers: int = Field(ge=1)
    """Environments that answer at the same time on one machine: cores, where they compute."""
    bytes_per_s: float = Field(gt=0)
    """From one of its GPUs to another."""
    network_bytes_per_s: float = Field(gt=0)
    """From one machine to another."""


class EpisodeRates(_Sourced):
    """A typical episode."""

    prompt_tokens: int = Field(ge=1)
    """Tokens before its first turn."""
    turns: int = Field(ge=1)
    """Turns, on average."""
    turn_tokens: int = Field(ge=1)
    """Tokens that the policy writes in a turn, on average; policy.turn_tokens, if that is less."""
    observed_tokens: int = Field(ge=0)
    """Tokens between two turns."""
    env_sigma: float = Field(ge=0)
    """σ of the lognormal distribution of an environment's seconds; 0 where all calls take equally long."""


class FailureRates(_Sourced):
    """What breaks, and how long it is away."""

    engine_per_s: float = Field(ge=0)
    """Failures of an engine in a second."""
    engine_restart_s: float = Field(ge=0)
    """Seconds until it is back."""
    env_per_s: float = Field(ge=0)
    """Failures of an environment in a second of a call."""
    env_restart_s: float = Field(ge=0)
    """Seconds until its worker is back."""


class EnvironmentRates(_Sourced):
    """An environment."""

    turn_s: float = Field(ge=0)
    """Mean seconds of a turn, in which one worker is busy."""


class RateTable(Section):
    """The whole table."""

    device: DeviceRates
    host: HostRates
    node: NodeRates
    episode: EpisodeRates
    failures: FailureRates
    environments: dict[str, EnvironmentRates]

    def env_turn_s(self, config: Config) -> float:
        """Mean seconds of a turn over the environments of a config. Raises ConfigError for one that is not in the
        table."""
        known = self.environments
        for section in config.env:
            if section.id not in known:
                raise ConfigError(
                    f"nothing is known of the seconds of a turn of '{section.id}'; copy the table of {SHIPPED.name} "
                    f'and add [environments."{section.id}"] with turn_s and source, then name it: --rates FILE'
                )
        total = sum(section.weight for section in config.env)
        return sum(section.weight * known[section.id].turn_s for section in config.env) / total


def read_rates(path: Path = SHIPPED) -> RateTable:
    """Read a table. Raises ConfigError for keys that are missing, unknown or out of range, DataError for no TOML."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"no file of rates '{path}'") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(path, str(error)) from error
    try:
        return RateTable.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, RateTable, data)}; {SHIPPED} has every key") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedStep:
    """One step of a run: its metrics, and the episodes that were recorded."""

    metrics: Metrics
    episodes: Sequence[Trajectory]

    @property
    def n_turns(self) -> int:
        return sum(len(one.turns) for one in self.episodes)

    @property
    def written(self) -> int:
        """Tokens of the policy."""
        return sum(int((turn.source == Source.POLICY).sum()) for one in self.episodes for turn in one.turns)

    @property
    def tokens(self) -> int:
        return sum(len(turn.source) for one in self.episodes for turn in one.turns)


def rates_of_run(run: RunFolder, config: Config, table: RateTable, weights: int) -> RateTable:
    """``table`` with the rates of device and episode that a run recorded; ``weights`` are those of its model.

    Seconds of sampling are those of collect, without those inside environments and without what ``table`` says of the
    host, which the run does not record apart. Where these exceed the whole, all of it counts as sampling. Raises
    ConfigError for a run of which too little is recorded.
    """
    steps = _last_steps(run)
    turns = max(round(statistics.median(one.n_turns / len(one.episodes) for one in steps)), 1)
    turn_tokens = max(round(statistics.median(one.written / one.n_turns for one in steps)), 1)
    prompts = [len(one.turns[0].context_ids) for step in steps for one in step.episodes]
    observed = [len(turn.context_ids) for step in steps for one in step.episodes for turn in one.turns[1:]]
    slots = config.policy.concurrency
    turn_s = statistics.median(
        one.metrics["time/collect_s"] / (ceil(len(one.episodes) / slots) * one.n_turns / len(one.episodes))
        for one in steps
    )
    env_turn_s = statistics.median(one.metrics["busy/env_s"] / one.n_turns for one in steps)
    known_s = env_turn_s + table.host.turn_s
    apart = known_s < turn_s
    learned = statistics.median(one.tokens / one.metrics["time/learn_s"] for one in steps)
    name, memory = memory_here()
    source = f"{run.path}, medians of its last {len(steps)} steps; what filters dropped counts as learned"
    device = DeviceRates(
        name=name,
        kind="cuda" if device_here() == "cuda" else "cpu",
        memory_bytes=memory,
        weights=weights,
        slots=slots,
        sampled_tokens_per_s=slots * turn_tokens / (turn_s - known_s if apart else turn_s),
        learned_tokens_per_s=learned,
        source=source,
    )
    episode = EpisodeRates(
        prompt_tokens=max(round(statistics.mean(prompts)), 1),
        turns=turns,
        turn_tokens=turn_tokens,
        observed_tokens=round(statistics.mean(observed)) if observed else 0,
        env_sigma=table.episode.env_sigma,
        source=f"{source}; spread of calls: {table.episode.source}",
    )
    changes: dict[str, object] = {"device": device, "episode": episode}
    found = EnvironmentRates(turn_s=env_turn_s, source=f"{source}: seconds inside the run's environments")
    if not apart:
        whole = f"{source}: a turn took {turn_s:.2g} s, less than {known_s:.2g} s beside it; counted as sampling"
        found = EnvironmentRates(turn_s=0.0, source=whole)
        changes["host"] = HostRates(turn_s=0.0, source=whole)
    changes["environments"] = {**table.environments, **{section.id: found for section in config.env}}
    return table.model_copy(update=changes)


def _last_steps(run: RunFolder) -> list[_RecordedStep]:
    """The last steps that were played and learned from. Raises ConfigError where there is none."""
    store = Store(run.path)
    rows = {int(row["step"]): row for row in (read_metrics(run.metrics) if run.metrics.exists() else ())}
    found: list[_RecordedStep] = []
    for step in reversed(store.steps()):
        metrics = rows.get(step, {})
        if len(found) == LAST_STEPS or not {"time/collect_s", "time/learn_s", "busy/env_s"} <= set(metrics):
            continue
        played = [one for group in store.read(step, "train") for one in group.trajectories if one.turns]
        if played:
            found.append(_RecordedStep(metrics=metrics, episodes=played))
    if not found:
        raise ConfigError(
            f"'{run.path}' has no step that was played and learned from with its seconds (time/, busy/env_s), so it "
            "tells no rates; name another run, or a file: --rates FILE"
        )
    return found
