"""Made-up catalogues: the same split, number and size give the same products on every machine.

A product is called by two common words and its kind ("Fern Mill Kettle"). The two words belong, as a whole, to training
or to the held-out split (see ``word_names``), so no product of a held-out catalogue occurs in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.shop.goods import CATEGORIES, CATEGORY_OF, N_KINDS, OPTIONS
from turngate.envs.word_names import word_names
from turngate.errors import ConfigError

KIND_SIZE = 4
"""Products of a kind in a small catalogue; in one of more than ``KIND_SIZE * N_KINDS`` products there are more."""
LEAST, MOST = 4 * KIND_SIZE, 300
"""Fewest and most products of a catalogue; the held-out split has about 400 names."""
_SOLD_OUT = 0.15  # share of the variants
_MOST_STOCK = 12
_CENTS = (0, 25, 49, 50, 75, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Something that is sold. ``attributes``: name → value. ``options``: name → the values that a buyer chooses from.
    ``rating``: in tenths of a star."""

    id: int
    name: str
    kind: str
    attributes: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]]
    price_cents: int
    rating: int
    reviews: int

    @property
    def category(self) -> str:
        """The category of its kind."""
        return CATEGORY_OF[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A product with a value chosen for each option: what a line of a cart or order holds."""

    id: int
    product: Product
    options: Mapping[str, str]
    stock: int


@dataclass(frozen=True)
class ShopCatalogue:
    """All products of a shop, and their variants in the order of their ids, which begin with 1."""

    products: Sequence[Product]
    variants: Sequence[Variant]

    def variant(self, id_: int) -> Variant:
        """The variant of that id."""
        return self.variants[id_ - 1]

    def variants_of(self, product: Product) -> Sequence[Variant]:
        """The variants of a product."""
        return self._by_product[product.id]

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are sold, each once."""
        return tuple(dict.fromkeys(product.kind for product in self.products))

    @cached_property
    def _by_product(self) -> Mapping[int, list[Variant]]:
        found: dict[int, list[Variant]] = {}
        for variant in self.variants:
            found.setdefault(variant.product.id, []).append(variant)
        return found


@lru_cache(maxsize=256)
def catalogue(split: str, number: int, size: int) -> ShopCatalogue:
    """Catalogue ``number`` of a split, with ``size`` products. Raises ConfigError for a size out of range."""
    if not LEAST <= size <= MOST:
        raise ConfigError(f"products is {size}; a shop has {LEAST} to {MOST} products")
    rng = SeededRandom("shop-catalogue", split, number, size)
    kinds = rng.sample(tuple(CATEGORY_OF), min(N_KINDS, size // KIND_SIZE))
    products: list[Product] = []
    variants: list[Variant] = []
    for place, name in enumerate(rng.sample(word_names(split), size)):
        product = _product(rng, place + 1, name, kinds[place % len(kinds)])
        products.append(product)
        for options in _combinations(product.options):
            stock = 0 if rng.uniform() < _SOLD_OUT else rng.whole(1, _MOST_STOCK)
            variants.append(Variant(id=len(variants) + 1, product=product, options=options, stock=stock))
    return ShopCatalogue(tuple(products), tuple(variants))


def _product(rng: SeededRandom, id_: int, name: str, kind: str) -> Product:
    category = CATEGORIES[CATEGORY_OF[kind]]
    return Product(
        id=id_,
        name=f"{name} {kind.title()}",
        kind=kind,
        attributes={attribute: rng.pick(values) for attribute, values in category.attributes.items()},
        options={option: _some(rng, OPTIONS[option]) for option in category.options},
        price_cents=100 * rng.whole(5, 120) + rng.pick(_CENTS),
        rating=rng.whole(25, 50),
        reviews=rng.whole(1, 400),
    )


def _some(rng: SeededRandom, values: Sequence[str]) -> tuple[str, ...]:
    """Two or three of the values, in their own order."""
    chosen = rng.sample(values, rng.whole(2, 3))
    return tuple(value for value in values if value in chosen)


def _combinations(options: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = [{}]
    for name, values in options.items():
        found = [{**one, name: value} for one in found for value in values]
    return found
