"""Learning from trees of shared prefixes against padded rows: seconds of one update's gradient.

    OMP_NUM_THREADS=1 python -m benchmarks.packing [--width 256] [--layers 4] [--repeats 5]

Each shape is a task whose siblings share a prompt of P tokens, then go their own way for K turns of 48 tokens, 24 of
them written by the agent; "alike" is the mix of the demo, in which 62 % of the siblings are equal to the last token.
Both ways are timed in turn. The bound is the ratio of tokens that go through the model, padding of rows left out: what
would be gained if attention cost nothing. "auto" is what the learner chooses.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from turngate.agents.protocols import LanguageModel
from turngate.agents.tiny import random_model, train_tokenizer
from turngate.trainer.loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.packing import Packing
from turngate.types import Batch

VOCABULARY = 259
SHAPES = {
    "prompt 256, 4 turns, G = 8": (4, 256, 4, 8, 0.0),
    "prompt 512, 8 turns, G = 8": (2, 512, 8, 8, 0.0),
    "prompt 256, 2 turns, G = 8, alike": (8, 256, 2, 8, 0.62),
    "prompt 24, 3 turns, G = 8": (16, 24, 3, 8, 0.0),
    "prompt 8, 1 turn, G = 4": (32, 8, 1, 4, 0.0),
}
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


def learner(model: LanguageModel, packing: Packing) -> TorchLearner:
    """A learner that packs so."""
    return TorchLearner(model, lr=1e-3, packing=packing)


def seconds(learners: dict[Packing, TorchLearner], batch: Batch, repeats: int) -> dict[Packing, float]:
    """The median time of one gradient, each way in turn, after one that is not counted."""
    times: dict[Packing, list[float]] = {packing: [] for packing in learners}
    for _ in range(repeats + 1):
        for packing, one in learners.items():
            began = time.process_time()
            one.forward_backward(batch, PolicyLoss())
            times[packing].append(time.process_time() - began)
            for weight in one.model.parameters():
                weight.grad = None
    return {packing: statistics.median(taken[1:]) for packing, taken in times.items()}


def main(arguments: Sequence[str]) -> None:
    """A line per shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args(arguments)
    tokenizer = train_tokenizer([], vocabulary=VOCABULARY)
    print(
        f"width {chosen.width}, {chosen.layers} layers; processor seconds, the median of {chosen.repeats} gradients\n"
    )
    print("| shape | tokens | in the tree | rows | tree | auto | rows / tree | of the bound | rows / auto |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        batch = batch_of(*shape, np.random.default_rng(0))
        ways: tuple[Packing, ...] = ("rows", "tree", "auto")
        sizes = {"layers": chosen.layers, "width": chosen.width, "heads": chosen.width // 32, "context": 2048}
        learners = {way: learner(random_model(tokenizer, **sizes, seed=0), way) for way in ways}
        took, nodes = seconds(learners, batch, chosen.repeats), nodes_of(batch)
        gain, bound = took["rows"] / took["tree"], batch.n_tokens / nodes
        print(
            f"| {name} | {batch.n_tokens:,} | {nodes:,} | {took['rows']:.3f} | {took['tree']:.3f} | {took['auto']:.3f} "
            f"| {gain:.2f} | {gain / bound:.0%} of {bound:.2f} | {took['rows'] / took['auto']:.2f} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
