"""Definition of a gate. Those that ship: ``whole_kinds.py``, ``limits.py``, ``shares.py``, ``ladders.py``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from turngate.parts import Part
from turngate.rewards.parts import Condition, Draft, Kind, Reward
from turngate.rewards.safety.ranges import Ranges, Scene


class Gate(Part):
    """A condition on payments: closes or cuts those that a reward earned.

    A subclass sets ``type`` and writes ``name``, ``touches`` and ``apply``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "gate"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.rewards.gates",)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the gate in the ledger; unique in a rubric."""

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
        """Those of ``reads`` that are recorded only if something happens, so that a whole run may lack them."""
        return ()

    @property
    def openers(self) -> tuple[tuple[str, bool], ...]:
        """Evidence that decides whether it closes, and for each whether more is paid if it is true."""
        return ()

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Outcomes, weights included, at which its effect changes; ``bound`` must treat all outcomes between two
        alike."""
        return ()

    @property
    def late(self) -> bool:
        """Whether it decides by values known only at the end: the outcome, or overall verdicts of components."""
        return bool(self.compares)

    @property
    def states(self) -> tuple[str, ...]:
        """Those of ``reads`` that choose the share to be paid, so that ``bound`` has to know whether they are true."""
        return ()

    @abstractmethod
    def touches(self, name: str, kind: Kind) -> bool:
        """Whether it may ever change a payment of component ``name``."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Close or cut the payments of one episode."""

    def apply_group(self, drafts: Sequence[Draft], step: int) -> None:
        """Close or cut the payments of all siblings, in training step ``step``. Override it to compare siblings."""
        for draft in drafts:
            self.apply(draft)

    def imagine(self, draft: Draft) -> None:
        """Like ``apply``, for the counter-examples of ``Rubric.check``: as with the siblings and in the training step
        for which most is paid."""
        self.apply(draft)

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raise ConfigError or UnknownName if the gate cannot work with these rewards, or would have no effect."""

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Narrow ``ranges``, the possible payments of components, to those that the gate lets through in ``scene``."""

    def replaces(self) -> float | None:
        """The total that an episode is paid if the gate replaces all payments, as a veto does; else None."""
        return None
