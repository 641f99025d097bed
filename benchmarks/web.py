"""What the browser of ``turngate/Web-v1`` costs, beside the bare browser doing the same.

    python -m benchmarks.web [--rounds 20] [--episodes 40] [--contexts 1 4 16] [--leak 1000] [--browsergym-python …]

* ``reset``: a page used again (``BrowserSession.reset`` and the first page), over bare Playwright opening it.
* ``click``: a click, what follows from it and one look at the page, over a bare ``mouse.click`` and an
  ``aria_snapshot(mode="ai")``.
* ``episodes_per_s``: episodes of one reset and three clicks, played by as many threads as there are contexts.
* ``miniwob``: ``turngate/Web-v1`` playing episodes of a reset and one click on three pages of MiniWoB++, with all that
  it tells and records, beside BrowserGym doing the same: at its default settings, and without its waits
  (``pre_observation_delay=0``, ``slow_mo=0``). Rounds by turns; for ``--browsergym-python``, made by
  ``python3 -m venv gym && gym/bin/pip install browsergym-miniwob``.
* ``left``: growth over ``--leak`` episodes, each with a context of its own: contexts, processes and descriptors of
  this process, and the memory of this process and of its descendants in MB.

Prints JSON: medians in ms and their ratios, which a busy machine distorts less than the times themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from playwright.sync_api import sync_playwright

from turngate.envs.web.engine.browser import Browser
from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.episode_context import EpisodeContext
from turngate.envs.web.engine.install import executable
from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.envs.web.loaders.miniwob.miniwob_site import html_folder

URL = "http://bench.test/"
MINIWOB = ("click-test", "click-button", "login-user")
"""Pages on which one click on a button ends the episode."""
PAGE = "<p id=o>0</p>" + "".join(
    f"<p>Line {n} <button onclick='o.textContent++'>Press {n}</button></p>" for n in range(60)
)


class Page:
    """A site of one page with 120 elements."""

    def answer(self, request: SiteRequest) -> SiteResponse:
        return SiteResponse(body=PAGE.encode())


def median_ms(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start_s))
    return statistics.median(times)


def bare(session: BrowserSession, action: Callable[[Any], Any]) -> Callable[[], object]:
    """Something that is done with Playwright's own page, in the browser's thread."""

    async def work(episode: EpisodeContext) -> None:
        await action((await episode.tab()).page)

    return lambda: session._do(work)


def steps(browser: Browser, rounds: int) -> dict[str, float]:
    with browser.lease(seed=0, sites={"bench.test": Page()}) as session:
        session.open(URL)

        def reset() -> None:
            assert session.reset(seed=1)
            session.open(URL)

        async def bare_reset(page: Any) -> None:
            await page.goto("about:blank")
            await page.goto(URL)

        async def bare_click(page: Any) -> None:
            await page.mouse.click(100, 80)
            await page.aria_snapshot(mode="ai")

        def click() -> None:
            session.click(100, 80)
            session.observe()

        found = {
            "reset_ms": median_ms(reset, rounds),
            "bare_reset_ms": median_ms(bare(session, bare_reset), rounds),
            "click_ms": median_ms(click, rounds),
            "bare_click_ms": median_ms(bare(session, bare_click), rounds),
            "observe_ms": median_ms(session.observe, rounds),
        }
    for name in ("reset", "click"):
        found[f"{name}_ratio"] = found[f"{name}_ms"] / found[f"bare_{name}_ms"]
    return found


def episodes_per_s(browser: Browser, contexts: int, episodes: int) -> float:
    def play(number: int) -> None:
        with browser.lease(seed=number, sites={"bench.test": Page()}) as session:
            barrier.wait()
            for episode in range(max(1, episodes // contexts)):
                session.reset(seed=episode)
                session.open(URL)
                for _ in range(3):
                    session.click(100, 80)
                    session.observe()

    barrier = threading.Barrier(contexts + 1)
    threads = [threading.Thread(target=play, args=(number,)) for number in range(contexts)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start_s = time.perf_counter()
    for thread in threads:
        thread.join()
    return contexts * max(1, episodes // contexts) / (time.perf_counter() - start_s)


def miniwob(episodes: int) -> dict[str, float]:
    """Median times of ``turngate/Web-v1``, whose browser runs already."""
    reset_ms, click_ms = [], []
    for page in MINIWOB:
        env = gym.make("turngate/Web-v1", tasks={"type": "miniwob", "pages": [page], "seeds": 50})
        for number in range(episodes + 1):
            start_s = time.perf_counter()
            seen, _ = env.reset(seed=number)
            between_s = time.perf_counter()
            button = re.search(r"(e\d+) button", str(seen))
            assert button, f"{page} has no button"
            _, _, done, _, _ = env.step(f"click {button[1]}")
            end_s = time.perf_counter()
            assert done, f"one click does not end {page}"
            if number:
                reset_ms.append(1000 * (between_s - start_s))
                click_ms.append(1000 * (end_s - between_s))
        env.close()
    return {"reset_ms": statistics.median(reset_ms), "click_ms": statistics.median(click_ms)}


def browsergym(python: str, episodes: int, delay_s: float) -> dict[str, float]:
    """The same of BrowserGym, in its own interpreter."""
    url = f"{html_folder().as_uri()}/miniwob/"
    with sync_playwright() as playwright:
        chromium = executable(playwright)  # type: ignore[arg-type]  # both kinds have what it reads
    program = str(Path(__file__).with_name("web_browsergym.py"))
    words = [python, program, chromium, url, str(episodes), str(delay_s), *MINIWOB]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def against_browsergym(python: str, episodes: int, rounds: int) -> dict[str, Any]:
    """Each side's median over rounds that take turns, and ratios of times."""
    sides: dict[str, Callable[[], dict[str, float]]] = {
        "turngate": lambda: miniwob(episodes),
        "browsergym": lambda: browsergym(python, max(2, episodes // 4), 0.5),
        "browsergym_without_waits": lambda: browsergym(python, episodes, 0.0),
    }
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, play in sides.items():
            seen[name].append(play())
    found: dict[str, Any] = {
        name: {part: statistics.median(one[part] for one in times) for part in times[0]} for name, times in seen.items()
    }
    for name in ("browsergym", "browsergym_without_waits"):
        found[f"{name}_ratio"] = {part: found[name][part] / ours for part, ours in found["turngate"].items()}
    return found


def kept(session: BrowserSession) -> dict[str, float]:
    """What this process and the browser hold at the moment."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    mine, before = {os.getpid()}, 0
    while before != len(mine):
        before = len(mine)
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    pages = sum(
        int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
        for pid in mine
        if Path(f"/proc/{pid}").exists()
    )
    return {
        "contexts": len(session._driver.chromium.contexts),
        "processes": len(mine),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "memory_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    }


def left(browser: Browser, episodes: int) -> dict[str, Any]:
    """Growth over so many episodes; of the memory also after each quarter of them, because caches fill up first."""

    def one() -> None:
        with browser.lease(seed=0, sites={"bench.test": Page()}) as session:
            session.open(URL)

    with browser.lease(seed=0, sites={"bench.test": Page()}) as watch:
        for _ in range(10):
            one()
        seen = [kept(watch)]
        for _ in range(4):
            for _ in range(episodes // 4):
                one()
            time.sleep(2.0)
            seen.append(kept(watch))
    found: dict[str, Any] = {name: seen[-1][name] - seen[0][name] for name in seen[0]}
    return {**found, "memory_after_quarters_mb": [one["memory_mb"] - seen[0]["memory_mb"] for one in seen[1:]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--contexts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--leak", type=int, default=1000)
    parser.add_argument("--browsergym-python", help="a Python that has browsergym-miniwob")
    options = parser.parse_args()
    browser = Browser()
    try:
        found: dict[str, Any] = {"load": os.getloadavg()[0], "steps": steps(browser, options.rounds)}
        found["episodes_per_s"] = {n: episodes_per_s(browser, n, options.episodes) for n in options.contexts}
        found["left"] = left(browser, options.leak)
    finally:
        browser.close()
    if options.browsergym_python:
        found["miniwob"] = against_browsergym(options.browsergym_python, options.rounds, rounds=3)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
