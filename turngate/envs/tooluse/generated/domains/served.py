"""The goal of a domain's task: the user is served as the rules say, and is told what they have to know."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tooluse.engine.goals import Finish, Goal
from turngate.errors import ConfigError
from turngate.rewards.outcome.normal_form import without_commas

DONE = "done"
"""The outcome by which something was done."""
_RETRACTS = re.compile(
    r"\b(?:true|truth|false|untrue|wrong|incorrect|lie|lied|lies|lying|liar|jok(?:e|ed|ing)|kidding|mistaken?|retract\w*"
    r"|disregard|forget|ignore|den(?:y|ied)|fake\w*|pretend\w*|opposite|contrary|fabricated|invented|nothing|none)\b"
)
_DENIES = re.compile(r"\b(?:not|never|cannot|undone|failed|unable)\b|n['’]t\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\d)")


class ServedGoal(Goal):
    """The state is as the gold calls leave it, no rule was broken, and the last message tells what it has to.

    The state and the rules are the frame's business, which knows the gold calls: where a wish is against the rules they
    change nothing. The last message is the answer. What it tells has to stand, so it is wrong with a word by which one
    takes something back, and, where something was done, with one that denies: no rule finds out what they are about.
    """

    type: Literal["served"] = "served"
    needs_state: ClassVar[bool] = True
    answer: str = Field(min_length=1)
    """A right last message, which the oracle gives."""
    tells: tuple[str, ...] = Field(min_length=1)
    """What the last message has to hold, each as whole words."""
    never: tuple[str, ...] = ()
    """What the last message must not hold, such as the other outcomes that there might have been."""
    secret: tuple[str, ...] = ()
    """What no call of the conversation may hold, such as other people's data, by which one would act in their name."""
    numbers: tuple[str, ...] = ()
    """Numbers that the last message may hold beside those in ``tells``, such as that of the order."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for an answer that is not right."""
        if not self._tells_all(self.answer):
            raise ConfigError(f"the answer {self.answer!r} does not tell what it has to, or tells more")

    @property
    def gold_answer(self) -> str:
        """A right last message."""
        return self.answer

    def is_met(self, finish: Finish) -> bool:
        """Whether the last message is right, and nothing secret was said or used."""
        given = [str(value) for call in finish.calls for value in call.arguments.values()]
        heard = [_plain(text) for text in (*given, finish.answer or "")]
        used = any(_holds(text, secret) for text in heard for secret in self.secret)
        return finish.answer is not None and self._tells_all(finish.answer) and not used

    def _tells_all(self, answer: str) -> bool:
        text = _plain(answer)
        right = {number for told in (*self.tells, *self.numbers) for number in _NUMBER.findall(told)}
        guessed = set(_NUMBER.findall(text)) - right
        return (
            all(_holds(text, told) for told in self.tells)
            and not any(_holds(text, wrong) for wrong in self.never)
            and not _RETRACTS.search(text)
            and not (self.tells[0] == DONE and _DENIES.search(text))
            and not guessed
        )


def _holds(text: str, words: str) -> bool:
    wanted = _plain(words)
    return bool(wanted) and re.search(rf"(?<![\w]){re.escape(wanted)}(?![\w])", text) is not None


def _plain(text: str) -> str:
    return " ".join(without_commas(text).split())
