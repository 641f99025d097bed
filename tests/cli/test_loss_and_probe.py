"""The command line on one tiny run: losses and sampling that need more than the basics, and the gradient probe."""

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.command_line import turngate
from turngate.agents.policies.parts import PolicyPart
from turngate.config.run_config import load
from turngate.report.probes import ranges, show_probe
from turngate.store import Store
from turngate.trainer.checks.gradient_probe import GradientProbe, TurnShift
from turngate.trainer.filters.parts import varied
from turngate.trainer.learner import LearnerPart
from turngate.trainer.loss.base import Objective

CONFIG = """
name = "lock"
folder = "{folder}"
{model}

[env]
id = "turngate/Lock-v1"

[policy]
turn_tokens = 8
context = 256
concurrency = 8

[train]
steps = 2
tasks_per_step = 6
group_size = 4

[eval]
tasks = 2
"""
KL = "--loss.penalties=[{type = 'kl', coef = 0.1}]"
TINY = """
[model]
layers = 1
width = 32
heads = 2
vocabulary = 300

[warm_start]
episodes = 96
epochs = 4
episodes_per_batch = 8
lr = 5e-3
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps, so that the weights which played the first are no checkpoint any more."""
    folder = tmp_path_factory.mktemp("trained")
    config = folder / "lock.toml"
    config.write_text(CONFIG.format(folder=folder / "runs", model=TINY))
    assert turngate("train", config, "--train.steps=4", "--learner.lr=0.003") == 0
    return folder / "runs" / "lock"


def train(trained: Path, folder: Path, *overrides: str) -> tuple[int, list[dict[str, float]]]:
    """Train from the model of ``trained``; exit code and metrics per step."""
    config = folder / "lock.toml"
    config.write_text(CONFIG.format(folder=folder / "runs", model=f'model = "{trained / "warm_start"}"'))
    code = turngate("train", config, *overrides)
    metrics = folder / "runs" / "lock" / "metrics.jsonl"
    return code, [json.loads(row) for row in metrics.read_text().splitlines()] if metrics.exists() else []


# --- settings that reach the step ------------------------------------------------------------------------------------


def test_a_kl_penalty_holds_the_policy_near_the_model_it_began_from(trained: Path, tmp_path: Path) -> None:
    code, rows = train(trained, tmp_path, KL, "--learner.lr=0.003")
    assert code == 0
    divergence = [row["policy/kl_to_reference_nats"] for row in rows]
    assert divergence[0] == pytest.approx(0, abs=1e-6)
    assert divergence[1] > 1e-6


def test_decoupled_ppo_takes_its_ratio_against_the_weights_before_the_step(trained: Path, tmp_path: Path) -> None:
    code, rows = train(
        trained,
        tmp_path,
        "--loss.decoupled=true",
        "--loss.correction=[{type = 'tis', cap = 2.0}]",
        "--train.minibatches=2",
        "--learner.lr=0.003",
    )
    assert code == 0
    assert len(rows) == 2
    assert all(row["policy/kl_to_sampler_nats"] > 0 for row in rows)  # the second minibatch is off-policy
    assert any(name.startswith("offpolicy/") for name in rows[0])


def test_top_p_and_top_k_reach_sampler_and_learner(trained: Path, tmp_path: Path) -> None:
    code, rows = train(trained, tmp_path, "--policy.top_p=0.9", "--policy.top_k=20", KL)
    assert code == 0
    for row in rows:
        assert 0 <= row["canary/max_logprob_difference"] < 1e-4
        assert row["policy/outside_support_share"] == pytest.approx(0, abs=1e-6)
    assert rows[0]["policy/kl_to_reference_nats"] == 0, "the policy is the reference, whatever the sampler cuts off"


def test_a_top_k_of_the_whole_vocabulary_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rows = train(trained, tmp_path, "--policy.top_k=300000")
    assert (code, rows) == (2, [])
    assert "policy.top_k 300000 has no effect on a vocabulary of" in capsys.readouterr().err


# --- parts from a file of the user ------------------------------------------------------------------------------------

