"""The waves of a step: what is played when, where each episode ends up, and that every one is booked once."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.prefix_turns import PrefixTurns
from turngate.envs.lock import RUBRIC, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import PartError, RunError
from turngate.store.metrics import Clock
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.guidance.base import Guide, NoGuide
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.run import Run
from turngate.trainer.waves import MAX_WAVES, play_waves
from turngate.types import Guidance, derive_seed

TASKS = models.tasks(3)
ORACLE = LockEnv()


def right(task):
    return tuple(ORACLE.oracle(task))


def help_of(level=1, **more):
    return Guidance(**{"kind": "hint", "level": level, "text": "press", "source": "env", **more})


def opens(task, joins=True):
    """An episode that succeeds whatever the policy does."""
    guidance = help_of(3, kind="expert", text="", source="expert", joins=joins)
    return PrefixTurns(turns=right(task), guidance=guidance, whole=True)


@dataclass
class Scripted(Guide):
    """Plans what it is told, wave by wave, and keeps what it is shown."""

    waves: dict[str, list[Plan]]
    seen: list[object] = field(default_factory=list)
    observed: list[object] = field(default_factory=list)

    def plan(self, task, group_size):
        return self.waves[task.id][0]

    def again(self, group, wave):
        self.seen.append((group, wave))
        plans = self.waves[group.task.id]
        return plans[wave] if wave < len(plans) else None

    def observe(self, groups):
        self.observed.append(groups)


def run_of(pool, guide, script, **more):
    player = models.player(ScriptedPolicy(script, models.chat(), concurrency=8))
    return Run(
        player=player,
        worlds=pool,
        score=RUBRIC.score_group,
        guide=guide,
        credit=grpo,
        filters={},
        learner=None,
        loss=PolicyLoss(),
        store=None,
        group_size=4,
        minibatches=1,
        aggregate="token",
        tolerance=1e-4,
        seed=0,
        **more,
    )


def play(guide, tasks=TASKS[:1], script=lambda request: "press e", **more):
    async def go():
        async with EnvPool(LockEnv, size=4) as pool:
            return await play_waves(run_of(pool, guide, script, **more), tasks, 1, Clock())

    return asyncio.run(asyncio.wait_for(go(), 60))


def waves_of(*plans, task=TASKS[0]):
    return Scripted({task.id: list(plans)})


def books(metrics):
    return {name.removeprefix("guide/"): value for name, value in metrics.items()}


def test_without_a_guide_there_is_one_wave_and_nothing_is_reported():
    waves = play(NoGuide(), TASKS)
    assert [group.task for group in waves.groups] == TASKS
    assert [len(group.trajectories) for group in waves.groups] == [4] * 3
    assert waves.groups == waves.played
    assert (waves.unused, waves.metrics) == ([], {})
    assert {one.id.partition("@")[2] for group in waves.groups for one in group.trajectories} == {
        f"{derive_seed(0, 'step', 1):x}"
    }


def test_each_wave_has_seeds_and_ids_of_its_own():
    waves = play(waves_of(Plan(entries=[None] * 2), Plan(entries=[None] * 2), Plan(entries=[None])))
    (group,) = waves.groups
    assert len({one.id for one in group.trajectories}) == len({one.seed for one in group.trajectories}) == 5
    again = play(waves_of(Plan(entries=[None] * 2), Plan(entries=[None] * 2), Plan(entries=[None])))
    assert again.groups[0].trajectories == group.trajectories


def test_the_guide_is_shown_everything_so_far_and_asked_until_it_has_enough():
    guide = waves_of(
        Plan(entries=[None] * 2), Plan(entries=[help_of()] * 2, into="own"), Plan(entries=[opens(TASKS[0])])
    )
    play(guide)
    assert [(len(group.trajectories), wave) for group, wave in guide.seen] == [(2, 1), (4, 2), (5, 3)]


def test_waves_of_several_tasks_are_played_together_and_a_task_that_is_done_is_not_asked_again():
    plans = {task.id: [Plan(entries=[None] * 2)] * n for n, task in enumerate(TASKS, 1)}
    guide = Scripted(plans)
    waves = play(guide, TASKS)
    assert [len(group.trajectories) for group in waves.groups] == [2, 4, 6]
    assert [(group.task.id, wave) for group, wave in guide.seen] == [
        *((task.id, 1) for task in TASKS),
        *((task.id, 2) for task in TASKS[1:]),
        (TASKS[2].id, 3),
    ]
    assert waves.metrics["guide/waves"] == 3


def test_own_makes_a_group_beside_the_first_one():
    waves = play(waves_of(Plan(entries=[None] * 3), Plan(entries=[help_of()] * 2, into="own")))
    assert [len(group.trajectories) for group in waves.groups] == [3, 2]
    assert [len(group.trajectories) for group in waves.played] == [5]
    cohorts = [{one.cohort for one in group.trajectories} for group in waves.groups]
    assert cohorts == [{(TASKS[0].id, None, None)}, {(TASKS[0].id, ("hint", 1), None)}]


def test_a_better_episode_replaces_the_worst_row_and_all_others_stay_as_they_were():
    before = play(waves_of(Plan(entries=[None] * 4))).groups[0]
    waves = play(waves_of(Plan(entries=[None] * 4), Plan(entries=[help_of(), opens(TASKS[0])], into="replace")))
    (group,) = waves.groups
    assert [one.guidance is not None for one in group.trajectories] == [True, False, False, False]
    assert group.trajectories[1:] == before.trajectories[1:]
    assert [score.outcome for score in group.scores] == [1, 0, 0, 0]
    assert [one.id for one in waves.unused[0].trajectories] == [
        before.trajectories[0].id,
        waves.played[0].trajectories[4].id,
    ]
    found = books(waves.metrics)
    assert (found["sampled"], found["kept"], found["replaced"], found["tried"]) == (6, 4, 1, 1)
    assert (found["lift_1"], found["lift_3"], found["unguided_success"]) == (0, 1, 0)
    assert found["guided_share"] == pytest.approx(2 / 6)
    assert found["env_steps"] == 18


def test_an_episode_that_is_not_better_replaces_nothing():
    waves = play(waves_of(Plan(entries=[None] * 4), Plan(entries=[help_of()], into="replace")))
    assert [one.guidance for one in waves.groups[0].trajectories] == [None] * 4
    assert books(waves.metrics)["tried"] == 1


def test_the_row_can_be_named():
    waves = play(waves_of(Plan(entries=[None] * 4), Plan(entries=[opens(TASKS[0])], into="replace", row=2)))
    assert [one.guidance is not None for one in waves.groups[0].trajectories] == [False, False, True, False]


def test_a_whole_episode_of_an_expert_that_fails_is_left_out():
    wrong = replace(opens(TASKS[0]), turns=("press e",) * 3)
    waves = play(waves_of(Plan(entries=[wrong, opens(TASKS[0]), None, None])))
    assert [one.guidance is not None for one in waves.groups[0].trajectories] == [True, False, False]
    assert books(waves.metrics)["failed_experts"] == 1
    assert waves.unused[0].trajectories[0].guidance.source == "expert"


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(["same", "own", "replace"]), st.lists(st.integers(0, 3), min_size=1, max_size=3)),
        min_size=1,
        max_size=4,
    )
)
def test_every_episode_is_booked_once(shape):
    """sampled = kept + replaced + tried + failed_experts, and no episode is in two places."""
    task = TASKS[0]
    entries = [None, help_of(2), opens(task), replace(opens(task), turns=("press e",) * 3)]
    plans = [Plan(entries=[entries[kind] for kind in kinds], into=into) for into, kinds in shape]
    waves = play(waves_of(*plans))
    found = books(waves.metrics)
    assert found["sampled"] == sum(len(plan.entries) for plan in plans)
    assert found["sampled"] == found["kept"] + found["replaced"] + found["tried"] + found["failed_experts"]
    placed = [one.id for group in (*waves.groups, *waves.unused) for one in group.trajectories]
    assert sorted(placed) == sorted(one.id for group in waves.played for one in group.trajectories)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(entries=[]), r"returned Plan\(entries=\[\].*: it has no entries; it must return a Plan"),
        (
            [None] * 4,
            r":Scripted' \(.*, line \d+\): plan\(\) returned \[None, None, None, None\]; it must return a Plan",
        ),
    ],
)
def test_plans_that_cannot_be_played_are_refused(plan, says):
    with pytest.raises(PartError, match=says):
        play(waves_of(plan))


def test_a_guide_that_never_stops_is_stopped():
    with pytest.raises(RunError, match=rf"Scripted wants wave {MAX_WAVES} of task 'lock/train/0'"):
        play(waves_of(*[Plan(entries=[None])] * (MAX_WAVES + 1)))


def test_scores_of_what_is_learned_from_are_those_of_its_groups_alone():
    """So that ``turngate rescore`` finds the same for what is stored."""
    waves = play(waves_of(Plan(entries=[None] * 2), Plan(entries=[help_of()] * 2, into="own")))
    for group in waves.groups:
        again = RUBRIC.score_group(group)
        for mine, yours in zip(group.scores, again.scores, strict=True):
            np.testing.assert_array_equal(mine.reward_T, yours.reward_T)


@pytest.mark.parametrize("state", [{"seen": {1, 2}}, object()])
def test_a_state_that_is_not_json_is_named(tmp_path, state):
    class Careless(Guide):
        def state(self):
            return state

        def load(self, state):
            pass

    run = run_of(None, Careless(), lambda request: "press e")
    with pytest.raises(PartError, match=r"Careless' .*: state\(\) returned .*: .*; it must return JSON"):
        run.checkpointed["guide"].save(tmp_path / "guide.pt")


def test_a_guide_without_a_state_is_not_in_checkpoints():
    assert "guide" not in run_of(None, NoGuide(), lambda request: "press e").checkpointed
