"""The shop's database queries for its pages. A customer's text is always passed as a parameter, never as SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from turngate.envs.web.generated.shop.labels import RETURN_DAYS, line_name

PAGE_SIZE = 10
"""Products on one page of results."""
_ORDER = {
    "name": "name, id",
    "price": "price_cents, name",
    "price_down": "price_cents DESC, name",
    "rating": "rating DESC, name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """A search. ``words``: each of them begins a word of the product's name, category or attributes."""

    words: tuple[str, ...] = ()
    category: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    min_cents: int | None = None
    max_cents: int | None = None
    min_rating: int | None = None
    sort: str = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A product as its page shows it. ``variants``: id → its options, and its stock."""

    id: int
    name: str
    category: str
    price_cents: int
    rating: int
    reviews: int
    attributes: Mapping[str, str]
    variants: Mapping[int, tuple[Mapping[str, str], int]] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, Sequence[str]]:
        """Name → its values, each once."""
        found: dict[str, dict[str, None]] = {}
        for chosen, _ in self.variants.values():
            for name, value in chosen.items():
                found.setdefault(name, {})[value] = None
        return {name: list(values) for name, values in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderItem:
    """A line of a cart or of an order. ``id``: that of the line. ``returned``: how many of it were sent back."""

    id: int
    product: int
    variant: int
    name: str
    quantity: int
    price_cents: int
    stock: int = 0
    returned: int = 0

    @property
    def total_cents(self) -> int:
        """The price of all of it."""
        return self.quantity * self.price_cents


def search_words(text: str) -> tuple[str, ...]:
    """The words of a search, in lower case and without a plural's s."""
    words = ("".join(letter for letter in word if letter.isalnum()) for word in text.lower().split())
    return tuple(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words if word)


def search(db: sqlite3.Connection, filters: Filters) -> list[int]:
    """The ids of the products that fit, in order."""
    wheres, values = ["1"], list[str | int]()
    for word in filters.words:
        wheres.append("instr(words, ?) > 0")
        values.append(f" {word}")
    if filters.category:
        wheres.append("category = ?")
        values.append(filters.category)
    for name, value in filters.attributes.items():
        wheres.append("id IN (SELECT product_id FROM attributes WHERE name = ? AND value = ?)")
        values += [name, value]
    for where, bound in (
        ("price_cents >= ?", filters.min_cents),
        ("price_cents <= ?", filters.max_cents),
        ("rating >= ?", filters.min_rating),
    ):
        if bound is not None:
            wheres.append(where)
            values.append(bound)
    found = db.execute(f"SELECT id FROM products WHERE {' AND '.join(wheres)} ORDER BY {_ORDER[filters.sort]}", values)
    return [row["id"] for row in found]


def offer(db: sqlite3.Connection, product: int) -> Offer | None:
    """The product of that id; None if there is none."""
    found = summary(db, product)
    if found is None:
        return None
    rows = db.execute(
        "SELECT variants.id, stock, name, value FROM variants LEFT JOIN choices ON variant_id = variants.id "
        "WHERE product_id = ? ORDER BY variants.id, choices.id",
        (product,),
    )
    variants: dict[int, tuple[dict[str, str], int]] = {}
    for row in rows:
        options, _ = variants.setdefault(row["id"], ({}, row["stock"]))
        if row["name"] is not None:
            options[row["name"]] = row["value"]
    return replace(found, variants=variants)


def summary(db: sqlite3.Connection, product: int) -> Offer | None:
    """The product without its variants, as a list of results shows it; None if there is none."""
    row = db.execute("SELECT * FROM products WHERE id = ?", (product,)).fetchone()
    if row is None:
        return None
    attributes = db.execute("SELECT name, value FROM attributes WHERE product_id = ? ORDER BY id", (product,))
    return Offer(
        id=row["id"],
        name=row["name"],
        category=row["category"],
        price_cents=row["price_cents"],
        rating=row["rating"],
        reviews=row["reviews"],
        attributes={one["name"]: one["value"] for one in attributes},
    )


def options_of(db: sqlite3.Connection, variant: int) -> dict[str, str]:
    """The options of a variant."""
    found = db.execute("SELECT name, value FROM choices WHERE variant_id = ? ORDER BY id", (variant,))
    return {one["name"]: one["value"] for one in found}


