"""Step verdicts of a judge that sees: an episode of Web-v1, its screenshots over HTTP, and what the rubric pays."""

import asyncio
import base64
from dataclasses import replace

import pytest

import turngate
from tests.helpers import models
from tests.helpers.chat_server import serving
from tests.helpers.examine_kit import context, group
from tests.helpers.scripted_judge import written
from turngate.envs.web.rubric import JUDGED_RUBRIC
from turngate.errors import ConfigError
from turngate.judges.asking.text_model import PolicyTextModel, Prompt
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.steps import Steps
from turngate.rubrics import find_rubric
from turngate.types import Action

TASKS = {"type": "miniwob", "pages": ["choose-list"], "seeds": 1, "held_out": 0}


@pytest.fixture(scope="module")
def won():
    """An episode that the oracle wins, with its screenshots."""
    with turngate.make("turngate/Web-v1", tasks=TASKS, screenshot="plain") as env:
        task = env.tasks.task("train", 0)
        seen, info = env.reset(options={"task": task})
        turns, facts = [], list(info["evidence"])
        for text in env.oracle(task):
            turns.append(replace(models.turn([1], [2]), observation=seen, action=Action(text=text)))
            seen, *_, info = env.step(text)
            facts += info["evidence"]
        assert info["score"].outcome == 1.0
    return replace(models.trajectory(turns, name="won"), evidence=tuple(facts))


def judged(won, script, **settings):
    with serving(script) as server:
        judge = {"type": "server", "url": server.url, "model": "seer", "attempts": 1}
        examiner = Steps.model_validate(
            {"name": "step_verdict", "judge": judge, "votes": 1, "screenshots": True} | settings
        )

        async def go():
            async with Examining([examiner], context()) as examining:
                return await examining.examined([group([won])], 1)

        (after,), metrics = asyncio.run(asyncio.wait_for(go(), 60))
    return after, metrics, server


def parts(body):
    """The text of a request, and the images in it."""
    content = body["messages"][0]["content"]
    if isinstance(content, str):
        return content, []
    images = [base64.b64decode(part["image_url"]["url"].split(",")[1]) for part in content[1:]]
    return content[0]["text"], images


@pytest.mark.component
def test_the_judge_sees_the_screenshot_of_each_turn_and_its_verdicts_are_paid(won):
    heard = []

    def critic(body, n):
        text, images = parts(body)
        heard.append((text, images))
        if "turn 1, agent" not in text:  # a canary: null work
            return written(text, {"steps": [{"turn": 0, "verdict": "wrong", "quote": ""}]})
        quote = won.turns[1].action.text
        steps = [{"turn": 0, "verdict": "ok"}, {"turn": 1, "verdict": "wrong", "quote": quote}]
        return written(text, {"steps": steps})

    after, metrics, _ = judged(won, critic)
    assert metrics["examine/step_verdict/failed"] == 0
    real = [images for text, images in heard if "turn 1, agent" in text]
    assert real == [[turn.observation.images[0] for turn in won.turns]]
    assert all(images for _, images in heard)  # canaries cannot be told by what they lack
    facts = {fact.turn: fact.value for fact in after.trajectories[0].evidence if fact.name == "step_verdict"}
    assert facts == {0: 1.0, 1: 0.0}
    assert find_rubric("web_judged") == JUDGED_RUBRIC
    score = JUDGED_RUBRIC.score_group(after).scores[0]
    assert [event.value for event in score.ledger if event.name == "steps"] == [1.0, 0.0]


@pytest.mark.component
def test_another_screenshot_is_another_question(won):
    prompts = []

    def critic(body, n):
        text, _ = parts(body)
        prompts.append(text)
        return 500

    seen = won.turns[0].observation
    other = replace(
        won, turns=(replace(won.turns[0], observation=replace(seen, images=(seen.images[0] + b" ",))), *won.turns[1:])
    )
    for one in (won, other):
        after, _, _ = judged(one, critic)
        verdicts = [fact.value for fact in after.trajectories[0].evidence if fact.name == "step_verdict"]
        assert set(verdicts) == {None}  # a judge that fails gives no verdict, and none in its place
    assert len({text for text in prompts if "turn 1, agent" in text}) == 2


def test_a_judge_that_cannot_see_is_refused_by_name():
    with pytest.raises(ConfigError, match="screenshots"):
        Steps.model_validate({"judge": {"type": "policy"}, "screenshots": True})


def test_a_model_of_text_alone_says_that_it_takes_no_images():
    at = context()
    text_model = PolicyTextModel(at.player.policy, at.player.chat, context=100)
    reply = asyncio.run(text_model.complete(Prompt(name="a", text="b", seed=0, max_tokens=1, images=(b"x",))))
    assert "no images" in reply.fault.detail
    assert not reply.again
