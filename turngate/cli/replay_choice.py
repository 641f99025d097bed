"""``turngate replay``: which of its three replays is meant, and the options that have no effect on that one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from turngate.cli.branch_off import branch_episodes
from turngate.cli.replay_run import replay_episodes
from turngate.cli.replay_update import replay_update
from turngate.config.run_config import only_trusted
from turngate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching:
    """The options of ``--branch-at``; ``at`` is its turn, None = it is not given."""

    at: int | None
    policy: str
    episode: str
    samples: int
    seed: int
    out: Path | None

    @property
    def others(self) -> list[str]:
        """Those of its options that are given, beside the turn."""
        given = {
            "--policy": self.policy,
            "--episode": self.episode,
            "--samples": self.samples > 1,
            "--seed": self.seed,
            "--out": self.out,
        }
        return [name for name, value in given.items() if value]


def replay_command(
    console: Console,
    run: Path,
    branching: Branching,
    *,
    update: int | None,
    phase: str,
    step: int | None,
    limit: int | None,
    json: Path | None,
) -> bool:
    """Replay episodes, or go on from a turn of them, or learn a step again; False where something differs.

    Raises ConfigError for options that have no effect together.
    """
    chosen = {"--phase": bool(phase), "--step": step is not None, "--limit": limit is not None}
    _refuse_mixed(branching, update, [name for name, given in chosen.items() if given], json)
    with only_trusted():  # it opens the environments of the run
        if update is not None:
            return replay_update(console, run, update, json=json)
        if branching.at is None:
            return replay_episodes(console, run, phase=phase, step=step, limit=limit, json=json)
        branch_episodes(
            console,
            run,
            branching.policy,
            turn=branching.at,
            episode=branching.episode,
            phase=phase,
            step=step,
            limit=limit,
            samples=branching.samples,
            seed=branching.seed,
            out=branching.out,
        )
        return True


def _refuse_mixed(branching: Branching, update: int | None, chosen: list[str], json: Path | None) -> None:
    """Raise ConfigError; ``chosen`` are the options that choose episodes."""
    if branching.at is None:
        if branching.others:
            raise ConfigError(f"{branching.others[0]} has no effect without --branch-at TURN; leave it out")
        if update is not None and chosen:
            raise ConfigError(f"{chosen[0]} has no effect with --update, which replays one training step; leave it out")
        return
    if update is not None:
        raise ConfigError("--branch-at and --update are two things to do; give one of them")
    if not branching.policy:
        raise ConfigError("--branch-at needs --policy: a run, RUN/checkpoints/step=…, a model folder or a name")
    if branching.episode and chosen:
        raise ConfigError(f"{chosen[0]} has no effect with --episode, which names one; leave it out")
    if json is not None:
        raise ConfigError("--json has no effect with --branch-at: the rates are in result.json of its folder")
