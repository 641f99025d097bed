"""Checks what an examiner returned: facts are recorded only if the whole answer is valid, else they are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from turngate.errors import ConfigError
from turngate.judges.examiners.base import Examiner
from turngate.types import JSON, Evidence, Group, Trajectory

ANSWER = "answer"
"""Name of the evidence in which an environment records an episode's answer."""


def recorded_answer(trajectory: Trajectory) -> str | None:
    """The answer that the environment recorded for the whole episode; None if the agent gave none.

    Raises ConfigError for an environment that records no answers, which differs from an agent that gave none.
    """
    answers = [fact.value for fact in trajectory.record().evidence if fact.name == ANSWER and fact.turn is None]
    if not answers:
        raise ConfigError(
            f"the environment of task '{trajectory.task.id}' ({trajectory.task.env_id}) records no answers; let its "
            f"verify() yield Evidence(name='{ANSWER}', value=TEXT)"
        )
    return None if answers[-1] is None else str(answers[-1])


def refuse_shared(examiners: Sequence[Examiner]) -> None:
    """Raise ConfigError if two examiners record facts under one name, because they could not be told apart."""
    names = Counter(name for examiner in examiners for name in {*examiner.writes, examiner.label})
    for name in (name for name, count in names.items() if count > 1):
        both = " and ".join(
            f"'{examiner.type}'" for examiner in examiners if name in (*examiner.writes, examiner.label)
        )
        raise ConfigError(f"examiners {both} both record '{name}'; give one of them another name")


def check_facts(examiner: Examiner, groups: Sequence[Group], answer: object) -> list[list[tuple[Evidence, ...]]]:
    """The facts that ``examine`` returned, copied; a declared name without any fact is recorded as missing.

    Raises ValueError, saying which rule was broken, for an answer of another shape, a fact under a name that the
    examiner does not declare or that the episode has already, about a turn that does not exist, or with a value that is
    not JSON (NaN and infinity are not).
    """
    rows = [_list(of_group, len(group.trajectories)) for of_group, group in _paired(answer, groups)]
    return [
        [_of_one(examiner, one, facts) for one, facts in zip(group.trajectories, row, strict=True)]
        for group, row in zip(groups, rows, strict=True)
    ]


def missing(examiner: Examiner, trajectory: Trajectory, names: Iterable[str] | None = None) -> tuple[Evidence, ...]:
    """Facts of value None, one for each of ``names`` (by default all) of which the episode has no fact yet."""
    taken = {fact.name for fact in trajectory.record().evidence}
    wanted = examiner.writes if names is None else names
    by: Literal["verifier", "judge"] = "judge" if examiner.all_judges else "verifier"
    return tuple(Evidence(name=name, value=None, by=by) for name in wanted if name not in taken)


def plain(value: object) -> JSON:
    """A copy of a JSON value. Raises ValueError for anything else, NaN and infinity among it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not JSON; record None for what could not be measured")
        return float(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(f"{value!r:.80} is not JSON: its keys must be texts")
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise ValueError(f"{value!r:.80} of type {type(value).__name__} is not JSON")


def _paired(answer: object, groups: Sequence[Group]) -> list[tuple[object, Group]]:
    return list(zip(_list(answer, len(groups)), groups, strict=True))


def _list(found: object, length: int) -> list[object] | tuple[object, ...]:
    if not isinstance(found, list | tuple) or len(found) != length:
        raise ValueError(f"it returned {found!r:.80}, which must be a list of {length}")
    return found


def _of_one(examiner: Examiner, trajectory: Trajectory, facts: object) -> tuple[Evidence, ...]:
    if not isinstance(facts, list | tuple):
        raise ValueError(f"it returned {facts!r:.80}, which must be a list of the facts about one episode")
    taken = {fact.name for fact in trajectory.record().evidence}.intersection(examiner.writes)
    if taken:
        raise ValueError(f"episode '{trajectory.id}' has facts named {sorted(taken)} already; rename the examiner's")
    kept = tuple(_fact(examiner, trajectory, fact) for fact in facts)
    return kept + missing(
        examiner, trajectory, [name for name in examiner.writes if name not in {fact.name for fact in kept}]
    )


def _fact(examiner: Examiner, trajectory: Trajectory, fact: object) -> Evidence:
    if not isinstance(fact, Evidence):
        raise ValueError(f"it returned {fact!r:.80}, which must be an Evidence")
    if fact.name not in examiner.writes:
        raise ValueError(f"it recorded '{fact.name}', but declares only {list(examiner.writes)}")
    n_turns = len(trajectory.turns)
    if fact.turn is not None and (type(fact.turn) is not int or not 0 <= fact.turn < n_turns):
        raise ValueError(f"its fact '{fact.name}' is about turn {fact.turn!r} of an episode with {n_turns} turns")
    if fact.by not in ("env", "verifier", "judge"):
        raise ValueError(f"its fact '{fact.name}' has by = {fact.by!r}; it must be 'env', 'verifier' or 'judge'")
    return Evidence(name=fact.name, value=plain(fact.value), turn=fact.turn, by=fact.by)
