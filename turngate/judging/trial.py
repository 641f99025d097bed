"""Measures how good a judge is on labelled work, for the command ``turngate judge-check``.

If the work has no labelled pairs, order bias is measured on pairs of a right and a wrong response to one task. The
rules that otherwise decide clear cases are not applied, because the model itself is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turngate.judging.judge import Judge
from turngate.judging.labelled import PairRow, WorkRow
from turngate.judging.lanes import Call
from turngate.judging.settings import Tally
from turngate.rewards.judge import (
    CORRECT,
    Agreement,
    Criterion,
    Fault,
    Item,
    JudgeId,
    OrderReport,
    Verdict,
    agreement,
    is_missed,
    item_of_text,
    order_report,
    pointwise,
)
from turngate.rewards.judge.canaries import every_canary
from turngate.rewards.judge.items import response_length


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Results of measuring a judge.

    ``work`` is its agreement with the labels, ``order`` its order bias. It was asked about ``n_canaries`` canaries, of
    which it accepted ``n_missed``, and gave no answer on ``n_unmeasured``.
    """

    judge: JudgeId
    work: Agreement
    order: OrderReport
    n_canaries: int
    n_missed: int
    n_unmeasured: int
    tally: Tally


async def check(judge: Judge, rows: Sequence[WorkRow | PairRow], criterion: Criterion = CORRECT) -> CheckResult:
    """Ask the judge about every row, about pairs in both orders, and about every kind of canary."""
    tally, limit = Tally(), judge.settings.limit
    works = [row for row in rows if isinstance(row, WorkRow)]
    items = [_item(at, row.task, row.response, row.reference) for at, row in enumerate(works)]
    said = await judge.ask([Call(question=pointwise(item, criterion, limit=limit)) for item in items], tally)
    verdicts = [answer if isinstance(answer, Verdict) else None for answer in said]
    pairs, labels = _pairs(rows)
    replies = await judge.orders(pairs, criterion, tally, canaries=False)
    right = [
        item for item, row in zip(items, works, strict=True) if row.label
    ]  # wrong ones may be right for another task
    better = [one if share >= 0.5 else two for (one, two), share in zip(pairs, labels, strict=True)]
    canaries = every_canary(right or better or items, criterion, seed=judge.seed, limit=limit)
    probes = await judge.ask([Call(question=question) for canary in canaries for question in canary.questions], tally)
    missed = [is_missed(canary, [probe]) for canary, probe in zip(canaries, probes, strict=True)]
    return CheckResult(
        judge=judge.id,
        work=agreement(
            [None if verdict is None else verdict.passed for verdict in verdicts],
            [None if verdict is None else verdict.score for verdict in verdicts],
            [row.label for row in works],
            [response_length(item) for item in items],
        ),
        order=order_report([None if isinstance(reply, Fault) else reply for reply in replies], labels),
        n_canaries=len(missed),
        n_missed=sum(one is True for one in missed),
        n_unmeasured=sum(one is None for one in missed),
        tally=tally,
    )


def _item(at: int | str, task: str, response: str, reference: str) -> Item:
    return item_of_text(f"row {at}", task, response, reference=reference)


def _pairs(rows: Sequence[WorkRow | PairRow]) -> tuple[list[tuple[Item, Item]], list[float]]:
    """The labelled pairs; if there are none, pairs of a right and a wrong response to the same task, each used once."""
    shares = {"first": 1.0, "second": 0.0, "tie": 0.5}
    given = [row for row in rows if isinstance(row, PairRow)]
    pairs = [
        (_item(f"{at}a", row.task, row.first, row.reference), _item(f"{at}b", row.task, row.second, row.reference))
        for at, row in enumerate(given)
    ]
    if pairs:
        return pairs, [shares[row.label] for row in given]
    right = [row for row in rows if isinstance(row, WorkRow) and row.label]
    wrong: dict[str, list[WorkRow]] = {}
    for row in rows:
        if isinstance(row, WorkRow) and not row.label:
            wrong.setdefault(row.task, []).append(row)
    used: Counter[str] = Counter()
    for at, row in enumerate(right):
        rivals = wrong.get(row.task, [])
        if used[row.task] < len(rivals):
            rival = rivals[used[row.task]]
            used[row.task] += 1
            pairs.append(
                (
                    _item(f"{at}a", row.task, row.response, row.reference),
                    _item(f"{at}b", row.task, rival.response, row.reference),
                )
            )
    return pairs, [1.0] * len(pairs)
