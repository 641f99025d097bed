"""The recipes of the examples: their alternatives, and the models that they begin from, each of which is made once."""

import json
import shutil
from pathlib import Path

from turngate.config import Config, load, parse
from turngate.metrics import read_metrics
from turngate.runs import RunFolder

FOLDER = Path(__file__).parents[2] / "examples" / "recipes"
RECIPES = sorted(path.name for path in FOLDER.glob("*.toml"))
OR = "# or: "


def alternatives(text: str) -> dict[str, str]:
    """The other recipes that a recipe holds, by the line that makes them: a line ``# or: LINE`` stands below the line
    that it can take the place of."""
    lines = text.splitlines()
    found = {}
    for at, line in enumerate(lines):
        if line.startswith(OR):
            place = max(place for place in range(at) if not lines[place].startswith("#"))
            found[line.removeprefix(OR)] = (
                "\n".join([*lines[:place], line.removeprefix(OR), *lines[place + 1 :]]) + "\n"
            )
    return found


def begins(config: Config) -> tuple[Config, RunFolder]:
    """Settings and folder of the run that has the warm start: the first stage, where there are stages."""
    settings = next((parse(stage.tree) for stage in config.unfolded()), config)
    return settings, RunFolder(settings.folder / settings.name)


class Starts:
    """Warm-started models, by the settings that make them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Path] = {}

    def lend(self, config: Config) -> None:
        """Put the model into the folder of a run that has not begun, if one with these settings was kept."""
        config, run = begins(config)
        if (known := self._known.get(_key(config))) is not None:
            shutil.copytree(known, run.warm_start)

    def keep(self, config: Config) -> None:
        """Keep the model that a run began from for others."""
        config, run = begins(config)
        if (key := _key(config)) not in self._known and run.warm_start.exists():
            self._known[key] = self._folder / str(len(self._known))
            shutil.copytree(run.warm_start, self._known[key])


def _key(config: Config) -> str:
    """What the model of a warm start depends on, and nothing that it does not."""
    names = {"seed", "env", "model", "warm_start", "policy"}
    return json.dumps(config.model_dump(mode="json", include=names), sort_keys=True)


def learned(run, rows):
    """At least one step had something to learn from."""
    assert any("learner/grad_norm" in row for row in rows)


def a_scorer_is_fitted_and_chooses(run, rows):
    for collected, verified, imitated in zip(*[iter(run.stages)] * 3, strict=True):
        assert any(row["aside/pairs_rows"] for row in read_metrics(verified.metrics))
        settings = load(imitated.config)
        assert (settings.model, settings.reward_model.model) == (str(collected.model), str(verified.model))
        learned(imitated, read_metrics(imitated.metrics))
