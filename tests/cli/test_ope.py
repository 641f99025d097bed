"""``turngate ope``: a trained policy, judged by what was played before it was trained, against what it then did."""

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import turngate_at
from tests.helpers.tiny_run import tiny_model
from turngate.report.intervals import by_question, rate_by_question
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluations_file import read_evaluations

CONFIG = (
    """
name = "NAME"
folder = "runs"

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model(episodes=96, epochs=6)
    + """
[learner]
lr = 3e-3

[train]
steps = 3
tasks_per_step = 8
group_size = 8
checkpoint_every = 1

[eval]
tasks = 60
samples = 4
"""
)
BEFORE, AFTER = "before-heldout-sampled", "after-heldout-sampled"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run was trained."""
    folder = tmp_path_factory.mktemp("ope")
    (folder / "lock.toml").write_text(CONFIG.replace("NAME", "lock"))
    assert turngate_at(folder, "train", "lock.toml") == 0
    return folder


def estimates(folder: Path, *arguments: object) -> dict:
    assert turngate_at(folder, "ope", *arguments, "--json", "found.json") == 0
    found: dict = json.loads((folder / "found.json").read_text())
    return found


def by_name(found: dict, measure: str = "success") -> dict:
    return {one["name"]: one for one in found["estimates"][measure]}


def played(folder: Path, phase: str):
    (rate,) = (
        rate_by_question(by_question(one.question_B, one.success_B))
        for name, one in read_evaluations(folder / "runs" / "lock")
        if name == phase and one.temperature
    )
    return rate


def test_the_estimates_hold_what_the_policy_then_played(here: Path):
    """The same tasks, played again by the trained policy: its rate is in the interval of every estimate there is."""
    found = estimates(here, "runs/lock", "--policy", "runs/lock", "--phase", BEFORE)
    assert found["overlap"]["episodes"] == 240
    assert found["policy"] == "runs/lock (its trained model)"
    truth = played(here, "after").value
    told = by_name(found)
    assert len(told) == 7
    for one in told.values():
        low, high = one["bootstrap"]
        assert low <= truth <= high, one


def test_the_policy_that_played_is_told_its_own_rate(here: Path):
    """Also by its model alone, and by training episodes of all steps, each with the policy of its time."""
    for model in ("runs/lock", "runs/lock/model", "runs/lock/checkpoints/step=000003"):
        found = estimates(here, "runs/lock/trajectories", "--policy", model, "--phase", AFTER)
        assert found["overlap"]["effective_size"] == pytest.approx(240, abs=0.1)
        assert by_name(found)["weighted"]["value"] == pytest.approx(played(here, "after").value, abs=1e-3)
    earned = [s.total for group in Store(here / "runs/lock").read(phase=AFTER) for s in group.scores]
    assert by_name(found, "paid")["per decision"]["value"] == pytest.approx(sum(earned) / 240, abs=1e-3)
    assert estimates(here, "runs/lock", "--policy", "runs/lock/checkpoints/step=000002")["overlap"]["episodes"] == 192


def test_it_says_how_much_the_episodes_tell(here: Path, capsys: pytest.CaptureFixture[str]):
    assert turngate_at(here, "ope", "runs/lock", "--policy", "runs/lock", "--phase", BEFORE) == 0
    told = capsys.readouterr().out
    for part in ("effective episodes", "largest weight", "mean weight", "coverage", "95 % bootstrap", "95 % normal"):
        assert part in told


def test_a_policy_too_far_away_is_refused_with_the_reason(here: Path, capsys: pytest.CaptureFixture[str]):
    """At temperature 8 the policy writes anything, and hardly any recorded episode is like what it would do."""
    named = ("runs/lock", "--policy", "runs/lock", "--phase", BEFORE, "--temperature", 8)
    assert turngate_at(here, "ope", *named) == 1
    told = capsys.readouterr().out
    assert "no ordinary, weighted, per decision" in told
    assert "weighted doubly robust" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--phase", "before-heldout-greedy"), "was played at temperature 0"),
        (("--phase", "after-test-sampled"), "has no episodes of phase 'after-test-sampled'; recorded: after-heldout-"),
        (("--temperature", "0"), "temperature 0 is one action per turn"),
        (("--leave-out", "unlucky"), "--leave-out unlucky is not one of guided, branched"),
    ],
)
def test_mistakes_are_told_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
):
    assert turngate_at(here, "ope", "runs/lock", "--policy", "runs/lock", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_policy_of_another_kind_of_distribution_is_refused(here: Path, capsys: pytest.CaptureFixture[str]):
    """The run's own settings say that its policy is cut to 5 tokens; the episodes were sampled from all."""
    other = here / "runs" / "cut"
    other.mkdir(exist_ok=True)
    (other / "model").mkdir(exist_ok=True)
    text = RunFolder(here / "runs" / "lock").config.read_text()
    assert "top_k = 0" in text
    (other / "config.toml").write_text(text.replace("top_k = 0", "top_k = 5", 1))
    assert turngate_at(here, "ope", "runs/lock", "--policy", "runs/cut") == 2
    assert "the two distributions are of different kinds" in capsys.readouterr().err


def test_a_cut_distribution_is_measured_as_it_was_sampled(here: Path, capsys: pytest.CaptureFixture[str]):
    """Both are cut and at one temperature; measured whole, the policy would seem to differ from itself."""
    cut = CONFIG.replace("NAME", "top").replace(
        "concurrency = 8", "concurrency = 8\ntop_k = 20\ntop_p = 0.9\ntemperature = 1.5"
    )
    cut = cut.replace("steps = 3", "steps = 1").replace("tasks = 60", "tasks = 12")
    (here / "top.toml").write_text(cut)
    assert turngate_at(here, "train", "top.toml") == 0
    found = estimates(here, "runs/top", "--policy", "runs/top", "--phase", AFTER)
    assert (
        "top_p 0.9 and top_k 20: what the policy would do beyond that cut was never recorded" in capsys.readouterr().out
    )
    assert found["behaviour_sampling"] == found["policy_sampling"] == {"temperature": 1.5, "top_p": 0.9, "top_k": 20}
    assert found["overlap"]["mean_weight"] == pytest.approx(1, abs=1e-3)
    assert found["overlap"]["effective_size"] == pytest.approx(48, abs=0.01)


def test_a_run_that_is_not_finished_names_its_checkpoints(here: Path, capsys: pytest.CaptureFixture[str]):
    other = here / "runs" / "begun"
    (other / "checkpoints" / "step=000002").mkdir(parents=True)
    (other / "config.toml").write_text(RunFolder(here / "runs" / "lock").config.read_text())
    assert turngate_at(here, "ope", "runs/lock", "--policy", "runs/begun") == 1
    assert "name one of its checkpoints, RUN/checkpoints/step=000012 (steps: 2)" in capsys.readouterr().err


def test_a_store_without_a_config_is_refused(here: Path, capsys: pytest.CaptureFixture[str]):
    Store(here / "alone").write(1, list(Store(here / "runs/lock").read(1)))
    assert turngate_at(here, "ope", "alone", "--policy", "runs/lock") == 2
    assert "not known from which distribution" in capsys.readouterr().err
