"""The pages of goods: frame, home, search results, product, and error pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from turngate.envs.web.generated.shop import labels
from turngate.envs.web.generated.shop.goods import ATTRIBUTES
from turngate.envs.web.generated.shop.markup import (
    Child,
    Html,
    alert,
    button,
    drop_down,
    field,
    join_markup,
    link,
    listing,
    post_form,
    tag,
)
from turngate.envs.web.generated.shop.queries import PAGE_SIZE, Offer

# Lists have a fixed width: Chromium rounds that of the longest option up, and about once in 5,000 turns it came out a
# pixel narrower, so that a recorded episode was not the same when it was replayed.
STYLE = """
body { font: 16px/1.4 sans-serif; margin: 0 auto; max-width: 900px; padding: 0 16px; color: #222; }
header { border-bottom: 1px solid #ccc; padding: 8px 0; }
nav a { margin-right: 16px; }
form p { margin: 8px 0; }
label { display: inline-block; min-width: 140px; }
input[type=radio] + label { min-width: 0; }
input, select, button { font: inherit; padding: 4px 8px; }
select { width: 176px; }
header form p { display: inline-block; margin: 8px 8px 8px 0; }
header label { min-width: 0; margin-right: 8px; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: 8px; text-align: left; vertical-align: top; }
td form, td form p { display: inline-block; }
li { margin: 8px 0; }
dt { font-weight: bold; float: left; clear: left; width: 140px; }
dd { margin: 0 0 4px 140px; }
[role=alert] { background: #fdecea; border: 1px solid #d33; padding: 8px; }
[role=status] { background: #e8f5e9; border: 1px solid #393; padding: 8px; }
"""
FILTER_FIELDS = {name: f"attribute-{name.lower()}" for name in ATTRIBUTES}
"""Attribute → the name of its field in the form of the filters."""
RATING_STEPS = (30, 35, 40, 45)
"""The minimum ratings that the filters offer, in tenths."""
_RATINGS = {"": labels.ANY} | {str(tenths): f"{labels.stars(tenths)} and more" for tenths in RATING_STEPS}


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page: the customer who is signed in, if any, and the number of lines in their cart."""

    user: sqlite3.Row | None = None
    cart_lines: int = 0

    @property
    def csrf(self) -> str:
        """The token that forms carry; "" for a visitor who is not signed in, whose forms are refused anyway."""
        return self.user["csrf"] if self.user else ""


def rating_choice(tenths: int) -> str:
    """The text of a minimum rating in the list of the filters."""
    return _RATINGS[str(tenths)]


def framed(title: str, viewer: Viewer, *body: Child, query: str = "") -> Html:
    """A whole page."""
    search = tag(
        "form",
        field(labels.SEARCH, "q", query, type_="search"),
        button(labels.SEARCH),
        method="get",
        action="/search",
        role="search",
    )
    count = f"{viewer.cart_lines} in the cart. " if viewer.cart_lines else ""
    who = f"Signed in as {viewer.user['name']}" if viewer.user else "Not signed in"
    nav = tag(
        "nav", link("/", "Home"), link("/cart", labels.CART), link("/account", labels.ACCOUNT),
        tag("span", f"{count}{who}"), aria_label="Main",
    )  # fmt: skip
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("title", f"{title} – Shop"),
        tag("link", rel="stylesheet", href="/style.css"),
    )  # fmt: skip
    main = tag("main", tag("h1", title), *body)
    page = tag("html", head, tag("body", tag("header", nav, search), main), lang="en")
    return Html(f"<!DOCTYPE html>{page}")


def home(viewer: Viewer, categories: Sequence[str]) -> Html:
    """The first page."""
    rows = [tag("li", link(f"/search?{urlencode({'category': name})}", name)) for name in categories]
    return framed("Welcome", viewer, tag("p", "Search the shop or choose a category."), tag("ul", *rows))


def results(
    viewer: Viewer, fields: Mapping[str, str], categories: Sequence[str], offers: Sequence[Offer], count: int,
    page: int, error: str,
) -> Html:  # fmt: skip
    """The products that were found. ``offers``: those of page ``page``, from 1; ``count``: how many there are."""
    shown = tag("ul", *(tag("li", _result(one)) for one in offers), class_="results")
    pages = [(labels.PREVIOUS_PAGE, page - 1), (labels.NEXT_PAGE, page + 1)]
    turns = [
        join_markup((link(f"/search?{urlencode({**fields, 'page': to})}", text), " "))
        for text, to in pages
        if 1 <= to <= max(1, -(-count // PAGE_SIZE))
    ]
    found = f"{count} product{'' if count == 1 else 's'} found, page {page}"
    return framed(
        "Search results", viewer, alert(error), tag("p", found), shown, tag("p", *turns), _filters(fields, categories),
        query=fields.get("q", ""),
    )  # fmt: skip


def product(viewer: Viewer, offer: Offer, fields: Mapping[str, str], error: str) -> Html:
    """A product, with the form that puts it into the cart."""
    chosen = [
        drop_down(name, option_field(name), {"": labels.CHOOSE} | {one: one for one in values},
                  fields.get(option_field(name), ""))
        for name, values in offer.options.items()
    ]  # fmt: skip
    amount = field(labels.QUANTITY, "quantity", fields.get("quantity", "1"), type_="number", min=1, max=99)
    form = post_form(f"/products/{offer.id}", viewer.csrf, *chosen, amount, button(labels.ADD_TO_CART))
    gone = [", ".join(options.values()) for options, stock in offer.variants.values() if not stock]
    facts: dict[str, Child] = {
        "Price": labels.money(offer.price_cents),
        "Rating": f"{labels.stars(offer.rating)} of 5, {offer.reviews} reviews",
        "Category": offer.category,
        **offer.attributes,
    }
    sold_out = tag("p", f"Sold out: {'; '.join(gone)}") if gone else ""
    return framed(offer.name, viewer, alert(error), listing(facts), sold_out, form)


def option_field(name: str) -> str:
    """The name of the field of an option in the form of a product."""
    return f"option-{name.lower()}"


def notice(title: str, viewer: Viewer, text: str) -> Html:
    """The error page for an address without a page."""
    return framed(title, viewer, tag("p", text, role="alert"))


def _result(offer: Offer) -> Html:
    about = ", ".join(offer.attributes.values())
    facts = f" {labels.money(offer.price_cents)}, rating {labels.stars(offer.rating)}, {about}"
    return join_markup((link(f"/products/{offer.id}", offer.name), facts))


def _filters(fields: Mapping[str, str], categories: Sequence[str]) -> Html:
    def shown(name: str) -> str:
        return fields.get(name, "")

    lists = [
        drop_down(name, FILTER_FIELDS[name], _any_of(values), shown(FILTER_FIELDS[name]))
        for name, values in ATTRIBUTES.items()
    ]
    return tag(
        "form",
        tag("input", type="hidden", name="q", value=shown("q")),
        drop_down(labels.CATEGORY, "category", _any_of(categories), shown("category")),
        field(labels.MIN_PRICE, "min_price", shown("min_price"), inputmode="decimal"),
        field(labels.MAX_PRICE, "max_price", shown("max_price"), inputmode="decimal"),
        drop_down(labels.MIN_RATING, "min_rating", _RATINGS, shown("min_rating")),
        *lists,
        drop_down(labels.SORT_BY, "sort", labels.SORTS, shown("sort")),
        button(labels.APPLY),
        method="get",
        action="/search",
        aria_label="Filters",
    )


def _any_of(values: Sequence[str]) -> dict[str, str]:
    return {"": labels.ANY} | {value: value for value in values}
