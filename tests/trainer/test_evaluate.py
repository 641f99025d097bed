"""Unaided success: what counts, what does not, and that help has no way in."""

import asyncio
import inspect
import json
import math
from dataclasses import replace

import pytest

from tests.helpers import models, odd_envs
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.envs.lock import KEYS, RUBRIC, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.report.tables import Success, comparison_markdown
from turngate.rewards.monitors.broken import unusable_share
from turngate.trainer.evaluation.evaluate import Evaluation, evaluate
from turngate.trainer.evaluation.evaluations_file import add_evaluation, read_evaluations
from turngate.types import Score


def run(script, tasks, *, samples=1, score=RUBRIC.score_group, make_env=LockEnv, temperature=0.5, told=None):
    async def go():
        async with EnvPool(make_env, size=4) as pool:
            policy = ScriptedPolicy(script, models.chat())
            player = models.player(policy, temperature=temperature)
            return await evaluate(player, pool, score, tasks, split="heldout", samples=samples, seed=0, told=told)

    return asyncio.run(asyncio.wait_for(go(), 60))


def knows(task_ids, tasks):
    """Right keys for some tasks, wrong ones for the others."""
    lines = {}
    for task in tasks:
        right = LockEnv().oracle(task)
        wrong = ["press " + next(key for key in KEYS if f"press {key}" != line) for line in right]
        lines[task.id] = right if task.id in task_ids else wrong
    return lambda request: lines[request.task_id][request.turn]


def test_success_is_counted_per_task_in_order():
    tasks = models.tasks(4, "heldout")
    result, played = run(knows({tasks[1].id, tasks[3].id}, tasks), tasks, samples=2)
    assert result == Evaluation(
        split="heldout",
        temperature=0.5,
        success_B=(False, False, True, True) * 2,
        task_B=tuple(task.id for task in tasks for _ in range(2)),
        question_B=result.question_B,
        unusable=0,
        tasks=4,
        questions=4,
    )
    assert result.episodes == 8
    assert [len({*result.question_B[n : n + 2]}) for n in (0, 2, 4, 6)] == [1] * 4
    assert len({*result.question_B}) == 4, "one text for all tasks: each is a question of its own"
    assert result.rate == 0.5
    assert [group.task for group in played] == tasks
    assert {t.guidance for group in played for t in group.trajectories} == {None}


def test_tasks_that_ask_the_same_are_one_question():
    first, second, third = models.tasks(3, "heldout")
    tasks = [replace(first, prompt="open it"), replace(second, prompt="open  it"), replace(third, prompt="the other")]
    result, _ = run(knows({first.id}, tasks), tasks)
    one, same, other = result.question_B
    assert one == same != other
    assert result.task_B == (first.id, second.id, third.id)


@pytest.mark.parametrize(("outcome", "success"), [(1.0, True), (1 - 1e-9, True), (0.99, False), (0.0, False)])
def test_a_part_of_the_outcome_is_no_success(outcome, success):
    tasks = models.tasks(1)

    def score(group):
        scores = tuple(
            Score(ledger=(), reward_T=models.score(3, 0).reward_T, outcome=outcome, usable=True)
            for _ in group.trajectories
        )
        return models.ScoredGroup(task=group.task, trajectories=group.trajectories, scores=scores)

    result, _ = run(lambda request: "press a", tasks, score=score)
    assert result.success_B == (success,)


def test_unusable_episodes_are_counted_and_not_averaged_in():
    tasks = models.tasks(3, "heldout")

    class Broken(LockEnv):
        def act(self, action):
            if self._episode.task.id == tasks[0].id:
                raise OSError("no disk")
            return super().act(action)

    result, played = run(knows({task.id for task in tasks}, tasks), tasks, make_env=Broken)
    assert (result.unusable, result.success_B, result.rate) == (1, (True, True), 1.0)
    assert result.task_B == (tasks[1].id, tasks[2].id)
    assert len(played) == 3
    assert math.isnan(run(lambda request: "press a", tasks[:1], make_env=Broken)[0].rate)


def test_an_episode_without_room_for_a_turn_is_unusable():
    policy = models.local()
    limits = models.TokenLimits(turn_tokens=6, context=10)

    async def go():
        async with EnvPool(LockEnv, size=4) as pool:
            player = models.player(policy, limits=limits)
            return await evaluate(player, pool, RUBRIC.score_group, models.tasks(2), split="s", samples=1, seed=0)

    result, _ = asyncio.run(go())
    assert (result.success_B, result.unusable) == ((), 2)


def test_no_parameter_lets_help_in():
    parameters = set(inspect.signature(evaluate).parameters)
    looking = {"examining", "reads", "told"}  # after the episodes have ended
    memory = {"memory"}  # the one exception, whose results are reported apart
    assert parameters == {"player", "worlds", "score", "tasks", "split", "samples", "seed", *looking, *memory}


