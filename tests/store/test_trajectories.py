"""What the store promises.

1. What was written comes back equal, bit for bit, except that task.private and task.hints are never written.
2. None stays None, NaN stays NaN, and a text that UTF-8 cannot hold survives.
3. Other tools read the files.
4. A file of another schema version is refused by its version.
"""

import dataclasses
import json
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turngate.errors import StoreError, UnknownName
from turngate.store import Store
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)

# --- made-up trajectories --------------------------------------------------------------------------------------------

TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "\x00", "\ud800 alone", "\uffff", "\uffff\\u0041", "\ud83d", "é\\n\n", "😀"]),
)
FLOAT = st.floats(allow_nan=False)
INT32 = st.integers(-(2**31), 2**31 - 1)
JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
EVIDENCE = st.builds(
    Evidence,
    name=TEXT,
    value=JSON_VALUE,
    turn=st.none() | INT32,
    by=st.sampled_from(["env", "verifier", "judge"]),
)
GUIDANCE = st.none() | st.builds(
    Guidance,
    kind=TEXT,
    level=INT32,
    text=TEXT,
    source=TEXT,
    insert_turn=INT32,
    strip_for_train=st.booleans(),
    joins=st.booleans(),
)
EVENT = st.builds(
    RewardEvent,
    name=TEXT,
    kind=st.sampled_from(["outcome", "process", "penalty"]),
    turn=st.none() | st.integers(0, 9),
    value=FLOAT,
    weight=FLOAT,
    share=FLOAT,
    factor=FLOAT,
    gate=TEXT,
)


def tuples(items, max_size=2):
    return st.lists(items, max_size=max_size).map(tuple)


@st.composite
def turns(draw):
    context = draw(st.lists(INT32, max_size=4))
    ids = draw(st.lists(INT32, max_size=4))
    logprobs = draw(st.lists(st.floats(width=32), min_size=len(ids), max_size=len(ids)))
    source = draw(st.lists(st.integers(0, 2), min_size=len(context) + len(ids), max_size=len(context) + len(ids)))
    return Turn(
        observation=Observation(
            text=draw(TEXT), images=draw(tuples(st.binary(max_size=5))), state_key=draw(st.text(max_size=3))
        ),
        context_ids=np.array(context, np.int32),
        completion=Completion(
            ids_K=np.array(ids, np.int32),
            logprobs_K=np.array(logprobs, np.float32),
            ended_by=draw(st.sampled_from(EndedBy)),
            policy_version=draw(st.integers(-(2**63), 2**63 - 1)),
            text=draw(TEXT),
        ),
        source=np.array(source, np.uint8),
        action=Action(
            text=draw(TEXT),
            thought=draw(TEXT),
            calls=draw(tuples(st.builds(ToolCall, name=TEXT, arguments=st.dictionaries(TEXT, JSON_VALUE, max_size=2)))),
            parse_error=draw(st.none() | TEXT),
        ),
        guidance=draw(GUIDANCE),
    )


@st.composite
def trajectories(draw, task, name):
    return Trajectory(
        id=name,
        task=task,
        turns=draw(tuples(turns(), max_size=3)),
        ending=draw(st.sampled_from(Ending)),
        seed=draw(st.integers(0, 2**63 - 1)),
        evidence=draw(tuples(EVIDENCE)),
        guidance=draw(GUIDANCE),
        parent=draw(st.none() | st.tuples(TEXT, st.integers(0, 99))),
        error=draw(TEXT),
    )


PAYMENTS = st.fixed_dictionaries(
    {
        "ledger": tuples(EVENT),
        "reward_T": st.lists(st.floats(width=32), max_size=3).map(lambda paid: np.array(paid, np.float32)),
    }
)


@st.composite
def scores(draw):
    score = Score(
        **draw(PAYMENTS),
        outcome=draw(st.none() | FLOAT),
        usable=draw(st.booleans()),
        problem=draw(TEXT),
        success=draw(st.booleans()),
    )
    score = replace(score, missing=draw(tuples(TEXT)))
    return replace(score, filled=replace(score, **draw(PAYMENTS))) if score.missing and draw(st.booleans()) else score


@st.composite
def steps(draw):
    groups = []
    for number in range(draw(st.integers(0, 2))):
        task = Task(id=draw(TEXT), env_id=draw(TEXT), prompt=draw(TEXT), split=draw(TEXT), question=draw(TEXT))
        size = draw(st.integers(1, 2))
        members = tuple(draw(trajectories(task, f"{number}/{sibling}")) for sibling in range(size))
        groups.append(ScoredGroup(task=task, trajectories=members, scores=tuple(draw(scores()) for _ in range(size))))
    return groups


