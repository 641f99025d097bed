"""Handlers of the pages of a customer who is signed in."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from turngate.envs.web.generated.shop import changes, customer_pages, labels, queries
from turngate.envs.web.generated.shop.form_fields import id_of, whole
from turngate.envs.web.generated.shop.visits import Answer, Page, Redirect, Visit

NEW = "new"


def cart(visit: Visit, error: str = "") -> Answer:
    """Show the cart."""
    html = customer_pages.cart(visit.viewer, queries.cart(visit.db, visit.user), error)
    return Page(kind="cart", html=html, error=error)


def set_quantity(visit: Visit) -> Answer:
    """Change a line of the cart."""
    quantity = whole(visit.fields, "quantity", 1, changes.MOST_QUANTITY)
    if quantity is None:
        return cart(visit, f"The quantity must be a number from 1 to {changes.MOST_QUANTITY}.")
    try:
        changes.set_quantity(visit.db, visit.user, _id(visit, "line"), quantity)
    except changes.Refused as refused:
        return cart(visit, str(refused))
    return Redirect("/cart")


def remove(visit: Visit) -> Answer:
    """Take a line out of the cart."""
    changes.remove_line(visit.db, visit.user, _id(visit, "line"))
    return Redirect("/cart")


def checkout(visit: Visit, error: str = "") -> Answer:
    """The form of the checkout, as it was filled in last."""
    items, addresses = queries.cart(visit.db, visit.user), queries.addresses(visit.db, visit.user)
    draft = queries.draft(visit.db, visit.user)
    assert visit.viewer.user is not None
    chosen = {
        "address": str(draft["address_id"] if draft else visit.viewer.user["default_address"]),
        "delivery": draft["delivery"] if draft else "standard",
        "payment": draft["payment"] if draft else "card",
    }
    html = customer_pages.checkout(visit.viewer, items, addresses, chosen, error)
    return Page(kind="checkout", html=html, error=error)


def choose(visit: Visit) -> Answer:
    """Take note of the checkout, and go on to the review."""
    address = whole(visit.fields, "address", 1, 10**6)
    delivery, payment = visit.fields.get("delivery", ""), visit.fields.get("payment", "")
    if address is None or delivery not in labels.DELIVERIES or payment not in labels.PAYMENTS:
        return checkout(visit, "Choose an address, a delivery and a payment.")
    try:
        changes.choose_checkout(visit.db, visit.user, address, delivery, payment)
    except changes.Refused as refused:
        return checkout(visit, str(refused))
    return Redirect("/checkout/review")


def review(visit: Visit, error: str = "") -> Answer:
    """The order as it would be placed; the checkout where that is not filled in yet."""
    items, draft = queries.cart(visit.db, visit.user), queries.draft(visit.db, visit.user)
    address = queries.address(visit.db, visit.user, draft["address_id"]) if draft else None
    if not items or draft is None or address is None:
        return checkout(visit, error)
    html = customer_pages.review(visit.viewer, items, address, draft["delivery"], draft["payment"], error)
    return Page(kind="review", html=html, error=error)


def place(visit: Visit) -> Answer:
    """Order the cart."""
    try:
        number = changes.place_order(visit.db, visit.user)
    except changes.Refused as refused:
        return review(visit, str(refused))
    return Redirect(f"/orders/{number}/thanks")


def account(visit: Visit) -> Answer:
    """The customer's account."""
    addresses, orders = queries.addresses(visit.db, visit.user), queries.orders(visit.db, visit.user)
    return Page(kind="account", html=customer_pages.account(visit.viewer, addresses, orders))


def address(visit: Visit, error: str = "") -> Answer:
    """The form of an address, filled with the customer's input or the stored address."""
    id_ = None if visit.path["address"] == NEW else _id(visit, "address")
    fields: Mapping[str, str] = visit.fields
    if id_ is not None and not error:
        row = queries.address(visit.db, visit.user, id_)
        if row is None:
            raise changes.Missing
        fields = {name: row[name] for name in customer_pages.ADDRESS_FIELDS}
    return Page(kind="address", html=customer_pages.address_form(visit.viewer, id_, fields, error), error=error)


def save_address(visit: Visit) -> Answer:
    """Change an address, or add one."""
    id_ = None if visit.path["address"] == NEW else _id(visit, "address")
    fields = {name: visit.fields.get(name, "") for name in customer_pages.ADDRESS_FIELDS}
    if id_ is not None and queries.address(visit.db, visit.user, id_) is None:
        raise changes.Missing
    if empty := [customer_pages.ADDRESS_FIELDS[name] for name, value in fields.items() if not value]:
        return address(visit, f"Fill in: {', '.join(empty)}.")
    if any(len(value) > 80 for value in fields.values()):
        return address(visit, "A field has 80 characters at most.")
    try:
        changes.save_address(visit.db, visit.user, id_, fields)
    except changes.Refused as refused:
        return address(visit, str(refused))
    return Redirect("/account")


def make_default(visit: Visit) -> Answer:
    """Make an address the one that the checkout begins with."""
    changes.set_default_address(visit.db, visit.user, _id(visit, "address"))
    return Redirect("/account")


def order(visit: Visit) -> Answer:
    """An order."""
    return _order(visit, thanks=False)


def thanks(visit: Visit) -> Answer:
    """An order that was placed just now."""
    return _order(visit, thanks=True)


def return_line(visit: Visit, error: str = "") -> Answer:
    """The form that sends a line of an order back."""
    row, item = _ordered(visit)
    now = queries.today(visit.db)
    html = customer_pages.return_form(visit.viewer, row, item, now, visit.fields, error)
    return Page(kind="return", html=html, error=error)


def request_return(visit: Visit) -> Answer:
    """Send a line of an order back."""
    row, item = _ordered(visit)
    quantity, reason = whole(visit.fields, "quantity", 1, changes.MOST_QUANTITY), visit.fields.get("reason", "")
    if quantity is None:
        return return_line(visit, "The quantity must be a number from 1.")
    if reason not in labels.REASONS:
        return return_line(visit, "Choose a reason.")
    try:
        changes.request_return(visit.db, visit.user, row["number"], item.id, quantity, reason)
    except changes.Refused as refused:
        return return_line(visit, str(refused))
    return Redirect(f"/orders/{row['number']}")


def _order(visit: Visit, *, thanks: bool) -> Page:
    row = queries.order(visit.db, visit.user, visit.path["number"])
    if row is None:
        raise changes.Missing
    items, now = queries.order_items(visit.db, row["id"]), queries.today(visit.db)
    new = thanks and row["status"] == "placed" and row["placed_on"] == now
    html = customer_pages.order(visit.viewer, row, items, now, thanks=new)
    return Page(kind="confirmation" if new else "order", html=html)


def _ordered(visit: Visit) -> tuple[sqlite3.Row, queries.OrderItem]:
    row = queries.order(visit.db, visit.user, visit.path["number"])
    items = queries.order_items(visit.db, row["id"]) if row else []
    line = _id(visit, "line")
    item = next((one for one in items if one.id == line), None)
    if row is None or item is None:
        raise changes.Missing
    return row, item


def _id(visit: Visit, name: str) -> int:
    """The row's id in the path. Raises Missing for a text that is none."""
    number = id_of(visit.path[name])
    if number is None:
        raise changes.Missing
    return number
