"""One page of an episode: its requests, its isolated world, and when it has come to rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from turngate.envs.web.engine.network import RequestSeen, SiteProxy
from turngate.envs.web.engine.page_problems import PageDied
from turngate.envs.web.engine.settings import Limits

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

WORLD = "turngate"
MOVED = ("Cannot find context", "Execution context was destroyed", "navigated or closed", "Cannot find execution")
STREAMS = ("EventSource", "WebSocket", "Ping", "Media")  # never wait for these


@lru_cache
def script(name: str) -> str:
    """The text of a script of this package."""
    return files(__package__).joinpath(name).read_text("utf-8")


class ScriptError(Exception):
    """A script that was given to ``evaluate`` raised; the message is that of its exception."""


class Moved(Exception):
    """The document was replaced while a script ran in it."""


class Tab:
    """A page, followed through one CDP session. Lives in the driver's thread.

    ``busy`` says whether anything is under way. The renderer announces requests and navigations in the same channel in
    which it answers scripts, in order; so after a script has run in a turn of its own, all activity that began before
    is known here.
    """

    def __init__(self, page: Page, cdp: CDPSession, gate: SiteProxy, limits: Limits) -> None:
        self.page, self.cdp, self.gate, self.limits = page, cdp, gate, limits
        self.target = self.context = ""
        """Chromium's names of the page and of its context."""
        self.error = ""
        self.failed_url = ""
        self.origins: set[str] = set()
        self.navigations = 0
        self._frame = ""
        self._world: int | None = None
        self._loaded: int | None = None
        """The world that has observe.js; left with it, because another process may use its number again."""
        self._requests: set[str] = set()
        self._loading: set[str] = set()
        self._going: set[str] = set()
        self._slow: set[str] = set()
        self._failures: dict[str, str] = {}
        self._events = 0
        self._news = asyncio.Event()
        self._clock_script: str | None = None

    async def follow(self) -> None:
        """Begin to follow the page."""
        on = self.cdp.on
        on("Network.requestWillBeSent", self._sent)
        on("Network.loadingFinished", lambda event: self._done(event["requestId"]))
        on("Network.loadingFailed", self._failed)
        on("Page.frameRequestedNavigation", lambda event: self._go(event["frameId"]))
        on("Page.frameStartedLoading", lambda event: self._started(event["frameId"]))
        on("Page.frameStoppedLoading", lambda event: self._stopped(event["frameId"]))
        on("Page.frameDetached", lambda event: self._stopped(event["frameId"]))
        on("Page.frameNavigated", self._navigated)
        send = self.cdp.send
        answers = await asyncio.gather(
            send("Page.enable"),
            send("Network.enable"),
            send("Network.setCacheDisabled", {"cacheDisabled": True}),
            send("Target.getTargetInfo"),
            send("Page.getFrameTree"),
        )
        self.target = answers[3]["targetInfo"]["targetId"]
        self.context = answers[3]["targetInfo"]["browserContextId"]
        self._frame = answers[4]["frameTree"]["frame"]["id"]

    # --- what goes on

    def _event(self) -> None:
        self._events += 1
        self._news.set()

    def _sent(self, event: dict[str, Any]) -> None:
        if event.get("type") not in STREAMS and not event["request"]["url"].startswith(("data:", "blob:")):
            self._requests.add(event["requestId"])
        url = event["request"]["url"]
        if url.startswith(("http:", "https:")) and self.gate.site_of(url) is None and self.gate.passes(url):
            self.gate.note(RequestSeen(method=event["request"]["method"], url=url))  # the gate itself never sees it
        self._event()

    def _done(self, request: str) -> None:
        self._requests.discard(request)
        self._slow.discard(request)
        self._event()

    def _failed(self, event: dict[str, Any]) -> None:
        if event.get("type") == "Document":
            self._failures[event["requestId"]] = event["errorText"]
        self._done(event["requestId"])

    def _go(self, frame: str) -> None:
        self._going.add(frame)
        self._event()

    def _started(self, frame: str) -> None:
        self._loading.add(frame)
        self._event()

    def _stopped(self, frame: str) -> None:
        for frames in (self._loading, self._going, self._slow):
            frames.discard(frame)
        self._event()

    def _navigated(self, event: dict[str, Any]) -> None:
        frame = event["frame"]
        self.navigations += 1
        self._going.discard(frame["id"])
        self.origins.add(frame["securityOrigin"])
        if "parentId" not in frame:
            self._frame = frame["id"]
            self.leave_world()
            self.failed_url = frame.get("unreachableUrl", "")
            self.error = self._failures.get(frame["loaderId"], "net::ERR_FAILED") if self.failed_url else ""
            self._failures.clear()
        self._event()

    @property
    def busy(self) -> set[str]:
        """The requests and frames that are under way and still waited for."""
        return (self._requests | self._loading | self._going) - self._slow

    async def rest(self, end: float) -> None:
        """Return when the page has come to rest, or at ``end`` (time.monotonic). Activity that still goes on then is
        not waited for again. Raises PageDied if it navigates without end."""
        while not self.page.is_closed():
            before = self._events
            with contextlib.suppress(Moved):
                await self.call("settle")
            if self.navigations > self.limits.navigations:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(self.cdp.send("Page.stopLoading"), 1.0)
                raise PageDied(
                    "navigations", f"the page navigated itself {self.navigations} times after one action, without end"
                )
            if time.monotonic() > end:
                self._slow |= self.busy
                return
            if not self.busy:
                if self._events == before:
                    return
                continue
            await self._listen(end)

    async def _listen(self, end: float) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0.0, end - time.monotonic()))

    # --- scripts

    async def call(self, function: str, *arguments: Any) -> Any:
        """The result of a function of ``observe.js``. Raises Moved if the document was replaced meanwhile."""
        spoken = ",".join(json.dumps(argument) for argument in arguments)
        code = f"turngate.{function}({spoken})"
        for _ in range(20):
            try:
                if self._world is not None and self._world == self._loaded:
                    return await self.evaluate(code)
                world = await self._own_world()
                load = f"if (typeof turngate === 'undefined') {{\n{script('observe.js')}\n}}\n"
                answer = await self.evaluate(load + code)
                self._loaded = world
                return answer
            except Moved:
                await asyncio.sleep(0.01)
        raise Moved

    async def evaluate(self, code: str, *, own_world: bool = True) -> Any:
        """The value of an expression, in the engine's own world or in the page's. Raises Moved and ScriptError."""
        from playwright.async_api import Error

        wanted: dict[str, Any] = {"expression": code, "returnByValue": True, "awaitPromise": True}
        try:
            if own_world:
                wanted["contextId"] = await self._own_world()
            answer = await self.cdp.send("Runtime.evaluate", wanted)
        except Error as error:
            if any(text in error.message for text in MOVED):
                self.leave_world()
                raise Moved from None
            raise
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            said = details.get("exception", {}).get("description") or details.get("exception", {}).get("value")
            raise ScriptError(str(said or details["text"]))
        return answer["result"].get("value")

    def leave_world(self) -> None:
        """The document has been replaced, of which Chromium's own news may come a little later."""
        self._world = self._loaded = None

    async def _own_world(self) -> int:
        if self._world is None:
            wanted = {"frameId": self._frame, "worldName": WORLD, "grantUniveralAccess": False}
            world: int = (await self.cdp.send("Page.createIsolatedWorld", wanted))["executionContextId"]
            self._world = world
        return self._world

    async def set_clock(self, channel: str, now_ms: int, seed: str) -> None:
        """Documents that open from now on begin at this time, with this seed."""
        detail = json.dumps(f"set:{now_ms}:{seed}")
        source = f"dispatchEvent(new CustomEvent({json.dumps(channel)}, {{detail: {detail}}}))"
        added = self.cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        if self._clock_script is None:
            self._clock_script = (await added)["identifier"]
            return
        old = {"identifier": self._clock_script}
        answers = await asyncio.gather(self.cdp.send("Page.removeScriptToEvaluateOnNewDocument", old), added)
        self._clock_script = answers[1]["identifier"]
