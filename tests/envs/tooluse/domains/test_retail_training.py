"""From a domain that ships to a trained agent: demonstrations of the oracle, two updates, an evaluation."""

from tests.helpers.command_line import turngate
from turngate.store import Store
from turngate.store.folder import RunFolder

CONFIG = """
name = "shop"
model = {layers = 1, width = 32, heads = 2, vocabulary = 400}
warm_start = {episodes = 4, epochs = 1}
policy = {turn_tokens = 12, context = 2048, concurrency = 4}
train = {steps = 2, tasks_per_step = 2, group_size = 2}
eval = {tasks = 2, splits = ["heldout"]}

[env]
id = "turngate/ToolUse-v1"
kwargs = {max_turns = 8}
tasks = {type = "retail", max_level = 1, user = {type = "scripted", most_topics = 1}}
rubric = "tool_use"
"""


def test_train_on_retail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(CONFIG)
    assert turngate("train", "shop.toml") == 0
    played = [
        one
        for group in Store(RunFolder(tmp_path / "runs" / "shop").path).read(None, "train")
        for one in group.trajectories
    ]
    assert len(played) == 8
    assert all(one.task.id.startswith("retail-1/train/") for one in played)
    assert all(one.ending.usable for one in played)
    assert all({"solved", "frame_kept"} <= {fact.name for fact in one.evidence} for one in played)
