"""The command line end to end on the toy: train, resume after SIGKILL, the same curve again, show, report, mistakes."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import ENDS_S, forks
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import tiny_model
from turngate.envs.lock import LockEnv
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import read_evaluations

CONFIG = (
    """
name = "lock"
folder = "{folder}"
controls = ["shuffled_credit", "random_reward"]

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model()
    + """
[train]
steps = {steps}
tasks_per_step = 3
group_size = 4

[eval]
tasks = 10
"""
)


def write_config(folder: Path, steps: int = 2) -> Path:
    path = folder / "lock.toml"
    path.write_text(CONFIG.format(folder=folder / "runs", steps=steps))
    return path


def curve(run: Path) -> list[dict[str, float]]:
    """The metrics of a run without the clocks."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith(MEASURED)} for row in rows]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    assert turngate("train", write_config(folder)) == 0
    return folder / "runs" / "lock"


def test_a_run_leaves_everything_that_is_promised(trained: Path) -> None:
    for name in ("config.toml", "machine.json", "metrics.jsonl", "warm_start/config.json", "model/config.json"):
        assert (trained / name).exists(), name
    assert (trained / "report" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "control: shuffled credit" in (trained / "report" / "summary.md").read_text()
    phases = [(phase, e.split, e.temperature, len(e.success_B)) for phase, e in read_evaluations(trained)]
    assert phases == [
        ("before", "heldout", 1.0, 10),
        ("before", "heldout", 0.0, 10),
        ("after", "heldout", 1.0, 10),
        ("after", "heldout", 0.0, 10),
    ]
    assert Store(trained).steps() == [1, 2]
    assert [len(group.trajectories) for group in Store(trained).read(1, "train")] == [4, 4, 4]


def test_the_same_seed_gives_the_same_run_bit_for_bit(trained: Path, tmp_path: Path) -> None:
    assert turngate("train", write_config(tmp_path)) == 0
    again = tmp_path / "runs" / "lock"
    assert curve(again) == curve(trained)
    first, second = Store(trained).read(2, "train"), Store(again).read(2, "train")
    assert [group.trajectories for group in first] == [group.trajectories for group in second]
    assert (again / "model/model.safetensors").read_bytes() == (trained / "model/model.safetensors").read_bytes()


def test_another_seed_gives_another_run(trained: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path)
    assert turngate("train", config, "--seed=1", "--controls=[]", "--train.steps=1") == 0
    assert curve(tmp_path / "runs" / "lock")[0] != curve(trained)[0]


def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """SIGKILL in the middle; nothing recorded is lost, and the curve is that of an undisturbed run."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    config = write_config(tmp_path / "a", steps=6)
    run = tmp_path / "a" / "runs" / "lock"
    process = forks().start("train", config, "--controls=[]", cwd=tmp_path, env=os.environ)
    deadline = time.monotonic() + 90
    while not (run / "checkpoints" / "step=000002").exists():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait(ENDS_S)
    recorded = {trajectory.id for group in Store(run).read(None, "train") for trajectory in group.trajectories}
    assert turngate("train", config, "--controls=[]") == 0
    assert turngate("train", write_config(tmp_path / "b", steps=6), "--controls=[]") == 0
    assert curve(run) == curve(tmp_path / "b" / "runs" / "lock")
    kept = {trajectory.id for group in Store(run).read(None, "train") for trajectory in group.trajectories}
    assert recorded <= kept


def test_a_run_that_was_killed_while_it_wrote_its_model_writes_it_again(trained: Path) -> None:
    before = (trained / "model/model.safetensors").read_bytes()
    (trained / "model").rename(trained / "writing_model")
    (trained / "writing_model/model.safetensors").write_bytes(before[:100])
    assert turngate("train", trained.parent.parent / "lock.toml") == 0
    assert (trained / "model/model.safetensors").read_bytes() == before
    assert not (trained / "writing_model").exists()


def test_a_complete_run_says_so_and_trains_nothing(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = curve(trained)
    assert turngate("train", trained.parent.parent / "lock.toml") == 0
    assert "nothing left to do" in capsys.readouterr().out
    assert curve(trained) == before


def test_other_settings_in_the_same_folder_are_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("train", trained.parent.parent / "lock.toml", "--train.steps=1", "--seed=5") == 2
    assert "choose another --name" in capsys.readouterr().err


def test_a_run_that_could_not_begin_begins_with_other_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, steps=1)
    text = re.sub(r"\[model\].*?\[policy\]", "[policy]", config.read_text(), flags=re.DOTALL)
    config.write_text(f'model = "{tmp_path / "nothing"}"\n{text}')
    assert turngate("train", config) == 2
    assert "cannot be loaded" in capsys.readouterr().err
    write_config(tmp_path, steps=1)
    assert turngate("train", config) == 0


