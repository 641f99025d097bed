"""Sampler and learner together on one device: tokens per second, memory, where the time goes, and whether both agree.

    python -m benchmarks.gpu.one_gpu [--shape tiny|0.6b] [--dtype bfloat16|float32] [--updates 3] [--out FILE]

A model of Qwen3's architecture with random weights plays and learns as in the demo: tasks with siblings that share a
prompt, turns of at most 32 tokens, observations of 24 tokens between them. Each update samples all episodes, measures
their log-probabilities with the learner (the canary: how far they are from the sampler's), learns, and publishes. The
first update warms up and is left out of the means. A profile of one more decode and one more gradient says which
operations take the time. Before that, the same episodes are sampled with decode steps as captured graphs and without,
in turn; then episodes whose turns have 8 to 56 tokens, as graphs, without graphs, and as graphs where no turn waits for
others to begin with it. Without a GPU what would be captured runs as it is.
Shape 0.6b is that of Qwen3-0.6B; it is meant for a GPU.
Needs torch, transformers, numpy and pyarrow beside turngate itself. Prints a table, and writes it as JSON with machine
and versions.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

from turngate import __version__
from turngate.agents.chat import Chat
from turngate.agents.policies.fast_cpu import captured_of
from turngate.agents.policies.forward import HubForward, cast, precision_of
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.tiny import train_tokenizer
from turngate.store import machine
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Batch, Request

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RESULTS = Path(__file__).parents[1] / "results"
SAID, OBSERVED = 32, 24
AGREE = {"bfloat16": 0.5, "float32": 1e-3}
"""Largest difference of two log-probabilities of one token that rounding explains, in nats. Random weights have flat
distributions, whose logits are rounded coarsely; a wrong model differs by several nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model, and how much is played in one update."""

    model: dict[str, Any]
    tasks: int
    siblings: int
    turns: int
    prompt: int


SHAPES = {
    "tiny": Shape(
        model={
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
        },
        tasks=2,
        siblings=4,
        turns=2,
        prompt=48,
    ),
    "0.6b": Shape(
        model={
            "vocab_size": 151_936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        tasks=16,
        siblings=8,
        turns=4,
        prompt=256,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """One episode: its ids, and of each whether it was sampled, with which log-probability."""

    ids: np.ndarray
    said: np.ndarray
    logprob: np.ndarray


def model_of(shape: Shape) -> Any:
    """Random float32 weights on the device."""
    torch.manual_seed(0)
    length = shape.prompt + shape.turns * (SAID + OBSERVED)
    config = Qwen3Config(**shape.model, max_position_embeddings=length, tie_word_embeddings=True)
    with DEVICE:
        return Qwen3ForCausalLM(config)


async def play(policy: LocalPolicy, shape: Shape, seed: int, *, unequal: bool = False) -> list[Played]:
    """All episodes of an update, at once; ``unequal``: turns have 8 to 56 tokens, with the same mean."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, 256, size=shape.prompt, dtype=np.int32) for _ in range(shape.tasks)]
    replies = rng.integers(3, 256, size=(shape.tasks * shape.siblings, shape.turns, OBSERVED), dtype=np.int32)

    spread = SAID * 3 // 4 if unequal else 0
    said_tokens = rng.integers(SAID - spread, SAID + spread, size=replies.shape[:2], endpoint=True)

    async def episode(number: int) -> Played:
        ids = prompts[number // shape.siblings]
        said, logprob = np.zeros(len(ids), bool), np.zeros(len(ids), np.float32)
        async with policy.slot():
            for turn in range(shape.turns):
                request = Request(
                    episode=str(number), task_id="", ids=ids, turn=turn, max_tokens=int(said_tokens[number, turn]),
                    seed=(seed * 1000 + number) * shape.turns + turn,
                )  # fmt: skip
                completion = await policy.complete(request)
                more = replies[number, turn] if turn + 1 < shape.turns else replies[number, turn][:0]
                ids = np.concatenate([ids, completion.ids_K, more])
                said = np.concatenate([said, np.ones(len(completion.ids_K), bool), np.zeros(len(more), bool)])
                logprob = np.concatenate([logprob, completion.logprobs_K, np.zeros(len(more), np.float32)])
            policy.release(str(number))
        return Played(ids=ids, said=said, logprob=logprob)

    return await asyncio.gather(*[episode(number) for number in range(len(replies))])


def batch_of(played: Sequence[Played], seed: int) -> Batch:
    """The episodes with random credit, one number for each."""
    lengths = [len(one.ids) for one in played]
    said = np.concatenate([one.said for one in played])
    credit = np.random.default_rng(seed).normal(size=len(played)).astype(np.float32)
    position = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    return Batch(
        ids_L=np.concatenate([one.ids for one in played]).astype(np.int32),
        logprob_L=np.concatenate([one.logprob for one in played]),
        advantage_L=np.repeat(credit, lengths),
        policy_weight_L=(said / said.sum()).astype(np.float32),
        ce_weight_L=np.zeros(len(said), np.float32),
        position_L=position,
        segment_L=np.repeat(np.arange(len(played), dtype=np.int32), lengths),
        turn_L=np.zeros(len(said), np.int32),
        origin_L=np.zeros(len(said), np.uint8),
    )


def measure(shape: Shape, *, dtype: Any, updates: int) -> dict[str, Any]:
    """Play and learn ``updates`` times after one that warms up."""
    model = model_of(shape)
    sampler = copy.deepcopy(model)
    cast(sampler, precision_of(dtype, DEVICE))
    tokenizer = train_tokenizer(["press red", "press blue"] * 8, vocabulary=shape.model["vocab_size"])
    chat = Chat(tokenizer)
    decode = decoding(sampler, chat, shape, rounds=updates)
    policy = LocalPolicy(sampler, chat, concurrency=shape.tasks * shape.siblings)
    learner = TorchLearner(model, lr=1e-6, dtype=dtype)
    rows, apart, batches = [], [], []
    for update in range(updates + 1):
        clock = Phases()
        played = clock.time("sample", lambda: asyncio.run(play(policy, shape, seed=update)))  # noqa: B023
        batches.append(batch := batch_of(played, seed=update))
        logprob_L = clock.time("measure", lambda: learner.logprobs(batch))
        apart.append(float(np.abs(logprob_L - batch.logprob_L)[batch.policy_weight_L != 0].max()))
        clock.time("gradient", lambda: learner.forward_backward(batch, PolicyLoss()))
        clock.time("update", learner.optim_step)
        clock.time("publish", lambda: asyncio.run(policy.publish(learner.weights(), update)))  # noqa: B023
        rows.append({"said": sum(int(one.said.sum()) for one in played), "tokens": batch.n_tokens, **clock.seconds})
    if max(apart) > AGREE[str(dtype)]:
        raise SystemExit(f"sampler and learner differ by {max(apart):.3g} nats, more than rounding: {apart}")
    counted = rows[1:]
    mean = {name: statistics.mean(row[name] for row in counted) for name in counted[0]}
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "tokens_per_update": mean.pop("tokens"),
        "sampled_per_update": (said := mean.pop("said")),
        "seconds": mean,
        "sampled_tokens_per_s": said / mean["sample"],
        **decode,
        "learned_tokens_per_s": statistics.mean(row["tokens"] / row["gradient"] for row in counted),
        "canary_nats": apart,
        "peak_memory_gib": peak_gib(),
        "profile": {
            "decode": profiled(lambda: asyncio.run(play(policy, shape, seed=99))),
            "gradient": profiled(lambda: learner.forward_backward(batches[-1], PolicyLoss())),
        },
    }


