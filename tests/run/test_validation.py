"""The passes of a warm start are tried on tasks of their own, and the best of them is what training begins from."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from rich.console import Console

from tests.helpers.command_line import turngate
from turngate.config import Config, load_run, parse
from turngate.errors import ConfigError, DataError
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.models import load_model
from turngate.run.validation import trying, validation_tasks
from turngate.runs import RunFolder
from turngate.trainer.tried_passes import TriedPass, TriedPasses, read_passes, write_passes

TABLE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {
        "episodes": 96,
        "epochs": 6,
        "episodes_per_batch": 8,
        "lr": 5e-3,
        "validation": {"tasks": 6, "every": 2},
    },
    "policy": {"turn_tokens": 8, "context": 256, "lanes": 8},
    "train": {"steps": 0},
    "eval": {"tasks": 4},
}


def one(number: int, sampled: float, greedy: float) -> TriedPass:
    return TriedPass(number=number, cross_entropy=0.5, sampled=sampled, greedy=greedy, unusable=0)


def passes(*tried: TriedPass, **changes: Any) -> TriedPasses:
    settings = {"demonstrations": 9, "epochs": 20, "split": "heldout", "temperature": 1.0, "tasks": 100, "left_out": 0}
    return TriedPasses(**{**settings, **changes}, tried=tried)


def test_the_highest_mean_of_both_rates_is_chosen_and_of_equal_ones_the_earlier():
    assert passes(one(1, 0.6, 0.1), one(2, 0.25, 0.5), one(3, 0.5, 0.25), one(4, 0.1, 0.6)).chosen.number == 2


def test_the_line_says_what_was_chosen_of_how_many_on_how_much():
    found = passes(one(14, 0.41, 0.47))
    assert found.line == "passes: chosen 14 of 20 on 100 validation tasks: sampled 41.0 %, greedy 47.0 %"
    assert "; 3 further tasks left out: their questions are evaluated" in passes(one(14, 0, 0), left_out=3).line


def test_what_is_written_is_read_back(tmp_path: Path):
    run = RunFolder(tmp_path)
    assert read_passes(run) is None
    found = passes(one(1, 0.5, 0.25), one(2, 0.75, 0.5))
    write_passes(run, found)
    assert read_passes(run) == found
    run.passes.write_text('{"chosen": 1}')
    with pytest.raises(DataError, match="does not hold the passes of a warm start"):
        read_passes(run)


# --- which tasks -----------------------------------------------------------------------------------------------------

OWN_TASKS = """
from dataclasses import replace
from turngate.envs.lock import LockTasks
from turngate.envs.tasks import TaskList

def tasks(*, same: int = 0):
    for split, count in (("train", 6), ("heldout", 10), ("spare", 4)):
        for n in range(count):
            task = LockTasks().task("train", n)
            number = n - 4 if split == "heldout" and 4 <= n < 4 + same else f"{split} {n}"
            asked = f"heldout {number}" if isinstance(number, int) else number
            yield replace(task, id=f"{split}/{n}", split=split, prompt=f"{task.prompt} ({asked})")
