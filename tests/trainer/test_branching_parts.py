"""Where trees grow, part by part, and what they cost: the worked numbers, and laws over random trees."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.test_tree_rollout import Planned, check_tree, grow
from tests.helpers import models
from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.envs.lock import KEYS, RUBRIC, LockEnv
from turngate.run.replay.replayed_actions import first_seed
from turngate.trainer.batch.pack import pack
from turngate.trainer.batch.shared_turns import regrafted, sampled_turns
from turngate.trainer.batch.table import tabulate
from turngate.trainer.branching.base import BranchingPart
from turngate.trainer.branching.level_forks import PorToolBranching, TreeRpoBranching
from turngate.trainer.branching.second_attempts import RiseBranching
from turngate.trainer.branching.tree_costs import branch_metrics, tree_cost
from turngate.trainer.branching.uncertain_forks import (
    ArpoBranching,
    CureBranching,
    EpTreeBranching,
    branch_chance,
    start_surprisal,
)
from turngate.trainer.branching.uniform_forks import TreeGrpoBranching
from turngate.trainer.branching.value_forks import McValuesBranching, ProverBranching
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.progress import best_of
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.siblings import siblings
from turngate.trainer.credit.tree import grow as grow_trees
from turngate.trainer.curriculum.pass_rates import unaided
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.continuations import ContinuationValues, continuation_values
from turngate.types import Group, Guidance, ScoredGroup, Source, Trajectory

PARTS = [
    (ArpoBranching(chains=3), 8),
    (ArpoBranching(chains=1, alpha=1.0, beam=3), 9),
    (TreeGrpoBranching(), 6),
    (TreeGrpoBranching(trees=1, rounds=3), 7),
    (TreeRpoBranching(), 8),
    (TreeRpoBranching(children=3), 7),
    (PorToolBranching(), 7),
    (EpTreeBranching(rounds=2), 8),
    (CureBranching(chains=4), 16),
    (McValuesBranching(), 11),
    (ProverBranching(continuations=1), 5),
    (RiseBranching(attempts=3), 6),
]


def played(branching: BranchingPart, budget: int, *, n_tasks=1, seed=3):
    branching.check_size(budget)
    return grow(branching, budget=budget, n_tasks=n_tasks, seed=seed)


@pytest.mark.parametrize(("branching", "budget"), PARTS, ids=lambda value: getattr(value, "type", None))
def test_leaves_are_the_budget_and_seeds_decide_all(branching, budget):
    groups = played(branching, budget, n_tasks=2)
    if branching.shares:
        check_tree(groups, budget)
    assert [len(group.trajectories) for group in groups] == [budget, budget]
    assert any(leaf.parent for group in groups for leaf in group.trajectories)
    assert groups == played(branching, budget, n_tasks=2)


def forks(group: Group) -> list[int]:
    return [leaf.parent[1] for leaf in group.trajectories if leaf.parent is not None]


def test_cure_continues_one_turn_of_each_chain():
    """n1·(1 + n2) = 16: 4 chains with 3 continuations each, all from one state, never the first."""
    (group,) = played(CureBranching(chains=4), 16)
    parents = [leaf.parent for leaf in group.trajectories[4:]]
    assert len(set(parents)) == 4
    assert all(parents.count(parent) == 3 and parent[1] > 0 for parent in parents)


def test_tree_rpo_fills_a_binary_tree_of_three_turns():
    (group,) = played(TreeRpoBranching(), 8)
    assert sorted(forks(group)) == [1, 1, 2, 2, 2, 2]
    n_children: dict[tuple[int, ...], set[int]] = {}
    for leaf in group.trajectories:
        path = [id(turn) for turn in leaf.turns]
        for depth in range(3):
            n_children.setdefault(tuple(path[:depth]), set()).add(path[depth])
    assert [len(children) for children in n_children.values()] == [2] * 7


def test_portool_forks_each_turn_at_most_f_times_and_the_last_level_at_random():
    found = {
        tuple(leaf.parent for leaf in played(PorToolBranching(), 5, seed=seed)[0].trajectories) for seed in range(6)
    }
    assert all(sorted(parent[1] for parent in parents if parent) == [1, 1, 2] for parents in found)
    first = {parents[-1][0].split("@")[0] for parents in found}
    assert len(first) > 1


def test_mc_values_continues_every_turn_of_a_chain():
    (group,) = played(McValuesBranching(continuations=2), 14)
    chains = [leaf for leaf in group.trajectories if leaf.parent is None]
    assert len(chains) == 2
    assert sorted(forks(group)) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_rise_goes_on_from_the_latest_attempt_while_it_fits():
    (group,) = played(RiseBranching(attempts=3), 6)
    ids = [leaf.id for leaf in group.trajectories]
    assert [leaf.parent and leaf.parent[0] for leaf in group.trajectories] == [None, None, *ids[:4]]
    forest = Forest(leaves=group.trajectories[:2], context=len(group.trajectories[0].ids()))
    assert RiseBranching(attempts=3).choose(forest, 4, np.random.default_rng(0)) == [None, None]


# --- ARPO ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rise", "chance"), [(0.5, 0.6), (-3.0, 0.0), (1.0, 0.7), (9.0, 1.0), (0.0, 0.5)])
def test_arpo_worked_numbers(rise, chance):
    assert branch_chance(rise, alpha=0.5, weight=0.2) == pytest.approx(chance)
    released = 0.55 - 0.2 * 0.5 <= 0.5  # the code: branch if clip(u − w·ΔH, 0, 1) ≤ .5, here for u = .55
    assert released == (branch_chance(0.5, alpha=0.5, weight=0.2) > 0.55)


def test_arpo_without_weight_branches_half_of_the_time():
    branching = ArpoBranching(chains=20, weight=0.0, beam=2)
    n = sum(len(branching.choose(forest, 10**6, np.random.default_rng(0))) for forest in _chains(20, 10))
    assert n == pytest.approx(0.5 * 20 * 2 * 10, abs=3 * np.sqrt(0.25 * 400))


def _chains(n, n_tasks):
    for group in grow(ArpoBranching(chains=n), budget=n, n_tasks=n_tasks):
        yield Forest(leaves=group.trajectories, context=900)


def test_surprisal_of_a_turn_is_that_of_its_first_tokens():
    turn = models.turn([1], range(30), logprobs=[-0.5] * 20 + [-9.0] * 10)
    assert start_surprisal(turn) == pytest.approx(0.5)
    guided = models.turn([1], [2, 3], logprobs=[-4.0, -1.0], source=[Source.CONTEXT, Source.GUIDE, Source.POLICY])
    assert start_surprisal(guided) == pytest.approx(1.0)
    assert start_surprisal(models.turn([1], [2], source=[Source.CONTEXT, Source.GUIDE])) == 0.0


# --- costs -----------------------------------------------------------------------------------------------------------


def tree_of(n_turns: int, shape: list[tuple[int, int] | None]) -> list[Trajectory]:
    """Leaves of ``n_turns`` turns; each is None for a chain, or (number of the parent, turn)."""
    leaves: list[Trajectory] = []
    for n, place in enumerate(shape):
        rest = [models.turn([n, k], [k]) for k in range(n_turns)]
        own = models.trajectory(rest, name=str(n))
        if place is not None:
            turns = (*leaves[place[0]].turns[: place[1]], *rest[place[1] :])
            fields = {"id": str(n), "task": own.task, "ending": own.ending, "seed": 0}
            own = Trajectory(**fields, turns=turns, parent=(str(place[0]), place[1]))
        leaves.append(own)
    return leaves


def test_cost_model_of_tree_grpo():
    """M = 2 trees, N = 2 expansions, K = 4 turns, depths 0 … 3: 8 + 10 = 18 steps for 6 leaves, 24 for chains."""
    leaves = tree_of(4, [None, None, (0, 0), (0, 3), (1, 1), (1, 2)])
    cost = tree_cost(leaves, lambda task: "exact")
    assert (cost.leaves, cost.branches, cost.steps, cost.chain) == (6, 4, 18, 24)
    assert branch_metrics(cost)["branch/saved_share"] == 0.25
    assert tree_cost(leaves, lambda task: "replay").steps == 24  # replay saves tokens, but no steps
    assert tree_cost(leaves, lambda task: "replay").sampled == 18


def test_four_chains_and_four_branches_at_half_way():
    cost = tree_cost(tree_of(4, [None] * 4 + [(n, 2) for n in range(4)]), lambda task: "exact")
    assert (cost.leaves, cost.steps, cost.chain, cost.prefixes) == (8, 24, 32, 4)


def test_played_trees_cost_what_the_environments_were_asked():
    steps = 0

    class Counting(LockEnv):
        def act(self, action):
            nonlocal steps
            steps += 1
            return super().act(action)

    for fork in ("exact", "replay"):
        steps = 0
        (group,) = grow(PorToolBranching(), make_env=Counting, fork=fork, budget=7, n_tasks=1)
        assert tree_cost(group.trajectories, lambda task, fork=fork: fork).steps == steps


# --- shared turns ----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_turn_counts_in_each_leaf_that_shares_it_against_those_that_do_not(data):
    """``rloo`` and ``dr_grpo`` by plain loops over the leaves, and the weights of every aggregate but "sum"."""
    n = data.draw(st.integers(1, 6))
    shape = [None, *(data.draw(st.none() | st.tuples(st.integers(0, k - 1), st.integers(0, 2))) for k in range(1, n))]
    leaves = tree_of(3, shape)
    rows = [turn for leaf in leaves for turn in leaf.turns]
    paid = data.draw(st.lists(st.integers(-4, 4).map(lambda k: k / 4), min_size=n, max_size=n))
    scored = models.scored(leaves, paid)
    expected = []
    for place, leaf in enumerate(leaves):
        for turn in leaf.turns:
            others = [p for p, one in zip(paid, leaves, strict=True) if all(turn is not own for own in one.turns)]
            expected.append(paid[place] - np.mean(others) if others else 0.0)
    np.testing.assert_allclose(rloo(tabulate([scored])), expected, atol=1e-6)
    np.testing.assert_allclose(dr_grpo(tabulate([scored])), np.array(expected) * (n - 1) / n, atol=1e-6)
    for aggregate in ("token", "sequence", "turn"):
        batch = pack([scored], np.ones(len(rows), np.float32), aggregate=aggregate)
        np.testing.assert_allclose(batch.policy_weight_L[batch.policy_weight_L > 0], 1 / len(rows), rtol=1e-6)
    assert sum(len(sampled_turns(leaf)) for leaf in leaves) == len(set(map(id, rows)))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_shared_turns_are_known_also_when_episodes_are_taken_out(data):
    n = data.draw(st.integers(1, 8))
    shape = [None, *(data.draw(st.none() | st.tuples(st.integers(0, k - 1), st.integers(0, 2))) for k in range(1, n))]
    leaves = tree_of(3, shape)
    stays_B = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    kept = regrafted(leaves, stays_B)
    assert [one.id for one in kept] == [one.id for one, stays in zip(leaves, stays_B, strict=True) if stays]
    rows = [turn for leaf in kept for turn in leaf.turns]
    assert sum(len(sampled_turns(leaf)) for leaf in kept) == len(set(map(id, rows)))
    if kept:
        tree = grow_trees(tabulate([models.scored(kept)]), "regrafted")
        times_N = [sum(one is turn for one in rows) for turn in rows]
        np.testing.assert_array_equal(tree.visits_G[tree.node_N], times_N)


def test_the_branch_that_shares_most_stands_in_the_place_of_what_was_taken_out():
    leaves = tree_of(4, [None, (0, 2), (1, 1), (1, 3), (1, 3)])
    kept = regrafted(leaves, np.array([True, False, True, True, True]))
    assert [one.parent for one in kept] == [None, ("3", 1), ("0", 2), ("3", 3)]
    assert [one.parent for one in regrafted(kept, np.array([False, True, True, True]))] == [("3", 1), None, ("3", 3)]


def test_what_stands_in_the_place_of_a_root_has_its_seed_by_which_the_environment_was_reset():
    leaves = [replace(leaf, seed=n) for n, leaf in enumerate(tree_of(4, [None, (0, 2), (0, 1)]))]
    kept = regrafted(leaves, np.array([False, True, True]))
    assert [(one.parent, one.seed) for one in kept] == [(None, 0), (("1", 1), 2)]
    known = {one.id: one for one in kept}
    assert [first_seed(one, known) for one in kept] == [0, 0]


def test_forced_turns_that_retries_have_in_common_are_no_branches():
    first = models.trajectory([models.turn([1], [2]), models.turn([3], [4])], name="a")
    forced = models.turn([1], [2], source=[Source.CONTEXT, Source.GUIDE])
    again = Guidance(kind="correction", level=1, text="Look again.", source="self", insert_turn=1)
    fields = {"task": first.task, "ending": first.ending, "seed": 0, "parent": ("a", 1), "guidance": again}
    retries = [Trajectory(id=name, turns=(forced, models.turn([3], [5])), **fields) for name in "bc"]
    table = tabulate([models.scored([first, *retries], [0.5, 1.0, 0.0])])
    assert siblings(table).weight_M is None
    assert rloo(table).tolist() == [0, 0, 1, 1, -1, -1]


def test_a_curriculum_counts_what_the_policy_played_alone_from_the_first_turn():
    """A chain, a branch before its first turn, one from its midst, and a new attempt; then the same with a hint."""
    hint = Guidance(kind="hint", level=1, text="Red takes a.", source="env")
    for help_, counted in ((None, [0, 1]), (hint, [])):
        places = [{"turn": 0}, {"turn": 1}, {"note": "Do better."}]
        expander = Planned(lambda f: [None], lambda f, places=places: [Fork(id=f.leaves[0].id, **at) for at in places])
        (group,) = grow(expander, plan=[help_] * 4, n_tasks=1)
        scored = models.scored(group.trajectories)
        assert unaided([scored]).get(scored.task.id, []) == [scored.scores[place] for place in counted]


# --- values ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_values_are_those_of_a_slow_loop(data):
    n = data.draw(st.integers(1, 6))
    shape = [None, *(data.draw(st.none() | st.tuples(st.integers(0, k - 1), st.integers(0, 2))) for k in range(1, n))]
    leaves = tree_of(3, shape)
    paid = data.draw(st.lists(st.floats(-2, 2), min_size=n, max_size=n))
    table = tabulate([models.scored(leaves, paid)])
    value_N, count_N = continuation_values(table, table.total_B[table.traj_N].astype(np.float64))

    def first(leaf: int, turn: int) -> tuple[int, int]:
        """The leaf that came to this state first."""
        place = shape[leaf]
        return (leaf, turn) if place is None or turn > place[1] else first(place[0], turn)

    for row, (leaf, turn) in enumerate((leaf, turn) for leaf in range(n) for turn in range(3)):
        state = first(leaf, turn)
        found = [paid[state[0]]] + [paid[k] for k in range(n) if shape[k] is not None and first(*shape[k]) == state]
        assert count_N[row] == len(found)
        assert value_N[row] == pytest.approx(np.mean(found), abs=1e-6)


def test_best_of_four_provers():
    """K = 4: V .3 → .5 earns .1776; K = 1: .2."""
    values = np.array([0.3, 0.5])
    assert np.diff(best_of(values, 4))[0] == pytest.approx(0.1776)
    assert np.diff(best_of(values, 1))[0] == pytest.approx(0.2)


CHANCE = {key: chance for key, chance in zip(KEYS, (0.5, 0.25, 0.15, 0.1), strict=True)}


def stochastic(request):
    draw = np.random.default_rng(request.seed).random()
    return f"press {KEYS[int(np.searchsorted(np.cumsum(list(CHANCE.values()))[:-1], draw, side='right'))]}"


def exact_value(actions: list[str], turn: int, right: list[str]) -> float:
    """Chance of opening the lock from the state before ``turn``, if the policy presses as ``stochastic`` does."""
    so_far = all(actions[k] == right[k] for k in range(turn))
    return so_far * float(np.prod([CHANCE[key.removeprefix("press ")] for key in right[turn:]]))


def test_values_of_forks_are_the_exact_ones_within_three_standard_errors():
    """Of every turn of two chains, 150 continuations each: against the product of the policy's chances."""
    groups = grow(McValuesBranching(continuations=150), budget=451, n_tasks=2, script=stochastic)
    scored = [ScoredGroup(task=g.task, trajectories=g.trajectories, scores=_scores(g)) for g in groups]
    table = tabulate(scored)
    seen, _ = Signals(sources=(ContinuationValues("outcome"),)).measure(scored, table)
    value_N, count_N = seen.measured["value_N"], seen.measured["count_N"]
    checked = 0
    for group in groups:
        right = list(LockEnv().oracle(group.task))
        row = sum(len(leaf.turns) for other in groups[: groups.index(group)] for leaf in other.trajectories)
        actions = [turn.action.text for turn in group.trajectories[0].turns]
        for turn in range(3):
            exact = exact_value(actions, turn, right)
            error = np.sqrt(exact * (1 - exact) / 151)
            assert count_N[row + turn] == 151
            assert abs(value_N[row + turn] - exact) <= 3 * error + 1e-9
            checked += exact > 0
    assert checked >= 2


def _scores(group: Group):
    return tuple(RUBRIC.score(leaf.record()) for leaf in group.trajectories)
