"""How content a user is, as a whole number that changes with every reply: RLVER's emotion score.

"RLVER: Reinforcement Learning with Verifiable Emotion Rewards for Empathetic Agents",
https://arxiv.org/abs/2507.03112. A conversation begins at 30, and 100 is the most. At 100 the user is content and
leaves; below 10 they leave because they have had enough. That 0 is the least is ours.
"""

from __future__ import annotations

BEGIN, LEAST, MOST = 30, 0, 100
_GRADES = ((MOST, "S"), (70, "A"), (40, "B"), (10, "C"), (LEAST, "F"))


def emotion_after(emotion: int, change: int) -> int:
    """The emotion, 0 to 100, after a change by any whole number: ``min(100, max(0, emotion + change))``."""
    return min(MOST, max(LEAST, emotion + change))


def mood(emotion: int) -> str:
    """The grade of an emotion: S from 100, A from 70, B from 40, C from 10, else F."""
    return next(grade for least, grade in _GRADES if emotion >= least)


def walks_away(emotion: int) -> bool:
    """Whether the user goes away: at the grades S and F."""
    return mood(emotion) in ("S", "F")
