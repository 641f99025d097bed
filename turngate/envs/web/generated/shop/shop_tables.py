"""The shop's database: one SQLite database in memory for each episode, and its contents row by row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeAlias

from turngate.envs.web.generated.shop.catalogue import ShopCatalogue, catalogue
from turngate.envs.web.generated.shop.labels import DELIVERIES
from turngate.envs.web.generated.shop.records import PastOrder, ShopAccount, ShopTask

Value: TypeAlias = str | int
Row: TypeAlias = Mapping[str, Value]
Contents: TypeAlias = Mapping[str, Mapping[int, Row]]
"""Table → id → the row's columns."""

SCHEMA = """
CREATE TABLE shop (id INTEGER PRIMARY KEY, today TEXT NOT NULL);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, category TEXT NOT NULL,
    price_cents INTEGER NOT NULL, rating INTEGER NOT NULL, reviews INTEGER NOT NULL, words TEXT NOT NULL);
CREATE TABLE attributes (id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE variants (id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0));
CREATE TABLE choices (id INTEGER PRIMARY KEY, variant_id INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX attributes_of ON attributes (product_id);
CREATE INDEX variants_of ON variants (product_id);
CREATE INDEX choices_of ON choices (variant_id);
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, default_address INTEGER NOT NULL);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, token TEXT NOT NULL, user_id INTEGER NOT NULL, csrf TEXT NOT NULL);
CREATE TABLE addresses (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, label TEXT NOT NULL, street TEXT NOT NULL,
    postcode TEXT NOT NULL, city TEXT NOT NULL);
CREATE TABLE cart_lines (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, variant_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0), UNIQUE (user_id, variant_id));
CREATE TABLE checkouts (id INTEGER PRIMARY KEY, address_id INTEGER NOT NULL, delivery TEXT NOT NULL,
    payment TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, number TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL,
    placed_on TEXT NOT NULL, status TEXT NOT NULL, address_id INTEGER NOT NULL, street TEXT NOT NULL,
    postcode TEXT NOT NULL, city TEXT NOT NULL, delivery TEXT NOT NULL, delivery_cents INTEGER NOT NULL,
    payment TEXT NOT NULL, total_cents INTEGER NOT NULL);
CREATE TABLE order_lines (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, variant_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0), price_cents INTEGER NOT NULL);
CREATE TABLE returns (id INTEGER PRIMARY KEY, order_line_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0), reason TEXT NOT NULL, requested_on TEXT NOT NULL);
"""
DRAFTS = "checkouts"
"""What a customer has filled in of a checkout: it is no change of the shop until the order is placed."""
MUTABLE = ("cart_lines", DRAFTS, "orders", "order_lines", "returns", "addresses", "users")
"""The tables that a customer can change, stock apart (which follows from the orders)."""


def open_database(task: ShopTask) -> sqlite3.Connection:
    """The shop at the start of ``task``, in memory. Any thread may use it, one at a time."""
    db = open_catalogue(task.split, task.catalogue, task.products)
    goods = catalogue(task.split, task.catalogue, task.products)
    with transaction(db):
        db.execute("INSERT INTO shop VALUES (1, ?)", (task.today,))
        for account in (task.account, task.other):
            _add_account(db, account, goods)
        db.execute("INSERT INTO sessions VALUES (1, ?, ?, ?)", (task.session, task.account.id, task.csrf))
    return db


def open_catalogue(split: str, number: int, products: int) -> sqlite3.Connection:
    """A shop without customers, in memory."""
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.deserialize(_empty_shop(split, number, products))
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All changes inside of it or, if it raises, none."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def contents(db: sqlite3.Connection, tables: Iterable[str] | None = None) -> Contents:
    """Every row of ``tables``; None: of all tables, whatever they are."""
    names = _tables(db) if tables is None else tables
    return {name: {row["id"]: dict(row) for row in db.execute(f"SELECT * FROM {name} ORDER BY id")} for name in names}


def first_contents(db: sqlite3.Connection, task: ShopTask) -> Contents:
    """Every row of a shop that ``open_database`` has just made; goods are read once for each catalogue."""
    goods = _goods(task.split, task.catalogue, task.products)
    return {**goods, **contents(db, [name for name in _tables(db) if name not in goods])}


@lru_cache(maxsize=64)
def _goods(split: str, number: int, products: int) -> Contents:
    db = open_catalogue(split, number, products)
    found = contents(db, ("products", "attributes", "variants", "choices"))
    db.close()
    return found


def _tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [row["name"] for row in found]


@lru_cache(maxsize=64)
def _empty_shop(split: str, number: int, size: int) -> bytes:
    """The database of a catalogue without customers, as SQLite would write it to a file."""
    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    goods = catalogue(split, number, size)
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _products(goods))
    attributes = [(product.id, *pair) for product in goods.products for pair in product.attributes.items()]
    db.executemany("INSERT INTO attributes (product_id, name, value) VALUES (?, ?, ?)", attributes)
    variants = [(variant.id, variant.product.id, variant.stock) for variant in goods.variants]
    db.executemany("INSERT INTO variants VALUES (?, ?, ?)", variants)
    choices = [(variant.id, *pair) for variant in goods.variants for pair in variant.options.items()]
    db.executemany("INSERT INTO choices (variant_id, name, value) VALUES (?, ?, ?)", choices)
    db.commit()
    image = db.serialize()
    db.close()
    return image


def _products(goods: ShopCatalogue) -> Iterator[tuple[Value, ...]]:
    for one in goods.products:
        words = " ".join([one.name, one.category, *one.attributes.values()]).lower()
        yield one.id, one.name, one.kind, one.category, one.price_cents, one.rating, one.reviews, f" {words} "


def _add_account(db: sqlite3.Connection, account: ShopAccount, goods: ShopCatalogue) -> None:
    user = account.id
    db.execute("INSERT INTO users VALUES (?, ?, ?, ?)", (user, account.name, account.email, account.default_address))
    addresses = [(one.id, user, one.label, one.street, one.postcode, one.city) for one in account.addresses]
    db.executemany("INSERT INTO addresses VALUES (?, ?, ?, ?, ?, ?)", addresses)
    for order in account.orders:
        _add_order(db, account, order, goods)
    db.executemany(
        "INSERT INTO returns (order_line_id, quantity, reason, requested_on) VALUES (?, ?, ?, ?)",
        [(one.order_line, one.quantity, one.reason, one.requested_on) for one in account.returns],
    )
    cart = [(user, line.variant, line.quantity) for line in account.cart]
    db.executemany("INSERT INTO cart_lines (user_id, variant_id, quantity) VALUES (?, ?, ?)", cart)


def _add_order(db: sqlite3.Connection, account: ShopAccount, order: PastOrder, goods: ShopCatalogue) -> None:
    to = next(one for one in account.addresses if one.id == order.address)
    _, delivery_cents = DELIVERIES[order.delivery]
    lines = [
        (line.id, order.id, line.variant, line.quantity, goods.variant(line.variant).product.price_cents)
        for line in order.lines
    ]
    total = delivery_cents + sum(quantity * price for *_, quantity, price in lines)
    db.execute(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (order.id, order.number, account.id, order.placed_on, order.status, to.id, to.street, to.postcode, to.city,
         order.delivery, delivery_cents, order.payment, total),
    )  # fmt: skip
    db.executemany("INSERT INTO order_lines VALUES (?, ?, ?, ?, ?)", lines)
