"""The page of a real run in a real browser.

1. Every link of every page leads to a page; nothing is asked of anybody and nothing is complained of.
2. It says of an episode what ``turngate show`` prints.
3. axe-core finds nothing serious: light and dark, wide and narrow; nothing is wider than the window.
4. The keys: j, k, Enter, ], u, / and ?.
5. The five questions of docs/viewer.md are answered by clicking alone.
6. Above a size the turns are a sample, the same each time, with those that alarms name; every row stays.
"""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, TimeoutError

from tests.helpers.command_line import turngate
from tests.helpers.viewed_runs import many_groups, recorded
from tests.report.viewer.conftest import Watched
from turngate.cli.view_runs import PARTS
from turngate.report.viewer.html_file import write_html
from turngate.store.folder import RunFolder

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SERIOUS = ("serious", "critical")


def data(file: Path, name: str):
    """What an element of the file holds."""
    found = re.search(rf'<script type="application/gzip" id="{re.escape(name)}">([^<]*)</script>', file.read_text())
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def rows_of(record) -> list[dict]:
    columns = record["rows"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_every_link_leads_to_a_page_and_nothing_is_asked_of_anybody(watched: Watched, page_file: Path):
    watched.open(page_file.as_uri())
    waiting, seen, kinds = ["#/"], {"#/"}, set()
    while waiting:
        route = waiting.pop()
        watched.go(route)
        assert watched.page.inner_text("h1") != "Not here", route
        assert not watched.page.query_selector("[role=alert]"), watched.text()
        kinds.add(re.sub(r"%[0-9A-F]{2}|[^a-z/]", "", "/".join(route.split("/")[:2] + route.split("/")[3:4])))
        for link in sorted(watched.links()):
            place = re.sub(r"/turn/\d+$", "/turn", link)  # the first of an episode's turns; the others are on its page
            if place not in seen:
                seen.add(place)
                waiting.append(link)
    assert {"/run/", "/run/step", "/run/episode", "/run/task", "/run/find"} <= kinds | {f"{kind}/" for kind in kinds}
    assert any(route.startswith("#/compare/") for route in seen)
    assert any(route.startswith("#/beside/") for route in seen)
    assert watched.complaints == []
    assert watched.asked == [page_file.as_uri()]


def test_an_episode_says_what_show_prints(
    watched: Watched, page_file: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
):
    watched.page.set_viewport_size({"width": 1280, "height": 6000})  # so that every turn is near the window
    watched.open(page_file.as_uri())
    rows = [row for row in rows_of(data(page_file, "r-0")) if row["phase"] in ("train", "unused")]
    helped = [row for row in rows if row["help"]][:1]
    assert helped
    for row in [*rows[:2], *helped]:
        capsys.readouterr()
        assert turngate("show", runs[0], "--trajectory", row["id"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        watched.go(f"#/run/hinted/episode/{row['id'].replace('/', '%2F').replace('#', '%23')}")
        group = data(page_file, f"g-0-{row['group'].replace('/', '_')}")
        (episode,) = [one for one in group["episodes"] if one["id"] == row["id"]]
        watched.page.wait_for_function("() => document.querySelectorAll('.turn:not(:has(h4))').length === 0")
        shown = " ".join(watched.text().split())
        said = [episode["total"], episode["end"], *episode["notes"]]
        for turn in episode["turns"]:
            said += [turn["written"], *(words for words, _ in turn["facts"]), *(e["words"] for e in turn["ledger"])]
            said += [turn["hint"][0]] if turn["hint"] else []
            assert all(" ".join(words.split()) in printed for *_, words in turn["terms"])
        for words in said:
            assert " ".join(words.split()) in printed, words
            assert " ".join(words.split()) in shown, words


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(browser: Browser, page_file: Path, scheme, width):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    found = Watched(context.new_page())
    found.open(page_file.as_uri())
    record = data(page_file, "r-0")
    row = next(one for one in rows_of(record) if one["help"])
    own = row["id"].replace("/", "%2F").replace("#", "%23")
    other = next(one["id"] for one in rows_of(record) if one["group"] == row["group"] and one["id"] != row["id"])
    beside = other.replace("/", "%2F").replace("#", "%23")
    task = row["task"].replace("/", "%2F")
    step = f"#/run/hinted/step/{row['step']}/{row['phase']}"
    routes = ["#/", "#/run/hinted", step, f"#/run/hinted/episode/{own}", f"#/run/hinted/task/{task}"]
    routes += ["#/run/hinted/find", "#/compare/hinted/branched", f"#/beside/hinted/{own}/hinted/{beside}"]
    found.page.evaluate(AXE)
    for route in routes:
        found.go(route)
        if "/episode/" in route:
            found.page.select_option("label:has-text('shade') select", "surprise")
        told, n_rules = found.page.evaluate(
            "async () => axe.run(document).then((r) => [r.violations, r.passes.length])"
        )
        assert n_rules > 10
        assert [(route, one["id"], one["nodes"][0]["html"]) for one in told if one["impact"] in SERIOUS] == []
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width, route
    context.close()


def test_keys_move_open_and_find(watched: Watched, page_file: Path):
    watched.open(page_file.as_uri())
    watched.go("#/run/hinted/step/1/train")
    watched.page.wait_for_selector("article")
    watched.painted()  # a page listens to keys once it has been painted
    keyboard = watched.page.keyboard
    keyboard.press("Enter")
    watched.page.wait_for_selector("h1.id")
    watched.painted()
    first = watched.page.url
    keyboard.press("]")
    watched.page.wait_for_function("old => location.href !== old", arg=first)
    watched.page.wait_for_selector("#turn-0")
    watched.painted()
    keyboard.press("j")
    watched.page.wait_for_selector("#turn-0.at")
    keyboard.press("j")
    watched.page.wait_for_selector("#turn-1.at")
    keyboard.press("k")
    watched.page.wait_for_selector("#turn-0.at")
    keyboard.press("u")
    watched.page.wait_for_function("() => document.querySelector('h1').textContent.startsWith('Step 1')")
    watched.painted()
    keyboard.press("?")
    assert "next and previous" in watched.page.inner_text("dialog")
    watched.painted()  # a dialog listens to keys once it has been painted
    keyboard.press("Escape")
    watched.page.wait_for_function("() => !document.querySelector('dialog[open]')")
    watched.painted()  # keys mean nothing while the dialog is there
    for _ in range(10):  # a key that comes between two paints is lost, for a reader too, who then presses it again
        keyboard.press("/")
        try:
            watched.page.wait_for_function("() => document.activeElement.id === 'search'", timeout=2500)
            break
        except TimeoutError:
            continue
    keyboard.type("heldout")
    watched.page.wait_for_function("() => /^(12|6) episodes of/.test(document.getElementById('found').textContent)")
    assert watched.complaints == []


def click(watched: Watched, selector: str) -> None:
    watched.page.click(selector)
    watched.painted()
    watched.drawn()


def test_five_questions_are_answered_by_clicking(watched: Watched, page_file: Path):
    page = watched.page
    watched.open(page_file.as_uri())
    click(watched, "main a[href='#/run/hinted']")
    click(watched, "text=step 1, train")
    # 1: why was this episode not paid?
    click(watched, ".chip.not-solved >> nth=0")
    page.wait_for_selector("#turn-0")
    assert "needs_outcome" in page.inner_text("[aria-label='what was earned and paid']")
    # 2: which turn earned it?
    click(watched, ".timeline a >> nth=1")
    page.wait_for_selector("#turn-1.at")
    assert "credit" in page.inner_text("#turn-1")
    assert "episodes" in page.inner_text("#turn-1 table")
    # 3: where did the hint go?
    page.wait_for_timeout(300)  # the page scrolls to the turn once more when its height is known
    click(watched, "nav >> text=find")
    page.select_option("label:has-text('help') select", "with help")
    page.wait_for_function("() => !location.href.includes('help') || document.querySelectorAll('tbody a').length")
    click(watched, "tbody tr >> nth=0 >> a[href*='/episode/']")
    page.wait_for_selector("p.hint")
    assert "stripped from the context that is learned from" in page.inner_text("p.hint")
    click(watched, "p.hint a >> nth=0")
    page.wait_for_selector(".turn.at .hint")
    assert "level" in page.inner_text(".turn.at .hint")
    # 4: what did the policy do worse than last week?
    click(watched, "nav >> text=compare")
    page.wait_for_selector("text=Who wins where")
    click(watched, "text=next to each other >> nth=0")
    page.wait_for_selector("text=turn by turn")
    assert "differ" in page.inner_text("strong")
    # 5: which alarm is real?
    click(watched, "text=turngate")
    click(watched, "main a[href='#/run/hinted']")
    page.wait_for_selector("#alarms")
    if page.query_selector(".alarms"):
        click(watched, ".alarms summary >> nth=0")
        assert page.inner_text(".alarms dl")
    assert watched.complaints == []


def test_a_large_run_keeps_every_row_and_a_sample_of_the_turns(watched: Watched, tmp_path: Path):
    run = recorded(tmp_path, many_groups(12, turns=3, siblings=2))
    (run / "alarms.jsonl").write_text(
        json.dumps(
            {
                "step": 1,
                "name": "tampering",
                "severity": "warning",
                "sentence": "look",
                "evidence": {"trajectories": ["task/7#1"], "limit": 0},
            }
        )
        + "\n"
    )
    whole = write_html([RunFolder(run)], tmp_path / "whole.html", PARTS)
    least = write_html([RunFolder(run)], tmp_path / "least.html", PARTS, most=6000)
    assert (whole.kept, whole.groups) == (12, 12)
    assert 1 <= least.kept < 12
    assert least.groups == 12
    again = write_html([RunFolder(run)], tmp_path / "again.html", PARTS, most=6000)
    assert again.path.read_bytes() == least.path.read_bytes()
    watched.open(least.path.as_uri())
    watched.go("#/run/made/find")
    assert f"the turns of {least.kept} of 12 groups" in watched.text()
    assert "24 episodes of 24" in watched.text()
    watched.go("#/run/made/episode/task%2F7%231")  # an alarm names it, so it stays
    watched.page.wait_for_selector("#turn-2")
    held = {
        row["group"]
        for row in rows_of(data(least.path, "r-0"))
        if f'id="g-0-{row["group"].replace("/", "_")}"' in least.path.read_text()
    }
    gone = next(row for row in rows_of(data(least.path, "r-0")) if row["group"] not in held)
    watched.go(f"#/run/made/episode/{gone['id'].replace('/', '%2F').replace('#', '%23')}")
    assert "not in this file" in watched.text()
    assert watched.complaints == []


def test_the_package_holds_the_page_and_its_licences():
    from importlib.resources import files

    vendor = files("turngate.report.viewer") / "vendor"
    names = {one.name for one in vendor.iterdir()}
    assert {"LICENSE-preact.txt", "LICENSE-htm.txt", "LICENSE-uplot.txt", "VERSIONS.txt"} <= names
    told = (vendor / "VERSIONS.txt").read_text()
    assert all(name in told for name in names if name.endswith((".js", ".css")))
    assert sum(len(one.read_bytes()) for one in vendor.iterdir() if one.name.endswith((".js", ".css"))) < 80_000
