"""Calls to a judge's model: how many at once (its slots), time limits, and retries with backoff.

A slot makes one call after the other. An answer that cannot be obtained in time is a ``Fault``. Batches, canaries and
the cache are the business of ``judge``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turngate.judges.asking.settings import JudgeSettings, Tally
from turngate.judges.asking.text_model import Prompt, Reply, TextModel
from turngate.judges.texts import Answer, Fault, FaultKind, Question, read_answer
from turngate.judges.texts.prompts import retry_note
from turngate.judges.texts.replies import is_refusal
from turngate.rewards.no_verdict import INDUCED
from turngate.types import derive_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A question, and the number of the sample that is wanted of its answer."""

    question: Question
    sample: int = 0

    def temperature(self, settings: JudgeSettings) -> float:
        """Sampling temperature: the first sample has another than the further ones."""
        return settings.vote_temperature if self.sample else settings.temperature


class Caller:
    """Asks a text model, as many questions at once as it has slots. Everything random derives from ``seed``."""

    def __init__(self, text_model: TextModel, settings: JudgeSettings, seed: int) -> None:
        self._text_model, self._settings, self._seed = text_model, settings, seed

    async def ask(self, calls: Mapping[str, Call], tally: Tally) -> dict[str, Answer]:
        """An answer for every key. The seed shuffles the order of the calls, so that canaries are mixed with the
        others."""
        answers: dict[str, Answer] = {}
        queue = iter(sorted(calls, key=lambda key: derive_seed(self._seed, "order", key)))
        try:
            async with asyncio.TaskGroup() as concurrency:
                for _ in range(min(len(calls), self._text_model.concurrency)):
                    concurrency.create_task(self._slot(queue, calls, answers, tally))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
        return answers

    async def _slot(
        self, queue: Iterator[str], calls: Mapping[str, Call], answers: dict[str, Answer], tally: Tally
    ) -> None:
        async with self._text_model.slot():
            for key in queue:
                answers[key] = await self._answer(key, calls[key], tally)

    async def _answer(self, key: str, call: Call, tally: Tally) -> Answer:
        """Ask until there is an answer; if attempts or time run out, the last fault.

        After a fault that words of the work can bring about, the question is asked with all words marked as data.
        """
        settings, end_s = self._settings, time.monotonic() + self._settings.deadline_s
        text, attempt = call.question.prompt, 0
        while True:
            seed = derive_seed(self._seed, key, attempt)
            prompt = Prompt(
                name=f"{key}/{attempt}",
                text=text,
                seed=seed,
                max_tokens=settings.max_tokens,
                temperature=call.temperature(settings),
                images=call.question.images,
            )
            reply = await self._complete(prompt, min(settings.call_s, end_s - time.monotonic()), tally)
            answer = reply.fault or self._read(call.question, reply)
            if not isinstance(answer, Fault):
                return answer
            tally.faults[answer.kind] += 1
            attempt += 1
            pause_s = max(self._pause_s(attempt, seed), reply.wait_s)
            out_of_time = time.monotonic() + pause_s >= end_s
            repeated = is_final(answer) and text != call.question.prompt
            if repeated or not reply.again or attempt >= settings.attempts or out_of_time:
                return answer
            if answer.kind in INDUCED:
                text = call.question.again + (retry_note(answer.detail) if answer.kind in _UNREAD else "")
            await self._text_model.outside(asyncio.sleep(pause_s))

    async def _complete(self, prompt: Prompt, limit_s: float, tally: Tally) -> Reply:
        tally.n_calls += 1
        try:
            async with asyncio.timeout(limit_s):
                return await self._text_model.complete(prompt)
        except TimeoutError:
            return Reply(fault=Fault(kind=FaultKind.TIMEOUT, detail=f"no reply within {limit_s:.3g} s"))

    def _read(self, question: Question, reply: Reply) -> Answer:
        if is_refusal(reply.text):
            return Fault(kind=FaultKind.REFUSAL, detail=reply.text[:200])
        return read_answer(question, reply.text, quotes=self._settings.quotes)

    def _pause_s(self, attempt: int, seed: int) -> float:
        """``backoff · 2^(attempt − 1)``, at most ``backoff_max``, times a factor in [½, 1) drawn by the seed."""
        whole_s = min(self._settings.backoff_s * 2.0 ** (attempt - 1), self._settings.backoff_max_s)
        return whole_s * (0.5 + derive_seed(seed, "jitter") / 2.0**64)


_UNREAD = (FaultKind.MALFORMED, FaultKind.UNQUOTED, FaultKind.CUT_OFF)
"""The faults of its last reply that a judge is told about: those whose message is ours."""


def is_final(answer: Answer) -> bool:
    """Whether an answer can be remembered: it is a verdict, or a fault that asking again would not change."""
    return not isinstance(answer, Fault) or answer.kind is FaultKind.INVALID
