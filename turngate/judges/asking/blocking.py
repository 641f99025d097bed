"""``BlockingJudge``: a judge for code that cannot await, such as an environment's verifier.

Verifiers run on many worker threads, each with one item to be judged. Every batch of questions carries canaries (see
``judge``), so an item asked about alone would cost five calls. The items that arrive within ``gather_s`` seconds are
therefore asked about as one batch, and share its canaries.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self, TypeAlias

from turngate.judges.asking.judge import Judge
from turngate.judges.asking.settings import Tally
from turngate.judges.texts import Criterion, Fault, FaultKind, Item, JudgeId, Rule, Verdict

_Pending: TypeAlias = tuple[Item, "Future[Verdict | Fault | Rule]"]


class BlockingJudge:
    """Calls ``judge`` from any thread; ``with BlockingJudge(judge) as …`` runs it in a thread of its own.

    A caller waits at most ``wait_s`` seconds; then its verdict is missing (a timeout fault). Keep ``wait_s`` below the
    environment's ``deadline_s``, which would end the episode. ``tally`` counts the calls of all batches. Which items
    share a batch depends on when they arrive. Their verdicts do not depend on it, unless the judge accepts a canary:
    that voids the whole batch. Environments that run in processes of their own need one BlockingJudge each.
    """

    def __init__(self, judge: Judge, *, gather_s: float = 0.05, wait_s: float = 600.0) -> None:
        self.judge, self.tally = judge, Tally()
        self._gather_s, self._wait_s = gather_s, wait_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Criterion, list[_Pending]] = {}
        self._batches: set[asyncio.Task[None]] = set()

    @property
    def id(self) -> JudgeId:
        """Name and version of the judge."""
        return self.judge.id

    def __enter__(self) -> Self:
        """Start the thread and open the judge's text model; raises what opening it raises."""
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(opened)), name="judge", daemon=True)
        self._thread.start()
        opened.result()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop the thread. Calls that still wait raise RuntimeError."""
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def pointwise(self, item: Item, criterion: Criterion) -> Verdict | Fault | Rule:
        """Whether the item meets the criterion. Blocks; may be called from any thread; raises what the judge raises."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("the judge is not running; call it inside 'with BlockingJudge(judge) as …'")
        verdict: Future[Verdict | Fault | Rule] = Future()
        loop.call_soon_threadsafe(self._add, criterion, (item, verdict))
        try:
            return verdict.result(self._wait_s)
        except TimeoutError:
            if verdict.done():  # the verdict came at the last moment, or the judge itself raised TimeoutError
                return verdict.result()
            loop.call_soon_threadsafe(self.tally.faults.update, [FaultKind.TIMEOUT])
            return Fault(kind=FaultKind.TIMEOUT, detail=f"no verdict within {self._wait_s:g} s")

    # --- in the judge's thread ----------------------------------------------------------------------------------------

    async def _serve(self, opened: Future[None]) -> None:
        self._closing = asyncio.Event()
        try:
            async with self.judge.text_model:
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

    def _add(self, criterion: Criterion, one: _Pending) -> None:
        """The first item of a batch starts it; later ones join until ``gather_s`` is over."""
        pending = self._waiting.setdefault(criterion, [])
        pending.append(one)
        if len(pending) == 1:
            batch = asyncio.get_running_loop().create_task(self._judge(criterion, pending))
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)

    async def _judge(self, criterion: Criterion, pending: list[_Pending]) -> None:
        try:
            await asyncio.sleep(self._gather_s)
            del self._waiting[criterion]  # items that arrive from now on belong to the next batch
            judged = await self.judge.pointwise([item for item, _ in pending], criterion)
        except asyncio.CancelledError:
            _fail(pending, RuntimeError("the judge was stopped before there was a verdict"))
            raise
        except Exception as error:
            _fail(pending, error)
        else:
            self.tally.add(judged.tally)
            for (_, verdict), answer in zip(pending, judged.answers, strict=True):
                verdict.set_result(answer)


def _fail(pending: list[_Pending], error: Exception) -> None:
    for _, verdict in pending:
        verdict.set_exception(error)
