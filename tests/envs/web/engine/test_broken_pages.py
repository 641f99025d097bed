"""Pages that crash, hang or flood: each ends within its deadline, and with the right one to blame."""

import os
import signal
import subprocess
import time

import pytest

from tests.envs.web.engine.pages import HOST, Pages, click, redirect, ref, texts
from turngate.envs.web.engine.page_problems import BrowserLost, PageDied, PageProblem
from turngate.envs.web.engine.settings import Limits, PageSettings
from turngate.envs.web.engine.site_handler import SiteResponse
from turngate.errors import AgentFault, EnvError

pytestmark = pytest.mark.component
SHORT = PageSettings(limits=Limits(action_s=8.0, load_s=3.0))


def button(script):
    return f'<button onclick="{script}">Go</button><p>still here'


def processes(pid, kind):
    """Chromium's processes of a kind (``--type=``; empty: the browser itself) that descend from ``pid``."""
    table = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    parents, kinds = {}, {}
    for line in table.splitlines()[1:]:
        number, parent, args = line.split(None, 2)
        parents[int(number)] = int(parent)
        kinds[int(number)] = args.partition("--type=")[2].split(" ")[0] if "chrom" in args.split(" ")[0] else None
    mine, found = {pid}, set()
    while mine != found:
        found = set(mine)
        mine |= {number for number, parent in parents.items() if parent in found}
    return [number for number in mine if kinds[number] == kind]


def crash(session):
    """What ``chrome://crash`` does."""

    async def work(tab):
        await tab.cdp.send("Page.crash")

    session._act(work)


def look_for(session, seconds):
    """Look again and again."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        session.observe()


def still_works(browser):
    """Another episode in the same browser object."""
    with browser.lease(seed=0, sites={HOST: Pages("<p>well")}) as session:
        session.open(f"http://{HOST}/")
        assert "well" in texts(session)


def test_a_script_without_end_is_the_pages_doing(browser, show):
    session = show(button("while(true);"), settings=SHORT)
    with pytest.raises(PageDied, match="does not end") as caught:
        click(session, "Go")
    assert caught.value.reason == "hang"
    assert isinstance(caught.value, AgentFault)
    with pytest.raises(PageDied):
        session.observe()
    session.close()
    still_works(browser)


def test_a_page_that_crashes_is_the_pages_doing(browser, show):
    session = show(button(""))
    with pytest.raises(PageDied, match="crashed") as caught:
        crash(session)
    assert caught.value.reason == "crash"
    assert session.reset(seed=1) is False
    session.open(f"http://{HOST}/")
    assert "still here" in texts(session)


def test_a_page_that_takes_all_memory_is_the_pages_doing(show):
    session = show(button("let a = []; while (true) a.push(new Array(1e6).fill({}))"))
    with pytest.raises(PageDied):
        click(session, "Go")


def test_a_renderer_killed_from_outside_is_not(browser, show):
    session = show(button(""))
    for pid in processes(os.getpid(), "renderer"):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(BrowserLost, match="killed from outside") as caught:
        look_for(session, seconds=5)
    assert isinstance(caught.value, EnvError)
    still_works(browser)


def test_a_killed_browser_is_not_and_the_next_lease_has_another(browser, show):
    session = show(button(""))
    (pid,) = processes(os.getpid(), "")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BrowserLost):
        look_for(session, seconds=5)
    session.close()
    still_works(browser)


def test_alerts_without_end_are_the_pages_doing(show):
    session = show(button("while(true) alert(1)"))
    with pytest.raises(PageDied, match="more than 30 dialogs") as caught:
        click(session, "Go")
    assert caught.value.reason == "dialogs"
    assert len(session.dialogs()) == 31


def test_dialogs_are_answered_and_recorded(show):
    page = button("document.title = [alert('a'), confirm('b'), prompt('c', 'd')].join()")
    assert show(page).observe().title == ""
    session = show(page)
    click(session, "Go")
    assert session.observe().title == ",true,"
    assert [(one.kind, one.message, one.accepted) for one in session.dialogs()] == [
        ("alert", "a", True), ("confirm", "b", True), ("prompt", "c", True)]  # fmt: skip
    session = show(page, settings=PageSettings(dialogs="dismiss"))
    click(session, "Go")
    assert session.observe().title == ",false,"


def test_a_page_that_holds_on_to_its_visitor_can_be_left(show):
    session = show({"/": button("window.onbeforeunload = (e) => e.preventDefault()"), "/b": "<p>left"})
    click(session, "Go")
    session.goto(f"http://{HOST}/b")
    assert "left" in texts(session)


def test_a_page_of_50_mb_is_shown_in_part(show):
    lines, hidden = "<p>line</p>" * 3_000, "<p hidden>" + "words that nobody sees " * 2_300_000
    session = show(f"<p>start{lines}{hidden}", settings=PageSettings(limits=Limits(action_s=60.0)))
    view = session.observe()
    assert view.truncated
    assert "start" in view.outline()
    assert len(view.dom) <= Limits().dom_chars
    assert len(list(view.elements())) <= Limits().elements


def test_a_redirect_loop_is_a_problem_and_the_session_goes_on(show):
    session = show({"/": "<p>home", "/loop": redirect("/loop")})
    with pytest.raises(PageProblem, match="redirects without end"):
        session.goto(f"http://{HOST}/loop")
    session.goto(f"http://{HOST}/")
    assert "home" in texts(session)


def test_a_page_that_navigates_itself_without_end_is_its_own_doing(show):
    session = show(
        {"/": '<a href="/self">Go</a>', "/self": "<p>x<script>location.href = '/self?' + Math.random()</script>"}
    )
    with pytest.raises(PageDied, match="without end") as caught:
        click(session, "Go")
    assert caught.value.reason == "navigations"


def test_a_storm_of_popups_is_bounded(show):
    """A click opens one window, as in a person's browser; windows beyond the limit are closed at once."""
    storm = "for (let i = 0; i < 200; i++) window.open('/', '_blank')"
    session = show(button(storm), settings=PageSettings(limits=Limits(tabs=3)))
    click(session, "Go")
    assert len(session.tabs) == 2
    for _ in range(3):
        session.switch_tab(0)
        click(session, "Go")
    assert len(session.tabs) == 3
    assert [one.kind for one in session.happenings()] == ["popup"] * 2
    session.switch_tab(0)
    assert "still here" in texts(session)


