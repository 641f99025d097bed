"""How far two ways of computing the same pass differ by rounding alone, and from where on one of them is wrong.

Nothing here was measured on a machine: which instructions a processor has, and in which order a library adds, changes
the result of a sum within what its precision and its length allow.
"""

from __future__ import annotations

import math

from turngate.agents.architecture import HubSettings

FLOAT32 = 2.0**-23
"""Spacing of float32 at 1; shorter formats are multiplied as they are, and added up in float32."""
STAGES = 8
"""Results of a layer that are made from each other, each rounded: norm, queries and keys, scores, the attended values,
their projection, norm, the inner layer, its projection."""


def rounding(eps: float, *, depth: int, terms: int = 1) -> float:
    """Expected ‖x − y‖ / ‖y‖ of two ways to compute the same vector: ``√(depth/6 · (eps² + terms · eps_sum²))``.

    ``eps``: spacing of the format at 1 (``torch.finfo(dtype).eps``). ``depth``: results that are made from each other.
    ``terms``: products that each of them adds up, in float32 or better, so eps_sum = min(eps, 2⁻²³).

    An error of rounding is uniform within ±eps/2 of its number and has the variance eps²/12; errors are independent,
    so their variances add, over the additions of a sum, over the results, and over the two ways. Source: the
    probabilistic model of Higham and Mary, https://doi.org/10.1137/18M1226312. It knows nothing of steps that magnify
    an error, such as a softmax of large scores or the norm of a short vector.
    """
    return math.sqrt(depth / 6 * (eps**2 + terms * min(eps, FLOAT32) ** 2))


def pass_rounding(config: HubSettings, eps: float, *, tokens: int, passes: int = 1) -> float:
    """``rounding`` of what a model computes of ``tokens`` tokens; a gradient takes two ``passes``, there and back."""
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    terms = max(config.hidden_size, inner, tokens)
    return rounding(eps, depth=passes * STAGES * config.num_hidden_layers, terms=terms)


def agreement(rounded: float) -> float:
    """The largest ‖x − y‖ / ‖y‖ that counts as the same, where ``rounded`` is expected: ``√rounded``.

    Vectors that have nothing to do with each other differ by about 1. The bound is the geometric mean of that and of
    ``rounded``: as many times larger than rounding as it is smaller than the distance of unrelated vectors.
    """
    return math.sqrt(rounded)
