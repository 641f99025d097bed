"""Who answers and who holds back: answerable × answered, for tasks some of which have no answer.

Counted from the facts ``answerable``, ``answered``, ``abstained`` and ``correct`` of episodes, as
``turngate/Search-v1`` records them. A rate of success alone does not tell an agent that says "unknown" to all from one
that never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from turngate.types import Trajectory

WITH_ANSWER, WITHOUT_ANSWER = "with an answer", "without an answer"
CELLS = ("right", "wrong", "held back", "silent")
"""Of a task with an answer: the right one, a wrong one, said not to know, never answered. Of a task without one: said
so after looking, answered all the same, said so without looking, never answered."""

Abstention: TypeAlias = Mapping[str, Mapping[str, int]]
"""Episodes by kind of task (``WITH_ANSWER``, ``WITHOUT_ANSWER``) and cell (``CELLS``)."""


def abstention_of(played: Iterable[Trajectory]) -> Abstention | None:
    """The table of some usable episodes; None unless some of their tasks have no answer."""
    counts: Counter[tuple[str, str]] = Counter()
    for trajectory in played:
        facts = {fact.name: fact.value for fact in trajectory.evidence if fact.turn is None}
        if isinstance(facts.get("answerable"), bool):
            counts[WITH_ANSWER if facts["answerable"] else WITHOUT_ANSWER, _cell(facts)] += 1
    if not any(kind == WITHOUT_ANSWER for kind, _ in counts):
        return None
    return {kind: {cell: counts[kind, cell] for cell in CELLS} for kind in (WITH_ANSWER, WITHOUT_ANSWER)}


def abstention_lines(found: Abstention) -> list[str]:
    """The table in words, one line for each kind of task."""
    lines = []
    for kind, cells in found.items():
        counted = ", ".join(f"{number} {cell}" for cell, number in cells.items())
        lines.append(f"tasks {kind}, {sum(cells.values())} episodes: {counted}")
    return lines


def _cell(facts: Mapping[str, object]) -> str:
    if facts.get("correct") is True:
        return "right"
    if facts.get("answered") is not True:
        return "silent"
    return "held back" if facts.get("abstained") is True else "wrong"
