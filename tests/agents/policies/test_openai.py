"""A policy behind a real server on loopback: what it sends, what it makes of each answer, and what it leaves behind."""

import asyncio
import time

import numpy as np
import pytest

from tests.helpers import chat_server, models
from tests.helpers.chat_server import completion
from turngate.agents.chat import TextChat
from turngate.agents.policies.openai import OpenAIPolicy, _pause_s
from turngate.agents.policies.parts import LocalPolicyPart, OpenAIPolicyPart
from turngate.agents.probing import ids_after
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.agents.server import ChatServer
from turngate.envs.pool.pool import EnvPool
from turngate.errors import ConfigError, OutOfRoom, PolicyError, ShapeError
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.types import EndedBy, Ending, Message, Request, Sampling

HELLO = (Message(role="user", content="Hello?"),)
PAY = (Tool(name="pay", description="Pay.", parameters=(Parameter(name="amount", annotation=float),)),)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("turngate.agents.policies.openai.BACKOFF_S", 0.01)


def request(episode="e", *, messages=HELLO, max_tokens=9, seed=2**62, **sampling):
    return Request(
        episode=episode,
        task_id="t",
        ids=np.zeros(0, np.int32),
        turn=len(messages) // 2,
        seed=seed,
        max_tokens=max_tokens,
        sampling=Sampling(**sampling),
        messages=messages,
    )


def policy(server, *, concurrency=4, context=100, attempts=3, call_s=30.0, **options):
    asks = ChatServer(server.url, "big", concurrency=concurrency, **options)
    return OpenAIPolicy(asks, concurrency=concurrency, context=context, attempts=attempts, call_s=call_s)


def asked(of, *requests):
    """What it says to each, or raises, all at once."""

    async def one(wanted):
        async with of.slot():
            return await of.complete(wanted)

    async def go():
        return await asyncio.gather(*map(one, requests), return_exceptions=True)

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_it_sends_the_conversation_and_hands_back_text_without_tokens():
    talk = (*HELLO, Message(role="assistant", content="Hi."), Message(role="user", content="Odd: \ud800"))
    with chat_server.serving(lambda body, n: completion("Fine.", finish="length")) as server:
        options = {"api_key": "k", "tokens_field": "max_completion_tokens", "extra": {"reasoning_effort": "low"}}
        (said,) = asked(policy(server, **options), request(messages=talk, temperature=0.5, top_p=0.9, top_k=7))
    (_, headers, body) = server.heard[0]
    assert headers["Authorization"] == "Bearer k"
    assert body == {
        "model": "big",
        "messages": [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Odd: ?"},
        ],
        "seed": 2**31,
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "top_p": 0.9,
        "top_k": 7,
        "reasoning_effort": "low",
    }
    assert (said.text, said.ended_by, len(said.ids_K), len(said.logprobs_K)) == ("Fine.", EndedBy.LENGTH, 0, 0)


@pytest.mark.parametrize(
    "trouble",
    [
        429,
        500,
        503,
        b"<html>",
        b'{"choices": []}',
        (429, b"slow down", {"Retry-After": "0.2"}),
        (200, b'{"choices": [{"message"', {}),
    ],
)
def test_a_server_in_trouble_is_asked_again(trouble):
    with chat_server.serving(lambda body, n: trouble if n < 3 else "Here.") as server:
        start_s = time.monotonic()
        (said,) = asked(policy(server), request())
    assert (said.text, len(server.heard)) == ("Here.", 3)
    if isinstance(trouble, tuple) and trouble[2]:
        assert time.monotonic() - start_s >= 0.4  # twice what Retry-After asked for


PARTS = [{"type": "text", "text": "pay "}, {"type": "text", "text": "3"}]


def said_by(content, *, finish="stop", **message):
    """What the policy hands back where the reply has this content."""
    body = completion(content, finish=finish, **message)
    with chat_server.serving(lambda *_: (200, body, {})) as server:
        return asked(policy(server, attempts=1), request())[0]


