"""``Docket``: a judge for code that cannot wait on an event loop, such as an environment's verifier.

Verifiers run on many worker threads, each with one item. Every item brings its canaries, so asked alone it would cost
five calls. On a docket, what comes in within ``gather_s`` is one batch and shares them.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self, TypeAlias

from turngate.judging.judge import Judge
from turngate.judging.settings import Tally
from turngate.rewards.judge import Criterion, Fault, FaultKind, Item, JudgeId, Rule, Verdict

_Case: TypeAlias = tuple[Item, "Future[Verdict | Fault | Rule]"]


class Docket:
    """Use it inside ``with Docket(judge) as docket``, which runs the judge in a thread of its own.

    ``wait_s`` is the most that a caller waits; then the verdict is missing (timeout). Keep it below the environment's
    ``deadline_s``, which would end the episode. ``tally`` counts all batches. Which items share a batch depends on when
    they come; their verdicts do not, unless a canary voids them all. Environments in processes of their own need one
    each.
    """

    def __init__(self, judge: Judge, *, gather_s: float = 0.05, wait_s: float = 600.0) -> None:
        self.judge, self.tally = judge, Tally()
        self._gather_s, self._wait_s = gather_s, wait_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Criterion, list[_Case]] = {}
        self._batches: set[asyncio.Task[None]] = set()

    @property
    def id(self) -> JudgeId:
        """Who judges."""
        return self.judge.id

    def __enter__(self) -> Self:
        """Start the thread and open the judge's speaker. Raises what that raises."""
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(opened)), name="judge", daemon=True)
        self._thread.start()
        opened.result()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop. Whoever still waits gets RuntimeError."""
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def pointwise(self, item: Item, criterion: Criterion) -> Verdict | Fault | Rule:
        """Does the item meet the criterion? Blocks; from any thread. Raises what the judge raises."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("the docket is closed; use 'with Docket(judge) as docket'")
        verdict: Future[Verdict | Fault | Rule] = Future()
        loop.call_soon_threadsafe(self._enter, criterion, (item, verdict))
        try:
            return verdict.result(self._wait_s)
        except TimeoutError:
            if verdict.done():  # it came at the last moment, or the judge raised this
                return verdict.result()
            loop.call_soon_threadsafe(self.tally.faults.update, [FaultKind.TIMEOUT])
            return Fault(kind=FaultKind.TIMEOUT, detail=f"no verdict within {self._wait_s:g} s")

    # --- in the judge's thread ----------------------------------------------------------------------------------------

    async def _serve(self, opened: Future[None]) -> None:
        self._closing = asyncio.Event()
        try:
            async with self.judge.speaker:
                self._loop = asyncio.get_running_loop()
                opened.set_result(None)
                await self._closing.wait()
                for batch in self._batches:
                    batch.cancel()
                await asyncio.gather(*self._batches, return_exceptions=True)
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    def _enter(self, criterion: Criterion, case: _Case) -> None:
        """The first of a batch starts it; others join while it gathers."""
        cases = self._waiting.setdefault(criterion, [])
        cases.append(case)
        if len(cases) == 1:
            batch = asyncio.get_running_loop().create_task(self._judge(criterion, cases))
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)

    async def _judge(self, criterion: Criterion, cases: list[_Case]) -> None:
        try:
            await asyncio.sleep(self._gather_s)
            del self._waiting[criterion]  # whoever comes now is in the next batch
            judged = await self.judge.pointwise([item for item, _ in cases], criterion)
        except asyncio.CancelledError:
            _fail(cases, RuntimeError("the docket was closed before there was a verdict"))
            raise
        except Exception as error:
            _fail(cases, error)
        else:
            self.tally.add(judged.tally)
            for (_, verdict), answer in zip(cases, judged.answers, strict=True):
                verdict.set_result(answer)


def _fail(cases: list[_Case], error: Exception) -> None:
    for _, verdict in cases:
        verdict.set_exception(error)
