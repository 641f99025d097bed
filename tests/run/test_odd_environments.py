"""Environments that hand over what cannot be kept, or break: what a run of them tells, and what it leaves.

1. Each oddity costs one episode or is converted; the run ends, its episodes are stored, shown and scored again.
2. A run in which many episodes broke raises alarms, and says so at its end.
3. A demonstration that breaks costs that demonstration; one line where all do.
4. An environment that cannot be closed, or hangs, costs neither the end of a run nor a thread each time.
"""

import os
import re
from pathlib import Path

import pytest

from tests.helpers import odd_envs
from tests.helpers.command_line import turngate
from tests.helpers.sessions import to_its_end
from turngate.rescoring import rescore_run
from turngate.rubrics import find_rubric
from turngate.store import Store
from turngate.store.metrics import read_metrics
from turngate.trainer.checks.alarm_log import read_alarms
from turngate.types import FAULT, Ending

ROOT = Path(__file__).parents[2]
CONFIG = """
name = "odd"
folder = "{folder}"
seed = 1

[env]
id = "tests.run.odd_locks:test/{kind}-v0"
{env}

[model]
layers = 1
width = 32
heads = 2
vocabulary = 300

[warm_start]
episodes = {demonstrations}
epochs = 1
lr = 5e-3

[policy]
turn_tokens = 8
context = 256
concurrency = {concurrency}

[train]
steps = {steps}
tasks_per_step = {tasks}
group_size = 2

[eval]
tasks = 2
"""


def written(folder, kind, *, env="", demonstrations=8, concurrency=4, steps=1, tasks=4):
    path = folder / "odd.toml"
    path.write_text(
        CONFIG.format(
            folder=folder / "runs",
            kind=kind,
            env=env,
            demonstrations=demonstrations,
            concurrency=concurrency,
            steps=steps,
            tasks=tasks,
        )
    )
    return path


def train_in_own_session(forked, config):
    """What the command printed; it left no process behind."""
    process = forked.start("train", config, cwd=ROOT, env=os.environ, start_new_session=True)
    return to_its_end(process, timeout_s=240.0)


def said(capsys):
    found = capsys.readouterr()
    assert "Traceback" not in found.out + found.err
    return " ".join(found.out.split()), " ".join(found.err.split())


def trajectories(run, step=1, phase="train"):
    return [t for group in Store(run).read(step, phase) for t in group.trajectories]


# --- 1. what cannot be kept -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    config = written(folder, "OddLock", demonstrations=22, tasks=11)
    assert turngate("train", config) == 0
    return folder / "runs" / "odd"


def test_each_oddity_costs_one_episode_or_is_converted(odd):
    ended = {odd_envs.way_of(t.task.id): t for t in trajectories(odd)}
    assert set(ended) == set(odd_envs.WAYS)
    endings = {way: t.ending.value for way, t in ended.items()}
    assert endings == {
        "sound": "finished",
        "numpy": "finished",
        "surrogate": "finished",
        "long": "token_budget",
        "fault": "agent_fault",
    } | dict.fromkeys(("number", "set", "none", "name", "raise", "exit"), "env_error")
    where = "OddLock broke in turn 1: "
    assert ended["number"].error == f"{where}the text of an observation is 17 (int); it must be text"
    assert ended["set"].error.startswith(f"{where}evidence 'raw' holds {{1, 2}} (set); it must be a value that")
    assert ended["none"].error == f"{where}act() returned None; it must return an Outcome"
    assert ended["name"].error == f"{where}the name of a fact is 7 (int); it must be text, and not empty"
    assert ended["raise"].error == "the lock is jammed ?"
    assert "SystemExit: 3" in ended["exit"].error
    speed = next(fact.value for fact in ended["numpy"].evidence if fact.name == "speed")
    assert speed == {"mean": 0.5, "all": [0, 1], "ok": True}
    assert ended["surrogate"].turns[2].observation.text.endswith(" ?")
    (fault,) = [fact for fact in ended["fault"].evidence if fact.name == FAULT]
    assert (fault.value, fault.turn) == ("it bent the key ?", 1)


def test_shares_are_metrics_alarms_and_the_end_of_the_report(odd, capsys):
    (row,) = read_metrics(odd / "metrics.jsonl")
    assert row["train/unusable_share"] == pytest.approx(6 / 11)
    assert row["train/agent_fault_share"] == pytest.approx(1 / 11)
    assert row["train/success_of_all"] == pytest.approx(row["train/success"] * 5 / 11)
    names = {raised.alarm.name: raised.alarm.sentence for raised in read_alarms(odd)}
    assert names["unusable_share"].startswith("12 of 22 episodes are unusable (limit 20%): the environment")
    assert turngate("report", odd) == 0
    out, _ = said(capsys)
    line = (
        "only 45% of the training episodes were usable (below 90%; worst in step 1, with 55% unusable): rates and "
        "rewards leave the unusable ones out; 'turngate show' says why they broke"
    )
    assert line in out
    assert "12 of 22" in out  # of the table of alarms
    assert line in (odd / "report" / "summary.md").read_text()


