"""Made-up customers: who they are, their addresses, and what they ordered before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.shop.catalogue import ShopCatalogue
from turngate.envs.web.generated.shop.labels import DELIVERIES, PAYMENTS, RETURN_DAYS
from turngate.envs.web.generated.shop.records import Address, CartLine, PastOrder, ShopAccount
from turngate.envs.word_names import word_names

ADDRESS_LABELS = ("Home", "Work", "Parents", "Studio", "Cabin", "Office", "School")
_FIRST = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jan Kim Lea".split()
_LAST = {
    "train": "Ash Baker Carter Elm Fisher Glover".split(),
    "heldout": "Mason Oakley Potter Rowan Tanner Yew".split(),
}
_FIRST_DAY = date(2031, 3, 1)
_DAYS = ((1, 3), (5, RETURN_DAYS - 2), (5, RETURN_DAYS - 2), (RETURN_DAYS + 5, 90))
"""How many days ago the orders of an account were placed, from and to."""
_SHIPPED_AFTER = 3
MOST_IN_CART = 4


def new_day(rng: SeededRandom) -> str:
    """The date of an episode."""
    return (_FIRST_DAY + timedelta(days=rng.whole(0, 300))).isoformat()


def days_before(today: str, days: int) -> str:
    """The date so many days before."""
    return (date.fromisoformat(today) - timedelta(days=days)).isoformat()


@dataclass(slots=True)
class Accounts:
    """Makes the accounts of one shop, whose rows have ids of their own."""

    rng: SeededRandom
    split: str
    goods: ShopCatalogue
    today: str
    made: int = 0
    addresses: int = 0
    orders: int = 0
    lines: int = 0

    def new(self) -> ShopAccount:
        """An account with two or three addresses and four orders, the latest of which is not delivered yet."""
        self.made += 1
        first, last = self.rng.pick(_FIRST), self.rng.pick(_LAST["heldout" if self.split == "heldout" else "train"])
        labels = self.rng.sample(ADDRESS_LABELS, self.rng.whole(2, 3))
        addresses = tuple(self._address(label) for label in labels)
        days = sorted({self.rng.whole(low, high) for low, high in _DAYS}, reverse=True)
        return ShopAccount(
            id=self.made,
            name=f"{first} {last}",
            email=f"{first}.{last}.{self.made}@example.org".lower(),
            addresses=addresses,
            default_address=addresses[0].id,
            orders=tuple(self._order(ago, addresses) for ago in days),
        )

    def cart(self) -> tuple[CartLine, ...]:
        """Three or four lines of a cart, each of another kind and all in stock."""
        kinds = self.rng.sample(self.goods.kinds, min(len(self.goods.kinds), self.rng.whole(3, MOST_IN_CART)))
        chosen = [self._in_stock(kind) for kind in kinds]
        return tuple(CartLine(variant=id_, quantity=self.rng.whole(1, min(3, stock))) for id_, stock in chosen)

    def _in_stock(self, kind: str) -> tuple[int, int]:
        left = [one for one in self.goods.variants if one.product.kind == kind and one.stock]
        variant = self.rng.pick(left)
        return variant.id, variant.stock

    def _address(self, label: str) -> Address:
        self.addresses += 1
        return Address(id=self.addresses, label=label, **new_place(self.rng, self.split))

    def _order(self, ago: int, addresses: Sequence[Address]) -> PastOrder:
        self.orders += 1
        delivered = ago > _SHIPPED_AFTER
        variants = self.rng.sample(self.goods.variants, self.rng.whole(1, 3))
        kept = {variant.product.id: variant for variant in variants}  # one line of each product
        return PastOrder(
            id=self.orders,
            number=f"W{1000 + self.orders}",
            placed_on=days_before(self.today, ago),
            status="delivered" if delivered else self.rng.pick(("placed", "shipped")),
            address=self.rng.pick(addresses).id,
            delivery=self.rng.pick(tuple(DELIVERIES)),
            payment=self.rng.pick(tuple(PAYMENTS)),
            lines=tuple(self.line(variant.id, self.rng.whole(1, 3)) for variant in kept.values()),
        )

    def line(self, variant: int, quantity: int) -> CartLine:
        """A line of an order."""
        self.lines += 1
        return CartLine(id=self.lines, variant=variant, quantity=quantity)


def new_place(rng: SeededRandom, split: str) -> dict[str, str]:
    """Street, postcode and city."""
    names = word_names(split)
    return {
        "street": f"{rng.whole(1, 99)} {rng.pick(names)} {rng.pick(('Road', 'Lane', 'Street'))}",
        "postcode": str(rng.whole(10000, 99999)),
        "city": rng.pick(names),
    }
