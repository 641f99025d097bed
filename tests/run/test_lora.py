"""Adapters from the config on: trained, published, saved, resumed, and compared with the model that they began from."""

import io
import json
import os
import signal
import tomllib
from pathlib import Path

import pytest
import tomli_w
import torch
from peft import PeftModel
from rich.console import Console
from safetensors.torch import load_file

from tests.helpers.command_line import turngate
from tests.helpers.run_metrics import MEASURED
from turngate.agents import tiny
from turngate.config.run_config import load
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.validation_steps import read_steps
from turngate.trainer.torch.shards import read_state

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
LORA = {"rank": 4, "alpha": 8}
SIZES = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300}


def written(folder: Path, learner: dict, steps: int, **more) -> Path:
    """A config in ``folder``."""
    folder.mkdir(exist_ok=True)
    table = {
        "name": "run",
        "folder": str(folder),
        "env": {"id": "turngate/Lock-v1"},
        "model": SIZES,
        "warm_start": {"episodes": 48, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
        "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
        "learner": {"lr": 1e-2, "lora": LORA, **learner},
        "loss": {"penalties": [{"type": "kl", "coef": 0.01}]},
        "train": {"steps": steps, "tasks_per_step": 2, "group_size": 4, "filters": []},
        "eval": {"tasks": 1},
        **more,
    }
    path = folder / "run.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def trained(config: Path) -> RunFolder:
    """What ``turngate train`` does, without its report."""
    job = Job(load(config), Console(quiet=True))
    job.run()
    return job.folder


def rows(run: RunFolder) -> list[dict]:
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith(MEASURED)} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> RunFolder:
    """A run of six steps that nobody kills: the marker is there from the start."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "marker").touch()
    dying = {"type": "tests.run.learner_parts:DyingPart", "marker": str(folder / "marker")}
    return trained(written(folder, dying, steps=6))


def test_the_reference_is_the_model_without_adapters(whole):
    apart = [row["policy/kl_to_reference_nats"] for row in rows(whole)]
    assert apart[0] == 0
    assert all(kl > 1e-4 for kl in apart[1:])
    assert all(row["canary/max_logprob_difference"] < 1e-4 for row in rows(whole))
    assert all(row["learner/skipped_updates"] == 0 for row in rows(whole))


def test_checkpoints_hold_adapters_and_the_model_at_the_end_has_them_added(whole):
    state = read_state(whole.checkpoints / "step=000006" / "state.pt", torch.device("cpu"))
    start, end = (load_file(folder / "model.safetensors") for folder in (whole.warm_start, whole.model))
    assert start.keys() == end.keys()
    changed = set()
    for name, weight in start.items():
        thin = [state["adapters"].get(name.replace("weight", f"lora_{one}.default.weight")) for one in "AB"]
        if thin[0] is not None:
            changed.add(name)
            weight = weight + LORA["alpha"] / LORA["rank"] * thin[1] @ thin[0]
        torch.testing.assert_close(end[name], weight)
    assert len(changed) == 7
    base, _ = tiny.load(str(whole.warm_start))
    added = PeftModel.from_pretrained(base, whole.adapter).merge_and_unload()
    for name, weight in added.named_parameters():
        torch.testing.assert_close(weight, end[name])
    assert json.loads((whole.adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == str(
        whole.warm_start
    )
    assert len(state["adapters"]) == 14
    assert "model" not in state


def test_a_warm_start_of_a_pretrained_model_trains_adapters_too(whole, tmp_path):
    """Each adapted matrix moves by a product of rank 4, and nothing else moves, as it does without adapters."""
    first = load_file(whole.warm_start / "model.safetensors")
    shown = {"episodes": 16, "epochs": 2, "episodes_per_batch": 8}
    moved = {}
    kinds = ("adapted", {"lora": LORA}, 2e-4, "adapters of rank 4"), ("plain", {"type": "torch"}, 2e-5, "all weights")
    for name, learner, lr, what in kinds:
        more = {"model": str(whole.warm_start), "warm_start": shown}
        path = written(tmp_path / name, {}, steps=0, **more)
        path.write_text(tomli_w.dumps(tomllib.loads(path.read_text()) | {"learner": learner}))
        config = load(path)
        assert config.imitation_lr == lr
        console = Console(file=io.StringIO(), width=200)
        Job(config, console).run()
        assert f"the warm start trains {what}, lr {lr:g}\n" in console.file.getvalue()
        now = load_file(RunFolder(tmp_path / name / "run").warm_start / "model.safetensors")
        assert now.keys() == first.keys()
        moved[name] = {key: now[key] - first[key] for key in now if not torch.equal(now[key], first[key])}
    assert len(moved["adapted"]) == 7
    assert {int(torch.linalg.matrix_rank(change, rtol=1e-3)) for change in moved["adapted"].values()} == {4}
    assert moved["plain"].keys() == first.keys()
    assert load(whole.config).imitation_lr == 1e-3


@pytest.mark.timeout(2 * LIMIT_S)
def test_a_killed_run_goes_on_bit_for_bit(whole, tmp_path, forked):
    dying = {"type": "tests.run.learner_parts:DyingPart", "marker": str(tmp_path / "marker")}
    config = written(tmp_path, dying, steps=6)
    killed = forked.run("train", config, cwd=ROOT, env=os.environ, timeout=LIMIT_S)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = RunFolder(tmp_path / "run")
    assert [row["step"] for row in rows(run)] == [1, 2, 3]
    trained(config)
    assert rows(run) == rows(whole)
    assert (run.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    played, expected = (list(Store(one.path).read(None, "train")) for one in (run, whole))
    assert [group.trajectories for group in played] == [group.trajectories for group in expected]


def best_in_the_middle(folder: Path) -> tuple[RunFolder, int]:
    """A run whose best step is neither the first nor the last, and that step. Rounding decides which seed has one."""
    train = {"steps": 4, "tasks_per_step": 2, "group_size": 4, "filters": [], "validation": {"tasks": 6, "every": 1}}
    start = {"episodes": 96, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3}
    wild = {"lr": 3e-2, "max_kl": 1e9}
    for seed in range(1, 9):
        run = trained(written(folder / str(seed), wild, steps=4, train=train, warm_start=start, seed=seed))
        if 0 < (best := read_steps(run).best.number) < 4:
            return run, best
    pytest.fail("the best step of eight runs was the first or the last, so nothing is shown")


@pytest.mark.timeout(2 * LIMIT_S)
def test_the_best_step_leaves_its_model_and_its_adapters(tmp_path):
    run, number = best_in_the_middle(tmp_path)
    end, best = (load_file(folder / "model.safetensors") for folder in (run.model, run.best(number)))
    assert all(torch.equal(end[name], weight) for name, weight in best.items())
    out = tmp_path / "out"
    assert turngate("export", run.path, out, "--best", "--adapter") == 0
    for adapter in (run.adapter, out):
        base, _ = tiny.load(str(run.warm_start))
        added = PeftModel.from_pretrained(base, adapter).merge_and_unload()
        for name, weight in added.named_parameters():
            torch.testing.assert_close(weight, end[name])


def test_adapters_that_are_not_published_stop_the_run(tmp_path, capsys):
    assert turngate("train", written(tmp_path, {"type": "tests.run.learner_parts:DeafPart"}, steps=1)) == 1
    assert "MismatchError: sampler and learner differ at turn 0" in capsys.readouterr().err


def test_everything_that_saves_memory_at_once(tmp_path):
    """With an implicit reward model, which has adapters of its own, and a critic elsewhere in the suite."""
    thrifty = {"checkpoint_activations": True, "optimizer": "adamw_8bit", "dtype": "bfloat16", "tolerance": 1.0}
    more = {"credit": {"type": "prime"}, "reward_model": {}}
    config = written(tmp_path, thrifty, steps=2, **more)
    run = trained(config)
    assert any(row["learner/grad_norm"] > 0 for row in rows(run))
    assert {"adapters", "base"} <= read_state(
        run.checkpoints / "step=000002" / "reward_model.pt", torch.device("cpu")
    ).keys()


@pytest.mark.parametrize(
    ("learner", "problem"),
    [
        ({"offload": True}, "learner.offload has no effect: the model is in CPU memory"),
        ({"lora": {"targets": ["nothing"]}}, "unknown layer in learner.lora.targets 'nothing'; known: down_proj"),
        ({"lora": {"rank": 0}}, "learner.lora.rank"),
        ({"lora": {"dropout": 0.1}}, "learner.lora.dropout"),
        ({"lora": {"targets": []}}, "learner.lora.targets"),
    ],
)
def test_what_cannot_be_is_one_line(learner, problem, tmp_path, capsys):
    start = {"warm_start": {"episodes": 8, "lr": 5e-3}}
    assert turngate("train", written(tmp_path, learner, steps=1, **start)) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
