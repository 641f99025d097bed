"""One episode's context in the browser: its tabs, clock, dialogs and downloads. Lives in the driver's thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from turngate.envs.web.engine.blame import OomKills, blame
from turngate.envs.web.engine.driver import Driver
from turngate.envs.web.engine.network import SiteProxy
from turngate.envs.web.engine.page_problems import BrowserLost, PageDied, PageProblem
from turngate.envs.web.engine.settings import PageSettings
from turngate.envs.web.engine.tab import Moved, Tab, script
from turngate.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Page

T = TypeVar("T")
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogSeen:
    """A dialog that a page opened: ``kind`` is alert, confirm, prompt or beforeunload."""

    kind: str
    message: str
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HappeningSeen:
    """Something else that a page tried: ``kind`` is download, filechooser, popup (one too many) or worker."""

    kind: str
    detail: str


class EpisodeContext:
    """A context and all that happens in it."""

    def __init__(self, driver: Driver, gate: SiteProxy, settings: PageSettings, seed: int) -> None:
        self.driver, self.gate, self.settings, self.seed = driver, gate, settings, seed
        self.limits = settings.limits
        self.now_ms = settings.start_s * 1000
        self.tabs: list[Tab] = []
        self.current: Tab | None = None
        self.next_ref = 1
        self.dialogs: list[DialogSeen] = []
        self.happenings: list[HappeningSeen] = []
        self.dirty = ""
        """Why the context cannot be used for another episode; empty as long as it can be."""
        self.context: BrowserContext | None = None
        self._channel = f"tg-{secrets.token_hex(12)}"  # a secret, not a random choice: pages never see it
        self._fault: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault.add_done_callback(lambda future: future.exception())
        self._dialogs_now = 0
        self.uses = 1
        self._making = 0
        self._windows: set[str] = set()
        """Pages of this context that the browser has made, and that are no tabs yet."""
        self._oom = OomKills()
        driver.on_lost.append(self._browser_lost)
        driver.on_crash.append(self._renderer_gone)
        driver.on_window.append(self._window)

    # --- life

    async def open(self) -> None:
        """Make the context and its first tab."""
        settings = self.settings
        self.context = await self.driver.chromium.new_context(
            viewport={"width": settings.width, "height": settings.height},
            device_scale_factor=1,
            locale=settings.locale,
            timezone_id=settings.timezone,
            reduced_motion="reduce",
            color_scheme="light",
            service_workers="block",
            accept_downloads=False,
            proxy=await self.gate.open(),  # type: ignore[arg-type]
        )
        start = f"({script('steady.js')})({json.dumps(self._channel)}, {self.now_ms})"
        self.context.on("page", lambda page: self._spawn(self._arrived(page)))
        self.context.on("dialog", lambda dialog: self._spawn(self._answer(dialog)))
        await self.context.add_init_script(start)
        self.current = await self.new_tab()

    async def close(self) -> bool:
        """Close the context. False if the browser would not do it: then it is sick."""
        for callbacks, mine in (
            (self.driver.on_lost, self._browser_lost),
            (self.driver.on_crash, self._renderer_gone),
            (self.driver.on_window, self._window),
        ):
            with contextlib.suppress(ValueError):
                callbacks.remove(mine)  # type: ignore[arg-type]
        if not self._fault.done():
            self._fault.set_exception(BrowserLost("the session is closed"))
        await self.gate.close()
        if self.context is None or not self.driver.is_alive:
            return True
        try:
            await asyncio.wait_for(self.context.close(), CLOSE_S)
        except Exception:
            return False
        return True

    async def restart(self, gate: SiteProxy, seed: int) -> None:
        """Begin another episode in the same context."""
        tab = await self.tab()
        self.gate.restart(gate)
        self.seed, self.now_ms, self.next_ref = seed, self.settings.start_s * 1000, 1
        self.uses += 1
        self.dialogs, self.happenings = [], []
        tab.origins, tab.navigations = set(), 0
        await tab.rest(time.monotonic() + self.limits.load_s)
        await tab.set_clock(self._channel, self.now_ms, str(seed))

    def fail(self, error: Exception) -> None:
        """Let all pending and later calls end with ``error``."""
        if not self._fault.done():
            self._fault.set_exception(error)

    def _spawn(self, work: Any) -> None:
        asyncio.ensure_future(work).add_done_callback(lambda task: task.cancelled() or task.exception())

    # --- what happens to it

    def _browser_lost(self) -> None:
        self.fail(BrowserLost("the browser ended or was killed; the next episode gets a new one"))

    def _renderer_gone(self, target: str, status: str) -> None:
        if any(tab.target == target for tab in self.tabs):
            self.fail(blame(status, self._oom.rose()))

    def _window(self, target: str, context: str, made: bool) -> None:
        """A page that opens a window waits for the browser, which tells of it before the page goes on."""
        if not made:
            self._windows.discard(target)
        elif not self._making and self.tabs and context == self.tabs[0].context:
            self._windows.add(target)

    async def _answer(self, dialog: Dialog) -> None:
        accepted = dialog.type == "beforeunload" or self.settings.dialogs == "accept"
        self._dialogs_now += 1
        self.dirty = self.dirty or "a dialog"
        if len(self.dialogs) < self.limits.log:
            self.dialogs.append(DialogSeen(kind=dialog.type, message=dialog.message[:1_000], accepted=accepted))
        if self._dialogs_now > self.limits.dialogs:
            text = f"the page opened more than {self.limits.dialogs} dialogs after one action, without end"
            self.fail(PageDied("dialogs", text))
            return  # unanswered: the page waits, and goes away with its context
        with contextlib.suppress(Exception):
            if not accepted:
                await dialog.dismiss()
            elif dialog.type == "prompt":
                await dialog.accept(self.settings.prompt_text)
            else:
                await dialog.accept()

    def _note(self, kind: str, detail: str) -> None:
        self.dirty = self.dirty or f"a {kind}"
        if len(self.happenings) < self.limits.log:
            self.happenings.append(HappeningSeen(kind=kind, detail=detail[:1_000]))

    async def _arrived(self, page: Page) -> None:
        if self._making:
            return
        self.dirty = self.dirty or "a popup"
        try:
            if len(self.tabs) >= self.limits.tabs:
                self._note("popup", f"more than {self.limits.tabs} tabs: closed at once")
                await page.close()
                return
            self.current = await self._adopt(page)
        except Exception as error:
            self._note("popup", f"closed itself: {error}")

    async def _adopt(self, page: Page) -> Tab:
        assert self.context is not None
        tab = Tab(page, await self.context.new_cdp_session(page), self.gate, self.limits)
        page.on("close", lambda _: self._gone(tab))
        page.on("download", lambda download: self._note("download", f"{download.suggested_filename} {download.url}"))
        page.on("filechooser", lambda _: self._note("filechooser", page.url))
        page.on("worker", lambda worker: self._note("worker", worker.url))
        self.tabs.append(tab)
        try:
            await tab.follow()
            await tab.set_clock(self._channel, self.now_ms, str(self.seed))
            self._windows.discard(tab.target)
        except BaseException:
            self._gone(tab)
            raise
        return tab

    def _gone(self, tab: Tab) -> None:
        if tab in self.tabs:
            at = self.tabs.index(tab)
            self.tabs.remove(tab)
            if tab is self.current:
                self.current = self.tabs[min(at, len(self.tabs)) - 1] if self.tabs else None

    # --- tabs

    async def new_tab(self) -> Tab:
        """A blank tab, which is the current one then. Raises PageProblem if there are too many."""
        if len(self.tabs) >= self.limits.tabs:
            raise PageProblem(f"there are {len(self.tabs)} tabs already, and no more can be opened; use switch_tab")
        assert self.context is not None
        self._making += 1
        try:
            self.current = await self._adopt(await self.context.new_page())
        finally:
            self._making -= 1
        return self.current

    async def tab(self) -> Tab:
        """The current tab; a blank one if all were closed."""
        return self.current or await self.new_tab()

    # --- time

    async def guarded(self, work: Awaitable[T], limit_s: float) -> T:
        """The result of ``work``. Raises the error that broke the episode meanwhile; after ``limit_s`` seconds PageDied
        or BrowserLost, by whether the browser itself still answers."""
        from playwright.async_api import Error

        task = asyncio.ensure_future(work)
        try:
            waited: set[asyncio.Future[Any]] = {task, self._fault}
            await asyncio.wait(waited, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if self._fault.done():
                self._fault.result()
            if not task.done():
                raise await self._hanging(limit_s)
            return task.result()
        except Error as error:
            await asyncio.sleep(0.05)  # the event that says why may be on its way
            if self._fault.done():
                self._fault.result()
            if not await self.driver.answers():
                raise BrowserLost("the browser does not answer") from error
            raise EnvError(f"the browser refused: {error.message.splitlines()[0]}") from error
        finally:
            task.cancel()

    async def _hanging(self, limit_s: float) -> Exception:
        error: Exception = BrowserLost("the browser does not answer any more")
        if await self.driver.answers():
            error = PageDied(
                "hang", f"the page did not answer for {limit_s:g} s: a script of it does not end, or it is too large"
            )
        self.fail(error)
        return error

    async def act(self, work: Callable[[Tab], Awaitable[object]], ms: int | None = None) -> None:
        """Do something in the current tab, wait until all of its effects have come to rest, and let the page's clock
        run for ``ms`` (``action_ms`` if None)."""
        self._dialogs_now = 0
        for tab in self.tabs:
            tab.navigations = 0
        end = time.monotonic() + self.limits.load_s
        tab = await self.tab()
        await self._unless_closed(tab, work(tab))
        await self._rest(end)
        await self._advance(self.settings.action_ms if ms is None else ms)
        await self._rest(end)
        if self.gate.broken is not None:
            raise self.gate.broken

    async def _unless_closed(self, tab: Tab, work: Awaitable[object]) -> None:
        """Wait for ``work`` in a tab, which may close the tab; then it is done."""
        from playwright.async_api import Error

        try:
            await work
        except Moved:
            return
        except Error:
            for _ in range(20):  # the news that it is closed may be on its way
                if tab not in self.tabs:
                    return
                await asyncio.sleep(0.01)
            raise

    async def _rest(self, end: float) -> None:
        for _ in range(2 * self.limits.tabs):
            tab = await self.tab()
            await self._unless_closed(tab, tab.rest(end))
            while self._windows and time.monotonic() < end:
                await asyncio.sleep(0.005)
            if tab is self.current:
                return

    async def _advance(self, ms: int) -> None:
        self.now_ms += ms
        for tab in list(self.tabs):  # first, because a timer may open a document
            await self._unless_closed(tab, tab.set_clock(self._channel, self.now_ms, str(self.seed)))
        for tab in list(self.tabs):
            await self._unless_closed(tab, tab.call("advance", self._channel, self.now_ms))
