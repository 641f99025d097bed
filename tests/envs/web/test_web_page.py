"""The page on ``turngate/Web-v1``: its configs are read, and open the environment with the rubric that they name."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import turngate
from tests.envs.web.test_confident_clicks import PAGE, VERIFIER
from turngate.config.run_config import parse

TEXT = (Path(__file__).parents[3] / "docs" / "web.md").read_text()
CONFIGS = [block for block in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL) if block.startswith("[env]")]


@pytest.mark.parametrize("text", CONFIGS)
def test_a_config_of_the_page_opens_the_environment(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(PAGE)
    (tmp_path / "lamp_checks.py").write_text(VERIFIER.replace("lamp_is_lit", "lamp_is_on"))
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "lamp", "prompt": "Switch the lamp on.", "expected": "on"}))
    (env,) = parse({"model": "any", **tomllib.loads(text)}).env
    with turngate.make(env.id, **env.arguments) as opened:
        assert opened.tasks.splits
        read = {name for reward in (env.rubric or opened.turn_spec.rubric).rewards for name in reward.reads}
        assert read & set(opened.turn_spec.evidence)