def facts(group):
    """Everything in a group, with each score taken apart, since a score compares by identity."""
    return group.task, group.trajectories, [taken_apart(score) for score in group.scores]


def taken_apart(score):
    filled = score.filled and taken_apart(score.filled)
    paid = score.ledger, score.reward_T.dtype, score.reward_T.tobytes()
    return *paid, score.outcome, score.usable, score.problem, score.success, score.missing, filled


def turn(**changes):
    values = {
        "observation": Observation(text="a table", state_key="s0"),
        "context_ids": np.array([1, 2], np.int32),
        "completion": Completion(
            ids_K=np.array([3], np.int32),
            logprobs_K=np.array([-0.5], np.float32),
            ended_by=EndedBy.STOP,
            policy_version=7,
            text="go",
        ),
        "source": np.array([0, 0, 1], np.uint8),
        "action": Action(text="go"),
    }
    return Turn(**(values | changes))


def group(*names, task_id="t", outcome=1.0, **changes):
    task = Task(id=task_id, env_id="turngate/Lock-v1", prompt="open it")
    values = {"turns": (turn(),), "ending": Ending.FINISHED, "seed": 5}
    score = Score(
        ledger=(RewardEvent(name="opened", kind="outcome", turn=None, value=outcome or 0.0, weight=2.0),),
        reward_T=np.array([2.0], np.float32),
        outcome=outcome,
        usable=True,
    )
    members = tuple(Trajectory(id=name, task=task, **(values | changes)) for name in names)
    return ScoredGroup(task=task, trajectories=members, scores=(score,) * len(names))


# --- 1, 2: what comes back -------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scored=steps())
def test_what_was_written_comes_back_equal(tmp_path_factory, scored):
    store = Store(tmp_path_factory.mktemp("run"))
    store.write(3, scored)
    assert [facts(group) for group in store.read(3)] == [facts(group) for group in scored]


def test_every_token_array_keeps_its_dtype(tmp_path):
    Store(tmp_path).write(0, [group("a")])
    (back,) = Store(tmp_path).read()
    (only,) = back.trajectories[0].turns
    assert only.context_ids.dtype == np.int32
    assert only.completion.ids_K.dtype == np.int32
    assert only.completion.logprobs_K.dtype == np.float32
    assert only.source.dtype == np.uint8
    assert back.scores[0].reward_T.dtype == np.float32


def test_nan_and_infinite_logprobs_survive_bit_for_bit(tmp_path):
    logprobs = np.array([np.nan, -np.inf, -0.0, 1e-45], np.float32)
    completion = Completion(
        ids_K=np.arange(4, dtype=np.int32), logprobs_K=logprobs, ended_by=EndedBy.LENGTH, policy_version=1
    )
    spoken = turn(completion=completion, source=np.zeros(6, np.uint8))
    Store(tmp_path).write(0, [group("a", turns=(spoken,))])
    (back,) = Store(tmp_path).read()
    assert back.trajectories[0].turns[0].completion.logprobs_K.tobytes() == logprobs.tobytes()


def test_unmeasured_is_neither_zero_nor_nan(tmp_path):
    facts = (Evidence(name="x", value=None), Evidence(name="x", value=0), Evidence(name="x", value=0.1 + 0.2))
    Store(tmp_path).write(0, [group("a", outcome=None, evidence=facts)])
    (back,) = Store(tmp_path).read()
    assert back.scores[0].outcome is None
    assert [fact.value for fact in back.trajectories[0].evidence] == [None, 0, 0.30000000000000004]


def test_private_and_hints_never_reach_the_disk(tmp_path):
    secret, hint = "GOLD-4711", "HINT-4712"
    task = Task(id="t", env_id="e", prompt="p", private={"gold": secret, "n": [secret]}, hints=(hint,))
    plain = group("a")
    told = ScoredGroup(task=task, trajectories=(replace(plain.trajectories[0], task=task),), scores=plain.scores)
    Store(tmp_path).write(0, [told])
    # Decoded, because a compressed page would hide the bytes from a search of the file.
    (file,) = tmp_path.rglob("*.parquet")
    decoded = json.dumps(pq.read_table(file).to_pylist(), default=str)
    assert "open it" not in decoded
    assert '"p"' in decoded
    for word in (secret, hint):
        assert word not in decoded
        assert word.encode() not in file.read_bytes()
    (back,) = Store(tmp_path).read()
    assert back.task == Task(id="t", env_id="e", prompt="p")


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("turns", Turn),
        ("turns.observation", Observation),
        ("turns.completion", Completion),
        ("turns.action", Action),
        ("turns.action.calls", ToolCall),
        ("turns.guidance", Guidance),
        ("evidence", Evidence),
        ("guidance", Guidance),
        ("ledger", RewardEvent),
    ],
)
def test_a_field_added_to_a_type_has_to_be_stored(tmp_path, path, stored):
    Store(tmp_path).write(0, [group("a")])
    (file,) = tmp_path.rglob("*.parquet")
    names = path.split(".")
    here = pq.read_schema(file).field(names[0]).type
    for name in [*names[1:], None]:
        here = here.value_type if hasattr(here, "value_type") else here
        here = here.field(name).type if name else here
    assert {here.field(i).name for i in range(here.num_fields)} == {f.name for f in dataclasses.fields(stored)}


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.int64(3), r"np\.int64\(3\) of type int64"), ([b"raw"], "b'raw' of type bytes"), ({"a": {1}}, "of type set")],
)
def test_a_value_that_is_not_json_is_named(tmp_path, value, message):
    facts = (Evidence(name="x", value=value),)
    with pytest.raises(StoreError, match=f"{message} is not a JSON value"):
        Store(tmp_path).write(0, [group("a", evidence=facts)])
    assert Store(tmp_path).steps() == []


