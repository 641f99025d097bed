"""``turngate replay``: repeat the recorded actions of a run, and say whether the results are the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from turngate.config.run_config import load_run
from turngate.errors import ConfigError
from turngate.progress_bar import Progress
from turngate.run.environments import Environments
from turngate.run.replay.replayed_actions import (
    MOST_AT_ONCE,
    EpisodeReplay,
    ReplayCounts,
    Replayer,
    replay_store,
    tool_format_of,
)
from turngate.store import Store, write_json_atomic
from turngate.store.folder import RunFolder
from turngate.types import JSON

LISTED = 10
"""Most divergences that are printed; all are in the JSON file."""


def replay_episodes(
    console: Console, path: Path, *, phase: str, step: int | None, limit: int | None, json: Path | None
) -> bool:
    """Carry out the recorded actions of a run again and print the differences; returns whether there are none.

    Without ``phase`` every phase is replayed. Raises ConfigError for phases and steps that are not recorded,
    ReplayRefused.
    """
    run = RunFolder.of(path)
    store = Store.found(path)
    phases = recorded_phases(store, phase, step)
    config = load_run(run)
    tool_format = tool_format_of(run, config)

    async def work() -> ReplayCounts:
        size = min(config.policy.concurrency, MOST_AT_ONCE)
        with Progress(console, "replaying", transient=True) as progress:
            async with environments.worlds(size) as worlds:
                return await replay_store(
                    store,
                    Replayer(config, environments, worlds, tool_format),
                    phases=phases,
                    step=step,
                    limit=limit,
                    told=lambda done, all_: progress.update(done, all_, "steps"),
                )

    with Environments(config.env, trained=False) as environments:
        counts = asyncio.run(work())
    for line in _lines(counts):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        write_json_atomic(json, _as_json(path, phases, counts))
    return not counts.diverged


def recorded_phases(store: Store, phase: str, step: int | None) -> list[str]:
    """The phases to replay. Raises ConfigError for one, or a step, that is not recorded."""
    known = store.phases()
    if phase and phase not in known:
        raise ConfigError(f"'{store.path}' has no episodes of phase '{phase}'; recorded phases: {', '.join(known)}")
    steps = store.steps(phase or None)
    if step is not None and step not in steps:
        of = f" of phase '{phase}'" if phase else ""
        raise ConfigError(f"'{store.path}' has no step {step}{of}; recorded: {', '.join(map(str, steps))}")
    return [phase] if phase else known


def _lines(counts: ReplayCounts) -> Sequence[str]:
    lines = [
        f"{counts.identical} of {counts.replayed} replayed episodes are identical, {len(counts.diverged)} diverged"
    ]
    lines += [f"{n} left out: {reason}" for reason, n in sorted(counts.left_out.items())]
    for found in counts.diverged[:LISTED]:
        lines += _about(found)
    if (more := len(counts.diverged) - LISTED) > 0:
        lines.append(f"{more} more diverged; --json FILE lists all")
    return lines


def _about(found: EpisodeReplay) -> list[str]:
    difference = found.divergence
    assert difference is not None
    where = "the episode" if difference.turn is None else f"turn {difference.turn}"
    recorded, replayed = difference.excerpts
    return [
        f"{found.id} ({found.phase}, step {found.step}), {where}: {difference.what} differs from character "
        f"{difference.place} on",
        f"  recorded: {recorded}",
        f"  replayed: {replayed}",
    ]


def _as_json(path: Path, phases: Sequence[str], counts: ReplayCounts) -> dict[str, JSON]:
    return {
        "run": str(path),
        "phases": list(phases),
        "replayed": counts.replayed,
        "identical": counts.identical,
        "left_out": dict(counts.left_out),
        "diverged": [
            {
                "step": one.step,
                "phase": one.phase,
                "episode": one.id,
                "turn": one.divergence.turn,
                "what": one.divergence.what,
                "place": one.divergence.place,
                "recorded": one.divergence.recorded,
                "replayed": one.divergence.replayed,
            }
            for one in counts.diverged
            if one.divergence is not None
        ],
    }
