"""The recipes of the examples: their alternatives, and the models that they begin from, each of which is made once."""

import json
import shutil
from pathlib import Path

from turngate.config.run_config import Config, load, parse
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.types import Source

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
        assert any(row["auxiliary/pairs_rows"] for row in read_metrics(verified.metrics))
        settings = load(imitated.config)
        assert (settings.model, settings.reward_model.model) == (str(collected.model), str(verified.model))
        learned(imitated, read_metrics(imitated.metrics))


def groups_of(run):
    return list(Store(run.path).read(None, "train"))


def scored(run):
    return [pair for group in groups_of(run) for pair in zip(group.trajectories, group.scores, strict=True)]


def facts(trajectory, name):
    """Turn to value."""
    return {fact.turn: fact.value for fact in trajectory.evidence if fact.name == name}


def earned(score, name):
    return [(event.turn, event.value) for event in score.ledger if event.name == name]


def helped(run):
    return [one for group in groups_of(run) for one in group.trajectories if one.guidance]


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def stages_that(run, kind):
    return [one for one in run.stages if one.path.name.endswith(f"-{kind}")]


def what_was_collected_is_compared_and_then_played_on(run, rows):
    parts = [stages_that(run, name) for name in ("collect", "tao", "rl")]
    for collected, compared, played in zip(*parts, strict=True):
        assert load(compared.config).episodes.runs == (collected.path,)
        assert any(row["auxiliary/pairs_pairs"] > 0 for row in read_metrics(compared.metrics))
        assert load(played.config).model == str(compared.model)
        assert weights(collected.model) != weights(compared.model)
        assert [Store(one.path).steps("train") for one in (compared, played)] == [[], [1, 2]]


def the_oracle_begins(run, rows):
    learned(run, rows)
    for one in helped(run):
        forced = [turn.source[-1] == Source.GUIDE for turn in one.turns]
        assert forced == [turn < one.guidance.level for turn in range(3)]
    assert {one.guidance.level for one in helped(run)} <= {1, 2}


def unbalanced_groups_are_dropped(run, rows):
    for step, row in enumerate(rows, start=1):
        rates = [sum(score.outcome for score in group.scores) / 8 for group in Store(run.path).read(step, "train")]
        assert row["drop/not_balanced_groups"] == sum(not 0.2 <= rate <= 0.8 for rate in rates)
