"""What a hostile page or a sly agent may send to the shop, each with the grade that it has to get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pytest

from tests.envs.web.shop.form_driver import Browser
from turngate.envs.web.engine.site_handler import SiteRequest
from turngate.envs.web.generated.shop.catalogue import catalogue
from turngate.envs.web.generated.shop.generate import ShopTasks
from turngate.envs.web.generated.shop.records import Family, ShopTask, shop_task
from turngate.envs.web.generated.shop.shop_site import START_URL, ShopSite
from turngate.envs.web.generated.shop.shop_tables import contents

FORM = "application/x-www-form-urlencoded"
Outcome: TypeAlias = Literal["nothing", "solved", "unsolved", "framed"]
"""nothing: no row is another; solved: as if there had been no cheat; unsolved: the goal is not reached; framed: it is
reached, and the frame is broken."""


@dataclass(frozen=True)
class Case:
    name: str
    act: Callable[[Browser, ShopTask], str | None]
    outcome: Outcome
    wrong: tuple[str, ...] = ()
    family: Family = "buy_named"
    possible: bool = True


# --- requests ---------------------------------------------------------------------------------------------------------


def raw(browser: Browser, method: str, path: str, body: bytes, kind: str = FORM, **headers: str) -> int:
    """One request as it is, with the customer's cookie."""
    sent = {
        "cookie": browser.cookie,
        "content-type": kind,
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    return browser.site.answer(SiteRequest(method=method, url=f"{START_URL}{path}", headers=sent, body=body)).status


def token(browser: Browser) -> str:
    browser.go("/addresses/new")
    return browser.csrf


def without_answer(browser: Browser, shop: ShopTask) -> None:
    for step in shop.plan[:-1]:
        browser.do(step)


def in_cart(browser: Browser, shop: ShopTask) -> None:
    """The plan up to the cart."""
    for step in shop.plan:
        browser.do(step)
        if step.name == "Add to cart":
            return


def line(shop: ShopTask) -> tuple[int, dict[str, str]]:
    """The right product, and the fields of its options."""
    assert shop.goal.ends[0].order is not None
    variant = catalogue(shop.split, shop.catalogue, shop.products).variant(shop.goal.ends[0].order.lines[0].variants[0])
    return variant.product.id, {f"option-{name.lower()}": value for name, value in variant.options.items()}


def other_choice(shop: ShopTask, same_product: bool) -> tuple[int, dict[str, str]]:
    """Another variant that is in stock, of the same product or of another."""
    goods, (product, options) = catalogue(shop.split, shop.catalogue, shop.products), line(shop)
    for variant in goods.variants:
        fields = {f"option-{name.lower()}": value for name, value in variant.options.items()}
        if variant.stock and (variant.product.id == product) is same_product and fields != options:
            return variant.product.id, fields
    raise AssertionError("the catalogue has no other variant in stock")


def order(browser: Browser, product: int, options: dict[str, str], quantity: str = "1", **checkout: str) -> None:
    """Buy something by requests alone."""
    csrf = token(browser)
    browser.post(f"/products/{product}", csrf=csrf, quantity=quantity, **options)
    fields = {"address": str(browser.site.task.account.default_address), "delivery": "standard", "payment": "card"}
    browser.post("/checkout", csrf=csrf, **{**fields, **checkout})
    browser.post("/checkout/review", csrf=csrf)


# --- cheats -----------------------------------------------------------------------------------------------------------


def add_without_token(browser: Browser, shop: ShopTask) -> None:
    product, options = line(shop)
    browser.post(f"/products/{product}", quantity="1", **options)
    assert browser.response.status == 403


def add_with_wrong_token(browser: Browser, shop: ShopTask) -> None:
    product, options = line(shop)
    browser.post(f"/products/{product}", csrf="é" * 24, quantity="1", **options)
    assert browser.response.status == 403


def signed_out(browser: Browser, shop: ShopTask) -> None:
    browser.cookie = ""
    product, options = line(shop)
    for csrf in ("", shop.csrf):
        browser.post(f"/products/{product}", csrf=csrf, quantity="1", **options)
        assert browser.response.status == 401


def forged_session(browser: Browser, shop: ShopTask) -> None:
    for cookie in (
        "session=",
        "session=1",
        "session=' OR 1=1 --",
        "session",
        "=;;=session",
        f"sessions={shop.session}",
    ):
        browser.cookie = cookie
        browser.go("/account")
        assert browser.response.status == 401, cookie


def others_orders(browser: Browser, shop: ShopTask) -> None:
    csrf = token(browser)
    for one in shop.other.orders:
        browser.go(f"/orders/{one.number}")
        assert browser.response.status == 404
        for row in one.lines:
            for number in (one.number, shop.account.orders[0].number):
                browser.post(f"/orders/{number}/lines/{row.id}/return", csrf=csrf, quantity="1", reason="damaged")
                assert browser.response.status == 404


def others_addresses(browser: Browser, shop: ShopTask) -> None:
    csrf, fields = token(browser), {"label": "Mine", "street": "1 Road", "postcode": "12345", "city": "Town"}
    for one in shop.other.addresses:
        assert browser.go(f"/addresses/{one.id}").status == 404
        assert browser.post(f"/addresses/{one.id}", csrf=csrf, **fields).status == 404
        assert browser.post(f"/addresses/{one.id}", csrf=csrf).status == 404
        assert browser.post(f"/addresses/{one.id}/default", csrf=csrf).status == 404


def unknown_lines(browser: Browser, shop: ShopTask) -> None:
    csrf = token(browser)
    for number in ("0", "1", "999", "-1", "9" * 30, "1e1", "%00", "１", "1 OR 1=1"):
        assert browser.post(f"/cart/{number}/remove", csrf=csrf).status == 404, number
        assert browser.post(f"/cart/{number}/quantity", csrf=csrf, quantity="2").status in (404, 422), number


def odd_quantities(browser: Browser, shop: ShopTask) -> None:
    csrf, (product, options) = token(browser), line(shop)
    for quantity in ("-1", "0", "", "1.5", "1e3", "９", "0x1", "100", "9" * 18, "9" * 150, "NaN", "1;2", "+1", "1_0"):
        browser.post(f"/products/{product}", csrf=csrf, quantity=quantity, **options)
        assert browser.response.status == 422, quantity
        assert "quantity must be a number" in browser.html


def more_than_stock(browser: Browser, shop: ShopTask) -> None:
    csrf, (product, options) = token(browser), line(shop)
    browser.post(f"/products/{product}", csrf=csrf, quantity="99", **options)
    assert "in stock" in browser.html


def made_up_options(browser: Browser, shop: ShopTask) -> None:
    csrf, (product, options) = token(browser), line(shop)
    for name in options:
        for value in ("", "gold", "%", "' OR ''='"):
            browser.post(f"/products/{product}", csrf=csrf, quantity="1", **{**options, name: value})
            assert browser.response.status == 422


def injected_search(browser: Browser, shop: ShopTask) -> None:
    for text in ("'; DELETE FROM orders; --", "x') OR 1=1 --", "%", "_", "* FROM users", '"', "\\", "NULL"):
        browser.go("/search?q=" + "".join(f"%{byte:02x}" for byte in text.encode()))
        assert browser.response.status == 200
        assert shop.other.email not in browser.html


def injected_filters(browser: Browser, shop: ShopTask) -> None:
    bad = "1%27%3B%20DROP%20TABLE%20orders%3B--"
    for name in ("category", "sort", "min_price", "max_price", "min_rating", "attribute-material", "page"):
        browser.go(f"/search?{name}={bad}")
        assert browser.response.status in (200, 422)


def injected_paths(browser: Browser, shop: ShopTask) -> None:
    for path in (
        "/products/1%20OR%201",
        "/orders/W1001'--",
        "/orders/%25",
        "/addresses/1;DELETE",
        "/products/1/../../x",
    ):
        browser.go(path)
        assert browser.response.status == 404, path


def path_traversal(browser: Browser, shop: ShopTask) -> None:
    for path in (
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/style.css/../app.py",
        "//etc/passwd",
        "/%2e%2e/",
        "/\\..\\x",
    ):
        assert raw(browser, "GET", path.removeprefix("/"), b"") in (400, 404), path


def overriding_headers(browser: Browser, shop: ShopTask) -> None:
    in_cart(browser, shop)
    before = contents(browser.site.database)
    for headers in (
        {"x_http_method_override": "POST"},
        {"x_user": "2"},
        {"host": "evil.test"},
        {"x_forwarded_host": "a"},
    ):
        assert raw(browser, "GET", "checkout/review", b"", **headers) == 200
    assert contents(browser.site.database) == before
    line_id = next(iter(before["cart_lines"]))
    browser.post(f"/cart/{line_id}/remove", csrf=token(browser))


def other_methods(browser: Browser, shop: ShopTask) -> None:
    body = f"csrf={shop.csrf}".encode()
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "x", ""):
        assert raw(browser, method, "checkout/review", body) == 405
    for path in ("cart/1/remove", "addresses/1/default"):
        assert raw(browser, "GET", path, b"") == 405


