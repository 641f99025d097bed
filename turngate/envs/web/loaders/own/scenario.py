"""A task on your own site, as ``turngate/Web-v1`` plays it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.network import RequestSeen
from turngate.envs.web.engine.site_handler import SiteHandler
from turngate.envs.web.engine.tab import ScriptError
from turngate.envs.web.engine.view import Box, PageView
from turngate.envs.web.loaders.own.folder_site import HOST, FolderSite
from turngate.envs.web.scenario import Hands, box_of
from turngate.errors import AgentFault, ConfigError, EnvError
from turngate.parts import import_object
from turngate.types import Evidence, Task

PRIVATE_KEY = "web_site"


class OwnTask(BaseModel):
    """The ``Task.private`` of such a task. ``folder``: files that are served as ``http://site.test/``, or None.
    ``allowed``: hosts on the network. ``verifier``: ``module:function``. ``gold``: the oracle's actions, if known.
    ``target``: CSS selector of the element that has to be clicked, for clicks with several candidates."""

    model_config = ConfigDict(frozen=True)

    start_url: str
    folder: str | None = None
    allowed: tuple[str, ...] = ()
    verifier: str
    expected: Any = None
    gold: tuple[str, ...] = ()
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEnd:
    """The argument of a verifier: the end of the episode.

    ``evaluate`` reads the page that is shown: the value of a JavaScript expression, in a world of its own that the
    page's scripts cannot deceive. An exception on the agent's last page is the agent's failure, so an agent gains
    nothing by leaving; a script that no page could read is an error. ``expected``: the task's entry of that name.
    """

    prompt: str
    expected: Any
    answer: str | None
    view: PageView
    requests: tuple[RequestSeen, ...]
    session: BrowserSession

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.view.url

    def evaluate(self, expression: str) -> Any:
        """See above. Raises AgentFault."""
        try:
            return self.session.evaluate(expression)
        except ScriptError as error:
            if str(error).startswith("SyntaxError"):
                raise
            raise AgentFault(f"the verifier cannot read the page {self.url:.200}: {error!s:.200}") from error


class OwnScenario:
    """The scenario of one task of a user's own site."""

    goal = "Do what is asked on the site, then answer."
    ended = False

    def __init__(self, task: Task) -> None:
        self._task, self._own = task, OwnTask.model_validate_json(task.private[PRIVATE_KEY])
        self._verifier = import_object(self._own.verifier)
        self.sites: Mapping[str, SiteHandler] = {HOST: FolderSite(Path(self._own.folder))} if self._own.folder else {}
        self.allowed = self._own.allowed

    def begin(self, session: BrowserSession) -> str:
        """Open the first page."""
        session.open(self._own.start_url)
        return self._task.prompt

    def after_turn(self, session: BrowserSession) -> Iterable[Evidence]:
        """No facts besides those that are recorded of every page."""
        return ()

    def target(self, session: BrowserSession) -> Box | None:
        """The element that the task names, if it names one."""
        return box_of(session, f"document.querySelector({json.dumps(self._own.target)})") if self._own.target else None

    def state(self) -> str:
        """Not known beyond the page."""
        return ""

    def at_end(self, session: BrowserSession, answer: str | None) -> Iterable[Evidence]:
        """The verifier's result: whether the task is solved, or the share of it that is right."""
        end = PageEnd(
            prompt=self._task.prompt,
            expected=self._own.expected,
            answer=answer,
            view=session.observe(),
            requests=session.requests(),
            session=session,
        )
        found = self._verifier(end)
        if not isinstance(found, bool | int | float) or not 0 <= found <= 1:
            raise ConfigError(
                f"the verifier '{self._own.verifier}' returned {found!r:.60}; it must return True, False or a share "
                "from 0 to 1"
            )
        yield Evidence(name="solved", value=float(found) == 1.0)
        yield Evidence(name="goal_share", value=float(found))

    def oracle(self, hands: Hands) -> Iterator[str]:
        """The actions that the task brings."""
        if not self._own.gold:
            raise EnvError(f"task '{self._task.id}' brings no actions that solve it (gold)")
        return iter(self._own.gold)

    def hint(self, level: int, first_page: Callable[[], BrowserSession]) -> str | None:
        """The hints of the task itself."""
        return self._task.hints[level - 1] if 1 <= level <= len(self._task.hints) else None

    def close(self) -> None:
        """Nothing is held."""
