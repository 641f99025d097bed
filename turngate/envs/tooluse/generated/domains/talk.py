"""What was said between an agent and the user that it serves, and what the user knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from turngate.types import JSON

ENDINGS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""What a user with instructions says to end the talk: content, handed over, or without instructions for what is asked;
the marks of tau-bench and tau2-bench."""


class UserSheet(BaseModel):
    """What a simulated user wants and knows. The agent never sees it; it hears what it asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    wish: str
    """What the user wants, in a sentence that they say themselves."""
    facts: Mapping[str, str] = Field(default_factory=dict)
    """Topic → what the user says when they are asked for it."""
    words: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Topic → other words by which one asks for it; its name is always one."""
    instructions: str = ""
    """Who the user is, what they want and how they behave, as free text that they keep to themselves; where it is
    given, the agent speaks first, and the user ends the talk with one of ``ENDINGS``."""


class Exchange(NamedTuple):
    """What the agent said, and what the user replied."""

    agent: str
    user: str


class UserReply(NamedTuple):
    """What a user says, and by how much it changes their emotion (see ``mood.py``).

    ``facts``: what else is recorded about the reply, name → value.
    """

    text: str
    change: int
    facts: Mapping[str, JSON] = {}