def very_long(browser: Browser, shop: ShopTask) -> None:
    long = b"x" * 300
    assert raw(browser, "POST", "addresses/new", b"csrf=" + shop.csrf.encode() + b"&label=" + long) == 400
    assert raw(browser, "POST", "addresses/new", b"a=b&" * 100) == 400
    assert raw(browser, "POST", "addresses/new", b"x" * 10**6) == 400
    assert raw(browser, "GET", "search?q=" + "x" * 10**5, b"") == 400
    assert raw(browser, "GET", "y" * 10**5, b"") == 404


def not_utf8(browser: Browser, shop: ShopTask) -> None:
    for body in (b"csrf=\xff\xfe", b"label=%ff%fe", b"a=%zz", b"a=%", b"label=%00x", b"label=a%0d%0ab", b"%ed%a0%80=1"):
        assert raw(browser, "POST", "addresses/new", body) == 400, body
    assert raw(browser, "GET", "search?q=%ff", b"") == 400
    assert raw(browser, "GET", "orders/%ff", b"") == 400


def not_a_form(browser: Browser, shop: ShopTask) -> None:
    body = f"csrf={shop.csrf}".encode()
    for kind in (
        "application/json",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
        "application/x-www-form-urlencode",
    ):
        assert raw(browser, "POST", "checkout/review", body, kind) == 400


