"""Credit of recorded episodes is that which training gave: by turn and by token, over all groups of a step."""

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.command_line import turngate
from tests.helpers.viewed_runs import settings
from turngate.config import parse
from turngate.config.run_config import dump
from turngate.report.learned import TRAIN, learned_from
from turngate.report.viewer.episode_record import group_record
from turngate.report.viewer.token_pieces import TokenPieces
from turngate.run.assembly.credit import recorded_rule
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.credit.rule import CreditRule
from turngate.types import Source, TokenCredit

BY_TOKEN = ("lambda_grpo_tokens", "reinforce_plus_plus_tokens", "rl_zvp_tokens")
OVER_THE_STEP = ("reinforce_plus_plus",)
"""Rules whose credit in one group depends on the other groups."""
SOLVED_SOMETIMES = {
    "warm_start": {"episodes": 96, "epochs": 6},
    "train": {"steps": 1, "tasks_per_step": 8, "group_size": 2, "filters": []},
}


@pytest.mark.parametrize("name", BY_TOKEN + OVER_THE_STEP)
def test_credit_is_had_again_as_training_gave_it(tmp_path, monkeypatch, capsys, name):
    given, kind = [], CreditRule.find(name)
    plain = kind.__call__

    def noted(rule, table):
        given.append(plain(rule, table))
        return given[-1]

    monkeypatch.setattr(kind, "__call__", noted)
    table = settings(tmp_path, name, credit={"type": name})
    for section, changes in SOLVED_SOMETIMES.items():
        table[section] = table[section] | changes
    Job(parse(table), Console(quiet=True)).run()
    by_training = given[-1]
    store, rule = Store(tmp_path / name), recorded_rule(RunFolder(tmp_path / name))
    groups = list(store.read(store.last_step(), TRAIN))
    learned = [one for of_group in learned_from(groups, rule) for one in of_group]
    taught = [one for one in learned if not one.notes]
    assert taught
    if not isinstance(by_training, TokenCredit):
        np.testing.assert_array_equal(np.concatenate([one.advantage_T for one in taught]), by_training)
        assert np.ptp(by_training) > 0
        return
    tokens = [credit for one in taught for credit in one.tokens_T]
    np.testing.assert_array_equal(np.concatenate(tokens), by_training.advantage_S)
    assert np.ptp(by_training.advantage_S) > 0
    if name != "reinforce_plus_plus_tokens":  # which gives the tokens of a turn the same where no KL is charged
        assert any(np.ptp(credit) > 0 for credit in tokens if len(credit))

    group = groups[0]
    record = group_record(group, learned_from(groups, rule)[0], {}, TokenPieces(None))
    for trajectory, episode in zip(group.trajectories, record["episodes"], strict=True):
        for turn, shown in zip(trajectory.turns, episode["turns"], strict=True):
            own = turn.source[len(turn.context_ids) :] == Source.POLICY
            assert [value is not None for value in shown["tokens"]["credit"]] == own.tolist()
    capsys.readouterr()
    assert turngate("show", tmp_path / name, "--trajectory", group.trajectories[0].id) == 0
    assert "of which the turn's is the mean" in " ".join(capsys.readouterr().out.split())


def test_a_rule_that_read_what_only_training_measures_is_not_used_again(tmp_path):
    """It would read something else instead: here surprisal, where exact entropies were measured."""
    for entropy, again in (("sampled", True), ("exact", False)):
        table = settings(tmp_path, entropy, credit={"type": "rl_zvp_tokens"}, signals={"entropy": entropy})
        folder = tmp_path / entropy
        folder.mkdir()
        (folder / "config.toml").write_text(dump(parse(table)))
        assert (recorded_rule(RunFolder(folder)).rule is not None) == again
