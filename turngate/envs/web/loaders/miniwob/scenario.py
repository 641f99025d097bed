"""A MiniWoB++ page as ``turngate/Web-v1`` plays it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.view import Box
from turngate.envs.web.loaders.miniwob.hints import LEVELS, hint, next_step
from turngate.envs.web.loaders.miniwob.known_pages import page_of
from turngate.envs.web.loaders.miniwob.miniwob_site import HOST, MiniwobSite, url_of
from turngate.envs.web.loaders.miniwob.oracles import ORACLES
from turngate.envs.web.loaders.miniwob.page_guard import READ, PageReading, begin
from turngate.envs.web.loaders.miniwob.page_steps import PageStep
from turngate.envs.web.loaders.miniwob.reward import reward_of
from turngate.envs.web.loaders.miniwob.sources import PRIVATE_KEY
from turngate.envs.web.scenario import Hands, box_of
from turngate.errors import EnvError
from turngate.types import Evidence, Task


class MiniwobScenario:
    """See ``WebScenario``. The page itself says when it is done, and with which raw reward."""

    goal = "Do what the page asks for."
    allowed: frozenset[str] = frozenset()

    def __init__(self, task: Task) -> None:
        self._page, self._seed, self._mode = json.loads(task.private[PRIVATE_KEY])
        self._facts = page_of(self._page)
        self._read: PageReading | None = None
        self.sites = {HOST: MiniwobSite()}
        self.ended = False

    def begin(self, session: BrowserSession) -> str:
        """Begin the page's episode with the seed of the task."""
        session.open(url_of(self._page, self._mode))
        session.evaluate(begin(self._seed), own_world=False)
        return self._reading(session).utterance

    def after_turn(self, session: BrowserSession) -> Iterable[Evidence]:
        """Nothing but whether the page is done; then the episode ends."""
        self._read = self._reading(session)
        self.ended = self._read.done
        return ()

    def target(self, session: BrowserSession) -> Box | None:
        """The element that the page's oracle would click now."""
        step = next_step(self._page, _PageLook(session))
        if step is None or step.kind not in ("click", "click_at"):
            return None
        if step.point is not None:
            return box_of(session, f"document.elementFromPoint({step.point[0]}, {step.point[1]})")
        return box_of(session, _of(step))

    def state(self) -> str:
        """Empty: the whole state is on the page."""
        return ""

    def at_end(self, session: BrowserSession, answer: str | None) -> Iterable[Evidence]:
        """By the page's own reward. A page that was left has none."""
        read = self._read if self._read is not None and self._read.done else self._reading(session)
        yield Evidence(name="solved", value=self._facts.is_right(read.raw))
        yield Evidence(name="goal_share", value=reward_of(read.raw, full=self._facts.full, mode="partial"))
        yield Evidence(name="raw_reward", value=reward_of(read.raw, mode="raw"))
        yield Evidence(name="result_lost", value=not read.begun)

    def oracle(self, hands: Hands) -> Iterator[str]:
        """The actions of the page's oracle."""
        if self._page not in ORACLES:
            raise EnvError(f"the page '{self._page}' has no oracle: {self._facts.no_oracle}")
        for step in ORACLES[self._page](_PageLook(hands.session)):
            yield from _actions(step, hands)

    def hint(self, level: int, first_page: Callable[[], BrowserSession]) -> str | None:
        """What to do first on the page."""
        return hint(self._page, _PageLook(first_page()), level) if 1 <= level <= LEVELS else None

    def close(self) -> None:
        """Nothing is held."""

    def _reading(self, session: BrowserSession) -> PageReading:
        if not session.observe().url.startswith(f"http://{HOST}/miniwob/"):
            return PageReading.of(None)
        return PageReading.of(session.evaluate(READ, own_world=False))


class _PageLook:
    def __init__(self, session: BrowserSession) -> None:
        self._session = session

    def js(self, expression: str) -> Any:
        return self._session.evaluate(expression, own_world=False)


def _actions(step: PageStep, hands: Hands) -> Iterator[str]:
    """The step as actions."""

    def place(point: tuple[float, float] | None) -> str:
        x, y = point or _middle(hands, step)
        return f"{round(x)} {round(y)}"

    match step.kind:
        case "click" | "hover":
            ref = hands.at(step.selector, step.nth) if step.selector else ""
            box = box_of(hands.session, _of(step)) if ref else None
            if box is None or _is_over(hands, ref, box):
                yield f"{step.kind} {ref}" if ref else f"hover_at {place(step.point)}"
            else:  # an element that the tree does not have, such as a box that only its colour tells
                yield f"{step.kind}_at {place(box.centre)}"
        case "click_at":
            yield f"click_at {place(step.point)}"
        case "fill":
            text = step.value.rstrip(" ")
            yield f"fill {hands.at(step.selector or '', step.nth)} {text}"
            if blanks := len(step.value) - len(text):  # at the end of a command none are read
                yield f"press {' '.join(['Space'] * blanks)}"
        case "select":
            yield f"select {hands.at(step.selector or '', step.nth)} {step.value}"
        case "press":
            if step.selector and not hands.session.evaluate(f"{_of(step)} === document.activeElement"):
                yield f"click {hands.at(step.selector, step.nth)}"
            yield f"press {step.value}"
        case "scroll":
            yield f"scroll {step.value} {hands.at(step.selector or '', step.nth)}"
        case "drag":
            ways = [place(point) for point in (step.point, *step.via, step.to)]
            yield f"drag_along {', '.join(ways)}" if step.via else f"drag_at {' '.join(ways)}"
        case "wait":
            yield f"wait {step.value}"


def _is_over(hands: Hands, ref: str, box: Box) -> bool:
    """Whether a click on the element of this reference lands in the box."""
    element = hands.view().find(ref)
    if element is None:
        return False
    x, y = element.box.centre
    return box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height


def _of(step: PageStep) -> str:
    """The element of a step, in JavaScript."""
    return f"document.querySelectorAll({json.dumps(step.selector)})[{step.nth}]"


def _middle(hands: Hands, step: PageStep) -> tuple[float, float]:
    ref = hands.at(step.selector or "", step.nth)
    return next(element.box.centre for element in hands.view().elements() if element.ref == ref)
