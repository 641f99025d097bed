from pathlib import Path

import pytest

from tests.envs.tooluse.lamps import ASKED, LAMPS, LIT, write


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with ``lamps.py`` and ``tasks.jsonl``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lamps.py").write_text(LAMPS)
    write(LIT, ASKED)
    return tmp_path
