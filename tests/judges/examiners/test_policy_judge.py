"""The policy that plays judges what it played: the real engine, real environments, both engine orders."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from tests.helpers import models, tiny_judge
from tests.helpers.scripted_judge import shown, written
from tests.judges.examiners.episodes import examined, group, run, values
from turngate.agents import tiny
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.judges.asking import PolicyJudge
from turngate.judges.asking.parts import folder_version
from turngate.judges.examiners.base import ExamineContext
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.pairwise import Pairwise
from turngate.judges.examiners.pointwise import Pointwise
from turngate.judges.examiners.tournament import Tournament
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.types import EndedBy

JUDGE = PolicyJudge(max_tokens=4, attempts=1, canary_share=0, context=10_000)
TOURNAMENT = Tournament(judge=JUDGE, criterion="It presses the right keys.")
RUBRIC = Rubric(rewards=(FromEvidence(name="standing", evidence="standing", kind="outcome"),))


class Articulate(LocalPolicy):
    """Decodes like any other, and then says of a pair what ``taste`` says: a tiny model has no words of its own."""

    async def complete(self, request):
        completion = await super().complete(request)
        if request.task_id != "judge":
            return completion
        prompt = self._chat.decode(request.ids)
        return replace(completion, text=written(prompt, taste(prompt)), ended_by=EndedBy.STOP)


def taste(prompt):
    """Prefers one episode to another by a hash of what was done, and whatever has three turns to what has not."""
    work = {letter: [text for label, text in shown(prompt) if label.startswith(f"answer {letter}")] for letter in "AB"}
    a, b = (hashlib.sha1("".join(texts).encode()).digest()[0] % 9 if texts[2:] else -1 for texts in work.values())
    if a == b:
        return {"a": 5, "b": 5}
    better = "AB"[b > a]
    lines = [(len(line), turn, line) for turn, text in enumerate(work[better]) for line in text.splitlines()]
    _, turn, line = max(lines)
    quote = {"answer": better, "turn": turn, "quote": line}
    return {"evidence": [quote], "a": max(a, 0) + (a > b), "b": max(b, 0) + (b > a)}


def player_of(kind=Articulate, *, model=None, concurrency=5, order="fixed"):
    policy = kind(model or models.model(), models.chat(), concurrency=concurrency, order=order)
    return Player(policy, models.chat(), TokenLimits(turn_tokens=12, context=300))


def said_last(trajectory):
    return trajectory.turns[-1].action.text or "nothing"


async def judged(player, examiners, *, n_tasks=2, siblings=4, verdicts=None):
    """Play groups and examine them: groups, metrics."""
    base = ExamineContext(player=player, step=0, seed=3, answer=said_last, verdicts=verdicts)
    async with (
        EnvPool(LockEnv, size=player.policy.concurrency) as pool,
        Examining(examiners, base) as examining,
        examining.begin(1) as stage,
    ):
        groups = await play_groups(player, pool, models.tasks(n_tasks), [[None] * siblings] * n_tasks, seed=1)
        for one in groups:
            stage.group_done(one)
        return await stage.finish(groups)


def standings(groups):
    return [[score.total for score in RUBRIC.score_group(one).scores] for one in groups]


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_a_tournament_judged_by_the_policy_itself_ends(order):
    groups, metrics = run(judged(player_of(order=order), [TOURNAMENT]))
    assert metrics["examine/standing/failed"] == metrics["examine/standing/missing_share"] == 0
    for siblings, rewards in zip(groups, standings(groups), strict=True):
        assert sum(rewards) == pytest.approx(2)  # 0 to 1 in thirds; equal ones share
        why = siblings.trajectories[0].evidence[-1].value
        assert (why["judge"], why["version"], why["matches"], why["missing"]) == ("policy", "0", 6, 0)
    again, _ = run(judged(player_of(order=order), [TOURNAMENT]))
    assert standings(again) == standings(groups)


def test_a_step_that_is_played_again_asks_nothing_and_other_weights_are_asked_anew(tmp_path):
    path, player = tmp_path / "verdicts", player_of()
    first, asked = run(judged(player, [TOURNAMENT], verdicts=path))
    again, nothing = run(judged(player_of(), [TOURNAMENT], verdicts=path))  # the process died and came back
    assert again == first
    assert asked["examine/standing/judge_calls"] > 20
    assert nothing["examine/standing/judge_calls"] == 0
    assert nothing["examine/standing/judge_cached"] > 20
    run(player.policy.publish(dict(models.model().named_parameters()), 1))
    later, anew = run(judged(player, [TOURNAMENT], verdicts=path))
    assert anew["examine/standing/judge_calls"] == asked["examine/standing/judge_calls"]
    assert later[0].trajectories[0].evidence[-1].value["version"] == "1"


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_more_groups_than_lanes_share_the_engine(order):
    """Three groups and two examiners never ask more at once than a policy with two slots can serve."""
    some = [TOURNAMENT, Pairwise(judge=JUDGE)]
    groups, metrics = run(judged(player_of(concurrency=2, order=order), some, n_tasks=3, siblings=2))
    assert metrics["examine/standing/judge_fault_unavailable"] == 0
    assert metrics["examine/standing/missing_share"] == metrics["examine/win_rate/missing_share"] == 0
    for siblings in groups:
        facts = [{fact.name: fact.value for fact in one.evidence} for one in siblings.trajectories]
        assert [one["win_rate"] for one in facts] == [one["standing"] for one in facts]


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_a_policy_that_cannot_judge_leaves_everything_missing_and_goes_on(order):
    player = player_of(LocalPolicy, order=order)
    groups, metrics = run(judged(player, [TOURNAMENT, Pointwise(judge=JUDGE)], n_tasks=1))
    assert metrics["examine/standing/missing_share"] == metrics["examine/verdict/missing_share"] == 1
    assert metrics["examine/standing/failed"] == metrics["examine/verdict/failed"] == 0
    assert not any(score.usable for one in groups for score in RUBRIC.score_group(one).scores)
    run(player.policy.publish(dict(models.model().named_parameters()), 1))  # no episode is left in the engine


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_an_examiner_whose_time_is_up_leaves_the_engine_free(order):
    player = player_of(order=order)
    hurried = TOURNAMENT.model_copy(update={"deadline_s": 0.02})
    _, metrics = run(judged(player, [hurried], n_tasks=1))
    assert metrics["examine/standing/failed"] == 1
    run(player.policy.publish(dict(models.model().named_parameters()), 1))
    _, metrics = run(judged(player, [TOURNAMENT], n_tasks=1))
    assert metrics["examine/standing/missing_share"] == 0


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_cancelled_in_the_middle_nothing_runs_on(order):
    async def go():
        player, before = player_of(order=order), asyncio.all_tasks()
        work = asyncio.ensure_future(judged(player, [TOURNAMENT]))
        while not any(row.episode.startswith("judge") for row in player.policy._rows):
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asyncio.all_tasks() == before
        await player.policy.publish(dict(models.model().named_parameters()), 1)

    run(go())


# --- a model of the judge's own --------------------------------------------------------------------------------------


def test_a_model_in_a_folder_judges_while_others_are_played(tmp_path):
    """Its verdict is always no; it was trained to that."""
    folder = tmp_path / "tiny-judge"
    tiny.save(*tiny_judge.learn_to_say_no(), folder)
    part = tiny_judge.TinyJudge(
        model=str(folder), max_tokens=tiny_judge.TOKENS, context=tiny_judge.CONTEXT, attempts=1, concurrency=4
    )
    examiner = Pointwise(judge=part, criterion={"name": "right", "text": "The answer is right."})
    assert not examiner.asks_policy
    (after,), metrics = examined([examiner], [group("the answer is 0", "the answer is 1")])
    assert values([after], "verdict") == [[[False], [False]]]
    why = after.trajectories[0].evidence[-1].value
    assert (why["judge"], why["version"]) == ("tiny-judge", folder_version(folder))
    assert metrics["examine/verdict/judge_calls"] == 7