def test_an_episode_that_the_agent_broke_is_shown_with_its_reason_and_scored_again_alike(odd, capsys):
    fault = next(t for t in trajectories(odd) if t.ending is Ending.AGENT_FAULT)
    assert turngate("show", odd, "--trajectory", fault.id) == 0
    out, _ = said(capsys)
    assert 'agent_fault = "it bent the key ?"' in out
    assert "ending agent_fault" in out
    comparison = rescore_run(odd, find_rubric("lock"), name="again")
    assert (comparison.n_moved, comparison.lost.total(), comparison.n_trajectories) == (0, 0, 22)
    again = Store(odd / "rescored" / "again")
    before = [score for group in Store(odd).read(1, "train") for score in group.scores]
    after = [score for group in again.read(1, "train") for score in group.scores]
    assert [s.ledger for s in after] == [s.ledger for s in before]
    assert [s.reward_T.tobytes() for s in after] == [s.reward_T.tobytes() for s in before]


def test_eval_prints_both_rates(odd, capsys):
    short = ["--tasks", 11, "--turn-tokens", 8]
    assert turngate("eval", odd / "model", "--env", "tests.run.odd_locks:test/OddLock-v0", *short) == 0
    out, _ = said(capsys)
    found = re.search(
        r"(\d) of 5 solved unaided = \S+ \(95 % interval .*\); .* 6 unusable, (.*) if they count as failures", out
    )
    assert found is not None, out
    assert found[2] == f"{int(found[1]) / 11:.1%}"


# --- 3. demonstrations ------------------------------------------------------------------------------------------------


def test_a_demonstration_that_breaks_costs_that_demonstration(tmp_path, capsys):
    assert turngate("train", written(tmp_path, "OddOracle")) == 0
    out, _ = said(capsys)
    lines = [part for part in out.split("warm start")[:1] if part]
    assert (
        "4 of 8 demonstrations broke and are left out; the first: task 0 of 'test/OddOracle-v0' train: KeyError"
        in (lines[0])
    )
    assert (tmp_path / "runs" / "odd" / "model" / "config.json").exists()


@pytest.mark.parametrize(
    ("kind", "env", "line"),
    [
        (
            "NoOracle",
            "",
            "RunError: none of 8 demonstrations can be used: task 0 of 'test/NoOracle-v0' train: SystemExit",
        ),
        (
            "OddLock",
            "kwargs = {ways = ['exit']}",
            "RunError: none of 8 demonstrations can be used: task 'lock/train/0': OddLock broke in turn 1: SystemExit",
        ),
        (
            "OddLock",
            "kwargs = {ways = ['long']}",
            "RunError: none of 8 demonstrations can be used: 8 of them had no room left in policy.context 256: after ",
        ),
    ],
)
def test_where_all_demonstrations_break_the_run_ends_with_one_line(tmp_path, capsys, kind, env, line):
    assert turngate("train", written(tmp_path, kind, env=env)) == 1
    _, errors = said(capsys)
    assert errors.startswith(line), errors


# --- 4. environments that cannot be closed, or hang -------------------------------------------------------------------


@pytest.mark.parametrize(("isolation", "how"), [("thread", "exit"), ("process", "raise")])
def test_an_environment_that_cannot_be_closed_costs_no_run(tmp_path, forked, isolation, how):
    env = f"kwargs = {{how = '{how}'}}\nisolation = '{isolation}'"
    done = train_in_own_session(
        forked, written(tmp_path, "BadClose", env=env, demonstrations=4, concurrency=2, tasks=1)
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "odd" / "report" / "summary.md").exists()
    raised = {"raise": "OSError: the lock cannot be put away", "exit": "SystemExit: 5"}[how]
    assert "Traceback" not in done.stderr
    left = f"could not be closed; processes or files of it may be left behind: {raised}"
    assert f"'test/BadClose-v0' {left}" in done.stderr
    assert f"an environment {left}" in done.stderr


def test_a_run_whose_environments_hang_stops_with_a_line_and_leaves_nothing(tmp_path, forked):
    """Every lock of training hangs for ever: each costs one episode, until too many threads are lost."""
    config = written(tmp_path, "Hangs", env="kwargs = {first = 8}", concurrency=4, tasks=8)
    done = train_in_own_session(forked, config)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert (
        "RunError: 4 threads hang in environments that passed their deadline, and a thread cannot be ended; "
        'set env.isolation = "process", so that an environment that hangs is killed'
    ) in " ".join(done.stderr.split())


def test_in_processes_what_hangs_or_dies_costs_its_episode_which_is_a_failure(tmp_path, capsys):
    config = written(tmp_path, "Dies", env="isolation = 'process'", concurrency=2, tasks=3)
    assert turngate("train", config) == 0
    run = tmp_path / "runs" / "odd"
    faults = {number_of(t) % 3: fault_of(t) for t in trajectories(run) if t.ending is Ending.AGENT_FAULT}
    assert set(faults) == {0, 1}
    assert faults[0] == "the environment's process ended with exit code 9 during 'step'"
    assert faults[1].startswith("'step' of the environment took longer than")
    (row,) = read_metrics(run / "metrics.jsonl")
    assert (row["train/agent_fault_share"], row["train/unusable_share"]) == (pytest.approx(2 / 3), 0)
    said(capsys)
    fault = next(t for t in trajectories(run) if fault_of(t) == faults[0])
    assert turngate("show", run, "--trajectory", fault.id) == 0
    assert faults[0] in said(capsys)[0]
    comparison = rescore_run(run, find_rubric("lock"), name="again")
    assert (comparison.n_moved, comparison.lost.total(), comparison.n_trajectories) == (0, 0, 6)


def number_of(trajectory):
    return int(trajectory.task.id.rpartition("/")[2])


def fault_of(trajectory):
    return next((fact.value for fact in trajectory.evidence if fact.name == FAULT), None)
