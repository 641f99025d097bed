"""A judge that does not answer for one sibling, the whole way: train, store, metrics, credit, show."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate_at
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.batch.table import tabulate
from turngate.trainer.filters.parts import keep

PARTS = '''
from turngate import Reward

class Whole(Reward):
    """1 for everybody; no verdict on the first sibling, as when a judge does not answer."""
    @property
    def reads(self): return ("right_key",)
    def verdicts(self, facts):
        return [] if "#0@" in facts.trajectory else [(None, 1.0)]

class Turns(Reward):
    """1 for every turn; no verdict on the first turn of the second sibling."""
    per_turn: bool = True
    @property
    def reads(self): return ("right_key",)
    def verdicts(self, facts):
        silent = "#1@" in facts.trajectory
        return [(turn, None if silent and turn == 0 else 1.0) for turn, _ in facts.verdicts("right_key")]
'''
RUBRIC = """
[env.rubric]
rewards = [
    {type = "from_evidence", name = "opened", evidence = "opened", kind = "outcome", levels = [0, 1]},
    {type = "quiet_judges:Whole", name = "whole", weight = 0.4},
    {type = "quiet_judges:Turns", name = "turns", weight = 0.2},
]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quiet")
    (folder / "quiet_judges.py").write_text(PARTS)
    config = write_config(folder, steps=1, after=RUBRIC)
    text = config.read_text().replace("[train]\n", "[train]\nfilters = []\n")
    config.write_text(text)
    assert turngate_at(folder, "train", config.name) == 0
    return folder / "runs" / "lock"


def test_siblings_without_a_verdict_are_compared_as_if_they_had_that_of_the_others(trained: Path):
    kept, _ = keep(list(Store(trained).read(1, "train")), {})
    table = tabulate(kept)
    np.testing.assert_allclose(table.total_B, table.outcome_B + 0.6, atol=1e-6)
    np.testing.assert_array_equal(table.process_N, np.ones(table.n_turns))


def test_how_often_it_happened_is_counted(trained: Path):
    (row,) = [row for row in read_metrics(RunFolder(trained).metrics) if row["step"] == 1]
    assert (row["reward/whole/missing_share"], row["reward/turns/missing_share"]) == (0.25, 0.25)


def test_the_ledger_stays_the_truth_and_the_commands_say_what_is_missing(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    (first, *_) = Store(trained).read(1, "train")
    silent, other = first.scores[0], first.scores[2]
    assert [event.name for event in silent.ledger if event.name == "whole"] == []
    assert silent.total - (silent.outcome or 0.0) == pytest.approx(other.total - (other.outcome or 0.0) - 0.4)
    capsys.readouterr()
    assert turngate_at(trained.parent.parent, "show", "runs/lock", "--trajectory", first.trajectories[0].id) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "a verdict of whole could not be had; with the siblings' mean in its place" in shown
    assert turngate_at(trained.parent.parent, "credit", "runs/lock", "--method", "grpo") == 0
    assert "step 1" in capsys.readouterr().out
    report = (trained / "report" / "summary.md").read_text()
    assert "could not be had: 'turns' in 25.0%, 'whole' in 25.0%" in report
