"""A browser context that an environment holds during an episode, used step by step from any thread."""

from __future__ import annotations

import base64
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from turngate.envs.web.engine import actions
from turngate.envs.web.engine.cleaning import make_clean
from turngate.envs.web.engine.driver import PING_S, Driver
from turngate.envs.web.engine.episode_context import DialogSeen, EpisodeContext, HappeningSeen
from turngate.envs.web.engine.network import RequestSeen, SiteProxy
from turngate.envs.web.engine.page_problems import BrowserLost, PageProblem
from turngate.envs.web.engine.site_handler import SiteHandler
from turngate.envs.web.engine.tab import Tab
from turngate.envs.web.engine.view import PageView, read_view
from turngate.errors import EnvError

T = TypeVar("T")
Reopen = Callable[[SiteProxy, int], Awaitable[EpisodeContext]]
OPEN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TabSeen:
    """A tab as the tab bar shows it."""

    index: int
    url: str
    title: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSeen:
    """What pages have stored: cookies of the context, and the storage of the current page's origin."""

    cookies: tuple[Mapping[str, Any], ...]
    origin: str
    local: Mapping[str, str]
    session: Mapping[str, str]
    databases: tuple[str, ...]
    caches: tuple[str, ...]


class _Held:
    """The episode of a session; outlives the session until the episode is closed."""

    def __init__(self, driver: Driver, episode: EpisodeContext, ended: Callable[[bool], None]) -> None:
        self.driver, self.episode, self.ended = driver, episode, ended
        self.is_open = True

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            closed = await self.episode.close()
            self.ended(closed)

    def close_later(self) -> None:
        self.driver.spawn(self.close)


