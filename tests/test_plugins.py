"""A package of somebody else, installed from a wheel, brings every kind of part; nothing of it is imported by hand."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.helpers.forked_commands import Forks
from tests.helpers.sessions import to_its_end
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import read_evaluations

WHEELS = Path(__file__).parent / "wheels"
RUBRIC = """
[[rewards]]
type = "from_evidence"
name = "played"
evidence = "played"
kind = "outcome"
levels = [0, 1]

[[rewards]]
type = "acme_loudness"
weight = 0.1

[[gates]]
type = "acme_curfew"
on = "loudness"
turn = 1
"""
CONFIG: dict[str, Any] = {
    "name": "bells",
    "folder": "runs",
    "env": {
        "id": "acme/Bells-v0",
        "tasks": {"type": "acme_melodies", "n": 24},
        "rubric": "rubric.toml",
        "isolation": "process",
    },
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 18, "epochs": 2, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 128, "concurrency": 2},
    "examine": [{"type": "acme_listener", "word": "i"}],
    "method": "acme_flat_out",
    "loss": {"objective": {"type": "acme_plain", "scale": 2.0}},
    "sink": [{"type": "acme_diary", "greeting": "Hello"}],
    "train": {"steps": 2, "tasks_per_step": 3, "group_size": 4, "filters": [{"type": "acme_encores", "most": 2}]},
    "eval": {"tasks": 2},
}
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def turngate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """The command line as it is where two packages are installed: a good one and one that cannot be imported."""
    root = tmp_path_factory.mktemp("plugins")
    shutil.copytree(WHEELS, root / "sources")  # built outside of the repository, so that nothing is left in it
    sources = [str(root / "sources" / name) for name in ("acme", "acme_broken")]
    pip = [sys.executable, "-m", "pip", "--quiet"]
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(root / "wheels"), *sources]
    subprocess.run([*pip, *wheel], check=True, cwd=root)
    built = sorted(map(str, (root / "wheels").glob("*.whl")))
    assert len(built) == 2
    site, work = root / "site", root / "work"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), *built], check=True, cwd=root)
    work.mkdir()
    (work / "rubric.toml").write_text(RUBRIC)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, "ACME_NOTES": str(work / "notes.txt"), "COLUMNS": "200"}

    with closing(Forks(tmp_path_factory.mktemp("printed"), variables)) as forks:

        def run(*arguments: object, code: int = 0) -> Any:
            command = forks.start(*arguments, cwd=work, env=variables, start_new_session=True)
            done = to_its_end(command, timeout_s=240.0)
            assert done.returncode == code, done.stdout + done.stderr
            return done

        run.work = work  # type: ignore[attr-defined]
        yield run


@pytest.fixture(scope="module")
def trained(turngate: Command) -> Path:
    """A run whose config names a part of the package wherever it can."""
    work: Path = turngate.work  # type: ignore[attr-defined]
    (work / "bells.toml").write_text(tomli_w.dumps(CONFIG))
    turngate("train", "bells.toml")
    return work / "runs" / "bells"


pytestmark = pytest.mark.component


def test_the_environment_and_its_task_source_are_played(trained: Path) -> None:
    played = [one for group in Store(trained).read(None, "train") for one in group.trajectories]
    assert len(played) == 2 * 3 * 4
    assert {one.task.env_id for one in played} == {"acme/Bells-v0"}
    assert {one.task.split for one in played} == {"train"}
    assert {int(one.task.id.removeprefix("bells/")) for one in played} <= {i for i in range(24) if i % 4 != 3}


def test_what_the_examiner_found_is_recorded_and_paid_for_and_gated(trained: Path) -> None:
    """Reward and gate lie in a TOML file that the config names; the reward reads the examiner's facts."""
    n_loud = 0
    for group in Store(trained).read(None, "train"):
        for one, score in zip(group.trajectories, group.scores, strict=True):
            loud = {fact.turn: fact.value for fact in one.evidence if fact.name == "loud"}
            assert loud == {at: "i" in turn.action.text for at, turn in enumerate(one.turns)}
            lines = [event for event in score.ledger if event.name == "loudness"]
            assert [(line.turn, line.value, line.weight) for line in lines] == [
                (turn, float(value), 0.1) for turn, value in loud.items()
            ]
            assert [(line.factor, line.gate) for line in lines] == [(1.0, ""), (0.0, "curfew(1)")][: len(lines)]
            n_loud += sum(map(bool, loud.values()))
    assert n_loud


