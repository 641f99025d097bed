"""Branching: episodes that begin inside of others, so that siblings share turns and form trees.

Without ``[branching]`` in the config the siblings of a task are chains, each played from the first turn on.
"""

from turngate.trainer.branching.base import BranchingPart
from turngate.trainer.branching.level_forks import PorToolBranching, TreeRpoBranching
from turngate.trainer.branching.second_attempts import RiseBranching
from turngate.trainer.branching.uncertain_forks import ArpoBranching, CureBranching, EpTreeBranching
from turngate.trainer.branching.uniform_forks import TreeGrpoBranching
from turngate.trainer.branching.value_forks import McValuesBranching, ProverBranching

__all__ = [
    "ArpoBranching",
    "BranchingPart",
    "CureBranching",
    "EpTreeBranching",
    "McValuesBranching",
    "PorToolBranching",
    "ProverBranching",
    "RiseBranching",
    "TreeGrpoBranching",
    "TreeRpoBranching",
]
