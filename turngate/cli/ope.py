"""``turngate ope``: the return of a policy, from recorded episodes of another one, without playing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from turngate.cli import consoles
from turngate.cli.reading_runs import reads_runs
from turngate.errors import ConfigError, EstimateRefused
from turngate.report.tables import print_table
from turngate.types import JSON, Sampling

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.run.assembly.target_policy import TargetPolicy
    from turngate.store.folder import RunFolder
    from turngate.trainer.offline.estimates import Estimate, PolicyOverlap
    from turngate.trainer.offline.scored_turns import ScoredTurns

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs(weights_with=("policy",))
def ope(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A run, or its folder trajectories.")],
    policy: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="A run, RUN/checkpoints/step=…, a model folder, or a name on the Hugging Face hub."
        ),
    ],
    phase: Annotated[
        str, typer.Option(help="Episodes to judge by: train, or a sampled evaluation such as before-heldout-sampled.")
    ] = "train",
    temperature: Annotated[
        float | None, typer.Option(help="Of the policy to judge; that of its own run, else of the episodes.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Episodes that may be left out: guided, branched; repeat for both.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other resamples for the intervals.")] = 0,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
) -> None:
    """Judge a policy by recorded episodes of another one, without playing it (off-policy evaluation).

    Prints importance-sampling, doubly robust and fitted-Q estimates with intervals, and the reason for each that the
    episodes cannot carry. Exit code 1 if they carry none.
    """
    from turngate.run.assembly.target_policy import TRAINING, target_policy
    from turngate.store import Store, write_json_atomic
    from turngate.store.folder import RunFolder
    from turngate.trainer.offline.estimates import estimate_all, overlap_of
    from turngate.trainer.offline.scored_turns import scored_turns
    from turngate.trainer.offline.usable import LEAVABLE
    from turngate.trainer.step import UNUSED

    recorded, unwanted = Store.found(store), leave_out or ()
    if wrong := [kind for kind in unwanted if kind not in LEAVABLE]:
        raise ConfigError(f"--leave-out {wrong[0]} is not one of {', '.join(LEAVABLE)}")
    if phase not in recorded.phases():
        raise ConfigError(f"'{store}' has no episodes of phase '{phase}'; recorded: {', '.join(recorded.phases())}")
    run = RunFolder(recorded.path)
    config, sampled = _behaviour(run, phase)
    target = target_policy(policy, config, sampled, temperature=temperature)
    phases = [phase, *([UNUSED] if phase == TRAINING and UNUSED in recorded.phases() else [])]
    groups = (group for name in phases for group in recorded.read(phase=name))
    turns = scored_turns(groups, target.measuring, target.chat, leave_out=unwanted, context=target.context)
    overlap = overlap_of(turns.paid)
    found = {"success": estimate_all(turns.success, seed=seed), "paid": estimate_all(turns.paid, seed=seed)}
    console = consoles.output()
    for line in _about(turns, overlap, sampled, target, f"{store}, {' and '.join(phases)}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for name, estimates in found.items():
        console.print()
        _show(console, name, estimates)
    if json is not None:
        write_json_atomic(json, _as_json(found, turns, overlap, sampled, target))
    some = any(estimate.value is not None for estimates in found.values() for estimate in estimates)
    raise typer.Exit(0 if some else 1)


def _behaviour(run: RunFolder, phase: str) -> tuple[Config, Sampling]:
    """The settings by which the episodes were sampled, and from which distribution. Raises EstimateRefused."""
    from turngate.config.run_config import load_run, parse
    from turngate.run.assembly.target_policy import sampling_of
    from turngate.store.imported import read_imported

    if run.exists:
        config = load_run(run)
        return config, sampling_of(config, phase)
    if not run.is_imported:
        raise EstimateRefused(
            f"'{run.path}' has no config.toml, so it is not known from which distribution its episodes were sampled"
        )
    told = read_imported(run)
    if not told.has_logprobs:
        raise EstimateRefused(
            f"'{run.path}' was imported from a log of format '{told.format}': {told.about_tokens}. Every estimate "
            "weighs by the log-probabilities of who played, so it needs them for all episodes"
        )
    if not told.temperature:
        raise EstimateRefused(
            f"'{run.path}' was imported, and it is not known at which temperature its episodes were sampled; say so in "
            "turngate data import --temperature (above 0)"
        )
    return parse({"model": str(run.path)}), Sampling(temperature=told.temperature)


def _about(
    turns: ScoredTurns, overlap: PolicyOverlap, sampled: Sampling, target: TargetPolicy, source: str
) -> list[str]:
    from turngate.trainer.offline.estimates import LARGE_SHARE

    left_out = "".join(f"; {count} {reason} left out" for reason, count in turns.left_out.items())
    by_turn = ", ".join(f"{share:.0%}" for share in overlap.effective_share_T)
    lines = [
        f"policy: {target.label}, temperature {target.sampling.temperature:g}",
        f"episodes: {overlap.episodes} of {overlap.tasks} tasks from {source}, sampled at temperature "
        f"{sampled.temperature:g}{left_out}",
        f"effective episodes {overlap.effective_size:.1f} (by turn {by_turn}), largest weight "
        f"{overlap.largest_share:.1%} of all, mean weight {overlap.mean_weight:.3f} ± {overlap.weight_error:.3f}",
        f"coverage {overlap.coverage:.1%} of what the policy does in the recorded states; {overlap.known_states:.1%} "
        "of turns are in a state of several episodes",
    ]
    if overlap.largest_share > LARGE_SHARE:
        lines.append("one episode decides much of the weighted estimates: read them with care")
    if sampled.truncates:
        lines.append(
            f"sampled with top_p {sampled.top_p:g} and top_k {sampled.top_k}: what the policy would do beyond that cut "
            "was never recorded and is in no estimate"
        )
    return lines


def _show(console: Console, name: str, estimates: Sequence[Estimate]) -> None:
    table = Table(name, box=None)
    for head in ("estimate", "95 % bootstrap", "95 % normal"):
        table.add_column(head, justify="right")
    refused: dict[str, list[str]] = {}
    for one in estimates:
        if one.value is None or one.bootstrap is None or one.normal is None:
            refused.setdefault(one.reason, []).append(one.name)
            table.add_row(one.name, "–", "–", "–")
        else:
            intervals = (f"{low:.4f} to {high:.4f}" for low, high in (one.bootstrap, one.normal))
            table.add_row(one.name, f"{one.value:.4f}", *intervals)
    print_table(console, table)
    for reason, names in refused.items():
        console.print(f"no {', '.join(names)}: {reason}", markup=False, highlight=False, soft_wrap=True)


def _as_json(
    found: dict[str, list[Estimate]],
    turns: ScoredTurns,
    overlap: PolicyOverlap,
    sampled: Sampling,
    target: TargetPolicy,
) -> dict[str, JSON]:
    return {
        "policy": target.label,
        "policy_sampling": asdict(target.sampling),
        "behaviour_sampling": asdict(sampled),
        "left_out": dict(turns.left_out),
        "overlap": asdict(overlap),
        "estimates": {name: [asdict(one) for one in estimates] for name, estimates in found.items()},
    }
