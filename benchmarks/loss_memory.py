"""How much memory the loss takes beside the model, by the size of the vocabulary.

    OMP_NUM_THREADS=1 python -m benchmarks.loss_memory [--tokens 1000] [--vocabularies 32000 151936] [--width 256]

One gradient of a learner on a model of one layer whose adapters are trained, so that what grows is the loss and not the
gradient of the head. Each measurement is a process of its own: the highest resident memory of the gradient, less what
was resident before it. "in pieces" is how the learner works; "at once" lets all logits exist, as a plain loss does.
Linux only, because the kernel's mark of the peak is set back after the model was made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.packing import batch_of
from turngate.trainer.learner import Lora
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner


def resident(mark: str) -> float:
    """MiB of resident memory: now (``VmRSS``), or at its peak since ``forget_peak`` (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(mark)) / 1024


def forget_peak() -> None:
    """Set the mark of the peak back to what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def measure(vocabulary: int, tokens: int, width: int, *, at_once: bool) -> float:
    """MiB that one gradient takes at its peak, in this process."""
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=width,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=width // 4,
        tie_word_embeddings=True,
    )
    learner = TorchLearner(Qwen3ForCausalLM(config), lr=1e-3, lora=Lora(), packing="rows")
    if at_once:
        learner._passes._predictor._most = 2**62
    batch = batch_of(1, 8, -(-tokens // (8 * 24)), 8, 0.0, np.random.default_rng(0))
    learner.forward_backward(
        batch_of(1, 8, 1, 1, 0.0, np.random.default_rng(0)), PolicyLoss()
    )  # what is made at the first use
    forget_peak()
    before = resident("VmRSS")
    learner.forward_backward(batch, PolicyLoss())
    return resident("VmHWM") - before


def elsewhere(vocabulary: int, tokens: int, width: int, *, at_once: bool) -> float:
    """``measure`` in a process of its own."""
    arguments = ["--measure", str(vocabulary), "--tokens", str(tokens), "--width", str(width)]
    command = [sys.executable, "-m", "benchmarks.loss_memory", *arguments, *(["--at-once"] if at_once else [])]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main(arguments: Sequence[str]) -> None:
    """A line per vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[32_000, 151_936])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        torch.set_num_threads(1)
        print(json.dumps(measure(chosen.measure, chosen.tokens, chosen.width, at_once=chosen.at_once)))
        return
    print(f"{chosen.tokens} trained tokens, width {chosen.width}, adapters; MiB at the peak of one gradient\n")
    print("| vocabulary | in pieces | at once |\n|---|---|---|")
    for vocabulary in chosen.vocabularies:
        ways = [elsewhere(vocabulary, chosen.tokens, chosen.width, at_once=way) for way in (False, True)]
        print(f"| {vocabulary:,} | {ways[0]:,.0f} | {ways[1]:,.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
