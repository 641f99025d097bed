"""Rescoring gives what live scoring would have given, leaves the recorded scores alone, and says what moved."""

import itertools
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.command_line import turngate
from turngate.cli.rescore import show
from turngate.envs.lock import RUBRIC as LOCK
from turngate.envs.lock import LockEnv
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.rubric import REASONING_RUBRIC
from turngate.envs.sql.rubric import RUBRIC as SQL
from turngate.errors import ConfigError, DataError
from turngate.rescoring import Comparison, Rescored, rescore, rescore_run
from turngate.rewards import (
    BestSoFar,
    BottomLine,
    Budget,
    Conditional,
    EventCost,
    FromEvidence,
    Hierarchical,
    LengthCost,
    Once,
    Repetition,
    Rubric,
    Soft,
    SuccessOnly,
    Trust,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.rubrics import find_rubric
from turngate.store import Store
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Task,
    Trajectory,
    Turn,
)

SIBLINGS, GROUPS_PER_STEP, STEPS = 8, 8, 8  # of two environments: 1,024 trajectories


# --- a run -----------------------------------------------------------------------------------------------------------


def turn(observation: Observation, action: Action) -> Turn:
    empty = np.zeros(0, np.int32)
    said = Completion(ids_K=empty, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.SCRIPT, policy_version=0)
    return Turn(
        observation=observation,
        context_ids=empty,
        completion=said,
        source=np.zeros(0, np.uint8),
        action=action,
    )


def lock_lines(env: LockEnv, task: Task, rng: np.random.Generator) -> list[str]:
    return [str(rng.choice([line, line, "press a", "press z", "hello"])) for line in env.oracle(task)]


def sql_lines(env: SqlEnv, task: Task, rng: np.random.Generator) -> list[str]:
    other = ["run_sql SELECT 1", "run_sql SELECT 1", "run_sql SELEC", "describe nothing", "???", "list_tables"]
    wrong = [*other, "run_sql DELETE FROM sqlite_master"]
    lines = [str(line) for line in env.oracle(task)]
    kept = [line for line in lines[:-1] if rng.random() < 0.9]
    extra = [str(line) for line in rng.choice(wrong if rng.random() < 0.1 else other, rng.integers(0, 4))]
    return [*kept, *extra, str(rng.choice([lines[-1], lines[-1], "submit SELECT 1"]))]


def play(env: Any, task: Task, lines: list[str], name: str, rng: np.random.Generator) -> tuple[Trajectory, Score]:
    """One episode, with a judge's opinion of it, and the score that the environment settled."""
    seen, _ = env.reset(seed=0, options={"task": task})
    turns: list[Turn] = []
    facts: list[Evidence] = []
    for line in lines:
        before = seen
        seen, _, terminated, truncated, info = env.step(line)
        turns.append(turn(before, info["action"]))
        facts += info["evidence"]
        if terminated or truncated:
            break
    else:
        _, info = env.finish(Ending.MAX_TURNS)
        facts += info["evidence"]
    judged = None if rng.random() < 0.1 else float(rng.random())
    facts.append(Evidence(name="judged", value=judged, by="judge"))
    played = Trajectory(id=name, task=task, turns=tuple(turns), ending=info["ending"], seed=0, evidence=tuple(facts))
    return played, info["score"]


def spoil(played: Trajectory, rng: np.random.Generator) -> Trajectory:
    """Sometimes the environment broke, or the outcome could not be measured."""
    luck = rng.random()
    if luck < 0.03:
        return replace(played, ending=Ending.ENV_ERROR, evidence=(), error="broke")
    if luck < 0.06:
        unknown = tuple(replace(f, value=None) if f.by == "verifier" else f for f in played.evidence)
        return replace(played, evidence=unknown)
    return played


