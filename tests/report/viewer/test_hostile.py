"""What a model or an environment wrote is text on the page, whatever it is; nothing of it is executed.

1. The policy of the page allows the one program by its hash: no eval, no inline handler, no request.
2. Script tags, closing tags, control and direction marks, NUL, lone surrogates and a line of a million characters are
   shown as ``turngate show`` shows them, as the names of tasks, episodes, tools, hints and evidence too.
"""

from pathlib import Path

from tests.helpers.command_line import turngate
from tests.helpers.viewed_runs import HOSTILE, hostile_groups, recorded
from tests.report.viewer.conftest import Watched
from turngate.report.episode_words import literal
from turngate.report.viewer.assets import assets


def test_the_policy_allows_one_program_and_no_request():
    for carrier, asked in (("file", "'none'"), ("server", "'self'")):
        page = assets(carrier)
        rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
        assert rules["default-src"] == "'none'"
        assert rules["connect-src"] == asked
        assert rules["script-src"].startswith("'sha256-")
        assert " " not in rules["script-src"]
        assert rules["style-src"].startswith("'sha256-")
        assert " " not in rules["style-src"]
        assert "unsafe" not in page.policy
        assert page.policy in page.head
        assert page.program.count("</script") == page.program.count("<script") == 1
        assert "http://" not in page.program.replace("http://www.w3.org/", "")


def test_hostile_texts_are_shown_and_not_executed(watched: Watched, tmp_path: Path):
    run = recorded(tmp_path, hostile_groups())
    assert turngate("report", "--html", run) == 0
    file = run / "report" / "run.html"
    text = file.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script")
    assert all(one not in text for one in ("window.taken", "onerror"))
    watched.open(file.as_uri())
    page = watched.page
    for route in ("#/run/made", "#/run/made/step/1/train", "#/run/made/find"):
        watched.go(route)
    for number, one in enumerate(HOSTILE):
        watched.go("#/run/made/step/1/train")
        page.click(f"article:nth-of-type({number + 1}) .chip >> nth=0")
        page.wait_for_selector("#turn-1")
        shown = page.eval_on_selector("main", "main => main.textContent")
        assert shown.count(literal(one)) >= 5, one
        page.click("main a[href*='/task/']")
        page.wait_for_function("() => document.querySelector('h1').textContent.startsWith('Task')")
        assert literal(one) in page.inner_text("h1").replace("\xa0", " ")
    watched.go("#/run/made/find")
    page.fill("input[name=text]", "<script>window")
    page.click("text=search texts")
    page.wait_for_selector("text=is in 2 episodes")
    assert page.evaluate("window.taken") is None
    assert page.query_selector("main script, main img, main b") is None
    assert watched.complaints == []
    assert watched.asked == [file.as_uri()]


def test_a_long_line_is_cut_until_it_is_asked_for(watched: Watched, tmp_path: Path):
    run = recorded(tmp_path, hostile_groups()[:1])
    assert turngate("report", "--html", run) == 0
    watched.open((run / "report" / "run.html").as_uri())
    watched.go("#/run/made/step/1/train")
    watched.page.click(".chip >> nth=0")
    watched.page.wait_for_selector("#turn-1 button")
    length = "document.querySelector('#turn-1 .wrote pre').textContent.length"
    assert watched.page.evaluate(length) == 4000
    watched.page.click("text=show all 1,000,000 characters >> nth=0")
    watched.page.wait_for_function(f"() => {length} === 1000000")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 1280
