"""Gates that make one component wait for another: it is paid only if more important components reach a threshold.

Thresholds are compared with a component's overall verdict before its weight, so changing a weight never changes which
gates open. A component that was not measured reaches no threshold. Verdicts are read as measured, not as paid, so the
order of these gates among each other makes no difference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from turngate.errors import ConfigError
from turngate.rewards.gates.base import Gate
from turngate.rewards.gates.whole_kinds import find, find_cuttable
from turngate.rewards.parts import Condition, Draft, Kind, Op, Reward, reaches
from turngate.rewards.safety.ranges import Ranges, Scene


class Ladder(Gate):
    """Base class of the gates here. ``rules`` of a subclass names the conditions under which each component is paid."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, tuple[Condition, ...]]:
        """Component → the conditions that must all hold for it to be paid."""

    def needs(self, name: str, kind: Kind) -> tuple[Condition, ...]:
        """The conditions for payments of a component; empty if the gate does not touch it."""
        return self.rules.get(name, ())

    def touches(self, name: str, kind: Kind) -> bool:
        """True for components with conditions."""
        return bool(self.needs(name, kind))

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component.

        Raises ConfigError for a condition on a sum, which an agent could meet by repeating itself; for a threshold that
        is never reached, or on an outcome always reached; and for an outcome component that would have to wait, because
        other gates decide by it. Put an outcome first.
        """
        for name in self.rules:
            find_cuttable(rewards, name, self)
        for condition in self.conditions:
            _fit_condition(condition, find(rewards, condition.component, self), self)

    def apply(self, draft: Draft) -> None:
        """Close the lines whose conditions do not all hold."""
        name = self.name
        is_open: dict[str, bool] = {}
        for line in draft.lines:
            if line.name not in is_open:
                needs = self.needs(line.name, line.kind)
                is_open[line.name] = all(need.is_met(draft.scores.get(need.component)) for need in needs)
            if not is_open[line.name]:
                line.close(name)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Nothing where a condition does not hold."""
        for name in ranges.of(self):
            if not all(map(scene.is_met, self.needs(name, ranges.rewards[name].kind))):
                ranges.close(name)


class Hierarchical(Ladder):
    """Levels of components: a level is paid only if every level above it reaches its threshold (gated accumulation).

    R = Σ_i r_i · Π_{j above i} 1[r_j ≥ v_j]   (G-RA, https://arxiv.org/abs/2508.10548)

    ``levels`` go from the most to the least important; a level may hold several components, which must then all reach
    its threshold. The top level is always paid, and the lowest needs no threshold. The paper leaves open whether it
    compares with ≥ or >, and which thresholds it uses: ``op`` and ``at_least`` are ours. With two levels and an outcome
    on top it is ``needs_outcome`` for the named components.
    """

    type: Literal["hierarchical"] = "hierarchical"
    levels: tuple[tuple[str, ...], ...]
    """Levels of component names, the most important level first."""
    at_least: tuple[float, ...]
    """One threshold for each level but the lowest: the verdict, before weights, that its components must reach."""
    op: Op = ">="
    """Whether a verdict that equals its threshold reaches it (>=) or not (>)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError unless there are two levels, a threshold for all but the last, and each name once."""
        names = [name for level in self.levels for name in level]
        if len(self.levels) < 2 or not all(self.levels):
            raise ConfigError(f"{self.name} needs at least two levels with a component each")
        if len(self.at_least) != len(self.levels) - 1:
            raise ConfigError(
                f"{self.name} has {len(self.at_least)} thresholds for {len(self.levels)} levels; "
                f"give {len(self.levels) - 1}, one for each level but the lowest"
            )
        _forbid_repeats(names, self)

    @property
    def name(self) -> str:
        """For instance ``hierarchical(passed > quality+style > format)``."""
        return f"hierarchical({' > '.join('+'.join(level) for level in self.levels)})"

    @cached_property
    def _conditions(self) -> tuple[tuple[Condition, ...], ...]:
        steps = zip(self.levels, self.at_least, strict=False)
        return tuple(
            tuple(Condition(component=name, at_least=at_least, op=self.op) for name in level)
            for level, at_least in steps
        )

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """One per component above the lowest level."""
        return tuple(condition for level in self._conditions for condition in level)

    @cached_property
    def rules(self) -> Mapping[str, tuple[Condition, ...]]:
        """Every level waits for all above it."""
        return {
            name: tuple(condition for above in self._conditions[:depth] for condition in above)
            for depth, level in enumerate(self.levels)
            for name in level
            if depth
        }


