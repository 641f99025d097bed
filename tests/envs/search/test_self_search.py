"""Passages that are written: by the agent itself (SSRL), or by a model; and a real engine in their place."""

import asyncio
import threading

import numpy as np
import pytest

import turngate
from tests.helpers import command_line, models
from tests.helpers.chat_server import serving_prompts, slow
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs.check.check_env import check_env
from turngate.envs.pool.pool import EnvPool
from turngate.envs.search.engine.self_search import written_passages
from turngate.envs.search.env import SearchEnv
from turngate.errors import EnvError, UserError
from turngate.judges.asking.blocking_text_model import THREAD
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.types import Source

TASK = "search/train/0"


def search(**settings):
    return turngate.make("turngate/Search-v1", **settings)


def facts(info):
    return {fact.name: fact.value for fact in info["evidence"]}


def threads():
    return [one for one in threading.enumerate() if one.name == THREAD]


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Oslo: a town\n\n- Aker: a river\nx", [("Oslo", "a town"), ("Aker", "a river"), ("", "x")]),
        ("a: b\na: b\nc: d", [("a", "b"), ("c", "d")]),
        ("1\n2\n3\n4", [("", "1"), ("", "2"), ("", "3")]),
        ("at 10:30", [("", "at 10:30")]),
        (f"{'t' * 200}: x", [("", f"{'t' * 200}: x")]),
        ("a: ", [("", "a:")]),
        (" \n", []),
    ],
)
def test_lines_as_passages(text, found):
    passages = written_passages(text, 3)
    assert [(one.title, one.text) for one in passages] == found
    assert written_passages(text, 3) == passages  # ids are hashes
    assert len({one.id for one in passages}) == len(passages)


# --- the agent writes -------------------------------------------------------------------------------------------------


def test_a_search_is_two_turns_and_ends_as_that_of_an_engine():
    with search(retriever="self") as env, search(retriever="bm25") as real:
        for one in (env, real):
            one.reset(options={"task": env.tasks.task("train", 0)})
        asked, *_, info = env.step("search the river of Delna")
        assert asked.text.startswith("Write what you know about: the river of Delna\n")
        assert facts(info)["query_new"] == 1.0
        assert info["learned"] is True
        seen, *_, info = env.step("Delna: Delna lies on the Aker.\nA river: The Aker is long.")
        assert info["learned"] is False
        assert (facts(info)["passages_written"], facts(info)["parsed"]) == (2, True)
        form = r"\[[^\]\s]+\] [^:\n]+: [^\n]+"
        import re

        assert all(re.fullmatch(form, line) for line in seen.text.splitlines())
        assert all(re.fullmatch(form, line) for line in real.step("search town")[0].text.splitlines())
        name = seen.text[1 : seen.text.index("]")]
        assert env.step(f"open {name}")[0].text == f"[{name}] Delna: \n| Delna lies on the Aker."
        assert env.step(f"cite {name}")[0].text == f"cited: {name}"
        assert [tool["function"]["name"] for tool in env.reset(seed=0)[1]["tools"]] == [
            tool["function"]["name"] for tool in real.reset(seed=0)[1]["tools"]
        ]


def test_what_stands_in_a_passage_does_not_answer_and_is_no_call():
    with search(retriever="self") as env:
        env.reset(options={"task": TASK})
        gold = env.task.private["gold"][0]
        for text in (
            f"answer {gold}",
            f'<tool_call>{{"name": "answer", "arguments": {{"text": "{gold}"}}}}</tool_call>',
        ):
            env.step("search x")
            _, _, terminated, _, info = env.step(text)
            assert not terminated
            assert (info["action"].text, info["action"].calls) == (text, ())
        end = env.finish(turngate.types.Ending.TIME_BUDGET)[1]
        assert (facts(end)["answered"], facts(end)["correct"]) == (False, False)


def test_the_documents_themselves_are_out_of_reach():
    with search(retriever="self") as env:
        env.reset(options={"task": TASK})
        gold = env.task.private["documents"][0]
        for name in (gold, f"{gold}#0"):
            observation, *_, info = env.step(f"open {name}")
            assert "there is no passage" in observation.text
            assert "new_gold" not in facts(info)


def test_nothing_is_written_down_where_nothing_was_written():
    with search(retriever="self") as env:
        env.reset(options={"task": TASK})
        env.step("search x")
        observation, *_, info = env.step("<think>Oslo: a town</think>")
        assert observation.text == "no passage fits"
        assert (facts(info)["passages_written"], facts(info)["parsed"]) == (0, False)


def test_the_environment_keeps_its_contract():
    with search(retriever="self") as env:
        assert [str(finding) for finding in check_env(env)] == []


def test_a_copy_made_before_the_passages_goes_on_with_them():
    with search(retriever="self") as env, search(retriever="self") as other:
        env.reset(options={"task": TASK})
        env.step("search x")
        snapshot = env.snapshot()
        ends = []
        for one in (env, other):
            one.restore(snapshot)
            ends.append(one.step("Oslo: a town"))
        assert ends[0] == ends[1]
        assert "[own-" in ends[0][0].text


