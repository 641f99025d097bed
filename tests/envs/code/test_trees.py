"""Branches of a code repair: files and shell are those of the state that they leave, and nobody sees another's work."""

import asyncio
import pickle
from functools import partial

import pytest

from tests.agents.test_tree_rollout import Planned
from tests.helpers import models
from turngate.agents.branches import Fork
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.rollout import Player, TokenLimits
from turngate.agents.tree_rollout import play_tree
from turngate.envs.pool.pool import EnvPool

COMMANDS = ("bash cd /tmp; echo {n} >> /work/notes.txt", "bash pwd; cat /work/notes.txt", "submit")


def test_a_branch_goes_on_in_files_and_shell_of_its_own(env_of, problem):
    calls = 0

    def script(request):
        nonlocal calls
        calls += 1
        return COMMANDS[request.turn].format(n=calls)

    def first(forest):
        return [Fork(id=forest.leaves[0].id, turn=1)] * 2 + [Fork(id=forest.leaves[0].id, turn=0)]

    async def go():
        async with EnvPool(partial(env_of, problem), size=2) as worlds:
            limits = TokenLimits(turn_tokens=99, context=9000)
            player = Player(ScriptedPolicy(script, models.chat(), concurrency=2), models.chat(), limits)
            expander = Planned(lambda forest: [None], first)
            return await play_tree(
                player, worlds, [problem.task()], [[None] * 4], expander, fork=lambda task: "exact", seed=0
            )

    (group,) = asyncio.run(go())
    seen = [leaf.turns[2].observation.text for leaf in group.trajectories]
    assert seen[:3] == ["/tmp\n1"] * 3
    assert seen[3].startswith("/tmp\n")
    assert len(seen[3].splitlines()) == 2  # its own note alone
    assert seen[3] != seen[0]
    assert all(leaf.ending.usable for leaf in group.trajectories)


def test_a_snapshot_of_a_sandbox_stays_in_its_process(env_of, problem):
    env = env_of(problem)
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(env.snapshot())
    env.close()
