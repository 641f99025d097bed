"""Hindsight: what a failed episode achieved, and that only what a verifier finds solved is imitated (E8)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers import models
from tests.trainer.auxiliary.test_auxiliary_losses import episode, means, with_hint
from turngate.envs.tooluse.env import ToolUseEnv
from turngate.envs.tooluse.generated.lending_tasks import LendingTasks
from turngate.trainer.auxiliary.relabelled import Relabelling
from turngate.types import Action, Task, ToolCall


def calls(*made: tuple[str, dict[str, Any]]) -> list[Action]:
    """One action per call."""
    return [Action(text="", calls=(ToolCall(name=name, arguments=arguments),)) for name, arguments in made]


TASK = LendingTasks(max_level=1).task("train", 0)
STATE = TASK.private["state"]
IN = [book for book in STATE["books"] if book not in STATE["loans"]]
OUT = next(iter(STATE["loans"]))
FREE = next(m for m in STATE["members"] if list(STATE["loans"].values()).count(m) < 2)


def test_what_was_lent_and_taken_back_is_the_goal():
    """The sheet's apple on the table: what ended otherwise than it began is what was asked for."""
    lend = ("lend", {"book": IN[0], "member": FREE})
    found = LendingTasks().achieved(TASK, calls(("find_book", {"title": "x"}), lend, ("take_back", {"book": OUT})))
    assert found is not None
    assert found.prompt == f"Take back {OUT}. Lend {IN[0]} to {FREE}."
    assert [call.name for call in found.private["calls"]] == ["take_back", "lend"]
    assert found.private["state"] == STATE
    assert found.env_id == TASK.env_id


@pytest.mark.parametrize(
    "actions",
    [
        [],
        calls(("find_book", {"title": "x"})),
        calls(("lend", {"book": "B99", "member": FREE})),  # refused
        calls(("lend", {"book": OUT, "member": FREE})),  # refused: it is on loan
        calls(("lend", {"book": IN[0], "member": FREE}), ("take_back", {"book": IN[0]})),  # it ended as it began
    ],
)
def test_a_goal_that_holds_at_the_start_is_refused(actions: list[Action]):
    assert LendingTasks().achieved(TASK, actions) is None


@pytest.mark.parametrize("index", range(6))
def test_the_environment_finds_the_new_task_solved_by_the_same_actions(index: int):
    """And the old one not: the real verifier of both."""
    source = LendingTasks()
    task = source.task("train", index)
    state = task.private["state"]
    wrong = next(
        book for book in state["loans"] if f" {book}" not in task.prompt and state["books"][book] not in task.prompt
    )
    actions = [f'{{"name": "take_back", "arguments": {{"book": "{wrong}"}}}}']
    told = calls(("take_back", {"book": wrong}))
    new = source.achieved(task, told)
    assert new is not None
    assert new.prompt == f"Take back {wrong}."
    with ToolUseEnv() as env:
        for one, right in ((new, True), (task, False)):
            env.reset(seed=0, options={"task": one})
            env.step(f"<tool_call>\n{actions[0]}\n</tool_call>")
            facts = {fact.name: fact.value for fact in env.verify()}
            assert facts["solved" if "solved" in facts else "goal_met"] is right


def some(achieved: Any, won: float = 1.0) -> Any:
    asked: list[Any] = []

    async def play(tasks: list[Task], entries: Any, *, seed: int) -> Any:
        asked.extend(zip(tasks, entries, strict=True))
        return [
            models.scored([episode(own[0].turns, task=task.id)], [won])
            for task, own in zip(tasks, entries, strict=True)
        ]

    source = Relabelling().open(replace(means(play), achieved=achieved))
    return source, asked


def other(task: Task, actions: Any) -> Task | None:
    return replace(task, id="other") if actions[0].text != "press e" else None


def test_only_failures_without_help_and_thoughts_are_played_again():
    failed, won, nothing = episode(["press b"]), episode(["press a"]), episode(["press e"])
    thinking = replace(failed, turns=tuple(replace(t, action=replace(t.action, thought="blue")) for t in failed.turns))
    group = models.scored([failed, won, nothing, thinking, with_hint(failed)], [0.0, 1.0, 0.0, 0.0, 0.0])
    source, asked = some(other)
    found = asyncio.run(source.rows([group], 1))
    assert [(task.id, entries[0].turns, entries[0].whole) for task, entries in asked] == [("other", ("press b",), True)]
    assert source.metrics() == {"found": 1, "with_thoughts": 1}
    assert models.chat().decode(found.rows[0].ids[found.rows[0].trained]) == "press b"
    assert found.weight == 0.3
    unsolved, _ = some(other, won=0.0)
    assert not asyncio.run(unsolved.rows([group], 1)).rows
