"""Records of warm starts."""

from typing import Any

from turngate.trainer.evaluation.validation_passes import TriedPass, TriedPasses, WarmStartRecord


def one(number: int, sampled: float, greedy: float, phase: Any = "constant") -> TriedPass:
    return TriedPass(number=number, phase=phase, cross_entropy=0.5, sampled=sampled, greedy=greedy, unusable=0)


def entry(*tried: TriedPass, converged: bool = True, lr: float = 1e-3) -> TriedPasses:
    return TriedPasses(lr=lr, episodes_per_batch=8, patience=4, converged=converged, tried=tried)


def passes(*tried: TriedPass, converged: bool = True, **changes: Any) -> WarmStartRecord:
    """The record of one learning rate and batch size."""
    settings = {"demonstrations": 9, "split": "heldout", "temperature": 1.0, "tasks": 100, "left_out": 0}
    grid = (entry(*tried, converged=converged),)
    return WarmStartRecord(**{**settings, "grid": grid, **changes})
