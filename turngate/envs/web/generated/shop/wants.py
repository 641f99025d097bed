"""What an instruction says of a product, compared with what there is."""

from __future__ import annotations

from turngate.envs.web.generated.shop.catalogue import ShopCatalogue, Variant
from turngate.envs.web.generated.shop.records import Want


def conditions(want: Want, variant: Variant) -> list[bool]:
    """Each thing that ``want`` says of the product, and whether it holds: kind, name, attributes, options, price,
    rating, in this order, those that it says nothing of left out."""
    product = variant.product
    found = [product.kind == want.kind]
    if want.name:
        found.append(product.name == want.name)
    found += [product.attributes.get(name) == value for name, value in want.attributes.items()]
    found += [variant.options.get(name) == value for name, value in want.options.items()]
    if want.below_cents is not None:
        found.append(product.price_cents < want.below_cents)
    if want.min_rating is not None:
        found.append(product.rating >= want.min_rating)
    return found


def n_conditions(want: Want) -> int:
    """How many things ``want`` says of the product."""
    bounds = (want.name, want.below_cents is not None, want.min_rating is not None)
    return 1 + len(want.attributes) + len(want.options) + sum(map(bool, bounds))


def fits(want: Want, variant: Variant) -> bool:
    """Whether a variant is all that ``want`` says, whether or not there are enough of it."""
    return all(conditions(want, variant))


def matching(goods: ShopCatalogue, want: Want) -> list[Variant]:
    """The variants that fit and of which there are enough."""
    return [variant for variant in goods.variants if variant.stock >= want.quantity and fits(want, variant)]
