"""How an episode in the shop ended, by its database alone: the goal, the frame, and how much of the goal is right.

A right end says what differs from the start. *Goal reached*: all of that is there. *Frame kept*: no row of any table
differs otherwise. Where several ends are right, the one that the episode came nearest to counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.web.generated.shop.catalogue import ShopCatalogue, Variant, catalogue
from turngate.envs.web.generated.shop.changed import RowChanges, as_cart
from turngate.envs.web.generated.shop.labels import DELIVERIES
from turngate.envs.web.generated.shop.records import Address, End, ShopTask, Want, WantedOrder, WantedReturn
from turngate.envs.web.generated.shop.shop_tables import DRAFTS, Contents, Row
from turngate.envs.web.generated.shop.wants import conditions, n_conditions
from turngate.envs.web.generated.shop.webshop import type_factor, webshop_reward

IMPOSSIBLE = "none"
"""The answer that says that a task is impossible."""
ADDRESS_COLUMNS = ("label", "street", "postcode", "city")
_KIND_OF_TABLE = {
    "orders": "extra_order",
    "order_lines": "extra_order",
    "returns": "wrong_return",
    "addresses": "address_book",
    "users": "account",
    "cart_lines": "cart",
    "variants": "stock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How an episode ended. ``share``: how much of the goal is right, 0 to 1. ``wrong``: the kinds of changes that no
    right end has, each once. ``webshop``: WebShop's reward, of tasks that buy one product; else None."""

    possible: bool
    goal_reached: bool
    frame_kept: bool
    share: float
    said_impossible: bool
    wrong: tuple[str, ...] = ()
    webshop: float | None = None

    @property
    def solved(self) -> bool:
        """The goal is reached, nothing else changed, and the agent did not state the contrary."""
        return self.goal_reached and self.frame_kept and self.said_impossible is not self.possible


def grade(task: ShopTask, start: Contents, now: Contents, answer: str | None) -> Grade:
    """The grade of an episode that led from ``start`` to ``now``. ``answer``: the agent's; None: it gave none."""
    said, goods = said_impossible(answer), catalogue(task.split, task.catalogue, task.products)
    if not task.goal.possible:
        nothing = _compared(task, End(), goods, start, now)
        return Grade(possible=False, goal_reached=said, frame_kept=not nothing.wrong, share=float(said),
                     said_impossible=said, wrong=nothing.wrong)  # fmt: skip
    verdicts = [_compared(task, end, goods, start, now) for end in task.goal.ends]
    best = max(verdicts, key=lambda one: (one.reached and not one.wrong, one.reached, one.share, not one.wrong))
    return Grade(
        possible=True,
        goal_reached=best.reached,
        frame_kept=not best.wrong,
        share=best.share,
        said_impossible=said,
        wrong=best.wrong,
        webshop=_webshop(task, goods, start, now),
    )


