"""Turns that somebody else takes before the policy does."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.types import Guidance


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """The first ``turns`` of an episode, which the environment is given instead of asking the policy.

    Their tokens are marked ``Source.GUIDE``, so they carry no credit. ``keys``: the state keys that the environment has
    to show after each; empty = not compared. ``whole``: the episode ends with these turns; else the policy goes on.
    ``guidance`` says who acts (``source``: "oracle", "guide", "expert", "self"), by how much (``level``: usually the
    number of turns), and which text, if any, is inserted.
    """

    turns: tuple[str, ...]
    guidance: Guidance
    keys: tuple[str, ...] = ()
    whole: bool = False