def test_a_popup_is_a_tab_and_closes_itself(show):
    session = show({"/": '<a href="/b" target="_blank">Go</a>', "/b": button("window.close()")})
    click(session, "Go")
    assert [(tab.url.rpartition("/")[2], tab.current) for tab in session.tabs] == [("", False), ("b", True)]
    click(session, "Go")
    assert [tab.current for tab in session.tabs] == [True]


def test_a_window_that_closes_itself_leaves_a_blank_tab(show):
    session = show("<button onclick=\"open('', '_self'); window.close()\">Go</button>")
    click(session, "Go")
    session.evaluate("1")
    assert len(session.tabs) == 1


def test_a_file_chooser_stays_empty_and_is_recorded(show):
    session = show("<input type=file aria-label=File>")
    session.click_on(ref(session, "File"))
    assert [one.kind for one in session.happenings()] == ["filechooser"]
    assert session.evaluate("document.querySelector('input').files.length") == 0


def test_a_download_is_cancelled_and_recorded(show):
    file = SiteResponse(headers={"content-type": "application/zip", "content-disposition": "attachment"}, body=b"zip")
    session = show({"/": '<a href="/file.zip">Get</a><p>still here', "/file.zip": file})
    click(session, "Get")
    (download,) = session.happenings()
    assert (download.kind, "file.zip" in download.detail) == ("download", True)
    assert "still here" in texts(session)


def test_service_workers_and_printing_do_nothing(show):
    page = button("print(); navigator.serviceWorker ? 0 : 0; document.title = 'done'")
    session = show({"/": page, "/sw.js": SiteResponse(headers={"content-type": "text/javascript"})})
    click(session, "Go")
    assert session.observe().title == "done"
    code = "navigator.serviceWorker?.register('/sw.js').then(() => 1, () => 0)"
    session.evaluate(code, own_world=False)
    assert session.evaluate("navigator.serviceWorker?.controller ?? null") is None


def test_a_server_that_hangs_is_given_up(show):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        session = show(button(f"fetch('http://{host}/').catch(() => 0)"), allowed=[host], settings=SHORT)
        start_s = time.monotonic()
        with pytest.raises(PageProblem, match="did not answer within 3 s"):
            session.goto(f"http://{host}/")
        session.open(f"http://{HOST}/")
        click(session, "Go")
        assert "still here" in texts(session)
        assert time.monotonic() - start_s < 30


def test_a_site_that_raises_is_not_the_pages_doing(show):
    def broken(request):
        raise KeyError("table")

    session = show({"/": '<a href="/b">Go</a>', "/b": broken})
    with pytest.raises(EnvError, match="raised KeyError"):
        click(session, "Go")