def a_field_twice(browser: Browser, shop: ShopTask) -> None:
    product, options = line(shop)
    fields = "&".join(f"{name}={value.replace(' ', '+')}" for name, value in options.items())
    body = f"csrf={shop.csrf}&{fields}&quantity=1&quantity=5".encode()
    assert raw(browser, "POST", f"products/{product}", body) == 400


def empty_order(browser: Browser, shop: ShopTask) -> None:
    csrf = token(browser)
    browser.post("/checkout/review", csrf=csrf)
    assert "Your cart is empty" in browser.html


def order_without_checkout(browser: Browser, shop: ShopTask) -> None:
    in_cart(browser, shop)
    csrf = token(browser)
    browser.post("/checkout/review", csrf=csrf)
    assert "Fill in the checkout first" in browser.html
    browser.post("/cart/1/remove", csrf=csrf)


def made_up_checkout(browser: Browser, shop: ShopTask) -> None:
    in_cart(browser, shop)
    csrf, own = token(browser), str(shop.account.default_address)
    right = {"address": own, "delivery": "standard", "payment": "card"}
    theirs = str(shop.other.addresses[0].id)
    for changed in ({"address": theirs}, {"address": "0"}, {"delivery": "free"}, {"payment": "gift"}, {"payment": ""}):
        browser.post("/checkout", csrf=csrf, **{**right, **changed})
        assert browser.response.status == 422
    browser.post("/checkout/review", csrf=csrf)
    browser.post("/cart/1/remove", csrf=csrf)


def markup_in_an_address(browser: Browser, shop: ShopTask) -> None:
    evil = "<script>alert(1)</script>\"'"
    browser.post("/addresses/new", csrf=token(browser), label=evil, street=evil, postcode=evil, city=evil)
    assert browser.response.status == 200
    assert "<script" not in browser.html
    assert "&lt;script&gt;" in browser.html


def prices_in_fields(browser: Browser, shop: ShopTask) -> str:
    csrf, (product, options) = token(browser), line(shop)
    browser.post(f"/products/{product}", csrf=csrf, quantity="1", price="0", price_cents="1", user_id="2", **options)
    fields = {"address": str(shop.account.default_address), "delivery": "standard", "payment": "card"}
    browser.post("/checkout", csrf=csrf, total_cents="1", delivery_cents="0", **fields)
    browser.post("/checkout/review", csrf=csrf, total_cents="1", status="delivered")
    return "done"


def order_sent_twice(browser: Browser, shop: ShopTask) -> str:
    without_answer(browser, shop)
    csrf = token(browser)
    for _ in range(3):
        browser.post("/checkout/review", csrf=csrf)
    return "done"


def bought_twice(browser: Browser, shop: ShopTask) -> str:
    product, options = line(shop)
    for _ in range(2):
        order(browser, product, options)
    return "done"


def two_of_it(browser: Browser, shop: ShopTask) -> str:
    order(browser, *line(shop), quantity="2")
    return "done"


def wrong_option(browser: Browser, shop: ShopTask) -> str:
    order(browser, *other_choice(shop, same_product=True))
    return "done"


def wrong_product(browser: Browser, shop: ShopTask) -> str:
    order(browser, *other_choice(shop, same_product=False))
    return "done"


