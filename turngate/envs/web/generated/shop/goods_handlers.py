"""Handlers of the pages of goods."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.envs.web.generated.shop import changes, pages, queries
from turngate.envs.web.generated.shop.form_fields import cents, id_of, whole
from turngate.envs.web.generated.shop.labels import SORTS
from turngate.envs.web.generated.shop.visits import Answer, Page, Redirect, Visit

_FIELDS = ("q", "category", "min_price", "max_price", "min_rating", "sort", *pages.FILTER_FIELDS.values())


def home(visit: Visit) -> Answer:
    """The first page."""
    return Page(kind="home", html=pages.home(visit.viewer, queries.categories(visit.db)))


def results(visit: Visit) -> Answer:
    """The products that a search finds; none where a filter makes no sense."""
    fields = {name: visit.fields[name] for name in _FIELDS if visit.fields.get(name)}
    known = queries.categories(visit.db)
    filters, error = read_filters(fields, known)
    found = [] if error else queries.search(visit.db, filters)
    page = whole(visit.fields, "page", 1, max(1, -(-len(found) // queries.PAGE_SIZE))) or 1
    shown = found[(page - 1) * queries.PAGE_SIZE : page * queries.PAGE_SIZE]
    offers = [offer for id_ in shown if (offer := queries.summary(visit.db, id_))]
    html = pages.results(visit.viewer, fields, known, offers, len(found), page, error)
    return Page(kind="results", html=html, error=error)


def read_filters(fields: Mapping[str, str], categories: list[str]) -> tuple[queries.Filters, str]:
    """The filters of a search, and the error in them."""
    low, high = (cents(fields[name]) if name in fields else None for name in ("min_price", "max_price"))
    if any(name in fields and value is None for name, value in (("min_price", low), ("max_price", high))):
        return queries.Filters(), "Write prices as 12 or 12.50."
    if fields.get("category", categories[0]) not in categories:
        return queries.Filters(), "There is no such category."
    if fields.get("sort", "name") not in SORTS:
        return queries.Filters(), "Choose one of the orders."
    rating = whole(fields, "min_rating", 0, 50)
    if "min_rating" in fields and rating is None:
        return queries.Filters(), "Choose one of the ratings."
    return queries.Filters(
        words=queries.search_words(fields.get("q", "")),
        category=fields.get("category", ""),
        attributes={name: fields[key] for name, key in pages.FILTER_FIELDS.items() if key in fields},
        min_cents=low,
        max_cents=high,
        min_rating=rating,
        sort=fields.get("sort", "name"),
    ), ""


def product(visit: Visit, error: str = "") -> Answer:
    """A product, with why its form was not accepted."""
    id_ = id_of(visit.path["product"])
    offer = None if id_ is None else queries.offer(visit.db, id_)
    if offer is None:
        raise changes.Missing
    html = pages.product(visit.viewer, offer, visit.fields, error)
    return Page(kind="product", html=html, error=error)


def add(visit: Visit) -> Answer:
    """Put a product into the cart."""
    id_ = id_of(visit.path["product"])
    offer = None if id_ is None else queries.offer(visit.db, id_)
    if offer is None:
        raise changes.Missing
    chosen = {name: visit.fields.get(pages.option_field(name), "") for name in offer.options}
    if unknown := [name for name, value in chosen.items() if value not in offer.options[name]]:
        return product(visit, f"Choose: {', '.join(unknown)}.")
    quantity = whole(visit.fields, "quantity", 1, changes.MOST_QUANTITY)
    if quantity is None:
        return product(visit, f"The quantity must be a number from 1 to {changes.MOST_QUANTITY}.")
    try:
        changes.add_to_cart(visit.db, visit.user, offer.id, chosen, quantity)
    except changes.Refused as refused:
        return product(visit, str(refused))
    return Redirect("/cart")