class Conditional(Ladder):
    """Components ``pays`` are paid only if component ``given`` reaches ``at_least``; ``then`` nests further conditions.

    R = w₁c + 1[c ≥ θ₁]·(w₂s + 1[s ≥ θ₂]·w₃e) is ``conditional("c", 1.0, pays="s", then=conditional("s", 0.5,
    pays="e"))``, the hierarchical reward of ChatShopBuddy (https://arxiv.org/abs/2603.06065); its weights and
    thresholds were not found, so there are no defaults. Unlike ``hierarchical`` it may branch: ``then`` may hold
    several gates side by side, with conditions on components that the gate does not pay.
    """

    type: Literal["conditional"] = "conditional"
    given: str
    """Name of the component whose verdict on the episode decides."""
    at_least: float
    """The verdict of ``given``, before its weight, from which on the condition is met."""
    pays: tuple[str, ...] = ()
    """Names of the components that are paid only if the condition is met."""
    then: tuple[Conditional, ...] = ()
    """Further conditions of this kind, checked only where this one is met."""
    op: Op = ">="
    """Whether a verdict that equals the threshold reaches it (>=) or not (>)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if nothing depends on it, or if a component is named twice."""
        names = [name for gate in self._walk() for name in gate.pays]
        if not names:
            raise ConfigError(f"{self.name} has no effect; name what it pays")
        _forbid_repeats(names, self)

    def _walk(self) -> Iterator[Conditional]:
        yield self
        for inner in self.then:
            yield from inner._walk()

    @property
    def name(self) -> str:
        """For instance ``conditional(c >= 1: s, s >= 0.5: e)``."""
        cases = [f"{gate._condition}: {'+'.join(gate.pays)}" for gate in self._walk()]
        return f"conditional({', '.join(cases)})"

    @property
    def _condition(self) -> Condition:
        return Condition(component=self.given, at_least=self.at_least, op=self.op)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Its own condition and those of all gates in ``then``."""
        return tuple(gate._condition for gate in self._walk())

    @cached_property
    def rules(self) -> Mapping[str, tuple[Condition, ...]]:
        """Every component waits for the conditions around it, outermost first."""
        here: tuple[Condition, ...] = (self._condition,)
        found = dict.fromkeys(self.pays, here)
        for inner in self.then:
            found |= {name: here + needs for name, needs in inner.rules.items()}
        return found


class BottomLine(Ladder):
    """Constraints first: goals are paid only in episodes in which every constraint reaches its threshold.

    R = Σ constraints + 1[every constraint ≥ its threshold]·Σ goals

    The idea, with factual grounding, basic quality and format as constraints, is SearchLLM's gated aggregation
    (https://arxiv.org/abs/2603.10473); the paper's exact formula and constants were not found, so both are ours.
    Constraints themselves are always paid. Without ``goals`` all other process components are goals. It is
    ``hierarchical`` with two levels and a threshold per component; for a constraint that must cost something when it is
    broken, add a ``veto``.
    """

    type: Literal["bottom_line"] = "bottom_line"
    constraints: dict[str, float]
    """Name of each constraint component → lowest overall verdict, before its weight, that is acceptable."""
    goals: tuple[str, ...] = ()
    """Names of the components that are paid only if all constraints hold; leave it out for all other process
    components."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError without constraints, or for a goal that is a constraint too."""
        if not self.constraints:
            raise ConfigError("bottom_line needs at least one constraint, as component=threshold")
        _forbid_repeats([*self.constraints, *self.goals], self)

    @property
    def name(self) -> str:
        """For instance ``bottom_line(grounded >= 0.5, format >= 1: brief)``."""
        goals = "+".join(self.goals) or "process"
        return f"bottom_line({', '.join(map(str, self.conditions))}: {goals})"

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """One per constraint."""
        return tuple(Condition(component=name, at_least=at_least) for name, at_least in self.constraints.items())

    @property
    def rules(self) -> Mapping[str, tuple[Condition, ...]]:
        """The named goals wait for all constraints."""
        return dict.fromkeys(self.goals, self.conditions)

    def needs(self, name: str, kind: Kind) -> tuple[Condition, ...]:
        """All constraints for a goal, nothing for other components."""
        is_goal = name in self.goals if self.goals else kind == "process" and name not in self.constraints
        return self.conditions if is_goal else ()

    def fit(self, rewards: Sequence[Reward]) -> None:
        """As for every ladder. Raises ConfigError, too, if there is nothing that could be a goal."""
        super().fit(rewards)
        if not any(self.touches(reward.name, reward.kind) for reward in rewards):
            raise ConfigError(f"{self.name} has no effect: no process component is left to be a goal")


def _forbid_repeats(names: Sequence[str], gate: Gate) -> None:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ConfigError(f"{gate.name} names component '{twice[0]}' twice; each has one place")


def _fit_condition(condition: Condition, reward: Reward, gate: Gate) -> None:
    if reward.agg == "sum":
        raise ConfigError(
            f"{gate.name} compares '{reward.name}', a sum, which grows by repetition; "
            "give it agg='mean', 'last', 'min' or 'max'"
        )
    if not reaches(reward.high, condition.at_least, condition.op):
        raise ConfigError(f"{gate.name} never opens: '{reward.name}' is at most {reward.high:g}; lower the threshold")
    if reward.kind == "outcome" and reaches(reward.low, condition.at_least, condition.op):
        raise ConfigError(f"{gate.name} never closes: '{reward.name}' is at least {reward.low:g}; raise the threshold")