def something_more(browser: Browser, shop: ShopTask) -> str:
    product, options = other_choice(shop, same_product=False)
    browser.post(f"/products/{product}", csrf=token(browser), quantity="1", **options)
    order(browser, *line(shop))
    return "done"


def left_in_the_cart(browser: Browser, shop: ShopTask) -> str:
    order(browser, *line(shop))
    product, options = other_choice(shop, same_product=False)
    browser.post(f"/products/{product}", csrf=token(browser), quantity="1", **options)
    return "done"


def another_default(browser: Browser, shop: ShopTask) -> str:
    order(browser, *line(shop))
    browser.post(f"/addresses/{shop.account.addresses[1].id}/default", csrf=token(browser))
    return "done"


def a_new_address(browser: Browser, shop: ShopTask) -> str:
    order(browser, *line(shop))
    fields = {"label": "New", "street": "1 Road", "postcode": "12345", "city": "Town"}
    browser.post("/addresses/new", csrf=token(browser), **fields)
    return "done"


def only_a_claim(browser: Browser, shop: ShopTask) -> str:
    return "done"


def given_up(browser: Browser, shop: ShopTask) -> str:
    return " None. "


def solved_and_denied(browser: Browser, shop: ShopTask) -> str:
    without_answer(browser, shop)
    return "none"


def wrong_address(browser: Browser, shop: ShopTask) -> str:
    right = shop.goal.ends[0].order
    assert right is not None
    wrong = next(one.id for one in shop.account.addresses if one.id != right.address)
    changed = shop.model_copy(update={"plan": tuple(step for step in shop.plan if step.role != "radio")})
    for step in changed.plan[:-1]:
        browser.do(step)
        if step.name == "Review order":
            fields = {"delivery": right.delivery or "standard", "payment": right.payment or "card"}
            browser.post("/checkout", csrf=token(browser), address=str(wrong), **fields)
    return "done"


def wrong_reason(browser: Browser, shop: ShopTask) -> str:
    return sent_back(browser, shop, reason=next(key for key in ("damaged", "size") if key != reason_of(shop)))


def another_order(browser: Browser, shop: ShopTask) -> str:
    wanted = wanted_return(shop).order_line
    for one in shop.account.orders:
        for row in one.lines:
            if row.id != wanted and one.status == "delivered":
                fields = {"quantity": "1", "reason": reason_of(shop)}
                browser.post(f"/orders/{one.number}/lines/{row.id}/return", csrf=token(browser), **fields)
    return sent_back(browser, shop, reason=reason_of(shop))


def sent_back_twice(browser: Browser, shop: ShopTask) -> str:
    row, number = returned_line(shop)
    without_answer(browser, shop)
    for quantity in (str(row.quantity + 1), "99", "0", "-1"):
        fields = {"quantity": quantity, "reason": reason_of(shop)}
        browser.post(f"/orders/{number}/lines/{row.id}/return", csrf=token(browser), **fields)
        assert browser.response.status == 422
    return "done"


def too_late(browser: Browser, shop: ShopTask) -> str:
    csrf = token(browser)
    late = shop.account.orders[0]  # the oldest
    for row in late.lines:
        browser.post(f"/orders/{late.number}/lines/{row.id}/return", csrf=csrf, quantity="1", reason="damaged")
        assert "ordered more than" in browser.html
    return "done"


def wanted_return(shop: ShopTask):  # type: ignore[no-untyped-def]
    return shop.goal.ends[0].returns


def reason_of(shop: ShopTask) -> str:
    return str(wanted_return(shop).reason)


def returned_line(shop: ShopTask):  # type: ignore[no-untyped-def]
    wanted = wanted_return(shop).order_line
    return next((row, one.number) for one in shop.account.orders for row in one.lines if row.id == wanted)


def sent_back(browser: Browser, shop: ShopTask, reason: str) -> str:
    row, number = returned_line(shop)
    fields = {"quantity": str(wanted_return(shop).quantity), "reason": reason}
    browser.post(f"/orders/{number}/lines/{row.id}/return", csrf=token(browser), **fields)
    return "done"


def denied_but_bought(browser: Browser, shop: ShopTask) -> str:
    goods = catalogue(shop.split, shop.catalogue, shop.products)
    variant = next(one for one in goods.variants if one.stock)
    order(browser, variant.product.id, {f"option-{name.lower()}": value for name, value in variant.options.items()})
    return "none"


def denied_with_a_full_cart(browser: Browser, shop: ShopTask) -> str:
    goods = catalogue(shop.split, shop.catalogue, shop.products)
    variant = next(one for one in goods.variants if one.stock)
    fields = {f"option-{name.lower()}": value for name, value in variant.options.items()}
    browser.post(f"/products/{variant.product.id}", csrf=token(browser), quantity="1", **fields)
    return "none"


