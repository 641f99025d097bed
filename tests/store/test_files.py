"""What lies beside the trajectories of a run: files that are written whole, and what machine it was."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from turngate.store import machine, write_json_atomic, write_text_atomic


def test_atomic_text_and_json(tmp_path):
    target = tmp_path / "new" / "machine.json"
    write_json_atomic(target, {"wörter": [1, None]})
    assert json.loads(target.read_text()) == {"wörter": [1, None]}
    write_text_atomic(target, "short")
    assert target.read_text() == "short"
    with pytest.raises(TypeError):
        write_json_atomic(target, {"x": object()})
    assert target.read_text() == "short"
    assert [p.name for p in target.parent.iterdir()] == ["machine.json"]


def test_machine_names_versions_and_nobody():
    found = machine()
    assert set(found) == {"python", "platform", "cpu_count", "packages", "commit"}
    assert found["packages"]["numpy"] == np.__version__
    text = json.dumps(found)
    assert os.uname().nodename not in text
    assert str(Path.home()) not in text
    in_git = (Path(__file__).parents[2] / ".git").exists()
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", found["commit"]) if in_git else found["commit"] is None