def test_parts_of_a_reply_are_joined_and_an_unknown_form_is_no_reply():
    assert said_by(PARTS).text == "pay 3"
    assert said_by([*PARTS, {"type": "thinking", "thinking": "hm"}, None]).text == "pay 3"
    for content in ({"text": "pay 3"}, 3, [{"type": "text", "text": {"value": "pay 3"}}], [["pay 3"]]):
        assert isinstance(said_by(content), PolicyError), content


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("finish", "arguments", "n_calls"), [
    ("tool_calls", '{"amount": 3}', 1), ("length", '{"amount": 3}', 0), ("length", '{"amount": 3', 0),
    ("tool_calls", '{"amount": NaN}', 0), ("length", "", 0),
    ("tool_calls", '{"amount": -Infinity}', 0), ("tool_calls", '{"amount": "NaN"}', 0),
])  # fmt: skip
def test_half_a_call_and_no_number_are_never_carried_out(count, finish, arguments, n_calls):
    call = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": arguments}}
    whole = {"id": "b", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 1}'}}
    said = said_by(None, finish=finish, tool_calls=[whole, call][-count:])
    assert said.ended_by is (EndedBy.LENGTH if finish == "length" else EndedBy.STOP)
    action = parse(said.text, PAY)
    assert len(action.calls) == n_calls * count, action
    assert bool(action.parse_error) == (not n_calls)


@pytest.mark.parametrize(
    ("trouble", "attempts", "detail"),
    [
        (503, 3, "status 503: "),
        (400, 1, "status 400: "),
        (b"nonsense", 3, "not a chat completion: 'nonsense'"),
    ],
)
def test_in_the_end_it_is_a_typed_error_with_the_reason(trouble, attempts, detail):
    with chat_server.serving(lambda body, n: trouble) as server:
        (error,) = asked(policy(server), request())
    assert type(error) is PolicyError
    assert f"gave no reply to turn 0 of 'e' in {attempts} attempts; the last: {detail}" in str(error)
    assert len(server.heard) == attempts


def test_a_reply_that_takes_too_long_is_given_up():
    with chat_server.serving(lambda body, n: chat_server.slow("Late.", 5) if n == 1 else "In time.") as server:
        (said,) = asked(policy(server, call_s=2.0), request())
        assert said.text == "In time."
        (error,) = asked(policy(server, call_s=1e-4, attempts=2), request())
    assert "in 2 attempts; the last: no reply within 0.0001 s" in str(error)


@pytest.mark.parametrize("status", [401, 403, 404, 308])
def test_a_server_that_refuses_altogether_is_a_mistake_of_the_config_and_its_words_hold_no_key(status):
    with chat_server.serving(lambda body, n: (status, b"not with sk-123", {"Location": "/"})) as server:
        (error,) = asked(policy(server, api_key="sk-123"), request())
    assert isinstance(error, ConfigError)
    assert f"answered {status} for model 'big': 'not with ***'" in str(error)
    assert len(server.heard) == 1


def test_nobody_there_is_told_but_a_server_that_goes_away_costs_an_episode():
    with chat_server.serving(lambda body, n: "Yes.") as server:
        gone = policy(server, attempts=2)
        assert asked(gone, request())[0].text == "Yes."
    (lost,) = asked(gone, request())
    assert type(lost) is PolicyError
    (never,) = asked(policy(server, attempts=2), request())
    assert isinstance(never, ConfigError)
    assert "nobody answers at" in str(never)


def test_no_more_requests_at_once_than_lanes():
    with chat_server.serving(lambda body, n: chat_server.slow("Ok.", 0.05)) as server:
        said = asked(policy(server, concurrency=3), *(request(f"e{n}") for n in range(12)))
    assert [one.text for one in said] == ["Ok."] * 12
    assert server.most_busy == 3


@pytest.mark.parametrize(
    "words",
    [
        b'{"error": {"code": "context_length_exceeded", "message": "too long"}}',
        b'{"error": {"message": "This model\'s maximum context length is 4096 tokens."}}',
        b'{"error": {"type": "exceed_context_size_error"}}',
    ],
)
def test_a_conversation_that_is_too_long_is_out_of_room(words):
    with chat_server.serving(lambda body, n: (400, words, {})) as server:
        (error,) = asked(policy(server), request())
    assert type(error) is OutOfRoom
    assert len(server.heard) == 1


