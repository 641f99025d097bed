"""What is seen is a function of sites, seed and actions: no wall clock, no chance, no other process's state."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.envs.web.engine.pages import HOST, Pages, click, ref, texts
from turngate.envs.web.engine.browser import Browser

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[4]
MEASURES = """
    <p id=o></p><button onclick="
      const bytes = crypto.getRandomValues(new Uint8Array(4));
      o.textContent = [Math.random(), Date.now(), new Date().toISOString(), performance.now(), bytes.join(),
        new Intl.DateTimeFormat().format(), navigator.language, innerWidth, devicePixelRatio, event.timeStamp,
        new Date().getTimezoneOffset(), self.crypto.randomUUID?.() ?? ''].join(' ');
    ">Measure</button><a href="/next">Next</a>
    <p id=t></p><script>let n = 0; setInterval(() => t.textContent = `ticks ${++n}`, 30);
    requestAnimationFrame(function f() { t.title = performance.now(); requestAnimationFrame(f); })</script>
"""


def play(session):
    """A short episode: what it saw, as text."""
    seen = []
    session.open(f"http://{HOST}/")
    for action in ("Measure", "Measure", "Next", "Measure"):
        click(session, action)
        view = session.observe()
        seen.append([view.url, view.outline(), view.dom_key, session.time_ms])
    session.wait(250)
    seen += [texts(session), hashlib.sha256(session.screenshot()).hexdigest()]
    return seen


def site():
    return Pages({"/": MEASURES, "/next": MEASURES})


def played(browser, seed=7):
    with browser.lease(seed=seed, sites={HOST: site()}) as session:
        return play(session)


def test_three_runs_two_processes_and_a_page_used_again_are_equal(browser):
    first = played(browser)
    assert played(browser) == first
    with browser.lease(seed=1, sites={HOST: site()}) as session:
        other = play(session)
        assert session.reset(seed=7)  # nothing was left, so the page is used again
        assert play(session) == first
    assert other[0] != first[0]
    program = f"import json; from {__name__} import played; from {Browser.__module__} import Browser; b = Browser()"
    program += "; print(json.dumps(played(b))); b.close()"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "5",
        "TZ": "Asia/Tokyo",
        "LANG": "de_DE.UTF-8",
    }
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == first


def test_time_moves_by_actions_only(show):
    session = show("<p id=o></p><script>setInterval(() => o.textContent = Date.now() - 1767225600000, 10)</script>")
    before = texts(session)
    assert texts(session) == before
    session.wait(1000)
    assert session.evaluate("+document.getElementById('o').textContent") == 1100


def test_timers_run_in_order_and_promises_between_them(show):
    session = show("""<p id=o></p><button onclick="
        let s = []; let say = (x) => { s.push(x); o.textContent = s.join(); };
        setTimeout(() => say('c'), 30); setTimeout(() => { say('a'); Promise.resolve().then(() => say('p')); }, 10);
        setTimeout(() => say('b'), 20); clearTimeout(setTimeout(() => say('x'), 15)); setTimeout('1', 5);
        setTimeout(() => say('late'), 500);">Go</button>""")
    click(session, "Go")
    assert session.evaluate("document.getElementById('o').textContent") == "a,p,b,c"
    session.wait(400)
    assert session.evaluate("document.getElementById('o').textContent") == "a,p,b,c,late"


SHOP = '<p id=o></p><input aria-label=Q><button onclick="{}">Go</button>'


@pytest.mark.parametrize(
    "script",
    [
        "localStorage.a = 1", "sessionStorage.a = 1", "document.cookie = 'a=1'", "indexedDB.open('a')",
        "window.name = 'a'", "alert(1)", "window.open('/')", "location.href = 'http://other.test/'",
    ],
)  # fmt: skip
def test_a_page_that_left_something_behind_is_thrown_away(show, script):
    session = show(SHOP.format(script))
    click(session, "Go")
    assert session.reset(seed=1) is False
    session.open(f"http://{HOST}/")
    kept = session.storage()
    assert (kept.cookies, kept.local, kept.session, kept.databases, len(session.tabs)) == ((), {}, {}, (), 1)
    assert (session.requests()[0].url, session.dialogs()) == (f"http://{HOST}/", ())


def test_a_page_used_again_has_no_past(show):
    session = show({"/": SHOP.format("location.href = '/b'"), "/b": "<p>there"})
    session.fill(ref(session, "Q"), "secret")
    click(session, "Go")
    assert session.reset(seed=1) is True
    session.open(f"http://{HOST}/")
    assert "secret" not in texts(session)
    assert session.evaluate("history.length") <= 2
    with pytest.raises(Exception, match="no page before"):
        session.back()
    assert next(session.observe().elements()).ref == "e1"
