"""Two real runs, the file in which they explain themselves, and a browser that writes down what it should not do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.helpers.command_line import turngate
from tests.helpers.viewed_runs import two_runs
from turngate.envs.web.engine.install import executable


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return two_runs(tmp_path_factory.mktemp("viewed"))


@pytest.fixture(scope="session")
def page_file(runs: tuple[Path, Path]) -> Path:
    assert turngate("report", "--html", runs[0], "--beside", runs[1]) == 0
    return runs[0] / "report" / "run.html"


@pytest.fixture(scope="module")
def browser(runs: tuple[Path, Path]) -> Iterator[Browser]:
    """After the runs, which need an event loop of their own, as what is tested after this module may."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(playwright), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and what it asked for and complained of."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.page.wait_for_selector("h1")

    def go(self, route: str) -> None:
        """Follow a link of the page, and wait until its page is drawn."""
        self.page.evaluate(
            """route => new Promise((done) => { location.hash = route;
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))); })""",
            route,
        )
        self.drawn()

    def drawn(self) -> None:
        """Wait until nothing is being read."""
        self.page.wait_for_function(
            "() => document.querySelector('h1, [role=alert]') && ![...document.querySelectorAll('main p')]"
            ".some((one) => one.textContent === 'reading …')"
        )

    def painted(self) -> None:
        """Wait for two frames, and for what follows the second."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
        )

    def links(self) -> set[str]:
        found = self.page.eval_on_selector_all(
            "main a[href^='#/']", "all => all.map((one) => one.getAttribute('href'))"
        )
        return set(found)

    def text(self) -> str:
        return self.page.inner_text("main")


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    found = Watched(page)
    page.on("request", lambda request: found.asked.append(request.url))
    page.on("console", lambda line: found.complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("dialog", lambda dialog: found.complaints.append(dialog.message))
    yield found
    context.close()