# --- steps, phases and ids -------------------------------------------------------------------------------------------


def test_steps_and_phases(tmp_path):
    store = Store(tmp_path)
    assert store.steps() == []
    assert store.last_step() is None
    assert list(store.read()) == []
    store.write(10, [group("b", "c", task_id="u"), group("d")])
    store.write(9, [group("a")])
    store.write(9, [group("e")], phase="eval-heldout")
    store.write(11, [], phase="eval-heldout")
    assert store.steps() == [9, 10]
    assert store.steps("eval-heldout") == [9, 11]
    assert store.steps(None) == [9, 10, 11]
    assert store.last_step() == 10
    assert [[t.id for t in g.trajectories] for g in store.read()] == [["e"], ["a"], ["b", "c"], ["d"]]
    assert [g.trajectories[0].id for g in store.read(phase="train")] == ["a", "b", "d"]
    assert [g.trajectories[0].id for g in store.read(9, "train")] == ["a"]
    assert list(store.read(11)) == []
    with pytest.raises(StoreError, match="has no step 12"):
        store.read(12)
    with pytest.raises(StoreError, match="has no step 10 of phase 'eval-heldout'"):
        store.read(10, "eval-heldout")


def test_a_phase_may_carry_the_name_of_a_split(tmp_path):
    store = Store(tmp_path)
    for phase in ("after-Dev.v2-greedy", "after-Dev"):
        store.write(1, [group(phase)], phase=phase)
    assert [g.trajectories[0].id for g in store.read(1, "after-Dev.v2-greedy")] == ["after-Dev.v2-greedy"]
    assert [g.trajectories[0].id for g in store.read(1, "after-Dev")] == ["after-Dev"]


def test_neighbouring_groups_of_one_task_stay_two_groups(tmp_path):
    store = Store(tmp_path)
    store.write(0, [group("a"), group("b")])
    assert [[t.id for t in g.trajectories] for g in store.read(0)] == [["a"], ["b"]]


def test_find(tmp_path):
    store = Store(tmp_path)
    store.write(1, [group("s1/a"), group("s1/b", "s1/c")])
    store.write(2, [group("s2/a")])
    step, found, index = store.find("s1/c")
    assert (step, index, found.trajectories[index].id) == (1, 1, "s1/c")
    with pytest.raises(UnknownName, match=r"unknown trajectory 's1/d'; did you mean 's1/"):
        store.find("s1/d")


@pytest.mark.parametrize(
    ("step", "phase", "scored", "message"),
    [
        (-1, "train", [], "step is -1"),
        (0, "../x", [], "phase '../x' does not fit"),
        (0, "train", [group("a", "a")], "id 'a' occurs 2 times in step 0"),
        (0, "train", [group("a"), group("b"), group("a")], "id 'a' occurs 2 times in step 0"),
        (0, "train", [group(task_id="lonely")], "task 'lonely' has no trajectories"),
    ],
)
def test_what_is_refused(tmp_path, step, phase, scored, message):
    with pytest.raises(StoreError, match=message):
        Store(tmp_path).write(step, scored, phase=phase)
    assert list(tmp_path.iterdir()) == []


# --- 3: other readers ------------------------------------------------------------------------------------------------


