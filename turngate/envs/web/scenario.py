"""The parts of a task of ``turngate/Web-v1``: its sites, its first page, and its measurements besides the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.site_handler import SiteHandler
from turngate.envs.web.engine.view import Box, PageView
from turngate.errors import ConfigError
from turngate.parts import import_object
from turngate.types import Evidence, Task


class Hands(Protocol):
    """How an oracle acts: it looks at the page that is shown, and names elements as an action does."""

    session: BrowserSession

    def view(self) -> PageView:
        """The page as it stands."""

    def named(self, role: str, name: str) -> str:
        """The reference of the element of this role and accessible name."""

    def at(self, selector: str, nth: int = 0) -> str:
        """The reference of the element that is the ``nth`` (0-based) of those that the CSS ``selector`` finds."""


_BOX = """((one) => {
  if (!one) return null;
  const box = one.getBoundingClientRect();
  return [box.x, box.y, box.width, box.height].map(Math.round);
})"""


def box_of(session: BrowserSession, element: str) -> Box | None:
    """Where the element of a JavaScript expression lies in the window; None if there is none."""
    found = session.evaluate(f"{_BOX}({element})")
    return None if found is None else Box(*found)


class WebScenario(Protocol):
    """One task on its sites, for one episode. Close it in the end."""

    goal: str
    """The instructions for tasks of this kind, before the task's own words."""
    sites: Mapping[str, SiteHandler]
    """Host → the site that answers for it in this process."""
    allowed: Collection[str]
    """Hosts on the network that pages may reach."""
    ended: bool
    """Whether the page itself has ended the episode."""

    def begin(self, session: BrowserSession) -> str:
        """Open and prepare the first page, and return the task's question."""

    def after_turn(self, session: BrowserSession) -> Iterable[Evidence]:
        """The effects of the turn on the site. Called after each action that was carried out."""

    def target(self, session: BrowserSession) -> Box | None:
        """The element that the task needs next, if that is known; the agent is not told."""

    def state(self) -> str:
        """A text that is equal for equal states of the site; without the content of the page."""

    def at_end(self, session: BrowserSession, answer: str | None) -> Iterable[Evidence]:
        """How the episode ended: ``solved`` and ``goal_share`` at least."""

    def oracle(self, hands: Hands) -> Iterator[str]:
        """The actions that solve the task, each yielded on the page that the last one has led to. Raises EnvError
        where there is none."""

    def hint(self, level: int, first_page: Callable[[], BrowserSession]) -> str | None:
        """Help; see ``TurnEnv.hint``. ``first_page`` opens the task's first page, for hints that have to look at it."""

    def close(self) -> None:
        """Free what it holds. Safe to repeat."""


@runtime_checkable
class WritableScenario(Protocol):
    """A scenario in which the agent writes the page itself."""

    def write(self, session: BrowserSession, text: str) -> str:
        """Show ``text`` as the page, and return a message about it. Raises PageProblem for a text that is no page."""


KINDS: Mapping[str, str] = {
    "shop": "turngate.envs.web.generated.shop.scenario:ShopScenario",
    "miniwob": "turngate.envs.web.loaders.miniwob.scenario:MiniwobScenario",
    "web_site": "turngate.envs.web.loaders.own.scenario:OwnScenario",
    "slides": "turngate.envs.web.generated.slides.scenario:SlideScenario",
}
"""The entry of ``Task.private`` that says of which kind a task is → the class of its scenario."""


def scenario_of(task: Task) -> WebScenario:
    """The scenario of a task. Raises ConfigError for a task that is of no kind."""
    for key, path in KINDS.items():
        if key in task.private:
            scenario: WebScenario = import_object(path)(task)
            return scenario
    raise ConfigError(f"task '{task.id}' is no task of Web-v1: its private part has none of {', '.join(KINDS)}")
