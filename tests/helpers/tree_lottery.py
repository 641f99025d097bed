"""All trees that a way to branch can grow over a tabular softmax policy, each with its chance: nothing is sampled.

What the learner gets from them is computed by the real functions: the trees as ``choose`` grows them, their columns by
``tabulate``, the credit by the rule and the weights by ``pack``. So its expectation is exact, and can be compared with
the gradient of the expected payment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Expander, Forest
from turngate.trainer.batch.pack import Aggregate, pack
from turngate.trainer.batch.table import tabulate
from turngate.trainer.signals.base import Signal, Signals
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
    TurnTable,
)

Path = tuple[int, ...]
"""The actions so far; as a key, the state to which they lead."""
END = -1  # an action that ends the episode at once


class Draw:
    """Draws whose outcomes are written down beforehand; further ones take their first outcome that can happen.

    It stands in for numpy's generator in the methods that ways to branch call.
    """

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)
        self.taken: list[tuple[int, Sequence[float]]] = []
        self.chance = 1.0

    def __call__(self, chances: Sequence[float]) -> int:
        place = len(self.taken)
        index = self.script[place] if place < len(self.script) else _possible(chances, 0)
        self.taken.append((index, chances))
        self.chance *= chances[index]
        return index

    def integers(self, high: int, size: int | None = None) -> Any:
        """As ``Generator.integers``."""
        found = [self([1 / high] * high) for _ in range(1 if size is None else size)]
        return np.array(found) if size is not None else found[0]

    def permutation(self, n: int) -> list[int]:
        """As ``Generator.permutation``."""
        left, found = list(range(n)), []
        while left:
            found.append(left.pop(self([1 / len(left)] * len(left))))
        return found


def _possible(chances: Sequence[float], start: int) -> int:
    return next((index for index in range(start, len(chances)) if chances[index] > 0), len(chances))


def every_outcome(program: Callable[[Draw], Any]) -> Iterator[tuple[float, Any]]:
    """The chance and the result of ``program`` for every way in which its draws can come out."""
    script: list[int] = []
    while True:
        draw = Draw(script)
        result = program(draw)
        yield draw.chance, result
        taken = draw.taken
        while taken and (following := _possible(taken[-1][1], taken[-1][0] + 1)) == len(taken[-1][1]):
            taken.pop()
        if not taken:
            return
        script = [index for index, _ in taken[:-1]] + [following]


@dataclass(frozen=True)
class Toy:
    """A policy and what it is paid: the chance of each action by the state, and the payment of each turn by the path.

    A path ends where the policy has no state.
    """

    policy: Mapping[Path, Sequence[float]]
    paid: Mapping[Path, float]

    @cached_property
    def states(self) -> list[Path]:
        return list(self.policy)

    def paths(self) -> Iterator[tuple[float, Path]]:
        """Every episode and its chance."""

        def played(draw: Draw) -> Path:
            path: Path = ()
            while path in self.policy:
                path += (draw(self.policy[path]),)
            return path

        return every_outcome(played)

    def total(self, path: Path) -> float:
        return sum(self.paid.get(path[: turn + 1], 0.0) for turn in range(len(path)))

    def gradient(self, credit_SA: Mapping[Path, np.ndarray]) -> dict[Path, np.ndarray]:
        """``Σ credit · ∇ log π`` by the logits of each state, of summed credit by state and action."""
        return {s: credit_SA[s] - np.array(self.policy[s]) * credit_SA[s].sum() for s in self.states}

    def nothing(self) -> dict[Path, np.ndarray]:
        return {state: np.zeros(len(self.policy[state])) for state in self.states}

    @cached_property
    def exact(self) -> dict[Path, np.ndarray]:
        """The gradient of the expected payment of an episode."""
        credit = self.nothing()
        for chance, path in self.paths():
            for turn, action in enumerate(path):
                credit[path[:turn]][action] += chance * self.total(path)
        return self.gradient(credit)


def toy(actions: Sequence[int], wins: Sequence[Path] = (), seed: int = 0) -> Toy:
    """A toy of as many turns as ``actions`` has numbers: that of its choices in each turn.

    Paths of ``wins`` are paid 1 at the end and the others nothing; without any, each turn is paid a fraction at random.
    """
    rng = np.random.default_rng(seed)
    policy, paid = {}, {}
    for depth, n in enumerate(actions):
        for path in product(*(range(k) for k in actions[:depth])):
            policy[path] = tuple(np.exp(logits := rng.normal(size=n)) / np.exp(logits).sum())
            paid |= {(*path, action): float(rng.random() / len(actions)) for action in range(n)}
    return Toy(policy, paid if not wins else dict.fromkeys(wins, 1.0))


def _turn(toy: Toy, path: Path) -> Turn:
    action = path[-1]
    return Turn(
        observation=Observation(text=str(path[:-1]), state_key=str(path[:-1])),
        context_ids=np.array([1 + len(path)], np.int32),
        completion=Completion(
            ids_K=np.array([100 + action], np.int32),
            logprobs_K=np.log([toy.policy[path[:-1]][action]]).astype(np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
        ),
        source=np.array([Source.CONTEXT, Source.POLICY], np.uint8),
        action=Action(text=str(action)),
    )


def _leaf(toy: Toy, draw: Draw, name: str, leaves: Sequence[Trajectory], fork: Fork | None) -> Trajectory:
    parent = None if fork is None else next(leaf for leaf in leaves if leaf.id == fork.id)
    turns = [] if parent is None else list(parent.turns[: fork.turn])
    path = tuple(int(turn.action.text) for turn in turns)
    while path in toy.policy:
        path += (draw(toy.policy[path]),)
        turns.append(_turn(toy, path))
    at = None if fork is None else (fork.id, fork.turn)
    task = Task(id="toy", env_id="toy", prompt="")
    return Trajectory(id=name, task=task, turns=tuple(turns), ending=Ending.FINISHED, seed=0, parent=at)


def _path(leaf: Trajectory) -> Path:
    return tuple(int(turn.action.text) for turn in leaf.turns)


@dataclass(frozen=True, eq=False)
class Lottery:
    """Every tree of ``size`` leaves over ``toy``: ``chance_W`` and the scored group of each."""

    toy: Toy
    size: int
    chance_W: np.ndarray
    groups: tuple[ScoredGroup, ...]

    @classmethod
    def of(cls, toy: Toy, expander: Expander | None, size: int) -> "Lottery":
        """None: all leaves are chains. Rounds are those of ``play_tree``."""

        def grown(draw: Draw) -> tuple[Trajectory, ...]:
            leaves: list[Trajectory] = []
            while room := size - len(leaves):
                forest = Forest(leaves=tuple(leaves), context=1_000_000)
                found = [] if expander is None else list(expander.choose(forest, room, draw))[:room]  # type: ignore[arg-type]
                for fork in found or [None] * room:
                    leaves.append(_leaf(toy, draw, str(len(leaves)), leaves, fork))
            return tuple(leaves)

        outcomes = list(every_outcome(grown))
        groups = tuple(_scored(toy, number, leaves) for number, (_, leaves) in enumerate(outcomes))
        return cls(toy, size, np.array([chance for chance, _ in outcomes]), groups)

    def gradient(
        self, rule: Callable[..., Any], aggregate: Aggregate = "sum", signals: Sequence[Signal] = ()
    ) -> dict[Path, np.ndarray]:
        """The expected gradient of what is packed, by the logits of each state."""
        table, _ = Signals(sources=tuple(signals)).measure(self.groups, self.table)
        batch = pack(self.groups, rule(table), aggregate=aggregate)
        trained = batch.policy_weight_L > 0
        # pack averages over all trees alike; here each counts as often as it grows
        credit_L = batch.policy_weight_L[trained].astype(np.float64) * batch.advantage_L[trained]
        credit_L *= (self.chance_W * len(self.groups))[batch.segment_L[trained] // self.size]
        paths = [_path(leaf) for group in self.groups for leaf in group.trajectories]
        credit = self.toy.nothing()
        turns = [path[: turn + 1] for path in paths for turn in range(len(path))]
        for value, path in zip(credit_L, turns, strict=True):  # a turn is one policy token
            credit[path[:-1]][path[-1]] += value
        return self.toy.gradient(credit)

    @cached_property
    def table(self) -> TurnTable:
        """All trees as one table, each a cohort."""
        return tabulate(self.groups)


def _scored(toy: Toy, number: int, leaves: Sequence[Trajectory]) -> ScoredGroup:
    task = Task(id=f"toy-{number}", env_id="toy", prompt="")
    named = tuple(_renamed(leaf, number, task) for leaf in leaves)
    return ScoredGroup(task=task, trajectories=named, scores=tuple(_score(toy, _path(leaf)) for leaf in leaves))


def _renamed(leaf: Trajectory, number: int, task: Task) -> Trajectory:
    parent = None if leaf.parent is None else (f"{number}/{leaf.parent[0]}", leaf.parent[1])
    return Trajectory(
        id=f"{number}/{leaf.id}", task=task, turns=leaf.turns, ending=leaf.ending, seed=leaf.seed, parent=parent
    )


def _score(toy: Toy, path: Path) -> Score:
    reward_T = np.array([toy.paid.get(path[: turn + 1], 0.0) for turn in range(len(path))], np.float32)
    total = toy.total(path)
    ledger = (RewardEvent(name="outcome", kind="outcome", turn=None, value=total, weight=1.0),)
    return Score(ledger=ledger, reward_T=reward_T, outcome=total, usable=True)


def factors(toy: Toy, found: Mapping[Path, np.ndarray]) -> tuple[list[float], list[float]]:
    """For each turn, by what number of the exact gradient the found one is closest to it, and how far off it is then.

    The distance is relative to the length of the exact gradient of the turn.
    """
    factor, off = [], []
    for depth in sorted({len(state) for state in toy.states}):
        exact = np.concatenate([toy.exact[s] for s in toy.states if len(s) == depth])
        own = np.concatenate([found[s] for s in toy.states if len(s) == depth])
        factor.append(float(own @ exact / (exact @ exact)))
        off.append(float(np.linalg.norm(own - factor[-1] * exact) / np.linalg.norm(exact)))
    return factor, off
