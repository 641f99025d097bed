"""BFCL's multi-turn tasks, from the real wheel: oracles, forks, checks that agree with BFCL's own checker."""

import random
from collections import Counter

import pytest

from tests.envs.tooluse.bfcl.bfcl_envs import hermes, make, oracle, play
from turngate.envs.check.check_env import check_env


@pytest.fixture(scope="module")
def env():
    with make() as env:
        yield env


def test_the_oracle_solves_all_800(env):
    solved = Counter()
    for number in range(env.tasks.size("train")):
        task = env.tasks.task("train", number)
        env.reset(options={"task": task})
        for line in env.oracle(task):
            info = env.step(line)[4]
        solved[task.id.removeprefix("multi_turn_").rpartition("_")[0]] += info["score"].outcome == 1.0
    assert solved == {"base": 200, "miss_func": 200, "miss_param": 200, "long_context": 200}


def test_whoever_only_talks_or_lists_is_never_paid(env):
    paid = Counter()
    for number in range(env.tasks.size("train")):
        task = env.tasks.task("train", number)
        for said in ("", "Done.", "ls"):
            env.reset(options={"task": task})
            over, turn = False, 0
            while not over:
                _, _, terminated, truncated, info = env.step(said if turn % 2 == 0 else "ok")
                over, turn = terminated or truncated, turn + 1
            paid[said] += info["score"].total > 0
    assert not +paid


def test_the_checker_finds_nothing():
    with make(categories=["base", "miss_func"], held_out=5) as env:
        assert [str(finding) for finding in check_env(env)] == []


def test_a_task_and_its_likes_are_in_one_split():
    with make(held_out=5) as env:
        numbers = {
            split: {env.tasks.task(split, k).id.rpartition("_")[2] for k in range(env.tasks.size(split))}
            for split in env.tasks.splits
        }
        assert env.tasks.size("train") + env.tasks.size("heldout") == 800
    assert not numbers["train"] & numbers["heldout"]
    assert 20 < len(numbers["heldout"]) < 60


# --- BFCL's own checker as the oracle ---------------------------------------------------------------------------------


def changed(calls, rng):
    """Gold calls as an agent might get them wrong: some left out, made twice, or made in another order."""
    made = [call for call in calls if rng.random() > 0.15]
    made += [call for call in made if rng.random() < 0.1]
    if rng.random() < 0.2:
        rng.shuffle(made)
    return made


