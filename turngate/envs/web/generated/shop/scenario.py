"""A task of the shop, as ``turngate/Web-v1`` plays it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.envs.web.engine.view import Box
from turngate.envs.web.generated.shop.facts import end_facts, turn_facts
from turngate.envs.web.generated.shop.hints import shop_hint
from turngate.envs.web.generated.shop.records import PlanStep, shop_task
from turngate.envs.web.generated.shop.shop_site import HOST, START_URL, ShopSite
from turngate.envs.web.scenario import Hands
from turngate.types import Evidence, Task


class ShopScenario:
    """See ``WebScenario``. The customer is signed in by a cookie that pages and their scripts never see."""

    goal = 'Do what is asked in the shop, then answer "done"; if it cannot be done, change nothing and answer "none".'
    allowed: frozenset[str] = frozenset()
    ended = False

    def __init__(self, task: Task) -> None:
        self._prompt = task.prompt
        self._shop = ShopSite(shop_task(task))
        self.sites = {HOST: _SignedIn(self._shop)}
        self._known: set[str] = set()

    def begin(self, session: BrowserSession) -> str:
        """Open the shop's first page."""
        session.open(START_URL)
        self._known = {page.kind for page in self._shop.seen}
        self._shop.seen.clear()
        return self._prompt

    def after_turn(self, session: BrowserSession) -> Iterable[Evidence]:
        """Pages that were answered in the turn, and how much of the goal is missing."""
        seen = tuple(self._shop.seen)
        yield from turn_facts(seen, frozenset(self._known), self._shop.distance())
        self._known |= {page.kind for page in seen}
        self._shop.seen.clear()

    def target(self, session: BrowserSession) -> Box | None:
        """Not known: there are several ways to each goal."""
        return None

    def state(self) -> str:
        """That of the database."""
        return self._shop.state()

    def at_end(self, session: BrowserSession, answer: str | None) -> Iterable[Evidence]:
        """By the database and the answer."""
        return end_facts(self._shop.grade(answer))

    def oracle(self, hands: Hands) -> Iterator[str]:
        """The plan of the task."""
        for step in self._shop.task.plan:
            yield _action(step, hands)

    def hint(self, level: int, first_page: Callable[[], BrowserSession]) -> str | None:
        return shop_hint(self._shop.task, level)

    def close(self) -> None:
        """Free the database."""
        self._shop.close()


class _SignedIn:
    """The shop for a browser that holds the customer's cookie."""

    def __init__(self, shop: ShopSite) -> None:
        self._shop = shop
        self._cookie = "; ".join(f"{name}={value}" for name, value in shop.cookies.items())

    def answer(self, request: SiteRequest) -> SiteResponse:
        headers = {**request.headers, "cookie": self._cookie}
        return self._shop.answer(
            SiteRequest(method=request.method, url=request.url, headers=headers, body=request.body)
        )


def _action(step: PlanStep, hands: Hands) -> str:
    if step.kind == "answer":
        return f"answer {step.value}"
    ref = hands.named(step.role, step.name)
    return f"{step.kind} {ref} {step.value}" if step.value else f"{step.kind} {ref}"
