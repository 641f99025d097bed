"""Scored groups become columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.rewards.gates.whole_kinds import cap_process, veto
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.pay_sources import successes
from turngate.trainer.credit.prorag import prorag
from turngate.trainer.credit.pure import pure
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.spa import spa
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
    TurnTable,
    derive_seed,
)

EMPTY = np.zeros(0, np.int32)
NAN = float("nan")


def trajectory(
    name: str, keys: Sequence[str], task: str = "t", level: int | None = None, env: str = "e", kind: str = "hint"
) -> Trajectory:
    turns = tuple(
        Turn(
            observation=Observation(text="", state_key=key),
            context_ids=EMPTY,
            completion=Completion(
                ids_K=EMPTY, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.SCRIPT, policy_version=0
            ),
            source=np.zeros(0, np.uint8),
            action=Action(text=""),
        )
        for key in keys
    )
    guidance = None if level is None else Guidance(kind=kind, level=level, text="h", source="task")
    whose = Task(id=task, env_id=env, prompt="p")
    return Trajectory(id=name, task=whose, turns=turns, ending=Ending.FINISHED, seed=0, guidance=guidance)


def score(*reward: float, ledger: tuple[RewardEvent, ...] = (), outcome: float = 1.0) -> Score:
    return Score(ledger=ledger, reward_T=np.array(reward, np.float32), outcome=outcome, usable=True)


def group(*pairs: tuple[Trajectory, Score]) -> ScoredGroup:
    trajectories, scores = zip(*pairs, strict=True)
    return ScoredGroup(task=trajectories[0].task, trajectories=trajectories, scores=scores)


def event(turn: int | None, value: float, kind: Any = "process", factor: float = 1.0) -> RewardEvent:
    return RewardEvent(name="n", kind=kind, turn=turn, value=value, weight=0.5, factor=factor)


def test_trajectories_lie_end_to_end():
    table = tabulate(
        [
            group((trajectory("a", ["", ""]), score(0, 1)), (trajectory("b", [""]), score(0, outcome=0.0))),
            group((trajectory("c", ["", "", ""], task="u"), score(0, 0.5, 0.25, outcome=0.75))),
        ]
    )
    assert table.reward_N.tolist() == [0, 1, 0, 0, 0.5, 0.25]
    assert table.traj_N.tolist() == [0, 0, 1, 2, 2, 2]
    assert table.index_N.tolist() == [0, 1, 0, 0, 1, 2]
    assert table.outcome_B.tolist() == [1, 0, 0.75]
    assert table.cohort_B.tolist() == [0, 0, 1]
    assert table.total_B.tolist() == [1, 0, 0.75]
    assert np.isnan(table.process_N).all()
    assert table.open_N.all()
    columns = {name: getattr(table, name) for name in table.__dataclass_fields__ if name != "measured"}
    assert {name: str(array.dtype) for name, array in (columns | table.measured).items()} == {
        "tokens_N": "int32",
        "surprisal_N": "float32",
        "parent_B": "int32",
        "branch_B": "int32",
        "act_N": "int64",
        "won_B": "bool",
        "said_N": "int64",
        "settled_B": "float32",
        "process_paid_N": "float32",
        "unplaced_B": "float32",
        "reward_N": "float32",
        "process_N": "float32",
        "open_N": "bool",
        "traj_N": "int32",
        "index_N": "int32",
        "state_N": "int64",
        "outcome_B": "float32",
        "cohort_B": "int32",
    }


def test_tokens_surprisal_and_branches_are_measured():
    def with_tokens(made: Trajectory, *logprobs: list[float], parent: tuple[str, int] | None = None) -> Trajectory:
        turns = tuple(
            replace(
                turn,
                completion=replace(
                    turn.completion, ids_K=np.zeros(len(values), np.int32), logprobs_K=np.array(values, np.float32)
                ),
                source=np.full(len(values), Source.POLICY, np.uint8),
            )
            for turn, values in zip(made.turns, logprobs, strict=True)
        )
        return replace(made, turns=turns, parent=parent)

    stem = with_tokens(trajectory("a", ["", ""]), [-1.0, -2.0], [])
    branch = with_tokens(trajectory("b", ["", ""]), [-1.0, -2.0], [-0.5], parent=("a", 1))
    orphan = with_tokens(trajectory("c", [""]), [-3.0], parent=("not in the batch", 4))
    measured = tabulate([group((stem, score(0, 1)), (branch, score(0, 0)), (orphan, score(0)))]).measured
    assert measured["tokens_N"].tolist() == [2, 0, 2, 1, 1]
    assert np.array_equal(measured["surprisal_N"], np.array([1.5, np.nan, 1.5, 0.5, 3.0], np.float32), equal_nan=True)
    assert measured["parent_B"].tolist() == [-1, 0, -1]
    assert measured["branch_B"].tolist() == [0, 1, 0]


def test_cohorts_are_task_and_kind_and_level_of_guidance_and_unguided_is_its_own():
    helped: list[tuple[str, int | None, str]] = [
        ("t", None, ""),
        ("t", 0, "hint"),
        ("t", 2, "hint"),
        ("u", 0, "hint"),
        ("t", None, ""),
        ("t", 2, "hint"),
        ("u", None, ""),
        ("t", 2, "prefix"),
    ]
    played = [trajectory(str(i), [""], task, level, kind=kind) for i, (task, level, kind) in enumerate(helped)]
    assert tabulate([group((one, score(0))) for one in played]).cohort_B.tolist() == [0, 1, 2, 3, 0, 2, 4, 5]


def verdict(turn: int | None, value: float, weight: float = 0.5, *, factor: float = 1.0, share: float = 1.0) -> Any:
    return RewardEvent(name="n", kind="process", turn=turn, value=value, weight=weight, share=share, factor=factor)


def columns_of(n_turns: int, *ledger: RewardEvent) -> TurnTable:
    return tabulate([group((trajectory("a", [""] * n_turns), score(*[0.0] * n_turns, ledger=ledger)))])


def test_process_is_the_mean_verdict_in_its_own_units():
    """Neither the weight, nor the share of it, nor a part payment changes what was said of a turn."""
    table = columns_of(
        5,
        event(None, 8.0, "outcome"),
        event(0, -4.0, "penalty", factor=0.0),
        verdict(1, 1.0, factor=0.25, share=0.125),
        verdict(1, 0.5),
        verdict(2, 1.0, weight=0.3),  # of weights 0.3 and 0.1: (0.3 · 1 + 0.1 · 0) / 0.4
        verdict(2, 0.0, weight=0.1),
        verdict(3, 0.8, weight=-0.1),  # a charge: −0.8 of weight 0.1, beside 0.4 of weight 0.3
        verdict(3, 0.4, weight=0.3),
        verdict(4, 0.7, weight=0.0),  # weighs nothing, says nothing
        verdict(None, 2.0),
    )
    np.testing.assert_allclose(table.process_N, [NAN, 0.75, 0.75, 0.1, NAN], atol=1e-7)
    assert table.open_N.all()
    np.testing.assert_allclose(table.measured["process_paid_N"], [0, 0.265625, 0.3, 0.04, 0], atol=1e-7)


def test_a_turn_is_closed_only_if_gates_closed_every_verdict_on_it():
    table = columns_of(
        4,
        verdict(0, 1.0, factor=0.0),
        verdict(0, 0.25),
        verdict(1, 1.0, factor=0.0),
        verdict(1, 0.5, weight=1.5, factor=0.0),
        verdict(2, 1.0, weight=0.0),
        verdict(2, 0.5, factor=0.0),
    )
    np.testing.assert_allclose(table.process_N, [0.25, 0.625, 0.5, NAN], atol=1e-7)
    assert table.open_N.tolist() == [True, False, False, True]
    np.testing.assert_allclose(table.measured["process_paid_N"], [0.125, 0, 0, 0], atol=1e-7)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 2),
            st.sampled_from([-1.0, 0.0, 0.25, 1.0]),
            st.sampled_from([-0.5, 0.0, 0.1, 2.0]),
            st.sampled_from([0.0, 0.5, 1.0]),
            st.sampled_from([1.0, 0.2]),
        ),
        max_size=9,
    )
)
def test_verdicts_against_plain_loops(lines: list[Any]):
    table = columns_of(3, *[verdict(t, v, w, factor=f, share=s) for t, v, w, f, s in lines])
    for t in range(3):
        about = [(v if w > 0 else -v, abs(w), factor) for turn, v, w, factor, _ in lines if turn == t and w]
        chosen = [line for line in about if line[2]] or about
        assert table.open_N[t] == (not about or any(factor for *_, factor in about))
        if not about:
            assert np.isnan(table.process_N[t])
        else:
            mean = np.average([v for v, *_ in chosen], weights=[w for _, w, _ in chosen])
            assert table.process_N[t] == pytest.approx(mean, abs=1e-6)


def test_a_verdict_on_a_turn_that_was_not_played_is_refused():
    with pytest.raises(ShapeError, match="'n' of trajectory 'a' is a verdict on turn 2; it has 2 turns"):
        columns_of(2, verdict(2, 1.0))


RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0),
        FromEvidence(name="step", evidence="step", kind="process", weight=0.5, per_turn=True),
        FromEvidence(name="waste", evidence="waste", kind="penalty", weight=-0.25, per_turn=True),
    ),
    gates=(veto("wrote", floor=-1.0), cap_process(0.4)),
)


def played(name: str, *, solved: float, steps: Sequence[float], wrote: bool = False, waste: float = 0.0) -> Trajectory:
    made = trajectory(name, [""] * len(steps))
    facts = [Evidence(name="step", value=value, turn=t) for t, value in enumerate(steps)]
    facts += [Evidence(name="waste", value=waste, turn=0)] if waste else []
    facts += [Evidence(name="wrote", value=True, turn=0)] if wrote else []
    return replace(made, evidence=(*facts, Evidence(name="solved", value=solved)))


def judged() -> list[ScoredGroup]:
    """Failed; solved, with a capped process and a penalty; solved by a forbidden act."""
    siblings = (
        played("failed", solved=0.0, steps=[0.0, 1.0]),
        played("solved", solved=1.0, steps=[1.0, 1.0], waste=1.0),
        played("cheat", solved=1.0, steps=[1.0, 1.0], wrote=True),
    )
    return [RUBRIC.score_group(Group(task=siblings[0].task, trajectories=siblings))]


def test_settled_is_what_was_paid_beside_the_process():
    """Outcome after gates, penalties and the floor of a veto; together with the paid process it is the total."""
    table = tabulate(judged())
    assert table.outcome_B.tolist() == [0, 1, 1]
    np.testing.assert_allclose(table.measured["settled_B"], [0, 0.75, -1], atol=1e-6)
    np.testing.assert_allclose(table.total_B - table.measured["settled_B"], [0.25, 0.4, 0], atol=1e-6)


@pytest.mark.parametrize("rule", [sag, pure, spa, prorag], ids=lambda rule: rule.__name__)
def test_from_evidence_to_credit_a_vetoed_cheat_is_worse_than_a_failure(rule: Any):
    table = tabulate(judged())
    table = replace(table, measured={**table.measured, "tokens_N": np.full(6, 3, np.int32)})
    failed, solved, cheat = rule(table).reshape(3, 2).sum(1)
    assert cheat < 0
    assert cheat < failed < solved


def test_a_verdict_of_zero_is_a_verdict():
    table = tabulate([group((trajectory("a", ["", ""]), score(0, 0, ledger=(event(0, 0.0),))))])
    assert table.process_N[0] == 0.0
    assert np.isnan(table.process_N[1])


def test_states_are_equal_where_keys_are_and_the_same_in_every_run():
    table = tabulate(
        [
            group((trajectory("a", ["x", "y", "x", ""]), score(0, 0, 0, 0))),
            group((trajectory("b", ["x"], task="u"), score(0))),
            group((trajectory("c", ["x"], task="v", env="other"), score(0))),
        ]
    )
    x, y, again, unknown, elsewhere, foreign = table.state_N.tolist()
    assert x == again == elsewhere == derive_seed("state", "e", "x")
    assert len({x, y, foreign}) == 3
    assert unknown == -1
    assert min(x, y, foreign) >= 0


def test_no_groups_make_an_empty_table():
    table = tabulate([])
    assert (table.n_turns, table.n_trajectories) == (0, 0)


BAD = Score(
    ledger=(), reward_T=np.zeros(1, np.float32), outcome=None, usable=False, problem="evidence 'won' is missing"
)


@pytest.mark.parametrize(
    ("keys", "bad", "match"),
    [
        ([""], BAD, r"'odd' has no usable score \(evidence 'won' is missing\)"),
        ([""], Score(ledger=(), reward_T=np.zeros(1, np.float32), outcome=None, usable=True), "no outcome"),
        (["", ""], score(1), r"reward_T of trajectory 'odd' is \(1,\), expected \(2,\)"),
    ],
)
def test_what_cannot_be_credited_is_refused_by_name(keys: list[str], bad: Score, match: str):
    with pytest.raises(ShapeError, match=match):
        tabulate([group((trajectory("fine", [""]), score(1)), (trajectory("odd", keys), bad))])


def test_a_success_is_the_rubrics_unless_a_gate_took_its_payment():
    """rlcr pays a right answer with confidence 0.2 only 0.36; a veto closes what a cheat was paid."""
    won = RewardEvent(name="won", kind="outcome", turn=None, value=0.36, weight=1.0)
    closed = RewardEvent(name="won", kind="outcome", turn=None, value=1.0, weight=1.0, factor=0.0, gate="veto(x)")
    made = [
        replace(score(0.36, ledger=(won,), outcome=0.36), success=True),
        replace(score(0.36, ledger=(won,), outcome=0.36), success=False),
        score(0.0, ledger=(closed,), outcome=1.0),
        score(1.0, outcome=1.0),
    ]
    table = tabulate([group(*((trajectory(str(row), [""]), one) for row, one in enumerate(made)))])
    assert table.measured["won_B"].tolist() == successes(table, None).tolist() == [True, False, False, True]
    assert successes(table, 0.5).tolist() == [False, False, False, True]
