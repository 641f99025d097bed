"""Goals that a judge decides: what the environment leaves open, what the judge adds, and what is paid then."""

import json

import pytest

import turngate
from tests.envs.tooluse.lamps import SWITCH, write
from tests.helpers import command_line, tiny_judge
from tests.judges.examiners.episodes import episode, examined, values
from turngate.agents import tiny
from turngate.envs.check.check_env import check_env
from turngate.errors import UserError
from turngate.judges.asking import FunctionJudge
from turngate.judges.examiners.judged_goals import JudgedGoals
from turngate.rubrics import find_rubric
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Group

TOLD = {
    "id": "told",
    "prompt": "Light the hall and say so, politely.",
    "gold": [SWITCH],
    "goal": [{"type": "state"}, {"type": "rubric", "text": "The answer says please.", "example": "lit, if you please"}],
}
TASKS = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
FAST = {"attempts": 1, "backoff_s": 0.0, "backoff_max_s": 0.0}
POLITE, RUDE = ["switch hall true", "answer it is lit, please"], ["switch hall true", "answer lit"]
ORACLE = ["switch hall true", "answer lit, if you please"]
DARK, SILENT = ["answer lit, if you please"], ["switch hall true", "answer"]


def part(name):
    return JudgedGoals(judge=FunctionJudge(path=f"tests.envs.tooluse.judges:{name}", **FAST))


def siblings(*plays):
    """Episodes as the environment measured them."""
    found = []
    with turngate.make("turngate/ToolUse-v1", tools="lamps", tasks=TASKS) as env:
        task = env.tasks.find("told")
        for number, actions in enumerate(plays):
            env.reset(options={"task": task})
            evidence = [fact for action in actions for fact in env.step(action)[4]["evidence"]]
            found.append(episode(actions, name=f"t#{number}", of=task, answer=..., evidence=evidence))
    return Group(task=task, trajectories=tuple(found))


@pytest.fixture
def told(home):
    write(TOLD)
    return home


def test_the_environment_leaves_open_what_only_a_judge_can_say(told):
    group = siblings(POLITE, RUDE, DARK, SILENT)
    assert values([group], "solved") == [[[None], [None], [False], [False]]]
    unjudged = find_rubric("tool_use").score_group(group).scores
    assert [score.usable for score in unjudged] == [False, False, True, True]


def test_a_judge_decides_where_the_rest_holds(told):
    (after,), metrics = examined([part("polite")], [siblings(POLITE, RUDE, DARK, SILENT)])
    assert values([after], "goals_met") == [[[True], [False], [False], [False]]]
    assert metrics["examine/goals_met/judge_calls"] == 2 + 5  # two episodes, and the canaries
    scores = find_rubric("tool_use_judged").score_group(after).scores
    assert [score.outcome for score in scores] == [1, 0, 0, 0]
    assert [fact.by for one in after.trajectories for fact in one.evidence if fact.name == "goals_met"] == [
        "judge",
        "judge",
        "verifier",
        "verifier",
    ]


def test_a_verdict_that_cannot_be_had_makes_the_episode_unusable(told):
    (after,), metrics = examined([part("mumbles")], [siblings(POLITE, DARK)])
    assert values([after], "goals_met") == [[[None], [False]]]
    assert metrics["examine/goals_met/missing_share"] == 0.5
    scores = find_rubric("tool_use_judged").score_group(after).scores
    assert [score.usable for score in scores] == [False, True]
    assert "goals_met" in scores[0].problem


def test_tasks_without_such_a_goal_keep_what_the_environment_found(told):
    write({**TOLD, "goal": {"type": "state"}})
    (after,), metrics = examined([part("mumbles")], [siblings(RUDE, DARK)])
    assert values([after], "goals_met") == [[[True], [False]]]
    assert metrics["examine/goals_met/judge_calls"] == 0


def test_a_real_model_judges(told, tmp_path):
    """One that learned to say no."""
    tiny.save(*tiny_judge.learn_to_say_no(), tmp_path / "judge")
    judge = tiny_judge.TinyJudge(model=str(tmp_path / "judge"), max_tokens=tiny_judge.TOKENS, **FAST)
    (after,), metrics = examined([JudgedGoals(judge=judge)], [siblings(POLITE)])
    assert values([after], "goals_met") == [[[False]]]
    assert metrics["examine/goals_met/judge_calls"] == 1 + 5
    (record,) = next(fact.value for fact in after.trajectories[0].evidence if fact.name == "goals_met_judge")
    assert (record["judge"], record["passed"]) == ("judge", False)


def test_a_goal_without_an_example_is_always_judged(told):
    write({**TOLD, "gold": [], "goal": {"type": "rubric", "text": "It is polite."}})
    assert values([siblings(["answer done"])], "solved") == [[[None]]]
    write({**TOLD, "goal": {"type": "rubric", "text": ""}})
    with pytest.raises(UserError, match="line 1"):
        siblings()


def test_the_example_is_right_without_a_judge(told):
    with turngate.make("turngate/ToolUse-v1", tools="lamps", tasks=TASKS) as env:
        assert [str(finding) for finding in check_env(env)] == []
    assert values([siblings(ORACLE, ["answer lit, if you please"])], "solved") == [[[True], [False]]]
    (after,), metrics = examined([part("mumbles")], [siblings(ORACLE)])
    assert values([after], "goals_met") == [[[True]]]
    assert metrics["examine/goals_met/judge_calls"] == 0


CONFIG = """
name = "lamps"
model = {layers = 1, width = 32, heads = 2, vocabulary = 500}
warm_start = {episodes = 16, epochs = 30, lr = 1e-2, episodes_per_batch = 4}
policy = {turn_tokens = 24, context = 512, concurrency = 4}
train = {steps = 2, tasks_per_step = 1, group_size = 4}
eval = {tasks = 1, splits = ["train"]}
examine = [{type = "judged_goals", judge = {type = "function", path = "tests.envs.tooluse.judges:polite"}}]

[env]
id = "turngate/ToolUse-v1"
kwargs = {tools = "lamps", max_turns = 3}
tasks = {type = "tool_tasks", file = "tasks.jsonl", held_out = 0}
rubric = "tool_use_judged"
"""


@pytest.mark.timeout(600)
def test_train_then_rescore(told, capsys):
    """From a config; scoring again needs no judge."""
    (told / "lamps.toml").write_text(CONFIG)
    assert command_line.turngate("train", "lamps.toml") == 0
    run = RunFolder(told / "runs" / "lamps")
    played = [
        pair
        for group in Store(run.path).read(None, "train")
        for pair in zip(group.trajectories, group.scores, strict=True)
    ]
    assert len(played) == 8
    met = [next(fact.value for fact in one.evidence if fact.name == "goals_met") for one, _ in played]
    assert [score.outcome for _, score in played] == [float(value) for value in met]
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert all(row["examine/goals_met/missing_share"] == 0 for row in rows)
    assert any(met), "the oracle's way was shown, and the judge says yes to it"
    capsys.readouterr()
    assert command_line.turngate("rescore", "runs/lamps", "--rubric", "tool_use_judged") == 0
    assert "8" in capsys.readouterr().out
