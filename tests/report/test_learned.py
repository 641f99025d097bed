"""Credit of recorded episodes is that which training gave: by turn and by token, over all groups of a step."""

from dataclasses import replace

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
from turngate.trainer.batch.episode_credit import recorded_columns
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.rule import CreditRule
from turngate.types import Source, TokenCredit

BY_TOKEN = ("lambda_grpo_tokens", "reinforce_plus_plus_tokens", "rl_zvp_tokens")
OVER_THE_STEP = ("reinforce_plus_plus",)
"""Rules whose credit in one group depends on the other groups."""
SOLVED_SOMETIMES = {
    "warm_start": {"episodes": 96, "epochs": 6},
    "train": {"steps": 1, "tasks_per_step": 8, "group_size": 2, "filters": []},
}


def flat(learned):
    return [one for of_group in learned for one in of_group]


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
    step = store.last_step()
    groups, recorded = list(store.read(step, TRAIN)), store.credit(step)
    taught = [one for one in flat(learned_from(groups, rule, {})) if not one.notes]
    assert taught
    as_recorded = [one for one in flat(learned_from(groups, rule, recorded)) if not one.notes]
    for one, other in zip(taught, as_recorded, strict=True):
        np.testing.assert_array_equal(one.advantage_T, other.advantage_T)
        np.testing.assert_equal(one.tokens_T, other.tokens_T)
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
    record = group_record(group, learned_from(groups, rule, {})[0], {}, TokenPieces(None))
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


@pytest.mark.parametrize(("name", "read"), [("turn_gae", ["value_N"]), ("token_gae", [])])
def test_what_only_training_measures_is_recorded_with_the_credit(tmp_path, capsys, name, read):
    """A critic changes with every step, so its values cannot be had again."""
    table = settings(tmp_path, name, credit={"type": name}, value={})
    for section, changes in SOLVED_SOMETIMES.items():
        table[section] = table[section] | changes
    Job(parse(table), Console(quiet=True)).run()
    run, store = RunFolder(tmp_path / name), Store(tmp_path / name)
    step, rule = store.last_step(), recorded_rule(RunFolder(tmp_path / name))
    assert rule.rule is None
    groups, recorded = list(store.read(step, TRAIN)), store.credit(step)
    without = flat(learned_from(groups, rule, {}))
    assert all("only training measures" in one.notes[-1] for one in without)
    learned = flat(learned_from(groups, rule, recorded))
    taught = [one for one in learned if one.advantage_T is not None]
    assert taught
    assert not any(note.startswith("credit is not shown") for one in taught for note in one.notes)
    assert [sorted(one.read_T) for one in taught] == [read] * len(taught)

    trajectories = [one for group in groups for one in group.trajectories if one.id in recorded]
    table_of_step = tabulate(groups)
    found = [recorded[one.id] for one in trajectories]
    known = replace(table_of_step, measured={**table_of_step.measured, **recorded_columns(found)})
    again = CreditRule.load(name)(known)
    if isinstance(again, TokenCredit):
        np.testing.assert_array_equal(again.advantage_S, np.concatenate([t for one in found for t in one.tokens_T]))
    else:
        np.testing.assert_array_equal(again, np.concatenate([one.advantage_T for one in found]))

    capsys.readouterr()
    assert turngate("show", run.path, "--trajectory", trajectories[0].id) == 0
    shown = capsys.readouterr().out
    assert ", credit " in shown
    assert ("value_N" in shown) == bool(read)
    assert turngate("credit", run.path, "--method", "rloo") == 0
    assert turngate("credit", run.path, "--method", name) == 0
    assert "compared are these" in capsys.readouterr().out
    assert turngate("credit", run.path, "--method", "igpo") == 2
    assert "gain_N" in capsys.readouterr().err

    (store.path / "trajectories" / f"step={step:06d}" / "credit.feather").write_bytes(b"no")
    assert turngate("show", run.path, "--trajectory", trajectories[0].id) == 1
    assert "cannot be read as credit" in capsys.readouterr().err
