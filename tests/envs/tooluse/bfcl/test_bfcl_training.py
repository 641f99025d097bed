"""From a config to a run on BFCL's tasks: two steps are trained, evaluated and shown."""

import pytest

from tests.envs.tooluse.bfcl.bfcl_envs import make, oracle
from tests.helpers.command_line import turngate
from turngate.rubrics import find_rubric
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Record

CONFIG = """
name = "bfcl"
model = {layers = 1, width = 32, heads = 2, vocabulary = 400}
warm_start = {episodes = 4, epochs = 1}
policy = {turn_tokens = 24, context = 6000, concurrency = 4}
train = {steps = 2, tasks_per_step = 2, group_size = 2}
eval = {tasks = 2}

[env]
id = "turngate/ToolUse-v1"
kwargs = {max_chars = 200}
tasks = {type = "bfcl", categories = ["base", "miss_func"]}
rubric = "bfcl"
"""


@pytest.mark.timeout(600)
def test_train_then_show(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bfcl.toml").write_text(CONFIG)
    assert turngate("train", "bfcl.toml") == 0
    run = RunFolder(tmp_path / "runs" / "bfcl")
    played = [one for group in Store(run.path).read(None, "train") for one in group.trajectories]
    assert len(played) == 8
    assert all(one.ending.usable for one in played)
    assert all({"solved", "turns_held"} <= {fact.name for fact in one.evidence} for one in played)
    capsys.readouterr()
    assert turngate("show", "runs/bfcl") == 0
    assert "multi_turn_" in capsys.readouterr().out


def test_the_tools_of_all_services_are_listed(capsys):
    assert turngate("tools", "bfcl") == 0
    assert "fillFuelTank" in capsys.readouterr().out


@pytest.fixture(scope="module")
def env():
    with make(categories=["base", "miss_func"]) as env:
        yield env


@pytest.mark.parametrize(
    ("task_id", "share", "after", "low", "high"),
    [
        ("base_0", 1.0, "Done.", 1.0, 1.1),
        ("base_0", 0.4, "Done.", 0.01, 0.1),
        ("base_0", 0.0, "Done.", 0.0, 0.0),
        ("miss_func_3", 0.0, "Done.", 0.0, 0.0),
        ("miss_func_3", 0.0, "ls", -0.1, 0.0),
    ],
)
def test_the_rubric_pays_for_turns_that_were_served(env, task_id, share, after, low, high):
    lines, facts, over = oracle(env, task_id), [], False
    env.reset(options={"task": f"multi_turn_{task_id}"})
    for line in [*lines[: round(share * len(lines))], *[after, "Done."] * 20]:
        _, _, over, _, info = env.step(line)
        facts += info["evidence"]
        if over:
            break
    record = Record(
        task_id=task_id, n_turns=max(fact.turn or 0 for fact in facts) + 1, ending=info["ending"], evidence=tuple(facts)
    )
    score = find_rubric("bfcl").score(record)
    assert score.usable
    assert low <= score.total <= high + 1e-6


def test_the_rubric_is_safe():
    assert list(find_rubric("bfcl").check()) == []
