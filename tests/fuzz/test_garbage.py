"""Servers that answer in every wrong way: each is down, asked again and counted, or what it says is an answer.

1. Nothing raw reaches the caller, and nobody waits beyond the deadline.
2. What is down is asked as often as the setting says; what no further request can change (a key that is wrong), once.
3. The episode is unusable, or the agent is told; it is never a failure of the agent.
4. Afterwards no connection is open and no thread is left.
"""

import asyncio
import gc
import json
import threading
import time

import pytest

import turngate
from tests.fuzz.request import REQUEST
from tests.helpers import models
from tests.helpers.chat_server import completion
from tests.helpers.garbage_server import KINDS, garbage_server, settled
from tests.helpers.scripted_judge import CRITERION, NO, item, written
from turngate.agents.chat import TextChat
from turngate.agents.policies.openai import OpenAIPolicy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.agents.server import ChatServer
from turngate.envs.pool.pool import EnvPool
from turngate.envs.search.engine.over_http import RetrievalClient
from turngate.envs.search.engine.retrievers import RetrieverFailed
from turngate.envs.tooluse.engine.mcp_world import McpHttp
from turngate.envs.tooluse.generated.domains.talk import UserSheet
from turngate.errors import ConfigError, EnvError, PolicyError
from turngate.judges.asking import Judge, JudgeSettings
from turngate.judges.asking.openai import OpenAITextModel
from turngate.judges.asking.user_models import ModelUser
from turngate.judges.texts import Fault, FaultKind
from turngate.types import Ending

FOUND = json.dumps({"result": [[{"document": {"id": "a", "contents": '"A"\nAnts dig.'}, "score": 1.5}]]}).encode()
MISTAKES = {name for name in KINDS if name in ("401", "403", "404") or name.startswith("a redirect")} | {"304"}
"""What a policy, judge or user says once, and ends the run: the address, the key or the name of the model is wrong."""
ONCE = {"400", "413", "418", "422"}
"""What is the fault of the one request, which is not sent again."""
SHORT_S, LONG_S = 0.3, 20.0
kinds = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(scope="module")
def server():
    with garbage_server() as up:
        yield up


@pytest.fixture(autouse=True)
def nothing_is_left(server, monkeypatch):
    monkeypatch.setattr("turngate.agents.policies.openai.BACKOFF_S", 0.001)
    server.paths.clear()
    before = {thread for thread in threading.enumerate() if thread.name != "garbage"}
    yield
    assert settled(server)
    end_s = time.monotonic() + 30
    while left := {one for one in threading.enumerate() if one.name != "garbage"} - before:
        assert time.monotonic() < end_s, left
        gc.collect()


def limit_s(name):
    return SHORT_S if KINDS[name].hangs else LONG_S


def expected(name, server, n):
    """How often it was asked is how often it should have been. What follows a body that is longer than its length comes
    late now and then, so that the connection is used again and the next request is lost with it."""
    kind = KINDS[name]
    asked = len(server.paths)
    return asked == (1 if kind.fine or name in MISTAKES | ONCE else n) or (name == "a length too short" and asked == 1)


def chat(text):
    return lambda path, body: completion(text)


@kinds
def test_a_policy_wrote_something_or_its_episode_cannot_be_used(server, name):
    server.kind, server.good = KINDS[name], chat("press a")
    asks = ChatServer(f"{server.address}/v1", "m", concurrency=1)
    policy = OpenAIPolicy(asks, concurrency=1, context=100, attempts=2, call_s=limit_s(name))
    policy._was_reached = True  # else the first failure says to check the address

    async def ask():
        async with policy.slot():
            return await policy.complete(REQUEST)

    if KINDS[name].fine:
        assert asyncio.run(ask()).text == "press a"
    else:
        with pytest.raises(ConfigError if name in MISTAKES else PolicyError) as raised:
            asyncio.run(ask())
        assert "\n" not in str(raised.value)
    assert expected(name, server, 2), server.paths


@pytest.mark.parametrize("name", ["a cut chunk", "a reset", "429", "never answers", "nested in it", "422"])
def test_an_episode_whose_policy_is_down_is_not_a_failure_of_the_agent(server, name):
    server.kind, server.good = KINDS[name], chat("press a")
    asks = ChatServer(f"{server.address}/v1", "m", concurrency=1)
    policy = OpenAIPolicy(asks, concurrency=1, context=100, attempts=2, call_s=limit_s(name))
    policy._was_reached = True

    async def play():
        async with EnvPool(models.ShortLock, size=1) as pool:
            player = Player(policy, TextChat(), TokenLimits(turn_tokens=9, context=100))
            (group,) = await play_groups(player, pool, models.tasks(1), [[None]], seed=1)
        return group.trajectories

    (played,) = asyncio.run(play())
    assert played.ending is Ending.POLICY_ERROR


