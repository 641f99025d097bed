"""Endless tasks of the shop: each a function of the split, its number and the seed, in families of three difficulties.

A family says what it wants (``records.Want``), and the right ends are what a search through the whole catalogue or
account finds. A task is kept only if it has as many right ends as its family allows: one, or a short list of them; of
an impossible task none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.shop import account_errands, buying, wordings
from turngate.envs.web.generated.shop.accounts import Accounts, new_day
from turngate.envs.web.generated.shop.catalogue import catalogue
from turngate.envs.web.generated.shop.records import LEVEL_OF, Family, ShopTask
from turngate.envs.web.generated.shop.scenes import Maker, ShopScene
from turngate.errors import ConfigError, EnvError, UnknownName
from turngate.types import Task, derive_seed

ENV_ID = "turngate/Web-v1"
PRODUCTS, CATALOGUES, SHARE_IMPOSSIBLE = 48, 50, 0.15
_TRIES = 500
_MAKERS: Mapping[Family, Maker] = {
    "buy_named": buying.buy_named,
    "buy_described": buying.buy_described,
    "buy_several": buying.buy_several,
    "edit_address": account_errands.edit_address,
    "edit_cart": account_errands.edit_cart,
    "order_cart": account_errands.order_cart,
    "return_line": account_errands.return_line,
    "compare": buying.compare,
    "budget": buying.budget,
}


class ShopTasks:
    """Tasks ``shop/SPLIT/NUMBER``, with a mark of the settings in the name where they are not the defaults.

    ``levels``: difficulties, 1 to 3. ``families``: only these; () = all of the levels. ``products``: size of a
    catalogue. ``catalogues``: how many there are of a split. ``impossible``: share of the tasks that cannot be done.
    """

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(
        self,
        *,
        levels: Sequence[int] = (1, 2, 3),
        families: Sequence[Family] = (),
        products: int = PRODUCTS,
        catalogues: int = CATALOGUES,
        impossible: float = SHARE_IMPOSSIBLE,
        seed: int = 0,
    ) -> None:
        if unknown := [name for name in families if name not in LEVEL_OF]:
            raise UnknownName("family", unknown[0], LEVEL_OF)
        self.families = tuple(one for one in families or LEVEL_OF if LEVEL_OF[one] in levels)
        if not self.families:
            known = ", ".join(f"{name} ({level})" for name, level in LEVEL_OF.items())
            raise ConfigError(
                f"no family of {list(families) or 'tasks'} is of levels {list(levels)}; there are {known}"
            )
        self._products, self._catalogues, self._impossible, self._seed = products, catalogues, impossible, seed
        catalogue("train", 0, products)  # its size is checked now, not in the first episode
        settings = (*self.families, products, catalogues, str(impossible), seed)
        default = (*LEVEL_OF, PRODUCTS, CATALOGUES, str(SHARE_IMPOSSIBLE), 0)
        self._name = "shop" if settings == default else f"shop-{derive_seed(*settings) % 16**6:06x}"

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of a split."""
        self.size(split)
        path = (self._name, split, index)
        rng = SeededRandom("shop-task", *path)
        family, possible = rng.pick(self.families), rng.uniform() >= self._impossible
        number = rng.whole(0, self._catalogues - 1)
        for attempt in range(_TRIES):
            made = self._made(family, possible, split, number, SeededRandom("shop-try", *path, attempt))
            if made:
                prompt, shop = made
                return Task(
                    id="/".join(map(str, path)), env_id=ENV_ID, prompt=prompt, private=shop.private(), split=split
                )
        raise EnvError(f"shop: no task {'' if possible else 'that is impossible '}of family '{family}' was found in "
                       f"{_TRIES} tries; use more products")  # fmt: skip

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``."""
        match task_id.split("/"):
            case [self._name, split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"{self._name}/{split}/0" for split in self.splits])

    def _made(
        self, family: Family, possible: bool, split: str, number: int, rng: SeededRandom
    ) -> tuple[str, ShopTask] | None:
        goods, today = catalogue(split, number, self._products), new_day(rng)
        accounts = Accounts(rng, split, goods, today)
        account, other = accounts.new(), accounts.new()
        scene = ShopScene(
            split=split, number=number, products=self._products, rng=rng, goods=goods, today=today, account=account,
            accounts=accounts,
        )  # fmt: skip
        draft = _MAKERS[family](scene, possible)
        if draft is None:
            return None
        shop = ShopTask(
            family=family, split=split, catalogue=number, products=self._products, today=today,
            session=_token(rng), csrf=_token(rng), account=draft.account, other=other, goal=draft.goal, plan=draft.plan,
        )  # fmt: skip
        return f"{draft.text} {wordings.ending(rng)}", shop


def _token(rng: SeededRandom) -> str:
    """A text that cannot be guessed."""
    return "".join(rng.pick("bcdfghjkmnpqrstvwxz23456789") for _ in range(24))
