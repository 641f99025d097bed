"""Learning from trees of shared prefixes against padded rows: seconds of one update's gradient.

    OMP_NUM_THREADS=1 python -m benchmarks.packing [--width 256] [--layers 4] [--repeats 5] [--small] [--out FILE]

Each shape is a task whose siblings share a prompt of P tokens, then go their own way for K turns of 48 tokens, 24 of
them written by the agent; "alike" is the mix of the demo, in which 62 % of the siblings are equal to the last token.
Where there is a GPU, it is used, with longer prompts and a larger model, and the attention of trees is computed by
FlexAttention and in dense blocks; a CPU knows blocks alone. All ways are timed in turn: processor time on a CPU, time
by the clock on a GPU. The bound is the ratio of tokens that go through the model, padding of rows left out: what would
be gained if attention cost nothing. "auto" is what the learner chooses. Prints a table, and writes it as JSON with
machine, versions and command.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from turngate.agents.protocols import LanguageModel
from turngate.agents.tiny import random_model, train_tokenizer
from turngate.store import machine
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.packing import Packing
from turngate.trainer.torch.tree_attention import kernels_on
from turngate.types import Batch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RESULTS = Path(__file__).parent / "results"
VOCABULARY = 259
SHAPES = {
    "prompt 256, 4 turns, G = 8": (4, 256, 4, 8, 0.0),
    "prompt 512, 8 turns, G = 8": (2, 512, 8, 8, 0.0),
    "prompt 256, 2 turns, G = 8, alike": (8, 256, 2, 8, 0.62),
    "prompt 24, 3 turns, G = 8": (16, 24, 3, 8, 0.0),
    "prompt 8, 1 turn, G = 4": (32, 8, 1, 4, 0.0),
}
GPU_SHAPES = {
    "prompt 1024, 4 turns, G = 8": (8, 1024, 4, 8, 0.0),
    "prompt 2048, 8 turns, G = 8": (4, 2048, 8, 8, 0.0),
    "prompt 4096, 16 turns, G = 8": (2, 4096, 16, 8, 0.0),
}
SMALL_SHAPES = {"prompt 64, 1 turn, G = 4": (2, 64, 1, 4, 0.0)}
TURN, SAID = 48, 24


def batch_of(tasks: int, prompt: int, turns: int, siblings: int, alike: float, rng: np.random.Generator) -> Batch:
    """Tasks with so many siblings; ``alike`` is the chance that one repeats the sibling before it."""
    segments: list[np.ndarray] = []
    for _ in range(tasks):
        start = rng.integers(3, VOCABULARY, size=prompt)
        for sibling in range(siblings):
            if sibling and rng.random() < alike:
                segments.append(segments[-1])
            else:
                length = int(turns * TURN * rng.uniform(0.7, 1.3))
                segments.append(np.concatenate([start, rng.integers(3, VOCABULARY, size=length)]))
    lengths = [len(segment) for segment in segments]
    position = np.concatenate([np.arange(length) for length in lengths])
    said = (position >= prompt) & ((position - prompt) % TURN < SAID)
    n = len(position)
    return Batch(
        ids_L=np.concatenate(segments).astype(np.int32),
        logprob_L=np.full(n, -5, np.float32),
        advantage_L=rng.normal(size=n).astype(np.float32),
        policy_weight_L=(said / said.sum()).astype(np.float32),
        ce_weight_L=np.zeros(n, np.float32),
        position_L=position.astype(np.int32),
        segment_L=np.repeat(np.arange(len(segments)), lengths).astype(np.int32),
        turn_L=(np.maximum(position - prompt, 0) // TURN).astype(np.int32),
        origin_L=np.zeros(n, np.uint8),
    )


def nodes_of(batch: Batch) -> int:
    """Distinct prefixes."""
    seen: set[bytes] = set()
    for start, end in _bounds(batch):
        ids = batch.ids_L[start:end].tobytes()
        seen.update(ids[: 4 * (token + 1)] for token in range(end - start))
    return len(seen)


def _bounds(batch: Batch) -> Iterator[tuple[int, int]]:
    starts = np.flatnonzero(batch.position_L == 0)
    return zip(starts.tolist(), [*starts[1:].tolist(), batch.n_tokens], strict=True)


def learner(model: LanguageModel, way: str) -> TorchLearner:
    """A learner that packs so: a packing, or a kernel that computes the attention of trees."""
    if way in ("rows", "auto"):
        packing: Packing = "rows" if way == "rows" else "auto"
        return TorchLearner(model, lr=1e-3, packing=packing)
    made = TorchLearner(model, lr=1e-3, packing="tree")
    made._passes._packer._kernels = ["flex" if way == "flex" else "blocks"]
    return made


def seconds(learners: dict[str, TorchLearner], batch: Batch, repeats: int) -> dict[str, float]:
    """The median time of one gradient, each way in turn, after one that is not counted: it compiles, and compares."""
    times: dict[str, list[float]] = {way: [] for way in learners}
    for _ in range(repeats + 1):
        for way, one in learners.items():
            began = now()
            one.forward_backward(batch, PolicyLoss())
            times[way].append(now() - began)
            for weight in one.model.parameters():
                weight.grad = None
    return {way: statistics.median(taken[1:]) for way, taken in times.items()}


def now() -> float:
    """Processor seconds; on a GPU seconds of the clock, when it has done what it was given."""
    if DEVICE.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def measured(shape: tuple[int, int, int, int, float], sizes: dict[str, int], repeats: int) -> dict[str, Any]:
    """One shape, in every way."""
    tokenizer = train_tokenizer([], vocabulary=VOCABULARY)
    batch = batch_of(*shape, np.random.default_rng(0))
    ways = ["rows", *kernels_on(DEVICE), "auto"]
    learners = {way: learner(random_model(tokenizer, **sizes, seed=0).to(DEVICE), way) for way in ways}  # type: ignore[attr-defined]
    took = seconds(learners, batch, repeats)
    nodes = nodes_of(batch)
    settled = learners["auto"]._passes._packer.settle(batch)
    return {
        "tokens": batch.n_tokens,
        "nodes": nodes,
        "bound": batch.n_tokens / nodes,
        "seconds": took,
        "rows_over": {way: took["rows"] / took[way] for way in ways[1:]},
        "auto_is": {"packing": settled.packing, "kernel": settled.kernel},
    }


def main(arguments: Sequence[str]) -> None:
    """A line per shape."""
    gpu = DEVICE.type == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1024 if gpu else 256)
    parser.add_argument("--layers", type=int, default=12 if gpu else 4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="one small shape")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    device = torch.cuda.get_device_name() if gpu else "cpu"
    sizes = {
        "layers": chosen.layers,
        "width": chosen.width,
        "heads": chosen.width // (64 if gpu else 32),
        "context": 8192,
    }
    shapes = SMALL_SHAPES if chosen.small else GPU_SHAPES if gpu else SHAPES
    print(f"width {chosen.width}, {chosen.layers} layers, {device}; the median of {chosen.repeats} gradients\n")
    found = {}
    for name, shape in shapes.items():
        found[name] = one = measured(shape, sizes, chosen.repeats)
        took = ", ".join(f"{way} {s:.3f} s" for way, s in one["seconds"].items())
        gains = ", ".join(
            f"rows / {way} {gain:.2f} ({gain / one['bound']:.0%} of the bound)"
            for way, gain in one["rows_over"].items()
        )
        print(f"{name}: {one['tokens']:,} tokens, {one['nodes']:,} in the tree, bound {one['bound']:.2f}")
        print(f"    {took}\n    {gains}", flush=True)
    command = f"python -m benchmarks.packing --width {chosen.width} --layers {chosen.layers} --repeats {chosen.repeats}"
    command += " --small" * chosen.small
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    whole = {"command": command, "device": device, "machine": machine(), "versions": versions, "shapes": found}
    out = chosen.out or RESULTS / f"packing_{device.replace(' ', '_')}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(whole, indent=1) + "\n")
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])
