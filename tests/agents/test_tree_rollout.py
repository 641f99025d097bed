"""Trees of episodes: exact and replayed forks lead to what playing the same actions from the start leads to.

1. A task has as many leaves as its budget, whatever the expander chooses.
2. Shared turns are the same objects, so their tokens are the parent's; facts before the branch are the parent's too.
3. A leaf is what a fresh environment makes of its actions, by snapshot and by replay, in threads and in processes.
4. Leaves with different help never branch off each other; a branch has the help, the hint's tokens and the forced turns
   of the episode that it leaves, and nothing branches inside of forced turns. A retry of a branch begins as its tree.
5. An environment that does not repeat itself is refused with the first turn that differs; one that declares "none" at
   once.
"""

import asyncio
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turngate
from tests.helpers import models
from turngate.agents.branches import Fork, hints, parent_of, shared_parent
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import TokenLimits
from turngate.agents.tree_rollout import is_own, play_tree
from turngate.envs.lock import KEYS, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.envs.sql.env import SqlEnv
from turngate.errors import ConfigError, RunError
from turngate.trainer.batch.contexts import without_hint
from turngate.trainer.guidance.reflect import retry_from
from turngate.types import Ending, Guidance, Observation, Source, Trajectory, derive_seed


class Anywhere:
    """Begins with one chain, then branches off at random states, a random number of times per round."""

    def choose(self, forest, room, rng):
        if not forest.leaves:
            return [None]
        states = forest.states
        picked = [states[int(rng.integers(len(states)))] for _ in range(int(rng.integers(0, room + 2)))] or [states[0]]
        return [Fork(id=leaf.id, turn=turn) for leaf, turn in picked]


