"""The pages: what they show, how they say no, and that nothing that a page can send breaks the shop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.web.shop.form_driver import Browser
from tests.envs.web.shop.test_cheats import a_task, in_cart, token, without_answer
from turngate.envs.web.engine.site_handler import SiteRequest
from turngate.envs.web.generated.shop.generate import ShopTasks
from turngate.envs.web.generated.shop.markup import Html, tag
from turngate.envs.web.generated.shop.records import PlanStep, ShopTask, shop_task
from turngate.envs.web.generated.shop.shop_site import START_URL, Seen, ShopSite
from turngate.envs.web.generated.shop.shop_tables import contents
from turngate.errors import ConfigError
from turngate.types import Task

PAGES = (
    "/", "/search?q=a", "/products/1", "/cart", "/checkout", "/checkout/review", "/account", "/addresses/1",
    "/addresses/new", "/orders/W1001", "/orders/W1001/thanks",
)  # fmt: skip


@pytest.fixture
def browser():  # type: ignore[no-untyped-def]
    site = ShopSite(a_task("buy_named", True))
    yield Browser(site)
    site.close()


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_whole_semantic_html_whose_fields_have_labels(browser: Browser, path: str) -> None:
    assert browser.go(path).status == 200
    page = browser.page  # raises for a page that is not well-formed
    tags = [one.tag for one in page.elements]
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    named = [(page.role(one), page.name(one)) for one in page.elements if page.role(one)]
    assert all(name for _, name in named), named
    assert all(one.attributes["href"].startswith("/") for one in page.elements if one.tag in ("a", "link"))


def test_a_change_is_answered_with_a_redirect_and_every_answer_forbids_foreign_resources(browser: Browser) -> None:
    csrf, form = token(browser), {"content-type": "application/x-www-form-urlencoded", "cookie": browser.cookie}
    body = f"csrf={csrf}&label=New&street=1+Road&postcode=12345&city=Town".encode()
    request = SiteRequest(method="POST", url=f"{START_URL}addresses/new", headers=form, body=body)
    response = browser.site.answer(request)
    assert (response.status, response.headers["location"]) == (303, "/account")
    for one in (response, browser.go("/"), browser.go("/nowhere"), browser.go("/style.css")):
        assert "default-src 'none'" in one.headers["content-security-policy"]
        assert one.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nowhere", 404, "There is no such page."),
        ("GET", "/products/9999", 404, "There is no such page."),
        ("GET", "/account/", 404, "There is no such page."),
        ("POST", "/account", 405, "This page cannot be used in this way."),
        ("GET", "/search?a=1&a=2", 400, "it says a field twice"),
        ("GET", "/search?min_price=cheap", 422, "Write prices as 12 or 12.50."),
        ("GET", "/search?category=Cars", 422, "There is no such category."),
    ],
)
def test_a_request_that_is_wrong_gets_a_page_that_says_so(
    browser: Browser, method: str, path: str, status: int, text: str
) -> None:
    response = browser.send(method, path, b"csrf=x" if method == "POST" else b"")
    assert response.status == status
    assert text in browser.html
    assert browser.site.seen[-1].status == status


def test_search_filters_sorts_and_turns_pages(browser: Browser) -> None:
    everything = browser.go("/search") and browser.html
    assert "48 products found, page 1" in everything
    browser.do(PlanStep(kind="click", role="link", name="Next page"))
    assert "page 2" in browser.html
    browser.go("/search?min_price=20&max_price=40.50&sort=price&min_rating=30")
    prices = [float(part.split(",")[0]) for part in browser.html.split("</a> $")[1:]]
    assert prices == sorted(prices)
    assert prices
    assert all(20 <= price <= 40.5 for price in prices)
    browser.go("/search?attribute-material=steel&q=nosuchword")
    assert "0 products found" in browser.html


def test_the_cart_changes_and_errors_stand_in_its_page(browser: Browser) -> None:
    in_cart(browser, browser.site.task)
    name = next(one for one in browser.page.elements if "Quantity of" in browser.page.name(one))
    label = browser.page.name(name).removeprefix("Quantity of ")
    browser.do(PlanStep(kind="fill", role="spinbutton", name=f"Quantity of {label}", value="0"))
    browser.do(PlanStep(kind="click", role="button", name=f"Update {label}"))
    assert browser.site.seen[-1] == Seen("cart", 422, "The quantity must be a number from 1 to 99.")
    browser.do(PlanStep(kind="click", role="button", name=f"Remove {label}"))
    assert "Your cart is empty." in browser.html


def test_what_was_ordered_is_dated_by_the_episode(browser: Browser) -> None:
    shop = browser.site.task
    without_answer(browser, shop)
    assert browser.site.seen[-1].kind == "confirmation"
    orders = contents(browser.site.database)["orders"]
    assert orders[max(orders)]["placed_on"] == shop.today


def test_texts_are_escaped_wherever_they_stand() -> None:
    evil = "<b a=\"'&"
    assert tag("p", evil, title=evil) == '<p title="&lt;b a=&quot;&#x27;&amp;">&lt;b a=&quot;&#x27;&amp;</p>'
    assert tag("p", Html("<b></b>"), hidden=True, id=False) == '<p hidden=""><b></b></p>'


@settings(max_examples=100, deadline=None)
@given(
    method=st.sampled_from(("GET", "POST", "HEAD", "PUT", "get", "\u00e9", "")),
    path=st.text(max_size=30) | st.sampled_from([path.removeprefix("/") for path in PAGES]),
    headers=st.dictionaries(st.sampled_from(("cookie", "content-type", "host", "x")), st.text(max_size=40)),
    body=st.binary(max_size=60),
)
def test_nothing_that_a_page_can_send_raises(method: str, path: str, headers: dict[str, str], body: bytes) -> None:
    site = fuzzed()
    before = contents(site.database)
    for more in (
        headers,
        {"cookie": f"session={site.task.session}", "content-type": "application/x-www-form-urlencoded"},
    ):
        response = site.answer(SiteRequest(method=method, url=START_URL + path, headers=more, body=body))
        assert 200 <= response.status < 500
    assert contents(site.database) == before


@pytest.mark.parametrize(
    "url", ["", "http://[", "shop", "http://shop.test", "http://shop.test/\ud800", "x:?a=\udfff", "//"]
)
def test_urls_that_are_none_are_answered(url: str) -> None:
    assert fuzzed().answer(SiteRequest(method="GET", url=url)).status in (200, 400, 404)


_FUZZED: list[ShopSite] = []


def fuzzed() -> ShopSite:
    """One shop for all requests that must not change it."""
    if not _FUZZED:
        _FUZZED.append(ShopSite(a_task("buy_named", True)))
    return _FUZZED[0]


def test_no_event_loop_and_no_thread_is_needed_also_inside_a_loop() -> None:
    before = threading.active_count()
    shop = a_task("buy_named", True)

    async def inside() -> bool:
        site = ShopSite(shop)
        browser = Browser(site)
        for step in shop.plan:
            browser.do(step)
        return site.grade(browser.answered).solved

    assert asyncio.run(inside())
    assert threading.active_count() == before


def test_shops_of_many_episodes_at_once_do_not_mix() -> None:
    tasks = [shop_task(ShopTasks(catalogues=2).task("train", index)) for index in range(24)]

    def solved(shop: ShopTask) -> bool:
        site = ShopSite(shop)
        browser = Browser(site)
        for step in shop.plan:
            browser.do(step)
        try:
            return site.grade(browser.answered).solved
        finally:
            site.close()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(solved, tasks))


def test_equal_states_have_equal_texts_and_others_do_not() -> None:
    shop = a_task("buy_named", True)
    one, other = Browser(ShopSite(shop)), Browser(ShopSite(shop))
    assert one.site.state() == other.site.state()
    in_cart(one, shop)
    assert one.site.state() != other.site.state()
    in_cart(other, shop)
    assert one.site.state() == other.site.state()


def test_a_task_of_another_site_is_refused() -> None:
    with pytest.raises(ConfigError, match="task 'x' is no task of the shop"):
        shop_task(Task(id="x", env_id="turngate/Web-v1", prompt=""))


def test_starlette_is_loaded_with_the_first_shop_only() -> None:
    code = (
        "import sys, turngate.envs.web.generated.shop.shop_site, turngate.envs.web.generated.shop.generate; "
        "import turngate.envs.web.generated.shop.shop_source; "
        "sys.exit('starlette' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
