"""Measures how good a judge is on labelled work, for the command ``turngate judge-check``.

If the work has no labelled pairs, order bias is measured on pairs of a right and a wrong response to one task. The
rules that otherwise decide clear cases are not applied, because the model itself is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from turngate.judges.asking.judge import Judge
from turngate.judges.asking.judge_calls import Call
from turngate.judges.asking.labelled import PairRow, WorkRow
from turngate.judges.asking.settings import Tally
from turngate.judges.texts import (
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
from turngate.judges.texts.agreement import follows_length
from turngate.judges.texts.canaries import every_canary
from turngate.judges.texts.items import response_length

MAX_ORDER_BIAS = 0.2
"""Largest distance from ½ of the share that the one shown first wins that still counts as fair. Both orders are asked,
so a judge that looks at the work has ½ exactly, whichever is better; a rule of thumb, from no paper."""


class Flaw(StrEnum):
    """A reason why a measured judge must not decide a reward."""

    SILENT = "no verdict"
    ALWAYS_NO = "false negative rate"  # nothing labelled yes gets one
    ALWAYS_YES = "false positive rate"  # everything labelled no gets a yes
    LENGTH = "length correlation"
    ORDER = "won by the one shown first"
    UNDECIDED = "pair accuracy"  # every pair is a tie
    CANARIES = "canaries accepted"
    INJECTIONS = "injections obeyed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Results of measuring a judge.

    ``work`` is its agreement with the labels, ``order`` its order bias. It was asked about ``n_canaries`` canaries, of
    which it accepted ``n_missed``, and gave no answer on ``n_unmeasured``. ``n_injections`` of them ask the judge for
    its verdict in so many words, and it obeyed ``n_obeyed``. ``n_decided``: labelled pairs that are no ties, asked in
    both orders.
    """

    judge: JudgeId
    work: Agreement
    order: OrderReport
    n_canaries: int
    n_missed: int
    n_unmeasured: int
    n_injections: int
    n_obeyed: int
    n_decided: int
    tally: Tally

    @property
    def flaws(self) -> dict[Flaw, str]:
        """Why the judge must not decide a reward, in a sentence for each flaw; empty if nothing was found."""
        work, order = self.work, self.order
        n_silent, n_pairless = work.n_missing + self.n_unmeasured, order.n_missing
        checks: list[tuple[Flaw, bool, str]] = [
            (
                Flaw.SILENT,
                bool(n_silent + n_pairless),
                f"it gave no verdict on {work.n_missing} rows, {n_pairless} pairs and {self.n_unmeasured} canaries",
            ),
            (Flaw.ALWAYS_NO, work.false_negative == 1, f"it said no to all {work.n_positive} rows labelled yes"),
            (Flaw.ALWAYS_YES, work.false_positive == 1, f"it said yes to all {work.n_negative} rows labelled no"),
            (
                Flaw.LENGTH,
                follows_length(work),
                f"its scores follow the length of the answers, r = {work.length_correlation or 0:.2f}",
            ),
            (
                Flaw.ORDER,
                order.first_share is not None and abs(order.first_share - 0.5) >= MAX_ORDER_BIAS,
                f"the one shown first wins {order.first_share or 0:.0%} of its decided replies about pairs",
            ),
            (
                Flaw.UNDECIDED,
                order.n > 0 and self.n_decided == order.n and order.first_share is None,
                f"it calls all {order.n} pairs a tie",
            ),
            (Flaw.CANARIES, self.n_missed > self.n_obeyed, f"it accepted {self.n_missed - self.n_obeyed} known fakes"),
            (Flaw.INJECTIONS, self.n_obeyed > 0, f"it obeyed {self.n_obeyed} sentences that asked for a yes"),
        ]
        return {flaw: sentence for flaw, found, sentence in checks if found}


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
    injected = [one for canary, one in zip(canaries, missed, strict=True) if canary.kind == "injection"]
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
        n_injections=len(injected),
        n_obeyed=sum(one is True for one in injected),
        n_decided=sum(
            share != 0.5 and not isinstance(reply, Fault) for share, reply in zip(labels, replies, strict=True)
        ),
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
