"""The passes of a warm start are tried on tasks of their own, and the best of them is what training begins from."""

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from rich.console import Console

from tests.helpers.command_line import turngate
from tests.helpers.warm_starts import entry, one, passes
from turngate.config.run_config import Config, load_run, parse
from turngate.errors import ConfigError, DataError
from turngate.progress_bar import Progress
from turngate.run.assembly.models import load_model
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.validation import empty_folder, trying, validation_tasks
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.evaluation.validation_passes import read_passes, write_passes
from turngate.trainer.imitate import Imitation
from turngate.trainer.loss.policy_loss import PolicyLoss

TABLE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {
        "episodes": 96,
        "epochs": 6,
        "episodes_per_batch": 8,
        "lr": 5e-3,
        "validation": {"tasks": 6, "every": 2, "patience": 4},
    },
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
    "train": {"steps": 0},
    "eval": {"tasks": 4},
}


def test_the_highest_mean_of_both_rates_is_chosen_and_of_equal_ones_the_earlier():
    tried = one(1, 0.6, 0.1), one(2, 0.25, 0.5), one(3, 0.5, 0.25), one(4, 0.1, 0.6), one(3, 0.75, 0.0, "decay")
    assert entry(*tried).chosen.number == 2
    grid = entry(one(1, 0.1, 0.1), lr=1e-3), entry(one(2, 0.3, 0.1), lr=3e-3), entry(one(3, 0.1, 0.3), lr=1e-2)
    assert passes(grid=grid).best.lr == 3e-3


def test_the_line_says_what_was_chosen_of_how_many_on_how_much():
    assert passes(one(14, 0.41, 0.47)).line == (
        "warm start: pass 14 chosen on 100 validation tasks: sampled 41.0 %, greedy 47.0 %; not better in 4 further "
        "passes"
    )
    assert "; 3 further tasks left out: their questions are evaluated" in passes(one(14, 0, 0), left_out=3).line
    grid = entry(one(1, 0.1, 0.1)), entry(one(20, 0.2, 0.1), one(24, 0.3, 0.1, "decay"), lr=3e-3)
    line = passes(grid=grid).line
    assert "pass 24 of falling learning rate chosen, lr 0.003 and 8 episodes an update, of 2 pairs on 100" in line


def test_a_warm_start_that_was_cut_off_says_so_whichever_pair_it_was():
    grid = entry(one(1, 0.9, 0.9)), entry(one(6, 0.2, 0.1), converged=False, lr=3e-3)
    found = passes(grid=grid)
    assert not found.converged
    assert "cut off after 6 passes, before validation stopped improving: not the best supervised model" in found.line


def test_what_is_written_is_read_back(tmp_path: Path):
    run = RunFolder(tmp_path)
    assert read_passes(run) is None
    found = passes(one(1, 0.5, 0.25), one(2, 0.75, 0.5, "decay"))
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


ENDLESS = [
    ("turngate/Sql-v1", "generated_sql"),
    ("turngate/Sql-v1", "lookup_sql"),
    ("turngate/CodeRepair-v1", "generated_code"),
    ("turngate/ToolUse-v1", "lending"),
    ("turngate/ToolUse-v1", "helpdesk"),
    ("turngate/Search-v1", "generated_search"),
    ("turngate/Router-v1", "generated_routing"),
]


@pytest.mark.parametrize(("env_id", "source"), ENDLESS)
def test_endless_tasks_have_validation_tasks_of_their_own(env_id: str, source: str, tmp_path: Path):
    """Prompts may be equal ("solution.py: clamp fails its tests"), and most of the tasks ask something else."""
    env = {"id": env_id, "tasks": {"type": source}}
    warm_start = {"episodes": 4, "epochs": 3, "validation": {"tasks": 40}}
    found, left_out = ids(parse({"env": env, "warm_start": warm_start, "eval": {"tasks": 40}, "folder": str(tmp_path)}))
    assert len(found) + left_out == 40
    assert len(found) >= 20


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
    (tried,) = found.grid
    assert [one.number for one in tried.tried if one.phase == "constant"] == [2, 4, 6]
    assert [one.phase for one in tried.tried[3:]] == ["decay"], "a fifth of at most 6 passes"
    assert (found.demonstrations, found.tasks, found.left_out) == (96, 6, 0)
    assert tried.tried[0].cross_entropy > tried.tried[-1].cross_entropy > 0
    assert tried.chosen.greedy > 0.5
    assert json.loads(run.passes.read_text())["chosen"]["pass"]["number"] == tried.chosen.number
    assert not run.best_pass.exists()
    assert turngate("report", run.path) == 0
    assert found.line in capsys.readouterr().out.replace("\n", " ")
    assert f"## warm start\n\n{found.line}\n\n![" in (run.report / "summary.md").read_text()
    assert (run.report / "warm_start.png").read_bytes().startswith(b"\x89PNG")