@cache
def played(kind: str) -> tuple[tuple[int, Group, tuple[Score, ...]], ...]:
    """(step, group, what the environment paid) of a whole run."""
    env: Any = LockEnv() if kind == "lock" else SqlEnv()
    script: Any = lock_lines if kind == "lock" else sql_lines
    rng, found = np.random.default_rng(7), []
    for step, place in itertools.product(range(1, STEPS + 1), range(GROUPS_PER_STEP)):
        task = env.tasks.task("train", step * GROUPS_PER_STEP + place)
        names = [f"{step}/{place}/{sibling}" for sibling in range(SIBLINGS)]
        pairs = [play(env, task, script(env, task, rng), name, rng) for name in names]
        group = Group(task=task, trajectories=tuple(spoil(one, rng) for one, _ in pairs))
        found.append((step, group, tuple(score for _, score in pairs)))
    env.close()
    return tuple(found)


def record_run(folder: Path, kind: str, rubric: Rubric, steps: int = STEPS) -> Path:
    store = Store(folder)
    for step, groups in itertools.groupby(played(kind)[: steps * GROUPS_PER_STEP], key=lambda one: one[0]):
        store.write(step, [rubric.score_group(group, step) for _, group, _ in groups])
    (folder / "config.toml").write_text("")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {kind: record_run(folder / kind, kind, {"lock": LOCK, "sql": SQL}[kind]) for kind in ("lock", "sql")}


# --- bit for bit -----------------------------------------------------------------------------------------------------

OPENED = FromEvidence(name="opened", evidence="opened", kind="outcome")
KEY = FromEvidence(name="key", evidence="right_key", per_turn=True, agg="sum", weight=0.3)
JUDGED = FromEvidence(name="judged", evidence="judged", weight=0.3)
CORRECT = FromEvidence(name="correct", evidence="correct", kind="outcome")
RUNS = FromEvidence(name="runs", evidence="executes", per_turn=True, agg="sum", weight=0.2)

RUBRICS = {
    "lock as shipped": ("lock", LOCK),
    "lock, siblings compared and annealed": (
        "lock",
        Rubric(rewards=(OPENED, KEY, JUDGED), gates=(Trust(on="judged", decay_steps=5.0), Budget(on="key", limit=0.4))),
    ),
    "lock, shares and limits": (
        "lock",
        Rubric(
            rewards=(OPENED, KEY, JUDGED, LengthCost(name="long", start=1, limit=3, only_if="opened")),
            gates=(
                Soft(on="judged", at_least=1.0, answered="parsed"),
                requires("parsed", on="key"),
                Once(on="key"),
                SuccessOnly(on=("long",)),
            ),
        ),
    ),
    "lock, booked at the end": ("lock", LOCK.model_copy(update={"book_last": True})),
    "sql as shipped": ("sql", SQL),
    "sql after Reasoning-SQL": ("sql", REASONING_RUBRIC),
    "sql, siblings compared and annealed": (
        "sql",
        Rubric(
            rewards=(
                CORRECT,
                RUNS,
                JUDGED,
                EventCost(name="blunders", evidence="repeated", free=1.0),
                Repetition(name="again", evidence="tool", weight=-0.05),
            ),
            gates=(
                veto("write_attempt"),
                Trust(on="judged", decay_steps=3.0, open_from=0.0),
                Hierarchical(levels=(("correct",), ("judged",), ("runs",)), at_least=(1.0, 0.25)),
                BestSoFar(on="runs"),
                cap_process(0.3),
            ),
        ),
    ),
    "sql, ladders": (
        "sql",
        Rubric(
            rewards=(CORRECT, RUNS, JUDGED),
            gates=(
                BottomLine(constraints={"judged": 0.5}, goals=("runs",)),
                Conditional(given="correct", at_least=1.0, pays=("judged",)),
                needs_outcome(0.5),
            ),
        ),
    ),
}


def bits(score: Score) -> tuple[Any, ...]:
    """Everything about a score; floats as they are spelled, so that −0.0 is not 0.0."""
    lines = [repr(event) for event in score.ledger]
    return lines, score.reward_T.tobytes(), score.reward_T.dtype, repr(score.outcome), score.usable, score.problem