def decoding(model: Any, chat: Chat, shape: Shape, *, rounds: int) -> dict[str, Any]:
    """Sampled tokens per second with decode steps that are captured and without: medians of paired rounds."""
    concurrency = shape.tasks * shape.siblings
    recorder = None if DEVICE.type == "cuda" else lambda _: lambda work: work
    captured = LocalPolicy(
        model, chat, concurrency=concurrency, forward=lambda model, cache: captured_of(model, cache, recorder)
    )
    plain = LocalPolicy(model, chat, concurrency=concurrency, forward=HubForward)
    equal = rates(shape, rounds, (captured, plain))
    forward: Any = captured._forward
    sizes, problem = len(forward.buckets), forward.problem
    patience, captured._patience = captured._patience, 0
    at_once = rates(shape, rounds, (captured,), unequal=True)
    captured._patience = patience
    unequal = rates(shape, rounds, (captured, plain), unequal=True)
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    return {
        "captured_sizes": sizes,
        "not_captured_because": problem or forward.problem,
        "captured_tokens_per_s": statistics.median(equal[0]),
        "plain_tokens_per_s": statistics.median(equal[1]),
        "captured_to_plain": statistics.median(a / b for a, b in zip(*equal, strict=True)),
        "unequal_tokens_per_s": statistics.median(unequal[0]),
        "unequal_at_once_tokens_per_s": statistics.median(at_once[0]),
        "unequal_plain_tokens_per_s": statistics.median(unequal[1]),
        "equal_to_unequal": statistics.median(equal[0]) / statistics.median(unequal[0]),
    }


