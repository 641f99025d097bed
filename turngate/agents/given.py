"""The input of an environment for one turn: the turn's text, or, where the turn was cut off, an action that says so.

How a turn that reached its token limit would have gone on is unknown, so nothing of it is carried out. Its text alone
does not tell: a command is whole after every word. So the mark goes to the environment with the text and stays in the
record (``Action.cut_off``), and code that takes a recorded turn again gives what was given then.
"""

from __future__ import annotations

from typing import TypeAlias

from turngate.types import CUT_OFF, Action, Completion, EndedBy, Turn

Given: TypeAlias = Action | str
"""A text that the environment reads, or an action that is ``cut_off``."""


def environment_completion(said: Completion) -> Given:
    """The environment's input for a completion. One that ends with its end-of-turn token is whole at any length."""
    return Action(text=said.text, parse_error=CUT_OFF) if said.ended_by is EndedBy.LENGTH else said.text


def given_again(turn: Turn) -> Given:
    """The input that the environment got when the turn was recorded. How the completion ended does not decide: records
    from before turns were cut off hold completions that were too long and were carried out all the same."""
    return turn.action if turn.action.cut_off else turn.completion.text or turn.action.text


def text_of(given: Given) -> str:
    """The text that was written."""
    return given if isinstance(given, str) else given.text
