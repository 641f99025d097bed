"""A tournament that the policy in training judges itself: in a run that is killed, goes on, and is scored again.

1. A run killed by SIGKILL in the middle of a step, when some verdicts of the step are on disk, asks for none of them
   again and ends as one that was not killed: metrics, verdicts, episodes, scores and weights, bit for bit.
2. Its rubric reads nothing but the tournament, and gives the recorded episodes exactly the recorded scores.
"""

import os
import signal
import sqlite3
import time
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forked, Forks
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import tiny_model
from turngate.rescoring import rescore, rescore_run
from turngate.rewards import Rubric
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

CONFIG = (
    """
name = "tournament"
folder = "{folder}"

[env]
id = "turngate/Lock-v1"
[env.rubric]
rewards = [{{type = "from_evidence", name = "standing", evidence = "standing", kind = "outcome"}}]
"""
    + tiny_model()
    + """
[learner]
lr = 1e-3

[[examine]]
type = "tournament"
[examine.judge]
type = "tests.run.own_judge:Articulate"
context = 8192
max_tokens = 4
attempts = 1

[credit]
type = "rloo"

[train]
steps = 3
tasks_per_step = 2
group_size = 4

[eval]
tasks = 2
"""
)
ROUND = 14  # calls of a first round: three matches in both orders, and four canaries in both
STOPS = 2 * ROUND + 1  # the first call of a second round: one tournament at least has its first round on disk


def written(folder: Path) -> Path:
    """The config."""
    config = folder / "tournament.toml"
    config.write_text(CONFIG.format(folder=folder))
    return config


def start(forked: Forks, config: Path, log: str, *, stops: str) -> Forked:
    """``turngate train`` in a process of its own, which finds the judge as it finds any installed module."""
    own = {"OWN_JUDGE_LOG": str(config.with_name(log)), "OWN_JUDGE_STOPS": stops}
    return forked.start("train", config, cwd=config.parent, env={**os.environ, **own})


def finish(config: Path, log: str) -> None:
    """``turngate train`` to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWN_JUDGE_LOG", str(config.with_name(log)))
        assert turngate("train", config) == 0


def verdicts(run: RunFolder) -> dict[str, tuple[str, str]]:
    """Key to version of the weights and answer."""
    with closing(sqlite3.connect(run.verdicts)) as connection:
        return {
            key: (version, answer)
            for key, version, answer in connection.execute("SELECT key, version, answer FROM verdicts")
        }


def asked(folder: Path, log: str) -> list[str]:
    """The keys of all calls that are no canaries, in order."""
    keys = [line.split(" ", 1)[1] for line in (folder / log).read_text().splitlines()]
    return [key for key in keys if not key.startswith("canary")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(written(folder), "asked")
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory, forked) -> tuple[Path, dict[str, tuple[str, str]]]:
    """A run that was killed in its second step and then finished, and the verdicts that were on disk in between."""
    folder = tmp_path_factory.mktemp("killed")
    config = written(folder)
    process = start(forked, config, "first", stops=f"1:{STOPS}")
    try:
        end = time.monotonic() + 600
        while not (folder / "first.stopped").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    run = RunFolder(folder / "tournament")
    assert [row["step"] for row in read_metrics(run.metrics)] == [1]
    before = verdicts(run)
    finish(config, "second")
    return folder, before


def run_of(folder: Path) -> RunFolder:
    return RunFolder(folder / "tournament")


def comparable(row: dict[str, float]) -> dict[str, float]:
    """Metrics without clocks, and without what was asked, which is less after a kill."""
    return {key: value for key, value in row.items() if not key.startswith((*MEASURED, "examine/standing/judge_"))}


def of_second_step(found: dict[str, tuple[str, str]]) -> set[str]:
    """The verdicts under the weights of the first update."""
    return {key for key, (version, _) in found.items() if version == "1"}


@pytest.mark.timeout(600)
def test_every_tournament_is_decided_and_trains(whole):
    rows = read_metrics(run_of(whole).metrics)
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["examine/standing/missing_share"] == row["train/unusable_share"] == 0
        assert row["learner/grad_norm"] > 0
    for group in Store(run_of(whole).path).read(None, "train"):
        assert sum(score.outcome for score in group.scores) == pytest.approx(2)  # 0 to 1 in thirds; equal ones share
    assert {version for version, _ in verdicts(run_of(whole)).values()} == {"0", "1", "2"}


@pytest.mark.timeout(600)
def test_a_killed_run_asks_nothing_again(whole, killed):
    folder, before = killed
    done = of_second_step(before)
    assert 0 < len(done) < len(of_second_step(verdicts(run_of(whole))))
    assert done <= set(asked(folder, "first"))
    again = asked(folder, "second")
    assert set(again).isdisjoint(before)
    assert sorted([*before, *again]) == sorted(asked(whole, "asked"))
    counts = [read_metrics(run_of(one).metrics)[1]["examine/standing/judge_cached"] for one in (whole, folder)]
    assert counts[1] - counts[0] == len(done)


@pytest.mark.timeout(600)
def test_a_killed_run_ends_like_one_that_was_not(whole, killed):
    first, second = run_of(whole), run_of(killed[0])
    assert verdicts(first) == verdicts(second)
    assert [comparable(row) for row in read_metrics(first.metrics)] == [
        comparable(row) for row in read_metrics(second.metrics)
    ]
    for one, other in zip(Store(first.path).read(None, "train"), Store(second.path).read(None, "train"), strict=True):
        assert one.trajectories == other.trajectories
        assert list(map(exact, one.scores)) == list(map(exact, other.scores))
    weights = [(run.model / "model.safetensors").read_bytes() for run in (first, second)]
    assert weights[0] == weights[1]


def exact(score):
    """Everything in a score, floats by their bits."""
    return score.ledger, score.reward_T.tobytes(), score.outcome, score.usable, score.problem


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phase", ["train", "before-heldout-sampled", "after-heldout-greedy"])
def test_scoring_again_gives_exactly_the_recorded_scores(killed, phase):
    """With the rubric alone: the judge's module is not even found here."""
    run = run_of(killed[0])
    (env,) = tomllib.loads(run.config.read_text())["env"]
    rubric = Rubric.model_validate(env["rubric"])
    assert set(rubric.readers) == {"standing"}
    pairs = list(rescore(Store(run.path), rubric, phase=phase))
    assert len(pairs) == (6 if phase == "train" else 2)
    for pair in pairs:
        assert [exact(score) for score in pair.new.scores] == [exact(score) for score in pair.old.scores]
    comparison = rescore_run(run.path, rubric, name=f"again-{phase}", phase=phase)
    assert (comparison.n_moved, comparison.n_regained, dict(comparison.lost)) == (0, 0, {})