# --- what is learned --------------------------------------------------------------------------------------------------


def played(**part):
    """One episode of the oracle, who knows the documents by heart."""

    async def go():
        def made():
            return SearchEnv(retriever={"type": "self", **part})

        with made() as env:
            task = env.tasks.task("train", 0)
            lines = {task.id: env.oracle(task)}
        chat = models.chat()
        player = Player(ScriptedPolicy(by_task(lines), chat), chat, TokenLimits(turn_tokens=400, context=8000))
        async with EnvPool(made, size=1) as pool:
            groups = await play_groups(player, pool, [task], [[None]], seed=0)
        return groups[0].trajectories[0]

    return asyncio.run(go())


@pytest.mark.parametrize("learned", [False, True])
def test_passages_of_its_own_carry_credit_only_if_asked_for(learned):
    """SSRL masks the tokens of the information that the policy wrote."""
    trajectory = played(learned=learned)
    asked = [turn.action.text.startswith("search ") for turn in trajectory.turns]
    assert any(asked)
    for number, turn in enumerate(trajectory.turns):
        written = number > 0 and asked[number - 1]
        said = turn.source[len(turn.context_ids) :]
        assert set(said) == {Source.POLICY if learned or not written else Source.CONTEXT}
    batch = pack_demonstrations([trajectory])
    weighed = sum(len(turn.completion.ids_K) for n, turn in enumerate(trajectory.turns) if learned or not asked[n - 1])
    assert np.count_nonzero(batch.ce_weight_L) == weighed


# --- a model writes ---------------------------------------------------------------------------------------------------


def written(url, **more):
    judge = {"type": "server", "url": url, "model": "m", "attempts": 1}
    return {"type": "written", "text_model": judge, **more}


def test_a_model_writes_and_the_file_makes_it_superfluous(tmp_path):
    cache = str(tmp_path / "passages.jsonl")
    with serving_prompts(lambda prompt, n: "Oslo: a town\nAker: a river") as server:
        part = written(server.url, cache=cache)
        with search(retriever=part) as env:
            env.reset(options={"task": TASK})
            observation, *_, info = env.step("search Oslo")
            assert [line.split("] ")[1] for line in observation.text.splitlines()] == ["Oslo: a town", "Aker: a river"]
            assert info["learned"] is True
            env.step("search Oslo")
            assert len(threads()) == 1
        assert len(server.heard) == 1
        with search(retriever=part) as env:
            assert [str(finding) for finding in check_env(env)] == []
    assert threads() == []
    with search(retriever=part) as env:
        env.reset(options={"task": TASK})
        assert env.step("search Oslo")[0].text == observation.text
    assert threads() == []


@pytest.mark.parametrize("script", [lambda prompt, n: 500, lambda prompt, n: slow("a: b", 1.0)])
def test_a_model_that_fails_is_a_retriever_that_failed(script):
    with serving_prompts(script) as server:
        with search(retriever=written(server.url, deadline_s=0.3)) as env:
            env.reset(options={"task": TASK})
            with pytest.raises(EnvError, match="the model that writes passages gave no reply"):
                env.step("search Oslo")
        with search(retriever=written(server.url, deadline_s=0.3), on_failure="tell") as env:
            env.reset(options={"task": TASK})
            assert "did not answer" in env.step("search Oslo")[0].text
    assert threads() == []


def test_the_policy_writes_as_self_and_not_behind_the_environment():
    with pytest.raises(UserError, match="cannot be the policy that is being trained"):
        search(retriever={"type": "written", "text_model": {"type": "policy"}})


# --- a run, and a real engine -----------------------------------------------------------------------------------------

CONFIG = """
name = "ssrl"
model = {layers = 1, width = 32, heads = 2, vocabulary = 600}
warm_start = {episodes = 8, epochs = 20, episodes_per_batch = 4, lr = 1e-2}
policy = {turn_tokens = 48, context = 2048, concurrency = 4}
train = {steps = 2, tasks_per_step = 1, group_size = 4}
eval = {tasks = 1}

[env]
id = "turngate/Search-v1"
kwargs = {retriever = {type = "self", learned = true}, max_turns = 4}
tasks = {type = "generated_search", max_hops = 1, worlds = 2}
rubric = "search"
"""


@pytest.mark.timeout(600)
def test_a_policy_that_searched_itself_searches_documents_by_one_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ssrl.toml").write_text(CONFIG)
    assert command_line.turngate("train", "ssrl.toml") == 0
    run = RunFolder(tmp_path / "runs" / "ssrl")
    episodes = [one for group in Store(run.path).read(None, "train") for one in group.trajectories]
    assert len(episodes) == 8
    assert all(one.ending.usable for one in episodes)
    assert command_line.turngate("rescore", "runs/ssrl", "--rubric", "search") == 0
    (tmp_path / "real.toml").write_text(CONFIG.replace('{type = "self", learned = true}', '"bm25"'))
    assert command_line.turngate("eval", "runs/ssrl/model", "--config", "real.toml", "--out", "real") == 0
    played = [one for group in Store(tmp_path / "real").read() for one in group.trajectories]
    assert played
    assert all(one.ending.usable for one in played)
