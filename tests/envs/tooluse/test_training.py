"""From a module of functions and a file of tasks to a trained agent whose episodes are scored again."""

import pytest

from tests.helpers.command_line import turngate
from turngate.store import Store
from turngate.store.folder import RunFolder

CONFIG = """
name = "lamps"
model = {layers = 1, width = 32, heads = 2, vocabulary = 400}
warm_start = {episodes = 8, epochs = 1}
policy = {turn_tokens = 12, context = 512, concurrency = 4}
train = {steps = 2, tasks_per_step = 2, group_size = 2}
eval = {tasks = 2, splits = ["train"]}

[env]
id = "turngate/ToolUse-v1"
isolation = "process"
kwargs = {tools = "lamps", max_turns = 4}
tasks = {type = "tool_tasks", file = "tasks.jsonl", held_out = 0}
rubric = "tool_use"
"""


QUALITY = 'rewards = [{type = "from_evidence", name = "quality", evidence = "call_quality", kind = "outcome"}]'


@pytest.mark.timeout(600)
def test_train_then_rescore(home):
    (home / "lamps.toml").write_text(CONFIG)
    assert turngate("train", "lamps.toml") == 0
    run = RunFolder(home / "runs" / "lamps")
    played = [one for group in Store(run.path).read(None, "train") for one in group.trajectories]
    assert len(played) == 8
    assert {one.task.id for one in played} == {"lit", "asked"}
    assert all(one.ending.usable for one in played)
    assert all({"solved", "call_quality", "frame_kept"} <= {fact.name for fact in one.evidence} for one in played)
    (home / "quality.toml").write_text(QUALITY)
    assert turngate("rescore", "runs/lamps", "--rubric", "quality.toml") == 0
