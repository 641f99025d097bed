"""The pages of a customer who is signed in: cart, checkout, account, orders, returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from turngate.envs.web.generated.shop import labels
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
    radios,
    table,
    tag,
)
from turngate.envs.web.generated.shop.pages import Viewer, framed
from turngate.envs.web.generated.shop.queries import OrderItem, no_return

ADDRESS_FIELDS = {"label": labels.LABEL, "street": labels.STREET, "postcode": labels.POSTCODE, "city": labels.CITY}
"""Name of a field of an address → its label."""


def cart(viewer: Viewer, items: Sequence[OrderItem], error: str = "") -> Html:
    """The page of the cart."""
    if not items:
        return framed("Your cart", viewer, alert(error), tag("p", "Your cart is empty."))
    rows = [(link(f"/products/{one.product}", one.name), labels.money(one.price_cents), _amount(viewer, one),
             labels.money(one.total_cents), _remove(viewer, one)) for one in items]  # fmt: skip
    total = tag("p", f"Subtotal: {labels.money(sum(one.total_cents for one in items))}")
    lines = table(("Product", "Price", "Quantity", "Total", ""), rows)
    return framed("Your cart", viewer, alert(error), lines, total, tag("p", link("/checkout", labels.TO_CHECKOUT)))


def checkout(
    viewer: Viewer,
    items: Sequence[OrderItem],
    addresses: Sequence[sqlite3.Row],
    chosen: Mapping[str, str],
    error: str = "",
) -> Html:
    """Where to, and how the cart is sent and paid."""
    if not items:
        return framed("Checkout", viewer, alert(error or "Your cart is empty."))
    places = {str(row["id"]): address_label(row) for row in addresses}
    ways = {key: labels.delivery_label(key) for key in labels.DELIVERIES}
    form = post_form(
        "/checkout",
        viewer.csrf,
        radios("Address", "address", places, chosen["address"]),
        radios("Delivery", "delivery", ways, chosen["delivery"]),
        radios("Payment", "payment", labels.PAYMENTS, chosen["payment"]),
        button(labels.REVIEW),
    )
    return framed("Checkout", viewer, alert(error), form, tag("p", link("/addresses/new", "Add an address")))


def review(
    viewer: Viewer, items: Sequence[OrderItem], address: sqlite3.Row, delivery: str, payment: str, error: str = ""
) -> Html:
    """The order as it would be placed."""
    name, cents = labels.DELIVERIES[delivery]
    facts: dict[str, Child] = {
        "Address": address_label(address),
        "Delivery": name,
        "Payment": labels.PAYMENTS[payment],
        "Delivery cost": labels.money(cents),
        "Total": labels.money(cents + sum(one.total_cents for one in items)),
    }
    form = post_form("/checkout/review", viewer.csrf, button(labels.PLACE_ORDER))
    change = tag("p", link("/checkout", "Change the checkout"))
    return framed("Review your order", viewer, alert(error), _lines(items), listing(facts), form, change)


def account(viewer: Viewer, addresses: Sequence[sqlite3.Row], orders: Sequence[sqlite3.Row]) -> Html:
    """Who the customer is, their addresses and orders."""
    assert viewer.user is not None
    user = viewer.user
    rows = [
        (row["label"], labels.address_text(row["street"], row["postcode"], row["city"]), _address_links(viewer, row))
        for row in addresses
    ]
    past = [(order_link(row), labels.day(row["placed_on"]), row["status"], labels.money(row["total_cents"]))
            for row in orders]  # fmt: skip
    return framed(
        "Your account",
        viewer,
        listing({"Name": user["name"], "Email": user["email"]}),
        tag("h2", "Addresses"),
        table(("Label", "Address", ""), rows),
        tag("p", link("/addresses/new", "Add an address")),
        tag("h2", "Orders"),
        table(("Order", "Date", "Status", "Total"), past) if past else tag("p", "No orders yet."),
    )


def address_form(viewer: Viewer, id_: int | None, fields: Mapping[str, str], error: str = "") -> Html:
    """The form of an address: a known one, or None for a new one."""
    inputs = [field(label, name, fields.get(name, ""), maxlength=80) for name, label in ADDRESS_FIELDS.items()]
    to = "/addresses/new" if id_ is None else f"/addresses/{id_}"
    title = "New address" if id_ is None else "Edit address"
    return framed(title, viewer, alert(error), post_form(to, viewer.csrf, *inputs, button(labels.SAVE_ADDRESS)))


def order(viewer: Viewer, row: sqlite3.Row, items: Sequence[OrderItem], now: str, *, thanks: bool = False) -> Html:
    """An order, with its lines that can be returned. ``thanks``: it was placed just now."""
    facts: dict[str, Child] = {
        "Date": labels.day(row["placed_on"]),
        "Status": row["status"],
        "Address": labels.address_text(row["street"], row["postcode"], row["city"]),
        "Delivery": f"{labels.DELIVERIES[row['delivery']][0]}, {labels.money(row['delivery_cents'])}",
        "Payment": labels.PAYMENTS[row["payment"]],
        "Total": labels.money(row["total_cents"]),
    }
    said = tag("p", "Thank you. Your order has been placed.", role="status") if thanks else ""
    ends = [_return_cell(row, one, now) for one in items]
    return framed(f"Order {row['number']}", viewer, said, listing(facts), _lines(items, ends))


def return_form(
    viewer: Viewer, row: sqlite3.Row, item: OrderItem, now: str, fields: Mapping[str, str], error: str = ""
) -> Html:
    """The form that sends a line of an order back."""
    title = f"Return {item.name}"
    if why := no_return(row["status"], row["placed_on"], now, item):
        return framed(title, viewer, alert(error or f"This cannot be returned: {why}."))
    most = item.quantity - item.returned
    form = post_form(
        return_path(row["number"], item.id),
        viewer.csrf,
        field(labels.QUANTITY, "quantity", fields.get("quantity", "1"), type_="number", min=1, max=most),
        drop_down(labels.REASON, "reason", {"": labels.CHOOSE} | dict(labels.REASONS), fields.get("reason", "")),
        button(labels.REQUEST_RETURN),
    )
    about = tag("p", f"Order {row['number']}, {most} can be returned.")
    return framed(title, viewer, alert(error), about, form)


def return_path(number: str, line: int) -> str:
    """The path of the form that sends a line back."""
    return f"/orders/{number}/lines/{line}/return"


def order_link(row: sqlite3.Row) -> Html:
    """A link to an order."""
    return link(f"/orders/{row['number']}", f"Order {row['number']}")


def address_label(row: sqlite3.Row) -> str:
    """An address with its label."""
    return labels.address_label(row["label"], row["street"], row["postcode"], row["city"])


def _amount(viewer: Viewer, item: OrderItem) -> Html:
    number = tag("input", name="quantity", type="number", min=1, max=99, value=item.quantity,
                 aria_label=f"Quantity of {item.name}")  # fmt: skip
    return post_form(f"/cart/{item.id}/quantity", viewer.csrf, number, button("Update", f"Update {item.name}"))


def _remove(viewer: Viewer, item: OrderItem) -> Html:
    return post_form(f"/cart/{item.id}/remove", viewer.csrf, button("Remove", f"Remove {item.name}"))


def _address_links(viewer: Viewer, row: sqlite3.Row) -> Html:
    assert viewer.user is not None
    edit = link(f"/addresses/{row['id']}", f"Edit {row['label']}")
    if viewer.user["default_address"] == row["id"]:
        return join_markup((edit, " (default)"))
    text = f"Make {row['label']} the default"
    return join_markup((edit, " ", post_form(f"/addresses/{row['id']}/default", viewer.csrf, button(text))))


def _lines(items: Sequence[OrderItem], ends: Sequence[Child] = ()) -> Html:
    rows = [
        (one.name, labels.money(one.price_cents), one.quantity, labels.money(one.total_cents), *ends[place : place + 1])
        for place, one in enumerate(items)
    ]
    return table(("Product", "Price", "Quantity", "Total", *(["Returns"] if ends else [])), rows)


def _return_cell(row: sqlite3.Row, item: OrderItem, now: str) -> Html:
    sent = f"{item.returned} returned. " if item.returned else ""
    if why := no_return(row["status"], row["placed_on"], now, item):
        return join_markup((sent, f"No return: {why}"))
    return join_markup((sent, link(return_path(row["number"], item.id), f"Return {item.name}")))