def as_text(call):
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def theirs(task, played, name):
    """The verdict of BFCL's own checker on calls, turn by turn."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    state = task.private["state"]["scenario"]
    entry = {"id": task.id, "initial_config": state.config, "involved_classes": list(state.services)}
    gold = [[as_text(call) for call in turn.gold] for turn in state.turns]
    made = [[[as_text(call)] for call in calls] for calls in played]
    return multi_turn_checker(made, gold, entry, "", name)["valid"]


@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "long_context"])
def test_verdicts_agree_with_bfcl_s_own_checker(env, category):
    rng, verdicts = random.Random(category), Counter()
    for number in range(0, 200, 4):
        task = env.tasks.find(f"multi_turn_{category}_{number}")
        played = [
            changed(turn.gold, rng) if rng.random() < 0.5 else turn.gold
            for turn in task.private["state"]["scenario"].turns
        ]
        if max(map(len, played)) > 20:
            continue
        env.reset(options={"task": task})
        for calls in played:
            for call in calls:
                _, _, terminated, _, info = env.step(hermes(call.name, **call.arguments))
                assert not terminated
            _, _, terminated, _, info = env.step("That is done.")
        assert terminated
        ours = info["score"].outcome == 1.0
        assert ours == theirs(task, played, f"agent_{number}"), task.id
        verdicts[ours] += 1
    assert min(verdicts[True], verdicts[False]) >= 5


# --- the turns of a user ----------------------------------------------------------------------------------------------


def test_the_user_speaks_when_the_agent_makes_no_call(env):
    seen, facts, score = play(env, "base_0", ["mkdir temp", "cd document", "Which file do you mean?"])
    assert seen[2].startswith("Perform a detailed search")
    assert facts[2]["turn_held"] is False
    assert facts[2]["turn_state"] is False
    assert facts[0]["distance"] == 1
    assert score.outcome == 0


def test_what_looks_like_a_call_is_no_end_of_a_turn(env):
    ill = ["<tool_call>{oops</tool_call>", "cd(folder='document')", "[mkdir(dir_name='temp')]", "sort a.txt"]
    seen, facts, _ = play(env, "miss_func_0", ill)
    assert all(text.startswith("error: ") for text in seen[:4])
    assert [fact["parsed"] for fact in facts[:5]] == [False] * 4 + [True]
    assert "turn_held" in facts[4]


def test_a_withheld_function_comes_when_the_user_says_so(env):
    env.reset(options={"task": "multi_turn_miss_func_0"})
    assert "sort" not in {tool.name for tool in env.turn_spec.tools}
    lines = oracle(env, "miss_func_0")
    place = next(place for place, line in enumerate(lines) if line.startswith("I lack"))
    for line in lines[: place + 1]:
        observation, _, _, _, info = env.step(line)
    assert observation.text.startswith("new tools: sort FILE_NAME")
    assert "sort" in {tool.name for tool in env.turn_spec.tools}
    assert {"turn_held": True, "called_in_vain": False}.items() <= {f.name: f.value for f in info["evidence"]}.items()
    snapshot = env.snapshot()
    env.reset(options={"task": "multi_turn_miss_func_0"})
    assert "sort" not in {tool.name for tool in env.turn_spec.tools}
    env.restore(snapshot)
    assert "sort" in {tool.name for tool in env.turn_spec.tools}


def test_a_call_where_none_is_right_is_noted_and_as_in_bfcl_not_lost(env):
    lines = oracle(env, "miss_func_0")
    place = next(place for place, line in enumerate(lines) if line.startswith("I lack"))
    lines.insert(place, "ls")
    _, facts, score = play(env, "miss_func_0", lines)
    assert any(fact.get("called_in_vain") for fact in facts)
    assert score.outcome == 1.0


def test_twenty_steps_in_a_turn_and_no_more(env):
    lines = oracle(env, "base_0")
    spare = 20 - 3
    _, _, score = play(env, "base_0", [*["pwd"] * spare, *lines])
    assert score.outcome == 1.0
    seen, _, score = play(env, "base_0", [*["pwd"] * (spare + 1), *lines])
    assert len(seen) == 21
    assert score.outcome == 0.0


def test_a_fork_goes_on_as_the_episode_does(env):
    for task_id in ("base_0", "base_60", "base_120", "base_160", "long_context_5"):
        lines = oracle(env, task_id)
        env.reset(options={"task": f"multi_turn_{task_id}"})
        for line in lines[: len(lines) // 2]:
            env.step(line)
        snapshot, ends = env.snapshot(), []
        for _ in range(2):
            env.restore(snapshot)
            for line in lines[len(lines) // 2 :]:
                observation, _, _, _, info = env.step(line)
            ends.append((observation, info["score"].total, info["state_key"]))
        assert ends[0] == ends[1]
        assert ends[0][1] > 1.0


def test_state_keys_tell_states_apart_and_not_histories(env):
    def key(*lines):
        env.reset(options={"task": "multi_turn_base_0"})
        for line in lines:
            found = env.step(line)[4]["state_key"]
        return found

    assert key("ls") == key("pwd", "ls")
    assert key("cd document") != key("ls")
    assert key("cd document", "cd ..") == key("ls")
    assert key("mkdir a") != key("mkdir b")


def test_services_are_deterministic(env):
    ends = []
    for _ in range(2):
        with make(categories=["base"]) as one:
            lines = oracle(one, "base_60")
            seen, _, _ = play(one, "base_60", lines)
            ends.append(seen)
    assert ends[0] == ends[1]
