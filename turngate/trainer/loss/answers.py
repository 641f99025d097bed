"""Checks what the parts of a loss return before it is used: needs, values and factors of tokens, and terms.

They are called once per pass over a batch, not per token, so reading costs nothing beside the pass. ``act`` is what is
called on a pass: the part, or what its ``survey`` returned. Every function raises PartError for what a user's part
raises, and for an answer that cannot be used. Whether values are finite is for the learner to find out, which keeps the
batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

from turngate.part_calls import Unusable, call_part, instance_of, metrics_of, short_result
from turngate.parts import Part, when_used
from turngate.trainer.loss.base import Correction, Gain, GainOf, Objective, Penalty, PenaltyOf, ShapedOf, Shaping
from turngate.trainer.loss.tokens import Memory, Needs, Tokens
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

Needing: TypeAlias = Objective | Penalty | Shaping
_GAIN = "a Gain whose value and limited are tensors with one number per token, [S]"
_VALUES = "a tensor with one number per token, [S]"
_FACTOR = f"{_VALUES}, none below 0"
_TERM = "a pair: a tensor that is one number, and a dictionary of numbers by name"
_SURVEYED = "a pair: what is called on the passes, and a dictionary of numbers by name"


def needs_of_part(part: Needing) -> Needs:
    """``part.needs``."""
    found: Needs = call_part(
        part.noun, lambda: part.needs, take=instance_of(Needs), must="Needs(…)", of=_getter(part, "needs")
    )
    return found


def gain_of_tokens(part: Objective, act: GainOf, tokens: Tokens) -> Gain:
    """The objective of each token."""
    return call_part(part.noun, act, tokens, take=partial(_gain, tokens=tokens), must=_GAIN, of=part.__call__)


def factor_of_tokens(part: Correction, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """The factor of each token: [S]."""
    return call_part(part.noun, part.__call__, log_rho, tokens, take=partial(_factor, tokens=tokens), must=_FACTOR)


def term_of_tokens(part: Penalty, act: PenaltyOf, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
    """What a penalty adds, and its metrics."""
    return call_part(part.noun, act, tokens, take=_term, must=_TERM, of=part.__call__)


def value_of_tokens(part: Shaping, act: ShapedOf, tokens: Tokens) -> torch.Tensor:
    """The value of each token: [S]."""
    return call_part(part.noun, act, tokens, take=partial(_of_each, tokens=tokens), must=_VALUES, of=part.__call__)


def surveyed_objective(part: Objective, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
    """The function that replaces ``part`` on the passes of a batch, and its memory."""
    return call_part(part.noun, part.survey, tokens, memory, seed, take=_surveyed, must=_SURVEYED)


def surveyed_penalty(part: Penalty, tokens: Tokens, memory: Memory, seed: int) -> tuple[PenaltyOf, Memory]:
    """The same for a penalty."""
    return call_part(part.noun, part.survey, tokens, memory, seed, take=_surveyed, must=_SURVEYED)


def surveyed_shaping(part: Shaping, tokens: Tokens) -> ShapedOf:
    """The function that replaces ``part`` on the passes of a batch."""
    return call_part(part.noun, part.survey, tokens, take=_called, must="what is called on the passes")


def _gain(found: Any, *, tokens: Tokens) -> Gain:
    if not isinstance(found, Gain):
        raise Unusable
    _of_each(found.value, tokens=tokens, name="value")
    _of_each(found.limited, tokens=tokens, name="limited")
    return found


def _factor(found: Any, *, tokens: Tokens) -> torch.Tensor:
    factor = _of_each(found, tokens=tokens)
    if (factor < 0).any():
        raise Unusable(f"its least is {float(factor.min()):g}")
    return factor


def _term(found: Any) -> tuple[torch.Tensor, Metrics]:
    value, metrics = found
    if not isinstance(value, torch.Tensor) or value.shape:
        raise Unusable(f"what it adds is {_form(value)}")
    return value, metrics_of(metrics)


def _surveyed(found: Any) -> tuple[Callable[[Tokens], Any], Memory]:
    act, memory = found
    return _called(act), metrics_of(memory)


def _called(act: Any) -> Callable[[Tokens], Any]:
    if not callable(act):
        raise Unusable(f"{short_result(act)} cannot be called")
    called: Callable[[Tokens], Any] = act
    return called


def _of_each(found: Any, *, tokens: Tokens, name: str = "it") -> torch.Tensor:
    """A tensor with one number per token."""
    if not isinstance(found, torch.Tensor) or found.shape != tokens.logprob.shape:
        raise Unusable(f"{name} is {_form(found)}, and there are {len(tokens.logprob)} tokens")
    return found


def _form(found: object) -> str:
    return f"a tensor of shape {list(found.shape)}" if isinstance(found, torch.Tensor) else short_result(found)


def _getter(part: Part, name: str) -> Callable[..., object]:
    """The method behind a property of ``part``; for a plain attribute the one that is called on tokens."""
    found = inspect.getattr_static(type(part), name)
    return MethodType(found.fget, part) if isinstance(found, property) and found.fget else part.__call__  # type: ignore[operator]
