"""What is compared: chains and trees, which get as many updates as make them sample equally many turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from examples.credit_study.settings import ENVIRONMENTS, config_with
from turngate.config.run_config import Config
from turngate.trainer.credit.tree_rpo import tree_rpo
from turngate.types import FloatArray, TurnTable

TURNS: Mapping[str, int] = MappingProxyType({"lock3": 3, "sql": 5})
"""The environments of the study, and how long their episodes are about: a lock of three dials always has three turns,
and a question takes the oracle five at most."""
LEAVES = 8
"""Episodes of each task, in chains and in trees; both configs have it as train.group_size."""
TREES = 2


def chain_turns(turns: int) -> float:
    """Turns that are sampled for a task whose episodes are chains of ``turns`` turns."""
    return LEAVES * turns


def uniform_turns(turns: int) -> float:
    """``M·K + n·(K + 1)/2``: M trees of K turns, and n branches before turns drawn uniformly."""
    return TREES * turns + (LEAVES - TREES) * (turns + 1) / 2


def level_turns(turns: int) -> float:
    """``Σ min(2^t, leaves)`` over turns t = 1 … K: every turn is continued twice until there are enough leaves."""
    return float(sum(min(2**turn, LEAVES) for turn in range(1, turns + 1)))


def tree_rpo_of_chains(table: TurnTable) -> FloatArray:
    """TreeRPO without branches, its degenerate form: the first turns of siblings are compared, later turns get 0."""
    alone_B = np.full(table.n_trajectories, -1, np.int32)
    return tree_rpo(replace(table, measured={"parent_B": alone_B, "branch_B": np.zeros_like(alone_B)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to play and to credit the episodes of a task. ``sampled``: expected turns per task, of their length."""

    title: str
    changes: tuple[str, ...]
    sampled: Callable[[int], float]
    colour: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {  # colours of Okabe and Ito, which people with any colour vision tell apart
        "chains": Kind(
            title="chains, grpo", changes=('--credit={type = "grpo"}',), sampled=chain_turns, colour="#000000"
        ),
        "tree_grpo": Kind(
            title="trees at random, tree_grpo",
            changes=('--credit={type = "tree_grpo"}', f'--branching={{type = "tree_grpo", trees = {TREES}}}'),
            sampled=uniform_turns,
            colour="#0072B2",
        ),
        "tree_rpo": Kind(
            title="trees level by level, tree_rpo",
            changes=('--credit={type = "tree_rpo"}', '--branching={type = "tree_rpo"}'),
            sampled=level_turns,
            colour="#D55E00",
        ),
        "flat_rpo": Kind(
            title="chains, tree_rpo without branches",
            changes=(f'--credit={{type = "{__name__}:tree_rpo_of_chains"}}',),
            sampled=chain_turns,
            colour="#CC79A7",
        ),
    }
)


def updates_of(label: str, kind: str, updates: int | None = None) -> int:
    """Updates with which a kind samples as many turns as chains do in ``updates``; None: those of the environment."""
    turns = TURNS[label]
    return round((updates or ENVIRONMENTS[label].updates) * chain_turns(turns) / KINDS[kind].sampled(turns))


def config_of(label: str, kind: str, seed: int, *, out: Path, updates: int | None = None) -> Config:
    """The settings of one run. ``updates``: of chains; None = those of the environment."""
    steps = updates_of(label, kind, updates)
    changes = (*KINDS[kind].changes, f"--train.steps={steps}", f"--train.checkpoint_every={steps}")
    return config_with(label, seed, out, f"{kind}-{seed}", *changes)