def rates(shape: Shape, rounds: int, policies: Sequence[LocalPolicy], *, unequal: bool = False) -> list[list[float]]:
    """Sampled tokens per second of each policy in paired rounds, without a first one that warms up, and captures most
    sizes."""
    found: list[list[float]] = [[] for _ in policies]
    for number in range(rounds + 1):
        for policy, own in zip(policies, found, strict=True):
            clock = Phases()
            played = clock.time("sample", lambda: asyncio.run(play(policy, shape, number, unequal=unequal)))  # noqa: B023
            own.append(sum(int(one.said.sum()) for one in played) / clock.seconds["sample"])
    return [own[1:] for own in found]


class Phases:
    """Seconds of the phases of an update, each until the device has done what it was given."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, work: Callable[[], Any]) -> Any:
        start_s = time.perf_counter()
        result = work()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        self.seconds[name] = time.perf_counter() - start_s
        return result


def peak_gib() -> float:
    """Most memory so far: the device's, on a CPU that of the process."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def profiled(work: Callable[[], Any], top: int = 8) -> dict[str, float]:
    """The operations that take most of the time, in milliseconds."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if DEVICE.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        work()
    which = "self_device_time_total" if DEVICE.type == "cuda" else "self_cpu_time_total"
    events = sorted(profile.key_averages(), key=lambda event: -getattr(event, which))
    return {event.key: round(getattr(event, which) / 1000, 3) for event in events[:top]}


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {
        "turngate": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cuda": str(torch.version.cuda),
    }


def table(found: dict[str, Any]) -> str:
    """The result as lines of text."""
    whole = sum(found["seconds"].values())
    lines = [f"{name:<24}{found[name]:>14.6g}" for name in found if isinstance(found[name], int | float)]
    lines += [f"{name + ' s':<24}{s:>14.4f}{s / whole:>8.0%}" for name, s in found["seconds"].items()]
    if found["not_captured_because"]:
        lines.append(f"decode steps were not captured: {found['not_captured_because']}")
    lines.append(f"{'canary, largest nats':<24}{max(found['canary_nats']):>14.4f}")
    for name, events in found["profile"].items():
        lines += [f"{name}: {event[:44]:<46}{ms:>10.3f} ms" for event, ms in events.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="0.6b" if DEVICE.type == "cuda" else "tiny")
    parser.add_argument("--dtype", choices=AGREE, default="bfloat16")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"
    found = measure(SHAPES[given.shape], dtype=given.dtype, updates=given.updates)
    print(f"{given.shape}, {given.dtype}, {device}", table(found), sep="\n")
    command = f"python -m benchmarks.gpu.one_gpu --shape {given.shape} --dtype {given.dtype} --updates {given.updates}"
    whole = {"command": command, "device": device, "machine": machine(), "versions": versions(), **found}
    out = given.out or RESULTS / f"one_gpu_{given.shape}_{device.replace(' ', '_')}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(whole, indent=1) + "\n")
    print(out)


if __name__ == "__main__":
    main()