@kinds
def test_a_judge_has_a_verdict_or_it_is_missing(server, name):
    def good(path, body):
        prompt = json.loads(body)["messages"][0]["content"] if body else ""
        return completion(written(prompt, NO) if prompt else "{}")

    server.kind, server.good = KINDS[name], good
    limit = limit_s(name)
    settings = JudgeSettings(call_s=limit, deadline_s=2 * LONG_S, attempts=2, backoff_s=0.001, backoff_max_s=0.001)

    async def ask():
        async with OpenAITextModel(f"{server.address}/v1", "m", concurrency=8) as text_model:
            return await Judge(text_model, settings=settings).pointwise([item(0)], CRITERION)

    if name in MISTAKES:
        with pytest.raises(ConfigError, match="check the address"):
            asyncio.run(ask())
    else:
        judged = asyncio.run(ask())
        (answer,), tally = judged.answers, judged.tally
        n_questions = 1 + tally.n_canaries
        assert 0 < len(server.paths) <= tally.n_calls  # a call may end before the server has read it
        if not KINDS[name].fine:
            assert isinstance(answer, Fault)
            kind = FaultKind.TIMEOUT if KINDS[name].hangs else FaultKind.UNAVAILABLE
            assert tally.faults[kind] == tally.n_calls
            assert tally.n_calls == n_questions * (1 if name in ONCE else 2)
        elif not KINDS[name].early:  # who answers before the question cannot know its nonce
            assert answer.passed is False
            assert tally.n_calls == n_questions


@kinds
def test_a_user_said_something_or_the_environment_says_that_it_did_not(server, name):
    server.kind, server.good = KINDS[name], chat("MOOD: 5\nSAY: yes")
    judge = {"type": "server", "url": f"{server.address}/v1", "model": "m", "attempts": 2, "call_s": limit_s(name)}
    user = ModelUser.model_validate({"type": "model", "judge": judge}).open()
    sheet = UserSheet(wish="I want a refund.", facts={})
    try:
        if KINDS[name].fine:
            assert user.reply(sheet, [], "Well?").text == "yes"
        else:
            with pytest.raises(ConfigError if name in MISTAKES else EnvError):
                user.reply(sheet, [], "Well?")
    finally:
        user.close()
    assert expected(name, server, 2), server.paths


@kinds
def test_a_retrieval_server_found_something_or_is_down(server, name):
    server.kind, server.good = KINDS[name], lambda path, body: FOUND
    client = RetrievalClient(f"{server.address}/retrieve", timeout_s=limit_s(name), attempts=2)
    try:
        start_s = time.monotonic()
        if KINDS[name].fine:
            (hit,) = client.search("ants", 3)
            assert hit.passage.text == "Ants dig."
            client.search("ants", 3)  # what one answer said spoils no other one
        else:
            with pytest.raises(RetrieverFailed, match="the retrieval server") as raised:
                client.search("ants", 3)
            assert "\n" not in str(raised.value)
            assert time.monotonic() - start_s < limit_s(name) + 30
            assert len(server.paths) == (1 if KINDS[name].hangs else 2)
    finally:
        client.close()


@kinds
def test_what_is_no_mcp_server_is_refused_in_time(server, name):
    server.kind, server.good = KINDS[name], lambda path, body: b"{}"
    start_s = time.monotonic()
    with pytest.raises(ConfigError, match="is no MCP server that can be used"):
        McpHttp(url=f"{server.address}/mcp", start_s=limit_s(name)).open()
    assert time.monotonic() - start_s < limit_s(name) + 30


@pytest.mark.parametrize("score", ["9" * 400, "1e999", "-Infinity", "NaN", '"' + "9" * 400 + '"'])
def test_a_score_without_end_costs_no_passage(server, score):
    server.kind, server.good = KINDS["right chunks"], lambda path, body: FOUND.replace(b"1.5", score.encode())
    client = RetrievalClient(f"{server.address}/retrieve", timeout_s=LONG_S, attempts=1)
    assert client.search("ants", 3)[0].score == 0.0
    client.close()


@pytest.mark.parametrize("name", ["a broken status line", "a cut chunk", "drips headers", "HTML", "422"])
def test_the_agent_of_a_retrieval_server_that_is_down_is_told_or_its_episode_is_unusable(server, name):
    server.kind = KINDS[name]
    part = {"type": "server", "url": f"{server.address}/retrieve", "timeout_s": limit_s(name)}
    task = turngate.Task(id="t", env_id="turngate/Search-v1", prompt="Who digs?", private={"gold": ["ants"]})
    for on_failure in ("tell", "end"):
        env = turngate.make(
            "turngate/Search-v1", tasks=turngate.TaskList([task]), retriever=part, on_failure=on_failure
        )
        env.reset(seed=0)
        if on_failure == "tell":
            observation, *_, info = env.step("search ants")
            assert observation.text == "error: the search engine did not answer; try again"
            assert ("search_failed", True) in {(fact.name, fact.value) for fact in info["evidence"]}
            assert env.finish(Ending.TOKEN_BUDGET)[1]["score"].usable
        else:
            with pytest.raises(EnvError):
                env.step("search ants")
        env.close()