def test_filter_credit_rule_and_objective_act_in_training(trained: Path) -> None:
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [row["drop/not_acme_encores_trajectories"] for row in rows] == [6.0, 6.0]  # 2 of 4 in each of 3 groups
    notes = (trained.parent.parent / "notes.txt").read_text().split()
    assert len(notes) >= 2
    assert set(notes) == {"0.125"}  # the objective was given what the credit rule gives


def test_the_sink_is_given_every_step(trained: Path) -> None:
    assert (trained / "diary.txt").read_text() == "Hello, step 1\nHello, step 2\n"


def test_the_run_says_what_it_is_made_of_by_the_same_names(trained: Path, turngate: Command) -> None:
    config = tomllib.loads((trained / "config.toml").read_text())
    assert config["credit"] == {"type": "acme_flat", "level": 0.125}
    assert config["loss"]["objective"] == {"type": "acme_plain", "scale": 2.0}
    assert config["train"]["filters"] == [{"type": "acme_encores", "most": 2}]
    assert config["sink"] == [{"type": "acme_diary", "greeting": "Hello"}]
    assert config["env"][0]["tasks"] == {"type": "acme_melodies", "n": 24}
    assert config["env"][0]["rubric"]["rewards"][1]["type"] == "acme_loudness"
    assert config["env"][0]["rubric"]["gates"] == [{"type": "acme_curfew", "on": "loudness", "turn": 1}]
    assert config["examine"][0]["type"] == "acme_listener"
    assert "nothing left to do" in turngate("train", "bells.toml").stdout  # read back, it is the same run


def test_other_commands_know_the_run_and_its_parts(trained: Path, turngate: Command) -> None:
    assert "Ring what the weather asks for." in turngate("envs").stdout
    (trained / "report/summary.md").unlink()
    assert "heldout" in turngate("report", trained).stdout
    assert (trained / "report/summary.md").read_text().startswith("# bells")
    one = next(iter(Store(trained).read(1, "train"))).trajectories[0].id
    assert one in turngate("show", trained, "--step", 1).stdout
    shown = turngate("show", trained, "--trajectory", one).stdout
    assert "loudness" in shown
    assert "curfew(1)" in shown
    assert "acme_flat" in turngate("credit", trained, "--method", "acme_flat", "--settings", "{level = 0.5}").stdout


def test_recorded_episodes_are_scored_by_a_rubric_of_the_package(trained: Path, turngate: Command) -> None:
    assert "played" in turngate("rescore", trained, "--rubric", "acme_bells").stdout
    rescored = trained / "rescored" / "acme_bells"
    names = {e.name for group in Store(rescored).read(None, "train") for score in group.scores for e in score.ledger}
    assert names == {"played"}
    assert "did you mean 'acme_bells'" in turngate("rescore", trained, "--rubric", "acme_bell", code=2).stderr


def test_explain_lists_what_other_packages_bring(turngate: Command) -> None:
    names = {
        "examine": "acme_listener",
        "train.filters": "acme_encores",
        "loss.objective": "acme_plain",
        "sink": "acme_diary",
        "env.tasks": "acme_melodies",
        "env.rubric.rewards": "acme_loudness",
        "env.rubric.gates": "acme_curfew",
    }
    said = {key: turngate("explain", key).stdout for key in ("credit", "credit.acme_flat", *names)}
    lines = said["credit"].splitlines()
    (own,) = [line for line in lines if line.split()[:1] == ["acme_flat"]]
    assert own.endswith("The same for every turn. (from acme)")
    assert "level = 1.0" in said["credit.acme_flat"]
    for key, name in names.items():
        assert f"  {name} " in said[key], key


def test_methods_lists_and_shows_what_other_packages_bring(trained: Path, turngate: Command) -> None:
    """The run named it: its credit rule and level are the method's."""
    assert "  acme_flat_out " in turngate("methods").stdout
    assert "Ringing all bells alike (2026)" in turngate("methods", "acme_flat_out").stdout
    config = tomllib.loads((trained / "config.toml").read_text())
    assert config["method"] == [{"name": "acme_flat_out", "instead": []}]
    assert (config["credit"]["type"], config["credit"]["level"]) == ("acme_flat", 0.125)


