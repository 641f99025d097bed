"""Siblings that begin alike are one node: from trajectories through ``tabulate`` to TEMPO and λ-GRPO. ddof 1, eps 0."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.batch.shared_turns import merged_share, shared_columns
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.lambda_grpo import lambda_grpo
from turngate.trainer.credit.per_token import lambda_grpo_tokens
from turngate.trainer.credit.tempo import tempo
from turngate.trainer.credit.tree import grow
from turngate.trainer.signals.base import played_of
from turngate.trainer.signals.similar import SharedTokens, SimilarStates
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Observation,
    Score,
    ScoredGroup,
    Source,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    TurnTable,
)

TASK = Task(id="t", env_id="e", prompt="p")


def turn(said: str, *, key: str = "", seen: str = "", call: str = "") -> Turn:
    """The ids of a turn are the characters of what was said; one token of context shows what was seen."""
    ids = np.array([ord(letter) for letter in said], np.int32)
    context = np.array([1000 + sum(map(ord, seen))], np.int32)
    calls = (ToolCall(name="go", arguments={"to": call}),) if call else ()
    return Turn(
        observation=Observation(text=seen, state_key=key),
        context_ids=context,
        completion=Completion(
            ids_K=ids, logprobs_K=np.full(len(ids), -1.0, np.float32), ended_by=EndedBy.STOP, policy_version=0
        ),
        source=np.array([Source.CONTEXT] + [Source.POLICY] * len(ids), np.uint8),
        action=Action(text=said, calls=calls),
    )


def scored(*episodes: tuple[float, list[Turn]]) -> ScoredGroup:
    trajectories = tuple(
        Trajectory(id=str(index), task=TASK, turns=tuple(turns), ending=Ending.FINISHED, seed=0)
        for index, (_, turns) in enumerate(episodes)
    )
    scores = tuple(
        Score(ledger=(), reward_T=np.array([0.0] * (len(turns) - 1) + [paid], np.float32), outcome=paid, usable=True)
        for paid, turns in episodes
    )
    return ScoredGroup(task=TASK, trajectories=trajectories, scores=scores)


def worked(thoughts: bool = False) -> TurnTable:
    """R = 1, 1, 0, 0; all share turn 1, then the first two go to a, the others to b. Everybody may think aloud."""
    episodes = []
    for index, (paid, way) in enumerate([(1.0, "a"), (1.0, "a"), (0.0, "b"), (0.0, "b")]):
        thought = f"thought {index}: " if thoughts else ""
        first = turn(thought + "look", key="hall", call="look")
        episodes.append((paid, [first, turn(thought + way, key="door", seen="a door", call=way)]))
    return tabulate([scored(*episodes)])


@pytest.mark.parametrize("merge", ["tokens", "action_observation"])
def test_the_worked_merge(merge: Any):
    table = worked()
    z = 0.866025
    assert tempo(table, merge=merge, eps=0.0).tolist() == near([z, 1.732051, z, 1.732051, -z, -1.732051, -z, -1.732051])
    undivided = tempo(table, merge=merge, scale_td=False, eps=0.0)
    assert undivided.tolist() == near([z, 1.366025, z, 1.366025, -z, -1.366025, -z, -1.366025])
    weighed = lambda_grpo(table, merge=merge, eps=0.0)
    assert weighed.tolist() == near([z / 4, z / 2, z / 4, z / 2, -z / 4, -z / 2, -z / 4, -z / 2])
    assert merged_share(table, merge) == 1.0


def test_without_merge_it_is_grpo():
    table = worked()
    assert tempo(table, merge="recorded", eps=0.0).tolist() == near([0.866025] * 4 + [-0.866025] * 4)
    assert merged_share(table, "recorded") == 0.0


def test_free_thoughts_never_coincide_but_what_was_done_does():
    table = worked(thoughts=True)
    assert merged_share(table, "tokens") == 0.0
    assert tempo(table, eps=0.0).tolist() == near(grpo(table, eps=0.0).tolist())
    assert merged_share(table, "action_observation") == 1.0
    np.testing.assert_array_equal(tempo(table, merge="action_observation"), tempo(worked(), merge="action_observation"))


def test_the_share_counts_nodes():
    """Four siblings share a turn and go their own ways: one node of five."""
    episodes = [(float(way == "a"), [turn("look"), turn(way)]) for way in "abcd"]
    assert merged_share(tabulate([scored(*episodes)]), "tokens") == pytest.approx(0.2)


def test_who_parted_once_never_meets_again():
    episodes = [(1.0, [turn("a"), turn("c")]), (0.0, [turn("b"), turn("c")])]
    assert merged_share(tabulate([scored(*episodes)]), "tokens") == 0.0


def test_other_states_other_arguments_and_other_tasks_are_not_alike():
    one = turn("x", key="s", call="a")
    others = [
        replace(one, observation=Observation(text="", state_key="z")),
        replace(one, action=Action(text="x", calls=(ToolCall(name="go", arguments={"to": "b"}),))),
        replace(one, action=Action(text="x")),
        replace(one, observation=Observation(text="s")),
    ]
    acts = shared_columns([Trajectory(id="", task=TASK, turns=(one, *others), ending=Ending.FINISHED, seed=0)])["act_N"]
    assert len(set(acts.tolist())) == 5
    assert (acts >= 0).all()
    group = scored((1.0, [turn("a")]), (0.0, [turn("b")]))
    other = replace(
        group,
        task=replace(TASK, id="u"),
        trajectories=tuple(replace(one, task=replace(TASK, id="u")) for one in group.trajectories),
    )
    table = tabulate([group, other])
    assert table.measured["said_N"][0] == table.measured["said_N"][2]
    assert merged_share(table, "tokens") == 0.0


def test_the_context_belongs_to_what_was_said():
    same, moved = turn("ab"), replace(turn("ab"), context_ids=np.array([7], np.int32))
    whole = Trajectory(id="", task=TASK, turns=(same, same, moved), ending=Ending.FINISHED, seed=0)
    said = shared_columns([whole])["said_N"].tolist()
    assert said[0] == said[1] != said[2]


PATHS = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(-1, 2), max_size=4)), min_size=1, max_size=8)


@given(PATHS)
@settings(max_examples=40)
def test_nodes_are_equal_prefixes(paths: list[tuple[int, list[int]]]):
    """Also with trajectories without turns; a label below 0 is like no other."""
    rows = [labels for _, labels in paths]
    n = sum(map(len, rows))
    if not n:
        return
    cohorts: dict[int, int] = {}
    table = TurnTable(
        reward_N=np.zeros(n, np.float32),
        process_N=np.zeros(n, np.float32),
        open_N=np.ones(n, np.bool_),
        traj_N=np.repeat(np.arange(len(rows), dtype=np.int32), [len(row) for row in rows]),
        index_N=np.array([t for row in rows for t in range(len(row))], np.int32),
        state_N=np.full(n, -1, np.int64),
        outcome_B=np.zeros(len(rows), np.float32),
        cohort_B=np.array([cohorts.setdefault(cohort, len(cohorts)) for cohort, _ in paths], np.int32),
        measured={"said_N": np.array([label for row in rows for label in row], np.int64)},
    )
    keys = [
        (cohort, *((label, 0) if label >= 0 else (label, i) for label in row[: t + 1]))
        for i, (cohort, row) in enumerate(paths)
        for t in range(len(row))
    ]
    tree = grow(table, "test", "tokens")
    assert len(set(zip(keys, tree.node_N.tolist(), strict=True))) == len(set(keys)) == tree.n_nodes
    assert tree.visits_G[tree.node_N].tolist() == [keys.count(key) for key in keys]


def test_a_branched_rollout_shares_its_tokens():
    root = [turn("a"), turn("b"), turn("c")]
    group = scored((1.0, root), (0.0, [*root[:2], turn("d")]), (0.0, [turn("e")]))
    branched = replace(
        group,
        trajectories=(group.trajectories[0], replace(group.trajectories[1], parent=("0", 2)), group.trajectories[2]),
    )
    table = tabulate([branched])
    for rule in (tempo, lambda_grpo):
        np.testing.assert_allclose(rule(table, merge="tokens"), rule(table, merge="recorded"), atol=1e-6)


@pytest.mark.parametrize("rule", [tempo, lambda_grpo])
def test_what_cannot_be_merged_is_refused(rule: Any):
    table = worked()
    with pytest.raises(
        ConfigError, match="merge is 'thoughts'; it must be one of: recorded, action_observation, tokens"
    ):
        rule(table, merge="thoughts")
    bare = replace(table, measured={name: c for name, c in table.measured.items() if name != "act_N"})
    with pytest.raises(ShapeError, match=f"{rule.__name__} needs column 'act_N'"):
        rule(bare, merge="action_observation")
    odd = replace(table, measured={**table.measured, "said_N": np.zeros(8)})
    with pytest.raises(ShapeError, match="said_N has dtype float64"):
        rule(odd)


# --- signals that compare siblings -----------------------------------------------------------------------------------


def with_signal(group: ScoredGroup, signal: Any) -> TurnTable:
    table = tabulate([group])
    played = played_of([group], table)
    columns = {**table.measured, "turn_S": played.turn_S, **signal.measure(played).columns}
    return replace(table, measured=columns)


def test_tokens_that_siblings_share_count_once():
    """Two of four agree on five tokens: they weigh ½ there; the environment's reply belongs to what must agree."""
    group = scored(
        (1.0, [turn("abcdefg")]), (0.0, [turn("abcdeh")]), (0.0, [turn("xbc")]), (0.0, [turn("abcdefg", seen="?")])
    )
    table = with_signal(group, SharedTokens())
    assert table.measured["sharing_S"].tolist() == [2] * 5 + [1, 1] + [2] * 5 + [1] + [1] * 3 + [1] * 7
    credit = lambda_grpo_tokens(table, eps=0.0)
    assert credit.advantage_S[:7].tolist() == near([0.75] * 5 + [1.5] * 2)
    assert credit.advantage_S[7:13].tolist() == near([-0.25] * 5 + [-0.5])
    half = lambda_grpo_tokens(table, std=False)
    np.testing.assert_allclose(half.advantage_S, credit.advantage_S / 2, atol=1e-6)
    with pytest.raises(ShapeError, match="sharing_S holds 0"):
        lambda_grpo_tokens(replace(table, measured={**table.measured, "sharing_S": np.zeros(23)}))
    with pytest.raises(ConfigError, match="lambda_grpo_tokens needs eps"):
        lambda_grpo_tokens(table, eps=-1.0)


def test_states_that_are_nearly_the_same_text_are_one_anchor():
    words = [f"word{n}" for n in range(20)]
    seen = [" ".join(words), " ".join([*words[:19], "other"]), "something else", ""]
    group = scored(*((float(index == 0), [turn("x", seen=text)]) for index, text in enumerate(seen)))
    table = with_signal(group, SimilarStates())
    similar = table.measured["similar_N"]
    assert similar[0] == similar[1] != similar[2]
    assert similar[3] == -1
    step = gigpo(table, anchors="similar") - grpo(table, std=False)
    assert step.tolist() == near([0.5, -0.5, 0, 0])
    apart = with_signal(group, SimilarStates(threshold=1.0)).measured["similar_N"]
    assert apart[0] != apart[1]
    letters = with_signal(group, SimilarStates(threshold=0.9, unit="characters")).measured["similar_N"]
    assert letters[0] == letters[1]
