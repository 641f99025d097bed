"""Another policy takes some turns of an episode: the first ones or the last ones, an oracle or a model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.guided import TASK, Known, solution
from turngate.agents.handoff import Handoff, ScriptActor
from turngate.config.run_config import parse
from turngate.envs.lock import LockEnv, LockTasks
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.guidance.second_policy import SecondPolicyPart
from turngate.types import Guidance, Source

PARSED = {"type": "from_evidence", "name": "parsed", "evidence": "parsed", "kind": "outcome", "per_turn": True}
"""The share of turns in which a call can be read, which differs between episodes of a model that learned little."""


def config(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "name": "second",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "rubric": {"rewards": [PARSED]}},
        "warm_start": {"episodes": 48, "epochs": 5, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 6, "context": 200, "concurrency": 8},
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 4},
        "eval": {"tasks": 1},
        **more,
    }


def train(settings: dict[str, Any]) -> RunFolder:
    Job(parse(settings), Console(quiet=True)).run()
    return RunFolder(Path(settings["folder"]) / settings["name"])


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> RunFolder:
    """A model that learned to press keys, whose tokenizer other runs share."""
    return train(config(tmp_path_factory.mktemp("other"), train={"steps": 0}))


def by_whom(one) -> str:
    """Who took each turn: p = the policy, g = somebody else."""
    said = [set(turn.source[len(turn.context_ids) :]) for turn in one.turns]
    return "".join("p" if marks == {Source.POLICY} else "g" if marks == {Source.GUIDE} else "?" for marks in said)


def played(run: RunFolder):
    return [one for step in (1, 2) for group in Store(run.path).read(step, "train") for one in group.trajectories]


def test_the_oracle_begins_for_a_drawn_number_of_turns(tmp_path):
    run = train(config(tmp_path, guide={"type": "second_policy"}))
    lent = [one for one in played(run) if one.guidance is not None]
    assert len(lent) == 8
    for one in lent:
        turns = one.guidance.level
        assert by_whom(one) == "g" * turns + "p" * (3 - turns)
        assert [turn.action.text for turn in one.turns[:turns]] == LockEnv().oracle(LockTasks().find(one.task.id))[
            :turns
        ]
        assert (one.guidance.kind, one.guidance.source, one.guidance.text) == ("second_policy_first", "guide", "")
    assert {one.guidance.level for one in lent} == {1, 2}  # drawn for each task and step
    assert {by_whom(one) for one in played(run) if one.guidance is None} == {"ppp"}
    assert {row["guide/guided_share"] for row in read_metrics(run.metrics)} == {0.5}


@pytest.mark.parametrize("acts", ["first", "last"])
def test_another_model_takes_the_first_or_the_last_turns(tmp_path, other, acts):
    guide = {"type": "second_policy", "model": str(other.model), "acts": acts, "most": 1}
    settings = config(tmp_path, guide=guide, model=str(other.model), warm_start=None)
    del settings["warm_start"]
    run, again = train(settings), train({**settings, "name": "again"})
    whole = [by_whom(one) for one in played(run) if one.guidance is not None]
    assert whole == ["gpp" if acts == "first" else "pgg"] * 8
    assert played(run) == played(again)
    assert sum(row["learner/grad_norm"] for row in read_metrics(run.metrics) if "learner/grad_norm" in row) > 0


def test_turns_are_drawn_by_the_seed_of_the_run():
    def drawn(seed):
        guide = SecondPolicyPart().open(Known(actions=solution(3), seed=seed))
        return [guide.plan(replace(TASK, id=str(number)), 4).entries[-1].guidance.level for number in range(20)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) == {1, 2}


def test_a_model_with_another_tokenizer_is_refused(tmp_path, other):
    guide = {"type": "second_policy", "model": str(other.model)}
    settings = config(tmp_path, guide=guide)
    settings["model"]["vocabulary"] = 280
    with pytest.raises(ConfigError, match="another tokenizer"):
        train(settings)


def test_a_span_without_turns_is_refused():
    guidance = Guidance(kind="x", level=1, text="", source="guide")
    for first, until in ((-1, None), (2, 2), (2, 1)):
        with pytest.raises(ValueError, match="no turn to lend"):
            Handoff(actor=ScriptActor(("a",)), guidance=guidance, first=first, until=until)
    lent = Handoff(actor=ScriptActor(("a",)), guidance=guidance, first=1, until=3)
    assert [lent.takes(turn) for turn in range(4)] == [False, True, True, False]
    assert Handoff(actor=ScriptActor(("a",)), guidance=guidance, first=1).takes(99)
