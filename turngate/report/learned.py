"""Credit that training gave to recorded episodes: of each turn, its terms, and why an episode was dropped.

It is recorded with the step; terms, and the credit of older runs and of episodes that a filter dropped, are computed
again by the run's own rule and filters. ``turngate show`` prints it and the page (``viewer``) shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from turngate.store.step_credit import EpisodeCredit
from turngate.trainer.batch.episode_credit import of_tokens
from turngate.trainer.batch.pack import by_turn
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.credit.terms import CreditTerm
from turngate.trainer.filters.parts import Filter, keep
from turngate.trainer.step import UNUSED as UNUSED
from turngate.types import FloatArray, ScoredGroup, TokenCredit, TurnTable

TRAIN = "train"
"""Phase of the episodes that a step learned from; those of the phase ``UNUSED`` it played and did not learn from."""


class RunRule(Protocol):
    """How a run turned payments into credit, as ``turngate.run.assembly.credit.RecordedRule`` tells it."""

    @property
    def rule(self) -> CreditRule | None:
        """None if it reads values that only training measures."""

    @property
    def name(self) -> str:
        """Its type."""

    @property
    def filters(self) -> Mapping[str, Filter]:
        """The filters of the run, by name, in their order."""

    @property
    def imitates(self) -> bool:
        """Whether an episode without siblings is learned from."""

    @property
    def note(self) -> str:
        """A remark on the credit that is computed again; "" for none."""

    def table(self, groups: Sequence[ScoredGroup]) -> TurnTable:
        """What the rule reads of some groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLearning:
    """The credit of one episode. ``advantage_T``: the credit of its turns; None where there is none, and then ``notes``
    say why. ``terms``: the terms that add up to it, for rules that give them. ``tokens_T``: for rules that give credit
    by token, that of each token that the policy wrote in each turn (``advantage_T`` is its mean); else None.
    ``read_T``: the columns that were measured in training for the rule, one number for each turn."""

    advantage_T: FloatArray | None
    terms: tuple[CreditTerm, ...] = ()
    notes: tuple[str, ...] = ()
    tokens_T: tuple[FloatArray, ...] | None = None
    read_T: Mapping[str, FloatArray] = field(default_factory=dict)


def learned_from(
    groups: Sequence[ScoredGroup], by: RunRule, recorded: Mapping[str, EpisodeCredit], *, unused: bool = False
) -> list[list[EpisodeLearning]]:
    """The credit of each episode of each group, in order. ``groups``: all of the step, because rules may compare them.

    ``recorded``: what the step recorded that it learned, by trajectory. ``unused``: the step played the groups and did
    not learn from them. A group that a filter dropped has the credit that it would have by itself, if the rule can
    compare its episodes.
    """
    taught, _ = keep(groups, by.filters, lone=by.imitates)
    credits = {one.id: EpisodeLearning(advantage_T=None) for group in taught for one in group.trajectories}
    if not unused and by.rule is not None and taught:
        credits = _credits(by, by.rule, taught)
    credits |= {name: _as_recorded(one, credits.get(name)) for name, one in recorded.items()}
    return [_of_group(group, by, credits, recorded, unused=unused) for group in groups]


def _as_recorded(found: EpisodeCredit, computed: EpisodeLearning | None) -> EpisodeLearning:
    """What training recorded of an episode, with the terms that were computed again if they add up to it: they do not
    under a negative control, or where a KL was charged that is not recorded."""
    again_T = None if computed is None else computed.advantage_T
    adds_up = again_T is not None and np.array_equal(found.advantage_T, again_T)
    return EpisodeLearning(
        advantage_T=found.advantage_T,
        terms=computed.terms if computed is not None and adds_up else (),
        tokens_T=found.tokens_T,
        read_T={name: np.asarray(values) for name, values in found.columns.items() if name.endswith("_N")},
    )


def _of_group(
    group: ScoredGroup,
    by: RunRule,
    credits: Mapping[str, EpisodeLearning],
    recorded: Mapping[str, EpisodeCredit],
    *,
    unused: bool,
) -> list[EpisodeLearning]:
    """Of each episode, with notes that say why nothing was learned. ``credits``: of those that the filters kept."""
    kept, _ = keep([group], {}, lone=by.imitates)
    compared = {one.id for left in kept for one in left.trajectories}
    filtered = compared - credits.keys()
    if filtered and not unused and by.rule is not None:
        credits = {**_credits(by, by.rule, kept), **credits}
    found, nothing = [], EpisodeLearning(advantage_T=None)
    for trajectory, score in zip(group.trajectories, group.scores, strict=True):
        learned = credits.get(trajectory.id, nothing)
        notes = []
        if unused:
            notes.append("nothing was learned from it: it was tried, or another one took its place")
        elif score.usable and trajectory.id not in compared:
            notes.append("nothing was learned from it: no sibling with the same help to compare it with")
        elif trajectory.id in filtered:
            notes.append("a filter dropped it, so nothing was learned from it")
        if by.rule is None and trajectory.id not in recorded:
            notes.append(f"credit is not shown: rule '{by.name}' reads values that only training measures")
        if by.note and learned.advantage_T is not None and trajectory.id not in recorded:
            notes.append(by.note)
        found.append(replace(learned, notes=tuple(notes)))
    return found


def _credits(by: RunRule, rule: CreditRule, kept: Sequence[ScoredGroup]) -> dict[str, EpisodeLearning]:
    """Trajectory → the credit of its turns and tokens, and the terms that add up to it."""
    table = by.table(kept)
    credit, terms = rule(table), rule.terms(table)
    advantage_N = by_turn(credit, table.n_turns)
    tokens_N = of_tokens(credit.advantage_S, credit.turn_S, table.n_turns) if isinstance(credit, TokenCredit) else None
    found = {}
    for place, trajectory in enumerate(one for group in kept for one in group.trajectories):
        rows = np.flatnonzero(table.traj_N == place)
        own = tuple(CreditTerm(name, credit_N[rows], compared_N[rows]) for name, credit_N, compared_N in terms)
        tokens_T = None if tokens_N is None else tuple(tokens_N[row] for row in rows)
        found[trajectory.id] = EpisodeLearning(advantage_T=advantage_N[rows], terms=own, tokens_T=tokens_T)
    return found


def drop_reasons(groups: Sequence[ScoredGroup], by: RunRule) -> dict[str, str]:
    """Trajectory → why the filters of a step dropped it, in the words of its metrics (``drop/…``); those kept are not
    in it. ``groups``: all of the step, because some filters compare groups."""
    found: dict[str, str] = {}
    left = {one.id: score for group in groups for one, score in zip(group.trajectories, group.scores, strict=True)}
    names = list(by.filters)
    for n in range(len(names) + 1):
        kept, _ = keep(groups, {name: by.filters[name] for name in names[:n]}, lone=by.imitates)
        stays = {one.id for group in kept for one in group.trajectories}
        for name in left.keys() - stays - found.keys():
            without = "unusable" if not left[name].usable else "no sibling to compare with"
            found[name] = f"not {names[n - 1]}" if n else without
    return found
