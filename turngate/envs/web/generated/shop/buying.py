"""Families of tasks that buy something: by its name, by its description, several things, the best of its kind, and
within a budget."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.envs.web.generated.shop import labels, plans, wordings
from turngate.envs.web.generated.shop.catalogue import Product, Variant
from turngate.envs.web.generated.shop.goods import CATEGORIES
from turngate.envs.web.generated.shop.pages import RATING_STEPS
from turngate.envs.web.generated.shop.records import End, PlanStep, ShopGoal, Want, WantedOrder
from turngate.envs.web.generated.shop.scenes import MOST_ENDS, Choice, ShopScene, TaskDraft, right_orders
from turngate.envs.web.generated.shop.wants import fits

_LIMITED = 0.7  # share of the single purchases that name a price
_OPEN_OPTION = 0.25  # share of the described products of which an option is left open
_BUY = ("Buy {}.", "Order {}.", "Please get me {}.", "I need {}; order it.")
_BUY_ALL = ("Order in one go: {}.", "Buy all of this in one order: {}.", "I need these things, in a single order: {}.")
_CHEAPEST = ("Buy the cheapest {}{}.", "Of every {}{}, order the one with the lowest price.")
_BEST = ("Buy the best rated {}{}.", "Order the {}{} that has the highest rating.")
_BUDGET = (
    "Buy {} in one order. Together they may cost at most {}, without delivery.",
    "Order {} at once. Without delivery the total must not be more than {}.",
)


def buy_named(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """A product by its name, with its options, often below a price. Impossible: sold out, or it costs too much."""
    rng = scene.rng
    variant = rng.pick(scene.goods.variants)
    limit = _limit(scene, variant, possible or not variant.stock) if rng.uniform() < _LIMITED else None
    want = _named(variant, below_cents=limit)
    ends = right_orders(scene.goods, (want,), WantedOrder(lines=()))
    if bool(ends) is not possible:
        return None
    text = rng.pick(_BUY).format(wordings.describe_want(rng, want))
    look = plans.find_product(scene, variant, variant.product.name)
    return _purchase(scene, text, (want,), ends, ends[0] if ends else None, look)


def buy_described(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """The only product of its kind that has certain attributes. Impossible: none has all that is asked for."""
    rng = scene.rng
    variant = rng.pick(scene.goods.variants)
    want = _described(scene, variant, possible)
    ends = right_orders(scene.goods, (want,), WantedOrder(lines=()))
    if len(ends) != possible:
        return None
    text = rng.pick(_BUY).format(wordings.describe_want(rng, want))
    look = plans.find_product(scene, _first(scene, ends[0])[0], want.kind) if ends else plans.search(want.kind)
    return _purchase(scene, text, (want,), ends, ends[0] if ends else None, look)


def buy_several(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """Two or three products at once, to an address and in a way that are said. Impossible: one of them is."""
    rng, account = scene.rng, scene.account
    variants = [_of_kind(scene, kind) for kind in rng.sample(scene.goods.kinds, rng.whole(2, 3))]
    wants = []
    for place, variant in enumerate(variants):
        quantity = rng.whole(1, 3) if variant.stock >= 3 else 1
        fitting = possible or place > 0  # the first one is what cannot be had
        named = rng.uniform() < 0.5
        want = _named(variant, below_cents=_limit(scene, variant, fitting) if not fitting else None) if named else None
        wants.append((want or _described(scene, variant, fitting)).model_copy(update={"quantity": quantity}))
    address = rng.pick(account.addresses) if rng.uniform() < 0.7 else None
    delivery = rng.pick(tuple(labels.DELIVERIES)) if address is None or rng.uniform() < 0.6 else None
    payment = rng.pick(tuple(labels.PAYMENTS)) if rng.uniform() < 0.4 else None
    order = WantedOrder(lines=(), address=address.id if address else None, delivery=delivery, payment=payment)
    wants = rng.shuffled(wants)
    ends = right_orders(scene.goods, tuple(wants), order)
    if len(ends) != possible:
        return None
    parts = wordings.listed([wordings.describe_want(rng, want) for want in wants])
    text = rng.pick(_BUY_ALL).format(parts) + wordings.checkout_clauses(
        rng, address.label if address else "", delivery, payment
    )
    missing = [want for want in wants if not right_orders(scene.goods, (want,), WantedOrder(lines=()))]
    look = plans.search(missing[0].name or missing[0].kind) if missing else []
    return _purchase(scene, text, tuple(wants), ends, ends[0] if ends else None, look)


def compare(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """The cheapest product of a kind that is rated high enough, or the best rated one below a price."""
    rng = scene.rng
    cheapest = rng.uniform() < 0.5
    choice: Choice = "cheapest" if cheapest else "best_rated"
    target = rng.pick(scene.goods.products)
    attributes = _attributes(scene, target, 1) if rng.uniform() < 0.4 else {}
    want = Want(kind=target.kind, attributes=attributes)
    if cheapest:
        steps = [step for step in RATING_STEPS if (step <= target.rating) is possible]
        bound = {"min_rating": rng.pick(steps)} if steps else None
    else:
        low = min(one.price_cents for one in scene.goods.products if one.kind == target.kind)
        bound = {"below_cents": target.price_cents + rng.whole(1, 900) if possible else low - rng.whole(0, 99)}
    if bound is None:
        return None
    want = want.model_copy(update=bound)
    ends = right_orders(scene.goods, (want,), WantedOrder(lines=()), choice=choice)
    if len(ends) != possible or (ends and not _telling(scene, want, choice, ends[0])):
        return None
    noun = wordings.described(want)
    if cheapest:
        clause = f" with a rating of at least {labels.stars(want.min_rating or 0)}"
    else:
        clause = f" that costs less than {labels.money(want.below_cents or 0)}"
    text = rng.pick(_CHEAPEST if cheapest else _BEST).format(noun, clause)
    sort, rating = ("price", want.min_rating) if cheapest else ("rating", None)
    if ends:
        look = plans.find_product(scene, _first(scene, ends[0])[0], want.kind, sort=sort, min_rating=rating)
    else:
        look = [*plans.search(want.kind), *plans.narrowed(sort, rating)]
    return _purchase(scene, text, (want,), ends, ends[0] if ends else None, look)


def budget(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """One of each of two or three kinds, well enough rated, for no more than a sum in all."""
    rng = scene.rng
    kinds = rng.sample(scene.goods.kinds, rng.whole(2, 3))
    wants = tuple(Want(kind=kind, min_rating=rng.pick((None, None, *RATING_STEPS[:2]))) for kind in kinds)
    all_ = right_orders(scene.goods, wants, WantedOrder(lines=()))
    totals = sorted(_total(scene, end) for end in all_)
    if len(totals) < 2 * MOST_ENDS:
        return None
    if possible:
        place = rng.whole(1, MOST_ENDS)
        limit = rng.whole(totals[place - 1], totals[place] - 1) if totals[place - 1] < totals[place] else 0
    else:
        limit = totals[0] - rng.whole(1, 500)
    if limit <= 0:
        return None
    ends = right_orders(scene.goods, wants, WantedOrder(lines=()), budget=limit)
    if bool(ends) is not possible or len(ends) > MOST_ENDS:
        return None
    parts = wordings.listed([wordings.describe_want(rng, want) for want in wants])
    text = rng.pick(_BUDGET).format(parts, labels.money(limit))
    if not ends:
        look = [step for want in wants for step in _by_price(want)]
        return _purchase(scene, text, wants, ends, None, look)
    return _purchase(scene, text, wants, ends, ends[0], [], by_price=True)


# --- what they are made of --------------------------------------------------------------------------------------------


def _purchase(
    scene: ShopScene, text: str, wants: tuple[Want, ...], ends: Sequence[End], shown: End | None, look: list[PlanStep],
    *, by_price: bool = False,
) -> TaskDraft:  # fmt: skip
    """The task of buying ``wants``. ``shown``: the end to which the plan leads; None: to giving up after ``look``.
    ``look``: the steps to the first product; none: the plan searches for each of them."""
    if shown is None or shown.order is None:
        plan = (*look, plans.GIVEN_UP)
        return TaskDraft(text=text, goal=ShopGoal(wants=wants), plan=plan, account=scene.account)
    steps: list[PlanStep] = []
    for variant, want in zip(_first(scene, shown), wants, strict=True):
        if by_price:
            steps += look or plans.find_product(scene, variant, want.kind, sort="price", min_rating=want.min_rating)
        else:
            steps += look or plans.find_product(scene, variant, want.name or want.kind)
        steps += plans.added(variant, want.quantity)
    steps += plans.check_out(scene.account, shown.order)
    return TaskDraft(text=text, goal=ShopGoal(ends=tuple(ends), wants=wants), plan=tuple(steps), account=scene.account)


def _by_price(want: Want) -> list[PlanStep]:
    return [*plans.search(want.kind), *plans.narrowed("price", want.min_rating)]


def _first(scene: ShopScene, end: End) -> list[Variant]:
    """The first of the right variants of each line."""
    assert end.order is not None
    return [scene.goods.variant(line.variants[0]) for line in end.order.lines]


def _of_kind(scene: ShopScene, kind: str) -> Variant:
    return scene.rng.pick([one for one in scene.goods.variants if one.product.kind == kind])


def _named(variant: Variant, below_cents: int | None) -> Want:
    product_ = variant.product
    return Want(kind=product_.kind, name=product_.name, options=dict(variant.options), below_cents=below_cents)


def _described(scene: ShopScene, variant: Variant, possible: bool) -> Want:
    """A description that fits ``variant``; if it shall be impossible, with another attribute or a price that is too
    low."""
    rng, product_ = scene.rng, variant.product
    attributes = _attributes(scene, product_, rng.whole(1, 3))
    options = dict(variant.options)
    if options and possible and rng.uniform() < _OPEN_OPTION:
        del options[rng.pick(tuple(options))]
    want = Want(kind=product_.kind, attributes=attributes, options=options)
    if possible and rng.uniform() < _LIMITED:
        return want.model_copy(update={"below_cents": _limit(scene, variant, True)})
    if possible:
        return want
    if rng.uniform() < 0.5:
        name = rng.pick(tuple(attributes))
        values = CATEGORIES[product_.category].attributes[name]
        return want.model_copy(update={"attributes": attributes | {name: rng.pick(values)}})
    same = [one.product.price_cents for one in scene.goods.variants if fits(want, one)]
    return want.model_copy(update={"below_cents": max(1, min(same) - rng.whole(0, 300))})


def _attributes(scene: ShopScene, product_: Product, count: int) -> dict[str, str]:
    """So many attributes of a product, in the order in which English says them."""
    chosen = scene.rng.sample(tuple(product_.attributes), count)
    return {name: value for name, value in product_.attributes.items() if name in chosen}


def _limit(scene: ShopScene, variant: Variant, fitting: bool) -> int:
    """A price below which a product can be had, or not."""
    price = variant.product.price_cents
    if fitting:
        return price + scene.rng.whole(1, max(2, price // 4))
    return max(1, price - scene.rng.whole(0, max(1, price // 4)))


def _total(scene: ShopScene, end: End) -> int:
    assert end.order is not None
    lines = zip(_first(scene, end), end.order.lines, strict=True)
    return sum(variant.product.price_cents * line.quantity for variant, line in lines)


def _telling(scene: ShopScene, want: Want, choice: Choice, end: End) -> bool:
    """Whether the bound of a comparison matters, and the result would be the same if nothing were sold out."""
    bare = want.model_copy(update={"min_rating": None, "below_cents": None})
    without = right_orders(scene.goods, (bare,), WantedOrder(lines=()), choice=choice)
    any_stock = want.model_copy(update={"quantity": 0})
    in_stock_or_not = right_orders(scene.goods, (any_stock,), WantedOrder(lines=()), choice=choice)
    right = {one.product.id for one in _first(scene, end)}

    def products(ends: Sequence[End]) -> set[int]:
        return {one.product.id for some in ends for one in _first(scene, some)}

    return products(without) != right and products(in_stock_or_not) == right
