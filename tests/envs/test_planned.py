"""An environment in which the agent plans first.

1. The plan is the first turn; the environment begins after it as it would without, and its facts keep their turns.
2. The stage says which turns are learned from, and changes nothing else.
3. Whether an episode follows its own plan is judged as for a plan that was given.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import turngate
from tests.agents.test_rollout import Recording
from tests.helpers import models
from tests.helpers.chat_server import serving_prompts
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.config.run_config import parse
from turngate.envs.planned import ASK, MOST_LINES, PlannedEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Source, Trajectory


def played(stage: int, plan: str = "look\npress") -> Trajectory:
    """An episode by the environment's own solution, after ``plan``."""
    with turngate.make("turngate/Planned-v1") as env:
        task = env.tasks.task("train", 0)
        said = [plan, *env.oracle(task)[1:]]

    async def go() -> Trajectory:
        policy = Recording(lambda request: said[request.turn])
        async with EnvPool(lambda: PlannedEnv(stage=stage), size=1) as pool:
            player = Player(policy, models.chat(), TokenLimits(turn_tokens=64, context=1000))
            (group,) = await play_groups(player, pool, [task], [[None]], seed=3)
        return group.trajectories[0]

    return asyncio.run(asyncio.wait_for(go(), 60))


def values(trajectory: Trajectory, name: str) -> list[tuple[int | None, object]]:
    return [(fact.turn, fact.value) for fact in trajectory.evidence if fact.name == name]


def test_the_plan_is_the_first_turn_and_the_environment_begins_after_it():
    one = played(3)
    assert one.turns[0].observation.text.endswith(f"\n{ASK}")
    assert one.turns[0].action.text == "look\npress"
    assert not one.turns[0].action.parse_error
    first = one.turns[0].observation.text.removesuffix(f"\n{ASK}")
    assert one.turns[1].observation.text == f"Carry out the plan. {first}"
    assert values(one, "plan") == [(0, "look\npress")]
    assert values(one, "planned") == [(0, True)]
    assert values(one, "right_key") == [(1, True), (2, True), (3, True)]
    assert values(one, "opened") == [(None, True)]
    assert len(values(one, "answer")) == 1


@pytest.mark.parametrize(("stage", "learned"), [(1, [1, 2, 3]), (2, [0]), (3, [0, 1, 2, 3])])
def test_the_stage_says_what_is_learned_and_changes_nothing_else(stage: int, learned: list[int]):
    one, whole = played(stage), played(3)
    spoken = [set(turn.source[len(turn.context_ids) :].tolist()) for turn in one.turns]
    assert [number for number, sources in enumerate(spoken) if sources == {Source.POLICY}] == learned
    assert all(sources == {Source.CONTEXT} for number, sources in enumerate(spoken) if number not in learned)
    assert [turn.action for turn in one.turns] == [turn.action for turn in whole.turns]
    assert one.ids().tolist() == whole.ids().tolist()
    assert one.evidence == whole.evidence


@pytest.mark.parametrize("plan", ["", "\n".join("abcdefghi")])
def test_what_is_no_plan_is_not_paid(plan: str):
    assert values(played(3, plan), "planned") == [(0, False)]
    assert values(played(3, plan), "plan") == [(0, None)]
    assert len("abcdefghi") == MOST_LINES + 1


def test_it_is_paid_only_where_the_task_was_solved():
    with turngate.make("turngate/Planned-v1") as env:
        task = env.tasks.task("train", 0)
        for actions, total in ((env.oracle(task), 1.15), (["press", *["press z"] * 3], 0.0)):
            env.reset(seed=0, options={"task": task})
            *_, (_, _, _, _, info) = [env.step(action) for action in actions]
            assert info["score"] is not None
            assert info["score"].total == pytest.approx(total)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"stage": 4}, "stage is 4; choose 1"), ({"max_turns": 1}, "max_turns is 1; the plan takes one turn")],
)
def test_wrong_settings_are_told(settings: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        turngate.make("turngate/Planned-v1", **settings)


def test_following_the_own_plan_is_judged_and_paid(tmp_path: Path):
    rubric = {
        "rewards": [
            {"type": "from_evidence", "name": "planned", "evidence": "planned", "kind": "outcome"},
            {"type": "from_evidence", "name": "adherence", "evidence": "adherence", "weight": 0.5, "per_turn": True},
        ],
        "gates": [{"type": "needs_outcome", "at_least": 1.0}],
    }

    def script(prompt: str, n: int) -> Any:
        if "turn 1, agent" not in prompt:  # a canary, which is planted work of one turn
            return {"verdict": "invalid"}
        return {"steps": [{"turn": turn, "verdict": "ok"} for turn in range(4)]}

    with serving_prompts(script) as server:
        judge = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        settings = {
            "name": "planned",
            "folder": str(tmp_path),
            "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
            "env": {"id": "turngate/Planned-v1", "kwargs": {"stage": 2}, "rubric": rubric},
            "warm_start": {"episodes": 48, "epochs": 8, "episodes_per_batch": 8, "lr": 1e-2},
            "policy": {"turn_tokens": 4, "context": 1000, "concurrency": 8},
            "examine": [{"type": "adherence", "judge": judge, "votes": 1}],
            "train": {"steps": 1, "tasks_per_step": 2, "group_size": 4},
            "eval": {"tasks": 1},
        }
        Job(parse(settings), Console(quiet=True)).run()
        prompts = [body["messages"][0]["content"] for _, _, body in server.heard]
    played_ones = [
        pair
        for group in Store(RunFolder(tmp_path / "planned").path).read(1, "train")
        for pair in zip(group.trajectories, group.scores, strict=True)
    ]
    for one, score in played_ones:
        plan, follows = values(one, "plan")[0][1], values(one, "adherence")
        assert follows == [(turn, float(plan is not None)) for turn in range(0 if plan is None else 1, 4)]
        if is_plain(plan):
            assert any(f"reference\n{plan}\n" in prompt for prompt in prompts)
        assert score.total == pytest.approx(0 if plan is None else 1.5)
        assert {number for number, turn in enumerate(one.turns) if Source.POLICY in turn.source} == {0}
    assert any(is_plain(values(one, "plan")[0][1]) and score.total for one, score in played_ones)


def is_plain(plan: object) -> bool:
    """Whether a judge is shown it as it is: controls and the like are fenced."""
    return isinstance(plan, str) and plan.isascii() and plan.isprintable()
