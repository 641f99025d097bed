"""The one thread of a process in which playwright runs, and the Chromium that it drives."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from turngate.envs.web.engine.chromium import DriverLoop, command
from turngate.envs.web.engine.install import executable, require_playwright
from turngate.envs.web.engine.page_problems import BrowserLost

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import CDPSession, Playwright

T = TypeVar("T")
log = logging.getLogger(__name__)

START_S, STOP_S, PING_S = 60.0, 10.0, 10.0


class Driver:
    """A thread with an event loop, playwright's process, and one Chromium. It starts once and stops once; another
    browser takes another driver. All methods but those named ``async`` may be called from any thread."""

    def __init__(self, *, wanted: str | None = None, visible: bool = False) -> None:
        self.pid = os.getpid()
        self._visible = visible
        self._wanted = wanted
        self._loop = DriverLoop()
        self._thread = threading.Thread(target=self._serve, name="turngate-browser", daemon=True)
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._root: CDPSession | None = None
        self._spawned: set[asyncio.Future[object]] = set()
        self._stopped = False
        self.on_lost: list[Callable[[], None]] = []
        """Called in the driver's thread when the browser is gone."""
        self.on_crash: list[Callable[[str, str], None]] = []
        """Called in the driver's thread when a renderer is gone: id of the page's target, and how it ended."""

        self.on_window: list[Callable[[str, str, bool], None]] = []
        """Called in the driver's thread when a page is made or gone: its target, its context, whether it was made."""

    # --- life

    def start(self) -> None:
        """Start thread, playwright and Chromium. Raises MissingExtra, ConfigError, or BrowserLost."""
        require_playwright()
        self._loop.folder = tempfile.mkdtemp(prefix="turngate-web-")
        self._thread.start()
        try:
            self.run(self._start(), START_S)
        except TimeoutError:
            self.stop()
            raise BrowserLost(f"Chromium did not start within {START_S:.0f} s") from None
        except BaseException:
            self.stop()
            raise

    async def _start(self) -> None:
        from playwright.async_api import Error, async_playwright

        manager = async_playwright()
        self._playwright = await manager.start()
        program = executable(self._playwright, self._wanted)
        program, arguments = command(program, self._loop.folder, visible=self._visible)
        try:
            self._chromium = await self._playwright.chromium.launch(
                executable_path=program,
                args=arguments,
                ignore_default_args=True,
                headless=not self._visible,
                timeout=START_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            raise BrowserLost(f"Chromium did not start: {str(error).splitlines()[0]}") from error
        self._chromium.on("disconnected", lambda _: self._lost())
        self._root = await self._chromium.new_browser_cdp_session()
        self._root.on("Target.targetCrashed", self._crashed)
        self._root.on("Target.targetCreated", lambda event: self._window(event["targetInfo"], True))
        self._root.on("Target.targetDestroyed", lambda event: self._window(event, False))
        await self._root.send("Target.setDiscoverTargets", {"discover": True})

    def _lost(self) -> None:
        for tell in list(self.on_lost):
            tell()

    def _crashed(self, event: dict[str, Any]) -> None:
        for tell in list(self.on_crash):
            tell(event["targetId"], event["status"])

    def _window(self, info: dict[str, Any], made: bool) -> None:
        if not made or info["type"] == "page":
            for tell in list(self.on_window):
                tell(info["targetId"], info.get("browserContextId", ""), made)

    @property
    def is_alive(self) -> bool:
        """Whether Chromium runs and belongs to this process."""
        return (
            not self._stopped
            and self.pid == os.getpid()
            and self._chromium is not None
            and self._chromium.is_connected()
        )

    def stop(self) -> None:
        """End Chromium, playwright's process and the thread. Does nothing the second time, or in a forked process."""
        if self._stopped or self.pid != os.getpid():
            return
        self._stopped = True
        with contextlib.suppress(Exception):
            self.run(self._stop(), 2 * STOP_S)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_S)
        self._loop.kill_driver()
        shutil.rmtree(self._loop.folder, ignore_errors=True)

    async def _stop(self) -> None:
        if self._chromium is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._chromium.close(), STOP_S)
        if self._playwright is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._playwright.stop(), STOP_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._unhandled)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(asyncio.sleep(0))
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Errors that no caller waits for any more, such as the answer of a page that was closed meanwhile."""
        log.debug("browser thread: %s", context.get("exception") or context.get("message"))

    # --- work

    def run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        """The result of ``work``, run in the driver's thread. Raises TimeoutError after ``limit_s``, and BrowserLost
        if the thread is gone."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a site or a callback of the browser called the browser; it would wait for itself")
        try:
            waited = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise BrowserLost("the browser was closed") from error
        try:
            return waited.result(limit_s)
        except concurrent.futures.TimeoutError:
            waited.cancel()
            raise
        except concurrent.futures.CancelledError:
            raise BrowserLost("the browser was closed") from None

    def post(self, work: Callable[[], object]) -> None:
        """Have ``work`` called in the driver's thread, some time; nothing is waited for."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """As ``post``, for work that takes time."""

        def begin() -> None:
            task = asyncio.ensure_future(work())
            self._spawned.add(task)
            task.add_done_callback(self._spawned.discard)

        self.post(begin)

    @property
    def chromium(self) -> Chromium:
        """The browser. Raises BrowserLost if there is none any more."""
        if self._chromium is None or not self.is_alive:
            raise BrowserLost("the browser is gone; the next episode gets a new one")
        return self._chromium

    async def answers(self) -> bool:
        """Whether the browser's own process answers within some seconds."""
        if self._root is None or not self.is_alive:
            return False
        try:
            await asyncio.wait_for(self._root.send("Browser.getVersion"), PING_S)
        except Exception:
            return False
        return True

    def forget(self) -> None:
        """In a forked process: release the parent's resources, so that Chromium ends with the parent."""
        self._stopped = True
        self._loop.close_pipes()