def test_duckdb_and_pandas_read_the_folder(tmp_path):
    store = Store(tmp_path)
    store.write(1, [group("a", "b", outcome=1.0), group("c", outcome=None)])
    store.write(2, [group("d", outcome=0.0)])
    files = f"{tmp_path}/trajectories/*/*.parquet"
    by_step = duckdb.sql(f"SELECT step::INT, count(*), avg(outcome) FROM '{files}' GROUP BY ALL ORDER BY ALL")
    assert by_step.fetchall() == [(1, 3, 1.0), (2, 1, 0.0)]
    nested = duckdb.sql(
        "SELECT turns[1].completion.ids_K, turns[1].observation.text, ledger[1].value, n_turns, ending, env_id, split, "
        f"phase, task_id, total, usable, seed, group_id, sibling FROM '{files}' WHERE trajectory_id = 'b'"
    )
    assert nested.fetchall() == [
        (
            *([3], "a table", 1.0, 1, "finished", "turngate/Lock-v1", "train"),
            *("train", "t", 2.0, True, 5, "000001/train/0", 1),
        )
    ]
    frame = pd.read_parquet(tmp_path / "trajectories")
    assert sorted(frame["trajectory_id"]) == ["a", "b", "c", "d"]
    assert frame.set_index("trajectory_id")["step"].astype(int).to_dict() == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert frame["outcome"].isna().sum() == 1


# --- 4: versions and damage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "found"), [({"schema_version": "99"}, "99"), ({"schema_version": "x"}, "x"), (None, "missing")]
)
def test_an_unknown_schema_version_is_named(tmp_path, metadata, found):
    store = Store(tmp_path)
    store.write(0, [group("a")])
    (file,) = tmp_path.rglob("*.parquet")
    assert pq.read_schema(file).metadata[b"schema_version"] == b"6"
    pq.write_table(pq.read_table(file, partitioning=None).replace_schema_metadata(metadata), file)
    with pytest.raises(StoreError, match=f"schema_version '{found}', this turngate reads 4, 5, 6"):
        list(store.read(0))
    with pytest.raises(StoreError, match=f"schema_version '{found}'"):
        store.find("a")


# Golden files: what earlier code wrote, never to be written again.
ABOUT_TURNS = (
    Evidence(name="parsed", value=True, turn=0),
    Evidence(name="tool", value="ls", turn=0),
    Evidence(name="parsed", value=False, turn=1),
    Evidence(name="tests_fixed", value=0.5, turn=0, by="verifier"),
    Evidence(name="tests_fixed", value=0.0, turn=1, by="verifier"),
    Evidence(name="won", value=True, by="verifier"),
)


def of_two_turns():
    """Two turns with facts, and a component of weight 0.1 that pays their mean, half of it."""
    made = group("a", turns=(turn(), turn()), evidence=ABOUT_TURNS)
    ledger = tuple(
        RewardEvent(
            name="parsed",
            kind="process",
            turn=at,
            value=1.0 - at,
            weight=0.1,
            share=0.5,
            factor=0.5,
            gate="cap_process(0.4)",
        )
        for at in (0, 1)
    )
    return replace(made, scores=(replace(made.scores[0], ledger=ledger),))


HINT = Guidance(kind="hint", level=2, text="red takes a", source="env", insert_turn=1, strip_for_train=True)


def helped(made):
    """The second turn begins with a hint, and its episode is compared with its siblings."""
    hint = replace(HINT, joins=True)
    first, second = made.trajectories[0].turns
    turns = (first, replace(second, guidance=hint))
    return replace(made, trajectories=(replace(made.trajectories[0], turns=turns, guidance=hint),))


def with_a_missing_verdict(made):
    """A success whose outcome is not 1, which is compared as if the second turn had been paid twice."""
    score = replace(made.scores[0], outcome=0.36, success=True, missing=("polite",))
    filled = replace(score, ledger=(score.ledger[1], *score.ledger), reward_T=np.array([2.5], np.float32))
    return replace(made, scores=(replace(score, filled=filled),))


def with_a_question(made):
    """The prompt of the task does not say what is asked."""
    task = replace(made.task, question="open it [é]")
    return replace(made, task=task, trajectories=(replace(made.trajectories[0], task=task),))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("v4", helped(of_two_turns())),
        ("v5", with_a_missing_verdict(of_two_turns())),  # a score says success, and what is missing
        ("v6", with_a_question(with_a_missing_verdict(of_two_turns()))),  # a task says what is asked
    ],
)
def test_every_version_stays_readable(tmp_path, name, written):
    folder = tmp_path / "trajectories" / "step=000000"
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[1] / "golden" / f"trajectories_{name}.parquet", folder / "train.parquet")
    (back,) = Store(tmp_path).read(0)
    assert facts(back) == facts(written)
    assert back.scores[0].ledger[0].paid == written.scores[0].ledger[0].paid
    assert back.trajectories[0].record().evidence == written.trajectories[0].evidence
    Store(tmp_path).write(1, [back])
    (again,) = Store(tmp_path).read(1)
    assert facts(again) == facts(back)


def test_a_damaged_file_is_named(tmp_path):
    store = Store(tmp_path)
    store.write(0, [group("a")])
    (file,) = tmp_path.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"train\.parquet cannot be read as Parquet"):
        list(store.read(0))
