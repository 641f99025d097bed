"""The conversation between an agent and the user that it serves, and the user's knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from turngate.types import JSON

ENDINGS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Marks by which a user with instructions ends the talk: content, handed over, or without instructions for the
question; the marks of tau-bench and tau2-bench."""


class UserSheet(BaseModel):
    """The wish and knowledge of a simulated user. The agent never sees it; the user tells it what it asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    wish: str
    """The user's wish, in a sentence that they say themselves."""
    facts: Mapping[str, str] = Field(default_factory=dict)
    """Topic → the user's answer to a question about it."""
    words: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Topic → other words by which one asks for it; its name is always one."""
    instructions: str = ""
    """Who the user is, what they want and how they behave, as free text that they keep to themselves; where it is
    given, the agent speaks first, and the user ends the talk with one of ``ENDINGS``."""


class Exchange(NamedTuple):
    """A message of the agent, and the user's reply."""

    agent: str
    user: str


class UserReply(NamedTuple):
    """A user's reply, and the change of their emotion (see ``mood.py``).

    ``facts``: further facts that are recorded about the reply, name → value.
    """

    text: str
    change: int
    facts: Mapping[str, JSON] = {}
