"""Pictures are drawn only in the tests that look at them (``DRAWN``): it takes longer than the training of most others.

Elsewhere, and in commands that are forked (``forking.py``), a report makes no figures and writes the first bytes of a
PNG in place of each. The commands of the README, which tests run in processes of their own, draw theirs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
DRAWN = tuple(HERE / folder for folder in ("report", "examples", "benchmarks"))
"""Folders of tests that draw."""
PLOTS = ("plot_success", "plot_curves", "plot_guidance", "plot_monitors")
"""What makes the figures of each run's report."""
BEGINS = b"\x89PNG\r\n\x1a\n"


def begin_picture(*given: object, **named: object) -> None:
    """In place of what draws: the first bytes of a picture in its file."""
    (path,) = (one for one in given if isinstance(one, Path))
    path.write_bytes(BEGINS)


@pytest.fixture(autouse=True, scope="session")
def drawing() -> Iterator[dict[str, object]]:
    """Draws nothing for the whole session, because what several tests share is made before the first of them begins;
    returns what draws, by its place."""
    from turngate.report import figure, summary

    places = {f"{figure.__name__}.write_png": figure.write_png}
    places |= {f"{summary.__name__}.{name}": getattr(summary, name) for name in PLOTS}
    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.setattr(place, begin_picture)
        yield places


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest, drawing: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes figures, and draws them, in the folders that do."""
    if any(request.path.is_relative_to(folder) for folder in DRAWN):
        for place, draws in drawing.items():
            monkeypatch.setattr(place, draws)