def test_an_environment_that_ends_its_process_costs_that_episode_in_a_run_of_two(turngate: Command) -> None:
    """The package's environment calls ``os._exit`` in one of its three tasks; results of the two are told apart."""
    two = [
        {"id": "turngate/Lock-v1", "name": "locks"},
        {
            "id": "acme/Bells-v0",
            "name": "bells",
            "isolation": "process",
            "tasks": {"type": "acme_melodies", "n": 4},
            "kwargs": {"dies_in": "bells/1"},
        },
    ]
    plain = {key: CONFIG[key] for key in ("folder", "model", "policy", "eval")}
    train = {"steps": 3, "tasks_per_step": 2, "group_size": 3, "filters": []}
    config = {**plain, "name": "two", "env": two, "warm_start": {"episodes": 6}, "train": train, "credit": "rloo"}
    work: Path = turngate.work  # type: ignore[attr-defined]
    (work / "two.toml").write_text(tomli_w.dumps(config))
    assert "1 of 6 demonstrations broke and are left out" in turngate("train", "two.toml").stdout
    run = work / "runs" / "two"
    broken = set()
    for step, line in enumerate((run / "metrics.jsonl").read_text().splitlines(), start=1):
        row = json.loads(line)
        groups = {group.task.env_id: group for group in Store(run).read(step, "train")}
        assert set(groups) == {"locks", "bells"}
        dies = groups["bells"].task.id == "bells:bells/1"
        for one in groups["bells"].trajectories:
            assert one.ending == ("agent_fault" if dies else "max_turns" if len(one.turns) < 2 else one.ending)
            assert any(fact.name == "agent_fault" and "exit code 7" in fact.value for fact in one.evidence) is dies
        assert row["env/locks/unusable_share"] == row["env/bells/unusable_share"] == 0
        assert row["env/bells/success"] == 0 or not dies  # whatever broke it, it may have been the agent
        assert row["drop/unusable_trajectories"] == 0
        broken |= {step} if dies else set()
    assert len(broken) == 1  # three tasks in three steps
    found = [(phase, one.split, one.unusable) for phase, one in read_evaluations(run)]
    splits = ["locks:heldout"] * 2 + ["bells:heldout"] * 2
    assert found == [(phase, split, 0) for phase in ("before", "after") for split in splits]
    summary = (run / "report" / "summary.md").read_text()
    assert "locks:heldout" in summary
    assert "bells:heldout" in summary


def test_a_package_that_cannot_be_imported_is_named_and_spares_the_rest(trained: Path, turngate: Command) -> None:
    """The run above took place beside it; whoever asks for what it brings is told why that is not to be had."""
    problem = "cannot be loaded: RuntimeError: no licence found"
    assert f"(entry point 'broken_rule' (acme_broken:rule) {problem})" in turngate("explain", "credit").stdout
    bells = trained.parent.parent / "bells.toml"
    (bells.parent / "plain.toml").write_text(bells.read_text().replace('method = "acme_flat_out"', ""))
    asked = turngate("train", "plain.toml", "--name=other", "--credit=broken_rule", code=2).stderr
    assert f"error: credit: entry point 'broken_rule' (acme_broken:rule) {problem}" in asked
    asked = turngate("rescore", trained, "--rubric", "broken_rubric", code=2).stderr
    assert f"error: entry point 'broken_rubric' (acme_broken:RUBRIC) {problem}" in asked
    asked = turngate("train", "bells.toml", "--name=other", "--env.id=acme/Bell-v0", code=2).stderr
    assert "env.id: unknown environment 'acme/Bell-v0'; did you mean 'acme/Bells-v0'" in asked
    assert "plugin 'broken_env' failed to load: RuntimeError: no licence found" in asked
    (trained.parent.parent / "rubric2.toml").write_text(RUBRIC.replace("acme_loudness", "broken_reward"))
    asked = turngate("train", "bells.toml", "--name=other", "--env.rubric=rubric2.toml", code=2).stderr
    assert f"rubric2.toml: rewards[1]: entry point 'broken_reward' (acme_broken:Reward) {problem}" in asked
    assert not (trained.parent / "other").exists()