def categories(db: sqlite3.Connection) -> list[str]:
    """The categories that hold something."""
    return [row["category"] for row in db.execute("SELECT DISTINCT category FROM products ORDER BY category")]


def signed_in(db: sqlite3.Connection, token: str) -> sqlite3.Row | None:
    """The customer whose session it is, with its ``csrf`` token; None if there is no such session."""
    row: sqlite3.Row | None = db.execute(
        "SELECT users.*, sessions.csrf FROM sessions JOIN users ON users.id = user_id WHERE token = ?", (token,)
    ).fetchone()
    return row


def cart(db: sqlite3.Connection, user: int) -> list[OrderItem]:
    """The lines of a cart."""
    found = db.execute(
        "SELECT cart_lines.id, variant_id, quantity, stock, product_id, name, price_cents FROM cart_lines "
        "JOIN variants ON variants.id = variant_id JOIN products ON products.id = product_id "
        "WHERE user_id = ? ORDER BY cart_lines.id",
        (user,),
    ).fetchall()
    return [
        OrderItem(
            id=row["id"],
            product=row["product_id"],
            variant=row["variant_id"],
            name=line_name(row["name"], options_of(db, row["variant_id"])),
            quantity=row["quantity"],
            price_cents=row["price_cents"],
            stock=row["stock"],
        )
        for row in found
    ]


def addresses(db: sqlite3.Connection, user: int) -> list[sqlite3.Row]:
    """The addresses of a customer."""
    return db.execute("SELECT * FROM addresses WHERE user_id = ? ORDER BY id", (user,)).fetchall()


def address(db: sqlite3.Connection, user: int, id_: int) -> sqlite3.Row | None:
    """An address of a customer; None for that of another one."""
    return next((row for row in addresses(db, user) if row["id"] == id_), None)


def draft(db: sqlite3.Connection, user: int) -> sqlite3.Row | None:
    """The customer's choices in the checkout; None: none yet."""
    row: sqlite3.Row | None = db.execute("SELECT * FROM checkouts WHERE id = ?", (user,)).fetchone()
    return row


def orders(db: sqlite3.Connection, user: int) -> list[sqlite3.Row]:
    """The orders of a customer, the latest first."""
    return db.execute("SELECT * FROM orders WHERE user_id = ? ORDER BY placed_on DESC, id DESC", (user,)).fetchall()


def order(db: sqlite3.Connection, user: int, number: str) -> sqlite3.Row | None:
    """The order of that number; None for that of another customer."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM orders WHERE user_id = ? AND number = ?", (user, number)
    ).fetchone()
    return row


def order_items(db: sqlite3.Connection, order_id: int) -> list[OrderItem]:
    """The lines of an order."""
    found = db.execute(
        "SELECT order_lines.id, variant_id, quantity, order_lines.price_cents, product_id, name, "
        "(SELECT coalesce(sum(quantity), 0) FROM returns WHERE order_line_id = order_lines.id) AS returned "
        "FROM order_lines JOIN variants ON variants.id = variant_id JOIN products ON products.id = product_id "
        "WHERE order_id = ? ORDER BY order_lines.id",
        (order_id,),
    ).fetchall()
    return [
        OrderItem(
            id=row["id"],
            product=row["product_id"],
            variant=row["variant_id"],
            name=line_name(row["name"], options_of(db, row["variant_id"])),
            quantity=row["quantity"],
            price_cents=row["price_cents"],
            returned=row["returned"],
        )
        for row in found
    ]


def today(db: sqlite3.Connection) -> str:
    """The date of the episode."""
    text: str = db.execute("SELECT today FROM shop").fetchone()["today"]
    return text


def no_return(status: str, placed_on: str, now: str, item: OrderItem) -> str:
    """Why a line of an order cannot be sent back; "" if it can."""
    if status != "delivered":
        return "not delivered yet"
    if (date.fromisoformat(now) - date.fromisoformat(placed_on)).days > RETURN_DAYS:
        return f"ordered more than {RETURN_DAYS} days ago"
    if item.returned >= item.quantity:
        return "already returned"
    return ""
