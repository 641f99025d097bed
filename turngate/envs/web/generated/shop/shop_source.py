"""The bundled shop as ``tasks`` of ``turngate/Web-v1``: ``tasks = {type = "shop", levels = [1]}``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskSource, TaskSourcePart
from turngate.envs.web.generated.shop.records import Family


class ShopSource(TaskSourcePart):
    """Endless errands in a made-up web shop: buying, comparing, the cart, addresses, returns, and impossible ones.
    Splits: train and heldout (other products, customers and streets)."""

    type: Literal["shop"] = "shop"
    kind: ClassVar[str] = "web tasks"
    levels: tuple[Literal[1, 2, 3], ...] = Field((1, 2, 3), min_length=1)
    """Difficulties: 1 buys one product; 2 buys several, changes the cart or an address; 3 compares, keeps to a budget
    or returns something."""
    families: tuple[Family, ...] = ()
    """Only tasks of these families; empty: all of the levels."""
    products: int = Field(48, ge=16, le=300)
    """Products of a shop: more make longer lists to choose from."""
    catalogues: int = Field(50, ge=1)
    """Different shops of a split. Customers, orders and errands differ in every task."""
    impossible: float = Field(0.15, ge=0, le=1)
    """Share of the tasks that cannot be done; saying so and changing nothing is then right."""
    seed: int = 0
    """Another seed gives other tasks in the same shops."""

    def open(self) -> TaskSource:
        from turngate.envs.web.generated.shop.generate import ShopTasks

        return ShopTasks(
            levels=self.levels,
            families=self.families,
            products=self.products,
            catalogues=self.catalogues,
            impossible=self.impossible,
            seed=self.seed,
        )
