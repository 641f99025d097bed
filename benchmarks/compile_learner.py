"""Whether torch.compile makes a gradient cheaper on this device, and after how many gradients it has paid.

    OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 python -m benchmarks.compile_learner [--batches 6] [--repeats 2]

The model is that of examples/sql_demo.toml, and each batch is a half of its step: 8 tasks with 8 siblings, prompts and
turns of other lengths in each, so that nothing is compiled for one shape. Compiled are, one at a time:

    mlp      the feed-forward part and the norms of each layer, which tokens pass on their own
    head     from states to log-probabilities and entropies (``TokenPredictor``)
    layers   whole layers but for the attention along trees, which has no fixed number of blocks
    rows     whole layers, with the batch as padded rows

Each is timed in turn with the same learner uncompiled, in processor seconds of this process and of the compilers that
it starts. Needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.packing import batch_of
from turngate.agents.tiny import random_model, train_tokenizer
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch import tree_attention
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Batch

MODEL = {"layers": 2, "width": 128, "heads": 4, "context": 1024}
VOCABULARY = 700


def batches(n: int, tasks: int) -> list[Batch]:
    """Batches of other sizes; about every second sibling is equal to the one before it."""
    rng = np.random.default_rng(0)
    return [batch_of(tasks, int(rng.integers(120, 220)), int(rng.integers(2, 5)), 8, 0.5, rng) for _ in range(n)]


def compile_mlp(learner: TorchLearner, settings: dict[str, Any]) -> None:
    for layer in learner.model.base_model.layers:
        for part in (layer.mlp, layer.input_layernorm, layer.post_attention_layernorm):
            part.compile(**settings)


def compile_head(learner: TorchLearner, settings: dict[str, Any]) -> None:
    predictor: Any = learner._passes._predictor
    predictor._measure = torch.compile(predictor._measure, **settings)


def compile_layers(learner: TorchLearner, settings: dict[str, Any]) -> None:
    for layer in learner.model.base_model.layers:
        layer.compile(**settings)


PARTS: dict[str, Callable[[TorchLearner, dict[str, Any]], None]] = {
    "mlp": compile_mlp,
    "head": compile_head,
    "layers": compile_layers,
    "rows": compile_layers,
}


def processor_s() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def gradient_s(learner: TorchLearner, batch: Batch) -> float:
    began = processor_s()
    learner.forward_backward(batch, PolicyLoss())
    learner.model.zero_grad()  # type: ignore[attr-defined]
    return processor_s() - began


def compare(part: str, given: Sequence[Batch], *, repeats: int, backend: str) -> dict[str, float]:
    """Seconds of a gradient without and with compiling, and what compiling costs, over the batches."""
    tokenizer = train_tokenizer([], vocabulary=VOCABULARY)
    packing: Any = "rows" if part == "rows" else "auto"
    plain, compiled = (TorchLearner(random_model(tokenizer, **MODEL, seed=0), lr=1e-3, packing=packing) for _ in "ab")
    PARTS[part](compiled, {"dynamic": True, "backend": backend})
    first = [sum(gradient_s(one, batch) for batch in given) for one in (plain, compiled)]
    pairs = [(gradient_s(plain, batch), gradient_s(compiled, batch)) for _ in range(repeats) for batch in given]
    plain_s, compiled_s = (statistics.mean(column) for column in zip(*pairs, strict=True))
    ratios = [ours / theirs for theirs, ours in pairs]
    return {
        "plain_s": plain_s,
        "compiled_s": compiled_s,
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "compiling_s": first[1] - compiled_s * len(given),
    }


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--backend", default="inductor", help="who makes the code")
    chosen = parser.parse_args(arguments)
    given = batches(chosen.batches, chosen.tasks)
    traced = tree_attention.tree_attention
    tree_attention.tree_attention = torch.compiler.disable(traced)
    try:
        table(chosen, given)
    finally:
        tree_attention.tree_attention = traced


def table(chosen: argparse.Namespace, given: Sequence[Batch]) -> None:
    """A line per part."""
    print(f"{len(given)} batches of {sum(batch.n_tokens for batch in given) / len(given):,.0f} tokens")
    print("| compiled | plain, s | compiled, s | ratio of pairs, median (range) | compiling, s | pays after |")
    print("|---|---|---|---|---|---|")
    for part in chosen.parts:
        found = compare(part, given, repeats=chosen.repeats, backend=chosen.backend)
        saved = found["plain_s"] - found["compiled_s"]
        pays = f"{found['compiling_s'] / saved:,.0f} gradients" if saved > 0 else "never"
        print(
            f"| {part} | {found['plain_s']:.2f} | {found['compiled_s']:.2f} | {found['ratio']:.2f} "
            f"({found['lowest']:.2f} to {found['highest']:.2f}) | {found['compiling_s']:.0f} | {pays} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