class Planned:
    """Rounds as they are written down."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)

    def choose(self, forest, room, rng):
        return self.rounds.pop(0)(forest) if self.rounds else []


def keys(request):
    """A key that depends on the seed of the turn alone."""
    return f"press {KEYS[request.seed % len(KEYS)]}"


def grow(
    expander,
    *,
    make_env=LockEnv,
    fork="exact",
    budget=6,
    plan=None,
    n_tasks=2,
    script=keys,
    policy=None,
    seed=3,
    **pool,
):
    """``plan``: the help of each leaf; by default ``budget`` leaves get none."""
    policy = policy or ScriptedPolicy(script, models.chat(), concurrency=4)
    tasks = (
        models.tasks(n_tasks) if make_env is not SqlEnv else [SqlEnv().tasks.task("train", i) for i in range(n_tasks)]
    )
    plans, done = [[None] * budget if plan is None else plan] * len(tasks), []

    async def go():
        async with EnvPool(make_env, size=4, **pool) as worlds:
            player = models.player(policy, limits=TokenLimits(turn_tokens=40, context=900))
            return await play_tree(
                player, worlds, tasks, plans, expander, fork=lambda task: fork, seed=seed, ended=done.append
            )

    groups = asyncio.run(asyncio.wait_for(go(), 60))
    assert sorted(done, key=lambda group: group.task.id) == sorted(groups, key=lambda group: group.task.id)
    return groups


def check_tree(groups, budget, make_env=LockEnv):
    for group in groups:
        leaves = {leaf.id: leaf for leaf in group.trajectories}
        assert len(leaves) == len(group.trajectories) == budget
        for leaf in group.trajectories:
            check_leaf(leaf, leaves, make_env)


def check_leaf(leaf: Trajectory, leaves, make_env) -> None:
    if leaf.parent is not None:
        parent, turn = leaves[leaf.parent[0]], leaf.parent[1]
        assert all(one is other for one, other in zip(leaf.turns[:turn], parent.turns[:turn], strict=True))
        np.testing.assert_array_equal(leaf.turns[turn].context_ids, parent.turns[turn].context_ids)
    env, task = make_env(), leaf.task
    first, _ = env.reset(seed=0, options={"task": task})
    seen, facts = [first], []
    for turn in leaf.turns:
        reply, _, _, _, info = env.step(turn.action.text)
        seen.append(reply)
        facts += info["evidence"]
    if leaf.ending is Ending.TOKEN_BUDGET:
        facts += env.finish(leaf.ending)[1]["evidence"]
    env.close()
    assert [turn.observation for turn in leaf.turns] == seen[:-1]
    assert list(leaf.evidence) == facts


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), budget=st.integers(1, 9), fork=st.sampled_from(["exact", "replay"]))
def test_every_leaf_is_what_its_actions_lead_to(seed, budget, fork):
    groups = grow(Anywhere(), fork=fork, budget=budget, seed=seed)
    check_tree(groups, budget)


def test_snapshot_and_replay_give_the_same_tree():
    assert grow(Anywhere(), fork="exact") == grow(Anywhere(), fork="replay")


def test_the_same_seed_gives_the_same_tree_and_another_seed_another():
    assert grow(Anywhere()) == grow(Anywhere())
    assert grow(Anywhere()) != grow(Anywhere(), seed=4)


def test_snapshots_travel_between_processes():
    make = partial(turngate.make, "turngate/Lock-v1")
    assert grow(Anywhere(), make_env=make, isolation="process") == grow(Anywhere())


SQL = ("list_tables", "describe {table}", "run_sql SELECT 1", "run_sql SELECT 1", "run_sql SELEC", "submit")


def questions(request):
    table = SqlEnv().tasks.find(request.task_id).private["tables"][0]
    return SQL[request.seed % len(SQL)].format(table=table)


@pytest.mark.parametrize("fork", ["exact", "replay"])
def test_sql_branches_as_it_would_have_gone_on(fork):
    groups = grow(Anywhere(), make_env=SqlEnv, fork=fork, budget=8, script=questions)
    check_tree(groups, 8, SqlEnv)
    assert any(
        fact.name == "repeated" and fact.value
        for group in groups
        for leaf in group.trajectories
        for fact in leaf.evidence
    )


def test_a_fork_continues_alone():
    """Two branches of one snapshot give equal answers to equal actions, and what one does is not seen by the other."""
    env, other = SqlEnv(), SqlEnv()
    task = env.tasks.task("train", 0)
    env.reset(seed=0, options={"task": task, "tool_format": ""})
    env.step("run_sql SELECT 1")
    snapshot = env.snapshot()
    mine = env.step("run_sql SELECT 2")
    other.restore(snapshot)
    assert other.step("run_sql SELECT 2")[0] == mine[0]
    env.restore(snapshot)
    for one in (env, other):
        _, _, _, _, info = one.step("run_sql SELECT 1")
        assert {fact.value for fact in info["evidence"] if fact.name == "repeated"} == {True}
    assert other.step("submit")[1:4] == env.step("submit")[1:4]
    env.close()
    other.close()


def test_seeds_are_those_of_the_leaves():
    requests = []

    def script(request):
        requests.append(request)
        return keys(request)

    (group,) = grow(
        Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, turn=2)] * 2), n_tasks=1, budget=3, script=script
    )
    task = group.task
    assert [leaf.seed for leaf in group.trajectories] == [derive_seed(3, task.id, n) for n in range(3)]
    assert [leaf.parent for leaf in group.trajectories] == [None] + [(group.trajectories[0].id, 2)] * 2
    assert [request.turn for request in requests] == [0, 1, 2, 2, 2]
    assert len({request.seed for request in requests}) == 5
    for request in requests[3:]:
        np.testing.assert_array_equal(request.ids, requests[2].ids)
        assert request.messages == requests[2].messages


def test_a_second_attempt_is_shown_the_first():
    expander = Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, note="Improve on it.")])
    (group,) = grow(expander, n_tasks=1, budget=2)
    first, second = group.trajectories
    assert second.parent == (first.id, 0)
    context = second.turns[0].context_ids
    np.testing.assert_array_equal(context[: len(first.ids())], first.ids())
    assert set(second.turns[0].source[: len(context)]) == {Source.CONTEXT}
    assert second.turns[0].observation.text == f"Improve on it.\n{first.turns[0].observation.text}"
    assert "Improve on it." in models.chat().decode(context[len(first.ids()) :])
    assert [len(leaf.turns) for leaf in group.trajectories] == [3, 3]


class Moody(LockEnv):
    """Shows something else the second time."""

    plays: ClassVar[dict[str, int]] = {}

    def act(self, action):
        outcome = super().act(action)
        if len(self._right) != 2:
            return outcome
        n = self.plays[self._colours[0]] = self.plays.get(self._colours[0], 0) + 1
        text, key = outcome.observation.text, outcome.observation.state_key
        return type(outcome)(
            observation=Observation(text=text, state_key=f"{key} {n}"), evidence=outcome.evidence, done=outcome.done
        )


def test_an_environment_that_does_not_repeat_itself_is_refused_with_the_first_turn_that_differs():
    Moody.plays.clear()
    last = Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, turn=2)])
    with pytest.raises(RunError, match=r"task 'lock/train/0' cannot be branched by replay.*before turn 2 the state is"):
        grow(last, make_env=Moody, fork="replay", n_tasks=1, budget=2)


def test_an_environment_without_forks_is_refused():
    with pytest.raises(ConfigError, match=r"\[branching\] cannot be used with 'turngate/Lock-v1'"):
        grow(Anywhere(), fork="none")


# --- help ------------------------------------------------------------------------------------------------------------

HINT = Guidance(kind="hint", level=1, text="Red takes a.", source="env", strip_for_train=True)
BEGUN = PrefixTurns(turns=("press a",), guidance=Guidance(kind="prefix", level=1, text="", source="oracle"))


@pytest.mark.parametrize("fork", ["exact", "replay"])
def test_equal_help_grows_trees_of_its_own(fork):
    plan = [None, HINT, BEGUN, None, HINT, BEGUN, None, HINT, BEGUN]
    groups = grow(Anywhere(), fork=fork, plan=plan)
    check_tree(groups, len(plan))
    for group in groups:
        known = {leaf.id: leaf for leaf in group.trajectories}
        assert [leaf.guidance for leaf in group.trajectories] == [getattr(one, "guidance", one) for one in plan]
        for leaf in group.trajectories:
            own = [is_own(turn) for turn in leaf.turns]
            assert own == [leaf.guidance != BEGUN.guidance, *[True] * (len(own) - 1)]
            if leaf.parent is not None:
                parent = known[leaf.parent[0]]
                assert shared_parent(leaf, known) is parent
                assert is_own(parent.turns[leaf.parent[1]])
                np.testing.assert_array_equal(hints(leaf.turns[:1]), hints(parent.turns[:1]))
            assert hints(leaf.turns).any() == (leaf.guidance == HINT)


def test_a_branch_is_learned_from_without_the_hint_as_its_parent_is():
    (group,) = grow(Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, turn=0)]), plan=[HINT] * 2, n_tasks=1)
    (unaided,) = grow(Planned(lambda f: [None]), plan=[None], n_tasks=1)
    first, branch = (without_hint(one) for one in group.trajectories)
    assert branch.parent == (first.id, 0)
    for one in (first, branch):
        np.testing.assert_array_equal(one.turns[0].context_ids, unaided.trajectories[0].turns[0].context_ids)


def test_a_new_attempt_has_the_help_again_and_is_learned_from_without_any_of_it():
    again = Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, note="Improve on it.")])
    (group,) = grow(again, plan=[HINT] * 2, n_tasks=1)
    first, second = group.trajectories
    assert second.guidance == HINT
    assert second.turns[0].guidance == HINT
    known = {one.id: one for one in group.trajectories}
    assert (parent_of(second, known), shared_parent(second, known)) == (first, None)
    chat = models.chat()
    shown = chat.tokenizer.decode(second.turns[0].context_ids.tolist())
    bare = chat.tokenizer.decode(without_hint(second).turns[0].context_ids.tolist())
    assert (shown.count(HINT.text), bare.count(HINT.text)) == (2, 0)


def test_a_retry_of_a_branch_begins_as_the_tree_did():
    plan = Planned(lambda f: [None], lambda f: [Fork(id=f.leaves[0].id, turn=1)])
    (group,) = grow(plan, budget=2, n_tasks=1)
    first, branch = group.trajectories
    assert first.seed != branch.seed
    retry = retry_from(branch, 1, "Look again.", strip=True, siblings=group.trajectories)
    assert retry.seed == first.seed
    with pytest.raises(ValueError, match="give all siblings of the task"):
        retry_from(branch, 1, "Look again.", strip=True)


def test_branches_of_a_retry_are_no_retries():
    """Its forced turns are shared by its branches, and its parent is an episode of an earlier wave."""
    (before,) = grow(Planned(lambda f: [None]), budget=1, n_tasks=1)
    retry = retry_from(before.trajectories[0], 1, "Look again.", strip=False, siblings=before.trajectories)
    (group,) = grow(Anywhere(), plan=[retry] * 5, n_tasks=1, seed=4)
    known = {one.id: one for one in (*before.trajectories, *group.trajectories)}
    assert group.trajectories[0].parent == (before.trajectories[0].id, 1)
    assert [parent_of(one, known) is None for one in group.trajectories] == [True, *[False] * 4]
