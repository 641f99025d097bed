"""A rubric part that nobody feeds ends a run by name: before the first step where the environment declares what it
records or its oracle shows it, after the first step where nothing is declared.

1. Evidence that nothing records is refused with the part that reads it, the nearest name and what is recorded: in the
   rubric, in filters, in the guide and in the credit rule's columns, by ``train`` and by ``eval``.
2. An examiner of the config feeds a rubric; so does a fact that the oracle's episode has.
3. An environment that declares nothing: a run in which no episode of the first step has a fact for a component stops,
   and one whose facts are rare goes on, because they are declared.
4. Success is what the rubric says: with ``rlcr`` a right answer, whatever the confidence.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import turngate
from tests.helpers.tiny_run import tiny
from turngate import Evidence, FromEvidence, Rubric, Task, TaskList, ToolEnv, TurnSpec, tool
from turngate.config.run_config import parse
from turngate.envs.registry import registered
from turngate.errors import ConfigError, RunError
from turngate.rewards.outcome.calibration import Rlcr
from turngate.run.checks.feeders import check_feeders
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import read_evaluations

RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))
RARE = FromEvidence(name="rare", evidence="rare", weight=0.1, per_turn=True)
GATES = (turngate.needs_outcome(0.5),)


class Sides(ToolEnv):
    """Call a side; now and then something rare is recorded, and never by the oracle."""

    turn_spec = TurnSpec(
        tasks=TaskList([Task(id=f"{i}", env_id="test/Sides-v0", prompt="Call it.") for i in range(8)]),
        rubric=Rubric(rewards=(RIGHT, RARE), gates=GATES),
        max_turns=2,
        has_oracle=True,
    )

    def begin(self, task: Task) -> str:
        self.called = ""
        return task.prompt

    @tool
    def call(self, side: str) -> str:
        """Call a side."""
        self.called = side
        self.record("side", side)
        if side == "edge":
            self.record("rare", True)
        self.end()
        return "called"

    def verify(self) -> Any:
        yield Evidence(name="right", value=self.called == "heads")

    def oracle(self, task: Task) -> list[str]:
        return ["call heads"]


class Declared(Sides):
    turn_spec = TurnSpec(
        tasks=Sides.turn_spec.tasks,
        rubric=Sides.turn_spec.rubric,
        max_turns=2,
        has_oracle=True,
        evidence={"side": "the side", "rare": "recorded where it happens: the edge", "right": "whether it is heads"},
    )


class Sure(Sides):
    """Says how sure it is of a right answer: hardly, so that ``rlcr`` pays little."""

    turn_spec = TurnSpec(
        tasks=Sides.turn_spec.tasks,
        rubric=Rubric(rewards=(Rlcr(name="honest"),)),
        max_turns=2,
        has_oracle=True,
    )

    def verify(self) -> Any:
        yield Evidence(name="correct", value=self.called == "heads")
        yield Evidence(name="stated_confidence", value=0.2)


class External(Sides):
    """Each episode books something."""

    turn_spec = replace(Sides.turn_spec, side_effects="external")

    def begin(self, task: Task) -> str:
        raise AssertionError("played")


class Breaks(Sides):
    """Its oracle gives up after a wrong call."""

    turn_spec = replace(Sides.turn_spec, rubric=Rubric(rewards=(RIGHT, RARE.model_copy(update={"evidence": "parsed"}))))

    def oracle(self, task: Task) -> Any:
        yield "call"
        raise RuntimeError("gave up")


for _class in (Sides, Declared, Sure, External, Breaks):
    if f"test/{_class.__name__}-v0" not in registered():
        turngate.register(f"test/{_class.__name__}-v0", f"{__name__}:{_class.__name__}")

OPENED = {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]}
KEY = {"type": "from_evidence", "name": "key", "evidence": "right_key", "per_turn": True, "weight": 0.1}
GATED = [{"type": "needs_outcome", "at_least": 0.5}]


def config(folder: Path, text: str = "", *, env: dict[str, Any], **more: Any) -> Any:
    import tomllib

    table = tomllib.loads(tiny() + text)
    table |= {"name": "fed", "folder": str(folder), "env": env, "eval": {"tasks": 2, "splits": ["train"]}}
    table["train"] = {"steps": 1, "tasks_per_step": 2, "group_size": 2, "checkpoint_every": 1}
    for section, values in more.items():
        table[section] = {**table.get(section, {}), **values} if isinstance(values, dict) else values
    return parse(table)


def rubric(*parts: dict[str, Any], gates: Any = GATED) -> dict[str, Any]:
    return {"rewards": [OPENED, *parts], "gates": gates}


def of_sql(part: dict[str, Any]) -> dict[str, Any]:
    outcome = {"type": "from_evidence", "name": "correct", "evidence": "correct", "kind": "outcome", "levels": [0, 1]}
    return {"rewards": [outcome, {"name": "part", "weight": 0.1, **part}], "gates": GATED}


LOCK, SQL = "turngate/Lock-v1", "turngate/Sql-v1"
REFUSED = {
    "a misspelt fact": (
        {"id": LOCK, "rubric": rubric(KEY | {"evidence": "right_keys"})},
        {},
        r"the rubric of 'turngate/Lock-v1': nothing records the evidence 'right_keys', which 'key' reads; did you mean "
        r"'right_key'\? \(recorded: agent_fault, answer, opened, parsed, right_key\); correct the name",
    ),
    "a shipped reward of another environment": (
        {"id": LOCK, "rubric": rubric({"type": "schema_linking", "name": "links", "weight": 0.1})},
        {},
        "which 'links' reads",
    ),
    "a gate": (
        {"id": LOCK, "rubric": rubric(KEY, gates=[*GATED, {"type": "requires", "evidence": "prsed", "on": "key"}])},
        {},
        r"'prsed', which 'requires\(prsed, on=key\)' reads; did you mean 'parsed'",
    ),
    "a veto": (
        {"id": LOCK, "rubric": rubric(KEY, gates=[{"type": "veto", "evidence": "cheated", "floor": -1}, *GATED])},
        {},
        "'cheated', which 'veto",
    ),
    "success": ({"id": LOCK, "rubric": rubric(KEY) | {"success": "opned"}}, {}, "'opned', which 'success' reads"),
    "what its settings leave out": (
        {"id": SQL, "rubric": of_sql({"type": "lanser"})},
        {},
        "'lanser', which 'part' reads|'diagnostics_delta', which 'part' reads",
    ),
    "a filter": (
        {"id": LOCK},
        {"train": {"filters": [{"type": "without_void", "evidence": "void"}]}},
        r"train.filters\[0\].evidence: nothing records the evidence 'void'",
    ),
    "a column": (
        {"id": LOCK},
        {
            "credit": {"type": "progress"},
            "signals": {"evidence": {"accuracy_N": "right_keey"}},
        },
        "signals.evidence.accuracy_N: nothing records the evidence 'right_keey'; did you mean 'right_key'",
    ),
    "a guide": (
        {"id": LOCK},
        {"guide": {"type": "reflect", "evidence": "right_kee"}, "train": {"group_size": 4}, "credit": {"type": "r3l"}},
        "guide.evidence: nothing records the evidence 'right_kee'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nothing_records_is_refused_before_the_first_step(tmp_path: Path, case: str) -> None:
    env, more, problem = REFUSED[case]
    with pytest.raises(ConfigError, match=problem):
        Job(config(tmp_path, env=env, **more), Console(quiet=True))


@pytest.mark.parametrize(
    "part", [{"type": "schema_linking"}, {"type": "ngram_similarity"}, {"type": "result_f1"}, {"type": "repetition"}]
)
def test_what_an_environment_records_is_accepted(tmp_path: Path, part: dict[str, Any]) -> None:
    part = {**part, "weight": -0.1} if part["type"] == "repetition" else part
    section = config(tmp_path, env={"id": SQL, "rubric": of_sql(part)})
    with Environments(section.env) as environments:
        assert check_feeders(section, environments) == []


def test_an_examiner_feeds_a_rubric_of_the_environment_that_it_examines(tmp_path: Path) -> None:
    judged = rubric({"type": "step_verdicts", "name": "steps", "weight": 0.1})
    steps = {"type": "steps", "name": "step_verdict", "judge": {"type": "policy"}}
    section = config(tmp_path, env={"id": LOCK, "rubric": judged}, examine=[steps])
    with Environments(section.env) as environments:
        assert check_feeders(section, environments) == []
    alone = config(tmp_path, env={"id": LOCK, "rubric": judged})
    with Environments(alone.env) as environments, pytest.raises(ConfigError, match="which 'steps' reads"):
        check_feeders(alone, environments)


def test_a_run_whose_environment_declares_nothing_stops_after_the_first_step(tmp_path: Path) -> None:
    job = Job(config(tmp_path, env={"id": "test/Sides-v0"}), Console(quiet=True))
    with pytest.raises(RunError) as caught:
        job.run()
    said = str(caught.value)
    assert "nothing records the evidence 'rare', which 'rare' reads" in said
    assert "episodes of the first step" in said
    assert "TurnSpec(…, evidence={NAME: MEANING, …})" in said


def test_a_rare_fact_that_is_declared_stops_nothing(tmp_path: Path) -> None:
    Job(config(tmp_path, env={"id": "test/Declared-v0"}), Console(quiet=True)).run()


def test_what_the_oracle_records_needs_no_declaration(tmp_path: Path) -> None:
    own = Sides.turn_spec.rubric
    assert isinstance(own, Rubric)
    seen = own.model_copy(update={"rewards": (RIGHT, RARE.model_copy(update={"evidence": "parsed"}))})
    for written, n in ((seen.model_dump(mode="json"), 0), (own.model_dump(mode="json"), 1)):
        section = config(tmp_path, env={"id": "test/Sides-v0", "rubric": written})
        with Environments(section.env) as environments:
            assert len(check_feeders(section, environments)) == n


def test_an_episode_that_reaches_the_outside_world_is_not_played_to_find_out(tmp_path: Path) -> None:
    section = config(tmp_path, env={"id": "test/External-v0"})
    with Environments(section.env) as environments:
        (left,) = check_feeders(section, environments)
    assert set(left.rubric.unfed(left.recorded)) == {"right", "rare"}


def test_what_an_oracle_recorded_before_it_broke_counts(tmp_path: Path) -> None:
    section = config(tmp_path, env={"id": "test/Breaks-v0"})
    with Environments(section.env) as environments:
        (left,) = check_feeders(section, environments)
    assert set(left.rubric.unfed(left.recorded)) == {"right"}, "the verifier did not come, and 'parsed' was recorded"


def test_a_right_answer_is_a_success_whatever_the_confidence(tmp_path: Path) -> None:
    """rlcr pays 1 − (1 − 0.2)² = 0.36 for a right answer and −0.04 for a wrong one.

    The warm start keeps demonstrations that solve their task, and raises if there is none.
    """
    job = Job(config(tmp_path, env={"id": "test/Sure-v0"}), Console(quiet=True))
    job.run()
    store = Store(job.path)
    groups = [group for step in store.steps(None) for group in store.read(step)]
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    right = [any(fact.name == "correct" and fact.value is True for fact in one.evidence) for one, _ in pairs]
    assert [score.success for _, score in pairs] == right
    assert {round(score.outcome or 0.0, 2) for _, score in pairs} <= {0.36, -0.04}
    named = {phase: evaluation for phase, evaluation in read_evaluations(job.path)}
    assert set(named) == {"before", "after"}
