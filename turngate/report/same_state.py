"""What siblings did in the states of an episode, for ``turngate show``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.report.learned import EpisodeLearning
from turngate.types import Score, ScoredGroup

TEXT = 32
"""Most characters that are shown of what a sibling wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingTurn:
    """A turn of a sibling. ``sibling`` counts from 1; ``credit`` is None where there is none."""

    sibling: int
    turn: int
    text: str
    credit: float | None
    result: str

    @property
    def words(self) -> str:
        """The turn in a line."""
        first, *more = self.text.strip().split("\n")
        cut = f"{first[: TEXT - 1]}…" if len(first) > TEXT else first + (" …" if more else "")
        credit = "none" if self.credit is None else f"{self.credit:+.4g}"
        return f"sibling {self.sibling}, turn {self.turn}: {cut}; credit {credit}; {self.result}"


def sibling_turns(group: ScoredGroup, learned: Sequence[EpisodeLearning], index: int) -> list[list[SiblingTurn] | None]:
    """For each turn of episode ``index``, the turns of its siblings in the same state; None where no state is known, or
    where it has no sibling."""
    found: list[list[SiblingTurn] | None] = []
    for turn in group.trajectories[index].turns:
        key = turn.observation.state_key
        known = bool(key) and len(group.trajectories) > 1
        found.append(_in_state(group, learned, index, key) if known else None)
    return found


def _in_state(group: ScoredGroup, learned: Sequence[EpisodeLearning], index: int, key: str) -> list[SiblingTurn]:
    return [
        SiblingTurn(
            sibling=place + 1,
            turn=at,
            text=turn.action.text,
            credit=None if one.advantage_T is None else float(one.advantage_T[at]),
            result=result_words(score),
        )
        for place, (trajectory, score, one) in enumerate(zip(group.trajectories, group.scores, learned, strict=True))
        if place != index
        for at, turn in enumerate(trajectory.turns)
        if turn.observation.state_key == key
    ]


def result_words(score: Score) -> str:
    """Whether an episode solved its task, in a word."""
    if not score.usable:
        return "unusable"
    return "solved" if score.success else "not solved"