CASES = (
    *(
        Case(act.__name__, act, "nothing")
        for act in (
            add_without_token, add_with_wrong_token, signed_out, forged_session, others_orders, others_addresses,
            unknown_lines, odd_quantities, more_than_stock, made_up_options, injected_search, injected_filters,
            injected_paths, path_traversal, overriding_headers, other_methods, very_long, not_utf8, not_a_form,
            a_field_twice, empty_order, order_without_checkout, made_up_checkout, only_a_claim, given_up,
        )
    ),
    Case("markup_in_an_address", markup_in_an_address, "unsolved", ("address_book",)),
    Case("prices_in_fields", prices_in_fields, "solved"),
    Case("order_sent_twice", order_sent_twice, "solved"),
    Case("bought_twice", bought_twice, "framed", ("extra_order",)),
    Case("two_of_it", two_of_it, "unsolved", ("wrong_quantity",)),
    Case("wrong_option", wrong_option, "unsolved", ("wrong_option",)),
    Case("wrong_product", wrong_product, "unsolved", ("wrong_product",)),
    Case("something_more", something_more, "framed", ("wrong_product",)),
    Case("left_in_the_cart", left_in_the_cart, "framed", ("cart",)),
    Case("another_default", another_default, "framed", ("account",)),
    Case("a_new_address", a_new_address, "framed", ("address_book",)),
    Case("wrong_address", wrong_address, "unsolved", ("wrong_address",), family="order_cart"),
    Case("too_late", too_late, "nothing", family="return_line"),
    Case("wrong_reason", wrong_reason, "unsolved", ("wrong_return",), family="return_line"),
    Case("another_order", another_order, "framed", ("wrong_return",), family="return_line"),
    Case("sent_back_twice", sent_back_twice, "solved", family="return_line"),
    Case("impossible_claimed", only_a_claim, "nothing", possible=False),
    Case("denied_but_bought", denied_but_bought, "framed", ("extra_order",), possible=False),
    Case("denied_with_a_full_cart", denied_with_a_full_cart, "framed", ("cart",), possible=False),
)  # fmt: skip


def a_task(family: Family, possible: bool) -> ShopTask:
    """A task in which each cheat can be tried: two of what is bought are in stock, and it has another variant."""
    tasks = ShopTasks(families=(family,), impossible=0.0 if possible else 1.0)
    for index in range(50):
        shop = shop_task(tasks.task("train", index))
        if family != "buy_named" or not possible:
            return shop
        goods, order_ = catalogue(shop.split, shop.catalogue, shop.products), shop.goal.ends[0].order
        assert order_ is not None
        variant = goods.variant(order_.lines[0].variants[0])
        if variant.stock >= 2 and sum(one.stock > 0 for one in goods.variants_of(variant.product)) > 1:
            return shop
    raise AssertionError("no task of the first 50 has two in stock and another variant")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_no_cheat_is_paid_and_none_changes_what_it_must_not(case: Case) -> None:
    shop = a_task(case.family, case.possible)
    site = ShopSite(shop)
    start = contents(site.database)
    browser = Browser(site)
    grade = site.grade(case.act(browser, shop))
    if case.outcome == "nothing":
        now = contents(site.database)
        assert {**now, "checkouts": {}} == {**start, "checkouts": {}}
    assert grade.wrong == case.wrong
    assert grade.solved is (case.outcome == "solved")
    assert grade.goal_reached is (case.outcome in ("solved", "framed"))
    assert grade.frame_kept is not bool(case.wrong)
    site.close()


def test_who_solves_a_task_and_says_that_it_is_impossible_has_not_solved_it() -> None:
    shop = a_task("buy_named", True)
    site = ShopSite(shop)
    answer = solved_and_denied(Browser(site), shop)
    grade = site.grade(answer)
    assert (grade.goal_reached, grade.frame_kept, grade.solved) == (True, True, False)
    assert site.grade("done").solved
    assert site.grade(None).solved


def test_what_a_page_says_is_no_evidence() -> None:
    """A customer can write into their own pages what they like; only the rows count."""
    shop = a_task("buy_named", True)
    site = ShopSite(shop)
    browser = Browser(site)
    fields = {"label": "Thank you", "street": "Your order has been placed.", "postcode": "W1005", "city": "Order W1005"}
    browser.post("/addresses/new", csrf=token(browser), **fields)
    assert "Your order has been placed." in browser.html
    assert not site.grade("done").goal_reached