OWN_PARTS = '''
from turngate.agents.policies.parts import LocalPolicyPart
from turngate.agents.rollout import TokenLimits
from turngate.trainer.learner import TorchLearnerPart
from turngate.trainer.loss.base import Gain, Objective


class Mine(Objective):
    """REINFORCE that says of every token that a bound took its gradient."""

    strength: float = 1.0

    def __call__(self, tokens):
        value = self.strength * tokens.advantage * tokens.log_ratio().exp()
        return Gain(value=value, limited=tokens.advantage == tokens.advantage)


class Faster(TorchLearnerPart):
    """Twice the learning rate."""

    def open(self, model, *, lr=None, **options):
        return super().open(model, lr=2 * self.lr if lr is None else lr, **options)


class Terse(LocalPolicyPart):
    """Four tokens a turn, whatever the config says."""

    def limits(self):
        return TokenLimits(turn_tokens=4, context=self.context)
'''


def test_an_objective_a_learner_and_a_policy_of_the_users_own_train(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module in the current folder, named in the config; nothing imports it by hand."""
    (tmp_path / "own_loss.py").write_text(OWN_PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for family in (Objective, LearnerPart, PolicyPart):
        monkeypatch.setattr(family, "types", dict(family.types))
    monkeypatch.delitem(sys.modules, "own_loss", raising=False)
    options = ("--loss.objective.type=own_loss:Mine", "--loss.objective.strength=0.5", "--learner.type=own_loss:Faster")
    code, rows = train(trained, tmp_path, *options, "--policy.type=own_loss:Terse", "--learner.lr=0.002")
    assert code == 0, capsys.readouterr().err
    assert len(rows) == 2
    for row in rows:
        assert row["policy/clipped_share"] == pytest.approx(1)
        assert row["learner/lr"] == 0.004
        assert row["train/sampled_tokens"] <= 24 * 4 * row["train/turns"]
    written = load(tmp_path / "runs" / "lock" / "config.toml")
    assert written.loss.objective.settings() == {"strength": 0.5}
    assert [part.type.partition(":")[2] for part in (written.loss.objective, written.learner, written.policy)] == [
        "Mine",
        "Faster",
        "Terse",
    ]
    code, _ = train(trained, tmp_path, "--loss.objective.type=own_loss:Mien")
    assert code == 2
    assert "unknown name in own_loss 'Mien'; did you mean 'Mine'" in capsys.readouterr().err
    sys.modules.pop("own_loss", None)


# --- whose tokens learn from the reward of a turn --------------------------------------------------------------------


def taught(run: Path, step: int) -> tuple[list[str], str]:
    """The siblings of the first group that taught something in a step, and the first of them."""
    groups = [group for group in Store(run).read(step, "train") if varied(group).all()]
    names = [trajectory.id for trajectory in groups[0].trajectories]
    return names, names[0]


def probed(run: Path, capsys: pytest.CaptureFixture[str], *options: object, method: str = "rloo") -> str:
    assert turngate("credit", run, "--method", method, *options) == 0
    return capsys.readouterr().out


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "220")


ROW = re.compile(r"turn (\d+) of (\S+)" + r"\s+(\S+)" * 5 + r"\s+(\d+ of \d+) tokens(?: at (\S+))?")


def rows_of(text: str) -> list[list[str]]:
    """The rows of the table: trajectory, turn, credit, moved by, tokens, places, gradient, predicted, norm."""
    return [
        [name, turn, credit, moved, tokens, places or "", gradient, predicted, norm]
        for turn, name, credit, moved, gradient, predicted, norm, tokens, places in ROW.findall(text)
    ]


@pytest.mark.parametrize(
    ("step", "whose"),
    [(1, "the weights that played it"), (2, "the weights after step 3"), (4, "the weights that played it")],
)
def test_the_probe_shows_every_sibling_and_nobody_else(
    trained: Path, step: int, whose: str, wide: None, capsys: pytest.CaptureFixture[str]
) -> None:
    names, name = taught(trained, step)
    text = probed(trained, capsys, "--trajectory", name, "--probe", 1, "--delta", 0.5, "--top", 99)
    assert f"step {step}, " in text
    assert f"gradient by {whose}" in text
    assert f"+0.5 to what was paid for turn 1 of {name}:" in text
    rows = rows_of(text)
    assert {row[0] for row in rows} == set(names)
    for row in rows:
        assert float(row[3]) == pytest.approx(0.5 if row[0] == name else -0.5 / 3, abs=1e-4)
        changed, n_tokens = row[4].split(" of ")
        assert 0 < int(changed) <= int(n_tokens)
        assert float(row[8]) > 0
    if whose == "the weights that played it":
        for row in rows:
            assert float(row[6]) == pytest.approx(float(row[7]), rel=1e-3)
        assert "the gradient of every turn whose credit changed did so as predicted, and no other changed" in text


def test_the_first_sibling_alone_without_a_baseline(
    trained: Path, wide: None, capsys: pytest.CaptureFixture[str]
) -> None:
    _, name = taught(trained, 1)
    settings = ("--settings", "{gamma = 0.0, baseline = 'none'}")
    text = probed(trained, capsys, *settings, "--trajectory", name, "--probe", 0, method="returns")
    ((_, turn, _, moved, tokens, places, *_),) = rows_of(text)
    assert (turn, moved) == ("0", "+1.0000")
    changed, n_tokens = tokens.split(" of ")
    assert changed == n_tokens
    trajectory = next(t for group in Store(trained).read(1, "train") for t in group.trajectories if t.id == name)
    first = len(trajectory.turns[0].context_ids)
    last = first + len(trajectory.turns[0].completion.ids_K) - 1
    assert places == (f"{first}-{last}" if last > first else str(first))


def test_what_the_process_earned_can_be_perturbed_before_gates(
    trained: Path, wide: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """SAG normalises open verdicts, so paid rewards and earned verdicts move it differently."""
    _, name = taught(trained, 1)
    text = probed(trained, capsys, "--trajectory", name, "--probe", 1, "--earned", "--delta", 3, method="sag")
    assert f"+3 to the process reward, before gates, of turn 1 of {name}:" in text
    moved = {(row[0], row[1]): float(row[3]) for row in rows_of(text)}
    assert moved[name, "1"] > 0 > min(moved.values())


def test_a_finished_model_stands_in_where_no_checkpoint_is_left(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "lock"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "checkpoints")
    _, name = taught(run, 3)
    assert "the weights at the end of the run" in probed(run, capsys, "--trajectory", name, "--probe", 0)
    shutil.rmtree(run / "model")
    assert turngate("credit", run, "--method", "rloo", "--trajectory", name, "--probe", 0) == 1
    assert "no checkpoint of step 2 or later and no finished model" in capsys.readouterr().err
    assert not (run / "checkpoints").exists()


def test_the_probe_measures_what_the_loss_of_the_run_needs(
    trained: Path, tmp_path: Path, wide: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference model and a snapshot; a penalty that does not depend on the reward cancels in the difference."""
    options = (KL, "--loss.decoupled=true", "--loss.correction=[{type = 'mis'}]", "--train.steps=1")
    code, _ = train(trained, tmp_path, *options)
    assert code == 0
    run = tmp_path / "runs" / "lock"
    assert load(run / "config.toml").loss.decoupled
    capsys.readouterr()
    _, name = taught(run, 1)
    text = probed(run, capsys, "--trajectory", name, "--probe", 0, "--top", 99)
    assert len(rows_of(text)) > 3
    assert "did so as predicted, and no other changed" in text


def test_a_run_with_a_critic_can_be_probed(
    trained: Path, tmp_path: Path, wide: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = train(trained, tmp_path, "--credit.type=turn_gae")
    assert code == 0
    run = tmp_path / "runs" / "lock"
    _, name = taught(run, 2)
    capsys.readouterr()
    text = probed(run, capsys, "--trajectory", name, "--probe", 0, "--top", 99)
    assert "gradient by the weights that played it" in text
    assert "did so as predicted, and no other changed" in text


def shift(**changes: object) -> TurnShift:
    settings: dict[str, Any] = {
        "trajectory": "t",
        "turn": 0,
        "before": 0.0,
        "after": 1.0,
        "n_tokens": 2,
        "changed": np.array([3, 4], np.int32),
        "by": np.array([-0.25, -0.25], np.float32),
        "predicted": -0.5,
        "norm": 1.0,
    }
    return TurnShift(**(settings | changes))


NOBODY = {"changed": np.zeros(0, np.int32), "by": np.zeros(0, np.float32), "norm": 0.0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "the gradient of every turn whose credit changed did so as predicted, and no other changed"),
        (NOBODY, "1 turns: the credit changed, the gradient did not: the loss clips or drops tokens"),
        ({"after": 0.0, "predicted": 0.0}, "1 turns: the gradient changed, the credit did not: the loss mixes tokens"),
        (
            {"predicted": -0.4},
            "1 turns: the gradient did not change as predicted: ratios other than 1, or a loss that",
        ),
        (NOBODY | {"n_tokens": 0}, "the gradient of every turn whose credit changed did so as predicted"),
    ],
)
def test_what_the_credit_rule_does_not_explain_is_said(changes: dict[str, object], expected: str) -> None:
    out = io.StringIO()
    quiet = shift(trajectory="quiet", after=0.0, predicted=0.0, **NOBODY)
    show_probe(Console(file=out, width=200), GradientProbe(shifts=(quiet, shift(**changes)), norm=1), name="x", top=5)
    text = out.getvalue()
    assert expected in text
    assert "quiet" not in text
    assert text.count("turns: the ") == ("every turn" not in expected)


