"""ARPO, EPTree and CURE: episodes branch at turns whose first tokens the policy was uncertain about.

How unsure it was is the mean of −log p over the first tokens of the turn, in nats: an unbiased estimate of its entropy
there, which needs nothing but the log-probabilities of the sampled tokens. The papers measure the entropy of the
largest log-probabilities, or choose single tokens; here a branch begins with a turn, because an environment can be
brought back to the beginning of a turn only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest, first_own
from turngate.trainer.branching.base import BranchingPart, check_parts
from turngate.types import Source, Trajectory, Turn, derive_seed

FIRST_TOKENS = 20  # of a turn, as in ARPO


def start_surprisal(turn: Turn) -> float:
    """Mean of −log p over the first policy tokens of a turn, at most ``FIRST_TOKENS``, in nats; 0 without any."""
    logprobs_K = turn.completion.logprobs_K[turn.source[len(turn.context_ids) :] == Source.POLICY][:FIRST_TOKENS]
    return -float(logprobs_K.mean()) if len(logprobs_K) else 0.0


def branch_chance(rise: float, *, alpha: float, weight: float) -> float:
    """ARPO's probability of a branch, ``clip(α + β·ΔH, 0, 1)``; ``rise`` is ΔH, ``weight`` is β.

    Source: https://arxiv.org/abs/2507.19849 (α = .5, β = .2). The released code sums the entropy over the tokens and
    divides it by log V; here it is a mean over the tokens, in nats, so it does not grow with their number.
    """
    return float(np.clip(alpha + weight * rise, 0.0, 1.0))


class ArpoBranching(BranchingPart):
    """ARPO: some chains first; each branches before a turn with a chance that grows with the policy's entropy there.

    ``P = clip(α + β·(H_k − H_0), 0, 1)`` for turn k ≥ 1, H_0 that of the first turn. Branches can branch again. Leaves
    that are still missing begin from the start. Source: https://arxiv.org/abs/2507.19849 (16 leaves, 8 of them chains).
    """

    type: Literal["arpo"] = "arpo"
    roots: ClassVar[str] = "chains"
    chains: int = Field(4, ge=1)
    """Episodes that are played from the first turn on; the paper takes half of the group."""
    alpha: float = Field(0.5, ge=0, le=1)
    """Chance of a branch where the entropy is that of the first turn (α)."""
    weight: float = Field(0.2, ge=0)
    """What a nat of entropy more than in the first turn adds to the chance (β)."""
    beam: int = Field(2, ge=2)
    """Continuations of a turn that branches, its own included."""

    def check_size(self, group_size: int) -> None:
        check_parts(f"chains = {self.chains}", group_size, self.chains)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """States whose draw was a branch and that have none yet, earlier turns first."""
        if not forest.leaves:
            return [None] * self.chains
        used = forest.used
        drawn = [(leaf, turn) for leaf, turn in forest.later_states if (leaf.id, turn) not in used]
        found = [Fork(id=leaf.id, turn=turn) for leaf, turn in drawn if self._draws(leaf, turn)]
        return [fork for fork in sorted(found, key=lambda fork: fork.turn) for _ in range(self.beam - 1)]

    def _draws(self, leaf: Trajectory, turn: int) -> bool:
        """Drawn once for each state, from a seed of its own: so it is the same in every round."""
        rise = start_surprisal(leaf.turns[turn]) - start_surprisal(leaf.turns[first_own(leaf)])
        chance = branch_chance(rise, alpha=self.alpha, weight=self.weight)
        return bool(np.random.default_rng(derive_seed(leaf.seed, "branch", turn)).random() < chance)


class EpTreeBranching(BranchingPart):
    """EPTree (TreeRL): some chains first; each round continues the turns of the task that began most unsurely.

    Every round expands the ``(group_size − M)/L`` states with the highest surprisal, over all chains and branches; a
    state can be chosen again in a later round. Source: https://arxiv.org/abs/2506.11902, which expands tokens.
    """

    type: Literal["eptree"] = "eptree"
    roots: ClassVar[str] = "chains"
    chains: int = Field(2, ge=1)
    """Episodes that are played from the first turn on (M)."""
    rounds: int = Field(1, ge=1)
    """Rounds of expansion (L)."""

    def check_size(self, group_size: int) -> None:
        check_parts(f"chains = {self.chains} and rounds = {self.rounds}", group_size, self.chains, self.rounds)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """The most surprising turn starts; all again where there are fewer than wanted."""
        if not forest.leaves:
            return [None] * self.chains
        n = (len(forest.leaves) + room - self.chains) // self.rounds
        ranked = unsure_first(forest)
        return [ranked[place % len(ranked)] for place in range(n)] if ranked else []


class CureBranching(BranchingPart):
    """CURE: of each chain, one of its most unsure turn starts is drawn and continued several times.

    With n chains each is continued ``group_size/n − 1`` times, from one of its q most surprising turns, the first one
    excepted; a chain of one turn begins again. Source: CURE's released code (4 chains with 3 continuations each, from
    one of the 20 tokens of highest entropy).
    """

    type: Literal["cure"] = "cure"
    roots: ClassVar[str] = "chains"
    chains: int = Field(2, ge=1)
    """Episodes that are played from the first turn on."""
    top: int = Field(3, ge=1)
    """How many of the most surprising turns of a chain one is drawn from (q)."""

    def check_size(self, group_size: int) -> None:
        check_parts(f"chains = {self.chains}", group_size, self.chains, self.chains)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """One state of each chain."""
        if not forest.leaves:
            return [None] * self.chains
        n = (len(forest.leaves) + room) // self.chains - 1
        ranked = unsure_first(forest)
        found: list[Fork | None] = []
        for leaf in forest.sound:
            own = [fork for fork in ranked if fork.id == leaf.id][: self.top]
            found += [own[int(rng.integers(len(own)))] if own else None] * n
        return found


def unsure_first(forest: Forest) -> list[Fork]:
    """The states before a second or later turn, the most surprising turn first."""
    ranked = sorted(forest.later_states, key=lambda state: -start_surprisal(state[0].turns[state[1]]))
    return [Fork(id=leaf.id, turn=turn) for leaf, turn in ranked]
