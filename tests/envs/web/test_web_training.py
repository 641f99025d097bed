"""A run of ``turngate/Web-v1`` from its config to its report, in a real Chromium."""

import pytest

from tests.helpers.command_line import turngate_at
from turngate.store import Store
from turngate.store.metrics import read_metrics

CONFIG = """
name = "web"
seed = 1
[env]
id = "turngate/Web-v1"
[env.kwargs]
max_turns = 3
[env.tasks]
type = "miniwob"
pages = ["click-test", "click-test-2", "click-button"]
seeds = 10
held_out = 2
[model]
layers = 1
width = 32
heads = 2
vocabulary = 400
[warm_start]
episodes = 4
epochs = 1
lr = 3e-3
[policy]
turn_tokens = 6
context = 640
concurrency = 4
[train]
steps = 1
tasks_per_step = 2
group_size = 2
[eval]
tasks = 2
"""


@pytest.mark.component
def test_a_config_imitates_trains_and_is_evaluated_on_pages(tmp_path):
    (tmp_path / "web.toml").write_text(CONFIG)
    assert turngate_at(tmp_path, "train", "web.toml") == 0
    run = tmp_path / "runs" / "web"
    (row,) = read_metrics(run / "metrics.jsonl")
    assert row["train/unusable_share"] == 0
    played = [one for group in Store(run).read(1, "train") for one in group.trajectories]
    assert len(played) == 4
    names = {fact.name for one in played for fact in one.evidence}
    assert {"solved", "goal_share", "raw_reward", "parsed"} <= names