def test_the_servers_own_count_of_tokens_is_held_against_the_context():
    with chat_server.serving(lambda body, n: completion("Ok.", used=92)) as server:
        counting = policy(server, context=100)
        assert asked(counting, request("a"))[0].text == "Ok."
        (error,) = asked(counting, request("a"))
        assert str(error) == "92 tokens are in use and a turn may have 9: 100 in all"
        assert asked(counting, request("b"))[0].text == "Ok."  # another episode
        counting.release("a")
        assert asked(counting, request("a"))[0].text == "Ok."
    assert len(server.heard) == 3


def test_a_refusal_is_what_it_says():
    with chat_server.serving(lambda body, n: completion(None, refusal="I will not.")) as server:
        (said,) = asked(policy(server), request())
    assert (said.text, said.ended_by) == ("I will not.", EndedBy.STOP)


def test_connections_close_with_the_last_lane_and_open_again():
    with chat_server.serving(lambda body, n: "Ok.") as server:
        of = policy(server)
        for _ in range(2):
            assert asked(of, request())[0].text == "Ok."
            assert of._server._client is None


def test_pauses_double_and_come_from_the_seed(monkeypatch):
    monkeypatch.setattr("turngate.agents.policies.openai.BACKOFF_S", 1.0)
    assert _pause_s(1, 1) == _pause_s(1, 1) != _pause_s(2, 1)
    assert [0.5 * 2**n <= _pause_s(7, n + 1) < 2**n for n in range(4)] == [True] * 4
    assert _pause_s(7, 50) <= 30


def test_a_judge_or_a_probe_without_messages_is_refused():
    with chat_server.serving(lambda body, n: "Ok.") as server:
        (error,) = asked(policy(server), request(messages=()))
    assert "comes without messages" in str(error)


# --- episodes --------------------------------------------------------------------------------------------------------


def played_by(who):
    async def go():
        async with EnvPool(models.ShortLock, size=2) as pool:
            (group,) = await play_groups(who, pool, models.tasks(1), [[None] * 2], seed=1)
        return group.trajectories

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_what_needs_tokens_refuses_its_episodes():
    with chat_server.serving(lambda body, n: "press a") as server:
        who = Player(policy(server), TextChat(), TokenLimits(turn_tokens=9, context=100))
        played = played_by(who)
    assert {one.ending for one in played} <= {Ending.MAX_TURNS, Ending.FINISHED}
    assert [turn.completion.text for turn in played[0].turns] == ["press a"] * len(played[0].turns)
    with pytest.raises(ShapeError, match="has no context before its first turn"):
        pack_demonstrations(played)
    with pytest.raises(ShapeError, match="has no token ids, because a server that returns only text played it"):
        ids_after(played[0], 0, who.chat)
    for ask in (lambda: who.chat.encode_turn("x"), lambda: who.chat.decode(np.zeros(1, np.int32))):
        with pytest.raises(ConfigError, match="gives text alone; use a local model"):
            ask()


def test_the_part_opens_it_with_the_key_of_the_moment_and_takes_no_model(monkeypatch):
    monkeypatch.setenv("THE_KEY", "k1")
    with chat_server.serving(lambda body, n: "Ok.") as server:
        part = OpenAIPolicyPart(url=server.url, model="big", key_variable="THE_KEY", concurrency=2)
        monkeypatch.setenv("THE_KEY", "k2")
        assert asked(part.served().policy, request())[0].text == "Ok."
    assert server.heard[0][1]["Authorization"] == "Bearer k2"
    assert "k2" not in part.model_dump_json()
    with pytest.raises(ConfigError, match="cannot be trained and takes no model"):
        part.open(models.plain_model(), models.chat())
    with pytest.raises(ConfigError, match="samples from a model; name one"):
        LocalPolicyPart().served()
