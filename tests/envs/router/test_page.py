"""What docs/router_env.md says: its config gives an environment that keeps the contract, its names exist."""

import re
import tomllib
from pathlib import Path

import pytest

from turngate.config.sections import EnvSection
from turngate.envs.check.check_env import check_env
from turngate.judges.asking import JudgePart
from turngate.judges.examiners.cost_window import CostWindow
from turngate.rubrics import find_rubric
from turngate.run.environments import builder

PAGE = (Path(__file__).parents[3] / "docs" / "router_env.md").read_text()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (question,) = re.findall(r'`(\{"prompt": "Capital.*?\})`', PAGE)
    (tmp_path / "questions.jsonl").write_text(question + "\n")
    (tmp_path / "replies.jsonl").write_text('{"prompt": "Capital of Norway?", "reply": "Oslo", "tokens": 4}\n')
    return tmp_path


def test_the_config_runs_and_keeps_the_contract(home):
    (config,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    section = EnvSection(**tomllib.loads(config)["env"])
    with builder(section)() as env:
        assert [str(finding) for finding in check_env(env)] == []
        observation, _ = env.reset()
        assert "- big: slow, knows much (price 2 a token, 3 s)" in observation.text
        assert env.step("ask small")[0].text == "small: Oslo"
        assert env.step("ask big")[0].text == "big: Answer in as few words as possible: Capital of Norway?"
        facts = {fact.name: fact.value for fact in env.step("answer Oslo")[4]["evidence"]}
        assert facts["cost"] == pytest.approx(4 * 0.1 + 10 * 2)
    assert (home / "big_replies.jsonl").exists()


def test_the_names_exist():
    for name in re.findall(r"rubric `(\w+)`", PAGE):
        find_rubric(name)
    assert {"server", "model", "recorded", "function"} <= JudgePart.names()
    assert CostWindow().writes == ("cost_rank",)
