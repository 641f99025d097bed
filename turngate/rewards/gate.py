"""What a gate is. Those that ship: ``gates.py``, ``limits.py``, ``shares.py``, ``ladders.py``, ``staging.py``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from turngate.parts import Part
from turngate.rewards.parts import Condition, Draft, Kind, Reward
from turngate.rewards.ranges import Ranges, Scene


class Gate(Part):
    """A condition on what is paid: closes or cuts payments that a reward earned.

    A subclass sets ``type`` and writes ``name``, ``touches`` and ``apply``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "gate"

    @property
    @abstractmethod
    def name(self) -> str:
        """What the ledger calls it; unique in a rubric."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the evidence that it needs."""
        return ()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The thresholds that it compares overall verdicts of components with."""
        return ()

    @property
    def compares(self) -> tuple[str, ...]:
        """Components whose overall verdict it looks up in ``Draft.scores``."""
        return tuple([condition.component for condition in self.conditions])

    @property
    def occasional(self) -> tuple[str, ...]:
        """Those of ``reads`` that are recorded only when they happen, so that a run may well be without them."""
        return ()

    @property
    def openers(self) -> tuple[tuple[str, bool], ...]:
        """Evidence that it acts on, and whether it is better for that evidence to be true."""
        return ()

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Weighted outcomes from which on it acts otherwise; ``bound`` must treat all outcomes in between alike."""
        return ()

    @property
    def late(self) -> bool:
        """Whether it decides by what is known at the end only: the outcome, or overall verdicts of components."""
        return bool(self.compares)

    @property
    def states(self) -> tuple[str, ...]:
        """Those of ``reads`` that choose between shares, so that ``bound`` has to know whether they are true."""
        return ()

    @abstractmethod
    def touches(self, name: str, kind: Kind) -> bool:
        """Whether it may ever change a payment of component ``name``."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Close or cut lines."""

    def apply_group(self, drafts: Sequence[Draft], step: int) -> None:
        """Close or cut lines of siblings in training step ``step``. A gate that compares siblings overrides this."""
        for draft in drafts:
            self.apply(draft)

    def imagine(self, draft: Draft) -> None:
        """Close or cut lines as among the siblings, and in the step, in which most of them is paid."""
        self.apply(draft)

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raise ConfigError or UnknownName if it cannot work, or has no effect, beside these rewards."""

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Narrow ``ranges``, what the components can still be paid, to what it lets through in ``scene``."""

    def replaces(self) -> float | None:
        """The total that it pays instead of everything else, or None if it only closes and cuts."""
        return None
