"""What happens where there is nothing to compare: the policy for degenerate cases, one test each.

1. a group of one 2. no variance in the group 3. no verdict anywhere 4. some verdicts missing 5. a gate that never opens
6. an episode without turns 7. episodes of different length 8. an episode that was cut short 9. NaN or infinite rewards

The policy for credit by turns is tested in ``trainer/credit``; here are rubrics.
"""

import math
from typing import Any

import numpy as np
import pytest

from turngate.rewards import (
    FromEvidence,
    Rubric,
    Trust,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.rewards.columns import alike
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Observation,
    Record,
    Score,
    Task,
    Trajectory,
    Turn,
)

NAN = math.nan
WON = FromEvidence(name="won", evidence="won", kind="outcome")
STEP = FromEvidence(name="step", evidence="step", per_turn=True, weight=0.5)
JUDGED = FromEvidence(name="judged", evidence="judged", weight=0.3)


def record(won: Any, steps: Any = (), n_turns: int | None = None, ending: Ending = Ending.FINISHED) -> Record:
    facts = [Evidence(name="step", value=value, turn=turn) for turn, value in enumerate(steps)]
    facts += [Evidence(name="won", value=won), Evidence(name="judged", value=0.5)]
    length = len(steps) if n_turns is None else n_turns
    return Record(task_id="t", n_turns=length, ending=ending, evidence=tuple(facts))


def bits(score: Score) -> Any:
    return score.ledger, score.reward_T.tolist(), score.outcome, score.usable


def test_1_a_group_of_one_is_scored_and_has_nothing_to_stand_out_from():
    rubric = Rubric(rewards=(WON, STEP), gates=(needs_outcome(0.5),))
    assert bits(rubric.score_records([record(1, [1, 0])])[0]) == bits(rubric.score(record(1, [1, 0])))
    trusting = Rubric(rewards=(WON, JUDGED), gates=(Trust(on="judged"),))
    assert trusting.score_records([record(1)])[0].total == 1.0  # a judge that agrees with nobody is not paid
    assert rubric.score_records([]) == ()


def test_2_equal_rewards_are_exactly_at_their_mean_and_marked():
    values = np.full(12, 0.9, np.float32)
    assert values.mean() != values[0]
    assert alike(values.min(), values.max(), values.mean())


def test_3_without_any_verdict_process_is_nothing_and_the_outcome_is_untouched():
    rubric = Rubric(rewards=(WON, STEP), gates=(needs_outcome(0.5), cap_process(0.1)))
    score = rubric.score(record(1, [None, None]))
    assert [event.name for event in score.ledger] == ["won"]
    assert (score.outcome, score.total, score.usable) == (1.0, 1.0, True)


def test_4_a_missing_verdict_is_left_out_of_mean_std_and_sum():
    rubric = Rubric(rewards=(WON, STEP))
    assert rubric.score(record(1, [1, None, 0])).total == pytest.approx(1 + 0.5 * (1 + 0) / 2)


def test_5_a_gate_that_never_opens_pays_nothing_and_its_account_says_so():
    rubric = Rubric(rewards=(WON, STEP), gates=(requires("ok", on="step"), needs_outcome(0.5)))
    scores = rubric.score_records([record(won, [1, 1]) for won in (1, 0, 0)])
    assert [score.total for score in scores] == [1.0, 0.0, 0.0]
    account = rubric.account(scores)
    assert account["requires(ok, on=step)"].open_rate == 0.0
    assert account["requires(ok, on=step)"].raw == pytest.approx(1.5)
    assert account["needs_outcome(0.5)"].open_rate is None  # nothing reached it, which is not "always closed"


def test_6_an_episode_without_turns_counts_in_the_ledger_and_among_its_siblings():
    rubric = Rubric(rewards=(WON, STEP), gates=(needs_outcome(0.5), veto("wrote")))
    score = rubric.score(record(1, n_turns=0))
    assert (score.reward_T.shape, score.total, score.outcome, score.usable) == ((0,), 1.0, 1.0, True)
    trusting = Rubric(rewards=(WON, JUDGED), gates=(Trust(on="judged", open_from=0.0),))
    empty, other = trusting.score_records([record(1, n_turns=0), record(0, [1])])
    assert empty.total == pytest.approx(1.15)  # the sibling makes the comparison possible, and the other way round
    assert other.total == pytest.approx(0.15)


@pytest.mark.parametrize(("agg", "grows"), [("mean", False), ("last", False), ("min", False), ("sum", True)])
def test_7_only_sums_grow_with_the_length_and_the_check_says_so(agg: Any, grows: bool):
    rubric = Rubric(rewards=(WON, STEP.model_copy(update={"agg": agg})))
    totals = [rubric.score(record(0, [1] * n)).total for n in (1, 8, 64)]
    assert totals == pytest.approx([0.5, 4.0, 32.0] if grows else [0.5] * 3)
    assert rubric.check()["I3"].holds is not grows


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending.truncated])
def test_8_cut_short_is_no_failure_and_keeps_what_it_earned(ending: Ending):
    rubric = Rubric(rewards=(WON, STEP))
    assert bits(rubric.score(record(1, [1, 0], ending=ending))) == bits(rubric.score(record(1, [1, 0])))
    unknown = rubric.score(record(None, [1, 0], ending=ending))
    assert (unknown.usable, unknown.outcome) == (False, None)  # not measured is not failed


def played(name: str, task: Task, values: list[float], won: float) -> Trajectory:
    empty = np.zeros(0, np.int32)
    said = Completion(ids_K=empty, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.SCRIPT, policy_version=0)
    turn = Turn(
        observation=Observation(text=""),
        context_ids=empty,
        completion=said,
        source=np.zeros(0, np.uint8),
        action=Action(text=""),
    )
    facts = [Evidence(name=n, value=value, turn=index) for index, value in enumerate(values) for n in ("step", "ok")]
    facts.append(Evidence(name="won", value=won))
    turns = (turn,) * len(values)
    return Trajectory(id=name, task=task, turns=turns, ending=Ending.FINISHED, seed=0, evidence=tuple(facts))


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["step", "won"])
def test_9_a_reward_that_is_no_number_raises_with_component_trajectory_and_turn(bad: float, where: str):
    task = Task(id="t/1", env_id="e", prompt="")
    good = played("a", task, [1, 1], won=1)
    broken = played("b", task, [1, bad if where == "step" else 1], won=bad if where == "won" else 1)
    place = "turn 1" if where == "step" else "whole episode"
    words = rf"evidence '{where}' of task 't/1', trajectory 'b', {place}, which '{where}' reads, is {bad}"
    with pytest.raises(ValueError, match=words):
        Rubric(rewards=(WON, STEP)).score_group(Group(task=task, trajectories=(good, broken)))


def test_9_a_gate_that_reads_no_number_raises_too():
    task = Task(id="t/1", env_id="e", prompt="")
    odd = played("b", task, [NAN], won=1)
    words = r"evidence 'ok' of task 't/1', trajectory 'b', turn 0, which 'requires\(ok, on=judged\)' reads, is nan"
    with pytest.raises(ValueError, match=words):
        Rubric(rewards=(WON, JUDGED), gates=(requires("ok", on="judged"),)).score_group(
            Group(task=task, trajectories=(odd,))
        )
