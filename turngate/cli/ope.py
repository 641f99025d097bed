"""``turngate ope``: the return of a policy, from recorded episodes of another one, without playing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turngate.config.run_config import Config, load_run, parse
from turngate.errors import ConfigError, EstimateRefused
from turngate.report.tables import print_table
from turngate.run.assembly.target_policy import TRAINING, TargetPolicy, sampling_of, target_policy
from turngate.store import Store, write_json_atomic
from turngate.store.folder import RunFolder
from turngate.store.imported import read_imported
from turngate.trainer.offline.estimates import LARGE_SHARE, Estimate, PolicyOverlap, estimate_all, overlap_of
from turngate.trainer.offline.scored_turns import ScoredTurns, scored_turns
from turngate.trainer.offline.usable import LEAVABLE
from turngate.trainer.step import UNUSED
from turngate.types import JSON, Sampling


def judge_offline(
    console: Console,
    path: Path,
    policy: str,
    *,
    phase: str,
    temperature: float | None,
    leave_out: Sequence[str],
    seed: int,
    json: Path | None,
) -> bool:
    """Print every estimate of the policy's success and payment, and write them as JSON; returns whether there is one.

    Of training episodes those count too that a step played and did not learn from: they were not left out by chance.
    Raises ConfigError, and EstimateRefused for episodes without a ratio.
    """
    store = Store.found(path)
    if wrong := [kind for kind in leave_out if kind not in LEAVABLE]:
        raise ConfigError(f"--leave-out {wrong[0]} is not one of {', '.join(LEAVABLE)}")
    if phase not in store.phases():
        raise ConfigError(f"'{path}' has no episodes of phase '{phase}'; recorded: {', '.join(store.phases())}")
    run = RunFolder(store.path)
    config, sampled = _behaviour(run, phase)
    target = target_policy(policy, config, sampled, temperature=temperature)
    phases = [phase, *([UNUSED] if phase == TRAINING and UNUSED in store.phases() else [])]
    groups = (group for name in phases for group in store.read(phase=name))
    turns = scored_turns(groups, target.measuring, target.chat, leave_out=leave_out, context=target.context)
    overlap = overlap_of(turns.paid)
    found = {"success": estimate_all(turns.success, seed=seed), "paid": estimate_all(turns.paid, seed=seed)}
    for line in _about(turns, overlap, sampled, target, f"{path}, {' and '.join(phases)}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for name, estimates in found.items():
        console.print()
        _show(console, name, estimates)
    if json is not None:
        write_json_atomic(json, _as_json(found, turns, overlap, sampled, target))
    return any(estimate.value is not None for estimates in found.values() for estimate in estimates)


def _behaviour(run: RunFolder, phase: str) -> tuple[Config, Sampling]:
    """The settings by which the episodes were sampled, and from which distribution. Raises EstimateRefused."""
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
