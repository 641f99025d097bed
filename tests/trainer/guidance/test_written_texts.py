"""What models write for guides, as it is read; and what they are shown."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges.examiners.episodes import episode, task
from turngate.judges.texts import Fault
from turngate.rewards import NeedsOutcome, Rubric
from turngate.rewards.rubric import FromEvidence
from turngate.trainer.auxiliary.base import AuxiliaryRow, AuxiliaryRows
from turngate.trainer.auxiliary.learning import packed_auxiliary
from turngate.trainer.auxiliary.lessons import validated
from turngate.trainer.guidance.hindsight import Hindsight, HindsightPart, best_drafts, hindsight_bonus
from turngate.trainer.guidance.meta_experience import bifurcation, contrast, read_lesson
from turngate.trainer.guidance.pilot import read_plan
from turngate.trainer.guidance.self_hints import read_levels
from turngate.trainer.guidance.self_reflection import SelfReflection, read_reflection
from turngate.trainer.guidance.transcripts import begun, facts_of, prompt_of, steps_of, verdict_names
from turngate.types import Evidence, Guidance, Observation, Record, RewardEvent, Score, ScoredGroup


def played(actions, states=None, **options):
    """An episode in which the environment shows ``states`` before the actions, by default what was done so far."""
    one = episode(list(actions), **options)
    keys = states if states is not None else ["start " + " ".join(actions[:turn]) for turn in range(len(actions))]
    turns = [
        replace(turn, observation=Observation(text="what now?", state_key=key))
        for turn, key in zip(one.turns, keys, strict=True)
    ]
    return replace(one, turns=tuple(turns))


def scored(*pairs):
    """A group of (trajectory, outcome)."""
    scores = [
        Score(ledger=(), reward_T=np.zeros(len(one.turns), np.float32), outcome=outcome, usable=outcome is not None)
        for one, outcome in pairs
    ]
    return ScoredGroup(task=task(), trajectories=tuple(one for one, _ in pairs), scores=tuple(scores))


# --- MEL -------------------------------------------------------------------------------------------------------------


def test_the_worked_number_of_mel():
    assert bifurcation(played("abc"), played("abd")) == 2


@pytest.mark.parametrize(
    ("one", "other", "turn"),
    [
        (played("abc"), played("xbc"), 0),
        (played("abc"), played("abc"), None),
        (played("ab"), played("abc"), 2),  # one ended, the other went on
        (played("abc", ["s", "t", "u"]), played("abd", ["s", "x", "u"]), None),  # the environment answered differently
        (played("abc", ["", "", ""]), played("abd", ["", "", ""]), None),  # states are not known
    ],
)
def test_two_episodes_part_where_they_did_something_else_in_the_same_state(one, other, turn):
    assert bifurcation(one, other) == bifurcation(other, one) == turn


@given(st.text("ab", min_size=1, max_size=5), st.text("ab", min_size=1, max_size=5))
def test_parting_is_the_first_difference_of_the_actions(one, other):
    """Brute force: where the state is what was done so far, it is the length of the common prefix."""
    common = next((n for n in range(min(len(one), len(other))) if one[n] != other[n]), None)
    expected = common if common is not None else None if one == other else min(len(one), len(other))
    assert bifurcation(played(one), played(other)) == expected


def test_the_pair_that_parts_latest_is_compared():
    bad, better, good = played("xbc", name="t#0"), played("abd", name="t#1"), played("abc", name="t#2")
    assert contrast(scored((bad, 0.0), (better, 0.0), (good, 1.0))) == (2, 1)
    assert contrast(scored((bad, 0.0), (better, 0.0))) is None
    assert contrast(scored((good, 1.0), (bad, None))) is None  # unusable
    helped = replace(bad, guidance=Guidance(kind="hint", level=1, text="", source="env"))
    assert contrast(scored((good, 1.0), (helped, 0.0))) is None


# --- replies ---------------------------------------------------------------------------------------------------------


def test_a_lesson_has_at_most_forty_words():
    assert read_lesson('{"critique": "…", "lesson": " When  stuck, look. "}') == "When stuck, look."
    for bad in ("look", "{}", '{"lesson": ""}', '{"lesson": 3}', json.dumps({"lesson": "word " * 41})):
        assert isinstance(read_lesson(bad), Fault)


def test_a_plan_has_one_to_eight_steps():
    assert read_plan('{"plan": [" look  up ", "answer"]}') == ["look up", "answer"]
    assert read_plan(json.dumps({"plan": ["step"] * 8})) == ["step"] * 8
    for bad in ([], ["step"] * 9, ["step", 3], ["step", " "], "step"):
        assert isinstance(read_plan(json.dumps({"plan": bad})), Fault)


def test_hints_have_three_levels_of_which_some_may_be_empty():
    assert read_levels('{"level_1": "a", "level_2": "", "level_3": "c  d"}') == ["a", "", "c d"]
    for bad in ({}, {"level_1": "", "level_2": "", "level_3": ""}, {"level_1": 1, "level_2": "b", "level_3": "c"}):
        assert isinstance(read_levels(json.dumps(bad)), Fault)


# --- PilotRL ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "gated", "total"), [(1, False, 1.3), (1, True, 1.3), (0, False, 0.3), (0, True, 0)]
)
def test_the_worked_number_of_pilot(outcome, gated, total):
    """Outcome 1, adherence .6, weights 1 and .5."""
    rubric = Rubric(
        rewards=(
            FromEvidence(name="solved", evidence="solved", kind="outcome", levels=(0, 1)),
            FromEvidence(name="adherence", evidence="adherence", weight=0.5, per_turn=True),
        ),
        gates=(NeedsOutcome(at_least=1.0),) if gated else (),
    )
    facts = [Evidence(name="adherence", value=value, turn=turn) for turn, value in enumerate((1, 1, 1, 0, 0))]
    one = replace(played("abcde"), evidence=(*facts, Evidence(name="solved", value=outcome)))
    assert isinstance(one.record(), Record)
    assert rubric.score(one.record()).total == pytest.approx(total)


# --- what a writer is shown ------------------------------------------------------------------------------------------


def event(name, value, *, kind="process", turn=None, weight=1.0):
    return RewardEvent(name=name, kind=kind, turn=turn, value=value, weight=weight)


def test_a_writer_is_shown_turns_and_verdicts_as_data():
    one = replace(played(["look up", "answer"]), guidance=Guidance(kind="hint", level=1, text="SECRET", source="env"))
    ledger = (event("solved", 0.0, kind="outcome"), event("parsed", 1, turn=0), event("rude", 1, kind="penalty"))
    score = Score(ledger=ledger, reward_T=np.zeros(2, np.float32), outcome=None, usable=True)
    assert verdict_names(score, True) == ["parsed (turn 0)"]
    assert verdict_names(score, False) == ["solved", "rude"]
    prompt = prompt_of("HEAD", [("task", begun(one)), *steps_of(one), facts_of(one, score)], "ASK", limit=100)
    assert prompt == prompt_of("HEAD", [("task", begun(one)), *steps_of(one), facts_of(one, score)], "ASK", limit=100)
    mark = prompt.split("BEGIN ")[2].split()[0]
    assert f"BEGIN {mark} turn 1, agent\nanswer\nEND {mark} turn 1, agent" in prompt
    assert "outcome: not measured\nmet: parsed (turn 0)\nnot met: solved\nnot met: rude" in prompt
    assert prompt.startswith("HEAD\n")
    assert prompt.endswith("\nASK")
    assert "SECRET" not in prompt


# --- R3L -------------------------------------------------------------------------------------------------------------

GOOD = {"trajectory_outcome": "failure", "improvement_suggestion": " look  first ", "retry_from_step": 2}


def test_a_reflection_names_the_turn_to_try_again_from():
    assert read_reflection(json.dumps(GOOD), 3) == SelfReflection(
        outcome="failure", suggestion="look first", retry_from=2
    )
    calm = {"trajectory_outcome": "success", "retry_from_step": None}
    assert read_reflection(json.dumps(calm), 3) == SelfReflection(outcome="success", suggestion="", retry_from=None)


@pytest.mark.parametrize(
    "changed",
    [
        {"trajectory_outcome": "perfect"},
        {"retry_from_step": 3},
        {"retry_from_step": -1},
        {"retry_from_step": True},
        {"retry_from_step": "2"},
        {"improvement_suggestion": ""},
        {"improvement_suggestion": 7},
    ],
)
def test_a_reflection_that_cannot_be_used_gives_no_retry(changed):
    assert isinstance(read_reflection(json.dumps({**GOOD, **changed}), 3), Fault)
    assert isinstance(read_reflection("I would try again.", 3), Fault)


# --- HeRL ------------------------------------------------------------------------------------------------------------


def test_the_worked_number_of_herl():
    assert 0.6 + hindsight_bonus(0.6, 1.0, alpha=0.05, cap=0.1) == pytest.approx(0.62)
    assert hindsight_bonus(0.0, 5.0, alpha=0.05, cap=0.1) == 0.1
    assert hindsight_bonus(5.0, 0.0, alpha=0.05, cap=0.1) == -0.1


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 1), st.floats(0.01, 1))
def test_a_bonus_never_leaves_its_cap_and_has_the_sign_of_the_gain(reward, rewritten, alpha, cap):
    bonus = hindsight_bonus(reward, rewritten, alpha=alpha, cap=cap)
    assert abs(bonus) <= cap
    assert bonus * (rewritten - reward) >= 0


def with_ledger(one, total, *events, usable=True):
    reward_T = np.zeros(len(one.turns), np.float32)
    reward_T[-1:] = total
    ledger = (RewardEvent(name="paid", kind="process", turn=None, value=total, weight=1.0), *events)
    return one, Score(ledger=ledger, reward_T=reward_T, outcome=0.0, usable=usable)


def test_drafts_are_the_best_failures_and_a_rewrite_pays_for_its_draft():
    weak = with_ledger(played("ab", name="t#0"), 0.2)
    good = with_ledger(played("ab", name="t#1"), 0.6, event("parsed", 0, turn=1, weight=0.0))
    lost = with_ledger(played("ab", name="t#2"), 0.9, usable=False)
    pairs = [weak, good, lost]
    group = ScoredGroup(
        task=task(), trajectories=tuple(one for one, _ in pairs), scores=tuple(score for _, score in pairs)
    )
    assert best_drafts(group) == [1, 0]
    guide = Hindsight(HindsightPart(drafts=1, alpha=0.05, cap=0.1, strip=True))
    plan = guide.again(group, 1)
    assert (plan.into, plan.row) == ("replace", 1)
    (entry,) = plan.entries
    assert (entry.turns, entry.parent, entry.guidance.insert_turn) == (("a",), ("t#1", 1), 1)
    assert "It did not meet: paid, parsed (turn 1)." in entry.guidance.text
    assert guide.again(group, 2) is None
    rewrite = with_ledger(replace(played("ac", name="t#3"), parent=("t#1", 1), guidance=entry.guidance), 1.0)
    everything = ScoredGroup(
        task=task(), trajectories=(*group.trajectories, rewrite[0]), scores=(*group.scores, rewrite[1])
    )
    settled = guide.settle(group, everything)
    assert [score.total for score in settled.scores] == pytest.approx([0.2, 0.62, 0.9])
    assert [float(score.reward_T.sum()) for score in settled.scores] == pytest.approx([0.2, 0.62, 0.9])
    assert guide.metrics() == {"guide/hindsight_bonus": pytest.approx(0.02)}
    assert guide.settle(group, group).scores == group.scores


def test_the_worked_number_of_a_lesson_that_is_imitated():
    """Token log-probabilities −1, −2, −3: NLL 2.0, with λ = .1 the loss grows by .2."""
    row = AuxiliaryRow(ids=np.arange(5, dtype=np.int32), trained=np.array([False, False, True, True, True]))
    packed = packed_auxiliary("lessons", AuxiliaryRows(rows=[row], weight=0.1))
    logprob_L = np.array([0.0, -9.0, -1.0, -2.0, -3.0])
    assert -(packed.batch.ce_weight_L * logprob_L).sum() == pytest.approx(0.2)


def test_a_lesson_counts_only_if_an_episode_succeeded_with_it():
    tried = Guidance(kind="lesson", level=1, text="When stuck, look.", source="self")
    won, lost = (replace(played("ab", name=f"t#{n}"), guidance=tried) for n in range(2))
    assert list(validated([scored((won, 1.0), (lost, 0.0)), scored((won, 0.0))])) == [("what now?", tried.text)]
    assert list(validated([scored((played("ab"), 1.0))])) == []
