"""Solved episodes that a policy is shown before its task, as earlier turns of the same chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from turngate.types import Message, ToolCall, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleTurn:
    """One turn: what the policy was shown, and what it said. ``answered``: the tool whose answer it was shown; "" = a
    message of the user."""

    observation: str
    answered: str
    said: str
    calls: tuple[ToolCall, ...] = ()


Example: TypeAlias = tuple[ExampleTurn, ...]
"""The turns of one solved episode."""


def example_of(trajectory: Trajectory) -> Example:
    """The turns of an episode."""
    answered = ["", *(turn.action.calls[-1].name if turn.action.calls else "" for turn in trajectory.turns)]
    return tuple(
        ExampleTurn(
            observation=turn.observation.text,
            answered=tool,
            said=turn.completion.text,
            calls=turn.action.calls,
        )
        for turn, tool in zip(trajectory.turns, answered, strict=False)
    )


def messages_of(examples: Iterable[Example], *, tools: bool) -> Iterator[Message]:
    """The same as messages. ``tools``: answers of tools have a role of their own."""
    for example in examples:
        for shown in example:
            yield Message(role="tool" if shown.answered and tools else "user", content=shown.observation)
            yield Message(role="assistant", content=shown.said, calls=shown.calls)
