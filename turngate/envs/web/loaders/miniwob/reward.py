"""From a page's raw reward to ours: the threshold for a right answer, and a decay with steps instead of seconds."""

from __future__ import annotations

from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["raw", "partial", "binary"]
"""raw: the page's own number in [-1, 1]. partial: the same, but 0 for negative ones and 1 from the reward of a right
answer on. binary: 1 for a right answer, else 0."""

TOLERANCE = 1e-6
"""Pages add up thirds and fifths, so that a right answer may miss its reward by a rounding error."""


def is_right(raw: float | None, full: float) -> bool:
    """Whether the raw reward is that of a right answer. ``raw``: None if the page has not ended: no answer."""
    return raw is not None and raw >= full - TOLERANCE


def reward_of(
    raw: float | None, *, full: float = 1.0, steps: int = 0, limit: int | None = None, mode: Mode = "binary"
) -> float:
    """reward = worth(raw) · max(0, 1 − steps / limit), where the page itself takes seconds for steps.

    worth: raw → raw; partial → min(max(raw, 0) / full, 1); binary → 1 if raw ≥ full else 0. As in the pages, only a
    positive worth decays: a late failure is not better than an early one. ``steps``: actions that went before the one
    that ended the page, so that an answer in one action is paid in full. ``limit``: actions after which nothing is
    paid; None: no decay. A page that has not ended (``raw`` None) is worth −1 in mode raw, as its time-out is, and 0
    else.

    Source: ``core.endEpisode`` of MiniWoB++, with the decay of its parameter ``time_proportional``.
    """
    if raw is None:
        return -1.0 if mode == "raw" else 0.0
    if mode == "raw":
        worth = raw
    elif mode == "partial":
        worth = 1.0 if is_right(raw, full) else max(raw, 0.0) / full
    else:
        worth = float(is_right(raw, full))
    if worth <= 0 or limit is None:
        return worth
    return worth * max(0.0, 1.0 - steps / limit)
