"""Sessions end, the browser ends, and nothing of them is left; also when this process is killed."""

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.envs.web.engine.pages import HOST, Pages, texts
from turngate.envs.web.engine.browser import Browser, shared
from turngate.envs.web.engine.install import NAMES, executable
from turngate.envs.web.engine.page_problems import BrowserLost
from turngate.errors import ConfigError

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[4]


def until(condition, seconds=60):
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.05)


def lease(browser, **options):
    session = browser.lease(seed=0, sites={HOST: Pages("<p>well")}, **options)
    session.open(f"http://{HOST}/")
    return session


def contexts(session):
    """How many contexts the browser has, as Playwright counts them."""
    return len(session._driver.chromium.contexts)


def test_many_threads_share_one_browser(browser):
    said = []

    def play():
        with lease(browser) as session:
            said.append(texts(session))

    threads = [threading.Thread(target=play) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [text.count("well") for text in said] == [1] * 4
    assert browser.leased == 0


def test_a_session_whose_owner_is_gone_is_closed(browser):
    with lease(browser) as last:
        before = contexts(last)

        def forget():
            lost = lease(browser)
            assert contexts(last) == before + 1
            del lost

        thread = threading.Thread(target=forget)
        thread.start()
        thread.join(60)
        gc.collect()
        until(lambda: contexts(last) == before and browser.leased == 1)


def test_a_lease_ends_with_its_time(browser):
    session = lease(browser, limit_s=3.0)
    until(lambda: browser.leased == 0)
    with pytest.raises(BrowserLost, match=r"closed|leased for 3 s"):
        session.observe()
    session.close()


def test_sessions_do_not_share_what_pages_store(browser):
    with lease(browser) as one, lease(browser) as other:
        one.evaluate("(document.cookie = 'a=1', localStorage.b = 2)")
        assert [cookie["name"] for cookie in one.storage().cookies] == ["a"]
        assert (other.storage().cookies, other.storage().local) == ((), {})


CHILD = """
    import os, sys, time
    from tests.envs.web.engine.pages import HOST, Pages
    from turngate.envs.web.engine.browser import shared

    session = shared().lease(seed=0, sites={HOST: Pages("<p>well")})
    session.open(f"http://{HOST}/")
    print(session._driver._loop.folder, session._driver._loop.driver.get_pid(), flush=True)
    ENDING
"""


def child(ending):
    program = textwrap.dedent(CHILD).replace("ENDING", ending)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


def left_of(folder):
    """Processes that name the folder of a browser in their command."""
    table = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in table.splitlines() if folder in line and "ps -eo" not in line]


@pytest.mark.parametrize(
    ("ending", "killed"),
    [
        ("", ()),
        ("os._exit(0)", ()),
        ("time.sleep(600)", ("process",)),
        ("time.sleep(600)", ("driver",)),
        ("time.sleep(600)", ("process", "driver")),
    ],
    ids=["returns", "exits at once", "killed", "driver killed", "both killed"],
)
def test_nothing_is_left_of_a_process(ending, killed):
    process = child(ending)
    folder, driver = process.stdout.readline().split()
    assert re.search(r"turngate-web-\w+$", folder)
    assert Path(folder, "profile").exists() or ending == ""
    pids = {"process": process.pid, "driver": int(driver)}
    for name in killed:
        os.kill(pids[name], signal.SIGKILL)
    until(lambda: not left_of(folder) and not os.path.exists(folder))
    if process.poll() is None and "process" not in killed and killed:
        process.kill()
    process.wait(60)
    process.stdout.close()


def test_a_forked_process_has_its_own_browser_and_does_not_keep_ours_alive(tmp_path):
    over = tmp_path / "over"
    ending = """
    pid = os.fork()
    if pid == 0:
        try:
            session.observe()
        except Exception as error:
            print(type(error).__name__, flush=True)
        own = shared().lease(seed=0, sites={HOST: Pages("<p>mine")})
        own.open(f"http://{HOST}/")
        print(own.observe().outline().count("mine"), own._driver._loop.folder, flush=True)
        shared().close()
        while not os.path.exists(OVER):
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(pid, os.WNOHANG)
    time.sleep(600)
    """
    process = child(textwrap.dedent(ending).replace("OVER", repr(str(over))))
    folder, _ = process.stdout.readline().split()
    assert process.stdout.readline().strip() == "BrowserLost"
    count, other = process.stdout.readline().split()
    assert (count, other != folder) == ("1", True)
    process.kill()
    try:
        until(lambda: not left_of(folder) and not os.path.exists(folder), 7)
    finally:
        over.touch()
    until(lambda: not left_of(other))
    process.wait(60)
    process.stdout.close()


def test_closing_twice_is_closing_once():
    browser = Browser()
    session = lease(browser)
    browser.close()
    browser.close()
    with pytest.raises(BrowserLost):
        session.observe()
    session.close()
    with lease(browser) as again:  # the next lease starts it again
        assert "well" in texts(again)
    browser.close()


def test_one_browser_is_shared_by_a_process():
    assert shared() is shared()


class Playwright:
    """One that has no Chromium of its own."""

    class chromium:
        executable_path = "/nowhere/chrome"


def test_chromium_is_found_on_the_path_or_the_install_line_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="sudo apt-get install chromium"):
        executable(Playwright)
    for name in reversed(NAMES):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
        assert executable(Playwright) == str(tmp_path / name)
    with pytest.raises(ConfigError, match="there is no browser at '/nowhere/chrome'"):
        executable(Playwright, "/nowhere/chrome")


def test_without_playwright_the_install_line_is_said():
    program = "import sys; sys.modules['playwright'] = None; import turngate.envs.web.engine.browser as b"
    program += "; b.shared().lease(seed=0)"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True).stderr
    assert "MissingExtra: 'playwright' is not installed; run: pip install \"turngate[web]\"" in said
