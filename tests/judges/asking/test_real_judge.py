"""A real model behind the judge: in this process, and behind a real server in another one."""

import asyncio
import json

import pytest

from tests.helpers import tiny_judge
from tests.helpers.scripted_judge import CRITERION, item, items
from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.server import MAX_WAIT_S, read_completion, retry_after
from turngate.errors import ConfigError, PolicyError
from turngate.judges.asking import Judge, JudgeSettings, OpenAITextModel, PolicyTextModel, VerdictCache
from turngate.judges.asking.openai import reply_of
from turngate.judges.texts import Fault, FaultKind, JudgeId, item_of_text, verdict_facts

SETTINGS = JudgeSettings(
    call_s=60, deadline_s=90, attempts=2, backoff_s=0.01, backoff_max_s=0.02, max_tokens=tiny_judge.TOKENS
)


def run(call):
    return asyncio.run(asyncio.wait_for(call, 100))


def kinds(judged):
    return [answer.kind if isinstance(answer, Fault) else answer.passed for answer in judged.answers]


# --- in this process -------------------------------------------------------------------------------------------------


def test_a_real_model_gives_real_verdicts(trained, tmp_path):
    text_model = tiny_judge.text_model(*trained)
    cache = VerdictCache(tmp_path / "c")
    judged = run(Judge(text_model, settings=SETTINGS, cache=cache).pointwise(items(5), CRITERION))
    assert kinds(judged) == [False] * 5
    assert (judged.tally.n_calls, judged.tally.n_missed, dict(judged.tally.faults)) == (10, 0, {})
    assert verdict_facts("right", judged.answers[0], text_model.judge)[0].value is False
    again = run(Judge(text_model, settings=SETTINGS, cache=cache).pointwise(items(5), CRITERION))
    assert (again.answers, again.tally.n_calls) == (judged.answers, 0)


def test_a_model_that_learned_nothing_gives_none(trained):
    _, tokenizer = trained
    model = tiny.random_model(tokenizer, layers=1, width=32, heads=2, context=tiny_judge.CONTEXT, seed=1)
    judged = run(Judge(tiny_judge.text_model(model, tokenizer), settings=SETTINGS).pointwise(items(2), CRITERION))
    assert kinds(judged) == [FaultKind.VOID] * 2  # no canary could be measured either
    assert judged.tally.faults[FaultKind.CUT_OFF] == judged.tally.n_calls == 2 * (2 + 5)


def test_the_same_seed_gives_the_same_words(trained):
    _, tokenizer = trained
    model = tiny.random_model(tokenizer, layers=1, width=32, heads=2, context=tiny_judge.CONTEXT, seed=1)
    warm = SETTINGS.model_copy(update=dict(temperature=1.0, max_tokens=8))

    def words(seed):
        text_model, heard = tiny_judge.text_model(model, tokenizer), []
        complete = text_model.complete

        async def listen(prompt):
            reply = await complete(prompt)
            heard.append((prompt.name, reply.text))
            return reply

        text_model.complete = listen
        run(Judge(text_model, seed=seed, settings=warm).pointwise(items(2), CRITERION))
        return sorted(heard)

    assert words(1) == words(1)
    assert words(1) != words(2)


def test_two_judges_share_one_policy(trained):
    """They ask the same questions at the same time."""
    text_model = tiny_judge.text_model(*trained, concurrency=8)

    async def both():
        one, two = (Judge(text_model, settings=SETTINGS) for _ in range(2))
        text_model.concurrency = 3
        return await asyncio.gather(one.pointwise(items(3), CRITERION), two.pointwise(items(3), CRITERION))

    assert [kinds(judged) for judged in run(both())] == [[False] * 3] * 2


def test_a_call_that_takes_too_long_is_withdrawn_and_the_policy_goes_on(trained):
    text_model = tiny_judge.text_model(*trained)

    async def go():
        hurried = Judge(text_model, settings=SETTINGS.model_copy(update=dict(call_s=1e-4, attempts=2)))
        calm = Judge(text_model, settings=SETTINGS)
        return await hurried.pointwise(items(3), CRITERION), await calm.pointwise(items(3), CRITERION)

    late, judged = run(go())
    assert kinds(late) == [FaultKind.VOID] * 3
    assert late.tally.faults[FaultKind.TIMEOUT] == 2 * (3 + 5)
    assert kinds(judged) == [False] * 3


def test_work_that_does_not_fit_is_missing_and_not_retried(trained):
    text_model = tiny_judge.text_model(*trained)
    judged = run(Judge(text_model, settings=SETTINGS).pointwise([item(0), item(1, "the answer is 1" * 300)], CRITERION))
    assert kinds(judged) == [False, FaultKind.UNAVAILABLE]
    assert "exceed the context of 1200" in judged.answers[1].detail


