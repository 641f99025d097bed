"""``turngate replay``: which of its three replays is meant, and the options that have no effect on that one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError

app = typer.Typer(rich_markup_mode=None)


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


@app.command()
@reads_runs(weights_with=("policy", "update"))
def replay(
    run: RunPath,
    phase: Annotated[str, typer.Option(help="Episodes to replay: train, or an evaluation; else all phases.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="Replay the episodes of this step only.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most episodes to replay.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
    branch_at: Annotated[int | None, typer.Option(min=0, help="A turn from which --policy goes on.")] = None,
    policy: Annotated[str, typer.Option(metavar="MODEL", help="With --branch-at: a run, checkpoint or model.")] = "",
    episode: Annotated[str, typer.Option(metavar="ID", help="With --branch-at: this episode only.")] = "",
    samples: Annotated[int, typer.Option(min=1, help="With --branch-at: continuations of each episode.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="With --branch-at: another seed samples others.")] = 0,
    out: Annotated[Path | None, typer.Option(help="With --branch-at: new folder; else RUN/continued/NAME.")] = None,
    update: Annotated[int | None, typer.Option(min=1, help="Learn this training step again.")] = None,
) -> None:
    """Carry out the recorded actions of a run again and compare turn by turn what its environments do.

    Observations, state keys, evidence, endings and scores have to be the same, character by character. With --branch-at
    another policy goes on from a turn; with --update a training step is learned again from the checkpoint before it,
    and weights and metrics are compared bit for bit. Exit code 1 if something differs.
    """
    from turngate.cli.branch_off import branch_episodes
    from turngate.cli.replay_run import replay_episodes
    from turngate.cli.replay_update import replay_update
    from turngate.config.run_config import only_trusted

    branching = Branching(at=branch_at, policy=policy, episode=episode, samples=samples, seed=seed, out=out)
    chosen = {"--phase": bool(phase), "--step": step is not None, "--limit": limit is not None}
    _refuse_mixed(branching, update, [name for name, given in chosen.items() if given], json)
    console, same = consoles.output(), True
    with only_trusted():  # it opens the environments of the run
        if update is not None:
            same = replay_update(console, run, update, json=json)
        elif branching.at is None:
            same = replay_episodes(console, run, phase=phase, step=step, limit=limit, json=json)
        else:
            branch_episodes(
                console,
                run,
                policy,
                turn=branching.at,
                episode=episode,
                phase=phase,
                step=step,
                limit=limit,
                samples=samples,
                seed=seed,
                out=out,
            )
    raise typer.Exit(0 if same else 1)


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
