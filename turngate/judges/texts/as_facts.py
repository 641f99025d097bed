"""Turns verdicts of judges into evidence. A missing verdict is None: never zero, never positive.

Each verdict becomes two facts. The fact under the given name is a plain bool or number, which every reward and gate can
read (a mapping would count as true whatever the verdict, so that gates on it would always be open). The fact under
``NAME_judge`` says who judged (id and version) and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts.items import Criterion, Rule
from turngate.judges.texts.tournament import Standings
from turngate.judges.texts.verdicts import Critique, Fault, PairVerdict, Quote, Verdict, unanimous
from turngate.judges.texts.votes import capo_votes
from turngate.rewards.outcome.attempts import win_rate
from turngate.rewards.outcome.criteria import criteria_score
from turngate.types import JSON, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeId:
    """Name and version of a judge. Verdicts of different versions are different measurements."""

    name: str
    version: str


Facts = tuple[Evidence, ...]


def verdict_facts(
    name: str,
    answer: Verdict | Fault | Rule,
    judge: JudgeId,
    *,
    use: Literal["passed", "score"] = "passed",
    turn: int | None = None,
) -> Facts:
    """A pointwise verdict as evidence. A rule's no is False (or 0), and by the verifier: no judge was asked."""
    if isinstance(answer, Rule):
        plain = Evidence(name=name, value=False if use == "passed" else 0.0, turn=turn, by="verifier")
        return plain, _record(name, judge, {"rule": str(answer)}, turn)
    if isinstance(answer, Fault):
        return _missing(name, answer, judge, turn)
    value = answer.passed if use == "passed" else answer.score
    said: dict[str, JSON] = {"passed": answer.passed, "score": answer.score, "quotes": _quotes(answer.quotes)}
    return Evidence(name=name, value=value, turn=turn, by="judge"), _record(name, judge, said, turn)


def critique_facts(
    name: str,
    critiques: Sequence[Critique | Fault],
    judge: JudgeId,
    *,
    n_turns: int,
    mode: Literal["majority", "intersection", "average"] = "majority",
) -> Facts:
    """Votes of several critiques as one fact per turn, 1 = right and 0 = wrong (a share for "average").

    A turn on which no valid critique says anything is None. The vote is CAPO's, see ``votes.capo_votes``.
    """
    bad_NC = np.full((n_turns, max(len(critiques), 1)), np.nan)
    for column, critique in enumerate(critiques):
        if isinstance(critique, Critique):
            bad_NC[:, column] = [np.nan if bad is None else float(bad) for bad in critique.bad_T]
    bad_N = capo_votes(bad_NC, mode=mode)
    facts = [
        Evidence(name=name, value=None if np.isnan(bad) else 1.0 - float(bad), turn=turn, by="judge")
        for turn, bad in enumerate(bad_N)
    ]
    faults = [str(critique.kind) for critique in critiques if isinstance(critique, Fault)]
    quotes = [quote for critique in critiques if isinstance(critique, Critique) for quote in critique.quotes]
    said: dict[str, JSON] = {"critiques": len(critiques), "missing": faults, "quotes": _quotes(quotes)}
    return (*facts, _record(name, judge, said, None))


def tournament_facts(name: str, standings: Standings, judge: JudgeId) -> tuple[Facts, ...]:
    """The facts of each competitor, in order: its reward in [0, 1], None if the tournament is void."""
    said: dict[str, JSON] = {"matches": standings.n_matches, "missing": standings.n_missing}
    if standings.problem:
        said["problem"] = standings.problem
    return tuple(
        (
            Evidence(name=name, value=None if np.isnan(reward) else float(reward), by="judge"),
            _record(name, judge, said, None),
        )
        for reward in standings.reward_B
    )


