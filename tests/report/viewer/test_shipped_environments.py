"""The page of a real run of each shipped environment, of a guided run and of a branched one, in a real browser.

1. Every page is reached by links from the first one, and none says that something is not there.
2. Nothing is asked of anybody, and nothing is complained of.
3. axe-core finds nothing serious: on a page of each kind of the guided and the branched run, and of each environment
   on those that show what it said.
4. What help the episodes had is there to read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.helpers.shipped_runs import ENVIRONMENTS, shipped_run
from tests.report.viewer.conftest import Watched
from tests.report.viewer.test_pages import AXE, SERIOUS
from turngate.cli.view_runs import PARTS
from turngate.envs.registry import registered
from turngate.envs.web.engine.install import executable
from turngate.report.viewer.html_file import write_html
from turngate.store.folder import RunFolder

GUIDED, BRANCHED = "hinted", "branched"
TOLD = {"run/episode/turn", "run/task", "beside"}
"""The kinds of pages that show what an environment said."""
KINDS = {"run", "run/step", "run/episode", "run/episode/turn", "run/task", "run/find", "beside"}
JUDGED = (KINDS | {""}) - {"run/episode"}  # which is that of its turns too


@pytest.fixture(scope="module")
def pages(runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each run."""
    folder = tmp_path_factory.mktemp("shipped")
    made = dict(zip((GUIDED, BRANCHED), runs, strict=True))
    made |= {name: shipped_run(folder, name) for name in ENVIRONMENTS}
    return {name: write_html([RunFolder(run)], folder / f"{name}.html", PARTS).path for name, run in made.items()}


@pytest.fixture(scope="module")
def browser(pages: dict[str, Path]) -> Iterator[Browser]:
    """After the runs, which need an event loop of their own; to start it takes as long as to look at a page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(playwright), args=["--no-sandbox"])
        yield browser
        browser.close()


def kind_of(route: str) -> str:
    """What a page shows: the words of its address that name no run, step, episode or task."""
    words = route.removeprefix("#/").partition("?")[0].split("/")
    if words[0] == "run":
        return "/".join(["run", *words[2:3], *(["turn"] if "turn" in words[4:] else [])])
    return words[0]


def walk(watched: Watched) -> tuple[dict[str, str], str]:
    """Follow every link, of the turns of an episode one; returns an address of each kind, and what the episodes say."""
    waiting, seen, kinds, texts = ["#/"], {"#/"}, dict[str, str](), []
    while waiting:
        route = waiting.pop()
        watched.go(route)
        assert watched.page.inner_text("h1") != "Not here", route
        assert not watched.page.query_selector("[role=alert]"), watched.text()
        if kind_of(route) not in kinds or kind_of(route) == "run/episode":
            texts.append(watched.page.evaluate("document.querySelector('main').textContent"))
        kinds.setdefault(kind_of(route), route)
        for link in sorted(watched.links()):
            place = re.sub(r"/turn/\d+$", "/turn", link)
            if place not in seen:
                seen.add(place)
                waiting.append(link)
    return kinds, "\n".join(texts)


@pytest.mark.parametrize("name", [*ENVIRONMENTS, GUIDED, BRANCHED])
def test_every_page_is_reached_and_nothing_is_wrong_with_it(
    browser: Browser, watched: Watched, pages: dict[str, Path], name: str
) -> None:
    address = pages[name].as_uri()
    watched.page.set_viewport_size({"width": 1280, "height": 6000})  # so that every turn is near the window
    watched.open(address)
    kinds, text = walk(watched)
    assert set(kinds) >= KINDS, name
    assert watched.complaints == []
    assert watched.asked == [address]
    expected = {GUIDED: "stripped from the context that is learned from", BRANCHED: "branched from"}
    assert expected.get(name, "turns, by oracle") in text
    context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True)
    judged = Watched(context.new_page())
    judged.open(address)
    judged.page.evaluate(AXE)
    for route in [route for kind, route in kinds.items() if kind in (TOLD if name in ENVIRONMENTS else JUDGED)]:
        judged.go(route)
        found = judged.page.evaluate("async () => axe.run(document).then((r) => r.violations)")
        assert [(route, one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS] == []
    context.close()


def test_the_shipped_environments_are_all_of_those_that_are_registered() -> None:
    shipped = {name.removeprefix("turngate/") for name in registered() if name.startswith("turngate/")}
    assert shipped == set(ENVIRONMENTS)
