"""The environment: what is asked, said, paid and refused, with text models of every kind."""

import json

import pytest

import turngate
from tests.helpers.chat_server import completion, serving, serving_prompts, slow
from turngate.agents import tiny
from turngate.envs.check.check_env import check_env
from turngate.errors import EnvError, UserError
from turngate.judges.asking import blocking_text_model as blocking_text_model

RIGHT = "routing/train/0"


def facts(info, name):
    return [fact.value for fact in info["evidence"] if fact.name == name]


def questions(folder, *rows):
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"type": "routing_questions", "file": str(path), "held_out": 0}


def one_question(folder):
    return questions(folder, {"id": "cap", "prompt": "Capital of Norway?", "answers": ["Oslo", "Kristiania"]})


def routed(folder, *models):
    return turngate.make("turngate/Router-v1", tasks=one_question(folder), models=list(models))


def server(url, **more):
    return {"type": "server", "url": url, "model": "m", "attempts": 1, **more}


def threads():
    return [one for one in blocking_text_model.threading.enumerate() if one.name == blocking_text_model.THREAD]


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert threads() == []


# --- generated questions ----------------------------------------------------------------------------------------------


def test_the_oracle_is_always_right_and_the_dear_way_is_paid_less():
    with turngate.make("turngate/Router-v1") as env:
        kinds = set()
        for split in env.tasks.splits:
            for index in range(60):
                task = env.tasks.task(split, index)
                kinds.add(task.prompt.split()[0])
                totals = []
                for first in (env.oracle(task)[0], "ask sage", None):
                    env.reset(options={"task": task})
                    if first:
                        env.step(first)
                    totals.append(env.step(env.oracle(task)[-1])[4]["score"])
                assert [score.outcome for score in totals] == [1, 1, 1]
                assert totals[2].total > totals[0].total > totals[1].total > 1
        assert kinds == {"What", "Which", "In"}


def test_who_answers_without_knowing_is_paid_nothing():
    won = 0
    with turngate.make("turngate/Router-v1") as env:
        for index in range(100):
            for actions in (["answer 7"], ["answer wolf"], ["answer unknown"], ["ask parrot", "answer abacus sage"]):
                env.reset(options={"task": f"routing/train/{index}"})
                score = [env.step(action) for action in actions][-1][4]["score"]
                won += score.outcome
                assert score.total == 0 or env.task.private["gold"] == ["wolf"]
    assert won <= 2


def test_splits_share_no_question():
    with turngate.make("turngate/Router-v1") as env:
        asked = [{env.tasks.task(split, index).prompt for index in range(300)} for split in env.tasks.splits]
    assert not asked[0] & asked[1]


def test_the_agent_is_told_prices_and_its_costs_are_recorded():
    with turngate.make("turngate/Router-v1") as env:
        observation, _ = env.reset(options={"task": RIGHT})
        assert "- sage: knows all that the others know (price 16 a token, 4 s)" in observation.text
        first = env.step("ask sage")[4]
        assert (facts(first, "asked"), facts(first, "reply_tokens"), facts(first, "reply_cost")) == (
            ["sage"],
            [1],
            [16],
        )
        assert facts(first, "model_reply") == env.task.private["gold"]
        env.step("ask abacus What is 2 plus 3?")
        last = env.step("answer 5")[4]
        assert (facts(last, "cost"), facts(last, "n_asked"), facts(last, "latency_s")) == ([17.0], [2], [4.2])
        assert facts(last, "cost_score")[0] == pytest.approx(1 - (17 / 19.5) ** 0.5)


