"""What an environment is given of a turn: its text, or, where the turn was cut off, an action that says so.

How a turn that reached its token limit would have gone on is unknown, so nothing of it is carried out. Its text alone
does not tell: a command is whole after every word. So the mark goes to the environment with the text and stays in the
record (``Action.cut_off``), and code that takes a recorded turn again gives what was given then.
"""

from __future__ import annotations

from typing import TypeAlias

from turngate.types import CUT_OFF, Action, Completion, EndedBy, Turn

Given: TypeAlias = Action | str
"""A text that the environment reads, or an action that is ``cut_off``."""


def given(said: Completion) -> Given:
    """What a completion asks the environment for. One that ends with its end-of-turn token is whole at any length."""
    return Action(text=said.text, parse_error=CUT_OFF) if said.ended_by is EndedBy.LENGTH else said.text


def given_again(turn: Turn) -> Given:
    """What the environment was given when the turn was recorded, which decides; not how the completion ended: records
    of before turns were cut off say both that a completion was too long and what was carried out of it."""
    return turn.action if turn.action.cut_off else turn.completion.text or turn.action.text


def text_of(given: Given) -> str:
    """What was written."""
    return given if isinstance(given, str) else given.text
