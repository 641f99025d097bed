"""What docs/tool_use_env.md says runs: its module, its tasks, its config and its program."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest

import turngate
from turngate.config.run_config import parse
from turngate.config.sections import EnvSection
from turngate.envs.check.check_env import check_env
from turngate.run.environments import builder

PAGE = (Path(__file__).parents[3] / "docs" / "tool_use_env.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    module, program = blocks("python")
    (tasks,) = blocks("json")
    for name, text in (("desk.py", module), ("program.py", program), ("tasks.jsonl", tasks)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_config_gives_an_environment_whose_oracle_is_paid(desk):
    _, config, _ = blocks("toml")
    section = EnvSection(**tomllib.loads(config)["env"])
    with builder(section)() as env:
        assert [env.tasks.task("train", number).id for number in range(3)] == ["cancel-1", "total-1", "look-1"]
        assert [str(finding) for finding in check_env(env)] == []
        env.reset(options={"task": "cancel-1"})
        env.step("cancel A2")
        assert env.step("answer")[4]["score"].total == -1.0


def test_the_config_with_a_judge_is_read(desk):
    judged, *_ = blocks("toml")
    config = parse({"model": "any", **tomllib.loads(judged)})
    assert [part.type for part in config.examine] == ["judged_goals"]
    (goal,) = re.findall(r'`"goal": (\[.*?\])`\.', PAGE)
    row = {"id": "kind", "prompt": "Cancel A1 kindly.", "goal": json.loads(goal)}
    row["gold"] = [{"name": "cancel", "arguments": {"order": "A1"}}]
    (desk / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    with builder(config.env[0])() as env:
        env.reset()
        env.step("cancel A1")
        found = {fact.name: fact.value for fact in env.step("answer It is cancelled.")[4]["evidence"]}
        assert (found["solved"], found["frame_kept"]) == (None, True)


def test_the_program_runs(desk):
    runpy.run_path("program.py")


def test_the_config_of_bfcl_gives_an_environment_whose_oracle_is_paid():
    *_, config = blocks("toml")
    section = EnvSection(**tomllib.loads(config)["env"])
    with builder(section)() as env:
        assert env.max_turns == 168
        task = env.tasks.find("multi_turn_miss_func_0")
        env.reset(options={"task": task})
        for line in env.oracle(task):
            info = env.step(line)[4]
        assert info["score"].outcome == 1.0


SHOP = '''
from turngate import tool


class Shop:
    def __init__(self, goods=()):
        self.goods = list(goods)

    @tool
    def add(self, name: str) -> str:
        """Add goods."""
        self.goods.append(name)
        return "added"
'''


def test_a_class_of_tools(desk):
    (desk / "corner_shop.py").write_text(SHOP)
    (desk / "tasks.jsonl").write_text(
        '{"id": "one", "prompt": "Add salt.", "state": {"goods": ["oil"]}, "goal": {"type": "state"}, '
        '"gold": [{"name": "add", "arguments": {"name": "salt"}}]}\n'
    )
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    with turngate.make("turngate/ToolUse-v1", tools="corner_shop:Shop", tasks=tasks) as env:
        assert [str(finding) for finding in check_env(env)] == []
        env.reset(options={"task": "one"})
        env.step("add salt")
        assert env._watch.state == {"goods": ["oil", "salt"]}
        assert env.step("answer")[4]["score"].outcome == 1.0