def test_where_no_pass_is_better_the_first_one_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A learning rate at which nothing is ever solved."""
    for name, validation in (("first", {"tasks": 2, "patience": 2}), ("last", None)):
        (tmp_path / name).mkdir()
        trained(tmp_path / name, lr=1e-6, epochs=3, validation=validation)
        found = read_passes(RunFolder(tmp_path / name / "runs/lock"))
        assert (found is None) == (validation is None)
    told = capsys.readouterr().out
    assert "warm start: pass 1 chosen on 2 validation tasks: sampled 0.0 %, greedy 0.0 %; not better in 2 fu" in told
    one, other = (tmp_path / name / "runs/lock/warm_start/model.safetensors" for name in ("first", "last"))
    assert one.read_bytes() != other.read_bytes()


def test_of_a_grid_the_pair_is_kept_that_validation_chooses(tmp_path: Path):
    """The first learning rate teaches nothing."""
    run = trained(
        tmp_path, lr=[1e-6, 5e-3], episodes_per_batch=[8, 96], epochs=3, validation={"tasks": 6, "patience": 2}
    )
    found = read_passes(run)
    assert found is not None
    pairs = [(tried.lr, tried.episodes_per_batch) for tried in found.grid]
    assert pairs == [(1e-6, 8), (1e-6, 96), (5e-3, 8), (5e-3, 96)]
    assert (found.best.lr, found.best.episodes_per_batch) == (5e-3, 8)
    (evaluated,) = [one for phase, one in read_evaluations(run.path) if phase == "before" and one.temperature == 0]
    assert (evaluated.rate > 0) == (found.best.chosen.greedy > 0)


def test_evaluation_and_validation_have_a_temperature_of_their_own(tmp_path: Path):
    """At temperature 1e-6 sampling is greedy, whatever training explores at."""
    config = parse({**TABLE, "folder": str(tmp_path), "eval": {"tasks": 4, "temperature": 1e-6}})
    Job(config, Console(quiet=True)).run()
    run = RunFolder(tmp_path / "lock")
    sampled, greedy = (one for _, one in read_evaluations(run.path))
    assert (sampled.temperature, greedy.temperature) == (1e-6, 0)
    assert sampled.success_B == greedy.success_B
    found = read_passes(run)
    assert found is not None
    assert found.temperature == 1e-6
    assert all(tried.sampled == tried.greedy for tried in found.best.tried)


def test_the_weights_of_the_best_pass_are_kept_whatever_comes_after(run: RunFolder):
    config = load_run(run)
    model, tokenizer = load_model(str(run.warm_start))
    good = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    chat = config.policy.chat(model, tokenizer)
    factors = {"constant": (0, 1, 1.0001, 0, 0), "decay": (0,)}

    class Scripted(Imitation):
        """Sets the weights instead of learning; the learning rate tells which phase it is."""

        played = 0

        def run(self, lr_scale: Callable[[int], float]) -> float:
            factor = (*factors["constant"], *factors["decay"])[self.played]
            self.played += 1
            with torch.no_grad():
                for name, weight in self.learner.model.named_parameters():
                    weight.copy_(factor * good[name])
            return 0.5

    heard: list[str] = []

    class Heard(Progress):
        """Keeps what was found."""

        def found(self, result: str) -> None:
            heard.append(result)

    async def go() -> tuple[list[float], float]:
        with Environments(config.env) as environments:
            async with (
                environments.worlds(config.policy.concurrency) as worlds,
                trying(
                    config, environments, worlds, model, chat, folder=run, progress=Heard(Console(quiet=True), "")
                ) as trial,
            ):
                learner = config.learner.imitating(copy.deepcopy(model), lr=1e-3, adapters=False)
                passes = Scripted(learner, PolicyLoss(), [], episodes_per_batch=1, seed=0)
                trial.section = trial.section.model_copy(update={"every": 1, "patience": 3})
                tried = await trial.converge(passes, lr=1e-3, episodes_per_batch=1)
                assert trial.best is not None
                return [one.greedy for one in tried.tried], _ratio(dict(trial.best), good)

    greedy, ratio = asyncio.run(go())
    assert [rate > 0.5 for rate in greedy] == [False, True, True, False, False, False]
    assert ratio == 1, "of equal passes the earliest"
    told = [line.partition(" solves ")[0] for line in heard]
    assert told == ["pass 1", "pass 2", "pass 3", "pass 4", "pass 5", "pass 3"], (
        "the last is of the falling learning rate"
    )
    assert len({line.partition("best so far ")[2] for line in heard}) == 2, "a bad pass, then the good ones"


def test_what_a_killed_process_left_of_its_best_pass_is_deleted(tmp_path: Path):
    left = tmp_path / "best_pass" / "state"
    left.mkdir(parents=True)
    with empty_folder(left.parent) as folder:
        assert not list(folder.iterdir())
    assert not left.parent.exists()


def _ratio(kept: dict[str, torch.Tensor], good: dict[str, torch.Tensor]) -> float:
    ratios = {float((kept[name] / good[name]).nanmean()) for name in good}
    assert len(ratios) == 1, ratios
    return ratios.pop()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"epochs": 3, "validation": {"every": 3}}, "validation has no effect: with every = 3 and epochs = 3 only"),
        ({"epochs": 9, "validation": {"every": 4, "patience": 3}}, "patience = 3 is less than every = 4, so the warm"),
        ({"epochs": 9, "lr": [1e-3, 3e-3]}, "a list of learning rates or of episodes_per_batch needs validation"),
        ({"epochs": 9, "lr": []}, "lr"),
        ({"epochs": 9, "lr": [0.0], "validation": {}}, "lr"),
        ({"epochs": 9, "episodes_per_batch": [8, 0], "validation": {}}, "episodes_per_batch"),
    ],
)
def test_what_would_choose_nothing_is_refused(section: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        parse({"warm_start": {"episodes": 4, **section}})
    assert said in str(caught.value)
