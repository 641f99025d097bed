"""Gates that limit what one component can be paid, so that repeating an act does not pay.

They count only payments that are still open when they act, so declare them after gates that close payments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from turngate.errors import ConfigError
from turngate.rewards.gates.base import Gate
from turngate.rewards.gates.whole_kinds import find_cuttable, needs_limit
from turngate.rewards.parts import Draft, Kind, Reward
from turngate.rewards.safety.ranges import Ranges, Scene


class Once(Gate):
    """Component ``on`` pays at most once per episode: its first payment counts, later ones are closed.

    Use it for acts that are worth something the first time only, such as reproducing a failure.
    """

    type: Literal["once"] = "once"
    on: str
    """Name of the component that pays only the first time."""

    @property
    def name(self) -> str:
        """For instance ``once(reproduced)``."""
        return f"once({self.on})"

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError for one that is paid once anyway."""
        needs_sum(find_cuttable(rewards, self.on, self), self)

    def apply(self, draft: Draft) -> None:
        """Close all lines after the first that pays."""
        name, on, paid = self.name, self.on, False
        for line in draft.lines:
            if line.name == on:
                if paid:
                    line.close(name)
                else:
                    paid = line.paid != 0.0

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """At most what one verdict earns is paid."""
        for name in ranges.of(self):
            reward = ranges.rewards[name]
            ranges.verdicts_within(name, reward.low, reward.high)


class Budget(Gate):
    """Component ``on`` pays at most ``limit`` per episode, in turn order: the payment that would exceed it is cut,
    later ones are closed. Its losses have a limit of their own, of the same size. ``limit=0`` pays nothing."""

    type: Literal["budget"] = "budget"
    on: str
    """Name of the component that is limited."""
    limit: float
    """Most that the component pays in an episode, in units of reward; its losses stop at the negative."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a limit that is negative or not finite."""
        needs_limit(self.limit, self)

    @property
    def name(self) -> str:
        """For instance ``budget(executes, 0.3)``."""
        return f"budget({self.on}, {self.limit})"

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError for an outcome or a limit that is never reached."""
        low, high = find_cuttable(rewards, self.on, self).part_span(math.inf)
        if max(high, -low) <= self.limit:
            raise ConfigError(f"{self.name} never closes: '{self.on}' pays {low:g} to {high:g} in all; lower the limit")

    def apply(self, draft: Draft) -> None:
        """Spend the budget in turn order."""
        name, gains, losses = self.name, self.limit, self.limit
        for line in draft.lines:
            if line.name != self.on or not (amount := line.paid):
                continue
            left = gains if amount > 0 else losses
            size = abs(amount)
            if size > left:
                line.cut(name, left / size)
            if amount > 0:
                gains -= min(size, left)
            else:
                losses -= min(size, left)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """The sum of the payments lies within ± the limit."""
        for name in ranges.of(self):
            ranges.limit(name, self.limit)


class BestSoFar(Gate):
    """Component ``on`` is paid only for improvement over its best verdict so far.

    With v_t the verdicts and b_t = max(start, v_s for s < t that were still open), a verdict v_t counts as
    max(0, v_t − b_t). So the component pays at most weight·(high − start) in all; breaking something and repairing it
    pays nothing, and a verdict that falls costs nothing. Verdicts at or below 0 are never paid.
    """

    type: Literal["best_so_far"] = "best_so_far"
    on: str
    """Name of the component that is paid for improvement only."""
    start: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """The verdict that the first one must exceed to be paid; at least 0. Raise it where doing nothing has a verdict
    above 0."""

    @property
    def name(self) -> str:
        """For instance ``best_so_far(tests)``."""
        return f"best_so_far({self.on})"

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError for one that pays once or never improves."""
        reward = find_cuttable(rewards, self.on, self)
        needs_sum(reward, self)
        if reward.high <= self.start:
            raise ConfigError(
                f"{self.name} never opens: '{self.on}' is at most {reward.high:g}, start is {self.start:g}"
            )

    def apply(self, draft: Draft) -> None:
        """Pay each line the part of its verdict that is new."""
        name, best = self.name, self.start
        for line in draft.lines:
            if line.name != self.on or not line.factor:
                continue
            if line.value <= best:
                line.close(name)
            else:
                if best:
                    line.cut(name, (line.value - best) / line.value)
                best = line.value

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """At most what the improvement from ``start`` to ``high`` earns is paid."""
        for name in ranges.of(self):
            ranges.verdicts_within(name, 0.0, ranges.rewards[name].high - self.start)


def needs_sum(reward: Reward, gate: Gate) -> None:
    """Raises ConfigError for a component whose payments are not one per verdict, so that counting them has no
    meaning."""
    if not (reward.per_turn and reward.agg == "sum"):
        raise ConfigError(f"{gate.name} needs a component that pays turn by turn; give it per_turn=True and agg='sum'")
