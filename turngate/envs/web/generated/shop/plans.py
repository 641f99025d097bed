"""Plans: the steps that solve a task, in the words of the pages, from the shop's first page on."""

from __future__ import annotations

from turngate.envs.web.generated.shop import labels, queries
from turngate.envs.web.generated.shop.catalogue import Variant
from turngate.envs.web.generated.shop.grading import IMPOSSIBLE
from turngate.envs.web.generated.shop.pages import rating_choice
from turngate.envs.web.generated.shop.records import Address, PlanStep, ShopAccount, WantedOrder
from turngate.envs.web.generated.shop.scenes import ShopScene
from turngate.envs.web.generated.shop.shop_tables import open_catalogue
from turngate.envs.web.generated.shop.wordings import DONE

FINISHED, GIVEN_UP = PlanStep(kind="answer", value=DONE), PlanStep(kind="answer", value=IMPOSSIBLE)


def link(name: str) -> PlanStep:
    """Follow a link."""
    return PlanStep(kind="click", role="link", name=name)


def button(name: str) -> PlanStep:
    """Press a button."""
    return PlanStep(kind="click", role="button", name=name)


def amount(name: str, quantity: int) -> PlanStep:
    """Write a number into a field."""
    return PlanStep(kind="fill", role="spinbutton", name=name, value=str(quantity))


def text(name: str, value: str) -> PlanStep:
    """Write a text into a field."""
    return PlanStep(kind="fill", role="textbox", name=name, value=value)


def choose_option(name: str, value: str) -> PlanStep:
    """Choose one of a list."""
    return PlanStep(kind="select", role="combobox", name=name, value=value)


def search(words: str) -> list[PlanStep]:
    """Search for words."""
    return [PlanStep(kind="fill", role="searchbox", name=labels.SEARCH, value=words), button(labels.SEARCH)]


def narrowed(sort: str, min_rating: int | None) -> list[PlanStep]:
    """Sort the results, and leave out products with a lower rating."""
    steps = [] if min_rating is None else [choose_option(labels.MIN_RATING, rating_choice(min_rating))]
    return [*steps, choose_option(labels.SORT_BY, labels.SORTS[sort]), button(labels.APPLY)]


def find_product(
    scene: ShopScene, variant: Variant, words: str, *, sort: str = "", min_rating: int | None = None
) -> list[PlanStep]:
    """Search for words, sort and filter if ``sort`` says so, and open the page of the product."""
    filters = queries.Filters(
        words=queries.search_words(words), sort=sort or "name", min_rating=min_rating if sort else None
    )
    db = open_catalogue(scene.split, scene.number, scene.products)
    place = queries.search(db, filters).index(variant.product.id)
    db.close()
    turns = [link(labels.NEXT_PAGE)] * (place // queries.PAGE_SIZE)
    more = narrowed(sort, min_rating) if sort else []
    return [*search(words), *more, *turns, link(variant.product.name)]


def added(variant: Variant, quantity: int) -> list[PlanStep]:
    """On the page of a product: choose its options and put it into the cart."""
    steps = [choose_option(name, value) for name, value in variant.options.items()]
    if quantity != 1:
        steps.append(amount(labels.QUANTITY, quantity))
    return [*steps, button(labels.ADD_TO_CART)]


def check_out(account: ShopAccount, order: WantedOrder) -> list[PlanStep]:
    """From the cart on: the checkout as ``order`` has it, to the end."""
    steps = [link(labels.TO_CHECKOUT)]
    if order.address is not None and order.address != account.default_address:
        steps.append(radio(address_name(next(one for one in account.addresses if one.id == order.address))))
    if order.delivery not in (None, "standard"):
        steps.append(radio(labels.delivery_label(str(order.delivery))))
    if order.payment not in (None, "card"):
        steps.append(radio(labels.PAYMENTS[str(order.payment)]))
    return [*steps, button(labels.REVIEW), button(labels.PLACE_ORDER), FINISHED]


def radio(name: str) -> PlanStep:
    """Choose a radio button."""
    return PlanStep(kind="click", role="radio", name=name)


def address_name(address: Address) -> str:
    """An address as the checkout writes it."""
    return labels.address_label(address.label, address.street, address.postcode, address.city)
