"""The folder of a run: where things are, and what is asked of it."""

import re
from pathlib import Path

import pytest

from turngate.errors import ConfigError
from turngate.store.folder import RunFolder

ROOT = Path(__file__).parents[2]


def made(path: Path) -> RunFolder:
    run = RunFolder(path)
    path.mkdir(parents=True)
    run.config.touch()
    return run


def test_another_folder_is_no_run_and_a_value_creates_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "lock")
    assert [run.exists, run.has_begun, run.is_complete] == [False, False, False]
    assert (run.controls, run.owner, run.first_model) == ([], None, None)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=rf"^'{run.path}' is not the folder of a run \(it has no config\.toml\)$"):
        RunFolder.of(run.path)


def test_a_run_begins_with_the_first_thing_that_it_does(tmp_path: Path) -> None:
    run = made(tmp_path / "lock")
    run.machine.touch()
    assert RunFolder.of(str(run.path)) == run
    assert not run.has_begun
    run.warm_start.mkdir()
    assert run.has_begun
    assert not run.is_complete
    run.model.mkdir()
    assert run.is_complete


def test_a_control_and_a_rescored_run_know_whose_they_are(tmp_path: Path) -> None:
    run = made(tmp_path / "lock")
    controls = [made(run.control(name).path) for name in ("shuffled_credit", "random_reward")]
    run.control("never_begun").path.mkdir()
    other = made(run.rescored("direct").path)
    assert run.controls == controls[::-1]
    assert [one.owner for one in (run, *controls, other)] == [None, run, run, run]
    assert [one.label for one in (run, controls[0])] == ["lock", "lock-shuffled_credit"]
    assert controls[0].first_model is None
    run.warm_start.mkdir()
    assert [one.first_model for one in (run, *controls, other)] == [run.warm_start] * 4
    controls[0].warm_start.mkdir()
    assert controls[0].first_model == controls[0].warm_start


def test_a_baseline_belongs_to_its_run_and_begins_from_a_model_of_its_own(tmp_path: Path) -> None:
    run = made(tmp_path / "lock")
    many, few = (made(run.baseline(n).path) for n in (1600, 400))
    made(run.baseline(0).path.with_name("notes"))
    assert run.baselines == [few, many]
    assert [(one.owner, one.label) for one in run.baselines] == [(run, "lock-400"), (run, "lock-1600")]
    run.warm_start.mkdir()
    assert few.first_model is None
    few.warm_start.mkdir()
    assert few.first_model == few.warm_start


def test_a_run_in_a_folder_called_controls_is_a_run_of_its_own(tmp_path: Path) -> None:
    assert made(tmp_path / "controls" / "lock").owner is None


NAMES = "config.toml machine.json metrics.jsonl evaluations.jsonl alarms.jsonl trajectories set_aside verdicts.sqlite"
NAMES += (
    " warm_start.json overlap.json result.json warm_start model checkpoints tensorboard wandb controls rescored report"
)
NAMES += " adapter validation.json broken_batch.npz memory.json baselines .in_use console.log traceback.txt best_pass"
NAMES += " imported.json stages trackio .stored.json"


def test_every_name_is_one_that_a_run_uses(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    values = [getattr(run, name) for name, one in vars(RunFolder).items() if isinstance(one, property)]
    found = {path.relative_to(tmp_path).parts[0] for path in values if isinstance(path, Path) and path != tmp_path}
    assert found | {"baselines", "controls", "rescored"} == set(NAMES.split())


def spelled(text: str) -> list[tuple[int, str]]:
    """Line and name of every name of a run's folder that is joined to a path."""
    found = re.finditer(r"""/ f?["']([^"'/]+)["'/]""", text)
    return [(text.count("\n", 0, one.start()) + 1, one[1]) for one in found if one[1] in NAMES.split()]


def test_nobody_else_spells_a_path_of_a_run() -> None:
    others = [path for path in sorted((ROOT / "turngate").rglob("*.py")) if path.name != "folder.py"]
    assert spelled((ROOT / "turngate" / "store" / "folder.py").read_text(encoding="utf-8"))
    found = [
        f"{path.relative_to(ROOT)}:{line} spells '{name}'"
        for path in others
        for line, name in spelled(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
