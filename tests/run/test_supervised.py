"""Supervised baselines: runs of their own in a folder of the run, by the settings of its warm start."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from rich.console import Console

from tests.helpers.command_line import turngate
from turngate.agents import tiny
from turngate.cli.train import safe
from turngate.config.run_config import load_run, parse
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.evaluation.validation_passes import read_passes

TABLE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {
        "episodes": 8,
        "epochs": 4,
        "episodes_per_batch": 8,
        "lr": 5e-3,
        "validation": {"tasks": 4, "patience": 2},
    },
    "baselines": {"demonstrations": [24, 48]},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "train": {"steps": 2, "tasks_per_step": 2, "group_size": 2, "filters": []},
    "eval": {"tasks": 4},
    "controls": ["shuffled_reward"],
}
EVALUATED = [("heldout", 1.0, 4), ("heldout", 0.0, 4)]


def train(folder: Path, **changes: Any) -> RunFolder:
    path = folder / "lock.toml"
    path.write_text(tomli_w.dumps({**TABLE, **changes, "folder": str(folder / "runs")}))
    assert turngate("train", path) == 0
    return RunFolder(folder / "runs" / "lock")


def evaluations(run: RunFolder, phase: str) -> list[tuple[str, float, int]]:
    return [(e.split, e.temperature, len(e.success_B)) for name, e in read_evaluations(run.path) if name == phase]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(tmp_path_factory.mktemp("compared"))


@pytest.mark.parametrize("validation", [None, {"tasks": 2, "patience": 1}])
def test_imitation_that_makes_a_model_worse_is_a_warning(
    validation: dict[str, int] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    start = {key: value for key, value in TABLE["warm_start"].items() if key != "validation"}
    more = {} if validation is None else {"validation": validation}
    for lr, warned in ((3.0, True), (5e-3, False)):
        path = tmp_path / f"{lr}.toml"
        table = {**TABLE, "name": f"{lr}", "folder": str(tmp_path), "warm_start": start | more | {"lr": lr}}
        del table["baselines"], table["controls"]
        path.write_text(tomli_w.dumps(table))
        assert turngate("train", path) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert ("warning: the warm start raised the cross-entropy of its demonstrations from 5." in told) is warned
        assert (f"the learning rate {lr:g} is too high for this model" in told) is warned


def test_each_baseline_is_a_warm_start_of_its_own_evaluated_once(run: RunFolder):
    assert [one.path.name for one in run.baselines] == ["24", "48"]
    for one in run.baselines:
        assert one.is_complete
        passes = read_passes(one)
        assert passes is not None
        assert (passes.demonstrations, passes.tasks) == (int(one.path.name), 4)
        assert load_run(one).warm_start == load_run(run).warm_start.model_copy(update={"episodes": int(one.path.name)})
        assert (evaluations(one, "before"), evaluations(one, "after")) == (EVALUATED, [])
        assert not one.metrics.exists() or not one.metrics.read_text()
        own, shown = load_run(run), load_run(one)
        assert (shown.seed, shown.model, shown.policy, shown.eval) == (own.seed, own.model, own.policy, own.eval)
        assert (shown.controls, shown.baselines) == ((), None)


def test_the_run_and_its_controls_are_as_without_baselines(run: RunFolder):
    assert (evaluations(run, "before"), evaluations(run, "after")) == (EVALUATED, EVALUATED)
    (control,) = run.controls
    assert control.path.name == "shuffled_reward"
    assert load_run(control).train.steps == 2, "as many as the run"
    assert evaluations(control, "after") == EVALUATED
    assert not (control.path / "baselines").exists()


def test_a_tokenizer_is_trained_on_the_demonstrations_of_its_baseline(run: RunFolder, tmp_path: Path):
    """A baseline is the model that the same settings with that many demonstrations give."""
    alone = train(
        tmp_path,
        warm_start={**TABLE["warm_start"], "episodes": 24},
        baselines={"demonstrations": [25]},
        train={**TABLE["train"], "steps": 0},
        controls=[],
    )
    for name in ("model.safetensors", "tokenizer.json"):
        assert (alone.warm_start / name).read_bytes() == (run.baseline(24).warm_start / name).read_bytes()


def test_what_is_complete_is_not_made_again(run: RunFolder, capsys: pytest.CaptureFixture[str]):
    kept, again = run.baselines
    before = {path: path.stat().st_mtime_ns for path in kept.path.rglob("*") if path.name != ".in_use"}
    weights = (again.model / "model.safetensors").read_bytes()
    shutil.rmtree(again.model)
    assert turngate("train", run.path.parent.parent / "lock.toml") == 0
    told = capsys.readouterr().out
    assert "baseline: supervised learning from 48 demonstrations" in told
    assert f"{kept.path}: complete, nothing left to do" in told
    assert f"{again.path}: complete" not in told
    assert {path: path.stat().st_mtime_ns for path in kept.path.rglob("*") if path.name != ".in_use"} == before
    assert (again.model / "model.safetensors").read_bytes() == weights
    assert evaluations(again, "before") == EVALUATED
    assert "supervised learning" in (run.report / "summary.md").read_text()


def test_a_named_model_is_warm_started_from_more_demonstrations(run: RunFolder, tmp_path: Path):
    named = train(tmp_path, model=str(run.model), train={**TABLE["train"], "steps": 0}, controls=[])
    tokenizers = {(one.model / "tokenizer.json").read_bytes() for one in (run, named, *named.baselines)}
    assert len(tokenizers) == 1
    weights = [tiny.load(str(one.model))[0].get_input_embeddings().weight for one in named.baselines]
    assert not (weights[0] == weights[1]).all()


def test_a_stopped_run_says_which_baseline_is_not_finished(tmp_path: Path):
    config = parse({**TABLE, "folder": str(tmp_path)})
    run = RunFolder(tmp_path / "lock")
    for one in (run, run.baseline(24), run.baseline(48), run.control("shuffled_reward")):
        one.path.mkdir(parents=True)
        one.config.touch()
    for path in (run.model, run.baseline(24).model, run.baseline(48).warm_start):
        path.mkdir()
    assert safe(run, config) == (
        "the training is complete; of baseline '48' the warm start is safe; of control 'shuffled_reward' no step yet, "
        "so nothing is safe"
    )


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"warm_start": None, "model": "any"}, "baselines needs warm_start.episodes, the number of the oracle's"),
        (
            {"warm_start": {"demonstrations": "people.jsonl"}},
            "baselines needs warm_start.episodes, the number of the oracle's demonstrations",
        ),
        (
            {"baselines": {"demonstrations": [8, 16]}},
            "baselines.demonstrations: 8 is not more than warm_start.episodes = 8, which the run itself imitates",
        ),
        ({"baselines": {"demonstrations": [24, 16]}}, "baselines: demonstrations must ascend, and 16 does not"),
        ({"baselines": {"demonstrations": [24, 24]}}, "baselines: demonstrations must ascend, and 24 does not"),
        ({"baselines": {"demonstrations": []}}, "baselines.demonstrations: "),
    ],
)
def test_numbers_that_compare_nothing_are_refused(changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        parse({**TABLE, **changes})
    assert str(caught.value).startswith(said)


FEW_TASKS = """
from turngate.envs.lock import LockTasks

def tasks():
    yield from (LockTasks().task("train", n) for n in range(20))
    yield from (LockTasks().task("heldout", n) for n in range(20))
"""


def test_too_few_training_tasks_are_told_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "few_tasks.py").write_text(FEW_TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = {"id": "turngate/Lock-v1", "tasks": {"type": "few_tasks:tasks"}}
    config = parse({**TABLE, "env": env, "folder": str(tmp_path / "runs")})
    with pytest.raises(ConfigError, match="24 needs 24 tasks of 'turngate/Lock-v1' train, which holds 20; leave"):
        Job(config, Console(quiet=True))
    assert not (tmp_path / "runs").exists()