def test_a_rule_that_does_not_read_what_was_changed_is_named() -> None:
    out = io.StringIO()
    quiet = shift(after=0.0, predicted=0.0, **NOBODY)
    show_probe(Console(file=out, width=200), GradientProbe(shifts=(quiet,), norm=0.0), name="sag", top=5)
    assert "changed at 0 tokens in 0 of 1 turns" in out.getvalue()
    assert "no credit changed: sag does not read what was changed" in out.getvalue()
    assert "as predicted" not in out.getvalue()


def test_the_turns_that_change_most_come_first_and_the_rest_is_counted() -> None:
    out = io.StringIO()
    shifts = tuple(shift(trajectory=f"t{norm}", norm=float(norm)) for norm in (1, 3, 2))
    show_probe(Console(file=out, width=200), GradientProbe(shifts=shifts, norm=4.0), name="rloo", top=2)
    header = "turn, and where its tokens changed  credit   moved by  gradient    predicted   norm"
    assert header in out.getvalue()
    rows = rows_of(out.getvalue())
    assert rows[0] == ["t3", "0", "+0.0000", "+1.0000", "2 of 2", "3-4", "-5.000e-01", "-5.000e-01", "3"]
    assert [row[0] for row in rows] == ["t3", "t2"]
    assert "credit: by rloo; gradient: change of" in out.getvalue()
    assert "1 more turns; raise --top to see them" in out.getvalue()
    assert "changed at 6 tokens in 3 of 3 turns, 3 trajectories; the whole gradient moved by 4" in out.getvalue()