def said_impossible(answer: str | None) -> bool:
    """Whether an answer says that the task is impossible, regardless of case, blanks, quotes and a full stop."""
    return answer is not None and answer.strip(" \t\r\n.\"'`").casefold() == IMPOSSIBLE


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One right end, compared with the actual end."""

    right: Sequence[bool]
    wrong: tuple[str, ...]

    @property
    def reached(self) -> bool:
        return all(self.right)

    @property
    def share(self) -> float:
        return sum(self.right) / len(self.right)


def _compared(task: ShopTask, end: End, goods: ShopCatalogue, start: Contents, now: Contents) -> _Verdict:
    changes = RowChanges(start, now, task.account.id)
    right: list[bool] = []
    wrong: list[str] = []
    changes.allow_stock()
    if end.order:
        right += _order(task, end.order, goods, changes, wrong)
    if end.returns:
        right += _returns(task, end.returns, changes, wrong)
    for address in end.addresses:
        right += _address(address, changes)
    if end.default_address is not None:
        right.append(_default_address(task, end.default_address, changes))
    right += _cart(task, end, changes, wrong)
    wrong += [_KIND_OF_TABLE.get(table, "other") for table, _ in changes.left]
    return _Verdict(right, tuple(sorted(set(wrong))))


def _order(
    task: ShopTask, wanted: WantedOrder, goods: ShopCatalogue, changes: RowChanges, wrong: list[str]
) -> list[bool]:
    """Which parts of the wanted order the new one has; the first is its existence. Of several orders the best
    counts."""
    wants = task.goal.wants
    placed = changes.new_orders()
    if not placed:
        missing = sum(n_conditions(want) + 1 for want in wants) + len(_choices(wanted))
        return [False] * (1 + missing)
    looked = {id_: _placed(task, id_, wanted, wants, goods, changes) for id_ in placed}
    best = max(looked, key=lambda id_: (sum(looked[id_][0]), -id_))
    right, kinds = looked[best]
    wrong += kinds
    changes.allow("orders", best)
    changes.allow("order_lines", *(int(row["id"]) for row in changes.lines_of(best)))
    return [True, *right]


def _placed(
    task: ShopTask, id_: int, wanted: WantedOrder, wants: Sequence[Want], goods: ShopCatalogue, changes: RowChanges
) -> tuple[list[bool], list[str]]:
    """Which parts of the wanted order the order ``id_`` has, and its errors."""
    row, lines = changes.now["orders"][id_], changes.lines_of(id_)
    right: list[bool] = []
    wrong: list[str] = []
    free = {int(line["variant_id"]): int(line["quantity"]) for line in lines}
    for line, want in zip(wanted.lines, wants, strict=True):
        mine = {variant: free.pop(variant) for variant in line.variants if variant in free}
        exact = sum(mine.values()) == line.quantity
        if mine and not exact:
            wrong.append("wrong_quantity")
        bought = goods.variant(next(iter(mine))) if mine else _nearest(want, free, goods)
        right += conditions(want, bought) if bought else [False] * n_conditions(want)
        right.append(exact)
    products = {goods.variant(one).product.id for line in wanted.lines for one in line.variants}
    wrong += ["wrong_option" if goods.variant(one).product.id in products else "wrong_product" for one in free]
    for column, value in _choices(wanted).items():
        right.append(row[column] == value)
        if row[column] != value:
            wrong.append(f"wrong_{column.removesuffix('_id')}")
    if not _honest(task, row, lines, goods, changes.start):
        wrong.append("wrong_price")
    return right, wrong


def _choices(wanted: WantedOrder) -> dict[str, str | int]:
    """Column of an order → its required value, for columns that the goal does not leave open."""
    all_ = {"address_id": wanted.address, "delivery": wanted.delivery, "payment": wanted.payment}
    return {column: value for column, value in all_.items() if value is not None}


def _nearest(want: Want, free: Mapping[int, int], goods: ShopCatalogue) -> Variant | None:
    """The line that was bought for ``want``: of the remaining lines, the one for which most conditions hold."""
    left = [goods.variant(one) for one in free]
    return max(left, key=lambda one: (sum(conditions(want, one)), -one.id), default=None)


def _honest(task: ShopTask, row: Row, lines: Sequence[Row], goods: ShopCatalogue, start: Contents) -> bool:
    """Whether an order is of today, goes to an address of the customer, and costs what it has to."""
    to = start["addresses"].get(int(row["address_id"]), {})
    cents = DELIVERIES[str(row["delivery"])][1]
    prices = [goods.variant(int(line["variant_id"])).product.price_cents for line in lines]
    total = cents + sum(price * int(line["quantity"]) for price, line in zip(prices, lines, strict=True))
    return (
        [line["price_cents"] for line in lines] == prices
        and (row["delivery_cents"], row["total_cents"]) == (cents, total)
        and (row["placed_on"], row["status"]) == (task.today, "placed")
        and to.get("user_id") == task.account.id
        and all(row[column] == to[column] for column in ("street", "postcode", "city"))
    )


def _returns(task: ShopTask, wanted: WantedReturn, changes: RowChanges, wrong: list[str]) -> list[bool]:
    """Which parts of the wanted return were requested: any return, the line, the quantity, the reason."""
    rows = changes.new("returns")
    mine = {id_: row for id_, row in rows.items() if row["order_line_id"] == wanted.order_line}
    exact = {id_: row for id_, row in mine.items() if row["reason"] == wanted.reason}
    sent = sum(int(row["quantity"]) for row in exact.values())
    if sent > wanted.quantity:
        wrong.append("wrong_quantity")
    changes.allow("returns", *(id_ for id_, row in exact.items() if row["requested_on"] == task.today))
    return [bool(rows), bool(mine), sent == wanted.quantity, bool(exact)]


def _address(wanted: Address, changes: RowChanges) -> list[bool]:
    """Which fields of an address that have to change read as wanted. A field that is half way is no wrong change."""
    before, now = changes.start["addresses"][wanted.id], changes.now["addresses"].get(wanted.id, {})
    after = wanted.model_dump()
    if all(now.get(column) in (before[column], after[column]) for column in ADDRESS_COLUMNS):
        changes.allow("addresses", wanted.id)
    return [now.get(column) == after[column] for column in ADDRESS_COLUMNS if before[column] != after[column]]


def _default_address(task: ShopTask, wanted: int, changes: RowChanges) -> bool:
    """Whether the default address is the wanted one."""
    change = changes.left.get(("users", task.account.id))
    right = changes.now["users"].get(task.account.id, {}).get("default_address") == wanted
    if change and right and change.columns == {"default_address"}:
        changes.allow("users", task.account.id)
    return right


def _cart(task: ShopTask, end: End, changes: RowChanges, wrong: list[str]) -> list[bool]:
    """Which lines of the cart that have to change are as wanted. On the way to an order the cart may hold the lines
    that will be ordered."""
    before, now = changes.cart(changes.start), changes.cart(changes.now)
    wanted = before if end.cart is None else as_cart(end.cart)
    ordered = end.order.lines if end.order else ()
    right = []
    changes.allow_cart()
    for variant in sorted(before.keys() | now.keys() | wanted.keys()):
        had, has, wants = (cart.get(variant, 0) for cart in (before, now, wanted))
        if end.order is None:
            fine = has in (had, wants)
        elif changes.new_orders():
            fine = has == wants
        else:
            fine = has <= max([had, *(line.quantity for line in ordered if variant in line.variants)])
        if not fine:
            wrong.append("cart")
        if had != wants:
            right.append(has == wants)
    return right


def _webshop(task: ShopTask, goods: ShopCatalogue, start: Contents, now: Contents) -> float | None:
    """WebShop's reward of a task that buys one product: for the bought product, 0 without one."""
    order = task.goal.ends[0].order
    if order is None or len(task.goal.wants) != 1:
        return None
    (want,), target = task.goal.wants, goods.variant(order.lines[0].variants[0]).product
    changes = RowChanges(start, now, task.account.id)
    bought = [goods.variant(int(row["variant_id"])) for id_ in changes.new_orders() for row in changes.lines_of(id_)]
    rewards = [0.0]
    for variant in bought:
        attributes = [variant.product.attributes.get(name) == value for name, value in want.attributes.items()]
        options = [variant.options.get(name) == value for name, value in want.options.items()]
        same_type = variant.product.category == target.category
        rewards.append(
            webshop_reward(
                r_type=type_factor(variant.product.name.split(), target.name.split(), same_type=same_type),
                right=sum(attributes) + sum(options),
                wanted=len(attributes) + len(options),
                price_right=want.below_cents is None or variant.product.price_cents < want.below_cents,
            )
        )
    return max(rewards)


