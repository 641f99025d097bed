"""Whatever is wrong with a config is one line with key, value and closest name, told before any work is done."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.helpers.command_line import turngate

LOCK = "turngate/Lock-v1"
CONFIG: dict[str, Any] = {
    "env": {"id": LOCK},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 2},
    "policy": {"turn_tokens": 8, "context": 160, "concurrency": 4},
    "train": {"steps": 1, "tasks_per_step": 2, "group_size": 2},
    "eval": {"tasks": 1},
}
OWN = """
from turngate.judges.examiners.base import Examiner

class Idle(Examiner):
    @property
    def writes(self):
        return ("opened_twice",)
    async def examine(self, groups, context):
        raise AssertionError("asked although nobody reads what it says")

def halved(table, *, share=0.5):
    return table.reward_N * share
"""
OPENED = {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]}
KEYS = {"type": "from_evidence", "name": "keys", "evidence": "right_key", "per_turn": True, "weight": 0.1}


def paid_by(*rewards: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    return {"env": {"rubric": {"rewards": list(rewards), **others}}}


def env(**keys: Any) -> dict[str, Any]:
    return {"env": keys}


def loss(**keys: Any) -> dict[str, Any]:
    return {"loss": keys}


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: merged(first[key], value) for key, value in second.items() if _both_tables(first.get(key), value)}
    return {**first, **second, **nested}


def _both_tables(one: Any, other: Any) -> bool:
    return isinstance(one, Mapping) and isinstance(other, Mapping)


UNKNOWN = [
    ({"credit": "gigp"}, "credit: unknown credit rule type 'gigp'; did you mean 'gigpo'"),
    (loss(objective={"type": "cliped"}), "loss.objective: unknown objective type 'cliped'; did you mean 'clipped'"),
    (loss(correction=[{"type": "tiss"}]), "loss.correction[0]: unknown correction type 'tiss'; did you mean 'tis'"),
    (loss(penalties=["entropi"]), "loss.penalties[0]: unknown penalty type 'entropi'; did you mean 'entropy'"),
    ({"train": {"filters": ["varyd"]}}, "train.filters[0]: unknown filter type 'varyd'; did you mean 'varied'"),
    ({"examine": [{"type": "majorty"}]}, "examine[0]: unknown examiner type 'majorty'; did you mean 'majority'"),
    ({"sink": [{"type": "consol"}]}, "sink[0]: unknown sink type 'consol'; did you mean 'console'"),
    ({"policy": {"type": "locl"}}, "policy: unknown policy type 'locl'; did you mean 'local'"),
    ({"learner": {"type": "troch"}}, "learner: unknown learner type 'troch'; did you mean 'torch'"),
    ({"guide": "nobody"}, "guide: unknown guide type 'nobody'; did you mean 'none'"),
    (env(tasks="lok"), "env.tasks: unknown task source type 'lok'; did you mean 'lock'"),
    (env(id="turngate/Lok-v1"), "env.id: unknown environment 'turngate/Lok-v1'; did you mean 'turngate/Lock-v1'"),
    (env(split="trian"), "env.split: unknown split 'trian'; did you mean 'train'?"),
    (env(kwargs={"max_turn": 4}), f"env.kwargs: unknown argument of '{LOCK}' 'max_turn'; did you mean 'max_turns'?"),
    (env(rubric="lok"), "env.rubric: unknown rubric 'lok'; did you mean 'lock'?"),
    (
        paid_by({**OPENED, "type": "from_evidenc"}),
        "env.rubric.rewards[0]: unknown reward type 'from_evidenc'; did you mean 'from_evidence' or",
    ),
    (
        paid_by(OPENED, gates=[{"type": "cap_proces"}]),
        "env.rubric.gates[0]: unknown gate type 'cap_proces'; did you mean 'cap_process'",
    ),
    (
        paid_by(OPENED, KEYS, gates=[{"type": "requires", "evidence": "parsed", "on": "key"}]),
        "env.rubric: unknown component 'key'; did you mean 'keys'?",
    ),
    ({"eval": {"splits": ["helout"]}}, "eval.splits: unknown split 'helout'; did you mean 'heldout'?"),
    (
        {"examine": [{"type": "majority", "env": "turngate/Lok-v1"}]},
        "unknown environment in examine[0].env 'turngate/Lok-v1'; did you mean 'turngate/Lock-v1'?",
    ),
    (
        {"credit": "igpo", "signals": {"answer": "{dial}"}},
        "signals.answer: the answer '{dial}' of task 'lock/train/0': unknown entry of the task's private data 'dial'; "
        "did you mean 'dials'?",
    ),
    ({"credit": "nowhere:rule"}, "credit: 'nowhere:rule' cannot be imported: ModuleNotFoundError"),
    ({"credit": "own:halve"}, "credit: unknown name in own 'halve'; did you mean 'halved'"),
    (
        {"credit": "own:Idle"},
        "credit: 'own:Idle' is <class 'own.Idle'>, which is not a credit rule; it must be a subclass",
    ),
    ({"examine": [{"type": "own:halved"}]}, "examine[0]: 'own:halved' is <function halved"),
]
WRONG = [
    ({"credit": {"type": "gigpo", "gama": 1.0}}, "unknown key 'credit.gama'; did you mean 'gamma'?"),
    ({"credit": {"type": "gigpo", "gamma": "x"}}, "credit.gamma: Input should be a valid number, unable to parse"),
    ({"credit": {"type": "gigpo", "gamma": 7.0}}, "credit.gamma: Input should be less than or equal to 1, got 7.0"),
    ({"credit": 3}, "credit: a credit rule must be a table with a type, or a name"),
    ({"credit": "own:halved"}, "credit: argument 'share' of credit rule 'own:halved' needs a type annotation"),
    (loss(objective={"type": "clipped", "low": 0.1}), "unknown key 'loss.objective.low'; did you mean 'clip_low'?"),
    (loss(correction=[{"type": "tis", "capp": 2}]), "unknown key 'loss.correction[0].capp'; did you mean 'cap'?"),
    (loss(penalties=[{"type": "kl", "estimator": "k9"}]), "loss.penalties[0].estimator: Input should be 'k1', 'k2' or"),
    (loss(aggregate="tokn"), "loss.aggregate: Input should be 'token', 'sequence', 'turn' or 'sum', got 'tokn'"),
    (
        {"train": {"filters": [{"type": "varied", "by": "totl"}]}},
        "train.filters[0].by: Input should be 'total' or 'outcome', got 'totl'",
    ),
    (
        {"train": {"filters": [{"type": "prof", "n_keep": 0}]}},
        "train.filters[0].n_keep: Input should be greater than or equal to 1, got 0",
    ),
    ({"train": {"filters": "varied"}}, "train.filters: must be a list, got 'varied'"),
    ({"train": 3}, "train: must be a table, got 3"),
    ({"examine": {"type": "majority"}}, "examine: must be a list of tables; write [[examine]]"),
    ({"examine": [{}]}, "examine[0]: an examiner needs a type; known: adherence, appeals, "),
    ({"examine": [{"type": "majority", "nme": "x"}]}, "unknown key 'examine[0].nme'; did you mean 'name'?"),
    (
        {"examine": [{"type": "majority", "deadline_s": 0}]},
        "examine[0].deadline_s: Input should be greater than 0, got 0",
    ),
    ({"sink": [{"type": "console", "key": ["x"]}]}, "unknown key 'sink[0].key'; did you mean 'keys'?"),
    ({"sink": [{"type": "jsonl"}]}, "key 'sink[0].folder' is missing"),
    ({"policy": {"concurency": 3}}, "unknown key 'policy.concurency'; did you mean 'concurrency'?"),
    ({"learner": {"lr": 0}}, "learner.lr: Input should be greater than 0, got 0"),
    ({"guide": {"type": "none", "level": 1}}, "unknown key 'guide.level'; known: type"),
    (env(tasks={"type": "lock", "size": 3}), "unknown key 'env.tasks.size'; known: dials, type"),
    (
        env(id="turngate/Sql-v1", tasks={"type": "spider", "folder": "/nowhere"}),
        "env.tasks.folder: there is no folder '/nowhere'",
    ),
    (env(tasks={"type": "spider", "folder": "/nowhere"}), "env.tasks: 'spider' gives tasks of SQL, and LockEnv plays"),
    (env(kwargs={"max_turns": 1}), "env.kwargs: max_turns is 1, but the lock has 3 dials"),
    (env(isolation="proces"), "env.isolation: Input should be 'thread' or 'process', got 'proces'"),
    (env(rubric="nothing.toml"), "env.rubric: nothing.toml: cannot be read: No such file"),
    (env(rubric="own:halved"), "env.rubric: 'own:halved' is <function halved"),
    (paid_by({**OPENED, "weigt": 1.0}), "unknown key 'env.rubric.rewards[0].weigt'; did you mean 'weight'?"),
    (paid_by({**OPENED, "weight": "x"}), "env.rubric.rewards[0].weight: Input should be a valid number"),
    (paid_by(KEYS), "env.rubric: the rubric has no outcome component, only ['keys']"),
    (
        paid_by(OPENED, KEYS, gates=[{"type": "cap_process", "limt": 1}]),
        "unknown key 'env.rubric.gates[0].limt'; did you mean 'limit'?",
    ),
    (
        paid_by(OPENED, {**KEYS, "weight": 2.0}),
        f"the rubric of '{LOCK}' is unsafe: I1, a better outcome can be overtaken: [opened=1] = 1 is paid less than",
    ),
    (
        {"env": [{"id": LOCK, "name": "one"}, {"id": LOCK, "name": "one"}]},
        "two environments are called 'one'; give one of them a name of its own (env.name)",
    ),
    ({"env": []}, "env: Value should have at least 1 item"),
    ({"env": [{"id": LOCK}, {"id": LOCK, "name": "two", "rubric": "lok"}]}, "env[1].rubric: unknown rubric 'lok'"),
    ({"env": [{"id": LOCK}, {"id": LOCK, "name": "two", "split": "x"}]}, "env[1].split: unknown split 'x'; known: "),
    ({"warm_start": {"episodes": 2, "demonstrations": "x"}}, "warm_start: give either episodes (from the oracle) or"),
    ({"model": "nowhere/at/all"}, "model: the model 'nowhere/at/all' cannot be loaded: "),
]
IDLE = [
    (
        {"examine": [{"type": "majority"}]},
        "examine[0] ('majority') has no effect: it records 'agrees', 'agrees_votes',",
    ),
    ({"examine": [{"type": "own:Idle"}]}, "examine[0] ('own:Idle') has no effect: it records 'opened_twice', which"),
    (env(allow_unsafe=True), f"env.allow_unsafe has no effect: the rubric of '{LOCK}' is safe; leave it out"),
    (env(weight=2.0), "env.weight has no effect in a run of one environment; leave it out"),
    (
        env(tasks="lock", kwargs={"tasks": {"type": "lock"}}),
        "env: tasks are given twice, in env.tasks and in env.kwargs.tasks; keep env.tasks",
    ),
    (
        {"env": [{"id": LOCK, "name": name} for name in "abc"]},
        "3 environments need train.tasks_per_step of at least as many, found 2",
    ),
    (
        {"train": {"filters": ["varied", {"type": "varied", "by": "outcome"}]}},
        "train.filters: the filter 'varied' is listed twice, so its drops could not be told apart; keep one",
    ),
    ({"credit": "tree_rpo"}, "credit: credit 'tree_rpo' cannot be used here: it needs branches"),
    ({"value": {}}, "value has no effect: credit 'grpo' uses no critic; bilevel_gae, "),
    ({"credit": "turn_gae", "value": {"coef": 3.0}}, "value: coef has no effect with trunk = 'detached'"),
    ({"reward_model": {}}, "reward_model has no effect: credit 'grpo' uses no reward model; prime, "),
    ({"signals": {"entropy": "exact"}}, "signals.entropy has no effect: credit 'grpo' reads no entropy"),
    ({"signals": {"similar": {}}}, "signals.similar has no effect: credit 'grpo' compares no similar states"),
    ({"signals": {"log_gain": True}}, "signals.answer and signals.log_gain have no effect: credit 'grpo' reads no"),
    ({"signals": {"evidence": {"form_N": "parsed"}}}, "signals.evidence form_N has no effect: credit 'grpo' does not"),
    (loss(normalize=True), "loss: normalize has no effect without a correction"),
    (loss(penalties=[{"type": "entropy", "coef": 0.0}]), "loss.penalties[0]: coef = 0 has no effect; leave the"),
    ({"policy": {"top_k": 300}}, "policy.top_k 300 has no effect: the vocabulary has 300 entries"),
]

HUGE = [
    ({"train": {"group_size": 10**12}}, "train.group_size: Input should be less than or equal to 100000, got 10"),
    ({"train": {"tasks_per_step": 10**9}}, "train.tasks_per_step: Input should be less than or equal to 100000"),
    ({"model": {"width": 10**7}}, "model.width: Input should be less than or equal to 16384"),
    ({"model": {"layers": 256, "width": 16384}}, "model.layers 256 and model.width 16384 need more than 7,"),
    ({"model": {"vocabulary": 10**9}}, "model.vocabulary: Input should be less than or equal to 1000000"),
    ({"policy": {"concurrency": 10**9}}, "policy.concurrency: Input should be less than or equal to 100000"),
    ({"policy": {"context": 10**12}}, "policy.context: Input should be less than or equal to 100000000"),
    ({"warm_start": {"episodes": 10**12}}, "warm_start.episodes: Input should be less than or equal to 10000000"),
    ({"warm_start": {"lr": math.inf}}, "warm_start.lr: Input should be a finite number, got inf"),
    ({"learner": {"lr": math.nan}}, "learner.lr: Input should be"),
    (env(kwargs={"max_turns": math.nan}), "env.kwargs: max_turns is nan; it must be a whole number, at least 1"),
    (env(kwargs={"max_turns": [1]}), "env.kwargs: max_turns is [1]; it must be a whole number, at least 1"),
    ({"seed": 10**25}, "seed: Input should be less than 9223372036854775808"),
]


@pytest.mark.parametrize(("changes", "said"), [*UNKNOWN, *WRONG, *IDLE, *HUGE])
def test_a_mistake_is_one_line_before_any_work(
    changes: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    config = tmp_path / "config.toml"
    config.write_text(tomli_w.dumps(merged(CONFIG, changes)))
    assert turngate("train", config) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"error: {said}")
    assert printed.out == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "has no line with a demonstration"),
        (
            '{"task": "lock/trian/0", "actions": ["press a"]}',
            "line 1, field 'task': unknown split 'trian'; did you mean 'train'?",
        ),
    ],
)
def test_demonstrations_that_cannot_be_used_are_told_before_any_work(
    rows: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config = tmp_path / "shown.jsonl", tmp_path / "config.toml"
    if rows is not None:
        file.write_text(rows)
    folder = tmp_path / "runs"
    config.write_text(tomli_w.dumps({**CONFIG, "folder": str(folder), "warm_start": {"demonstrations": str(file)}}))
    assert turngate("train", config) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}")
    assert said in line
    assert not folder.exists()


def test_facts_that_only_another_environments_rubric_reads_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agrees = {"type": "from_evidence", "name": "agrees", "evidence": "agrees", "kind": "outcome", "levels": [0, 1]}
    changes = {
        "folder": str(tmp_path / "runs"),
        "env": [{"id": LOCK, "name": "judged", "rubric": {"rewards": [agrees]}}, {"id": LOCK, "name": "plain"}],
        "examine": [{"type": "majority", "env": "plain"}],
    }
    config = tmp_path / "config.toml"
    config.write_text(tomli_w.dumps({**CONFIG, **changes}))
    assert turngate("train", config) == 2
    assert capsys.readouterr().err.startswith("error: examine[0] ('majority') has no effect: it records 'agrees'")
    assert not (tmp_path / "runs").exists()