@pytest.mark.parametrize("name", RUBRICS)
def test_rescoring_is_live_scoring_bit_for_bit(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    kind, rubric = RUBRICS[name]
    live = [rubric.score_group(group, step) for step, group, _ in played(kind)]
    file = tmp_path / "rubric.json"
    file.write_text(rubric.model_dump_json())
    pairs = list(rescore(Store(runs[kind]), find_rubric(str(file))))
    assert [pair.step for pair in pairs] == [step for step, _, _ in played(kind)]
    for pair, expected in zip(pairs, live, strict=True):
        assert [one.id for one in pair.new.trajectories] == [one.id for one in expected.trajectories]
        assert [bits(score) for score in pair.new.scores] == [bits(score) for score in expected.scores]


def test_there_are_a_thousand_trajectories_of_every_sort() -> None:
    everything = [one for kind in ("lock", "sql") for _, group, _ in played(kind) for one in group.trajectories]
    assert len(everything) >= 1000
    sql = [one for one in everything if one.task.env_id == "turngate/Sql-v1"]
    wins = [SQL.score(one.record()).outcome for one in sql]
    assert min(wins.count(outcome) for outcome in (0.0, 1.0, None)) > 10
    assert {one.ending for one in everything} == {Ending.FINISHED, Ending.MAX_TURNS, Ending.ENV_ERROR}
    assert any(fact.name == "write_attempt" for one in sql for fact in one.record().evidence)


@pytest.mark.parametrize(("kind", "rubric"), [("lock", LOCK), ("sql", SQL)])
def test_rescoring_by_the_environments_rubric_is_what_it_settled(
    kind: str, rubric: Rubric, runs: dict[str, Path]
) -> None:
    settled = [score for _, _, scores in played(kind) for score in scores]
    again = [
        (trajectory, score)
        for pair in rescore(Store(runs[kind]), rubric)
        for trajectory, score in zip(pair.new.trajectories, pair.new.scores, strict=True)
    ]
    equal = [bits(score) == bits(live) for (_, score), live in zip(again, settled, strict=True) if score.usable]
    assert all(equal)
    assert len(equal) > 400


def test_annealed_gates_read_the_step_and_evaluations_count_as_step_0(tmp_path: Path) -> None:
    rubric = Rubric(rewards=(OPENED, JUDGED), gates=(Trust(on="judged", decay_steps=1.0, open_from=0.0),))
    store = Store(tmp_path)
    mixed = (
        {0.0, 1.0} <= {score.outcome for score in LOCK.score_group(group).scores} for _, group, _ in played("lock")
    )
    group = next(group for (_, group, _), varied in zip(played("lock"), mixed, strict=True) if varied)
    store.write(3, [LOCK.score_group(group)])
    store.write(3, [LOCK.score_group(group)], phase="after-heldout-greedy")

    def again(phase: str) -> list[float]:
        return [score.total for pair in rescore(store, rubric, phase=phase) for score in pair.new.scores]

    assert again("train") == [score.total for score in rubric.score_group(group, 3).scores]
    assert again("after-heldout-greedy") == [score.total for score in rubric.score_group(group, 0).scores]
    assert again("train") != again("after-heldout-greedy")


# --- on disk ---------------------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_new_scores_lie_beside_the_old_ones_and_touch_nothing(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", "lock", LOCK, steps=2)
    before = files(run)
    kind, rubric = RUBRICS["lock, siblings compared and annealed"]
    rescore_run(run, rubric, name="trusting")
    after = files(run)
    assert {name: after[name] for name in before} == before
    new = run / "rescored" / "trusting"
    assert sorted(path.name for path in (run / "rescored").iterdir()) == ["trusting"]
    assert find_rubric(str(new / "rubric.json")) == rubric
    stored = [group for step in Store(new).steps() for group in Store(new).read(step)]
    live = [rubric.score_group(group, step) for step, group, _ in played(kind) if step <= 2]
    for found, expected in zip(stored, live, strict=True):
        assert [bits(score) for score in found.scores] == [bits(score) for score in expected.scores]
    assert Store(new).steps() == Store(run).steps()


@pytest.mark.parametrize(
    ("rubric", "options", "match"),
    [
        (LOCK, {"name": "../out"}, "cannot be the name of a folder"),
        (LOCK, {"phase": "eval"}, "no episodes of phase 'eval'; recorded phases: train"),
        (
            Rubric(rewards=(FromEvidence(name="won", evidence="openned", kind="outcome"),)),
            {},
            r"no trajectory has evidence 'openned', which 'won' reads; did you mean 'opened'\? "
            "recorded: answer, judged, opened, parsed, right_key",
        ),
        (
            Rubric(rewards=(OPENED, KEY), gates=(requires("pasred", on="key"),)),
            {},
            r"evidence 'pasred', which 'requires\(pasred, on=key\)' reads; did you mean 'parsed'",
        ),
        (
            Rubric(rewards=(OPENED, FromEvidence(name="judged", evidence="judged", high=0.125))),
            {},
            r"cannot score step 1: component 'judged' of task 'lock/train/8', trajectory '1/0/\d', whole episode: ear",
        ),
    ],
)
def test_what_cannot_be_rescored_is_said_and_leaves_nothing(
    rubric: Rubric, options: dict[str, str], match: str, runs: dict[str, Path]
) -> None:
    with pytest.raises(ConfigError, match=match):
        rescore_run(runs["lock"], rubric, **{"name": "x", **options})
    assert not list((runs["lock"] / "rescored").glob("*")) + list((runs["lock"] / "rescored").glob(".*"))


def test_a_name_is_never_overwritten_and_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", "lock", LOCK, steps=2)
    (run / "rescored" / ".twice" / "trajectories").mkdir(parents=True)  # left by one that was killed
    rescore_run(run, LOCK, name="twice")
    before = files(run)
    with pytest.raises(ConfigError, match="exists already"):
        rescore_run(run, LOCK, name="twice")
    assert files(run) == before
    with pytest.raises(ConfigError, match="not the folder of a run"):
        rescore_run(tmp_path, LOCK, name="x")


# --- what is different -----------------------------------------------------------------------------------------------


def episode(name: str, **facts: Any) -> Trajectory:
    task = Task(id="t", env_id="e", prompt="")
    evidence = tuple(Evidence(name=fact, value=value) for fact, value in facts.items())
    only = turn(Observation(text=""), Action(text=""))
    return Trajectory(id=name, task=task, turns=(only,), ending=Ending.FINISHED, seed=0, evidence=evidence)


WON = FromEvidence(name="won", evidence="won", kind="outcome")
OLD = Rubric(rewards=(WON, FromEvidence(name="neat", evidence="neat", weight=0.5)))
NEW = Rubric(
    rewards=(WON, FromEvidence(name="brief", evidence="brief", weight=2.0)), gates=(veto("wrote", -0.5), veto("lied"))
)


def compared(*groups: tuple[Trajectory, ...]) -> Comparison:
    comparison = Comparison(NEW)
    for members in groups:
        group = Group(task=members[0].task, trajectories=members)
        comparison.add(Rescored(step=1, old=OLD.score_group(group), new=NEW.score_group(group)))
    return comparison


FIRST = (  # old totals 1.5, 1, 0.5; new ones 1, 2, 2: the first falls from place 0 to 2, the second from 1 to 0, …
    episode("a", won=1, neat=1.0, brief=0.0),
    episode("b", won=1, neat=0.0, brief=0.5),
    episode("c", won=0, neat=1.0, brief=1.0),
)
SECOND = (
    episode("d", won=1, neat=0.5, brief=0.25, wrote=True),  # 1.25 → −0.5, alone in its place
    episode("e", won=1, neat=0.5, brief=0.5, wrote=None),  # unusable from now on
    episode("f", neat=0.5, brief=0.5),  # and always
)


def test_evidence_of_calls_may_be_missing_where_nobody_made_one(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", "lock", LOCK, steps=1)
    calls = FromEvidence(name="nearer", evidence="nearer", weight=0.1, per_turn=True)
    found = rescore_run(run, Rubric(rewards=(OPENED, calls)), name="of_calls")
    assert found.silent() == {"nearer": ("nearer",)}
    assert not found.lost
    for whole in (calls.model_copy(update={"per_turn": False}), calls.model_copy(update={"evidence": "openned"})):
        with pytest.raises(ConfigError, match=f"no trajectory has evidence '{whole.evidence}'"):
            rescore_run(run, Rubric(rewards=(OPENED, whole)), name="typo")


def test_a_comparison_is_its_definition() -> None:
    found = compared(FIRST, SECOND)
    assert (found.n_trajectories, found.n_groups, found.n_common, found.n_regained) == (6, 2, 4, 0)
    assert (found.n_moved, found.n_groups_moved) == (3, 1)
    assert found.lost == {"evidence 'wrote' of veto(wrote) could not be measured": 1}
    means = found.means()
    assert list(means) == ["won", "brief", "veto(wrote)", "neat", "total"]
    assert means["won"] == pytest.approx((3 / 4, 2 / 4))
    assert means["brief"] == pytest.approx((0.0, (0 + 1 + 2) / 4))
    assert means["veto(wrote)"] == pytest.approx((0.0, -0.5 / 4))
    assert means["neat"] == pytest.approx(((0.5 + 0 + 0.5 + 0.25) / 4, 0.0))
    assert means["total"] == pytest.approx(((1.5 + 1 + 0.5 + 1.25) / 4, (1 + 2 + 2 - 0.5) / 4))
    assert found.silent() == {"lied": ("veto(lied)",)}
    found.check_evidence()  # nobody lied, which is no gap


def test_places_are_shared_by_equal_totals() -> None:
    assert compared(FIRST[:1], FIRST[2:]).n_moved == 0  # nobody to change places with
    twins = (episode("a", won=1, neat=0.0, brief=0.0), episode("b", won=1, neat=0.0, brief=0.0))
    assert compared(twins).n_moved == 0
    apart = (episode("a", won=1, neat=0.0, brief=0.0), episode("b", won=1, neat=0.0, brief=0.5))
    assert compared(apart).n_moved == 1  # b overtakes its twin, who falls to the second place


def test_what_becomes_usable_is_counted() -> None:
    comparison = Comparison(OLD)
    group = Group(task=SECOND[0].task, trajectories=SECOND)
    comparison.add(Rescored(step=1, old=NEW.score_group(group), new=OLD.score_group(group)))
    assert (comparison.n_regained, comparison.n_common, comparison.lost) == (1, 1, {})


def test_nothing_in_common_is_no_division_by_zero() -> None:
    assert compared(SECOND[1:]).means() == {"total": (0.0, 0.0)}


def test_the_table_says_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=100), compared(FIRST, SECOND))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in lines[:3]] == [
        ["mean", "paid", "old", "new", "change"],
        ["won", "0.7500", "0.5000", "-0.2500"],
        ["brief", "0.0000", "0.7500", "+0.7500"],
    ]
    assert lines[6:] == [
        "means over the 4 of 6 trajectories that are usable under both rubrics",
        "3 of 4 trajectories changed their rank within their group (1 of 2 groups)",
        "1 of 6 became unusable",
        "1 × evidence 'wrote' of veto(wrote) could not be measured",
        "veto(lied) had no effect: no trajectory has the evidence 'lied'",
        "warning: I1, a better outcome can be overtaken: [won=1] = 1 is paid less than [won=0, brief=1] = 2; if 'won' "
        "cannot take every value in its range, declare those it can take: levels=(0, 1) for a yes or no",
    ]


