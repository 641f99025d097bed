"""``Judge``: the questions that a judge answers, and the checks on its answers.

Rules come first: work without an answer is a no, and the model is not asked about it. Each batch of questions carries
canaries, planted work that deserves no yes; if the judge accepts one, every verdict of the batch is void. A verdict
that cannot be obtained in time is a ``Fault``, which becomes missing evidence. Verdicts of batches that are not void
are cached. Calls, faults and canaries are counted in a ``Tally``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from turngate.errors import ConfigError
from turngate.judges.asking.judge_calls import Call, Caller, is_final
from turngate.judges.asking.settings import JudgeSettings, Tally
from turngate.judges.asking.text_model import TextModel
from turngate.judges.asking.verdict_store import VerdictCache, verdict_key
from turngate.judges.texts import (
    Answer,
    Canary,
    Criterion,
    Critique,
    Fault,
    FaultKind,
    Item,
    JudgeId,
    PairScores,
    PairVerdict,
    Rule,
    Standings,
    Verdict,
    batch_fault,
    is_missed,
    majority,
    pairwise,
    pointwise,
    rule_out,
    settle_orders,
    single_elimination,
    steps,
    support,
    zero_group,
)
from turngate.judges.texts.canaries import how_many, pair_canaries, pointwise_canaries, step_canaries, support_canaries
from turngate.types import derive_seed

T = TypeVar("T")
MakeCanaries = Callable[[int], list[Canary]]
_BY_RULE = {
    (True, True): PairVerdict(first=0.0, second=0.0, consistent=True),
    (True, False): PairVerdict(first=0.0, second=20.0, consistent=True),
    (False, True): PairVerdict(first=20.0, second=0.0, consistent=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReplies(Generic[T]):
    """One answer per item (or pair), in order, and the counts of the calls that they took."""

    answers: tuple[T, ...]
    tally: Tally


class Judge:
    """One judge with its settings. Everything random derives from ``seed``.

    The counts of every batch are added to ``total``.
    """

    def __init__(
        self,
        text_model: TextModel,
        *,
        seed: int = 0,
        settings: JudgeSettings | None = None,
        cache: VerdictCache | None = None,
        total: Tally | None = None,
    ) -> None:
        self.text_model, self.seed, self.settings = text_model, seed, settings or JudgeSettings()
        self.total = Tally() if total is None else total
        self._cache, self._caller = cache, Caller(text_model, self.settings, seed)

    @property
    def id(self) -> JudgeId:
        """Name and version of the judge; a policy that is being trained has another version after every update."""
        return self.text_model.judge

    # --- questions ----------------------------------------------------------------------------------------------------

    async def pointwise(self, items: Sequence[Item], criterion: Criterion) -> JudgeReplies[Verdict | Fault | Rule]:
        """Whether each item meets the criterion. Where the first score is in doubt, a majority of several samples
        decides."""
        tally = Tally()
        rules = self._rules(items, tally)
        open_ = [item for item, rule in zip(items, rules, strict=True) if rule is None]
        votes = iter(await self._votes(open_, criterion, tally))
        return JudgeReplies(answers=tuple(next(votes) if rule is None else rule for rule in rules), tally=tally)

    async def rubric(
        self, items: Sequence[Item], criteria: Sequence[Criterion]
    ) -> JudgeReplies[tuple[Verdict | Fault | Rule, ...]]:
        """One verdict per item and criterion, for ``rubric_facts``.

        Each criterion is asked about in calls of its own, as a batch with its own canaries. Raises ConfigError without
        criteria.
        """
        if not criteria:
            raise ConfigError("a rubric needs at least one criterion")
        tally = Tally()
        columns: list[tuple[Verdict | Fault | Rule, ...]] = []
        for criterion in criteria:
            judged = await self.pointwise(items, criterion)
            tally.add(judged.tally)
            columns.append(judged.answers)
        return JudgeReplies(answers=tuple(zip(*columns, strict=True)), tally=tally)

    async def support(
        self, items: Sequence[Item], nuggets: Sequence[Sequence[Criterion]]
    ) -> JudgeReplies[tuple[Verdict | Fault | Rule, ...]]:
        """How far each item's answer says each of its own nuggets: a verdict whose score is 1, ½ or 0.

        Raises ConfigError for an item without nuggets.
        """
        if not all(nuggets):
            raise ConfigError("an answer is measured by its nuggets, and one of these has none")
        tally = Tally()
        rules = self._rules(items, tally)
        open_ = [(item, own) for item, own, rule in zip(items, nuggets, rules, strict=True) if rule is None]
        limit = self.settings.limit
        calls = [Call(question=support(item, one, limit=limit)) for item, own in open_ for one in own]
        replies = iter(await self.ask(calls, tally, self._support_canaries(open_)))
        found: list[tuple[Verdict | Fault | Rule, ...]] = []
        for own, rule in zip(nuggets, rules, strict=True):
            found.append(tuple(_expect(next(replies), Verdict) if rule is None else rule for _ in own))
        return JudgeReplies(answers=tuple(found), tally=tally)

    async def pairwise(
        self, pairs: Sequence[tuple[Item, Item]], criterion: Criterion
    ) -> JudgeReplies[PairVerdict | Fault]:
        """Which item of each pair is better. Each pair is asked about in both orders; where the replies disagree it is
        a tie."""
        tally = Tally()
        return JudgeReplies(answers=tuple(await self._pairs(pairs, criterion, tally, faithful=False)), tally=tally)

    async def steps(
        self, items: Sequence[Item], criterion: Criterion, *, votes: int = 3
    ) -> JudgeReplies[tuple[Critique | Fault, ...]]:
        """``votes`` critiques of each item's turns, for ``critique_facts``.

        Rules decide nothing here, because a failed episode can have steps that were right. Raises ConfigError for
        votes < 1.
        """
        if votes < 1:
            raise ConfigError(f"votes is {votes}; each item needs at least one critique")
        tally = Tally()
        calls = [
            Call(question=steps(item, criterion, limit=self.settings.limit), sample=sample)
            for item in items
            for sample in range(votes)
        ]
        replies = iter(await self.ask(calls, tally, self._canaries(step_canaries, items, criterion)))
        critiques = tuple(tuple(_expect(next(replies), Critique) for _ in range(votes)) for _ in items)
        return JudgeReplies(answers=critiques, tally=tally)

    async def tournament(
        self,
        items: Sequence[Item],
        criterion: Criterion,
        *,
        essential: Criterion | None = None,
        faithful: bool = False,
    ) -> tuple[Standings, Tally]:
        """Rank siblings, see ``single_elimination``: 2(N − 1) matches of two calls each.

        Canaries are in the first round in which the judge is asked. ``essential`` is a criterion that is asked about
        before the tournament. If no item meets it, or if all items fail by rule, every item gets 0.
        """
        tally, before = Tally(), Tally()
        rounds = single_elimination(len(items), faithful=faithful)
        failed = [rule_out(item) is not None for item in items]
        if essential is None or all(failed):
            self._rules(items, tally)
        else:
            judged = await self.pointwise(items, essential)
            failed = [isinstance(a, Rule) or (isinstance(a, Verdict) and not a.passed) for a in judged.answers]
            before = judged.tally
        if all(failed) or before.void:
            tally.add(before)
            unplayed = _unplayed(len(items), before.void)
            return (unplayed if before.void else zero_group(unplayed)), tally
        results: list[PairVerdict | None] | None = None
        while True:
            try:
                matches = next(rounds) if results is None else rounds.send(results)
            except StopIteration as end:
                standings: Standings = _voided(end.value, tally.void) if tally.void else end.value
                tally.add(before)
                return standings, tally
            pairs = [(items[first], items[second]) for first, second in matches]
            found = await self._pairs(pairs, criterion, tally, faithful=faithful)
            results = [None if isinstance(one, Fault) else one for one in found]

    async def ask(self, calls: Sequence[Call], tally: Tally, make_canaries: MakeCanaries | None = None) -> list[Answer]:
        """One answer per call, in order; equal calls are made once. The counts are added to ``tally``.

        If some answer is not in the cache, the canaries of ``make_canaries`` are asked about too. If the judge accepts
        one of them, every answer becomes a fault. Only after this check are verdicts written to the cache.
        """
        own = Tally()
        try:
            return await self._ask(calls, own, make_canaries)
        finally:
            tally.add(own)
            self.total.add(own)

    async def _ask(self, calls: Sequence[Call], tally: Tally, make_canaries: MakeCanaries | None) -> list[Answer]:
        keys = [self._key(call) for call in calls]
        wanted = dict(zip(keys, calls, strict=True))
        answers = self._cache.read(list(wanted)) if self._cache else {}
        tally.n_cached += len(answers)
        new = {key: call for key, call in wanted.items() if key not in answers}
        canaries = make_canaries(len(new)) if new and make_canaries else []
        samples = sorted({call.sample for call in new.values()})  # canaries are sampled like the other questions
        probes = {
            f"canary {at}.{order}": Call(question=question, sample=samples[at % len(samples)])
            for at, canary in enumerate(canaries)
            for order, question in enumerate(canary.questions)
        }
        fresh = await self._caller.ask(new | probes, tally)
        answers |= {key: fresh[key] for key in new}
        fault = self._verify(canaries, fresh, tally)
        if fault is not None:
            return [fault] * len(calls)
        if self._cache:
            self._cache.write({key: answers[key] for key in new if is_final(answers[key])}, self.id)
        return [answers[key] for key in keys]

    # --- batches ------------------------------------------------------------------------------------------------------

    def _rules(self, items: Sequence[Item], tally: Tally) -> list[Rule | None]:
        rules = [rule_out(item) for item in items]
        for counted in (tally, self.total):
            counted.n_ruled += sum(rule is not None for rule in rules)
        return rules

    async def _votes(self, items: Sequence[Item], criterion: Criterion, tally: Tally) -> list[Verdict | Fault]:
        settings = self.settings
        questions = [pointwise(item, criterion, limit=settings.limit) for item in items]
        canaries = self._canaries(pointwise_canaries, items, criterion)
        firsts = await self.ask([Call(question=question) for question in questions], tally, canaries)
        samples: list[list[Answer]] = [[first] for first in firsts]
        low, high = settings.doubt
        doubtful = [at for at, one in enumerate(firsts) if isinstance(one, Verdict) and low <= one.score <= high]
        further = [Call(question=questions[at], sample=vote) for at in doubtful for vote in range(1, settings.votes)]
        more = iter(await self.ask(further, tally, canaries))
        for at in doubtful:
            samples[at] += [next(more) for _ in range(1, settings.votes)]
        if tally.void:
            return [Fault(kind=FaultKind.VOID, detail=tally.void) for _ in items]
        return [majority(answers) for answers in samples]

    async def _pairs(
        self, pairs: Sequence[tuple[Item, Item]], criterion: Criterion, tally: Tally, *, faithful: bool
    ) -> list[PairVerdict | Fault]:
        ruled = [(rule_out(first) is not None, rule_out(second) is not None) for first, second in pairs]
        open_ = [pair for pair, out in zip(pairs, ruled, strict=True) if out == (False, False)]
        replies = iter(await self.orders(open_, criterion, tally))
        found: list[PairVerdict | Fault] = []
        for out in ruled:
            if out in _BY_RULE:
                found.append(_BY_RULE[out])
                continue
            reply = next(replies)
            found.append(reply if isinstance(reply, Fault) else settle_orders(*reply, faithful=faithful))
        return found

    async def orders(
        self, pairs: Sequence[tuple[Item, Item]], criterion: Criterion, tally: Tally, *, canaries: bool = True
    ) -> list[tuple[PairScores, PairScores] | Fault]:
        """The scores for (A, B) and for (B, A), not yet combined, and without rules; a Fault if one of the two is
        missing."""
        limit = self.settings.limit
        calls = [
            Call(question=pairwise(a, b, criterion, limit=limit))
            for one, two in pairs
            for a, b in ((one, two), (two, one))
        ]
        items = [item for pair in pairs for item in pair]
        make = self._canaries(pair_canaries, items, criterion) if canaries and not tally.n_canaries else None
        replies = await self.ask(calls, tally, make)
        found: list[tuple[PairScores, PairScores] | Fault] = []
        for forward, backward in zip(replies[::2], replies[1::2], strict=True):
            one, two = _expect(forward, PairScores), _expect(backward, PairScores)
            found.append(one if isinstance(one, Fault) else two if isinstance(two, Fault) else (one, two))
        return found

    def _canaries(self, make: Callable[..., list[Canary]], items: Sequence[Item], criterion: Criterion) -> MakeCanaries:
        settings = self.settings

        def canaries(n_questions: int) -> list[Canary]:
            n = how_many(n_questions, share=settings.canary_share, at_least=settings.canary_min)
            seed = derive_seed(self.seed, "canaries", *(item.id for item in items))
            return make(items, criterion, n, seed=seed, limit=settings.limit)

        return canaries

    def _support_canaries(self, asked: Sequence[tuple[Item, Sequence[Criterion]]]) -> MakeCanaries:
        items, nuggets = [item for item, _ in asked], [own for _, own in asked]

        def canaries(n_questions: int) -> list[Canary]:
            n = how_many(n_questions, share=self.settings.canary_share, at_least=self.settings.canary_min)
            seed = derive_seed(self.seed, "canaries", *(item.id for item in items))
            return support_canaries(items, nuggets, n, seed=seed, limit=self.settings.limit)

        return canaries

    def _verify(self, canaries: Sequence[Canary], fresh: Mapping[str, Answer], tally: Tally) -> Fault | None:
        """The fault of the whole batch if the judge accepted a canary, else None."""
        if not canaries:
            return None
        missed = [
            is_missed(canary, [fresh[f"canary {at}.{order}"] for order in range(len(canary.questions))])
            for at, canary in enumerate(canaries)
        ]
        tally.n_canaries += len(missed)
        tally.n_missed += sum(one is True for one in missed)
        fault = batch_fault(missed)
        if fault is not None:
            tally.void = fault.detail
            tally.faults[FaultKind.VOID] += 1
        return fault

    def _key(self, call: Call) -> str:
        return verdict_key(
            call.question,
            self.id,
            temperature=call.temperature(self.settings),
            max_tokens=self.settings.max_tokens,
            quotes=self.settings.quotes,
            sample=call.sample,
            seed=self.seed,
        )


A = TypeVar("A", Critique, PairScores, Verdict)


def _expect(answer: Answer, kind: type[A]) -> A | Fault:
    assert isinstance(answer, (kind, Fault))
    return answer


def _unplayed(n: int, problem: str) -> Standings:
    nan_B = np.full(n, np.nan)
    return Standings(reward_B=nan_B, n_matches=0, n_missing=0, problem=problem)


def _voided(standings: Standings, problem: str) -> Standings:
    nan_B = np.full_like(standings.reward_B, np.nan)
    return replace(standings, reward_B=nan_B, problem=problem)