def test_show_prints_a_trajectory_turn_by_turn(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = next(iter(Store(trained).read(1, "train")))
    trajectory = group.trajectories[0]
    assert turngate("show", trained, "--trajectory", trajectory.id) == 0
    text = capsys.readouterr().out
    for expected in ("right_key", "opened", "turn 0", "credit"):
        assert expected in text.lower(), expected
    assert "because" not in text  # the run's rule does not say
    assert turngate("show", trained, "--step", "1") == 0
    assert "lock/train" in capsys.readouterr().out


def test_credit_of_a_recorded_step_by_another_rule(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("credit", trained, "--method", "gigpo", "--settings", "{gamma = 0.9}", "--step", "1") == 0
    text = capsys.readouterr().out
    assert "step 1" in text
    assert "lock/train" in text
    assert "opposite sign on" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["credit", "--method", "gigp"], "did you mean 'gigpo' or "),
        (
            ["credit", "--method", "gigpo", "--settings", "{gamma = 2.0}"],
            "gamma: Input should be less than or eq",
        ),
        (["credit", "--method", "turn_gae"], "needs column 'value_N'"),
        (["credit", "--method", "rloo", "--step", "99"], "has no step 99"),
    ],
)
def test_credit_that_cannot_be_computed_is_one_line(
    trained: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert turngate(arguments[0], trained, *arguments[1:]) != 0
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "{config}", "--trian.steps=3"], "did you mean 'train'?"),
        (["train", "{config}", "--credit.type=rlo"], "did you mean 'rloo'"),
        (["train", "{config}", "--env.id=turngate/Lok-v1"], "did you mean 'turngate/Lock-v1'"),
        (["train", "{config}", "--train.filters=['vared']"], "did you mean 'varied' or 'balanced'?"),
        (["train", "{config}", "--eval.splits=['held']"], "did you mean 'heldout'?"),
        (["train", "nowhere.toml"], "no config file 'nowhere.toml'"),
        (["check", "turngate/Sqll-v1"], "did you mean 'turngate/Sql-v1'"),
        (["show", "nowhere"], "not the folder of a run"),
        (["play", "turngate/Lock-v1", "--split", "tarin"], "did you mean 'train'?"),
        (["eval", "{config}/model", "--env", "turngate/Lock-v1"], "cannot be loaded"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(write_config(tmp_path))
    assert turngate(*[argument.replace("{config}", config) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b'{"task": "lock/train/0", "actions": ["press a"]}\n{"task": "lock/train/1", "actions": []}\n',
            ", line 2, field 'actions'",
        ),
        (b'\n{"task": 1}\n', ", line 2, field 'task'"),
        (b'{"task": "lock/train/0", "actions": ["press a"], "hint": 1}\n', ", line 1, field 'hint': must be a text"),
        (b"[1]\n", ", line 1, field 'task'"),
        (b'{"task": "lock/train/0"', ", line 1: is not JSON"),
        (b"9" * 5000 + b"\n", ", line 1: is not readable JSON"),
        (b"[" * 100_000 + b"\n", ", line 1: is not readable JSON"),
        (b"\xff\n", ": is not UTF-8 text (byte 0)"),
        (b"\n", ": has no line with a demonstration"),
        (None, ": cannot be read: No such file or directory"),
    ],
)
def test_a_bad_demonstration_names_file_line_and_field(
    content: bytes | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "people.jsonl"
    if content is not None:
        rows.write_bytes(content)
    config = write_config(tmp_path)
    config.write_text(config.read_text().replace("episodes = 96", f'demonstrations = "{rows}"'))
    assert turngate("train", config) == 2
    assert f"{rows}{problem}" in capsys.readouterr().err


def test_the_oracle_plays_and_check_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("play", "turngate/Sql-v1", "--oracle") == 0
    assert "outcome 1" in capsys.readouterr().out
    assert turngate("check", "turngate/Lock-v1") == 0
    assert turngate("envs") == 0
    out = capsys.readouterr().out
    assert "turngate/Sql-v1" in out
    assert all(domain in out for domain in ("retail", "travel", "helpdesk"))


def test_controls_of_a_given_model_begin_from_that_model(trained: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, steps=1)
    text = re.sub(r"\[model\].*?\[policy\]", "[policy]", config.read_text(), flags=re.DOTALL)
    config.write_text(f'model = "{trained / "model"}"\n{text}')
    assert turngate("train", config) == 0
    run = tmp_path / "runs" / "lock"
    for control in ("shuffled_credit", "random_reward"):
        assert read_evaluations(run / "controls" / control)[:2] == read_evaluations(run)[:2]


def test_eval_prints_an_interval(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--env", "turngate/Lock-v1", "--tasks", 12, "--turn-tokens", 8, "--out", trained.parent / "evaluated")
    assert turngate("eval", trained / "model", *options) == 0
    assert "of 12 solved unaided" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["train", "{run}/../../lock.toml", "--name=again", "--train.steps=1"], 0),
        (["train", "{run}/../../lock.toml", '--eval.splits=["tarin"]'], 2),
        (
            [
                "eval",
                "{run}/model",
                "--env",
                "turngate/Lock-v1",
                "--tasks=2",
                "--turn-tokens=8",
                "--out={run}/../twice",
            ],
            0,
        ),
        (["eval", "{run}/nowhere", "--env", "turngate/Lock-v1"], 2),
        (["play", "turngate/Lock-v1", "--oracle"], 0),
        (["play", "turngate/Lock-v1", "--split", "tarin"], 2),
        (["check", "turngate/Lock-v1"], 0),
    ],
)
def test_every_command_closes_its_environments(
    arguments: list[str], code: int, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, closed = [], []
    begin, end = LockEnv.__init__, LockEnv.close

    def counted_begin(env: LockEnv, *more: Any, **settings: Any) -> None:
        opened.append(id(env))
        begin(env, *more, **settings)

    def counted_end(env: LockEnv) -> None:
        closed.append(id(env))
        end(env)

    monkeypatch.setattr(LockEnv, "__init__", counted_begin)
    monkeypatch.setattr(LockEnv, "close", counted_end)
    assert turngate(*[argument.replace("{run}", str(trained)) for argument in arguments]) == code
    assert opened
    assert set(opened) == set(closed)
