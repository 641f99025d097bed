"""Tokens written by hand, in float64, so that tests of losses need no model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from turngate.trainer.loss.tokens import Tokens

torch.set_num_threads(1)


def tensor(values: Any, *, gradient: bool = False) -> torch.Tensor:
    return torch.tensor(np.asarray(values, float), dtype=torch.float64, requires_grad=gradient)


def tokens(
    logprob: Sequence[float],
    *,
    sampled: Sequence[float] | None = None,
    advantage: Sequence[float] | None = None,
    weight: Sequence[float] | None = None,
    ce: Sequence[float] | None = None,
    entropy: Sequence[float] | None = None,
    segment: Sequence[int] | None = None,
    turn: Sequence[int] | None = None,
    place: Sequence[int] | None = None,
    total: float = 1.0,
    **optional: Any,
) -> Tokens:
    """One token per entry of ``logprob``; one trajectory of one turn unless said otherwise."""
    n = len(logprob)

    def column(values: Sequence[float] | None, default: float) -> torch.Tensor:
        return tensor([default] * n if values is None else values)

    def numbers(values: Sequence[int] | None, default: Sequence[int]) -> torch.Tensor:
        return torch.tensor(list(default if values is None else values), dtype=torch.long)

    return Tokens(
        logprob=tensor(logprob, gradient=True),
        entropy=tensor([0.0] * n if entropy is None else entropy, gradient=True),
        sampled_logprob=column(sampled, 0.0),
        advantage=column(advantage, 0.0),
        policy_weight=column(weight, 1.0),
        ce_weight=column(ce, 0.0),
        segment=numbers(segment, [0] * n),
        turn=numbers(turn, [0] * n),
        place=numbers(place, range(n)),
        total=total,
        **{name: tensor(values, gradient=name in GRADIENT) for name, values in optional.items()},
    )


GRADIENT = {"nucleus_entropy", "candidate_logprob", "plain_logprob"}


def part(whole: Tokens, at: Any) -> Tokens:
    """Some of the tokens, in the given order, with gradients of their own."""
    index = torch.as_tensor(np.asarray(at), dtype=torch.long)
    columns = {}
    for name in Tokens.__dataclass_fields__:
        value = getattr(whole, name)
        if isinstance(value, torch.Tensor):
            value = value.detach()[index].requires_grad_(value.requires_grad)
        columns[name] = value
    return Tokens(**columns)


def gradient(loss: Any, of: Tokens) -> np.ndarray:
    """∂loss/∂log π of each token."""
    value, _ = loss(of)
    (found,) = torch.autograd.grad(value, of.logprob, allow_unused=True)
    return np.zeros(len(of.logprob)) if found is None else found.numpy()


@st.composite
def batches(draw: st.DrawFn, *, proximal: bool = False, largest: float = 0.5) -> Tokens:
    """Two to nine tokens of up to three trajectories with up to two turns each, near the sampler's policy."""
    n = draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    segment = np.sort(rng.integers(3, size=n))
    turn = np.concatenate([np.sort(rng.integers(2, size=(segment == s).sum())) for s in range(3)])
    logprob = -rng.random(n) * 3 - 0.01
    far = {"proximal_logprob": logprob + rng.normal(size=n) * largest} if proximal else {}
    return tokens(
        logprob,
        sampled=logprob + rng.normal(size=n) * largest,
        advantage=np.where(rng.random(n) < 0.15, 0.0, rng.normal(size=n)),
        weight=np.where(rng.random(n) < 0.15, 0.0, rng.random(n)),
        entropy=rng.random(n),
        segment=segment,
        turn=turn,
        **far,
    )
