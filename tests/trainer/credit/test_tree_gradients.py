"""The mean gradient of branched episodes against the exact policy gradient, over every tree that can grow.

Nothing is sampled: ``tests.helpers.tree_lottery`` enumerates the trees of a way to branch over a tabular softmax
policy. Columns, credit and weights come from the real functions, so inputs and formulas are tested together.

1. With ``aggregate = "sum"`` rules that promise the policy gradient give it, turn by turn, wherever leaves branch.
2. Rules that keep a share of it keep the same share of every turn.
3. Rules whose published form bends it are no further off than these tables say, and never point against it.
4. One tree teaches its first turn nothing, under any rule that compares siblings.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tests.helpers.tree_lottery import Lottery, Toy, factors, toy
from turngate.agents.branches import Fork
from turngate.trainer.branching.level_forks import PorToolBranching, TreeRpoBranching
from turngate.trainer.branching.uniform_forks import TreeGrpoBranching
from turngate.trainer.branching.value_forks import McValuesBranching
from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.canon import canon
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.lambda_grpo import lambda_grpo
from turngate.trainer.credit.maxrl import maxrl
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.ngrpo import ngrpo
from turngate.trainer.credit.opo import opo
from turngate.trainer.credit.portool import portool
from turngate.trainer.credit.qae import qae
from turngate.trainer.credit.r3l import r3l
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.step_grpo import step_grpo
from turngate.trainer.credit.tempo import tempo
from turngate.trainer.credit.tree_grpo import tree_grpo
from turngate.trainer.credit.tree_rl import tree_rl
from turngate.trainer.credit.tree_rpo import tree_rpo
from turngate.trainer.credit.turn_gae import turn_gae
from turngate.trainer.signals.continuations import ContinuationValues


class AfterTurnOne:
    """A number of trees that all branch after turn 1."""

    def __init__(self, trees: int) -> None:
        self.trees = trees

    def choose(self, forest: Any, room: int, rng: Any) -> list[Fork | None]:
        if not forest.leaves:
            return [None] * self.trees
        return [Fork(id=leaf.id, turn=1) for leaf in forest.trees for _ in range(room // self.trees)]


UNEVEN = "tree_rpo, episodes of one and two turns"
SCHEMES: dict[str, tuple[tuple[int, ...], Any, int]] = {
    "chains": ((3, 2), None, 3),
    "two trees": ((3, 2), AfterTurnOne(2), 4),
    "one tree": ((3, 2), AfterTurnOne(1), 4),
    "tree_grpo": ((2, 2), TreeGrpoBranching(trees=2), 4),
    "tree_rpo": ((2, 2, 2), TreeRpoBranching(children=2), 4),
    UNEVEN: ((3, 2), TreeRpoBranching(children=2), 4),
    "portool": ((2, 2), PorToolBranching(forks=2), 3),
    "mc_values": ((2, 2), McValuesBranching(continuations=1), 3),
}


WINS = [(0, 0), (1, 0), (1, 1), (2, 1)]


@cache
def lottery(scheme: str, *, graded: bool = True) -> Lottery:
    """``graded``: each turn is paid a fraction; else four paths of two turns are paid 1, the others 0."""
    actions, expander, size = SCHEMES[scheme]
    played = toy(actions, () if graded else [path for path in WINS if path[0] < actions[0]])
    if scheme == UNEVEN:
        played = Toy({state: chances for state, chances in played.policy.items() if state != (2,)}, played.paid)
    return Lottery.of(played, expander, size)


def found(
    scheme: str, rule: Callable[..., Any], aggregate: Any = "sum", *, graded: bool = True, signals: Any = ()
) -> tuple[list[float], list[float]]:
    trees = lottery(scheme, graded=graded)
    return factors(trees.toy, trees.gradient(rule, aggregate, signals))


def close(values: Any) -> Any:
    return pytest.approx(values, abs=2e-4)


def test_the_trees_are_all_that_can_grow():
    for scheme in SCHEMES:
        assert lottery(scheme).chance_W.sum() == pytest.approx(1.0)
    # 3·2 paths of each root, 2 ways on from where it branched
    assert len(lottery("two trees").groups) == (6 * 2) ** 2
    # each root branches before turn 1 (2·2 ways on) or before turn 2 (2 ways on)
    assert len(lottery("tree_grpo").groups) == (4 * (4 + 2)) ** 2


# --- rules that promise the gradient ---------------------------------------------------------------------------------

SEVERAL = [name for name in SCHEMES if name not in ("one tree", UNEVEN)]
EXACT: dict[str, Callable[..., Any]] = {
    "rloo": rloo,
    "returns": returns,
    "mt_grpo corrected": partial(mt_grpo, mode="corrected"),
    "returns without baseline": partial(returns, baseline="none"),
}


@pytest.mark.parametrize("scheme", SEVERAL)
@pytest.mark.parametrize("name", EXACT)
def test_branches_leave_the_policy_gradient_as_it_is(name: str, scheme: str):
    factor, off = found(scheme, EXACT[name])
    assert factor == close([1.0] * len(factor))
    assert off == close([0.0] * len(off))


# --- rules that keep a share of it -----------------------------------------------------------------------------------

SHARES: list[tuple[str, Callable[..., Any], str, list[float]]] = [
    ("dr_grpo", dr_grpo, "two trees", [3 / 4, 3 / 4]),
    ("dr_grpo", dr_grpo, "tree_grpo", [3 / 4, 3 / 4]),
    ("grpo, std=False", partial(grpo, std=False), "portool", [2 / 3, 2 / 3]),
    ("opo, all of one length", opo, "tree_grpo", [3 / 4, 3 / 4]),
    ("canon, all of one length", partial(canon, by="turns"), "two trees", [3 / 4, 3 / 4]),
    # (children − 1)/children where a level is full, nothing where an only child ends the tree
    ("tree_rpo", tree_rpo, "two trees", [1 / 2, 1 / 2]),
    ("tree_rpo", tree_rpo, "tree_rpo", [1 / 2, 1 / 2, 0]),
    # ((V − V(root)) + (V − V(above))) / √leaves, counted in each of the leaves
    ("tree_rl", tree_rl, "two trees", [np.sqrt(2) / 2, 5 / 4]),
    # 1/leaves of dr_grpo whose baseline holds the leaves that share the turn
    ("lambda_grpo, std=False", partial(lambda_grpo, std=False, merge="recorded"), "two trees", [1 / 4, 3 / 4]),
    # shared turns are masked
    ("r3l, amplify=1", partial(r3l, amplify=1.0, success=2.0), "two trees", [0, 3 / 4]),
]


@pytest.mark.parametrize(("name", "rule", "scheme", "shares"), SHARES)
def test_what_is_left_of_the_gradient_of_each_turn(
    name: str, rule: Callable[..., Any], scheme: str, shares: list[float]
):
    factor, off = found(scheme, rule)
    assert factor == close(shares), name
    assert off == close([0.0] * len(off))


def test_values_by_continuations_keep_what_they_hold_of_others():
    """Turn 1 is tried twice, so V holds half of itself; so does turn 2 of the chain, a third of all second turns."""
    rule = partial(turn_gae, gamma=1.0, lam=1.0)
    factor, off = found("mc_values", rule, signals=(ContinuationValues("paid"),))
    assert factor == close([1 / 2, 1 / 3])
    assert off == close([0.0, 0.0])


@pytest.mark.parametrize(("aggregate", "share"), [("token", 1 / 2), ("sequence", 1 / 2), ("turn", 1 / 2), (4, 1 / 4)])
def test_other_aggregates_divide_all_turns_alike(aggregate: Any, share: float):
    """Episodes of two turns of one token each."""
    factor, off = found("two trees", rloo, aggregate)
    assert factor == close([share, share])
    assert off == close([0.0, 0.0])


# --- rules that bend it ----------------------------------------------------------------------------------------------

BENT: list[tuple[str, Callable[..., Any], list[float], list[float]]] = [
    ("grpo", grpo, [1.4417, 1.4145], [0.0, 0.0009]),
    ("maxrl", maxrl, [1.4553, 1.4454], [0.0, 0.0089]),
    ("qae", qae, [1.2640, 1.0938], [0.0, 0.0060]),
    ("ngrpo", ngrpo, [1.6463, 1.6031], [0.0, 0.0025]),
    ("gigpo, γ=1", partial(gigpo, gamma=1.0), [1.5, 1.3579], [0.0, 0.0218]),
    ("tree_grpo", tree_grpo, [0.9479, 2.1216], [0.0025, 0.0009]),
    ("tree_rpo, sample", partial(tree_rpo, scale="sample"), [1.1394, 0.7071], [0.0129, 0.0]),
    ("tree_rpo, bernoulli", partial(tree_rpo, scale="bernoulli"), [1.0946, 1.0], [0.0028, 0.0]),
    ("tree_rl", tree_rl, [0.7071, 1.25], [0.0, 0.0]),
    ("portool", portool, [1.4229, 1.9145], [0.0025, 0.0009]),
    ("arpo", arpo, [0.9479, 1.4145], [0.0025, 0.0009]),
    ("arpo, hard", partial(arpo, mode="hard"), [0.9479, 1.4145], [0.0025, 0.0009]),
    ("r3l", r3l, [0.0, 1.5032], [0.0, 0.0042]),
    ("tempo", partial(tempo, merge="recorded"), [1.8959, 2.3652], [0.0049, 0.0009]),
    ("step_grpo", step_grpo, [0.9479, 1.4145], [0.0025, 0.0009]),
    ("lambda_grpo", partial(lambda_grpo, merge="recorded"), [0.4739, 1.4142], [0.0012, 0.0009]),
]


@pytest.mark.parametrize(("name", "rule", "shares", "bend"), BENT)
def test_how_far_a_published_form_bends_it(name: str, rule: Callable[..., Any], shares: list[float], bend: list[float]):
    """Two trees that branch after turn 1, paid 0 or 1; docs/branching.md has the same table."""
    factor, off = found("two trees", rule, graded=False)
    assert factor == pytest.approx(shares, abs=2e-3), name
    assert off == pytest.approx(bend, abs=2e-3)
    assert min(factor) >= 0


def test_leaves_of_unequal_lengths_are_not_drawn_as_the_policy_plays():
    """One of three first actions ends the episode, so fewer leaves begin with it. A baseline hides most of that."""
    factor, off = found(UNEVEN, rloo)
    assert factor == pytest.approx([1.2399, 1.2428], abs=2e-3)
    assert off == pytest.approx([0.0209, 0.0], abs=2e-3)
    factor, off = found(UNEVEN, partial(returns, baseline="none"))
    assert factor == pytest.approx([0.9834, 1.2428], abs=2e-3)
    assert off == pytest.approx([1.9003, 0.0], abs=2e-3)


# --- one tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [rloo, dr_grpo, grpo, opo, maxrl, qae, returns, tree_grpo, tree_rpo, tree_rl, portool, arpo, r3l, lambda_grpo],
    ids=lambda rule: rule.__name__,
)
def test_one_tree_teaches_its_first_turn_nothing(rule: Callable[..., Any]):
    factor, off = found("one tree", rule)
    assert (factor[0], off[0]) == (close(0.0), close(0.0))
    assert factor[1] > 0.7
