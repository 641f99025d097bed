"""ArenaRL: ranks siblings by a seeded single-elimination tournament, 2(N − 1) matches instead of N(N − 1)/2.

Source: https://arxiv.org/abs/2601.06487 and its public code. Pure: ``single_elimination`` asks for matches and is sent
their results, whoever plays them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import Float64Array
from turngate.rewards.judge.verdicts import PairVerdict

Match: TypeAlias = tuple[int, int]
Round: TypeAlias = tuple[Match, ...]
NEUTRAL = PairVerdict(first=10.0, second=10.0, consistent=True)
"""What a match without verdict counts as under ``faithful``: 5 to 5 in either order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standings:
    """How a tournament ended.

    ``reward_B`` is ``1 − rank / (N − 1)``, float64[N], all NaN if it is void. ``problem`` says why it is void or why
    nobody is ahead.
    """

    reward_B: Float64Array
    n_matches: int
    n_missing: int
    problem: str = ""


def bracket(n: int) -> tuple[int, ...]:
    """Places of the seeds 0 … n − 1 in the first round, neighbours meet: the best seeds meet last.

    The list [0] grows: every i becomes (i, 2c − 1 − i), c the list's length; what is ≥ n is left out.
    Eight seeds: 0 7 3 4 1 6 2 5.
    """
    order = [0]
    while len(order) < n:
        size = 2 * len(order)
        order = [place for seed in order for place in (seed, size - 1 - seed)]
    return tuple(seed for seed in order if seed < n)


def single_elimination(n: int, *, faithful: bool = False) -> Generator[Round, Sequence[PairVerdict | None], Standings]:
    """Yields rounds of matches (i, j), is sent one verdict per match (points for i and for j), returns the standings.

    1. Seeding: all against competitor 0, for whom the mean of its points counts as one match; seeds by points, first
       come on equal ones.
    2. Bracket: see ``bracket``; an odd one out passes and stands first in the next round. Rank: champion, then losers,
       later rounds first, inside a round by their mean points over the seeding and all matches after it, the better
       seed first on equal ones.

    Where ours differs from the published code, which ``faithful=True`` reproduces:

    * a match without verdict (None) makes the tournament void: every reward is NaN, so a judge that fails never lifts
      anybody. Published: 5 to 5, and the round goes on;
    * a tie is won by the better seed. Published: by whoever stands first in the pair, which can be the worse one: of
      six seeds the pairs are 0 3 | 4 1 | 2 5, and who passes stands first;
    * if every match is a tie nobody is ahead: rewards ½. Published: ranks by seed, a spread from nothing.

    The free pass of an odd bracket can go to the worst seed (of three, always), which then ends second unearned: make N
    a power of two. A tournament spreads rewards even if all are bad: where all of them failed a criterion, take
    ``zero_group``. One competitor has nobody to be compared with: reward ½. Raises ConfigError for
    n < 1, ShapeError for the wrong number of results.
    """
    if n < 1:
        raise ConfigError(f"a tournament of {n} has nobody in it")
    table = _Standings(n, faithful)
    seeding = tuple((0, index) for index in range(1, n))
    if seeding:
        table.record(seeding, (yield seeding))
        table.count_as_one(0)
    seeds = sorted(range(n), key=lambda index: -table.mean(index))
    place = {index: seed for seed, index in enumerate(seeds)}
    alive = [seeds[seed] for seed in bracket(n)]
    losers: list[list[int]] = []
    while len(alive) > 1 and not table.is_void:
        pairs = tuple(zip(alive[::2], alive[1::2], strict=False))
        points = table.record(pairs, (yield pairs))
        winners = [_winner(pair, score, place, faithful) for pair, score in zip(pairs, points, strict=True)]
        losers.append(
            [first if first != winner else other for (first, other), winner in zip(pairs, winners, strict=True)]
        )
        alive = alive[2 * len(pairs) :] + winners
    behind = [sorted(out, key=lambda index: (-table.mean(index), place[index])) for out in reversed(losers)]
    ranking = alive + [loser for out in behind for loser in out]
    return table.standings(ranking)


def zero_group(standings: Standings) -> Standings:
    """The standings when all competitors failed the rubric: nobody is rewarded for being the least bad."""
    return Standings(
        reward_B=np.zeros_like(standings.reward_B),
        n_matches=standings.n_matches,
        n_missing=standings.n_missing,
        problem="all failed the rubric",
    )


class _Standings:
    """The points of each competitor so far."""

    def __init__(self, n: int, faithful: bool) -> None:
        self.n, self.faithful = n, faithful
        self.points: list[list[float]] = [[] for _ in range(n)]
        self.n_matches = self.n_missing = self.n_decided = 0

    @property
    def is_void(self) -> bool:
        return bool(self.n_missing) and not self.faithful

    def mean(self, index: int) -> float:
        own = self.points[index]
        return sum(own) / len(own) if own else 0.0

    def count_as_one(self, index: int) -> None:
        """From here on the matches of a competitor so far weigh as much as one: all others have played one too."""
        self.points[index] = [self.mean(index)]

    def record(self, pairs: Round, results: Sequence[PairVerdict | None]) -> list[PairVerdict]:
        if len(results) != len(pairs):
            raise ShapeError(f"{len(results)} results for {len(pairs)} matches")
        self.n_matches += len(pairs)
        self.n_missing += sum(result is None for result in results)
        settled = [NEUTRAL if result is None else result for result in results]
        for (first, second), verdict in zip(pairs, settled, strict=True):
            self.points[first].append(verdict.first)
            self.points[second].append(verdict.second)
            self.n_decided += verdict.share != 0.5
        return settled

    def standings(self, ranking: list[int]) -> Standings:
        if self.is_void:
            problem = f"{self.n_missing} of {self.n_matches} matches have no verdict"
            return self._standings(np.full(self.n, np.nan), problem)
        if self.n == 1:
            return self._standings(np.full(1, 0.5), "nobody to compare with")
        if not (self.n_decided or self.faithful):
            return self._standings(np.full(self.n, 0.5), "every match is a tie")
        reward_B = np.empty(self.n)
        reward_B[ranking] = 1.0 - np.arange(self.n) / (self.n - 1)
        return self._standings(reward_B)

    def _standings(self, reward_B: Float64Array, problem: str = "") -> Standings:
        return Standings(reward_B=reward_B, n_matches=self.n_matches, n_missing=self.n_missing, problem=problem)


def _winner(pair: Match, verdict: PairVerdict, place: dict[int, int], faithful: bool) -> int:
    if verdict.first != verdict.second or faithful:
        return pair[0] if verdict.first >= verdict.second else pair[1]
    return min(pair, key=place.__getitem__)
