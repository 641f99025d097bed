"""Training keeps the weights of its best step, chosen on tasks that are not reported, and a kill loses none of it.

1. Every so many steps the model plays validation tasks unaided; the start and the last step are among them.
2. The best step's weights are kept while training goes on. They are what is evaluated after it, and the trained model.
3. ``turngate train`` that dies in a validation, or between its parts, goes on to the same bits.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.run.test_killed import train_until_killed
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.run.assembly.models import load_model
from turngate.store.folder import RunFolder
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.evaluation.evaluations_file import forget_evaluations, read_evaluations
from turngate.trainer.evaluation.validation_steps import TriedStep, TriedSteps, read_steps, write_steps

STEPS = 6
TABLE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 96, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "learner": {"lr": 3e-2, "max_kl": 1e9},
    "train": {
        "steps": STEPS,
        "tasks_per_step": 2,
        "group_size": 4,
        "filters": [],
        "checkpoint_every": 4,
        "validation": {"tasks": 6, "every": 2},
    },
    "eval": {"tasks": 4},
}
"""With a rate so high that training spoils what the warm start could: an early step is the best."""


def trained(folder: Path, **validation: Any) -> RunFolder:
    path = folder / "lock.toml"
    train_ = {**TABLE["train"], "validation": {**TABLE["train"]["validation"], **validation}}
    path.write_text(tomli_w.dumps({**TABLE, "train": train_, "folder": str(folder / "runs")}))
    assert turngate("train", path) == 0
    return RunFolder(folder / "runs/lock")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("kept"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(str(folder))[0].named_parameters())


def are_equal(one: Path, other: Path) -> bool:
    found, wanted = weights(one), weights(other)
    return all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_the_best_step_is_kept_reported_and_is_the_trained_model(run: RunFolder, capsys: pytest.CaptureFixture[str]):
    found = read_steps(run)
    assert found is not None
    assert [tried.number for tried in found.tried] == [0, 2, 4, 6]
    best = found.best
    assert best is not None
    assert best.number < STEPS
    assert best.rate("mean") > found.tried[-1].rate("mean"), "nothing was spoiled, so nothing is shown"
    assert are_equal(run.model, run.best(best.number))
    assert best.number > 0 or are_equal(run.model, run.warm_start)
    assert Checkpoints(run.checkpoints).steps() == [4, 6]
    assert turngate("report", run.path) == 0
    assert found.line in capsys.readouterr().out
    assert f"best {best.number} of 6 by mean on 6 validation tasks" in found.line
    assert f"## validation in training\n\n{found.line}\n\n![" in (run.report / "summary.md").read_text()
    assert (run.report / "validation.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_evaluated_after_training_is_the_best_step(run: RunFolder, tmp_path: Path):
    """The evaluation of the folder itself, greedy on the same tasks, finds the same."""
    out = tmp_path / "again"
    options = ("--env", "turngate/Lock-v1", "--tasks", 4, "--turn-tokens", 8, "--context", 256, "--temperature", 0)
    assert turngate("eval", run.model, *options, "--out", out) == 0
    ((_, again),) = read_evaluations(out)
    (after,) = [e for phase, e in read_evaluations(run.path) if phase == "after" and e.temperature == 0]
    assert again.success_B == after.success_B


def test_the_last_step_can_be_the_model_with_the_best_beside_it(tmp_path: Path, run: RunFolder):
    other = trained(tmp_path, keep="last")
    steps = read_steps(other)
    assert steps is not None
    assert steps.best is not None
    assert not are_equal(other.model, other.best(steps.best.number))
    assert are_equal(other.best(steps.best.number), run.model)
    for options, source in (((), other.model), (("--best",), other.best(steps.best.number))):
        out = tmp_path / f"out{len(options)}"
        assert turngate("export", other.path, out, *options) == 0
        assert are_equal(out, source)
    assert f"by reinforcement learning from rewards ({STEPS} steps" in (tmp_path / "out0/README.md").read_text()
    card = (tmp_path / "out1/README.md").read_text()
    assert ("by imitation alone" if steps.best.number == 0 else f"rewards ({steps.best.number} steps") in card
    assert steps.line in card


def test_a_run_killed_between_weights_and_record_goes_on_to_the_same_bits(run: RunFolder, tmp_path: Path):
    """The process died after it had written some of ``best/`` and before ``validation.json``."""
    known = read_steps(run)
    assert known is not None
    copy = died_at_the_last_validation(run, tmp_path / "same", known.until(4))
    assert turngate("train", tmp_path / "same/lock.toml") == 0
    assert copy.validated.read_bytes() == run.validated.read_bytes()
    assert are_equal(copy.model, run.model)
    assert read_evaluations(copy.path) == read_evaluations(run.path)
    assert [folder.name for folder in copy.bests] == [folder.name for folder in run.bests]
    worse = [replace(one, sampled=-1.0, greedy=-1.0) for one in known.tried[:-1]]
    other = died_at_the_last_validation(run, tmp_path / "last", replace(known, tried=tuple(worse)))
    assert turngate("train", tmp_path / "last/lock.toml") == 0
    found = read_steps(other)
    assert found is not None
    assert found.best == found.tried[-1] == known.tried[-1]
    assert are_equal(other.model, other.best(6))


def died_at_the_last_validation(run: RunFolder, folder: Path, record: TriedSteps) -> RunFolder:
    """A copy of the run as it was then, with that record."""
    copy = RunFolder(folder / "runs/lock")
    shutil.copytree(run.path, copy.path)
    (folder / "lock.toml").write_text(tomli_w.dumps({**TABLE, "folder": str(folder / "runs")}))
    copy.config.unlink()  # it names the folder
    shutil.rmtree(copy.model)
    forget_evaluations(copy.path, "after")
    for episodes in (copy.trajectories / "step=000006").glob("*after*"):
        episodes.unlink()
    write_steps(copy, record)
    copy.best(6).mkdir()
    (copy.best(6) / "config.json").write_text("{")
    return copy


@pytest.mark.timeout(3600)
def test_a_run_killed_in_a_validation_goes_on_bit_for_bit(tmp_path: Path, forked: Forks):
    folders = {name: tmp_path / name for name in ("whole", "killed")}
    runs = {name: RunFolder(folder / "run") for name, folder in folders.items()}
    configs = {name: _config(folder) for name, folder in folders.items()}
    (folders["whole"] / "marker").touch()  # as if it had been killed before
    train_until_killed(forked, configs["killed"])
    known = read_steps(runs["killed"])
    assert known is not None
    assert [one.number for one in known.tried] == [0, 2]
    assert [turngate("train", config) for config in configs.values()] == [0, 0]
    assert runs["killed"].validated.read_bytes() == runs["whole"].validated.read_bytes()
    for file in ("model/model.safetensors", "evaluations.jsonl"):
        assert (runs["killed"].path / file).read_bytes() == (runs["whole"].path / file).read_bytes()
    steps = [json.loads(line)["step"] for line in runs["killed"].metrics.read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5]


def _config(folder: Path) -> Path:
    folder.mkdir()
    table = {
        **TABLE,
        "name": "run",
        "folder": str(folder),
        "env": {
            "id": "tests.run.killing_validation:test/KillingValidation-v0",
            "kwargs": {"marker": f"{folder}/marker"},
        },
        "train": {**TABLE["train"], "steps": 5, "validation": {"tasks": 4, "every": 2}},
        "eval": {"tasks": 2},
    }
    path = folder / "run.toml"
    path.write_text(tomli_w.dumps(table))
    return path


# --- the record and the settings --------------------------------------------------------------------------------------


def steps_of(*rates: tuple[float, float], **changes: Any) -> TriedSteps:
    settings = {
        "steps": 9,
        "split": "heldout",
        "temperature": 1.0,
        "tasks": 100,
        "left_out": 0,
        "by": "mean",
        "keep": "best",
    }
    tried = [TriedStep(number=n, sampled=s, greedy=g, unusable=0) for n, (s, g) in enumerate(rates)]
    return TriedSteps(**{**settings, **changes}, tried=tuple(tried))


@pytest.mark.parametrize(("by", "number"), [("mean", 1), ("sampled", 0), ("greedy", 3)])
def test_the_named_rate_chooses_and_of_equal_steps_the_earliest(by: str, number: int):
    best = steps_of((0.6, 0.1), (0.25, 0.5), (0.5, 0.25), (0.1, 0.6), by=by).best
    assert best is not None
    assert best.number == number


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"train": {"steps": 6, "validation": {"every": 6}}}, "with every = 6 and steps = 6 no step before the last"),
        ({"train": {"steps": 0, "validation": {}}}, "train: validation has no effect"),
        (
            {"train": {"steps": 6, "validation": {"every": 2}}, "learner": "frozen"},
            "train.validation has no effect: the frozen learner's weights stay as they are",
        ),
    ],
)
def test_what_would_choose_nothing_is_refused(table: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        parse({"model": "any", **table})
    assert said in str(caught.value)


def test_too_few_tasks_are_told_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = {**TABLE, "folder": str(tmp_path / "runs"), "train": {**TABLE["train"], "validation": {"split": "train"}}}
    table["train"]["validation"]["every"] = 2
    (tmp_path / "lock.toml").write_text(tomli_w.dumps(table))
    assert turngate("train", tmp_path / "lock.toml") == 2
    assert "train.validation.split: 'train' is the split that is trained on" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
