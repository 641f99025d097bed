"""Guides in which a model writes words: which model is asked, within which limits, and what happens when no answer
comes.

The model is named as a judge is: the running policy, another model in this process, or a server. A text that is not
there in time is missing, and so is one that was cut off because it became too long: how it would have ended is
unknown. Each is counted, and the guide goes on without help.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import model_validator

from turngate.agents.rollout import Player
from turngate.judges.asking import JudgePart, JudgeSettings, PolicyJudge, Prompt, Reply, TextModel
from turngate.judges.texts import Fault, FaultKind
from turngate.judges.texts.replies import is_refusal
from turngate.part_calls import call_part_later, ignored
from turngate.trainer.guidance.base import Guide, GuidePart
from turngate.types import Metrics, ScoredGroup, Task, derive_seed

_log = logging.getLogger(__name__)
_OF_JUDGES = ("votes", "vote_temperature", "doubt", "canary_share", "canary_min", "quotes")


class Writer:
    """A model that writes texts for a guide; ``settings`` says how long it may take and how long a text may be."""

    def __init__(self, text_model: TextModel, settings: JudgeSettings) -> None:
        self.settings = settings
        self._text_model = text_model
        self._counts: Counter[str] = Counter()

    async def write(self, prompts: Mapping[str, str], *, seed: int) -> dict[str, str]:
        """The text for each prompt, by name; without those that were not written in time or were cut off, which are
        counted."""
        texts: dict[str, str] = {}
        faults: list[Fault] = []
        queue = iter(sorted(prompts))
        try:
            async with asyncio.TaskGroup() as concurrency:
                for _ in range(min(len(prompts), self._text_model.concurrency)):
                    concurrency.create_task(self._slot(queue, prompts, texts, faults, seed))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
        self._counts["asked"] += len(prompts)
        cut_off = sum(fault.kind is FaultKind.CUT_OFF for fault in faults)
        self._counts["cut_off"] += cut_off
        self._counts["unreachable"] += len(faults) - cut_off
        if faults:
            _log.warning("%d of %d texts were not written: %s", len(faults), len(prompts), faults[0].detail)
        return texts

    def metrics(self) -> Metrics:
        """How many texts were asked for, how many were not written and how many were cut off, since the last call
        (``guide/writer_…``)."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/writer_{name}": float(counts[name]) for name in ("asked", "unreachable", "cut_off")}

    async def _slot(
        self, queue: Iterator[str], prompts: Mapping[str, str], texts: dict[str, str], faults: list[Fault], seed: int
    ) -> None:
        async with self._text_model.slot():
            for name in queue:
                reply = await self._reply(name, prompts[name], seed)
                if reply.fault is None:
                    texts[name] = reply.text
                else:
                    faults.append(reply.fault)

    async def _reply(self, name: str, text: str, seed: int) -> Reply:
        """Ask until there is a reply, or attempts or time run out."""
        settings, end_s = self.settings, time.monotonic() + self.settings.deadline_s
        for attempt in range(settings.attempts):
            prompt = Prompt(
                name=f"{name}/{attempt}",
                text=text,
                seed=derive_seed(seed, name, attempt),
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
            )
            reply = await self._complete(prompt, min(settings.call_s, end_s - time.monotonic()))
            pause_s = max(min(settings.backoff_s * 2.0**attempt, settings.backoff_max_s), reply.wait_s)
            last = attempt + 1 == settings.attempts or time.monotonic() + pause_s >= end_s
            if reply.fault is None or not reply.again or last:
                return reply
            await self._text_model.outside(asyncio.sleep(pause_s))
        raise AssertionError("the last attempt returns")

    async def _complete(self, prompt: Prompt, limit_s: float) -> Reply:
        try:
            async with asyncio.timeout(limit_s):
                reply = await self._text_model.complete(prompt)
        except TimeoutError:
            return Reply(fault=Fault(kind=FaultKind.TIMEOUT, detail=f"no reply within {limit_s:.3g} s"))
        if reply.fault is not None and reply.fault.kind is FaultKind.CUT_OFF:
            detail = f"it was longer than {prompt.max_tokens} tokens; raise guide.text_model.max_tokens"
            return Reply(fault=Fault(kind=FaultKind.CUT_OFF, detail=detail), again=False)
        if reply.fault is None and is_refusal(reply.text):
            return Reply(fault=Fault(kind=FaultKind.REFUSAL, detail=reply.text[:200]))
        return reply


class WritingGuide(Guide):
    """A guide that asks a model for texts: before the first wave of a step, and after each wave."""

    async def prepare(self, tasks: Sequence[Task], writer: Writer, seed: int) -> None:
        """Write what ``plan`` needs, before the step is planned. Everything random derives from ``seed``."""

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Write what ``again`` needs to plan wave number ``wave`` of these groups, the first time 1."""


class WritingGuidePart(GuidePart):
    """A guide in which a model writes words. A subclass sets ``type`` and writes ``open``, which returns a
    ``WritingGuide``."""

    text_model: JudgePart = PolicyJudge()
    """Who writes: "policy" (the model that is trained, with its current weights), "model" (another one in this
    process) or "server". Of a judge's settings those about time, length, temperature and limit have an effect."""

    @model_validator(mode="after")
    def _is_no_judge(self) -> Any:
        if idle := sorted(self.text_model.model_fields_set.intersection(_OF_JUDGES) & _changed(self.text_model)):
            raise ValueError(f"text_model.{idle[0]} has no effect: a model that writes for a guide judges nothing")
        return self


def _changed(text_model: JudgePart) -> set[str]:
    """The settings that are not as by default; a config that was written back names them all."""
    fields = type(text_model).model_fields
    return {name for name in _OF_JUDGES if getattr(text_model, name) != fields[name].default}


@asynccontextmanager
async def opened_writer(part: GuidePart, player: Player) -> AsyncIterator[Writer | None]:
    """The model that writes for a guide, for as long as the block lasts; None for a guide that writes nothing."""
    if not isinstance(part, WritingGuidePart):
        yield None
        return
    async with part.text_model.text_model(player) as text_model:
        yield Writer(text_model, part.text_model)


async def prepare(guide: Guide, writer: Writer | None, tasks: Sequence[Task], *, seed: int) -> None:
    """Let a guide that writes do so before a step is planned; the others have nothing to write."""
    if isinstance(guide, WritingGuide) and writer is not None:
        own = derive_seed(seed, "guide", "prepare")
        await call_part_later("guide", guide.prepare, tasks, writer, own, take=ignored, must="")


async def consult(guide: Guide, writer: Writer | None, groups: Sequence[ScoredGroup], *, wave: int, seed: int) -> None:
    """Let a guide that writes do so before it is asked for wave number ``wave``."""
    if isinstance(guide, WritingGuide) and writer is not None:
        own = derive_seed(seed, "guide", wave)
        await call_part_later("guide", guide.write, groups, wave, writer, own, take=ignored, must="")
