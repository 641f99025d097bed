"""Records a person's actions in the pages of a session: clicks, texts, choices, keys, the wheel, addresses, the way
back.

The pages are those that an agent would get, but their clock goes on with that of the person.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from turngate.envs.web.engine import actions
from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.episode_context import EpisodeContext
from turngate.envs.web.engine.page_problems import PageProblem
from turngate.envs.web.engine.tab import Tab, script

WORLD = "turngate-listening"
TYPED = ("typed", "auto_bookmark", "generated", "keyword", "keyword_generated")
"""How Chromium calls a navigation that the person asked the browser for."""
CAUSED_S = 2.0
"""A step in the history so soon after an action in the page was made by the page."""
Place = tuple[tuple[int, ...], ...]
"""The numbers of the children on the way to an element; a tuple for each document, frame or shadow root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One action. ``kind``: click, fill, select, press, scroll, goto, back, or lost (in a frame of another site, which
    cannot be followed). ``text``: what was written, chosen or pressed, the pixels, the address. ``field``: whether it
    is a click into a field for text. ``at_ms``: the time in the pages; ``tab``: the number of the tab."""

    kind: str
    path: Place | None = None
    text: str = ""
    field: bool = False
    at_ms: int = 0
    tab: int = 0


def merge_actions(heard: Iterable[Heard]) -> list[Heard]:
    """The actions without those that the next one makes superfluous: the letters of a text one by one, clicks into a
    field that is filled then, Tab before an element that is named then, turns of the wheel one by one."""
    kept: list[Heard] = []
    for one in heard:
        last = kept[-1] if kept else None
        same = last is not None and (last.path, last.tab) == (one.path, one.tab)
        if last is not None and same and one.kind == last.kind == "fill":
            kept[-1] = replace(one, at_ms=last.at_ms)
            continue
        if last is not None and same and one.kind == last.kind == "scroll":
            kept[-1] = replace(last, text=str(int(last.text) + int(one.text)))
            continue
        if last is not None and same and one.kind in ("fill", "select") and last.kind == "click" and last.field:
            kept.pop()
        while kept and one.path and one.kind != "scroll" and kept[-1].text in ("Tab", "Shift+Tab"):
            kept.pop()
        kept.append(one)
    return [one for one in kept if not (one.kind == "scroll" and int(one.text) == 0)]


@dataclass(slots=True)
class _Followed:
    """A tab that is listened to. ``known``: the entries of its history; ``at``: the present one."""

    tab: Tab
    known: list[int] = field(default_factory=list)
    at: int = -1


class Listening:
    """Records actions in a session from now on. ``goes_on`` has to be called again and again: it moves the clock.

    ``heard`` has all actions so far, in order.
    """

    def __init__(self, session: BrowserSession) -> None:
        self.heard: list[Heard] = []
        self.closed = False
        """Whether the person has closed the last window."""
        self._session = session
        self._followed: dict[str, _Followed] = {}
        self._opened = False
        self._last_s = 0.0  # the time of the last action in a page
        session._do(self._follow_all)

    def open(self, url: str) -> None:
        """Open the first page. Raises EnvError."""
        self._session.open(url)
        self._session._do(self._arrived)

    def goes_on(self, ms: int) -> bool:
        """Let the pages' clock run for ``ms``. False if the last window was closed."""

        async def tick(episode: EpisodeContext) -> None:
            await self._follow_all(episode)
            if not self.closed:
                await episode.act(actions.nothing, ms)

        if not self.closed:
            try:
                self._session._do(tick)
            except PageProblem:
                return not self.closed
        return not self.closed

    # --- in the browser's thread

    async def _follow_all(self, episode: EpisodeContext) -> None:
        for tab in list(episode.tabs):
            if tab.target not in self._followed:
                await self._follow(episode, tab)

    async def _follow(self, episode: EpisodeContext, tab: Tab) -> None:
        followed = self._followed[tab.target] = _Followed(tab)
        tab.cdp.on("Runtime.bindingCalled", lambda event: self._hear_event(episode, followed, event))
        for moved in ("Page.frameNavigated", "Page.navigatedWithinDocument"):
            tab.cdp.on(moved, lambda event: self._moved(episode, followed, event))
        tab.page.on("close", lambda _: self._gone(episode))
        source = script("listening.js")
        await tab.cdp.send("Runtime.enable")
        await tab.cdp.send("Runtime.addBinding", {"name": "turngateHeard", "executionContextName": WORLD})
        await tab.cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": WORLD})
        frame = (await tab.cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        world = await tab.cdp.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": WORLD})
        here = {"expression": source, "contextId": world["executionContextId"]}
        await tab.cdp.send("Runtime.evaluate", here)
        await self._look_up(followed)

    async def _arrived(self, episode: EpisodeContext) -> None:
        for followed in self._followed.values():
            await self._look_up(followed)
        self._opened = True

    async def _look_up(self, followed: _Followed) -> dict[str, Any]:
        history: dict[str, Any] = await followed.tab.cdp.send("Page.getNavigationHistory")
        followed.known = [entry["id"] for entry in history["entries"]]
        followed.at = history["currentIndex"]
        return history

    def _gone(self, episode: EpisodeContext) -> None:
        self.closed = self.closed or not [tab for tab in episode.tabs if not tab.page.is_closed()]

    def _hear_event(self, episode: EpisodeContext, followed: _Followed, event: dict[str, Any]) -> None:
        if event["name"] != "turngateHeard":
            return
        said = json.loads(event["payload"])
        path = said.get("path")
        self._last_s = time.monotonic()
        self._add(
            episode,
            followed,
            Heard(
                kind=said["kind"],
                path=None if path is None else tuple(map(tuple, path)),
                text=said.get("text", ""),
                field=said.get("field", False),
            ),
        )

    def _add(self, episode: EpisodeContext, followed: _Followed, one: Heard) -> None:
        tab = episode.tabs.index(followed.tab) if followed.tab in episode.tabs else 0
        self.heard.append(replace(one, at_ms=episode.now_ms, tab=tab))

    def _moved(self, episode: EpisodeContext, followed: _Followed, event: dict[str, Any]) -> None:
        if self._opened and "parentId" not in event.get("frame", {}):
            caused = time.monotonic() - self._last_s < CAUSED_S
            self._last_s = 0.0
            episode._spawn(self._history(episode, followed, caused))

    async def _history(self, episode: EpisodeContext, followed: _Followed, caused: bool) -> None:
        known, before = followed.known, followed.at
        history = await self._look_up(followed)
        entry, at = history["entries"][followed.at], followed.at
        if entry["id"] in known and at < before:
            if not caused:
                for _ in range(before - at):
                    self._add(episode, followed, Heard(kind="back"))
            return
        asked = entry["transitionType"] in TYPED if entry["id"] not in known else not caused and at != before
        if asked:
            self._add(episode, followed, Heard(kind="goto", text=entry["url"]))