def test_a_bonus_that_a_guide_paid_is_said_to_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    group = Group(task=FIRST[0].task, trajectories=FIRST)
    old, new = OLD.score_group(group), NEW.score_group(group)
    bonus = RewardEvent(name="hindsight", kind="process", turn=None, value=0.3, weight=1.0)
    paid = replace(old.scores[0], ledger=(*old.scores[0].ledger, bonus))
    comparison = Comparison(NEW)
    comparison.add(Rescored(step=1, old=replace(old, scores=(paid, *old.scores[1:])), new=new))
    lines = shown(comparison, capsys)
    assert ["hindsight", "0.1000", "0.0000", "-0.1000"] in [line.split() for line in lines]
    said = "hindsight is left out of the new scores: guide 'herl' paid it, which compares several episodes of a task"
    assert said in lines
    assert not any("hindsight" in line for line in shown(compared(FIRST), capsys))


def shown(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(Console(width=100), comparison)
    return capsys.readouterr().out.splitlines()


# --- the file --------------------------------------------------------------------------------------------------------

REWARD = {"type": "from_evidence", "name": "won", "evidence": "won", "kind": "outcome"}


def with_gate(**gate: Any) -> dict[str, Any]:
    return {"rewards": [REWARD], "gates": [gate]}


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ('{"rewards": [', DataError, ", line 1: is not JSON: Expecting value"),
        ("[]", ConfigError, "must be a table"),
        ({"rewrds": [REWARD]}, ConfigError, "unknown key 'rewrds'; did you mean 'rewards'?"),
        ({}, ConfigError, "key 'rewards' is missing"),
        (
            with_gate(type="veto", evidence="x", flor=0),
            ConfigError,
            "unknown key 'gates[0].flor'; did you mean 'floor'?",
        ),
        (with_gate(type="veto", evidence="x", qqq=0), ConfigError, "'gates[0].qqq'; known: evidence, floor, type"),
        (with_gate(type="veto"), ConfigError, "key 'gates[0].evidence' is missing"),
        (with_gate(type="vetoo", evidence="x"), ConfigError, "unknown gate type 'vetoo'; did you mean 'veto'?"),
        (with_gate(type=["veto"], evidence="x"), ConfigError, "gates[0]: a gate needs a type; known: best_so_far"),
        (
            with_gate(type="requires", evidence="x", on="wun"),
            ConfigError,
            "component 'wun'; did you mean 'won'? in req",
        ),
        (
            with_gate(type="conditional", given="won", at_least=1, then=[{"given": "won", "pas": ["x"]}]),
            ConfigError,
            "unknown key 'gates[0].then[0].pas'; did you mean 'pays'?",
        ),
        ({"rewards": [{**REWARD, "weight": "a"}]}, ConfigError, "rewards[0].weight: Input should be a valid number"),
        ({"rewards": [{**REWARD, "kind": "process"}]}, ConfigError, "the rubric has no outcome component"),
        ('{"rewards": [], "rewards": []}', ConfigError, "key 'rewards' is written 2 times in one object"),
    ],
)
def test_a_file_that_is_no_rubric_is_one_line_with_file_and_key(
    data: Any, error: type[Exception], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(error) as caught:
        find_rubric(str(file))
    assert str(caught.value).startswith(str(file))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.json: cannot be read"):
        find_rubric(str(tmp_path / "nowhere.json"))
    (tmp_path / "latin.json").write_bytes(b'"\xff"')
    with pytest.raises(DataError, match="is not UTF-8"):
        find_rubric(str(tmp_path / "latin.json"))


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_the_table_and_where_the_scores_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(tmp_path / "run", "sql", SQL, steps=1)
    file = tmp_path / "reasoning.json"
    file.write_text(REASONING_RUBRIC.model_dump_json())
    assert turngate("rescore", run, "--rubric", file) == 0
    out = capsys.readouterr().out
    assert "changed their rank within their group" in out
    assert out.splitlines()[-1] == f"scores: {run / 'rescored' / 'reasoning'}"
    assert Store(run / "rescored" / "reasoning").steps() == Store(run).steps()
    assert turngate("rescore", run, "--rubric", file, "--write", "again") == 0
    assert (run / "rescored" / "again" / "rubric.json").exists()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"rewards": [REWARD | {"tpye": 1}]}, "unknown key 'rewards[0].tpye'; did you mean 'type'?"),
        (
            {"rewards": [REWARD]},
            "no trajectory has evidence 'won', which 'won' reads; recorded: action_key, answer, correct",
        ),
        ("{", "line 1: is not JSON"),
        (with_gate(type="needs_outcom", at_least=0.5), "did you mean 'needs_outcome'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    data: Any, expected: str, runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    assert turngate("rescore", runs["sql"], "--rubric", file) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error


def test_scores_of_a_group_survive_as_they_were(runs: dict[str, Path]) -> None:
    """``rescore`` hands the recorded scores on, not new ones under an old name."""
    recorded = list(Store(runs["sql"]).read(1, "train"))
    assert isinstance(recorded[0], ScoredGroup)
    for pair, group in zip(rescore(Store(runs["sql"]), REASONING_RUBRIC), recorded, strict=False):
        assert [bits(score) for score in pair.old.scores] == [bits(score) for score in group.scores]
