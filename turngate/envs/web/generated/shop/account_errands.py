"""Families of tasks about a customer's existing data: addresses, the cart, and orders that go back."""

from __future__ import annotations

from turngate.envs.web.generated.shop import labels, plans, wordings
from turngate.envs.web.generated.shop.accounts import ADDRESS_LABELS, new_place
from turngate.envs.web.generated.shop.catalogue import Variant
from turngate.envs.web.generated.shop.queries import OrderItem, no_return
from turngate.envs.web.generated.shop.records import (
    Address,
    CartLine,
    End,
    PastOrder,
    PlanStep,
    ReturnRecord,
    ShopAccount,
    ShopGoal,
    Want,
    WantedLine,
    WantedOrder,
    WantedReturn,
)
from turngate.envs.web.generated.shop.scenes import ShopScene, TaskDraft

_MOVE = (
    "Change my address {label}: it is now {street}, {postcode} {city}.",
    "My address {label} has changed to {street}, {postcode} {city}. Update it.",
    "Edit the address {label} in my account so that it reads {street}, {postcode} {city}.",
)
_DEFAULT = (
    "Make {} my default address.",
    "The address {} shall be the default one of my account.",
    "Set my default address to {}.",
)
_REMOVE = (
    "Remove the {} from my cart.",
    "Take the {} out of my cart and leave the rest in it.",
    "Delete the {} from the cart.",
)
_SET = (
    "Change the quantity of the {} in my cart to {}.",
    "I want {1} of the {0} in my cart.",
    "Set the {} in my cart to {} pieces.",
)
_REST = (
    "Remove the {} from my cart and order the rest.",
    "I do not want the {} any more: take it out of the cart, then order what is left.",
)
_AS_IT_IS = ("Order what is in my cart.", "Check out my cart as it is.")
_BACK = (
    "Return {} because: {}.",
    "Send {} back. The reason is: {}.",
    "I want to return {}; reason: {}.",
)


