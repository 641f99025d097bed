"""What changed between observations, in a real browser.

1. The difference of two lists is one: without what is gone it is the second, without what is new the first, and nothing
   longer stays than a longest common subsequence (dynamic programming in Python).
2. An episode shows lines that are new, gone and changed, and folds many that are gone.
3. An image that was seen is drawn in its own size, with a ring where the action pointed.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

from benchmarks.viewer_figures import played_shop
from tests.helpers.viewed_runs import episode, group, recorded, turn
from tests.report.viewer.conftest import Watched
from turngate.cli.view_runs import PARTS
from turngate.envs.web.engine.install import executable
from turngate.report.screenshots import pointed_at
from turngate.report.viewer.assets import HERE
from turngate.report.viewer.html_file import write_html
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Task

PROGRAM = (HERE / "page" / "diff.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def seen_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group that was played in the shop with an image of each page."""
    return asyncio.run(played_shop(tmp_path_factory.mktemp("seen")))


@pytest.fixture(scope="module")
def browser(seen_run: Path) -> Iterator[Browser]:
    """After the run, which needs an event loop of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(playwright), args=["--no-sandbox"])
        yield browser
        browser.close()


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of a longest common subsequence, row by row."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = row
        row = [0]
        for at, other in enumerate(b, 1):
            row.append(before[at - 1] + 1 if one == other else max(before[at], row[-1]))
    return row[-1]


def test_a_difference_keeps_a_longest_common_subsequence(browser: Browser):
    rng = np.random.default_rng(1)
    pairs = [[list(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(2)] for _ in range(300)]
    pairs += [[[], []], [["a"], ["a"]], [list("abc"), list("abc")]]
    page = browser.new_page()
    found = page.evaluate(
        "([program, pairs]) => { const difference = new Function(program + '; return difference')();"
        "return pairs.map(([a, b]) => difference(a, b)); }",
        [PROGRAM, [[[str(part) for part in side] for side in pair] for pair in pairs]],
    )
    page.close()
    for (a, b), runs in zip(pairs, found, strict=True):
        parts = [(kind, part) for kind, own in runs for part in own]
        assert [part for kind, part in parts if kind != "new"] == a
        assert [part for kind, part in parts if kind != "gone"] == b
        assert sum(kind == "same" for kind, _ in parts) == longest_common(a, b)


def test_texts_that_are_too_large_to_compare_have_no_difference(browser: Browser):
    page = browser.new_page()
    found = page.evaluate(
        "program => { const difference = new Function(program + '; return difference')();"
        "const lines = (letter) => [...Array(1100).keys()].map((i) => letter + i);"
        "return [difference(lines('a'), lines('b')), difference(lines('a'), [...lines('a'), 'end']).length]; }",
        PROGRAM,
    )
    page.close()
    assert found == [None, 2]


FIRST = "Cart\nbread 2 at 3.50\nmilk\ntotal 3.50\nhelp"
OBSERVED = (
    FIRST,
    FIRST.replace("bread 2", "bread 4").replace("milk\n", ""),
    "Paid.\n\nhelp\n" + "\n".join(f"line {i} of a receipt" for i in range(9)),
    "Paid.\n\nhelp\nThanks.",
    "Something else",
    "Something else",
)


def test_an_episode_shows_what_is_new_gone_and_changed(watched: Watched, tmp_path: Path):
    task = Task(id="cart", env_id="turngate/Lock-v1", prompt="Pay.")
    turns = tuple(turn("go", seen) for seen in OBSERVED)
    run = recorded(tmp_path, [group(task, [episode("cart#0", task, turns), episode("cart#1", task, turns[1:])])])
    watched.page.set_viewport_size({"width": 1280, "height": 6000})  # so that every turn is near the window
    watched.open(write_html([RunFolder(run)], tmp_path / "page.html", PARTS).path.as_uri())
    watched.go("#/run/made/episode/cart%230")
    watched.page.wait_for_function("() => document.querySelectorAll('.turn:not(:has(h4))').length === 0")

    def seen(at: int) -> tuple[list[str], list[str], str, str]:
        text = f"#turn-{at} .columns > div > .text >> nth=0"
        marks = [watched.page.locator(text).locator(kind).all_inner_texts() for kind in ("ins", "del")]
        told = watched.page.locator(text).locator("p.dim").all_inner_texts()
        return marks[0], marks[1], watched.page.locator(text).locator("pre").inner_text(), "".join(told)

    assert seen(0) == ([], [], FIRST, "")
    new, gone, text, told = seen(1)
    assert (new, gone) == (["4"], ["2", "milk"])
    assert text == "Cart\nbread 24 at 3.50\nmilk\ntotal 3.50\nhelp"
    assert told == "1 line gone, 1 changed since the observation before"
    assert seen(2)[3].startswith("10 lines new, ")
    new, gone, text, told = seen(3)
    assert (new, gone) == (["Thanks."], [])
    assert text == "Paid.\n\nhelp\nshow 9 lines that are gone\nThanks."
    assert told == "1 line new, 9 gone since the observation before"
    watched.page.click("#turn-3 pre button")
    assert seen(3)[1] == [f"line {i} of a receipt" for i in range(9)]
    assert seen(4) == ([], [], "Something else", "nothing in common with the observation before")
    assert seen(5) == ([], [], "Something else", "as the observation before")
    watched.go("#/beside/made/cart%230/made/cart%231")
    watched.page.wait_for_function("() => document.querySelectorAll('.turn:not(:has(h4))').length === 0")
    assert "1 line gone, 1 changed since what is seen on the left" in watched.text()
    assert watched.complaints == []


RING = """turn => {
  const image = turn.querySelector('.shot img'), ring = turn.querySelector('.ring');
  const middle = (one) => {
    const box = one.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const box = image.getBoundingClientRect(), scale = image.naturalWidth / box.width;
  const place = ring && middle(ring);
  return [[image.naturalWidth, image.naturalHeight], place && [(place[0] - box.x) * scale, (place[1] - box.y) * scale]];
}"""


def test_an_image_that_was_seen_is_drawn_with_a_ring_where_the_action_pointed(
    seen_run: Path, watched: Watched, tmp_path: Path
):
    watched.page.set_viewport_size({"width": 1280, "height": 9000})  # so that every turn is near the window
    file = write_html([RunFolder(seen_run)], tmp_path / "page.html", PARTS).path
    watched.open(file.as_uri())
    (played,) = Store(seen_run).read(1, "train")
    shown = max(played.trajectories, key=lambda one: len(one.turns))
    watched.go(f"#/run/shop/episode/{quote(shown.id, safe='')}")
    watched.page.wait_for_function("() => document.querySelectorAll('.turn:not(:has(h4))').length === 0")
    watched.page.wait_for_function("() => [...document.images].every((one) => one.complete && one.naturalWidth)")
    places = [pointed_at(shown, index) for index in range(len(shown.turns))]
    assert None in places
    assert len([place for place in places if place]) > 2
    for index, place in enumerate(places):
        size, ring = watched.page.eval_on_selector(f"#turn-{index}", RING)
        (image,) = shown.turns[index].observation.images
        assert size == list(struct.unpack(">II", image[16:24]))  # width and height in the header of a PNG
        assert (ring is None) == (place is None)
        assert place is None or ring == pytest.approx(place, abs=1.5)
    assert watched.complaints == []
    assert watched.asked[0] == file.as_uri()
    assert all(address.startswith("data:image/png") for address in watched.asked[1:])
