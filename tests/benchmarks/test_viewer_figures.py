"""The pictures in docs/viewer.md are made by a command, of runs that really happen."""

from pathlib import Path

import pytest

from benchmarks.viewer_figures import ENVIRONMENTS, main


def test_it_draws_a_turn_of_each_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["viewer_figures", "--out", str(tmp_path)])
    main()
    pictures = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(pictures) == {f"viewer_{name}.png" for name in ENVIRONMENTS}
    assert all(png.startswith(b"\x89PNG") and len(png) > 20_000 for png in pictures.values())
