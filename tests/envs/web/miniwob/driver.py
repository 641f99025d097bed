"""A bare browser that plays pages: loads them through ``MiniwobSite``, without a network, and carries out steps.

Time stands still between steps and goes on by ``SETTLE_MS`` after each, so that a play is the same every time.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, Route

from turngate.envs.web.engine.site_handler import SiteRequest
from turngate.envs.web.loaders.miniwob.miniwob_site import HOST, MiniwobSite, url_of
from turngate.envs.web.loaders.miniwob.page_guard import READ, PageReading, begin
from turngate.envs.web.loaders.miniwob.page_steps import Oracle, PageStep

SETTLE_MS = 500
MAX_STEPS = 120

_PLACE = """([selector, nth]) => {
  const element = document.querySelectorAll(selector)[nth];
  if (!element) return null;
  element.scrollIntoView({block: 'nearest', inline: 'nearest'});
  // A link may go over two lines; then the middle of its box is not on it.
  const box = element.getClientRects()[0] || element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2, box.width * box.height];
}"""


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])


class Driver:
    """One window. It is the ``Look`` of the oracles that it lets play."""

    def __init__(self, browser: Browser) -> None:
        self._site = MiniwobSite()
        self.context = browser.new_context(viewport={"width": 500, "height": 320})
        self.page: Page = self.context.new_page()
        self.context.route("**/*", self._route)
        self.page.clock.install(time=0)
        self.page.clock.pause_at(1000)
        self.asked: list[str] = []
        self._open_page = ""

    def _route(self, route: Route) -> None:
        self.asked.append(route.request.url)
        if not route.request.url.startswith(f"http://{HOST}/"):
            route.abort()
            return
        answer = self._site.answer(SiteRequest(method=route.request.method, url=route.request.url))
        route.fulfill(status=answer.status, headers=dict(answer.headers), body=answer.body)

    def begin(self, page: str, seed: int, *, mode: str = "", anew: bool = False) -> None:
        """Begin an episode; ``anew``: load the page even if it is the one that is open."""
        url = url_of(page, mode)
        if anew or self._open_page != url:
            self.page.goto(url)
            self._open_page = url
        self.page.mouse.move(499, 319)
        self.js(begin(seed))

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def read(self) -> PageReading:
        return PageReading.of(self.js(READ))

    def play(self, oracle: Oracle) -> PageReading:
        """Play until the page ends, or the oracle."""
        for number, step in enumerate(oracle(self)):
            self.carry_out(step)
            if self.read().done:
                break
            assert number < MAX_STEPS, f"the oracle is still playing after {MAX_STEPS} steps"
        return self.read()

    def carry_out(self, step: PageStep) -> None:
        mouse, keyboard = self.page.mouse, self.page.keyboard
        point = step.point
        if step.selector is not None and point is None:
            point = self._place(step)
        if step.kind in ("click", "click_at"):
            assert point is not None
            mouse.move(*point)
            if step.selector is not None:
                if "social-media" in self._open_page:  # its icons change under the mouse, some time after it has moved
                    self.page.wait_for_timeout(100)
                self._place(step)  # an icon that changes under the mouse has no size until its other picture is there
            mouse.down()
            mouse.up()
        elif step.kind == "fill":
            assert step.selector is not None
            self.page.locator(step.selector).nth(step.nth).fill(step.value)
        elif step.kind == "select":
            assert step.selector is not None
            self.page.locator(step.selector).nth(step.nth).select_option(label=step.value.split("\n"))
        elif step.kind == "press":
            for key in step.value.split():
                if step.selector is not None:
                    self.page.locator(step.selector).nth(step.nth).press(key)
                else:
                    keyboard.press(key)
        elif step.kind == "drag":
            assert point is not None
            assert step.to is not None
            mouse.move(*point)
            mouse.down()
            for x, y in (*step.via, step.to):
                mouse.move(x, y, steps=1 if step.via else 4)
            mouse.up()
        elif step.kind == "scroll":
            assert point is not None
            mouse.move(*point)
            self._scroll(step)
        elif step.kind == "hover":
            assert point is not None
            mouse.move(*point)
        self.page.clock.run_for(int(step.value) if step.kind == "wait" else SETTLE_MS)

    def _place(self, step: PageStep) -> tuple[float, float]:
        """The middle of the step's element. An icon has no size until its picture is there, so that it is awaited."""
        for waited in range(40):
            place = self.page.evaluate(_PLACE, [step.selector, step.nth])
            assert place is not None, f"there is no element for {step}"
            if place[2] > 0 or step.kind == "select":
                break
            self.page.wait_for_timeout(25 * (1 + waited))
        else:
            raise AssertionError(f"the element of {step} is not shown")
        if waited:
            place = self.page.evaluate(_PLACE, [step.selector, step.nth])
        return place[0], place[1]

    def _scroll(self, step: PageStep) -> None:
        """Turn the wheel. It is carried out some time after the call returns, so that the element's move is awaited; or
        never, where it meets a frame that was painted before the element was there, so that it is turned again.

        ``wait_for_function`` would let the page evaluate a string, which its content policy forbids.
        """
        scrolled = f"document.querySelectorAll({json.dumps(step.selector)})[{step.nth}].scrollTop"
        before = self.js(scrolled)
        for _ in range(10):
            self.page.mouse.wheel(0, float(step.value))
            for _ in range(200):
                if self.js(scrolled) != before:
                    return
                self.page.wait_for_timeout(5)
        raise AssertionError(f"the element of {step} did not scroll")
