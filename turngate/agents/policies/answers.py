"""Checks of a policy's answer, the tokens of one turn, before it is used."""

from __future__ import annotations

from functools import partial

import numpy as np

from turngate.agents.policies.base import Policy
from turngate.part_calls import Unusable, call_part_later, instance_of, short_result, text, whole
from turngate.types import Completion, EndedBy, Request

_TURN = "a Completion: ids_K and logprobs_K of the sampled tokens, equally many, ended_by, policy_version, text"


async def complete(policy: Policy, request: Request, *, n_tokens: int | None = None) -> Completion:
    """``Policy.complete``. ``n_tokens``: how many different ones there are; None = any number.

    Raises PartError for a turn that cannot be used.
    """
    return await call_part_later(
        "policy", policy.complete, request, take=partial(_completion, n_tokens=n_tokens), must=_TURN
    )


def _completion(found: object, n_tokens: int | None) -> Completion:
    said: Completion = instance_of(Completion)(found)
    ids_K, logprobs_K = said.ids_K, said.logprobs_K
    if ids_K.dtype.kind not in "iu" or logprobs_K.dtype.kind != "f":
        raise Unusable(f"ids_K are {ids_K.dtype}, logprobs_K are {logprobs_K.dtype}")
    if len(ids_K) and (ids_K.min() < 0 or (n_tokens is not None and ids_K.max() >= n_tokens)):
        raise Unusable(f"ids_K has {ids_K.min()}…{ids_K.max()}; the tokenizer has 0…{(n_tokens or 0) - 1}")
    if not np.isfinite(logprobs_K).all():
        raise Unusable(f"logprobs_K has {logprobs_K[~np.isfinite(logprobs_K)][0]}")
    if not isinstance(said.ended_by, EndedBy):
        raise Unusable(f"ended_by is {short_result(said.ended_by)}")
    whole(said.policy_version, "policy_version")
    text(said.text, "text")
    return said
