"""A config that is trained again: with more steps a run goes on as if it had had them from the beginning, elsewhere it
goes on too, and with other settings it says which."""

import json
import shutil

import pytest

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate_at
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import dump, load
from turngate.store import Store
from turngate.store.folder import RunFolder

pytestmark = pytest.mark.timeout(400)
CONTROL = 'controls = ["shuffled_credit"]\n'


def results(run: RunFolder) -> list[object]:
    """What a run came to: weights, metrics without times, evaluations, and which episodes are stored."""
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    timed = [{key: value for key, value in row.items() if not key.startswith(MEASURED)} for row in rows]
    stored = sorted(path.relative_to(run.path).as_posix() for path in run.trajectories.rglob("*.parquet"))
    return [(run.model / "model.safetensors").read_bytes(), timed, run.evaluations.read_text(), stored]


def test_a_run_with_more_steps_goes_on_as_if_it_had_had_them_from_the_beginning(tmp_path, capsys):
    write_config(tmp_path, steps=1, before=CONTROL)
    assert turngate_at(tmp_path, "train", "lock.toml") == 0
    assert turngate_at(tmp_path, "train", "lock.toml", "--train.steps=3") == 0
    out = capsys.readouterr().out
    assert out.count("goes on after step 1; train.steps is 3 now") == 2, "the run and its control"
    assert turngate_at(tmp_path, "train", "lock.toml", "--train.steps=3", "--name=whole") == 0
    longer, whole = RunFolder(tmp_path / "runs/lock"), RunFolder(tmp_path / "runs/whole")
    for mine, theirs in ((longer, whole), (longer.control("shuffled_credit"), whole.control("shuffled_credit"))):
        assert results(mine) == results(theirs)
        assert Store(mine.path).last_step() == 3


def test_a_run_that_was_moved_goes_on(tmp_path, capsys):
    write_config(tmp_path, steps=1)
    assert turngate_at(tmp_path, "train", "lock.toml") == 0
    shutil.move(tmp_path / "runs/lock", tmp_path / "elsewhere/other")
    assert turngate_at(tmp_path, "train", "lock.toml", "--folder=elsewhere", "--name=other") == 0
    assert "complete, nothing left to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--train.steps=1"], "train.steps was 2 and is 1; choose another --name, or set them back"),
        (["--seed=7", "--train.steps=3"], "seed was 0 and is 7, train.steps was 2 and is 3"),
        (["--credit.type=rloo"], "credit.type was 'grpo' and is 'rloo'"),
        (["--policy.system=Be brief."], "policy.system was '' and is 'Be brief.'"),
        (["--train.steps=1"], "(only train.steps can be raised later)"),
    ],
)
def test_settings_that_differ_are_named_with_both_values(tmp_path, capsys, changes, said):
    config = write_config(tmp_path, steps=2)
    run = RunFolder(tmp_path / "runs/lock")
    run.trajectories.mkdir(parents=True)
    run.config.write_text(dump(load(config)))
    assert turngate_at(tmp_path, "train", "lock.toml", *changes) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("gone", ["metrics.jsonl", "trajectories", "trajectories/step=000001"])
def test_records_that_are_gone_are_told(tmp_path, capsys, gone, complete):
    write_config(tmp_path, steps=2)
    assert turngate_at(tmp_path, "train", "lock.toml") == 0
    run = RunFolder(tmp_path / "runs/lock")
    lost = run.path / gone
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    if not complete:
        shutil.rmtree(run.model)
    assert turngate_at(tmp_path, "train", "lock.toml") == 1
    steps = "1 of 2" if gone.endswith("1") else "1, 2 of 2"
    said = f"runs/lock/{gone.partition('/')[0]}' lacks steps {steps} that are done; put it back"
    assert said in capsys.readouterr().err
