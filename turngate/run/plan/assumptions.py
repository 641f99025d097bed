"""What a plan assumes, a sentence each, with the source of every rate."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.config.run_config import Config
from turngate.run.plan.scale_plan import ScalePlan


def assumptions(config: Config, plan: ScalePlan) -> Iterator[str]:
    """The sentences, what matters most first."""
    rates, device, counts = plan.rates, plan.rates.device, plan.counts
    yield "modelled, not measured: nothing above one GPU was ever measured"
    yield (
        f"rates: {device.sampled_tokens_per_s:,.0f} tokens sampled and {device.learned_tokens_per_s:,.0f} learned a "
        f"second by one {device.name} with {device.weights:,} weights and {device.slots} slots ({device.source})"
    )
    scale = counts.weights / device.weights
    yield f"extrapolated: time per token grows with the weights, here {scale:.3g} times those measured"
    yield (
        "extrapolated: learners divide their work without loss, and no engine is faster with fewer slots or more "
        f"than {device.slots}"
    )
    yield (
        "turns that begin at different times sample more slowly than equal ones: a real run with SmolLM2-135M "
        "sampled 690 to 1,800 tokens a second on an H100 (docs/engines.md)"
    )
    episode = rates.episode
    yield (
        f"an episode: {episode.prompt_tokens} tokens of prompt, {counts.turns} turns of {counts.turn_tokens} written "
        f"and {episode.observed_tokens} observed tokens ({episode.source})"
    )
    for section in config.env:
        known = rates.environments[section.id]
        yield f"environment {section.id}: {known.turn_s:.3g} s a turn ({known.source})"
    yield f"the process that starts turns: {rates.host.turn_s:.2g} s for each ({rates.host.source})"
    node = rates.node
    yield (
        f"a node: {node.workers} environments at once, {node.bytes_per_s / 1e9:g} GB/s between its GPUs, "
        f"{node.network_bytes_per_s / 1e9:g} GB/s to others ({node.source})"
    )
    failures = rates.failures
    yield (
        f"failures: {failures.engine_per_s:.2g} of an engine and {failures.env_per_s:.2g} of an environment a second, "
        f"back after {failures.engine_restart_s:g} and {failures.env_restart_s:g} s ({failures.source})"
    )
    yield "an engine on every GPU that samples, and weights pushed to them one after the other by one process"
    if plan.split.learning > 1 and config.learner.type == "torch":
        yield 'learners divide weights as learner.type = "fsdp" does, which has no adapters or 8-bit optimizer'
