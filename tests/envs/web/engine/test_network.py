"""What pages reach: the sites of this process, and hosts that are allowed."""

import contextlib
import http.server
import threading

import pytest

from tests.envs.web.engine.pages import HOST, Pages, click, redirect, texts
from turngate.envs.web.engine.network import SiteProxy
from turngate.envs.web.engine.page_problems import PageProblem
from turngate.envs.web.engine.settings import Limits
from turngate.envs.web.engine.site_handler import SiteResponse
from turngate.errors import ConfigError

pytestmark = pytest.mark.component


@contextlib.contextmanager
def server():
    """A server on this machine; yields its host and the paths that it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = b"<p>from the server<script>document.cookie = 'c=1'</script>"
            if self.path == "/away":
                self.send_response(302)
                self.send_header("location", "http://127.0.0.2:9999/")
                body = b""
            else:
                self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{httpd.server_address[1]}", asked
        httpd.shutdown()


def test_forms_redirects_cookies_and_back_are_the_browsers_own(show):
    def cart(request):
        if request.method == "POST":
            cookies = "a=1; Path=/; HttpOnly\nb=2"
            return SiteResponse(status=303, headers={"location": "/cart?done", "set-cookie": cookies})
        return f"<h1>Cart {request.headers.get('cookie')}</h1>"

    site = Pages(
        {"/": "<form method=post action=/cart><input name=q value=3><button>Buy</button></form>", "/cart": cart}
    )
    session = show(site)
    click(session, "Buy")
    assert "Cart a=1; b=2" in texts(session)
    assert session.observe().url == f"http://{HOST}/cart?done"
    assert [(one.method, one.status, one.body) for one in session.requests()] == [
        ("GET", 200, b""), ("POST", 303, b"q=3"), ("GET", 200, b"")]  # fmt: skip
    assert site.asked[1].headers["content-type"] == "application/x-www-form-urlencoded"
    session.back()
    assert "Buy" in texts(session)


def test_a_popup_that_is_redirected_reaches_its_site(show):
    session = show({"/": '<a href="/go" target="_blank">Go</a>', "/go": redirect("/there"), "/there": "<p>arrived"})
    click(session, "Go")
    assert "arrived" in texts(session)


PROBES = {
    "fetch": "fetch('http://{host}/x', {{mode: 'no-cors'}}).catch(() => 0)",
    "image": "new Image().src = 'http://{host}/x'",
    "beacon": "navigator.sendBeacon('http://{host}/x', 'a')",
    "socket": "new WebSocket('ws://{host}/x')",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('http://{host}/x')`])))",
    "events": "new EventSource('http://{host}/x')",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {{src: 'http://{host}/x'}}))",
    "popup": "window.open('http://{host}/x')",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'), {{rel: 'prefetch', href: 'http://{host}/x'}}))",
    "navigation": "location.href = 'http://{host}/x'",
    "redirect": "location.href = '/away'",
    "secure": "fetch('https://{host}/x').catch(() => 0)",
}  # fmt: skip


def test_nothing_reaches_a_host_that_is_not_allowed(show):
    with server() as (host, asked):
        for name, probe in PROBES.items():
            script = probe.format(host=host).replace('"', "&quot;")
            away = redirect(f"http://{host}/x")
            session = show({"/": f'<button onclick="{script}">Go</button>', "/away": away})
            click(session, "Go")
            session.wait(200)
            assert asked == [], name
            assert any(one.refused for one in session.requests()) or name in ("worker", "socket", "prefetch"), name
            session.close()


def test_an_allowed_host_is_reached_and_its_redirects_are_not_followed_elsewhere(show):
    with server() as (host, asked):
        session = show("<p>home", allowed=[host])
        session.goto(f"http://{host}/page")
        assert "from the server" in texts(session)
        assert session.reset(seed=1) is False  # the network has caches of its own
        with pytest.raises(PageProblem):
            session.goto("http://127.0.0.1:1/")
        with contextlib.suppress(PageProblem):
            session.goto(f"http://{host}/away")
        assert any(one.refused and "127.0.0.2" in one.url for one in session.requests())
        assert [path for path in asked if path != "/favicon.ico"] == ["/page", "/away"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("javascript:alert(1)", "begins with javascript:"), ("file:///etc/passwd", "begins with file:"),
        ("data:text/html,x", "begins with data:"), ("about:blank", "begins with about:"),
        ("chrome://crash", "begins with chrome:"), ("view-source:http://pages.test/", "begins with view-source:"),
        (" JavaScript:alert(1)", "begins with javascript:"), ("pages.test", "without http://"), ("", "without http://"),
        ("http://evil.test/", "host 'evil.test' is not allowed; allowed: pages.test"), ("http://", "not an address"),
        ("http://pages.test@evil.test/", "not an address"), ("http://evil.test\\@pages.test/", "not an address"),
        ("https://pages.test/", "answers to http://"),
        ("http://[::1", "not an address"), ("http://a b/", "not an address"),
        ("http://pages.test:99999/", "not an address"),
    ],
)  # fmt: skip
def test_addresses_that_cannot_be_opened_are_refused_by_what_they_are(address, said):
    gate = SiteProxy({HOST: Pages("")}, (), Limits())
    with pytest.raises(PageProblem, match=said.replace("\\", "\\\\").replace("(", r"\(")):
        gate.check(address)


@pytest.mark.parametrize("hosts", ["example.com", ["http://example.com"], ["*"], [""], ["a,b"]])
def test_what_is_no_host_is_refused_at_once(hosts):
    with pytest.raises(ConfigError, match="host"):
        SiteProxy({}, hosts, Limits())