def edit_address(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """An address changes, or becomes the default one. Impossible: there is no address of that label."""
    rng, account = scene.rng, scene.account
    account_page = plans.link(labels.ACCOUNT)
    if possible:
        address = rng.pick(account.addresses)
    else:
        missing = rng.pick([label for label in ADDRESS_LABELS if label not in {one.label for one in account.addresses}])
        address = Address(id=0, label=missing, street="", postcode="", city="")
    if rng.uniform() < 0.35:
        if address.id == account.default_address:
            return None
        text = rng.pick(_DEFAULT).format(address.label)
        steps, end = [plans.button(f"Make {address.label} the default")], End(default_address=address.id)
    else:
        changed = address.model_copy(update=new_place(rng, scene.split))
        if rng.uniform() < 0.4:
            changed = changed.model_copy(update={"city": address.city or changed.city})
        text = rng.pick(_MOVE).format(**changed.model_dump())
        pairs = ((labels.STREET, "street"), (labels.POSTCODE, "postcode"), (labels.CITY, "city"))
        fields = [plans.text(name, getattr(changed, key)) for name, key in pairs
                  if getattr(changed, key) != getattr(address, key)]  # fmt: skip
        steps = [plans.link(f"Edit {address.label}"), *fields, plans.button(labels.SAVE_ADDRESS)]
        end = End(addresses=(changed,))
    if not possible:
        return TaskDraft(text=text, goal=ShopGoal(), plan=(account_page, plans.GIVEN_UP), account=account)
    plan = (account_page, *steps, plans.FINISHED)
    return TaskDraft(text=text, goal=ShopGoal(ends=(end,)), plan=plan, account=account)


def edit_cart(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """A line leaves the cart, or its quantity changes. Impossible: it is not in the cart, or there are not enough."""
    rng = scene.rng
    account, variants = _with_cart(scene)
    removed, cart_page = rng.uniform() < 0.5, plans.link(labels.CART)
    line, variant = rng.pick(variants)
    if removed and not possible:
        line, variant = CartLine(variant=0, quantity=0), _not_in(scene, variants)
    name = wordings.line_of(variant)
    if removed:
        text = rng.pick(_REMOVE).format(name)
        steps, left = [plans.button(f"Remove {name}")], [one for one, _ in variants if one != line]
    else:
        quantity = rng.whole(1, variant.stock) if possible else variant.stock + rng.whole(1, 5)
        if quantity == line.quantity:
            return None
        text = rng.pick(_SET).format(name, quantity)
        steps = [plans.amount(f"Quantity of {name}", quantity), plans.button(f"Update {name}")]
        left = [one if one != line else CartLine(variant=one.variant, quantity=quantity) for one, _ in variants]
    if not possible:
        look = [] if removed else steps
        return TaskDraft(text=text, goal=ShopGoal(), plan=(cart_page, *look, plans.GIVEN_UP), account=account)
    goal = ShopGoal(ends=(End(cart=tuple(left)),))
    return TaskDraft(text=text, goal=goal, plan=(cart_page, *steps, plans.FINISHED), account=account)


def order_cart(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """The cart is ordered, often without one line. Impossible: that line is not in the cart, or it goes to an address
    that is not there."""
    rng = scene.rng
    account, variants = _with_cart(scene)
    labels_ = {one.label: one.id for one in account.addresses}
    without = rng.uniform() < 0.7
    label = rng.pick(tuple(labels_))
    dropped = rng.pick(variants) if without else None
    if not possible and without:
        dropped = CartLine(variant=0, quantity=0), _not_in(scene, variants)
    elif not possible:
        label = rng.pick([one for one in ADDRESS_LABELS if one not in labels_])
    delivery = rng.pick(tuple(labels.DELIVERIES)) if rng.uniform() < 0.6 else None
    name = wordings.line_of(dropped[1]) if dropped else ""
    text = rng.pick(_REST).format(name) if dropped else rng.pick(_AS_IT_IS)
    text += wordings.checkout_clauses(rng, label, delivery, None)
    if not possible:
        look = [plans.link(labels.CART), *([] if dropped else [plans.link(labels.TO_CHECKOUT)])]
        return TaskDraft(text=text, goal=ShopGoal(), plan=(*look, plans.GIVEN_UP), account=account)
    rest = [(line, variant) for line, variant in variants if dropped is None or line != dropped[0]]
    lines = tuple(WantedLine(variants=(line.variant,), quantity=line.quantity) for line, _ in rest)
    order = WantedOrder(lines=lines, address=labels_[label], delivery=delivery)
    wants = tuple(
        Want(kind=one.product.kind, name=one.product.name, options=dict(one.options), quantity=line.quantity)
        for line, one in rest
    )
    remove = [plans.button(f"Remove {name}")] if dropped else []
    plan = (plans.link(labels.CART), *remove, *plans.check_out(account, order))
    goal = ShopGoal(ends=(End(order=order, cart=()),), wants=wants)
    return TaskDraft(text=text, goal=goal, plan=plan, account=account)


def return_line(scene: ShopScene, possible: bool) -> TaskDraft | None:
    """The right line of the right order goes back, with a reason. Impossible: it was ordered too long ago, is not
    delivered yet, or went back already. The same thing stands in another order too."""
    rng, account = scene.rng, scene.account
    end = "" if possible else rng.pick(("late", "on its way", "returned"))
    order = _order_for(scene, end)
    if order is None:
        return None
    line = rng.pick(order.lines)
    variant = scene.goods.variant(line.variant)
    account = _doubled(scene, order, variant)
    reason = rng.pick(tuple(labels.REASONS))
    quantity = rng.whole(1, line.quantity)
    if end == "returned":
        sent = ReturnRecord(order_line=line.id, quantity=line.quantity, reason=rng.pick(tuple(labels.REASONS)),
                            requested_on=order.placed_on)  # fmt: skip
        account = account.model_copy(update={"returns": (sent,)})
    name = wordings.line_of(variant)
    what = f"the {name}" if line.quantity == 1 else f"{wordings.number(quantity)} of the {name}"
    text = rng.pick(_BACK).format(f"{what} {_which(scene, order)}", labels.REASONS[reason])
    look = [plans.link(labels.ACCOUNT), plans.link(f"Order {order.number}")]
    if not possible:
        return TaskDraft(text=text, goal=ShopGoal(), plan=(*look, plans.GIVEN_UP), account=account)
    steps: list[PlanStep] = [plans.link(f"Return {name}")]
    if quantity != 1:
        steps.append(plans.amount(labels.QUANTITY, quantity))
    steps += [plans.choose_option(labels.REASON, labels.REASONS[reason]), plans.button(labels.REQUEST_RETURN)]
    goal = ShopGoal(ends=(End(returns=WantedReturn(order_line=line.id, quantity=quantity, reason=reason)),))
    return TaskDraft(text=text, goal=goal, plan=(*look, *steps, plans.FINISHED), account=account)


# --- their parts ------------------------------------------------------------------------------------------------------


def _with_cart(scene: ShopScene) -> tuple[ShopAccount, list[tuple[CartLine, Variant]]]:
    """The account with a filled cart, and its lines."""
    cart = scene.accounts.cart()
    account = scene.account.model_copy(update={"cart": cart})
    return account, [(line, scene.goods.variant(line.variant)) for line in cart]


def _not_in(scene: ShopScene, variants: list[tuple[CartLine, Variant]]) -> Variant:
    """Something that is in no line: of a kind that is in the cart, but another product."""
    _, like = scene.rng.pick(variants)
    others = [one for one in scene.goods.variants
              if one.product.kind == like.product.kind and one.product.id != like.product.id]  # fmt: skip
    return scene.rng.pick(others)


def _order_for(scene: ShopScene, end: str) -> PastOrder | None:
    """An order from which something can be returned, or not for the reason ``end``."""

    def why(order: PastOrder) -> str:
        line = order.lines[0]
        item = OrderItem(id=line.id, product=0, variant=line.variant, name="", quantity=line.quantity, price_cents=0)
        return no_return(order.status, order.placed_on, scene.today, item)

    fitting = [
        order
        for order in scene.account.orders
        if {"late": "ordered more" in why(order), "on its way": "not delivered" in why(order)}.get(end, not why(order))
    ]
    return scene.rng.pick(fitting) if fitting else None


def _doubled(scene: ShopScene, order: PastOrder, variant: Variant) -> ShopAccount:
    """The account, in another order of which the same variant stands too."""
    others = [one for one in scene.account.orders if one.id != order.id]
    other = scene.rng.pick(others)
    if any(scene.goods.variant(line.variant).product.id == variant.product.id for line in other.lines):
        return scene.account
    more = other.model_copy(update={"lines": (*other.lines, scene.accounts.line(variant.id, scene.rng.whole(1, 2)))})
    orders = tuple(more if one.id == other.id else one for one in scene.account.orders)
    return scene.account.model_copy(update={"orders": orders})


def _which(scene: ShopScene, order: PastOrder) -> str:
    """Words that name an order: its number or its date; no two orders of an account have the same."""
    return scene.rng.pick((f"from order {order.number}", f"from my order of {labels.day(order.placed_on)}"))
