"""Which episodes of a task make a pair, and which of their tokens are compared; every loss over pairs uses this.

Both sides of a pair were in the same situation and acted differently. So help is taken out of the contexts, and two
episodes whose contexts then still differ before either side has acted make no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from turngate.trainer.auxiliary.base import own_tokens
from turngate.trainer.batch.contexts import without_hint
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.types import BoolArray, IntArray, Score, ScoredGroup, Trajectory

Rule: TypeAlias = Literal["outcome", "score", "branch"]
Winners: TypeAlias = Literal["guided", "unaided", "all"]
Span: TypeAlias = Literal["episode", "difference"]
Side = TypeVar("Side")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Two episodes of one task. ``gap``: by how much more the preferred one was paid, in units of reward."""

    win: Trajectory
    lose: Trajectory
    gap: float


def pairs_of(
    group: ScoredGroup, rule: Rule = "outcome", *, min_gap: float = 0.0, winners: Winners = "all"
) -> Iterator[Pair]:
    """The pairs of a task, in an order of which any first part uses its episodes evenly.

    * ``"outcome"``: every success with every failure;
    * ``"score"``: every two of which one was paid more;
    * ``"branch"``: as "score", where one branched off the other, or both off a third at the same turn.

    The preferred one was paid at least ``min_gap`` more (``Score.compared``), and had help or none as ``winners`` asks;
    the other one had none. Unusable episodes are in no pair.
    """
    scored = [pair for pair in zip(group.trajectories, group.scores, strict=True) if pair[1].usable]
    met = _outcomes(scored, winners) if rule == "outcome" else _all_twos(scored)
    for (one, its), (other, others) in met:
        gap = its.compared.total - others.compared.total
        if rule != "outcome" and gap < 0:
            one, other, gap = other, one, -gap
        if rule != "outcome" and (not gap or not unguided(other) or not _wins(one, winners)):
            continue
        if (min_gap and gap < min_gap) or (rule == "branch" and not _branched(one, other)):
            continue
        yield Pair(win=one, lose=other, gap=gap)


def crossed(wins: Sequence[Side], losses: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    """Every success with every failure once, in an order of which any first part uses all of them equally often, but
    for one."""
    for shift in range(gcd(len(wins), len(losses)) if wins and losses else 0):
        for place in range(lcm(len(wins), len(losses))):
            yield wins[place % len(wins)], losses[(place + shift) % len(losses)]


_Scored: TypeAlias = tuple[Trajectory, Score]


def _outcomes(scored: Sequence[_Scored], winners: Winners) -> Iterator[tuple[_Scored, _Scored]]:
    wins = [one for one in scored if is_solved(one[1]) and _wins(one[0], winners)]
    return crossed(wins, [one for one in scored if not is_solved(one[1]) and unguided(one[0])])


def _all_twos(scored: Sequence[_Scored]) -> Iterator[tuple[_Scored, _Scored]]:
    """Every two once: neighbours first, then those two apart, and so on round the circle."""
    n = len(scored)
    for apart in range(1, n // 2 + 1):
        for place in range(n if 2 * apart < n else apart):
            yield scored[place], scored[(place + apart) % n]


def _wins(one: Trajectory, winners: Winners) -> bool:
    return winners == "all" or unguided(one) == (winners == "unaided")


def _branched(one: Trajectory, other: Trajectory) -> bool:
    """Whether both are known to share their turns up to a branch."""
    parents = (one.parent, other.parent)
    return (parents[0] is not None and parents[0] == parents[1]) or any(
        parent is not None and parent[0] == side.id for parent, side in zip(parents, (other, one), strict=True)
    )


# --- the tokens that are compared -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bare:
    """An episode as it is learned from: ``ids`` int32[L] without any hint, which the policy wrote, bool[L], and the
    turn of each token, int32[L]. ``turns``: of each turn what was seen and what was written."""

    turns: tuple[tuple[bytes, bytes], ...]
    ids: IntArray
    own: BoolArray
    turn: IntArray

    def since(self, turn: int) -> Bare:
        """The same, of which only what was written from a turn on counts; that turn has the number 0."""
        return replace(self, own=self.own & (self.turn >= turn), turn=np.maximum(self.turn - turn, 0))


def bare(trajectory: Trajectory) -> Bare | None:
    """The episode without any hint; None if the policy wrote nothing in it."""
    if trajectory.guidance is not None:
        trajectory = replace(trajectory, guidance=replace(trajectory.guidance, strip_for_train=True))
    stripped = without_hint(trajectory)
    own = own_tokens(stripped)
    if not own.any():
        return None
    lengths = [len(turn.source) for turn in stripped.turns]
    return Bare(
        turns=tuple((turn.context_ids.tobytes(), turn.completion.ids_K.tobytes()) for turn in stripped.turns),
        ids=stripped.ids(),
        own=own,
        turn=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
    )


def compared(win: Bare, lose: Bare, span: Span) -> tuple[Bare, Bare] | None:
    """Both sides with the tokens that are compared; None where they were not in the same situation.

    "episode": all that the policy wrote, if both saw the same first. "difference": what it wrote from the turn on in
    which both had seen the same so far and it wrote something else.
    """
    if span == "episode":
        return (win, lose) if win.turns[0][0] == lose.turns[0][0] else None
    for turn, (one, other) in enumerate(zip(win.turns, lose.turns, strict=False)):
        if one[0] != other[0]:
            return None
        if one[1] != other[1]:
            sides = win.since(turn), lose.since(turn)
            return sides if all(side.own.any() for side in sides) else None
    return None