def test_the_table_of_a_probe_fits_into_80_columns_with_every_place() -> None:
    out = io.StringIO()
    changed = np.arange(0, 400, 2, dtype=np.int32)
    name = "turngate/Sql-v1:shop/train/1234#17@7c1098c8594fccc"
    long = shift(trajectory=name, changed=changed, by=np.ones(200, np.float32), n_tokens=400)
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    show_probe(console, GradientProbe(shifts=(long,), norm=4.0), name="package.module:my_rule", top=2)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    first = "".join(line[:37].strip() for line in lines)
    assert name in first
    assert ",".join(map(str, changed)) in first


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--probe", 0], "--probe TURN and --trajectory ID go together"),
        (["--trajectory", "{name}"], "--probe TURN and --trajectory ID go together"),
        (["--delta", 0.5], "no effect without --probe"),
        (["--earned"], "no effect without --probe"),
        (["--probe", 0, "--trajectory", "{name}", "--step", 1], "--step has no effect with --probe"),
        (["--probe", 9, "--trajectory", "{name}"], "has turns 0 to "),
        (["--probe", 0, "--trajectory", "{name}", "--delta", 0], "a finite delta other than 0, found 0.0"),
        (["--probe", 0, "--trajectory", "lock/trian/1"], "unknown trajectory 'lock/trian/1'"),
        (["--probe", 0, "--trajectory", "{evaluated}"], "was played in an evaluation, from which nothing is learned"),
        (["--probe", 0, "--trajectory", "{dropped}"], "nothing was learned from"),
    ],
)
def test_a_probe_that_asks_for_nothing_is_one_line(
    trained: Path, options: list[object], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = list(Store(trained).read(None, "train"))
    names = {
        "{name}": taught(trained, 1)[1],
        "{evaluated}": next(iter(Store(trained).read(0))).trajectories[0].id,
        "{dropped}": next((group.trajectories[0].id for group in groups if not varied(group).any()), "{dropped}"),
    }
    if "{dropped}" in options:
        assert names["{dropped}"] != "{dropped}", "every group of this run taught something; use another seed"
    wanted = [names.get(str(option), option) for option in options]
    assert turngate("credit", trained, "--method", "rloo", *wanted) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error


def test_positions_are_written_as_ranges() -> None:
    assert ranges(np.array([3, 4, 5, 9], np.int32)) == "3-5,9"
    assert ranges(np.array([7], np.int32)) == "7"
    assert ranges(np.zeros(0, np.int32)) == ""