# --- on the way -------------------------------------------------------------------------------------------------------


def distance(task: ShopTask, start: Contents, now: Contents) -> int:
    """How much is missing of the nearest right end, and how much is there that it has not; 0: nothing.

    An order is missing what it will hold (2 for each line, 1 where only the quantity is another), each choice of the
    checkout that the instruction asks for (1), the review (1) and the order itself (1). What the cart and the checkout
    hold counts as long as nothing is ordered. Everything else counts 1 for each thing that is right and each kind of
    change that is wrong. Of an impossible task only what was changed counts. ``now`` may leave out tables that cannot
    have changed.
    """
    start = {table: start[table] for table in now}
    goods = catalogue(task.split, task.catalogue, task.products)
    ends = task.goal.ends or (End(),)
    return min(_missing(task, end, goods, start, now) for end in ends)


def _missing(task: ShopTask, end: End, goods: ShopCatalogue, start: Contents, now: Contents) -> int:
    verdict, changes = _compared(task, end, goods, start, now), RowChanges(start, now, task.account.id)
    if end.order is None or changes.new_orders():
        return verdict.right.count(False) + len(verdict.wrong)
    cart, missing = changes.cart(now), len(verdict.wrong)
    for line in end.order.lines:
        there = sum(cart.pop(variant, 0) for variant in line.variants)
        missing += 0 if there == line.quantity else 1 if there else 2
    missing += len(cart) + 1
    draft = now[DRAFTS].get(task.account.id)
    if draft is None:
        return missing + 1 + len(_choices(end.order))
    return missing + sum(draft[column] != value for column, value in _choices(end.order).items())
