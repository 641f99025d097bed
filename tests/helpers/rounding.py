"""Tolerances for numbers that torch computes, which hold on every processor and still find what is wrong.

A test that compares two ways of computing the same thing says what is computed, and the tolerance follows from it. It
is a share: of the largest expected number where numbers are compared one by one, of a norm where vectors are.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from turngate.agents.rounding import FLOAT32, agreement, pass_rounding, rounding

MAGNIFIED = 4
"""For steps that magnify errors, of which the expectation knows nothing: the softmax of large scores, the norm of a
short vector."""
WORST = 4
"""For the worst of thousands of numbers, 4 standard deviations away. A norm is an average, which needs none of it."""


def tolerance(dtype: torch.dtype = torch.float32, *, depth: int, terms: int = 1) -> float:
    """``16 · √(depth/6 · (eps² + terms · eps_sum²))``, at most where another vector begins to be meant.

    ``depth``: results that are made from each other. ``terms``: the longest sum among them; see ``rounding``.
    """
    return _safe(rounding(torch.finfo(dtype).eps, depth=depth, terms=terms), WORST * MAGNIFIED)


def pass_tolerance(model: Any, *, tokens: int, passes: int = 1, norms: bool = False) -> float:
    """The same of what ``model`` computes of so many tokens, in its precision: states and log-probabilities in one of
    ``passes``, the gradient in 2. ``norms``: for distances of whole vectors, a quarter of it. Norms and rotations are
    computed in float32 in float64 too."""
    eps = max(FLOAT32, torch.finfo(next(model.parameters()).dtype).eps)
    rounded = pass_rounding(model.config, eps, tokens=tokens, passes=passes)
    return _safe(rounded, MAGNIFIED if norms else WORST * MAGNIFIED)


def _safe(rounded: float, factor: float) -> float:
    return min(factor * rounded, agreement(rounded))


_TINY = SimpleNamespace(hidden_size=32, num_hidden_layers=2)
PASS, GRADIENT = (_safe(pass_rounding(_TINY, FLOAT32, tokens=256, passes=n), WORST * MAGNIFIED) for n in (1, 2))
"""``pass_tolerance`` of ``models.model()`` and others of its size, in batches of some hundred tokens: 5e-5, 7e-5."""


def assert_alike(found: Any, expected: Any, within: float) -> None:
    """Every number within ``within`` times the largest expected one; infinite where that is infinite."""
    found, expected = _array(found), _array(expected)
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(found, expected, atol=within * finite.max(initial=0), rtol=0)


def assert_logprobs(found: Any, expected: Any, within: float) -> None:
    """Log-probabilities, or what is made of them, in nats: within ``within`` nats each.

    Their errors are those of logits, which are of the order of one in the models of the tests. Compared with
    log-probabilities, which contain the logarithm of the vocabulary, the tolerance would be several times as wide.
    """
    np.testing.assert_allclose(_array(found), _array(expected), atol=within, rtol=0)


def _array(values: Any) -> np.ndarray:
    return values.detach().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
