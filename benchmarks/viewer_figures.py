"""The figures of docs/viewer.md: pictures of the page of real runs, in a real Chromium.

    python -m benchmarks.viewer_figures --out docs/figures --trained sql=runs/sql-demo web=runs/web-training

``viewer_NAME.png``: a turn of the last step of each trained run that is named. ``viewer_shop.png``: a turn of an errand
in the shop, which a script plays twice, the solution and one that leaves out half of it, with an image of each page.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from turngate.agents.chat import TextChat
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.cli.view_runs import PARTS
from turngate.config.run_config import dump, parse
from turngate.envs.web.engine.install import executable
from turngate.report.viewer.html_file import write_html
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import JSON, Request

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTH, HEIGHT = 1280, 800


class SeeingScript(ScriptedPolicy):
    """A script that is played where observations have images."""

    takes_images = True


async def played_shop(folder: Path) -> Path:
    """A run of a group of two episodes: the solution, and one that leaves out its second half but for the end."""
    env: dict[str, JSON] = {"id": "turngate/Web-v1", "kwargs": {"screenshot": "marks"}}
    settings: dict[str, JSON] = {"credit": {"type": "gigpo"}, "warm_start": {"episodes": 1}}
    config = parse({"name": "shop", "folder": str(folder), "env": env, **settings})
    run = folder / "shop"
    run.mkdir()
    (run / "config.toml").write_text(dump(config), encoding="utf-8")
    with Environments(config.env) as environments:
        (label,) = environments.sections
        task = environments.task(label, "train", 0)
        solution = list(environments[label].oracle(task))
        half = [*solution[: len(solution) // 2], solution[-1]]

        def script(request: Request) -> str:
            lines = half if "#1@" in request.episode else solution
            return str(lines[request.turn])

        async with environments.worlds(1) as worlds:
            chat = TextChat(tool_format="")
            player = Player(SeeingScript(script, chat, concurrency=1), chat, TokenLimits(turn_tokens=64, context=10**6))
            groups = await play_groups(player, worlds, [task], [[None, None]], seed=1)
        Store(run).write(1, [environments.score(group) for group in groups])
    return run


def shown_turn(run: RunFolder) -> str:
    """The address of a turn in the last step of training: the last but one of the longest episode that solved its task,
    in a group in which another did not."""
    store = Store(run.path)
    solved = [
        trajectory
        for group in store.read(max(store.steps("train")), "train")
        for trajectory, score in zip(group.trajectories, group.scores, strict=True)
        if score.success and not all(one.success for one in group.scores)
    ]
    longest = max(solved, key=lambda one: len(one.turns))
    return f"#/run/{run.label}/episode/{quote(longest.id, safe='')}/turn/{max(0, len(longest.turns) - 2)}"


@contextmanager
def opened_page() -> Iterator[Page]:
    """A page of a light Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = executable(playwright)  # type: ignore[arg-type]  # only the path is read, which both kinds have
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        yield page
        browser.close()


def picture(page: Page, file: Path, route: str, out: Path) -> None:
    """What the window shows of one page of a run's file."""
    page.goto("about:blank")
    page.goto(file.as_uri() + route)
    page.wait_for_selector(f"#turn-{route.rpartition('/')[2]} h4")
    page.wait_for_function("() => [...document.images].every((one) => one.complete)")
    page.wait_for_timeout(500)  # the page scrolls to the turn once more when its height is known
    page.screenshot(path=out)
    print(f"{out}: {out.stat().st_size // 1000} kB")


def main() -> None:
    """Play the errand and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--trained", nargs="*", default=[], metavar="NAME=RUN", help="trained runs to draw a turn of")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    named = [one.partition("=") for one in asked.trained]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shown = []
        for name, _, run in [*named, ("shop", "=", asyncio.run(played_shop(folder)))]:
            file = write_html([RunFolder(Path(run))], folder / f"{name}.html", PARTS).path
            shown.append((file, shown_turn(RunFolder(Path(run))), asked.out / f"viewer_{name}.png"))
        with opened_page() as page:
            for file, route, out in shown:
                picture(page, file, route, out)


if __name__ == "__main__":
    main()
