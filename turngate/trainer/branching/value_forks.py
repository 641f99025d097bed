"""Monte-Carlo values: every turn of a chain is continued several times, which measures what the state was worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.errors import ConfigError
from turngate.trainer.branching.base import BranchingPart


class ContinuedChains(BranchingPart):
    """Chains of which every turn is continued several times."""

    least_turns: ClassVar[int] = 1
    continuations: int = Field(2, ge=1)
    """Continuations of each turn (n); a chain of K turns takes 1 + n·K leaves of train.group_size."""

    def check_size(self, group_size: int) -> None:
        if group_size < 2 + self.continuations:
            raise ConfigError(
                f"branching.continuations = {self.continuations} needs train.group_size of at least "
                f"{2 + self.continuations}, found {group_size}; a chain of K turns takes 1 + continuations·K"
            )

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """What the newest chain lacks; a new chain where it lacks nothing."""
        used = forest.used
        begun = {leaf.id for leaf in forest.trees}
        chains = [leaf.id for leaf in forest.sound if leaf.id in begun]
        lacking = [
            Fork(id=leaf.id, turn=turn)
            for leaf, turn in forest.states
            if leaf.id in chains[-1:]
            for _ in range(self.continuations - used.get((leaf.id, turn), 0))
        ]
        return lacking or [None]


class McValuesBranching(ContinuedChains):
    """Monte-Carlo values of turns: n continuations of every turn of a chain fill the columns value_N and count_N.

    With them a rule that reads values, such as turn_gae, needs no critic. The first turn is continued too. Where leaves
    are left over another chain begins; the last one may have fewer continuations. See ``continuation_values``. Source:
    VinePO (https://arxiv.org/abs/2410.01679), where the continuations are not trained on. The value of a state is the
    mean over its c continuations, that of the turn itself included, so a turn keeps (c − 1)/c of its policy gradient
    under turn_gae at λ = 1, and one without further continuations (c = 1) nothing.
    """

    type: Literal["mc_values"] = "mc_values"
    values: ClassVar[Literal["paid", "outcome"] | None] = "paid"


class ProverBranching(ContinuedChains):
    """PAV's prover: as mc_values, but the values are success rates, which the credit rule progress turns into rewards.

    ``r_t = V^μ(s_{t+1}) − V^μ(s_t)`` for the prover μ. With credit = {type = "progress", read = "value",
    prover_k = K} μ is the best of K tries of the policy, ``V^μ = 1 − (1 − V)^K``. Source:
    https://arxiv.org/abs/2410.08146 (K = 4).

    Left out of the paper: a prover that is another policy, a verifier that is trained to predict the progress, and
    continuations that are only measured. Here they are episodes of the policy, which are trained on as well.
    """

    type: Literal["prover"] = "prover"
    values: ClassVar[Literal["paid", "outcome"] | None] = "outcome"