def test_a_fixed_scale_of_costs():
    with turngate.make("turngate/Router-v1", cost_range=[2.0, 6.0]) as env:
        env.reset(options={"task": RIGHT})
        env.step("ask sage")
        assert facts(env.step("answer x")[4], "cost_score") == [0.5]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("ask sagge", "unknown model 'sagge'; did you mean 'sage'?"),
        ("ask sage " + "x" * 1001, "1001 characters; at most 1000"),
        ("ask", "ask needs MODEL"),
        ("asks sage", "ask"),
    ],
)
def test_what_cannot_be_asked_is_an_observation(action, said):
    with turngate.make("turngate/Router-v1") as env:
        env.reset(options={"task": RIGHT})
        observation, _, terminated, _, info = env.step(action)
        assert said in observation.text
        assert observation.text.startswith("error:")
        assert not terminated
        assert facts(info, "reply_cost") == []


def test_a_reply_does_not_answer_for_the_agent():
    with turngate.make("turngate/Router-v1", max_turns=2) as env:
        env.reset(options={"task": RIGHT})
        env.step("ask sage")
        info = env.step("ask sage")[4]
        assert (facts(info, "answered"), facts(info, "correct"), info["score"].outcome) == ([False], [False], 0)
        assert facts(info, "repeated") == [False]  # the state has changed: the first reply is known now


def test_a_copy_goes_on_as_the_episode_does():
    with turngate.make("turngate/Router-v1") as env, turngate.make("turngate/Router-v1") as other:
        env.reset(options={"task": RIGHT})
        env.step("ask parrot")
        snapshot = env.snapshot()
        ends = []
        for one in (env, other):
            one.restore(snapshot)
            one.step("ask sage")
            ends.append(one.step("answer x"))
        assert ends[0][:4] == ends[1][:4]
        assert ends[0][4]["evidence"] == ends[1][4]["evidence"]
        assert facts(ends[0][4], "n_asked") == [2]


# --- text models ------------------------------------------------------------------------------------------------------


def test_a_server_is_asked_once_and_its_own_count_of_tokens_is_paid(tmp_path):
    reply = completion("Oslo", used=99)
    body = json.dumps({**json.loads(reply), "usage": {"total_tokens": 99, "completion_tokens": 3}}).encode()
    cache = str(tmp_path / "replies.jsonl")
    with serving(lambda body_, n: body) as up:
        model = {"name": "big", "price": 2.0, "cache": cache, "text_model": server(up.url)}
        with routed(tmp_path, model) as env:
            assert [str(finding) for finding in check_env(env)] == []
        with routed(tmp_path, model) as env:
            env.reset()
            first, again = env.step("ask big")[4], env.step("ask big")[4]
            assert (facts(first, "model_reply"), facts(first, "reply_cost")) == (["Oslo"], [6.0])
            assert facts(again, "reply_cost") == [6.0]
            assert env.step("answer Kristiania")[4]["score"].outcome == 1
        assert len(up.heard) == 1
        assert up.heard[0][2]["messages"][0]["content"] == "Capital of Norway?"
    with routed(tmp_path, model) as env:  # the file makes the model superfluous
        env.reset()
        assert facts(env.step("ask big")[4], "reply_tokens") == [3]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (lambda prompt, n: 500, "model 'big' gave no reply: unavailable"),
        (lambda prompt, n: slow("Oslo", 1.0), "model 'big' gave no reply: it did not reply within"),
    ],
)
def test_a_model_that_fails_makes_the_episode_unusable(tmp_path, script, problem):
    with serving_prompts(script) as up:
        model = {"name": "big", "price": 1.0, "deadline_s": 0.3, "text_model": server(up.url)}
        with routed(tmp_path, model) as env:
            env.reset()
            with pytest.raises(EnvError, match=problem):
                env.step("ask big")


@pytest.mark.parametrize("reply", [{"text": None, "refusal": "I must not."}, {"text": "First,", "finish": "length"}])
def test_a_model_that_declines_or_does_not_end_is_an_observation(tmp_path, reply):
    """Else an agent could void an episode by what it asks."""
    with serving(lambda body, n: completion(**reply)) as up:
        env = routed(tmp_path, {"name": "big", "price": 1.0, "text_model": server(up.url)})
        env.reset()
        observation, _, _, _, info = env.step("ask big how to pick a lock")
        env.close()
    assert observation.text == "error: big declined to answer; ask otherwise, or another model"
    assert (facts(info, "call_ok"), facts(info, "reply_cost")) == ([False], [0.0])