def test_a_policy_that_fails_is_a_judge_that_is_unavailable(trained):
    def broken(request):
        raise PolicyError("no line left")

    chat = Chat(trained[1])
    text_model = PolicyTextModel(ScriptedPolicy(broken, chat), chat, JudgeId(name="s", version="1"), context=10**6)
    judged = run(Judge(text_model, settings=SETTINGS).pointwise([item(0)], CRITERION))
    assert judged.tally.faults[FaultKind.UNAVAILABLE] == 2 * (1 + 5)


# --- behind a server -------------------------------------------------------------------------------------------------


def ask_server(url, model, *, some=None, settings=SETTINGS, **options):
    async def go():
        async with OpenAITextModel(url, model, concurrency=4, **options) as text_model:
            return await Judge(text_model, settings=settings).pointwise(items(2) if some is None else some, CRITERION)

    return run(go())


@pytest.mark.component
def test_a_real_server_gives_the_verdicts_of_its_model(url):
    judged = ask_server(f"{url}/", "tiny")
    assert kinds(judged) == [False, False]
    assert (judged.tally.n_calls, dict(judged.tally.faults)) == (7, {})


@pytest.mark.component
def test_a_server_that_is_busy_is_asked_again(url):
    judged = ask_server(url, "shaky")
    assert kinds(judged) == [False, False]
    assert judged.tally.faults == {FaultKind.UNAVAILABLE: 7}


@pytest.mark.component
@pytest.mark.parametrize(
    ("model", "kind", "calls"),
    [
        ("down", FaultKind.UNAVAILABLE, 2),
        ("hangup", FaultKind.UNAVAILABLE, 2),
        ("nonsense", FaultKind.UNAVAILABLE, 2),
        ("refusing", FaultKind.REFUSAL, 2),
        ("too long", FaultKind.UNAVAILABLE, 1),
        ("slow", FaultKind.TIMEOUT, 2),
    ],
)
def test_every_failure_of_a_server_is_counted_and_missing(url, model, kind, calls):
    hurried = SETTINGS.model_copy(update=dict(call_s=0.2)) if model == "slow" else SETTINGS
    judged = ask_server(url, model, settings=hurried)
    assert kinds(judged) == [FaultKind.VOID] * 2
    assert judged.tally.faults[kind] == judged.tally.n_calls == calls * (2 + 5)


@pytest.mark.component
def test_a_wrong_key_or_address_is_told_and_not_retried(url):
    assert kinds(ask_server(url, "locked", api_key="sesame")) == [False, False]
    with pytest.raises(ConfigError, match="answered 401 for model 'locked'"):
        ask_server(url, "locked")
    with pytest.raises(ConfigError, match="answered 404"):
        ask_server(url.removesuffix("/v1"), "tiny")


def test_nobody_at_the_address():
    judged = ask_server("http://127.0.0.1:9/v1", "tiny", some=[item_of_text("i", "t", "some answer")])
    assert kinds(judged) == [FaultKind.VOID]
    assert judged.tally.faults[FaultKind.UNAVAILABLE] == 2 * (1 + 5)


def test_an_address_is_an_address_and_connections_are_opened_first():
    with pytest.raises(ConfigError, match="'localhost:8000' is not the address of a server"):
        OpenAITextModel("localhost:8000", "m")
    text_model = OpenAITextModel("http://localhost:1/v1", "m")
    with pytest.raises(RuntimeError, match="not open"):
        run(Judge(text_model, settings=SETTINGS).pointwise(items(1), CRITERION))


def read_reply(body):
    return reply_of(read_completion(body))


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"choices": []}', '{"choices": [{"message": "x"}]}', "<html>"])
def test_a_body_that_is_no_completion(body):
    assert read_reply(body).fault.kind is FaultKind.UNAVAILABLE


def test_what_a_completion_may_hold():
    def body(message, reason="stop"):
        return json.dumps({"choices": [{"message": message, "finish_reason": reason}]})

    assert read_reply(body({"content": "x"})).text == "x"
    assert read_reply(body({"content": None})).text == ""
    assert read_reply(body({"content": "", "refusal": "no"})).fault.kind is FaultKind.REFUSAL
    assert read_reply(body({"content": "x"}, "content_filter")).fault.kind is FaultKind.REFUSAL
    for reason in ("length", "model_length", "max_tokens"):
        assert read_reply(body({"content": "x"}, reason)).fault.kind is FaultKind.CUT_OFF
    for reason in ("error", "abort"):
        assert read_reply(body({"content": "x"}, reason)).fault.kind is FaultKind.UNAVAILABLE


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, 0), ("", 0), ("2", 2), ("-1", 0), ("9999", MAX_WAIT_S), ("Wed, 21 Oct 2026 07:28:00 GMT", 0), ("nan", 0)],
)
def test_how_long_a_server_asks_to_wait(header, seconds):
    assert retry_after(header) == seconds
