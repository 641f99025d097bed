"""``turngate/Web-v1``: pages in a real Chromium, read as an accessibility tree and used by reference or by coordinates.

A task brings its sites (``WebScenario``): the bundled shop, pages of MiniWoB++, or your own. They are answered in this
process, clock and randomness of the pages are fixed, and nothing else on the network is reached, so an episode is a
function of its task and its actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np

from turngate.envs.base import Outcome, TurnSpec
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tool_env import ToolEnv, ToolError, fact
from turngate.envs.web.candidates import candidates_of, check_candidates, path_of, rank_of_hit
from turngate.envs.web.confident import CONFIDENT, click_facts, with_confidence
from turngate.envs.web.engine.browser import Browser, hold, release
from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.page_problems import BrowserLost, PageProblem
from turngate.envs.web.engine.settings import PageSettings
from turngate.envs.web.engine.view import Element, PageView
from turngate.envs.web.facts import EVIDENCE, OF_CANDIDATES, OF_CONFIDENCE, OF_SLIDES
from turngate.envs.web.generated.shop.hints import LEVELS
from turngate.envs.web.generated.shop.shop_source import ShopSource
from turngate.envs.web.page_text import changed_lines, head_line, page_lines, within
from turngate.envs.web.planned_hands import PlannedHands
from turngate.envs.web.rubric import RUBRIC
from turngate.envs.web.scenario import WebScenario, WritableScenario, scenario_of
from turngate.errors import ConfigError, EnvError
from turngate.tools.tool import Tool, tool
from turngate.types import Action, Evidence, Observation, Task, ToolCall, derive_seed

MOST_SOLUTIONS = 256
"""Tasks whose solutions are kept."""
DEADLINE_S = 60.0
"""Longer than the longest action of the engine (``Limits.action_s``), with the work after it."""
FURTHEST_PX = 100_000
"""By how much a page is scrolled at most in one action."""
BY_REFERENCE = ("click", "fill", "select", "hover", "drag", "read")
BY_PLACE = ("click_at", "hover_at", "drag_at", "drag_along", "type_text")
SEVERAL, WRITES = "click_candidates", "write"
Pointing = Literal["references", "places", "both"]
Shown = Literal["page", "changes"]
Screenshots = Literal["none", "plain", "marks"]


class WebEnv(ToolEnv):
    """A browser. ``tasks``: ``shop``, ``miniwob``, ``web_site``, ``slides`` (docs/web.md), or a source of your own.

    ``pointing``: whether elements are used by their references, by their places on the screen in pixels, or both.
    ``show``: after an action the whole page, or only what changed where the page is still the same one. ``screenshot``:
    whether an image of the page goes along, plain or with the references drawn in. ``candidates``: above 1 there is a
    click that names up to so many candidates, of which the first is clicked. ``confidence``: whether a click may say
    how sure the agent is of its place. ``max_chars``: of an observation. ``width`` and ``height``: of the window in
    pixels. Raises ConfigError for a setting that is out of range, and where Chromium or playwright is missing, with how
    to install it.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=40,  # the longest plan of the shop has 31
        tasks=ShopSource(),
        deadline_s=DEADLINE_S,
        any_thread=True,
        fork="replay",
        side_effects="none",
        extra="web",
        has_oracle=True,
        hint_levels=LEVELS,
        evidence=EVIDENCE,
    )
    _networked = False
    common_facts = ("tool", "repeated", "call_ok", "action_key")
    refusals = (ToolError, PageProblem)

    def __init__(
        self,
        *,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
        pointing: Pointing = "references",
        show: Shown = "page",
        screenshot: Screenshots = "none",
        candidates: int = 1,
        confidence: bool = False,
        max_chars: int = 4000,
        width: int = 1024,
        height: int = 768,
    ) -> None:
        for name, value, choices in (
            ("pointing", pointing, ("references", "places", "both")),
            ("show", show, ("page", "changes")),
            ("screenshot", screenshot, ("none", "plain", "marks")),
        ):
            if value not in choices:
                raise ConfigError(f"{name} is '{value}'; it must be one of {', '.join(choices)}")
        if max_chars < 200:
            raise ConfigError(f"max_chars is {max_chars}; it must be at least 200")
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._candidates = check_candidates(candidates)
        self._left_out = {"references": "places", "places": "references", "both": ""}[pointing]
        left_out = {"references": BY_PLACE, "places": BY_REFERENCE, "both": ()}[pointing]
        left_out = left_out if candidates > 1 else (*left_out, SEVERAL)
        offered = tuple(one for one in self.turn_spec.tools if one.name not in (*left_out, WRITES))
        if only := getattr(self.tasks, "tools", ()):
            _check_only(only, pointing, candidates, confidence)
            offered = tuple(one for one in self.turn_spec.tools if one.name in only)
            declared = {**(self.turn_spec.evidence or {}), **OF_SLIDES}
            self.turn_spec = replace(self.turn_spec, evidence=declared)
        self.turn_spec = replace(self.turn_spec, tools=offered, has_oracle=pointing != "places")
        if candidates > 1:
            declared = {**(self.turn_spec.evidence or {}), **OF_CANDIDATES}
            self.turn_spec = replace(self.turn_spec, evidence=declared)
        if confidence:
            declared = {**(self.turn_spec.evidence or {}), **OF_CONFIDENCE}
            self.turn_spec = replace(self.turn_spec, tools=with_confidence(self.turn_spec.tools), evidence=declared)
        if self._networked:  # the state of a user's server is neither seen nor undone
            self.turn_spec = replace(self.turn_spec, side_effects="external", fork="none")
        self._settings = PageSettings(width=width, height=height)
        self._kwargs: dict[str, Any] = {
            "pointing": pointing, "show": show, "screenshot": screenshot, "candidates": candidates,
            "confidence": confidence, "max_chars": max_chars, "width": width, "height": height, "max_turns": max_turns,
        }  # fmt: skip
        self._confidence, self._show, self._screenshot, self._max_chars = confidence, show, screenshot, max_chars
        self._solutions: dict[str, list[str]] = {}
        self._twin: WebEnv | None = None
        self._held: Browser | None = hold()  # nothing starts before the first page
        self._session: BrowserSession | None = None
        self._scenario: WebScenario | None = None
        self._answer: str | None = None
        self._lines: list[str] = []
        self._view: PageView | None = None
        self._at = ""
        self._states: set[str] = set()

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Open the tasks, and note whether their pages may reach the network."""
        self._networked = bool(getattr(part, "allowed", ()))
        return super().open_tasks(part)

    # --- an episode ---------------------------------------------------------------------------------------------------

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        return self._with_image(super().start(task, rng))

    def act(self, action: Action) -> Outcome:
        outcome = super().act(action)
        return outcome if outcome.done else replace(outcome, observation=self._with_image(outcome.observation))

    def begin(self, task: Task) -> str:
        """Open the task's first page."""
        self._leave()
        self._scenario = scenario = scenario_of(task)
        self._session = session = self._lease(derive_seed(0, "web", task.id), scenario)
        self._answer, self._lines, self._view = None, [], None
        asked = scenario.begin(session)
        page = self._page_text()
        self._at = self.state()
        self._states = {self._at}
        commands = (
            "" if self.tool_format else f" One tool per turn: {' | '.join(one.usage for one in self.turn_spec.tools)}."
        )
        return f"{scenario.goal}{commands}\nTask: {asked}\n\n{page}"

    def state(self) -> str:
        """The task, the site's own state, and the page."""
        if self._view is None or self._scenario is None:
            return self.task.id
        view = self._view
        parts = (
            self.task.id,
            self._scenario.state(),
            view.url,
            str(view.tab),
            view.dom,
            str(view.scroll),
            view.focused,
        )
        return "\x1f".join(parts)

    def carry_out(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> str:
        """The text of the tool, and the page after it."""
        if (aim := self._aim(arguments)) is not None:
            self.record("pointed_at", aim)
        if self._confidence and tool.name in CONFIDENT:
            place = None if aim is None else (aim[0], aim[1])
            stated, target = arguments.get("confidence"), self._playing().target(self._browser())
            for name, value in click_facts(stated, place, target):
                self.record(name, value)
            arguments = {name: value for name, value in arguments.items() if name != "confidence"}
        said = super().carry_out(tool, arguments, call)
        if self._ended or said:
            return said
        return self._page_text()

    def refusal(self, problem: str) -> str:
        """See ``ToolEnv.refusal``. The page is looked at again, because half of an action may have been done."""
        self._page_text()
        return f"error: {problem}"

    def changed(self) -> Iterable[Evidence]:
        """The effects of the turn on the page and on the site."""
        scenario = self._playing()
        yield from scenario.after_turn(self._browser())
        if scenario.ended:
            self.end()
        before, self._at = self._at, self.state()
        moved = self._at != before
        yield fact("page_changed", moved, self.turn)
        yield fact("no_op", self._ok and not moved and not self._ended, self.turn)
        yield fact("revisited", moved and self._at in self._states, self.turn)
        yield Evidence(name="url", value=self._view.url if self._view else "")
        self._states.add(self._at)

    def verify(self) -> Iterable[Evidence]:
        """By the site of the task."""
        for one in self._playing().at_end(self._browser(), self._answer):
            yield replace(one, by="verifier")

    def answer(self) -> str | None:
        """The text of the call ``answer``."""
        return self._answer

    def oracle(self, task: Task) -> Sequence[str]:
        """The actions that solve the task, found by playing it in another browser context, once for each of the last
        tasks that were asked for."""
        if task.id not in self._solutions:
            self._solutions[task.id] = list(self._second()._played(task))
            while len(self._solutions) > MOST_SOLUTIONS:
                del self._solutions[next(iter(self._solutions))]
        return self._solutions[task.id]

    def hint(self, task: Task, level: int) -> str | None:
        def first_page() -> BrowserSession:
            twin = self._second()
            twin.reset(options={"task": task})
            return twin._browser()

        with closing(scenario_of(task)) as scenario:
            return scenario.hint(level, first_page)

    def elements_at(self, place: Sequence[Sequence[int]]) -> list[Element]:
        """The element at a place in the page that is shown (``BrowserSession.references``) and those around it, nearest
        first."""
        found = (self._view.find(ref) for ref in self._browser().references(place)) if self._view else ()
        return [element for element in found if element is not None]

    def close(self) -> None:
        """Release the browser contexts."""
        if self._twin is not None:
            self._twin.close()
            self._twin = None
        self._leave()
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._held is not None:
            self._held = None
            release()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def click(self, element: str) -> str:
        """Click an element, such as e3."""
        self._browser().click_on(element)
        return ""

    @tool
    def click_at(self, x: int, y: int) -> str:
        """Click a place on the screen, in pixels from its left and upper edges."""
        self._browser().click(x, y)
        return ""

    @tool
    def click_candidates(self, candidates: str) -> str:
        """Click the first of several candidates, the likeliest first, between commas: e3, e7 or 30 40, 80 90."""
        points = candidates_of(candidates, self._candidates, self._view or self._look(), self._left_out)
        self.record("candidates", [list(point) for point in points])
        self.record("pointed_at", list(points[0]))
        target = self._playing().target(self._browser())
        if target is not None:
            self.record("candidate_hit", rank_of_hit(points, target))
        first = candidates.split(",")[0].strip()
        if first.startswith("e"):
            self._browser().click_on(first)
        else:
            self._browser().click(*points[0])
        return ""

    @tool
    def fill(self, element: str, text: str) -> str:
        """Make the text the whole content of a field."""
        self._browser().fill(element, text)
        return ""

    @tool
    def type_text(self, text: str) -> str:
        """Type into the element that has the focus."""
        self._browser().type(text)
        return ""

    @tool
    def select(self, element: str, option: str) -> str:
        """Choose an option of a list by what it says; several options stand on a line each."""
        self._browser().select(element, *option.splitlines())
        return ""

    @tool
    def press(self, keys: str) -> str:
        """Press keys one after the other, such as: Enter, or Control+A Delete."""
        self._browser().press(keys.split())
        return ""

    @tool
    def scroll(self, pixels: int, element: str | None = None) -> str:
        """Scroll down (up, if negative), over an element or over the page."""
        if abs(pixels) > FURTHEST_PX:
            raise ToolError(f"a page is scrolled by {FURTHEST_PX} pixels at most at a time")
        self._browser().scroll(0, pixels, ref=element)
        return ""

    @tool
    def drag(self, element: str, onto: str) -> str:
        """Drag an element onto another one."""
        self._browser().drag_on(element, onto)
        return ""

    @tool
    def drag_at(self, x: int, y: int, to_x: int, to_y: int) -> str:
        """Press the mouse at one place and let go at another one."""
        self._browser().drag((x, y), (to_x, to_y))
        return ""

    @tool
    def drag_along(self, places: str) -> str:
        """Press the mouse at the first place, move it over the others, let go at the last: 30 40, 80 90, 80 120."""
        path = path_of(places)
        self.record("pointed_at", list(path[0]))
        self._browser().drag(*path)
        return ""

    @tool
    def hover(self, element: str) -> str:
        """Move the mouse to an element."""
        self._browser().hover_on(element)
        return ""

    @tool
    def hover_at(self, x: int, y: int) -> str:
        """Move the mouse to a place."""
        self._browser().hover(x, y)
        return ""

    @tool
    def goto(self, url: str) -> str:
        """Open an address in this tab."""
        self._browser().goto(url)
        return ""

    @tool
    def back(self) -> str:
        """Go back to the page before this one."""
        self._browser().back()
        return ""

    @tool
    def new_tab(self, url: str | None = None) -> str:
        """Open a tab."""
        self._browser().new_tab(url)
        return ""

    @tool
    def switch_tab(self, number: int) -> str:
        """Go to another tab; the first one is 0."""
        self._browser().switch_tab(number)
        return ""

    @tool
    def wait(self, milliseconds: int) -> str:
        """Let the page's clock run."""
        self._browser().wait(milliseconds)
        return ""

    @tool
    def write(self, html: str) -> str:
        """Write the whole page as one HTML document, in place of what was there."""
        scenario = self._playing()
        if not isinstance(scenario, WritableScenario):
            raise ToolError("the pages of this task are not written by you")
        said = scenario.write(self._browser(), html)
        return f"{said}\n{self._page_text()}"

    @tool(read_only=True)
    def read(self, element: str) -> str:
        """All that is in an element."""
        view = self._look()
        found = next((one for one in view.elements() if one.ref == element), None)
        if found is None:
            raise ToolError(f"there is no element '{element}' on the page")
        return within(list(page_lines([found])), self._max_chars)

    @tool(name="answer")
    def give_answer(self, text: str) -> str:
        """End the episode with an answer."""
        self._answer = text
        self.end()
        return "the episode is over"

    # --- inside -------------------------------------------------------------------------------------------------------

    def _lease(self, seed: int, scenario: WebScenario) -> BrowserSession:
        if self._session is not None:
            try:
                self._session.reset(seed=seed, sites=scenario.sites, allowed=scenario.allowed)
                return self._session
            except BrowserLost:  # its time is over, or the browser was lost in between: another one takes its place
                self._session.close()
                self._session = None
        if self._held is None:
            self._held = hold()
        return self._held.lease(seed=seed, sites=scenario.sites, allowed=scenario.allowed, settings=self._settings)

    def _second(self) -> WebEnv:
        """The same environment again, with a browser context of its own: oracles and hints look at pages there, and the
        episode that goes on here sees nothing of it."""
        if self._twin is None:
            self._twin = type(self)(tasks=self.tasks, **self._kwargs)
        return self._twin

    def _leave(self) -> None:
        if self._scenario is not None:
            self._scenario.close()
            self._scenario = None

    def _browser(self) -> BrowserSession:
        if self._session is None:
            raise EnvError("there is no page; call reset() first")
        return self._session

    def _playing(self) -> WebScenario:
        if self._scenario is None:
            raise EnvError("there is no task; call reset() first")
        return self._scenario

    def _look(self) -> PageView:
        self._view = self._browser().observe()
        return self._view

    def _aim(self, arguments: Mapping[str, object]) -> list[int] | None:
        """Where an action is aimed, [x, y], on the page as the agent saw it; None for one that names no place."""
        if "x" in arguments:
            return [cast(int, arguments["x"]), cast(int, arguments["y"])]
        element = None if self._view is None else self._view.find(str(arguments.get("element")))
        return None if element is None else [round(middle) for middle in element.box.centre]

    def _page_text(self) -> str:
        """The page as the agent sees it after an action."""
        before, view = self._view, self._look()
        lines, old = list(page_lines(view.children)), self._lines
        self._lines = lines
        head = head_line(view)
        if view.error:
            return f"{head}\nerror: the page could not be loaded: {view.error}"
        if self._show == "changes" and before is not None and before.url == view.url:
            changes = changed_lines(old, lines)
            if len(changes) < len(lines):
                return within(changes or ["nothing changed on the page"], self._max_chars)
        return f"{head}\n{within(lines, self._max_chars)}"

    def _with_image(self, seen: Observation) -> Observation:
        if self._screenshot == "none":
            return seen
        return replace(seen, images=(self._browser().screenshot(marks=self._screenshot == "marks"),))

    def _played(self, task: Task) -> Iterator[str]:
        """The oracle's actions, each carried out. Raises EnvError for one that cannot be, and where they do not solve
        the task: a demonstration that fails must not be imitated silently."""
        self.reset(options={"task": task})
        for action in self._playing().oracle(PlannedHands(self._browser())):
            yield action
            seen, _, terminated, truncated, info = self.step(action)
            facts = {fact.name: fact.value for fact in info["evidence"]}
            if not facts.get("call_ok", False):
                places = '; set pointing = "both"' if action.split()[0] in BY_PLACE else ""
                raise EnvError(f"the oracle's action '{action:.60}' cannot be carried out: {seen.text:.120}{places}")
            if terminated or truncated:
                if not facts.get("solved"):
                    raise EnvError(f"the oracle's actions do not solve task '{task.id}' in {self.max_turns} turns")
                return


def _check_only(tools: Sequence[str], pointing: Pointing, candidates: int, confidence: bool) -> None:
    """Raises ConfigError for a way of pointing where the tasks have no tool that points."""
    if pointing != "references" or candidates != 1 or confidence:
        raise ConfigError(
            "pointing, candidates and confidence have no effect, because these tasks have the tools "
            f"{' and '.join(tools)} alone; leave them out"
        )
