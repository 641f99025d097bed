"""Memory of each kind of GPU of a plan, divided from the estimate of ``turngate doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turngate.run.doctor.needed_memory import FLOAT, LEARNER_PASS, SAMPLER_PASS
from turngate.run.plan.stage_seconds import Split

DIVIDED = ("weights", "gradients", "optimizer")
"""What learners divide among them; of the rest each has its own."""
SAMPLED = ("sampler's copy", "key-value cache", SAMPLER_PASS)
START = "whole model, as it is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The most bytes that one kind of GPU needs at once, by purpose."""

    role: str
    parts: Mapping[str, int]

    @property
    def most(self) -> int:
        """Their sum."""
        return sum(self.parts.values())

    @property
    def largest(self) -> str:
        """The purpose that takes most."""
        return max(self.parts, key=lambda part: self.parts[part])


def memory_per_gpu(needed: Mapping[str, int], weights: int, split: Split) -> list[GpuMemory]:
    """The kinds of GPUs, ``needed`` being the estimate for one that does everything.

    Each of G learners holds 1/G of weights, gradients and optimizer. A GPU that samples and learns holds the larger of
    the two passes. The first learner begins with the whole model in float32, beside the sampler's copy where it samples
    too.
    """
    mine = {part: needed[part] // split.learning for part in DIVIDED}
    copy = {"sampler's copy": needed["sampler's copy"]} if split.shared else {}
    kinds = [GpuMemory(role="first GPU, at the start", parts={START: FLOAT * weights, **copy})]
    if split.shared:
        larger = max((LEARNER_PASS, SAMPLER_PASS), key=lambda part: needed[part])
        parts = {part: size for part, size in needed.items() if part in (*SAMPLED[:2], larger)}
        return [GpuMemory(role="every GPU", parts=mine | parts), *kinds]
    learning = GpuMemory(role="a GPU that learns", parts=mine | {LEARNER_PASS: needed[LEARNER_PASS]})
    sampling = GpuMemory(role="a GPU that samples", parts={part: needed[part] for part in SAMPLED})
    return [learning, sampling, *kinds]


def fits(kinds: list[GpuMemory], memory_bytes: float) -> bool:
    """Whether every GPU has room."""
    return all(kind.most <= memory_bytes for kind in kinds)
