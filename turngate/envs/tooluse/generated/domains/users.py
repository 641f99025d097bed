"""Simulated users, as a config names them: ``user = {type = "scripted"}``.

A user tells what they are asked for and no more. How they reply depends on their sheet, on what was said before and on
nothing else, so a copy of an episode goes on as the episode would.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from turngate.envs.tooluse.generated.domains.talk import Exchange, UserReply, UserSheet
from turngate.parts import Part

STEP = 10
"""By how much a reply changes the emotion of a scripted user."""
_CONSENT = ("confirm", "shall i", "should i", "may i", "do you agree", "is that right")
_REFUSAL = ("refuse", "refused", "cannot", "can not", "unable", "not possible", "not allowed", "against our rules")


class LiveUser(Protocol):
    """A user for as long as an environment is open. Episodes come one after another."""

    def reply(self, sheet: UserSheet, before: Sequence[Exchange], said: str) -> UserReply:
        """What the user answers to ``said``. Raises EnvError if no answer comes."""
        ...

    def close(self) -> None:
        """Free the user's resources. Safe to repeat."""
        ...


class SimulatedUser(Part):
    """The simulated user that the agent talks with. A subclass sets ``type``, declares its settings and writes
    ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "simulated user"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.judges.asking.user_models",)

    @property
    def outside(self) -> str:
        """The outside source of the user's replies, in words; "" where equal conversations get equal replies."""
        return ""

    @abstractmethod
    def open(self) -> LiveUser:
        """The user. Raises UserError where there is none by these settings."""


class ScriptedUser(SimulatedUser):
    """A user by fixed rules, who finds in a question the topics that they know something about."""

    type: Literal["scripted"] = "scripted"
    most_topics: int = Field(2, ge=1)
    """Most topics that the user speaks about in one reply; those that a question names first."""

    def open(self) -> LiveUser:
        return ScriptedTalker(self.most_topics)


class Nobody(SimulatedUser):
    """No user: an agent that speaks is told so, and goes on alone. For replaying gold calls without a model."""

    type: Literal["nobody"] = "nobody"

    def open(self) -> LiveUser:
        return Silence()


class Silence:
    """What ``Nobody`` opens."""

    def reply(self, sheet: UserSheet, before: Sequence[Exchange], said: str) -> UserReply:
        """The same to everything."""
        return UserReply("(nobody answers)", 0)

    def close(self) -> None:
        """Nothing to free."""


class ScriptedTalker:
    """What ``ScriptedUser`` opens."""

    def __init__(self, most_topics: int) -> None:
        self._most_topics = most_topics

    def reply(self, sheet: UserSheet, before: Sequence[Exchange], said: str) -> UserReply:
        """See ``LiveUser.reply``. The fact ``asked``: the topics that the user speaks about, with blanks between.

        A question about something new pleases the user by 10; one that was answered before, one that they do not
        understand, and a refusal annoy them by 10.
        """
        heard, earlier = _lower(said), [_lower(line.agent) for line in before]
        topics = asked_topics(sheet, heard)[: self._most_topics]
        if topics:
            known = {topic for text in earlier for topic in asked_topics(sheet, text)[: self._most_topics]}
            text = " ".join(sheet.facts[topic] for topic in topics)
            return UserReply(text, STEP if set(topics) - known else -STEP, {"asked_topics": " ".join(topics)})
        if _first(heard, _REFUSAL) is not None:
            again = any(_first(text, _REFUSAL) is not None for text in earlier)
            return UserReply("If you say so." if again else f"Please make an exception. {sheet.wish}", -STEP)
        if _first(heard, _CONSENT) is not None:
            return UserReply("Yes, please.", 0)
        return UserReply("I do not know what you mean.", -STEP)

    def close(self) -> None:
        """Nothing to free."""


def asked_topics(sheet: UserSheet, heard: str) -> list[str]:
    """The topics of a sheet that a text (lower case) names, in the order in which it names them."""
    places = {
        topic: place
        for topic in sheet.facts
        if (place := _first(heard, (topic, *sheet.words.get(topic, ())))) is not None
    }
    return sorted(places, key=lambda topic: places[topic])


def _lower(said: str) -> str:
    return " ".join(said.lower().split())


def _first(heard: str, words: Sequence[str]) -> int | None:
    """Where the first of ``words`` begins, as whole words."""
    found = [match.start() for word in words if (match := re.search(rf"\b{re.escape(word)}\b", heard))]
    return min(found, default=None)
