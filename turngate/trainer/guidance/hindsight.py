"""HeRL: failures are rewritten with their unmet requirements in view; the gain of a rewrite is a bonus on its draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.reflect import retry_from
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.trainer.guidance.transcripts import first_unmet, verdict_names
from turngate.types import Metrics, RewardEvent, Score, ScoredGroup

if TYPE_CHECKING:
    from turngate.config import Config

BONUS = "hindsight"
"""Name of the bonus in the ledger."""


def hindsight_bonus(reward: float, rewritten: float, *, alpha: float, cap: float) -> float:
    """The bonus on a draft's reward R for its rewrite's R′: ``alpha·(R′ − R)``, between ``−cap`` and ``cap``."""
    return float(np.clip(alpha * (rewritten - reward), -cap, cap))


class HindsightPart(GuidePart):
    """HeRL: the best failures of a task without a success are rewritten from their first unmet turn on, with the lists
    of what they met and what not in view. The best rewrite takes the place of the best failure, if it is better.

    ``R ← R + alpha·(R′ − R)`` for each failure of reward R whose rewrite got R′: failures that are easily improved are
    paid more. The bonus stands in the ledger as "hindsight"; rescoring, which sees one episode at a time, leaves it
    out. Rewrites are learned from under the context without the lists; the loss of such rows is that of loss.guided.
    Source: the code of HeRL (https://github.com/sikelifei/HeRL).

    Left out of the paper: rewriting a text as a whole (here from the first unmet turn on), help for groups that have a
    success but not the full score, the bonus as a share of every token (here it is paid in the last turn), and the
    gamma of 1 that its scripts have for instructions; set loss.guided = {gamma = 1.0} for that.
    """

    type: Literal["herl"] = "herl"
    branches: ClassVar[bool] = True
    bonuses: ClassVar[frozenset[str]] = frozenset({BONUS})
    drafts: int = Field(2, ge=1)
    """Most failures of a task that are rewritten; those with the largest payment first."""
    alpha: float = Field(0.05, ge=0, le=1)
    """Share of what the rewrite gained that the failure is paid for; 0 = no bonus. A large one rewards bad drafts that
    are easily improved."""
    cap: float = Field(0.1, gt=0)
    """Largest bonus, and largest deduction for a rewrite that is worse."""
    strip: bool = True
    """Whether the lists are taken out of the context that is learned from."""
    temperature: float | None = Field(None, gt=0)
    """Temperature at which rewrites are sampled, 0.3 in the source; left out: policy.temperature, as for all others. A
    low one keeps a rewrite near what the policy finds likeliest once it sees the lists. It needs strip, because only
    then is the ratio between the learned and the sampled distribution computed."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a temperature of rewrites that are learned under the context they were sampled in."""
        if self.temperature is not None and not self.strip:
            raise ConfigError(
                f"guide.temperature = {self.temperature} needs strip = true: rewrites that keep the lists are learned "
                "as if they were sampled at policy.temperature; leave one of the two out"
            )

    def open(self, helpers: Helpers) -> Hindsight:
        """The guide of one run."""
        return Hindsight(self)


class Hindsight(Guide):
    """What ``HindsightPart`` opens."""

    def __init__(self, part: HindsightPart) -> None:
        self._part = part
        self._bonuses: list[float] = []

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A rewrite of each of the best failures, where no episode has succeeded."""
        drafts = [] if wave > 1 or any(map(is_solved, group.scores)) else best_drafts(group)[: self._part.drafts]
        if not drafts:
            return None
        entries = [
            retry_from(
                group.trajectories[at],
                first_unmet(group.scores[at]) or 0,
                note(group.scores[at]),
                strip=self._part.strip,
                siblings=group.trajectories,
                temperature=self._part.temperature,
            )
            for at in drafts
        ]
        return Plan(entries=entries, into="replace", row=drafts[0])

    def settle(self, group: ScoredGroup, played: ScoredGroup) -> ScoredGroup:
        """The group with the bonus of every draft in it."""
        rewritten = _rewards_of_rewrites(played)
        scores = [
            self._with_bonus(score, rewritten[one.id]) if one.id in rewritten and score.usable else score
            for one, score in zip(group.trajectories, group.scores, strict=True)
        ]
        return replace(group, scores=tuple(scores))

    def metrics(self) -> Metrics:
        """``guide/hindsight_bonus``: mean of the bonuses of this step; nothing if there were none."""
        bonuses, self._bonuses = self._bonuses, []
        return {"guide/hindsight_bonus": float(np.mean(bonuses))} if bonuses else {}

    def _with_bonus(self, score: Score, rewritten: float) -> Score:
        bonus = hindsight_bonus(score.compared.total, rewritten, alpha=self._part.alpha, cap=self._part.cap)
        self._bonuses.append(bonus)
        if not bonus:
            return score
        return _paid_more(score, RewardEvent(name=BONUS, kind="process", turn=None, value=bonus, weight=1.0))


def _paid_more(score: Score, event: RewardEvent) -> Score:
    """The score with one more payment, for the whole episode."""
    reward_T = score.reward_T.copy()
    reward_T[-1:] += event.paid
    filled = None if score.filled is None else _paid_more(score.filled, event)
    return replace(score, ledger=(*score.ledger, event), reward_T=reward_T, filled=filled)


def best_drafts(group: ScoredGroup) -> list[int]:
    """Places of the failures without help, those that were paid most first; of equal ones those that met more verdicts,
    then the first."""
    places = [
        at
        for at, (one, score) in enumerate(zip(group.trajectories, group.scores, strict=True))
        if score.usable and unguided(one) and one.turns and not is_solved(score)
    ]
    return sorted(
        places, key=lambda at: (-group.scores[at].compared.total, -len(verdict_names(group.scores[at], True)), at)
    )


def note(score: Score) -> str:
    """What a rewrite is shown: the requirements that the draft met, and those that it did not."""
    lines = ["This is a second attempt. Keep what was right and mend the rest."]
    lines += [f"{title}: {', '.join(names)}." for title, names in _lists(score).items() if names]
    return "\n".join(lines)


def _lists(score: Score) -> Mapping[str, Sequence[str]]:
    return {"The first attempt met": verdict_names(score, True), "It did not meet": verdict_names(score, False)}


def _rewards_of_rewrites(played: ScoredGroup) -> dict[str, float]:
    """Id of a draft → the largest payment of its rewrites."""
    found: dict[str, float] = {}
    for one, score in zip(played.trajectories, played.scores, strict=True):
        if one.parent is not None and one.guidance is not None and score.usable:
            total = score.compared.total
            found[one.parent[0]] = max(total, found.get(one.parent[0], total))
    return found
