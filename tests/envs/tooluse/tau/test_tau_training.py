"""From a checkout to a trained agent: demonstrations of the gold calls, two updates, an evaluation."""

import pytest

from benchmarks import tau_gold
from tests.envs.tooluse.tau.checkouts import ferry
from tests.helpers.chat_server import serving_prompts
from tests.helpers.command_line import turngate
from turngate.envs.check.check_env import check_env
from turngate.store import Store
from turngate.store.folder import RunFolder

CONFIG = """
name = "ferry"
model = {{layers = 1, width = 32, heads = 2, vocabulary = 400}}
warm_start = {{episodes = 4, epochs = 1}}
policy = {{turn_tokens = 12, context = 2048, concurrency = 4}}
train = {{steps = 2, tasks_per_step = 1, group_size = 4}}
eval = {{tasks = 2, splits = ["test"]}}

[env]
id = "turngate/ToolUse-v1"
kwargs = {{max_turns = 6}}
tasks = {{type = "tau_bench", folder = "{folder}", domain = "ferry", user = {user}, known_wrong = "drop"}}
rubric = "tau_strict"
"""


@pytest.mark.parametrize("kind", ["tau_bench", "tau2"])
def test_the_checker_finds_nothing(kind, bench, bench2):
    assert [str(one) for one in check_env(ferry(kind, bench if kind == "tau_bench" else bench2))] == []


def test_train_on_a_checkout(tmp_path, bench, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serving_prompts(lambda prompt, n: "MOOD: 0\nSAY: Move F2 to monday.") as server:
        user = f'{{type = "model", judge = {{type = "server", url = "{server.url}", model = "m"}}}}'
        (tmp_path / "ferry.toml").write_text(CONFIG.format(folder=bench, user=user))
        assert turngate("train", "ferry.toml") == 0
    groups = Store(RunFolder(tmp_path / "runs" / "ferry").path).read(None, "train")
    played = [one for group in groups for one in group.trajectories]
    assert len(played) == 8
    assert all(one.ending.usable for one in played)
    assert all({"solved", "strictly_solved"} <= {fact.name for fact in one.evidence} for one in played)


def test_the_table_of_a_checkout(bench, bench2, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tau_gold", "tau_bench", str(bench), "ferry"])
    tau_gold.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("|")[0].rpartition("|")[0] for line in lines[2:4]] == [
        "| tau_bench ferry | test | 3 | 3 | 3 | 1 | 1 | 1 ",
        "| tau_bench ferry | train | 1 | 1 | 1 | 0 | 0 | 0 ",
    ]
    monkeypatch.setattr("sys.argv", ["tau_gold", "tau2", str(bench2), "ferry"])
    tau_gold.main()
    assert "left out of ferry: 1 tasks, because it begins in the middle of a talk" in capsys.readouterr().out
