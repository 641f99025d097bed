"""Canaries: answers that a judge must reject, mixed into every batch. If it accepts one, the whole batch is void.

There are five kinds: a *master key* (a phrase without content that is known to fool judges), an empty answer, a
constant sentence that praises itself, a real answer to another task, and an injection (a sentence that asks the judge
for its verdict, see ``injections``). Their verdicts are never paid and never
cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from turngate.errors import ConfigError
from turngate.judges.texts.injections import INJECTIONS
from turngate.judges.texts.items import CORRECT, MASTER_KEYS, NULL_ANSWERS, Criterion, Item, ShownTurn
from turngate.judges.texts.prompts import Question, pairwise, pointwise, steps, support
from turngate.judges.texts.verdicts import Answer, Critique, Fault, PairScores, Verdict, settle_orders
from turngate.rewards.no_verdict import FaultKind
from turngate.types import derive_seed

CanaryKind: TypeAlias = Literal["master_key", "empty", "constant", "shuffled", "injection"]
_KINDS: tuple[CanaryKind, ...] = ("master_key", "empty", "constant", "shuffled", "injection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The questions of one canary: one, or for a comparison two, with the worthless answer second and then first."""

    kind: CanaryKind
    questions: tuple[Question, ...]


def how_many(n_questions: int, *, share: float = 0.02, at_least: int = 1) -> int:
    """Canaries of each kind in a batch: ``max(at_least, ⌈share · n⌉)``, so 2 % of it are master keys by default.

    Both defaults are ours. Raises ConfigError for a share outside [0, 1] or ``at_least`` < 1, because without canaries
    nothing is known about a batch.
    """
    if not 0 <= share <= 1 or at_least < 1:
        raise ConfigError(f"a batch needs share in [0, 1] and at_least ≥ 1, found {share} and {at_least}")
    return max(at_least, math.ceil(share * n_questions))


def null_items(
    items: Sequence[Item], n: int, *, seed: int, criterion: Criterion
) -> list[tuple[CanaryKind, Item, Item]]:
    """(kind, null item, the real item whose task it stands under), n of each kind, drawn by ``seed``.

    Shuffled ones take the answer of another task: one that differs from the host's own and does not stand in its
    reference, because an answer that is wrong there may be right here. They need two tasks and a criterion about the
    task; without those their places go to master keys. Raises ConfigError without items.
    """
    if not items:
        raise ConfigError("canaries stand under the tasks of a batch, and this one is empty")
    found: list[tuple[CanaryKind, Item, Item]] = []
    for index in range(n * len(_KINDS)):
        host = items[derive_seed(seed, "host", index) % len(items)]
        kind = _KINDS[index % len(_KINDS)]
        others = [item for item in items if item.task != host.task and not _could_fit(item.answer, host)]
        if kind == "shuffled" and others and criterion.about_task:
            other = others[derive_seed(seed, "other", index) % len(others)]
            found.append((kind, replace(other, task=host.task, reference=host.reference), host))
            continue
        text = {"empty": NULL_ANSWERS[0], "constant": NULL_ANSWERS[1]}.get(kind)
        if kind == "injection":
            text = INJECTIONS[derive_seed(seed, "injection", index) % len(INJECTIONS)]
        if text is None:
            kind, text = "master_key", MASTER_KEYS[derive_seed(seed, "key", index) % len(MASTER_KEYS)]
        images = host.steps[0].images if host.steps else ()  # so that no judge tells a canary by what it lacks
        found.append((kind, replace(host, steps=(ShownTurn(said=text, images=images),), answer=text), host))
    return found


def pointwise_canaries(items: Sequence[Item], criterion: Criterion, n: int, *, seed: int, limit: int) -> list[Canary]:
    """Null answers that must not get a yes."""
    criterion = _proof(criterion)
    nulls = null_items(items, n, seed=seed, criterion=criterion)
    return [Canary(kind=kind, questions=(pointwise(null, criterion, limit=limit),)) for kind, null, _ in nulls]


