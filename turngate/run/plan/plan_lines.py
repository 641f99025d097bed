"""A plan as lines of at most 80 characters; sentences may be longer and fold on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turngate.run.doctor.diagnosis import bytes_text
from turngate.run.plan.fleet import broken_per_episode
from turngate.run.plan.fleet_simulation import SimulatedStep
from turngate.run.plan.scale_plan import MOST_SIMULATED, ScalePlan
from turngate.run.plan.stage_seconds import fleet_of

LIMITS = {
    "sampling": "decoding and the calls of each episode, one after the other",
    "environments": "calls that wait for a worker: more nodes, or more workers on each",
    "host": "one process starts every turn: more GPUs do not help; other processes would have to start turns too",
    "learner": "the learner: more GPUs that learn, or fewer tokens",
    "exchange": "learners that exchange weights: raise learner.tokens_per_pass, or keep learners in one node",
    "push": "weights sent to one engine after the other: fewer engines, or train.sync_every",
}

STRAGGLING = 1.25
"""Simulated seconds over estimated ones from which the slowest episodes are named."""


def head_lines(plan: ScalePlan) -> Iterator[str]:
    """What is planned."""
    split, counts, device = plan.split, plan.counts, plan.rates.device
    use = "each samples, then learns" if split.shared else f"{split.sampling} sample while {split.learning} learn"
    machines = f"{split.gpus:,} × {device.name}, {bytes_text(device.memory_bytes)}, nodes: {split.nodes:,}"
    yield f"{'machines':<14}{machines}; {use}"
    yield f"{'model':<14}{counts.weights:,} weights"
    yield (
        f"{'a step':<14}{counts.episodes:,} episodes × {counts.turns} turns × {counts.turn_tokens} tokens: "
        f"{counts.written:,} written,"
    )
    yield f"{'':<14}{counts.learned:,} learned; {split.sampling * counts.slots:,} slots for episodes"


def stage_lines(plan: ScalePlan, simulated: Sequence[SimulatedStep]) -> Iterator[str]:
    """Seconds and traffic by stage, beside the median of simulated steps, which are sorted by their seconds."""
    stages, counts = plan.stages, plan.counts
    yield f"{'stage':<22}{'seconds':>12}{'simulated':>12}{'traffic':>14}"

    def line(stage: str, seconds: float, traffic: float | None = None, found_s: float | None = None) -> str:
        found = "" if found_s is None else _seconds(found_s)
        sent = "" if traffic is None else bytes_text(traffic)
        return f"{stage:<22}{_seconds(seconds):>12}{found:>12}{sent:>14}".rstrip()

    collect = stages.collect
    middle = simulated[len(simulated) // 2] if simulated else None
    collect_s = None if middle is None else middle.collect_s
    yield line("collect", collect.most_s, stages.rollout_bytes, collect_s)
    yield line("  slots alone", collect.sampling_s)
    yield line("  environments alone", collect.environments_s)
    yield line("  host alone", collect.host_s)
    yield line("learn", stages.learn_s)
    yield line("  exchange", stages.exchange_s, stages.exchange_bytes)
    yield line("push", stages.push_s, stages.push_bytes)
    step_s = None if collect_s is None else stages.step_with(collect_s)
    yield line("step", stages.step_s, None, step_s)
    fastest = step_s or stages.step_s
    yield (
        f"throughput: {counts.episodes / fastest:,.1f} episodes, {counts.written / fastest:,.0f} written and "
        f"{counts.learned / fastest:,.0f} learned tokens a second"
    )
    broken = broken_per_episode(fleet_of(counts, plan.split, plan.rates, plan.env_turn_s), counts.turns)
    if middle is None:
        yield f"not simulated: more than {MOST_SIMULATED:,} turns in a step; expected broken: {broken:.3g} per episode"
        return
    yield (
        f"simulated: median of {len(simulated)} steps; the slowest plays for {_seconds(simulated[-1].collect_s)} s. "
        f"{middle.broken:,} episodes broke ({broken * counts.episodes:.2g} expected), "
        f"{middle.engine_failures:,} engines failed; the last tenth of the episodes took "
        f"{middle.tail_s:.3g} s; slots decode {middle.slots_used:.0%} of the time, "
        f"workers answer {middle.workers_used:.0%}"
    )


def memory_lines(plan: ScalePlan) -> Iterator[str]:
    """Memory of each kind of GPU."""
    for kind in plan.memory:
        yield f"{'memory of ' + kind.role:<40}{bytes_text(kind.most):>10}"
        for part, size in kind.parts.items():
            yield f"{'  ' + part:<40}{bytes_text(size):>10}"


def limit_lines(plan: ScalePlan, simulated: Sequence[SimulatedStep]) -> Iterator[str]:
    """Which stage limits a step, and how many GPUs would be in balance."""
    stages, split, useful = plan.stages, plan.split, plan.useful
    yield f"limit: {stages.limit}: {LIMITS[stages.limit]}"
    times = simulated[len(simulated) // 2].collect_s / stages.collect.most_s if simulated else 0.0
    if times > STRAGGLING:
        yield (
            f"stragglers: a step waits for its slowest episode, so playing takes {times:.3g} times the estimate; end "
            "slow calls earlier (policy.episode_s), or lower what breaks"
        )
    if split.sampling > useful:
        more = split.sampling - useful
        yield f"balance: {useful:,} of the engines play a step as fast; the other {more:,} do not help"
    elif split.sampling < useful:
        yield f"balance: up to {useful:,} engines make playing faster; here are {split.sampling:,}"
    else:
        yield f"balance: more than {useful:,} of the engines would not play a step faster"
    if not split.shared:
        collect_s, train_s = stages.collect.most_s, stages.train_s
        yield f"balance: playing takes {_seconds(collect_s)} s while learning takes {_seconds(train_s)} s"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.4g}" if seconds < 10_000 else f"{seconds:,.0f}"