class BrowserSession:
    """A browser context for one episode after the other. ``Browser.lease`` makes it.

    One thread at a time may use it, whichever. Every call ends within its deadline (``Limits``). Actions return when
    the page has come to rest and its clock has moved by ``action_ms``. They raise PageProblem for actions that cannot
    be done, PageDied if the page broke by its own code, BrowserLost if the browser broke, and EnvError if a site of
    this process did. After PageDied and BrowserLost only ``reset`` and ``close`` are of use.

    Elements are named by the references of ``observe``; coordinates are CSS pixels of the viewport.
    """

    def __init__(self, driver: Driver, episode: EpisodeContext, reopen: Reopen, ended: Callable[[bool], None]) -> None:
        self._driver = driver
        self._held = _Held(driver, episode, ended)
        self._reopen = reopen
        self._finalizer = weakref.finalize(self, self._held.close_later)
        self._finalizer.atexit = False

    def _run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        if not self._held.is_open:
            work.close()
            raise BrowserLost("the session is closed")
        try:
            return self._driver.run(work, limit_s + PING_S + 5.0)
        except TimeoutError:
            raise BrowserLost("the browser's thread does not answer") from None

    def _do(self, work: Callable[[EpisodeContext], Coroutine[Any, Any, T]]) -> T:
        episode = self._held.episode
        limit_s = episode.limits.action_s

        async def guarded() -> T:
            return await episode.guarded(work(episode), limit_s)

        return self._run(guarded(), limit_s)

    def _act(self, work: Callable[[Tab], Awaitable[object]], ms: int | None = None) -> None:
        self._do(lambda episode: episode.act(work, ms))

    # --- life

    def reset(
        self, *, seed: int, sites: Mapping[str, SiteHandler] | None = None, allowed: Collection[str] | None = None
    ) -> bool:
        """Begin another episode: blank page, first moment of the clock, references from ``e1``. The sites and allowed
        hosts stay as they were if None.

        Returns whether the context was used again. That is done only where no state of the last episode can remain in
        it: one tab and one origin, no storage, workers, dialogs, popups or downloads. Else there is a new context.
        """
        old = self._held.episode
        gate = SiteProxy(
            old.gate.sites if sites is None else sites, old.gate.allowed if allowed is None else allowed, old.limits
        )

        async def again() -> bool:
            if gate.allowed == old.gate.allowed:
                with contextlib.suppress(Exception):
                    if await old.guarded(make_clean(old, gate, seed), old.limits.action_s):
                        return True
            closed = await old.close()
            if not closed:
                raise BrowserLost("the browser could not close a context")
            self._held.episode = await self._reopen(gate, seed)
            return False

        return self._run(again(), OPEN_S)

    def close(self) -> None:
        """Close the context. Does nothing the second time."""
        self._finalizer.detach()
        if self._held.is_open:
            with contextlib.suppress(BrowserLost):
                self._run(self._held.close(), OPEN_S)

    def expire(self, reason: str) -> None:
        """Close the context because its time is over; later calls raise BrowserLost with ``reason``."""
        self._held.episode.fail(BrowserLost(reason))
        self._held.close_later()

    def __enter__(self) -> BrowserSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking

    def observe(self) -> PageView:
        """The current page as it stands."""

        async def look(episode: EpisodeContext) -> PageView:
            tab, limits = await episode.tab(), episode.limits
            wanted = {"elements": limits.elements, "nodes": limits.nodes, "chars": limits.dom_chars}
            raw = await tab.call("observe", episode.next_ref, wanted)
            episode.next_ref = raw["next"]
            if tab.failed_url:
                raw["url"] = tab.failed_url
            return read_view(raw, tab=episode.tabs.index(tab), error=tab.error)

        return self._do(look)

    def screenshot(self, marks: bool = False) -> bytes:
        """The viewport as PNG; ``marks`` draws a frame with its reference around each interactive element."""
        view = self.observe() if marks else None

        async def take(episode: EpisodeContext) -> bytes:
            tab = await episode.tab()
            png = (await tab.cdp.send("Page.captureScreenshot", {"format": "png"}))["data"]
            if view is not None:
                framed = [element for element in view.elements() if element.interactive and element.in_view]
                boxes = [[one.ref, one.box.x, one.box.y, one.box.width, one.box.height] for one in framed]
                png = await tab.call("mark", png, boxes)
            return base64.b64decode(png)

        return self._do(take)

    def references(self, place: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """The references of the element at a place in the current page, and of those around it, nearest first.

        ``place``: the numbers of the children on the way to it, a list for each document, frame or shadow root.
        """

        async def look(episode: EpisodeContext) -> tuple[str, ...]:
            return tuple(await (await episode.tab()).call("refsAt", [list(hop) for hop in place]))

        return self._do(look)

    @property
    def tabs(self) -> tuple[TabSeen, ...]:
        """All tabs in the order in which they were opened."""

        async def look(episode: EpisodeContext) -> tuple[TabSeen, ...]:
            current = await episode.tab()
            titles = [await tab.evaluate("document.title") for tab in episode.tabs]
            return tuple(
                TabSeen(index=index, url=tab.failed_url or tab.page.url, title=str(title), current=tab is current)
                for index, (tab, title) in enumerate(zip(episode.tabs, titles, strict=True))
            )

        return self._do(look)

    def evaluate(self, script: str, *, own_world: bool = True) -> Any:
        """The JSON value of a JavaScript expression; of what it resolves to if it is a promise.

        It runs in a world of its own, where nothing that the page's scripts redefined can deceive it; or among them,
        to read their variables, with ``own_world=False``. Raises ScriptError if it raises.
        """
        return self._do(lambda episode: self._evaluate(episode, script, own_world))

    async def _evaluate(self, episode: EpisodeContext, script: str, own_world: bool) -> Any:
        return await (await episode.tab()).evaluate(script, own_world=own_world)

    def storage(self) -> StorageSeen:
        """The storage of pages."""

        async def look(episode: EpisodeContext) -> StorageSeen:
            assert episode.context is not None
            cookies = await episode.context.cookies()
            raw = await (await episode.tab()).call("storage")
            return StorageSeen(
                cookies=tuple(dict(cookie) for cookie in cookies),
                origin=raw["origin"],
                local=raw["local"],
                session=raw["session"],
                databases=tuple(raw["databases"]),
                caches=tuple(raw["caches"]),
            )

        return self._do(look)

    def requests(self) -> tuple[RequestSeen, ...]:
        """The first requests of the episode, in order; ``Limits.log`` of them at most."""
        return tuple(self._held.episode.gate.seen)

    def dialogs(self) -> tuple[DialogSeen, ...]:
        """The dialogs that pages opened, and how they were answered."""
        return tuple(self._held.episode.dialogs)

    def happenings(self) -> tuple[HappeningSeen, ...]:
        """Downloads, file choosers, workers, and tabs that were too many."""
        return tuple(self._held.episode.happenings)

    @property
    def time_ms(self) -> int:
        """The time in the pages, in milliseconds since 1970."""
        return self._held.episode.now_ms

    # --- going

    def open(self, url: str) -> None:
        """Open the first page of a task. Raises EnvError if that fails, because no agent has acted yet."""
        try:
            self.goto(url)
        except PageProblem as error:
            raise EnvError(f"the first page could not be opened: {error}") from error

    def goto(self, url: str) -> None:
        """Open an address in the current tab."""
        self._act(lambda tab: actions.goto(tab, url))

    def back(self) -> None:
        """Go back to the page before this one."""
        self._act(actions.back)

    def new_tab(self, url: str | None = None) -> None:
        """Open a tab, which is the current one then."""
        if url is not None:
            self._held.episode.gate.check(url)

        async def make(episode: EpisodeContext) -> None:
            await episode.new_tab()
            await episode.act((lambda tab: actions.goto(tab, url)) if url is not None else actions.nothing)

        self._do(make)

    def switch_tab(self, index: int) -> None:
        """Make another tab the current one."""

        async def switch(episode: EpisodeContext) -> None:
            if not 0 <= index < len(episode.tabs):
                raise PageProblem(f"there is no tab {index}; there are tabs 0 to {len(episode.tabs) - 1}")
            episode.current = episode.tabs[index]
            await episode.act(actions.nothing)

        self._do(switch)

    def wait(self, ms: int) -> None:
        """Let the page's clock run for ``ms`` milliseconds; it takes no real time."""
        if not 0 <= ms <= 3_600_000:
            raise PageProblem(f"one can wait for 0 to 3600000 milliseconds, not for {ms}")
        self._act(actions.nothing, ms)

    # --- with the mouse

    def click(self, x: float, y: float, *, button: str = "left", count: int = 1) -> None:
        """Click at a point; ``button`` is left, right or middle."""
        self._act(lambda tab: actions.click(tab, x, y, button, count))

    def click_on(self, ref: str, *, button: str = "left", count: int = 1) -> None:
        """Click on an element where it is visible."""
        self._act(lambda tab: actions.click_on(tab, ref, button, count))

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a point."""
        self._act(lambda tab: actions.hover(tab, x, y))

    def hover_on(self, ref: str) -> None:
        """Move the mouse to an element."""
        self._act(lambda tab: actions.hover_on(tab, ref))

    def drag(self, *path: tuple[float, float]) -> None:
        """Press the mouse at the first point, move it over the others and release it at the last."""
        self._act(lambda tab: actions.drag(tab, *path))

    def drag_on(self, ref: str, onto: str) -> None:
        """Drag one element onto another."""
        self._act(lambda tab: actions.drag_on(tab, ref, onto))

    def scroll(self, dx: float, dy: float, *, at: tuple[float, float] | None = None, ref: str | None = None) -> None:
        """Turn the wheel over a point, over an element, or over the middle of the viewport."""
        self._act(lambda tab: actions.scroll(tab, dx, dy, at, ref))

    # --- with the keyboard

    def type(self, text: str) -> None:
        """Press the keys of ``text`` in whatever has the focus."""
        self._act(lambda tab: actions.type_text(tab, text))

    def fill(self, ref: str, text: str) -> None:
        """Make ``text`` the whole content of a field."""
        self._act(lambda tab: actions.fill(tab, ref, text))

    def select(self, ref: str, *options: str) -> None:
        """Choose options of a list, by what they say or by their value."""
        self._act(lambda tab: actions.select(tab, ref, options))

    def press(self, keys: str | Sequence[str]) -> None:
        """Press keys one after the other, such as ``Enter`` or ``Control+A``."""
        self._act(lambda tab: actions.press(tab, (keys,) if isinstance(keys, str) else tuple(keys)))
