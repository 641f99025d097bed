"""One Chromium for all threads of a process, leased by the episode.

The cause of a failure is decided by evidence:

* Chromium's own process is gone, or does not answer: ``BrowserLost``, and the next lease starts another one.
* A renderer ended with ``killed`` (a signal from outside) while the kernel killed nothing for want of memory:
  ``BrowserLost``. A renderer that ended in another way: ``PageDied``, because only the page's code runs in it.
* The page does not answer within the deadline while Chromium's own process does: ``PageDied``; its script hangs.
* More dialogs or navigations after one action than the limits allow: ``PageDied``.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Collection, Mapping

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.driver import Driver
from turngate.envs.web.engine.episode_context import EpisodeContext
from turngate.envs.web.engine.network import SiteProxy
from turngate.envs.web.engine.page_problems import BrowserLost
from turngate.envs.web.engine.settings import PageSettings
from turngate.envs.web.engine.site_handler import SiteHandler

OPEN_S = 60.0


class Browser:
    """Leases of sessions in one Chromium, which starts with the first lease and again after it was lost.

    Any number of threads may use it. In a forked process it starts a Chromium of its own. Use ``shared()`` unless
    another executable is wanted, or windows on the screen (``visible``).
    """

    def __init__(self, executable: str | None = None, *, visible: bool = False) -> None:
        self._executable, self._visible = executable, visible
        self._driver: Driver | None = None
        self._starting = threading.Lock()
        self._leases: set[int] = set()
        self._numbers = itertools.count()
        _all.add(self)

    def lease(
        self,
        *,
        seed: int,
        sites: Mapping[str, SiteHandler] | None = None,
        allowed: Collection[str] = (),
        settings: PageSettings | None = None,
        limit_s: float = 3_600.0,
    ) -> BrowserSession:
        """A session with a context of its own. It ends with ``close``, when it is no longer referenced, and after
        ``limit_s`` seconds at the latest; later calls of it raise BrowserLost.

        Raises MissingExtra or ConfigError if playwright or Chromium is not installed, and BrowserLost if the browser
        does not start.
        """
        settings = settings or PageSettings()
        for attempt in (1, 2):
            driver = self._running()
            try:
                return driver.run(self._open(driver, seed, sites or {}, allowed, settings, limit_s), OPEN_S)
            except (BrowserLost, TimeoutError) as error:
                self._retire(driver)
                if attempt == 2:
                    raise BrowserLost(f"no context could be opened: {error or f'not within {OPEN_S:g} s'}") from error
        raise AssertionError

    async def _open(
        self,
        driver: Driver,
        seed: int,
        sites: Mapping[str, SiteHandler],
        allowed: Collection[str],
        settings: PageSettings,
        limit_s: float,
    ) -> BrowserSession:
        gate = SiteProxy(sites, allowed, settings.limits)

        async def opened(gate: SiteProxy, seed: int) -> EpisodeContext:
            episode = EpisodeContext(driver, gate, settings, seed)
            try:
                await episode.guarded(episode.open(), OPEN_S / 2)
            except BaseException:
                await episode.close()
                raise
            return episode

        number = next(self._numbers)
        session = BrowserSession(
            driver, await opened(gate, seed), opened, lambda closed: self._ended(number, driver, closed)
        )
        self._leases.add(number)
        expiry = asyncio.get_running_loop().call_later(limit_s, _expire, weakref.ref(session), limit_s)
        weakref.finalize(session, driver.post, expiry.cancel).atexit = False
        return session

    def _ended(self, number: int, driver: Driver, closed: bool) -> None:
        self._leases.discard(number)
        if not closed:  # a browser that cannot close a context is not fit for the next one
            threading.Thread(target=self._retire, args=(driver,), daemon=True).start()

    @property
    def leased(self) -> int:
        """How many sessions are open."""
        return len(self._leases)

    def _running(self) -> Driver:
        with self._starting:
            if self._driver is not None and not self._driver.is_alive:
                self._driver.stop()
                self._driver = None
            if self._driver is None:
                driver = Driver(wanted=self._executable, visible=self._visible)
                driver.start()
                self._driver = driver
            return self._driver

    def _retire(self, driver: Driver) -> None:
        """Use another driver from now on; this one's Chromium ends."""
        with self._starting:
            if self._driver is driver:
                self._driver = None
        driver.stop()

    def close(self) -> None:
        """End Chromium and all sessions. The next lease starts it again."""
        with self._starting:
            driver, self._driver = self._driver, None
        if driver is not None:
            driver.stop()
        self._leases.clear()

    def _forked(self) -> None:
        self._starting = threading.Lock()
        self._leases = set()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.forget()


def _expire(session: weakref.ref[BrowserSession], limit_s: float) -> None:
    if (found := session()) is not None:
        found.expire(f"the session was leased for {limit_s:g} s, which are over")


_all: weakref.WeakSet[Browser] = weakref.WeakSet()
_shared: Browser | None = None
_sharing = threading.Lock()


def shared() -> Browser:
    """The browser of this process."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = Browser()
        return _shared


_holders = 0


def hold() -> Browser:
    """The browser of this process, until ``release`` was called as often as this: then it ends."""
    global _holders
    browser = shared()
    with _sharing:
        _holders += 1
    return browser


def release() -> None:
    """End the browser of this process unless it is still held elsewhere."""
    global _holders
    with _sharing:
        _holders -= 1
        browser = _shared if _holders == 0 else None
    if browser is not None:
        browser.close()


def _close_all() -> None:
    for browser in list(_all):
        browser.close()


def _after_fork() -> None:
    global _sharing, _holders
    _sharing, _holders = threading.Lock(), 0
    for browser in list(_all):
        browser._forked()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
