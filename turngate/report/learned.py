"""Credit that training gave to recorded episodes: of each turn, its terms, and why an episode was dropped.

Computed again from the record, by the run's own rule and filters; ``turngate show`` prints it and the page (``viewer``)
shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from turngate.trainer.batch.pack import by_turn
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.credit.terms import CreditTerm
from turngate.trainer.filters.parts import Filter, keep
from turngate.trainer.step import UNUSED as UNUSED
from turngate.types import FloatArray, ScoredGroup

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
    def alone(self) -> bool:
        """Whether an episode without siblings is learned from."""

    @property
    def note(self) -> str:
        """A remark on the credit that is computed again; "" for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLearning:
    """The credit of one episode. ``advantage_T``: the credit of its turns; None where there is none, and then ``notes``
    say why. ``terms``: the terms that add up to it, for rules that give them."""

    advantage_T: FloatArray | None
    terms: tuple[CreditTerm, ...]
    notes: tuple[str, ...]


def learned_from(group: ScoredGroup, by: RunRule, *, unused: bool = False) -> list[EpisodeLearning]:
    """The credit of each episode of a group, in order.

    ``unused``: the step played the group and did not learn from it. Credit is computed for every group that the rule
    can compare, also for one that a filter dropped.
    """
    kept, _ = keep([group], {}, lone=by.alone)
    compared = {one.id for left in kept for one in left.trajectories}
    credits: dict[str, tuple[FloatArray, tuple[CreditTerm, ...]]] = {}
    if not unused and by.rule is not None and kept:
        credits = _credits(by.rule, kept)
    filtered = not keep([group], by.filters, lone=by.alone)[0]
    found = []
    for trajectory, score in zip(group.trajectories, group.scores, strict=True):
        advantage_T, terms = credits.get(trajectory.id, (None, ()))
        notes = []
        if unused:
            notes.append("nothing was learned from it: it was tried, or another one took its place")
        elif score.usable and trajectory.id not in compared:
            notes.append("nothing was learned from it: no sibling with the same help to compare it with")
        elif filtered:
            notes.append("a filter dropped the group, so nothing was learned from it")
        if by.rule is None:
            notes.append(f"credit is not shown: rule '{by.name}' reads values that only training measures")
        if by.note and advantage_T is not None:
            notes.append(by.note)
        found.append(EpisodeLearning(advantage_T=advantage_T, terms=terms, notes=tuple(notes)))
    return found


def _credits(rule: CreditRule, kept: Sequence[ScoredGroup]) -> dict[str, tuple[FloatArray, tuple[CreditTerm, ...]]]:
    """Trajectory → the credit of its turns, and the terms that add up to it."""
    table = tabulate(kept)
    advantage_N, terms = by_turn(rule(table), table.n_turns), rule.terms(table)
    found = {}
    for place, trajectory in enumerate(one for group in kept for one in group.trajectories):
        rows = table.traj_N == place
        own = tuple(CreditTerm(name, credit_N[rows], compared_N[rows]) for name, credit_N, compared_N in terms)
        found[trajectory.id] = (advantage_N[rows], own)
    return found


def drop_reasons(groups: Sequence[ScoredGroup], by: RunRule) -> dict[str, str]:
    """Trajectory → why the filters of a step dropped it, in the words of its metrics (``drop/…``); those kept are not
    in it. ``groups``: all of the step, because some filters compare groups."""
    found: dict[str, str] = {}
    left = {one.id: score for group in groups for one, score in zip(group.trajectories, group.scores, strict=True)}
    names = list(by.filters)
    for n in range(len(names) + 1):
        kept, _ = keep(groups, {name: by.filters[name] for name in names[:n]}, lone=by.alone)
        stays = {one.id for group in kept for one in group.trajectories}
        for name in left.keys() - stays - found.keys():
            without = "unusable" if not left[name].usable else "no sibling to compare with"
            found[name] = f"not {names[n - 1]}" if n else without
    return found
