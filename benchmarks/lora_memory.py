"""One training step of adapters on a model of the shape of Qwen3-0.6B: the most memory, and the seconds.

    OMP_NUM_THREADS=2 python -m benchmarks.lora_memory [--siblings 4] [--turns 2] [--whole] [--small]

The weights are random, in float32: 28 layers of width 1024, 16 heads of 128 dimensions, 8 of them for keys, 151,936
entries, 596 million weights. Each of the siblings has a prompt of 64 tokens and that many turns of 48 tokens, half of
them trained. A step is a forward pass that measures log-probabilities, a gradient, an update and the merged weights
that a sampler would be given. ``--keep-activations`` turns gradient checkpointing off, ``--whole`` trains all weights
instead, ``--small`` has two narrow layers.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.packing import batch_of
from turngate.trainer.learner import Lora
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner


def shape(*, small: bool) -> Qwen3Config:
    """That of Qwen3-0.6B, or a small one."""
    sizes: dict[str, Any] = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28}
    if small:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    sizes["vocab_size"] = 5000 if small else 151_936
    return Qwen3Config(
        **sizes, num_attention_heads=16, num_key_value_heads=8, head_dim=16 if small else 128, tie_word_embeddings=True
    )


def step(learner: TorchLearner, siblings: int, turns: int) -> tuple[int, float]:
    """One training step: tokens of the batch, and seconds."""
    batch = batch_of(1, 64, turns, siblings, 0.0, np.random.default_rng(0))
    began = time.perf_counter()
    learner.logprobs(batch)
    learner.forward_backward(batch, PolicyLoss())
    learner.optim_step()
    for name in learner.weights():  # one after the other, as a sampler copies them
        _ = learner.weights()[name]
    return batch.n_tokens, time.perf_counter() - began


def main(arguments: Sequence[str]) -> None:
    """Two lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--siblings", type=int, default=4)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--keep-activations", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args(arguments)
    model = Qwen3ForCausalLM(shape(small=chosen.small))
    learner = TorchLearner(
        model,
        lr=1e-4,
        lora=None if chosen.whole else Lora(),
        checkpoint_activations=not chosen.keep_activations,
        packing="rows",
    )
    every = list(model.parameters())
    trained = sum(one.numel() for one in every if one.requires_grad)
    print(f"{sum(one.numel() for one in every):,} weights, of which {trained:,} are trained")
    tokens, seconds = step(learner, chosen.siblings, chosen.turns)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{tokens:,} tokens: {seconds:.1f} s, at most {peak:.2f} GiB resident, the model and torch included")


if __name__ == "__main__":
    main(sys.argv[1:])