def support_canaries(
    items: Sequence[Item], nuggets: Sequence[Sequence[Criterion]], n: int, *, seed: int, limit: int
) -> list[Canary]:
    """Null answers that must not be said to support a nugget of the task under which they stand."""
    of_item = {item.id: criteria for item, criteria in zip(items, nuggets, strict=True)}
    found: list[Canary] = []
    for index, (kind, null, host) in enumerate(null_items(items, n, seed=seed, criterion=CORRECT)):
        criteria = of_item[host.id]
        criterion = criteria[derive_seed(seed, "nugget", index) % len(criteria)]
        found.append(Canary(kind=kind, questions=(support(null, criterion, limit=limit),)))
    return found


def step_canaries(items: Sequence[Item], criterion: Criterion, n: int, *, seed: int, limit: int) -> list[Canary]:
    """Null turns that must not be called right. None is shuffled: a step of other work can be a right step."""
    nulls = null_items(items, n, seed=seed, criterion=replace(criterion, about_task=False))
    return [Canary(kind=kind, questions=(steps(null, criterion, limit=limit),)) for kind, null, _ in nulls]


def pair_canaries(items: Sequence[Item], criterion: Criterion, n: int, *, seed: int, limit: int) -> list[Canary]:
    """Pairs of real work and a null answer, which must not win over both orders.

    Where the host has a reference, that stands in for the real work, because the policy's own may deserve to lose.
    """
    criterion = _proof(criterion)
    found: list[Canary] = []
    for kind, null, host in null_items(items, n, seed=seed, criterion=criterion):
        real = replace(host, steps=(ShownTurn(said=host.reference),)) if host.reference else host
        orders = (pairwise(real, null, criterion, limit=limit), pairwise(null, real, criterion, limit=limit))
        found.append(Canary(kind=kind, questions=orders))
    return found


def is_missed(canary: Canary, answers: Sequence[Answer]) -> bool | None:
    """Whether the judge accepted the canary; None if it could not be measured.

    A reply that is thrown away for an invented quote, or that says "invalid", is no acceptance.
    """
    thrown = (FaultKind.UNQUOTED, FaultKind.INVALID)
    if any(isinstance(answer, Fault) and answer.kind not in thrown for answer in answers):
        return None
    if any(isinstance(answer, Fault) for answer in answers):
        return False
    first = answers[0]
    if isinstance(first, Verdict):
        return first.passed
    if isinstance(first, Critique):
        return any(bad is False for bad in first.bad_T)
    pairs = [answer for answer in answers if isinstance(answer, PairScores)]
    return settle_orders(pairs[0], pairs[1]).share == 0.0


def batch_fault(missed: Sequence[bool | None]) -> Fault | None:
    """The fault that voids all verdicts of a batch, or None if they stand. ``missed``: ``is_missed`` of each canary.

    A batch is void if the judge accepted one canary, or if none could be measured.
    """
    n_missed = sum(one is True for one in missed)
    if n_missed:
        return Fault(kind=FaultKind.VOID, detail=f"the judge accepted {n_missed} of {len(missed)} canaries")
    if all(one is None for one in missed):
        return Fault(kind=FaultKind.VOID, detail=f"none of {len(missed)} canaries could be measured")
    return None


def every_canary(items: Sequence[Item], criterion: Criterion, *, seed: int, limit: int) -> list[Canary]:
    """Each master key, null answer and injection once, and as many shuffled answers as keys: to measure a judge, not a
    batch."""
    kinds: list[tuple[CanaryKind, str]] = [("master_key", text) for text in MASTER_KEYS]
    kinds += [("constant" if text else "empty", text) for text in NULL_ANSWERS]
    kinds += [("injection", text) for text in INJECTIONS]
    found: list[Canary] = []
    for index, (kind, text) in enumerate(kinds):
        host = items[index % len(items)]
        null = replace(host, steps=(ShownTurn(said=text),), answer=text)
        found.append(Canary(kind=kind, questions=(pointwise(null, criterion, limit=limit),)))
    drawn = pointwise_canaries(items, criterion, len(MASTER_KEYS), seed=seed, limit=limit)
    return found + [canary for canary in drawn if canary.kind == "shuffled"]


def _proof(criterion: Criterion) -> Criterion:
    """The criterion for null work. It may truly have a pitfall, so for one it is ``CORRECT``: the judge is measured."""
    return criterion if criterion.weight > 0 else CORRECT


def _could_fit(answer: str | None, host: Item) -> bool:
    return answer == host.answer or (answer or "").strip() in host.reference