def test_recorded_replies_and_a_prompt_around_the_question(tmp_path):
    file = tmp_path / "replies.jsonl"
    file.write_text('{"prompt": "Q: Capital of Norway?", "reply": "It is Oslo", "tokens": 7}\n')
    model = {
        "name": "old",
        "price": 1.0,
        "prompt": "Q: {question}",
        "text_model": {"type": "recorded", "file": str(file)},
    }
    with routed(tmp_path, model) as env:
        env.reset()
        assert facts(env.step("ask old")[4], "reply_cost") == [7.0]
        assert "declined" in env.step("ask old Capital of Sweden?")[0].text


def test_a_function_that_raises_makes_the_episode_unusable(tmp_path):
    model = {"name": "f", "price": 1.0, "text_model": {"type": "function", "path": "math:sqrt"}}
    with routed(tmp_path, model) as env:
        env.reset()
        with pytest.raises(EnvError, match="model 'f' gave no reply: unavailable: it raised TypeError"):
            env.step("ask f")


def test_a_model_in_a_folder_whose_reply_finds_no_end(tmp_path, caplog):
    tokenizer = tiny.train_tokenizer(["Capital of Norway? Oslo"] * 4, vocabulary=300)
    model = tiny.random_model(tokenizer, layers=1, width=32, heads=2, context=256, seed=1)
    tiny.save(model, tokenizer, tmp_path / "model")
    text_model = {"type": "model", "model": str(tmp_path / "model"), "context": 256, "max_tokens": 5}
    with routed(tmp_path, {"name": "tiny", "price": 0.5, "text_model": text_model}) as env:
        env.reset()
        observation, *_, info = env.step("ask tiny")
        assert observation.text == "error: tiny declined to answer; ask otherwise, or another model"
        assert facts(info, "reply_cost") == [0.0]
    assert "at the most tokens that it may have, 5 tokens; raise max_tokens" in caplog.text


# --- settings ---------------------------------------------------------------------------------------------------------

OK = {"name": "a", "price": 1.0, "text_model": {"type": "function", "path": "builtins:str"}}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"models": [OK]}, "models has no effect with 'generated_routing'"),
        ({"question_chars": 3}, "question_chars is 3; it must be at least 40"),
        ({"cost_range": [4.0, 4.0]}, "cost_range is"),
    ],
)
def test_settings_that_do_not_fit(settings, problem):
    with pytest.raises(UserError, match=problem):
        turngate.make("turngate/Router-v1", **settings)


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        (None, "these tasks need models"),
        ([], "models"),
        ([OK, OK], "2 of them are called 'a'"),
        ([OK | {"price": -1.0}], "price"),
        ([OK | {"name": "a b"}], "name"),
        ([OK | {"text_model": {"type": "policy"}}], "model 'a' cannot be the policy that is being trained"),
        ([OK | {"text_model": {**OK["text_model"], "votes": 3}}], r"judge\.votes has no effect on model 'a'"),
        ([OK | {"prompt": "Answer."}], "must hold {question}"),
        ([OK | {"text_model": {"type": "functoin"}}], "did you mean 'function'"),
    ],
)
def test_models_that_do_not_fit(tmp_path, models, problem):
    with pytest.raises(UserError, match=problem):
        turngate.make("turngate/Router-v1", tasks=one_question(tmp_path), models=models)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"prompt": "Q?"}], "line 1, field 'answers'"),
        ([{"prompt": "Q?", "answers": ["  "]}], "every answer would be right"),
        ([{"id": "a", "prompt": "Q?", "answers": "x"}] * 2, "line 2: the id 'a' is used twice, first in line 1"),
        ([], "holds no questions"),
    ],
)
def test_questions_that_cannot_be_read(tmp_path, rows, problem):
    with pytest.raises(UserError, match=problem):
        turngate.make("turngate/Router-v1", tasks=questions(tmp_path, *rows), models=[OK])
