"""A person's actions on a site, as a demonstration for ``warm_start.demonstrations``.

``SiteRecorder`` opens the first page of a task in a browser of its own, visible unless asked otherwise, and records the
actions. ``demonstrate`` then repeats them in ``turngate/Web-v1`` itself: there each element gets the reference that an
agent would name, waiting is added where the page needs time, and actions that cannot be repeated are found at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngate.envs.web.engine.browser import Browser
from turngate.envs.web.engine.listening import Heard, Listening, merge_actions
from turngate.envs.web.engine.page_problems import BrowserLost, PageDied
from turngate.envs.web.engine.settings import PageSettings
from turngate.envs.web.engine.view import Element
from turngate.envs.web.env import WebEnv
from turngate.envs.web.loaders.own.scenario import PageEnd
from turngate.envs.web.scenario import scenario_of
from turngate.errors import ConfigError, EnvError, EpisodeError
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse
from turngate.types import Task, ToolCall, derive_seed

TICK_MS = 100
LONGEST_WAIT_MS = 60_000
FIELD_NAMES = {"fill": "text", "select": "option"}


def not_checked(end: PageEnd) -> bool:
    """The verifier of a task that has none yet: nothing counts as solved."""
    return False


class SiteRecorder:
    """The first page of a task on your own site, in a window, and the actions there.

    Raises ConfigError where there is no screen to show it on, or the page cannot be opened.
    """

    def __init__(self, task: Task, *, visible: bool = True, settings: PageSettings | None = None) -> None:
        screens = ("DISPLAY", "WAYLAND_DISPLAY")
        if visible and sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
            raise ConfigError(
                "there is no display to show a browser on (neither DISPLAY nor WAYLAND_DISPLAY is set); run it on a "
                "machine with a screen, or let xvfb-run and a VNC server give it one"
            )
        self._browser = Browser(visible=visible)
        self._scenario = scenario = scenario_of(task)
        try:
            self.session = self._browser.lease(
                seed=derive_seed(0, "web", task.id),  # as in the environment: the page draws the same random numbers
                sites=scenario.sites,
                allowed=scenario.allowed,
                settings=settings,
                limit_s=24 * 3_600.0,
            )
            self._listening = Listening(self.session)
            scenario.begin(_Opened(self._listening))  # type: ignore[arg-type]
        except EnvError as error:
            self.close()
            raise ConfigError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def goes_on(self) -> bool:
        """Let the pages' clock run a little. False once the window was closed, or the page or the browser broke."""
        try:
            return self._listening.goes_on(TICK_MS)
        except (BrowserLost, PageDied, EnvError):
            return False

    @property
    def heard(self) -> list[Heard]:
        """The actions, without those that the next one makes superfluous."""
        return merge_actions(self._listening.heard)

    def close(self) -> None:
        """End the browser. Safe to repeat."""
        self._browser.close()
        self._scenario.close()


@dataclass(frozen=True, slots=True)
class _Opened:
    """The session with which a scenario opens its first page."""

    listening: Listening

    def open(self, url: str) -> None:
        self.listening.open(url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """The actions of a recorded person as the environment took them. ``problem``: why those after them are left out, ""
    if none is; ``left_out``: how many. ``outcome``: the result of the task's verifier in the end, None if there was
    none."""

    actions: tuple[str, ...]
    problem: str = ""
    left_out: int = 0
    outcome: float | None = None


def demonstrate(env: WebEnv, task: Task, heard: Sequence[Heard], answer: str) -> Demonstration:
    """Repeat the recorded actions in ``env``, and end with ``answer``."""
    hands = _Hands(env, task)
    problem, done = "", 0
    before_ms = hands.start_ms
    try:
        for one in heard:
            problem = hands.do(one, one.at_ms - before_ms)
            if problem or hands.ended:
                break
            before_ms, done = one.at_ms, done + 1
        if not hands.ended:
            hands.step("answer", text=answer)
    except EpisodeError as error:  # earlier actions are kept
        problem = str(error)
    left = len(heard) - done if problem else 0
    return Demonstration(actions=tuple(hands.actions), problem=problem, left_out=left, outcome=hands.outcome)


class _Hands:
    """Carries out recorded actions in an environment."""

    def __init__(self, env: WebEnv, task: Task) -> None:
        self._env, self._tab = env, 0
        env.reset(options={"task": task})
        self.start_ms = PageSettings().start_s * 1000
        self.actions: list[str] = []
        self.ended = False
        self.outcome: float | None = None

    def do(self, one: Heard, pause_ms: int) -> str:
        """Carry out one thing, ``pause_ms`` after the last one. Returns why it cannot be done, or ""."""
        if one.kind == "lost":
            return f"a {one.text} in a frame of another site, which cannot be followed"
        if one.tab != self._tab and (problem := self.step("switch_tab", number=one.tab)):
            return problem
        self._tab = one.tab
        given: dict[str, Any] = {}
        if one.path is not None:
            element = self._element(one)
            if (element is None or not _is_ready(element)) and not self.ended:
                self.step("wait", milliseconds=max(TICK_MS, min(pause_ms, LONGEST_WAIT_MS)))
                element = self._element(one)
            if element is None:
                return f"the element of a {one.kind} is not on the page"
            given["element"] = element.ref
        match one.kind:
            case "fill" | "select":
                given[FIELD_NAMES[one.kind]] = one.text
            case "press":
                given["keys"] = one.text
            case "scroll":
                given = {"pixels": int(one.text), **given}
            case "goto":
                given["url"] = one.text
        return self.step(one.kind, **given)

    def step(self, name: str, **arguments: Any) -> str:
        """One action. Returns the environment's refusal, or ""; a refused action is not kept."""
        text = self._written(ToolCall(name=name, arguments=arguments))
        seen, _, terminated, truncated, info = self._env.step(text)
        self.ended = terminated or truncated
        if self.ended and info["score"] is not None:
            self.outcome = info["score"].outcome
        if not any(fact.name == "call_ok" and fact.value for fact in info["evidence"]):
            return f"'{text:.60}': {seen.text:.200}"
        self.actions.append(text)
        return ""

    def _element(self, one: Heard) -> Element | None:
        """The element that an agent would name: the nearest one that can be used, else the nearest one."""
        assert one.path is not None
        found = self._env.elements_at(one.path)
        return next((element for element in found if element.interactive), found[0] if found else None)

    def _written(self, call: ToolCall) -> str:
        tools = self._env.turn_spec.tools
        text = TOOL_FORMATS["command_line"].write((call,))
        return text if parse(text, tools).calls == (call,) else TOOL_FORMATS["hermes"].write((call,))


def _is_ready(element: Element) -> bool:
    return not element.states.get("disabled") and not element.covered_by
