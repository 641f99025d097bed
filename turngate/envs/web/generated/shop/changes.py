"""The changes that a customer can make in the shop. Each change is made whole or not at all, and checked against the
database: prices, stock and whose something is never come from a form."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from turngate.envs.web.generated.shop import queries
from turngate.envs.web.generated.shop.labels import DELIVERIES
from turngate.envs.web.generated.shop.shop_tables import transaction

MOST_QUANTITY = 99
"""Most pieces of one line."""
_FIRST_NUMBER = 1000


class Refused(Exception):
    """The shop refuses the request of a form; the page shows the message."""


class Missing(Exception):
    """The object of a request does not exist, or is another customer's."""


def add_to_cart(db: sqlite3.Connection, user: int, product: int, options: Mapping[str, str], quantity: int) -> None:
    """Put a variant into the cart, beside those of it that are in there. Raises Refused, Missing."""
    found = queries.offer(db, product)
    if found is None:
        raise Missing
    variant = next((id_ for id_, (chosen, _) in found.variants.items() if chosen == dict(options)), None)
    if variant is None:
        raise Refused("This combination does not exist.")
    line = db.execute("SELECT * FROM cart_lines WHERE user_id = ? AND variant_id = ?", (user, variant)).fetchone()
    total = quantity + (line["quantity"] if line else 0)
    _check_stock(found.variants[variant][1], total)
    if line:
        db.execute("UPDATE cart_lines SET quantity = ? WHERE id = ?", (total, line["id"]))
    else:
        db.execute("INSERT INTO cart_lines (user_id, variant_id, quantity) VALUES (?, ?, ?)", (user, variant, quantity))


def set_quantity(db: sqlite3.Connection, user: int, line: int, quantity: int) -> None:
    """Change a line of the cart. Raises Refused, Missing."""
    item = _cart_line(db, user, line)
    _check_stock(item.stock, quantity)
    db.execute("UPDATE cart_lines SET quantity = ? WHERE id = ?", (quantity, item.id))


def remove_line(db: sqlite3.Connection, user: int, line: int) -> None:
    """Take a line out of the cart. Raises Missing."""
    db.execute("DELETE FROM cart_lines WHERE id = ?", (_cart_line(db, user, line).id,))


def choose_checkout(db: sqlite3.Connection, user: int, address: int, delivery: str, payment: str) -> None:
    """Note where to and how the cart is to be sent and paid; nothing is ordered yet. Raises Refused."""
    if queries.address(db, user, address) is None:
        raise Refused("Choose one of your addresses.")
    db.execute("INSERT OR REPLACE INTO checkouts VALUES (?, ?, ?, ?)", (user, address, delivery, payment))


def place_order(db: sqlite3.Connection, user: int) -> str:
    """Order the cart as the checkout was filled in, and return the number of the order. Raises Refused."""
    with transaction(db):
        chosen, items = queries.draft(db, user), queries.cart(db, user)
        to = queries.address(db, user, chosen["address_id"]) if chosen else None
        if not items:
            raise Refused("Your cart is empty.")
        if chosen is None or to is None:
            raise Refused("Fill in the checkout first.")
        for item in items:
            _check_stock(item.stock, item.quantity, item.name)
        _, delivery_cents = DELIVERIES[chosen["delivery"]]
        total = delivery_cents + sum(item.total_cents for item in items)
        (last,) = db.execute("SELECT coalesce(max(id), 0) FROM orders").fetchone()
        number = f"W{_FIRST_NUMBER + last + 1}"
        db.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?, 'placed', ?, ?, ?, ?, ?, ?, ?, ?)",
            (last + 1, number, user, queries.today(db), to["id"], to["street"], to["postcode"], to["city"],
             chosen["delivery"], delivery_cents, chosen["payment"], total),
        )  # fmt: skip
        for item in items:
            db.execute(
                "INSERT INTO order_lines (order_id, variant_id, quantity, price_cents) VALUES (?, ?, ?, ?)",
                (last + 1, item.variant, item.quantity, item.price_cents),
            )
            db.execute("UPDATE variants SET stock = stock - ? WHERE id = ?", (item.quantity, item.variant))
        db.execute("DELETE FROM cart_lines WHERE user_id = ?", (user,))
        db.execute("DELETE FROM checkouts WHERE id = ?", (user,))
    return number


def save_address(db: sqlite3.Connection, user: int, id_: int | None, fields: Mapping[str, str]) -> None:
    """Change an address, or add one. Raises Refused for a label that another address has, Missing."""
    known = queries.addresses(db, user)
    if id_ is not None and not any(row["id"] == id_ for row in known):
        raise Missing
    if any(row["label"].casefold() == fields["label"].casefold() and row["id"] != id_ for row in known):
        raise Refused("Another address has this label.")
    values = tuple(fields[name] for name in ("label", "street", "postcode", "city"))
    if id_ is None:
        db.execute(
            "INSERT INTO addresses (user_id, label, street, postcode, city) VALUES (?, ?, ?, ?, ?)", (user, *values)
        )
    else:
        db.execute("UPDATE addresses SET label = ?, street = ?, postcode = ?, city = ? WHERE id = ?", (*values, id_))


def set_default_address(db: sqlite3.Connection, user: int, id_: int) -> None:
    """Make an address the one that the checkout begins with. Raises Missing."""
    if queries.address(db, user, id_) is None:
        raise Missing
    db.execute("UPDATE users SET default_address = ? WHERE id = ?", (id_, user))


def request_return(db: sqlite3.Connection, user: int, number: str, line: int, quantity: int, reason: str) -> None:
    """Send so many pieces of a line of an order back. Raises Refused, Missing."""
    with transaction(db):
        order = queries.order(db, user, number)
        item = next((one for one in queries.order_items(db, order["id"]) if one.id == line), None) if order else None
        if order is None or item is None:
            raise Missing
        now = queries.today(db)
        if why := queries.no_return(order["status"], order["placed_on"], now, item):
            raise Refused(f"This cannot be returned: {why}.")
        if quantity > item.quantity - item.returned:
            raise Refused(f"You can return {item.quantity - item.returned} at most.")
        db.execute(
            "INSERT INTO returns (order_line_id, quantity, reason, requested_on) VALUES (?, ?, ?, ?)",
            (line, quantity, reason, now),
        )


def _cart_line(db: sqlite3.Connection, user: int, line: int) -> queries.OrderItem:
    item = next((one for one in queries.cart(db, user) if one.id == line), None)
    if item is None:
        raise Missing
    return item


def _check_stock(stock: int, quantity: int, name: str = "") -> None:
    """Raises Refused where there is not enough."""
    which = f" of {name}" if name else ""
    if stock == 0:
        raise Refused(f"Sold out{f': {name}' if name else ''}.")
    if quantity > stock:
        raise Refused(f"There are only {stock}{which} in stock.")
    if quantity > MOST_QUANTITY:
        raise Refused(f"You can order {MOST_QUANTITY}{which} at most.")
