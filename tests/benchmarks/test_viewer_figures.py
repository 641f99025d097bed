"""The pictures in docs/viewer.md are made by a command, of runs that really happen."""

from pathlib import Path

import pytest

from benchmarks.viewer_figures import main
from tests.helpers.viewed_runs import many_groups, recorded


def test_it_draws_a_turn_of_a_trained_run_and_of_the_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path / "runs", many_groups(2, turns=3))
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["viewer_figures", "--out", str(out), "--trained", f"made={run}"])
    main()
    pictures = {file.name: file.read_bytes() for file in out.iterdir()}
    assert set(pictures) == {"viewer_made.png", "viewer_shop.png"}
    assert all(png.startswith(b"\x89PNG") and len(png) > 20_000 for png in pictures.values())
