"""Every alternative that a recipe names in a line ``# or: …`` trains, for one update."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.recipes import FOLDER, RECIPES, Starts, alternatives
from turngate.config.run_config import load
from turngate.run.job import Job
from turngate.run.staged_job import StagedJob
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

ALTERNATIVES = [(recipe, line) for recipe in RECIPES for line in alternatives((FOLDER / recipe).read_text())]


@pytest.fixture(autouse=True)
def beside_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes import the modules that lie beside them."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])


@pytest.mark.parametrize(("recipe", "line"), ALTERNATIVES)
def test_an_alternative_trains(recipe: str, line: str, starts: Starts, tmp_path: Path) -> None:
    changed = tmp_path / recipe
    changed.write_text(alternatives((FOLDER / recipe).read_text())[line])
    config = load(changed, [f"--folder={tmp_path}", "--train.steps=1", "--eval.tasks=1", "--sink=[]"])
    run = RunFolder(tmp_path / config.name)
    starts.lend(config)
    job = StagedJob if config.stages else Job
    job(config, Console(quiet=True)).run()
    starts.keep(config)
    assert run.is_complete
    for one in run.stages or [run]:
        (row,) = read_metrics(one.metrics)
        assert row["train/unusable_share"] == 0


def test_an_alternative_takes_the_place_of_the_line_above_it() -> None:
    text = '[guide]\ntype = "a"\n# or: type = "b"\n# or: type = "c"\nn = 1\n'
    assert alternatives(text) == {
        'type = "b"': '[guide]\ntype = "b"\n# or: type = "b"\n# or: type = "c"\nn = 1\n',
        'type = "c"': '[guide]\ntype = "c"\n# or: type = "b"\n# or: type = "c"\nn = 1\n',
    }
