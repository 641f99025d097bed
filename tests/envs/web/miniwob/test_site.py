"""What the host miniwob.local answers."""

import importlib.util

import pytest

from turngate.envs.web.engine.site_handler import SiteRequest
from turngate.envs.web.loaders.miniwob import miniwob_site
from turngate.envs.web.loaders.miniwob.miniwob_site import HOST, MiniwobSite, html_folder, policy_of, url_of
from turngate.errors import MissingExtra


def get(path: str, method: str = "GET"):
    return MiniwobSite().answer(SiteRequest(method=method, url=f"http://{HOST}{path}"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/miniwob/click-test.html", "text/html; charset=utf-8"),
        ("/miniwob/click-test.html?mode=test#top", "text/html; charset=utf-8"),
        ("/core/core.js", "text/javascript; charset=utf-8"),
        ("/core/core.css", "text/css; charset=utf-8"),
        ("/common/special/checkbox-numbers/ch_0.png", "image/png"),
    ],
)
def test_files_of_the_wheel_have_their_types(path, kind):
    answer = get(path)
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/miniwob",
        "/miniwob/none.html",
        "/../__init__.py",
        "/../reward.py",
        "/%2e%2e/reward.py",
        "/miniwob/..%2f..%2freward.py",
        "/..%5creward.py",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/miniwob/click-test.html%00.png",
        "/" + "a" * 5000,
        "/%ff%fe",
        "",
    ],
)
def test_nothing_else_is_there(path):
    assert get(path).status == 404


def test_only_reading_is_answered():
    assert get("/miniwob/click-test.html", "POST").status == 405
    head = get("/miniwob/click-test.html", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_the_guard_is_added_to_core_and_to_nothing_else():
    assert b"core.endEpisode = function" in get("/core/core.js").body
    assert get("/core/core.js").body.rstrip().endswith(b"})();")
    assert b"turngate" not in get("/common/ui_utils.js").body


def test_a_policy_allows_the_scripts_of_the_page_and_no_handlers():
    policy = policy_of("<script src='a.js'></script><script>\nlet a;</script><p onclick='b()'></p>")
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert scripts.count("sha256-") == 1
    assert "unsafe" not in scripts


def test_an_address_is_quoted():
    assert url_of("click-test") == "http://miniwob.local/miniwob/click-test.html"
    assert url_of("a b", "test") == "http://miniwob.local/miniwob/a%20b.html?mode=test"


def test_without_the_wheel_the_message_says_what_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(miniwob_site, "find_spec", lambda name: None if name == "miniwob" else real(name))
    with pytest.raises(MissingExtra, match=r'pip install "turngate\[web\]"'):
        html_folder()