"""


@pytest.fixture
def own_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "spare_tasks.py").write_text(OWN_TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "spare_tasks:tasks"


def config_of(source: str, folder: Path, *, same: int = 0, **validation: Any) -> Config:
    env = {"id": "turngate/Lock-v1", "tasks": {"type": source, "same": same}}
    warm_start = {"episodes": 4, "epochs": 3, "validation": validation}
    return parse({"env": env, "warm_start": warm_start, "eval": {"tasks": 4}, "folder": str(folder / "runs")})


def ids(config: Config) -> tuple[list[str], int]:
    assert config.warm_start is not None
    assert config.warm_start.validation is not None
    with Environments(config.env) as environments:
        found = validation_tasks(config, environments, config.warm_start.validation)
    return [task.id for tasks in found.by_env.values() for task in tasks], found.left_out


def test_they_follow_the_evaluated_ones_or_begin_a_split_of_their_own(own_tasks: str, tmp_path: Path):
    assert ids(config_of(own_tasks, tmp_path, tasks=3)) == (["heldout/4", "heldout/5", "heldout/6"], 0)
    assert ids(config_of(own_tasks, tmp_path, tasks=2, split="spare")) == (["spare/0", "spare/1"], 0)


def test_one_that_asks_what_is_evaluated_is_left_out_and_counted(own_tasks: str, tmp_path: Path):
    assert ids(config_of(own_tasks, tmp_path, tasks=3, same=2)) == (["heldout/6"], 2)


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        (
            {"tasks": 7},
            "warm_start.validation: split 'heldout' of 'turngate/Lock-v1' holds 10 tasks, of which eval.tasks = 4 are "
            "evaluated; 6 are left, fewer than warm_start.validation.tasks = 7; lower one of the two",
        ),
        ({"tasks": 5, "split": "spare"}, "4 are left, fewer than warm_start.validation.tasks = 5"),
        ({"split": "train"}, "warm_start.validation.split: 'train' is the split that is trained on"),
        ({"split": "hedlout"}, "warm_start.validation.split: "),
        (
            {"tasks": 2, "same": 2},
            "each of the 2 tasks of 'turngate/Lock-v1' heldout asks a question that is eval",
        ),
    ],
)
def test_too_few_or_wrong_tasks_are_told_before_any_work(
    validation: dict[str, Any], said: str, own_tasks: str, tmp_path: Path
):
    with pytest.raises(ConfigError) as caught:
        Job(config_of(own_tasks, tmp_path, **validation), Console(quiet=True))
    assert said in str(caught.value)
    assert not (tmp_path / "runs").exists()


# --- the whole way ---------------------------------------------------------------------------------------------------


def trained(folder: Path, **warm_start: Any) -> RunFolder:
    path = folder / "lock.toml"
    table = {**TABLE, "warm_start": {**TABLE["warm_start"], **warm_start}, "folder": str(folder / "runs")}
    path.write_text(tomli_w.dumps({**table, "warm_start": {k: v for k, v in table["warm_start"].items() if v}}))
    assert turngate("train", path) == 0
    return RunFolder(folder / "runs" / "lock")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("validated"))


def test_a_run_keeps_the_passes_and_reports_them(run: RunFolder, capsys: pytest.CaptureFixture[str]):
    found = read_passes(run)
    assert found is not None
    assert [tried.number for tried in found.tried] == [2, 4, 6]
    assert (found.demonstrations, found.tasks, found.left_out) == (96, 6, 0)
    assert found.tried[0].cross_entropy > found.tried[-1].cross_entropy > 0
    assert found.chosen.greedy > 0.5
    assert json.loads(run.passes.read_text())["chosen"] == found.chosen.number
    assert turngate("report", run.path) == 0
    assert found.line in capsys.readouterr().out.replace("\n", " ")
    assert f"## warm start\n\n{found.line}\n\n![" in (run.report / "summary.md").read_text()
    assert (run.report / "warm_start.png").read_bytes().startswith(b"\x89PNG")


def test_where_no_pass_is_better_the_first_one_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A learning rate at which nothing is ever solved."""
    for name, validation in (("first", {"tasks": 2}), ("last", None)):
        (tmp_path / name).mkdir()
        trained(tmp_path / name, lr=1e-6, epochs=2, validation=validation)
        found = read_passes(RunFolder(tmp_path / name / "runs/lock"))
        assert (found is None) == (validation is None)
    assert "passes: chosen 1 of 2 on 2 validation tasks: sampled 0.0 %, greedy 0.0 %\n" in capsys.readouterr().out
    one, other = (tmp_path / name / "runs/lock/warm_start/model.safetensors" for name in ("first", "last"))
    assert one.read_bytes() != other.read_bytes()


def test_the_weights_of_the_best_pass_are_kept_whatever_comes_after(run: RunFolder):
    config = load_run(run)
    model, tokenizer = load_model(str(run.warm_start))
    good = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    chat = config.policy.chat(model, tokenizer)

    def set_weights(factor: float) -> None:
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(factor * good[name])

    async def go() -> list[tuple[float, float]]:
        found = []
        with Environments(config.env) as environments:
            async with (
                environments.worlds(config.policy.lanes) as worlds,
                trying(config, environments, worlds, model, chat, folder=run) as trial,
            ):
                for number, factor in enumerate((0, 1, 1.0001, 0, 0), start=1):
                    set_weights(factor)
                    await trial.after_pass(2 * number, 0.5)
                    assert trial.best is not None
                    kept = dict(trial.best)
                    found.append((trial.tried[-1].greedy, _ratio(kept, good)))
        return found

    found = asyncio.run(go())
    assert [ratio for _, ratio in found] == [0, 1, 1, 1, 1]
    assert [greedy > 0.5 for greedy, _ in found] == [False, True, True, False, False]


def _ratio(kept: dict[str, torch.Tensor], good: dict[str, torch.Tensor]) -> float:
    ratios = {float((kept[name] / good[name]).nanmean()) for name in good}
    assert len(ratios) == 1, ratios
    return ratios.pop()


def test_what_would_choose_nothing_is_refused():
    section = {"episodes": 4, "epochs": 3, "validation": {"every": 3}}
    with pytest.raises(ConfigError, match="warm_start: validation has no effect: with every = 3 and epochs = 3 only"):
        parse({"warm_start": section})
