"""Pictures are drawn only in the tests that look at them (``DRAWN``): it takes longer than the training of most others.

Elsewhere a report makes its figures and writes the first bytes of a PNG in place of each. The commands of the README,
which tests run in processes of their own, draw theirs.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
DRAWN = tuple(HERE / folder for folder in ("report", "examples", "benchmarks"))
"""Folders of tests that draw."""
BEGINS = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True, scope="session")
def drawing() -> Iterator[Callable[..., None]]:
    """Draws nothing for the whole session, because what several tests share is made before the first of them begins;
    returns what draws."""
    from turngate.report import figure

    draws = figure.write_png
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "write_png", lambda drawn, path: path.write_bytes(BEGINS))
        yield draws


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest, drawing: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws, in the folders that do."""
    if any(request.path.is_relative_to(folder) for folder in DRAWN):
        monkeypatch.setattr("turngate.report.figure.write_png", drawing)
