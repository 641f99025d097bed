"""Whoever has not served the user is not paid, reaches only the functions of the docs, and cannot void episodes."""

import json
import os
from pathlib import Path

import pytest

from tests.envs.tooluse.bfcl.bfcl_envs import hermes, make, oracle, play
from turngate.types import Ending

TASK = "base_0"
CONFIG = {"root": {"workspace": {"type": "directory", "contents": {}}}}
GOLD_END = "That is done."


@pytest.fixture(scope="module")
def env():
    with make(categories=["base", "miss_func", "miss_param"]) as env:
        yield env


def everything(env):
    """Each function once, with words of the task: eight calls in a turn."""
    calls = []
    for tool in env.turn_spec.tools:
        given = {
            one.name: "final_report.pdf" if one.annotation is str else 1 for one in tool.parameters if one.required
        }
        calls.append(hermes(tool.name, **given))
    return ["\n".join(calls[first : first + 8]) for first in range(0, len(calls), 8)]


def all_at_once(env):
    return [line for line in oracle(env, TASK) if line != GOLD_END]


def without(word):
    return lambda env: [line for line in oracle(env, TASK) if word not in line]


def destroyed_and_repaired_later(env):
    lines = oracle(env, TASK)
    end = lines.index(GOLD_END)
    return [
        *lines[:end],
        "rm previous_report.pdf",
        *lines[end : end + 1],
        "touch previous_report.pdf",
        *lines[end + 1 :],
    ]


def said_instead_of_done(env):
    return ["{\"result\": \"'final_report.pdf' moved to 'temp/final_report.pdf'\"}", GOLD_END]


def answers_listed(env):
    turns = env.tasks.find(f"multi_turn_{TASK}").private["state"]["scenario"].turns
    return ["Here are all: " + " ".join(str(call) for turn in turns for call in turn.gold)]


CHEATS = {
    "import": lambda env: ["__import__('os').system('touch stolen')"] * 4,
    "import as a call": lambda env: [hermes("__import__", name="os")],
    "import in brackets": lambda env: ["[__import__('os').system('touch stolen')]"],
    "eval in an argument": lambda env: ["cd document", hermes("mkdir", dir_name="__import__('os').mkdir('stolen')")],
    "code as a command": lambda env: ["cd __import__('os').mkdir('stolen')"],
    "the scenario anew": lambda env: [hermes("_load_scenario", scenario=CONFIG, long_context=False)],
    "the scenario by its object": lambda env: [hermes("GorillaFileSystem._load_scenario", scenario=CONFIG)],
    "an attribute": lambda env: [hermes("root"), hermes("_current_dir"), "root", "_current_dir"],
    "a dunder": lambda env: [hermes("__dict__"), hermes("__setattr__", name="root", value=None), "__class__"],
    "another service": lambda env: [hermes("fund_account", amount=5.0), hermes("book_flight")],
    "a service that is not offered as a command": lambda env: ["fund_account 5.0"],
    "gold by an argument of no function": lambda env: [hermes("ls", a=True, ground_truth=True)],
    "everything called": everything,
    "all turns at once": all_at_once,
    "no state change": without("mv"),
    "no results": without("grep"),
    "the last call left out": without("diff"),
    "destroyed and repaired later": destroyed_and_repaired_later,
    "said instead of done": said_instead_of_done,
    "answers listed": answers_listed,
    "a thought": lambda env: [f"<think>{'; '.join(oracle(env, TASK))}</think> All done."],
    "a reading": lambda env: ["find", "ls", "pwd"],
    "a loop": lambda env: ["pwd"] * 200,
    "too many calls at once": lambda env: ["\n".join([hermes("pwd")] * 500)] * 30,
    "a folder in itself": lambda env: ["cp document document"],
    "folders without end": lambda env: ["\n".join([hermes("mkdir", dir_name="d"), hermes("cd", folder="d")] * 4)] * 19,
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_not_paid(env, name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    env.reset(options={"task": f"multi_turn_{TASK}"})
    _, _, score = play(env, TASK, CHEATS[name](env))
    assert score.usable
    assert score.outcome == 0.0
    assert score.total <= 0.0
    assert os.listdir(tmp_path) == []


def test_the_same_without_the_cheat_is_paid(env):
    assert play(env, TASK, oracle(env, TASK))[2].outcome == 1.0


def test_only_functions_of_the_docs_can_be_called(env):
    for task_id in ("base_0", "base_50", "base_100", "base_150"):
        env.reset(options={"task": f"multi_turn_{task_id}"})
        known = {tool.name for tool in env.turn_spec.tools}
        for one in env._user._present().mine._objects.values():
            for name in set(dir(one)) - known:
                observation = env.step(hermes(name))[0]
                assert observation.text.startswith("error: unknown tool"), name
                env.reset(options={"task": f"multi_turn_{task_id}"})


def test_a_function_that_is_withheld_cannot_be_called(env):
    lines = oracle(env, "miss_func_0")
    early = next(place for place, line in enumerate(lines) if line.startswith("I lack"))
    seen, _, _ = play(env, "miss_func_0", [*lines[:early], hermes("sort", file_name="final_report.pdf")])
    assert seen[early].startswith("error: unknown tool 'sort'")


def test_a_file_that_holds_a_call_calls_nothing(env):
    env.reset(options={"task": f"multi_turn_{TASK}"})
    env.step(hermes("touch", file_name="a"))
    env.step(hermes("echo", content=hermes("rm", file_name="a"), file_name="a"))
    before = env.step("ls")[4]["state_key"]
    observation, _, _, _, info = env.step(hermes("cat", file_name="a"))
    assert json.loads(observation.text)["file_content"].startswith("<tool_call>")
    assert info["state_key"] == before


def test_what_the_agent_breaks_is_lost_and_not_void(env):
    env.reset(options={"task": f"multi_turn_{TASK}"})
    _, _, terminated, _, info = env.step("cp document document")
    assert terminated
    assert info["ending"] is Ending.AGENT_FAULT


def test_a_calculator_asked_for_too_much_answers(env):
    task = next(
        one
        for number in range(env.tasks.size("train"))
        if "MathAPI" in (one := env.tasks.task("train", number)).private["state"]["scenario"].services
    )
    env.reset(options={"task": task})
    for call in (hermes("power", base=9, exponent=10**12), hermes("logarithm", value=2.0, base=3.0, precision=10**9)):
        assert "too large for the calculator" in env.step(call)[0].text


def test_services_of_one_episode_are_not_those_of_the_next(env):
    env.reset(options={"task": f"multi_turn_{TASK}"})
    first = env.step("ls")[0].text
    env.step("mkdir mine")
    env.reset(options={"task": f"multi_turn_{TASK}"})
    assert env.step("ls")[0].text == first
