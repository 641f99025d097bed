"""Agent-RLVR's own update: successes with help are preferred to failures without, as if nobody had helped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import gcd, lcm
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.trainer.aside.base import AsideMeans, AsideRow, AsideRows, AsideSource, WeighedAside, own_tokens
from turngate.trainer.aside.preference import Preference
from turngate.trainer.contexts import without_hint
from turngate.trainer.guidance.results import solved, unguided
from turngate.types import Metrics, ScoredGroup, Trajectory


class EpisodePairs(WeighedAside):
    """Agent-RLVR: of each task, successes with help are preferred to failures without, by DPO under the bare context.

    Adds ``weight`` times the mean over the pairs of ``−log σ(beta·(D₊ − D₋))`` to the loss, where D is how much
    likelier the policy finds an episode's own tokens than ``reference`` does. Hints are always taken out of the
    contexts, also where the guide leaves them in, so both sides begin alike; a pair that does not is left out and
    counted (``aside/pairs_other_beginning``). Tokens that somebody else wrote are in no D. The first pairs have a loss
    of ln 2 = 0.693, because the policy is the reference then.

    Source: Agent-RLVR, https://arxiv.org/abs/2506.11425. Its guidance is guide "teacher"; where the hint is during
    learning, and the number of pairs, are not told there and are ours.
    """

    type: Literal["pairs"] = "pairs"
    weight: float = Field(1.0, gt=0)
    """Factor of the mean loss per pair, which is added to the loss; more or longer pairs do not weigh more."""
    beta: float = Field(0.1, gt=0)
    """How soon a pair is told apart well enough: the larger, the closer the policy stays to the reference."""
    reference: str = "start"
    """The frozen model that both sides are compared with: a folder, a name on the Hugging Face hub, or "start" for the
    model that training began from."""
    winners: Literal["guided", "all"] = "guided"
    """Which successes are preferred: those with help, or also those without, where siblings failed."""
    most: int = Field(4, ge=1)
    """Most pairs of one task in a step; they are spread evenly over its successes and failures."""
    imitated: float = Field(0.0, ge=0)
    """Weight of the cross-entropy per token of the preferred episodes, beside each pair; raise it, to 0.1 or 1, where
    preferred episodes become less likely too."""

    @property
    def teachers(self) -> tuple[str, ...]:
        """The reference."""
        return (self.reference,)

    def check(self, guide: str) -> None:
        """Raise ValueError where no episode with help can win, because there is no guide."""
        if self.winners == "guided" and guide == "none":
            raise ValueError(
                "aside 'pairs' has no effect: no episode has help that could win; set guide, for instance "
                '{type = "teacher"}, or winners = "all"'
            )

    def open(self, means: AsideMeans) -> AsideSource:
        """See ``PairedEpisodes``."""
        return PairedEpisodes(self, means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """An episode as it is learned from: ``ids`` int32[L] without any hint, and which the policy wrote, bool[L]."""

    opening: tuple[int, ...]
    ids: np.ndarray
    own: np.ndarray


class PairedEpisodes(AsideSource):
    """Pairs the episodes of a step, and asks the reference about them."""

    def __init__(self, part: EpisodePairs, means: AsideMeans) -> None:
        self._part, self._likelihoods = part, means.teacher(part.reference)
        self._other_beginning = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AsideRows | None:
        """See ``EpisodePairs``."""
        found = [pair for group in groups for pair in islice(self._pairs(group), self._part.most)]
        pairs = [pair for pair in found if pair[0].opening == pair[1].opening]
        self._other_beginning = len(found) - len(pairs)
        sides = [side for pair in pairs for side in pair]
        asked = self._likelihoods([side.ids for side in sides], [side.own for side in sides])
        return AsideRows(
            rows=[_row(side, logprob) for side, logprob in zip(sides, asked, strict=True)],
            weight=self._part.weight,
            preference=Preference(beta=self._part.beta, imitated=self._part.imitated),
        )

    def metrics(self) -> Metrics:
        """Pairs of this step that were left out, because their sides do not begin alike."""
        return {"other_beginning": float(self._other_beginning)}

    def _pairs(self, group: ScoredGroup) -> Iterator[tuple[Bare, Bare]]:
        scored = [pair for pair in zip(group.trajectories, group.scores, strict=True) if pair[1].usable]
        wins = [one for one, score in scored if solved(score) and self._wins(one)]
        losses = [one for one, score in scored if not solved(score) and unguided(one)]
        sides = [[side for one in some if (side := bare(one)) is not None] for some in (wins, losses)]
        return crossed(*sides)

    def _wins(self, one: Trajectory) -> bool:
        return self._part.winners == "all" or not unguided(one)


def crossed(wins: Sequence[Bare], losses: Sequence[Bare]) -> Iterator[tuple[Bare, Bare]]:
    """Every success with every failure once, in an order of which any first part uses all of them equally often, but
    for one."""
    for shift in range(gcd(len(wins), len(losses)) if wins and losses else 0):
        for place in range(lcm(len(wins), len(losses))):
            yield wins[place % len(wins)], losses[(place + shift) % len(losses)]


def bare(trajectory: Trajectory) -> Bare | None:
    """The episode without any hint; None if the policy wrote nothing in it."""
    if trajectory.guidance is not None:
        trajectory = replace(trajectory, guidance=replace(trajectory.guidance, strip_for_train=True))
    stripped = without_hint(trajectory)
    own = own_tokens(stripped)
    if not own.any():
        return None
    return Bare(opening=tuple(stripped.turns[0].context_ids.tolist()), ids=stripped.ids(), own=own)


def _row(side: Bare, logprob: np.ndarray) -> AsideRow:
    teacher = np.zeros(len(side.ids), np.float32)
    teacher[side.own] = logprob
    return AsideRow(ids=side.ids, trained=side.own, teacher=teacher)
