"""An oracle's hands: how the steps of a plan find their elements on the page that is shown."""

from __future__ import annotations

import json
import math

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.view import Element, PageView
from turngate.errors import EnvError

_PLACE = """((selector, nth) => {
  const found = [...document.querySelectorAll(selector)][nth];
  if (!found) return null;
  found.scrollIntoView({block: 'nearest'});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2, box.width * box.height];
})"""


class PlannedHands:
    """See ``Hands``. Raises EnvError for an element that is not on the page: a plan that does not fit it."""

    def __init__(self, session: BrowserSession) -> None:
        self.session = session

    def view(self) -> PageView:
        return self.session.observe()

    def named(self, role: str, name: str) -> str:
        for element in self.view().elements():
            if (element.role, element.name) == (role, name):
                return element.ref
        raise EnvError(f"the plan needs the {role} '{name}', which is not on the page")

    def at(self, selector: str, nth: int = 0) -> str:
        """See ``Hands``. It is the element of that size whose middle is nearest, because references belong to the
        engine and selectors to the page."""
        place = self.session.evaluate(f"{_PLACE}({json.dumps(selector)}, {nth})")
        if place is None:
            raise EnvError(f"the plan needs element {nth} of '{selector}', which is not on the page")
        x, y, area = place
        elements = [element for element in self.view().elements() if element.ref]
        if not elements:
            raise EnvError(f"nothing on the page can be used where the plan needs '{selector}'")
        return min(elements, key=lambda element: _distance(element, x, y, area)).ref


def _distance(element: Element, x: float, y: float, area: float) -> float:
    middle_x, middle_y = element.box.centre
    size = math.sqrt(abs(element.box.width * element.box.height - area))
    return abs(middle_x - x) + abs(middle_y - y) + size + (0.0 if element.interactive else 2.0)