def win_rate_facts(
    name: str, n: int, matches: Mapping[tuple[int, int], PairVerdict | Fault], judge: JudgeId
) -> tuple[Facts, ...]:
    """The facts of each of ``n`` siblings, from a verdict for every pair (i, j): the share of the others it is better
    than. One that lacks a verdict has no rate: leaving that match out would reward breaking the judge."""
    won_NN = np.full((n, n), np.nan)
    for (first, second), verdict in matches.items():
        if isinstance(verdict, PairVerdict):
            won_NN[first, second], won_NN[second, first] = verdict.share, 1.0 - verdict.share
    rate_N = win_rate(won_NN)
    found: list[Facts] = []
    for index in range(n):
        faults = [str(one.kind) for pair, one in matches.items() if index in pair and isinstance(one, Fault)]
        rate = None if faults or np.isnan(rate_N[index]) else float(rate_N[index])
        won: list[JSON] = [None if np.isnan(share) else float(share) for share in won_NN[index]]
        record = _record(name, judge, {"won": won, "missing": faults}, None)
        found.append((Evidence(name=name, value=rate, by="judge"), record))
    return tuple(found)


def panel_facts(
    name: str, answers: Sequence[Verdict | Fault | Rule], judges: Sequence[JudgeId], *, turn: int | None = None
) -> Facts:
    """The joint verdict of several judges on one item, for a gate that no single model opens (see ``unanimous``).

    Raises ShapeError unless there is one answer per judge, ConfigError for a judge that stands there twice.
    """
    if len(answers) != len(judges):
        raise ShapeError(f"{len(answers)} answers but {len(judges)} judges")
    if len({judge.name for judge in judges}) < len(judges):
        raise ConfigError(f"a panel of {[judge.name for judge in judges]} asks one judge twice; name different models")
    said = [
        record.value
        for answer, judge in zip(answers, judges, strict=True)
        for record in verdict_facts(name, answer, judge)[1:]
    ]
    value = unanimous(answers)
    return (
        Evidence(name=name, value=value, turn=turn, by="judge"),
        Evidence(name=f"{name}_judge", value=said, turn=turn, by="judge"),
    )


def rubric_facts(
    name: str, answers: Sequence[Verdict | Fault | Rule], criteria: Sequence[Criterion], judge: JudgeId
) -> Facts:
    """The weighted score of all criteria as ``NAME`` (see ``rubric_score``) and each verdict as ``NAME_CRITERION``, so
    that a gate can stand on a single one. Raises ShapeError, ConfigError."""
    score = Evidence(name=name, value=rubric_score(answers, criteria), by="judge")
    each = [
        fact
        for answer, criterion in zip(answers, criteria, strict=True)
        for fact in verdict_facts(f"{name}_{criterion.name}", answer, judge)
    ]
    return (score, *each)


def rubric_score(answers: Sequence[Verdict | Fault | Rule], criteria: Sequence[Criterion]) -> float | None:
    """One number from one verdict per criterion: ``clip(Σ w·c / Σ_{w > 0} w, 0, 1)``, see ``criteria_score``.

    None if one is missing. A rule's no is a no to every criterion, also to pitfalls. Raises ShapeError, ConfigError.
    """
    verdicts = [None if isinstance(a, Fault) else float(isinstance(a, Verdict) and a.passed) for a in answers]
    return criteria_score(verdicts, [criterion.weight for criterion in criteria])


def _missing(name: str, fault: Fault, judge: JudgeId, turn: int | None) -> Facts:
    said: dict[str, JSON] = {"missing": str(fault.kind), "detail": fault.detail}
    return Evidence(name=name, value=None, turn=turn, by="judge"), _record(name, judge, said, turn)


def _record(name: str, judge: JudgeId, said: dict[str, JSON], turn: int | None) -> Evidence:
    value: dict[str, JSON] = {"judge": judge.name, "version": judge.version, **said}
    return Evidence(name=f"{name}_judge", value=value, turn=turn, by="judge")


def _quotes(quotes: Sequence[Quote]) -> list[JSON]:
    return [{"turn": quote.turn, "text": quote.text} for quote in quotes]
