"""ArenaRL: ranks siblings by a seeded single-elimination tournament, 2(N − 1) matches instead of N(N − 1)/2.

Source: https://arxiv.org/abs/2601.06487 and its public code. Pure: ``single_elimination`` asks for matches and is sent
their results, however they are played.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts.verdicts import PairVerdict
from turngate.rewards.columns import Float64Array

Match: TypeAlias = tuple[int, int]
Round: TypeAlias = tuple[Match, ...]
NEUTRAL = PairVerdict(first=10.0, second=10.0, consistent=True)
"""Result of a match without verdict under ``faithful``: 5 to 5 in either order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standings:
    """How a tournament ended.

    ``reward_B`` is ``1 − rank / (N − 1)``, float64[N], where equal ones share the mean of their ranks; all NaN if it is
    void. ``problem`` says why it is void, or that it is a tie.
    """

    reward_B: Float64Array
    n_matches: int
    n_missing: int
    problem: str = ""


def bracket(n: int) -> tuple[int, ...]:
    """Places of the seeds 0 … n − 1 in the first round, neighbours meet: the best seeds meet last.

    The list [0] grows: every i becomes (i, 2c − 1 − i), c the list's length; entries ≥ n are left out.
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
    2. Bracket: see ``bracket``; an odd one out passes and stands first in the next round. A tie is won by the better
       seed. Two that are level in everything (the seeding, the match and their mean points) share their end: one of
       them goes on, and neither has won.
    3. Rank: champion, then by the matches won in the bracket, then by the mean points over the seeding and all matches
       after it. Equal ones share the mean of their ranks.

    Where ours differs from the published code, which ``faithful=True`` reproduces:

    * a match without verdict (None) makes the tournament void: every reward is NaN, so a judge that fails never raises
      a reward. Published: 5 to 5, and the round goes on;
    * equal ones share. Published: a tie is won by the first of the pair, which can be the worse one (of six seeds the
      pairs are 0 3 | 4 1 | 2 5, and who passes stands first), and on equal mean points the order of the matches
      decides. Four whose matches all end 5 to 5 get 1, 2/3, 0, 1/3; ours are ½ each, because none is ahead;
    * passing without a match is no win. Published: losers rank by the round in which they lost, so that of three the
      worst seed, which passes, ends second unearned. Where none passes or ties, both ranks are the same.

    A knock-out compares few pairs: of equals, one may meet the champion early and another a weak one, which it beats.
    Among competitors who differ in the seeding, or four whose points do not depend on whom they meet, the order in
    which they are given does not matter. A tournament spreads rewards even if all are bad: where all of them failed a
    criterion, take ``zero_group``. A single competitor cannot be compared: reward ½. Raises ConfigError for n < 1,
    ShapeError for the wrong number of results.
    """
    if n < 1:
        raise ConfigError(f"a tournament of {n} has nobody in it")
    table = _Standings(n, faithful)
    seeding = tuple((0, index) for index in range(1, n))
    if seeding:
        table.record(seeding, (yield seeding))
        table.count_as_one(0)
    seeds = table.seed()
    alive = [seeds[seed] for seed in bracket(n)]
    while len(alive) > 1 and not table.is_void:
        pairs = tuple(zip(alive[::2], alive[1::2], strict=False))
        points = table.record(pairs, (yield pairs))
        alive = alive[2 * len(pairs) :] + table.settle(pairs, points)
    return table.standings()


def zero_group(standings: Standings) -> Standings:
    """The standings when all competitors failed the rubric: none is rewarded for being the least bad."""
    return Standings(
        reward_B=np.zeros_like(standings.reward_B),
        n_matches=standings.n_matches,
        n_missing=standings.n_missing,
        problem="all failed the rubric",
    )


class _Standings:
    """The points of each competitor so far, and who is out.

    ``wins``: matches that each won in the bracket; ``level``: who is out and level with the one that went on, to that
    one; ``out``: who lost, in the order of the matches, to the number of the round.
    """

    def __init__(self, n: int, faithful: bool) -> None:
        self.n, self.faithful = n, faithful
        self.points: list[list[float]] = [[] for _ in range(n)]
        self.n_matches = self.n_missing = self.n_decided = self.n_rounds = 0
        self.seeding: list[float] = []
        self.wins, self.level, self.out = [0] * n, dict[int, int](), dict[int, int]()

    @property
    def is_void(self) -> bool:
        return bool(self.n_missing) and not self.faithful

    def mean(self, index: int) -> float:
        """Mean points; rounded, so that the same points in another order are equal."""
        own = self.points[index]
        return round(sum(own) / len(own), 9) if own else 0.0

    def count_as_one(self, index: int) -> None:
        """From here on the matches of a competitor so far weigh as much as one: all others have played one too."""
        own = self.points[index]
        self.points[index] = [sum(own) / len(own)]

    def seed(self) -> list[int]:
        """The competitors by their points so far, which are those of the seeding."""
        self.seeding = [self.mean(index) for index in range(self.n)]
        return sorted(range(self.n), key=lambda index: -self.seeding[index])

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

    def settle(self, pairs: Round, points: Sequence[PairVerdict]) -> list[int]:
        """Who goes on from a round of the bracket whose points are recorded."""
        self.n_rounds += 1
        return [self._settle(pair, verdict) for pair, verdict in zip(pairs, points, strict=True)]

    def _settle(self, pair: Match, verdict: PairVerdict) -> int:
        first, second = ((self._worth(index), -index) for index in pair)
        ahead = verdict.first > verdict.second or (verdict.share == 0.5 and (self.faithful or first > second))
        winner, loser = pair if ahead else pair[::-1]
        self.out[loser] = self.n_rounds
        if verdict.share == 0.5 and first[0] == second[0]:
            self.level[loser] = winner
        else:
            self.wins[winner] += 1
        return winner

    def _worth(self, index: int) -> tuple[float, float]:
        """The key that decides a tie: the seed, then the points of all matches so far."""
        return self.seeding[index], self.mean(index)

    def standings(self) -> Standings:
        if self.is_void:
            problem = f"{self.n_missing} of {self.n_matches} matches have no verdict"
            return self._standings(np.full(self.n, np.nan), problem)
        if self.n == 1:
            return self._standings(np.full(1, 0.5), "nobody to compare with")
        if not (self.n_decided or self.faithful):
            return self._standings(np.full(self.n, 0.5), "every match is a tie")
        results = list(map(self._published if self.faithful else self._result, range(self.n)))
        rank_B = [sum(one > mine for one in results) + (results.count(mine) - 1) / 2 for mine in results]
        return self._standings(1.0 - np.array(rank_B) / (self.n - 1))

    def _result(self, index: int) -> tuple[float, ...]:
        """The key that ranks a competitor: whether it is the champion, its matches won, its mean points."""
        while index in self.level:
            index = self.level[index]
        return index not in self.out, self.wins[index], self.mean(index)

    def _published(self, index: int) -> tuple[float, ...]:
        """The round of the last match, its mean points, and last the order of the matches."""
        lost = self.out.get(index, self.n_rounds + 1)
        return lost, self.mean(index), -list(self.out).index(index) if index in self.out else 0

    def _standings(self, reward_B: Float64Array, problem: str = "") -> Standings:
        return Standings(reward_B=reward_B, n_matches=self.n_matches, n_missing=self.n_missing, problem=problem)