def test_hints_and_private_data_of_a_task_reach_neither_the_policy_nor_a_text():
    secret = {"gold": "XYZZY"}
    tasks = [
        replace(task, hints=("press SESAME",), private={**task.private, **secret})
        for task in models.tasks(2, "heldout")
    ]
    chat, contexts = models.chat(), []

    def script(request):
        contexts.append(chat.tokenizer.decode(request.ids))
        return "press a"

    _, played = run(script, tasks)
    shown = [turn.observation.text for group in played for one in group.trajectories for turn in one.turns]
    assert len(contexts) == len(shown) == 6
    assert all(any(text in context for context in contexts) for text in shown)  # contexts are what the policy reads
    for text in (*contexts, *shown, *(repr(thing) for group in played for thing in (group, group.task))):
        assert "SESAME" not in text
        assert "XYZZY" not in text


# --- an agent that voids what it cannot win ---------------------------------------------------------------------------


def voiding(how, tasks, known):
    """Solves the tasks that it knows, and does ``how`` in the last turn of the others."""
    lines = {task.id: list(LockEnv().oracle(task)) for task in tasks}
    for task in tasks:
        if task.id not in known:
            lines[task.id] = [*["press z"] * 2, f"press {how}"]
    return lambda request: lines[request.task_id][request.turn]


@pytest.mark.parametrize(
    ("how", "usable", "rate"),
    [
        ("void", 3, 1.0),  # a hole of the environment, which takes a fault of the agent for its own
        ("fault", 10, 0.3),  # closed: an AgentFault is a failure
        ("z", 10, 0.3),  # an agent that plays fair
    ],
)
def test_success_over_all_episodes_cannot_be_raised_by_voiding_what_fails(tmp_path, how, usable, rate):
    tasks = models.tasks(10, "heldout")
    known = {task.id for task in tasks[:3]}
    result, played = run(voiding(how, tasks, known), tasks, make_env=odd_envs.Breakable)
    assert (len(result.success_B), result.unusable) == (usable, 10 - usable)
    assert result.rate == pytest.approx(rate)
    assert result.rate_of_all == pytest.approx(0.3)
    alarm = unusable_share(played).alarm
    assert (alarm is None) == (how != "void")

    add_evaluation(tmp_path, "before", result)
    add_evaluation(tmp_path, "after", result)
    row = json.loads((tmp_path / "evaluations.jsonl").read_text().splitlines()[0])
    assert (row["rate"], row["rate_of_all"]) == (pytest.approx(rate), pytest.approx(0.3))
    assert read_evaluations(tmp_path) == [("before", result), ("after", result)]
    counts = {name: row[name] for name in ("tasks", "questions", "episodes", "unusable")}
    assert counts == {"tasks": 10, "questions": 10, "episodes": 10, "unusable": 10 - usable}
    success = Success(split="heldout", temperature=0.5, successes=3, n=usable, unusable=result.unusable)
    shown = comparison_markdown({"before": [success]})
    assert f"{100 * rate:.1f} [" in shown
    assert ("| 30.0      |" in shown) == (how == "void")  # elsewhere both rates are the same, and one is shown


def test_an_evaluation_without_usable_episodes_has_no_rate_but_one_over_all(tmp_path):
    tasks = models.tasks(2, "heldout")
    result, _ = run(voiding("void", tasks, set()), tasks, make_env=odd_envs.Breakable)
    assert math.isnan(result.rate)
    assert result.rate_of_all == 0
    add_evaluation(tmp_path, "before", result)
    row = json.loads((tmp_path / "evaluations.jsonl").read_text())
    assert (row["rate"], row["rate_of_all"], row["unusable"]) == (None, 0.0, 2)


def test_counts_of_older_runs_are_told_where_they_are_known(tmp_path):
    tasks = models.tasks(3, "heldout")
    result, _ = run(knows(set(), tasks), tasks)
    add_evaluation(tmp_path, "before", result)
    file = tmp_path / "evaluations.jsonl"
    old = {name: value for name, value in json.loads(file.read_text()).items() if name not in ("tasks", "questions")}
    older = {name: value for name, value in old.items() if name != "question_B"}
    rows = [old, {**old, "unusable": 1}, older]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [(one.tasks, one.questions) for _, one in read_evaluations(tmp_path)]
    assert found == [(3, 3), (None, None), (3, None)]


def test_every_task_that_was_played_is_told_with_what_is_solved_so_far():
    tasks, heard = models.tasks(4, "heldout"), []
    run(knows({tasks[1].id, tasks[3].id}, tasks), tasks, samples=2, told=lambda *counts: heard.append(counts))
    assert [counts[:2] for counts in heard] == [(2, 8), (4, 8), (6, 8), (8, 8)]
    assert heard[-1][2] == 0.5


def test_what_is_told_leaves_unusable_episodes_out():
    tasks, heard = models.tasks(2, "heldout"), []

    class Broken(LockEnv):
        def act(self, action):
            if self._episode.task.id == tasks[0].id:
                raise OSError("no disk")
            return super().act(action)

    run(knows({task.id for task in tasks}, tasks), tasks, make_env=Broken, told=lambda *counts: heard.append(counts))
    assert heard[-1] == (2, 2, 1.0)
