"""The figures of docs/viewer.md: pictures of the page of two real runs, in a real Chromium.

    python -m benchmarks.viewer_figures --out docs/figures     # a few seconds

``viewer_sql.png`` and ``viewer_web.png``: a turn of a question about a database and of an errand in the shop. Each was
played twice by a script: the solution, and one that leaves out half of it. The shop's has an image of each page.
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
TURN = 2
"""The turn that is shown."""


class SeeingScript(ScriptedPolicy):
    """A script that is played where observations have images."""

    takes_images = True


ENVIRONMENTS: dict[str, dict[str, JSON]] = {
    "sql": {"id": "turngate/Sql-v1", "tasks": {"type": "lookup_sql", "max_level": 2}},
    "web": {"id": "turngate/Web-v1", "kwargs": {"screenshot": "marks"}},
}


async def played_run(folder: Path, name: str) -> Path:
    """A group of two episodes: the solution, and one that leaves out its second half but for the end."""
    settings: dict[str, JSON] = {"credit": {"type": "gigpo"}, "warm_start": {"episodes": 1}}
    config = parse({"name": name, "folder": str(folder), "env": ENVIRONMENTS[name], **settings})
    run = folder / name
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


def solved_turn(run: Path) -> str:
    """The address of a turn of the longest episode that solved its task."""
    (group,) = Store(run).read(1, "train")
    solved = [one for one, score in zip(group.trajectories, group.scores, strict=True) if score.success]
    longest = max(solved, key=lambda one: len(one.turns))
    return f"#/run/{run.name}/episode/{quote(longest.id, safe='')}/turn/{TURN}"


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
    page.wait_for_selector("#turn-0 h4")
    page.wait_for_function("() => [...document.images].every((one) => one.complete)")
    page.wait_for_timeout(500)  # the page scrolls to the turn once more when its height is known
    page.screenshot(path=out)
    print(f"{out}: {out.stat().st_size // 1000} kB")


def main() -> None:
    """Play both runs and write both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--runs", type=Path, help="folder that keeps the runs; left out, they are deleted")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        shown = []
        for run in [asyncio.run(played_run(folder, name)) for name in ENVIRONMENTS]:
            file = write_html([RunFolder(run)], run / "report" / "run.html", PARTS).path
            shown.append((file, solved_turn(run), asked.out / f"viewer_{run.name}.png"))
        with opened_page() as page:
            for file, route, out in shown:
                picture(page, file, route, out)


if __name__ == "__main__":
    main()
