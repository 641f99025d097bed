"""How large the page of a run is, how long it takes to make, to open and to filter.

    python -m benchmarks.viewer --episodes 2000 10000 --turns 4

Times of the browser are the best of ``--repeats``; "first paint" is Chromium's first-contentful-paint, "open" ends when
the page of the run is drawn, "filter" is one change of a filter until its rows are drawn, and "scroll" is the share of
frames that took longer than 50 ms while an episode of 200 turns is scrolled from top to bottom.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.helpers.viewed_runs import many_groups, recorded
from turngate.cli.view_runs import PARTS
from turngate.envs.web.engine.install import executable
from turngate.report.viewer.html_file import WrittenPage, write_html
from turngate.store import Store
from turngate.store.folder import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIBLINGS, GROUPS_OF_A_STEP, LONG = 8, 25, 200
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FILTER = """() => new Promise((done) => {
  const before = performance.now(), select = [...document.querySelectorAll('label')].find((one) =>
    one.textContent.startsWith('result')).querySelector('select');
  select.value = select.value === 'solved' ? 'not solved' : 'solved';
  select.dispatchEvent(new Event('change', {bubbles: true}));
  const count = document.getElementById('found').textContent;
  const look = () => document.getElementById('found').textContent === count ? requestAnimationFrame(look) :
    requestAnimationFrame(() => done(performance.now() - before));
  requestAnimationFrame(look);
})"""
SCROLL = """() => new Promise((done) => {
  const frames = []; let last = performance.now();
  const step = (now) => {
    frames.push(now - last); last = now; scrollBy(0, 120);
    if (scrollY + innerHeight + 2 < document.documentElement.scrollHeight) requestAnimationFrame(step);
    else done([frames.filter((one) => one > 50).length / frames.length, frames.length]);
  };
  requestAnimationFrame(step);
})"""


def make_run(folder: Path, episodes: int, turns: int) -> Path:
    """A run of so many episodes, and one of ``LONG`` turns with a sibling, which is its step 0."""
    groups = episodes // SIBLINGS
    run = recorded(folder, many_groups(1, turns=LONG, siblings=2, first=10**6), step=0)
    for step, first in enumerate(range(0, groups, GROUPS_OF_A_STEP), 1):
        Store(run).write(step, many_groups(min(GROUPS_OF_A_STEP, groups - first), turns=turns, first=first))
    return run


def measure(page: Page, file: Path) -> dict[str, float]:
    """Times in milliseconds of one opening."""
    page.goto("about:blank")
    before = time.perf_counter()
    page.goto(file.as_uri(), wait_until="commit")
    page.wait_for_selector("#success")
    opened = (time.perf_counter() - before) * 1e3
    paint = float(page.evaluate(PAINT))
    page.evaluate("location.hash = '#/run/made/find'")
    page.wait_for_selector("#found")
    filtered = float(page.evaluate(FILTER))
    page.evaluate("location.hash = '#/run/made/episode/task%2F1000000%230'")
    page.wait_for_selector("#turn-0 pre")
    slow, _ = page.evaluate(SCROLL)
    return {"first paint": paint, "open": opened, "filter": filtered, "slow frames": 100 * float(slow)}


def main() -> None:
    """Print a line of JSON for each number of episodes."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[2000, 10000])
    parser.add_argument("--turns", type=int, default=4, help="of each episode, about 400 characters each")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    for episodes in asked.episodes:
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            run = RunFolder(make_run(Path(folder), episodes, asked.turns))
            before = time.process_time()
            written: WrittenPage = write_html([run], run.report / "run.html", PARTS)
            made = time.process_time() - before
            chromium = executable(playwright)  # type: ignore[arg-type]  # only the path is read, which both kinds have
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            found = [measure(page, written.path) for _ in range(asked.repeats)]
            browser.close()
        best = {
            f"{name}{'_percent' if name == 'slow frames' else '_ms'}": round(min(one[name] for one in found), 1)
            for name in found[0]
        }
        kept = {"groups_with_turns": written.kept, "groups": written.groups}
        print(
            json.dumps(
                {"episodes": episodes, "mb": round(written.size / 1e6, 2), "made_cpu_s": round(made, 1)} | kept | best
            )
        )


if __name__ == "__main__":
    main()
