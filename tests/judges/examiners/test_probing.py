"""Forced answers: what is asked where, what counts as right, how sure the policy is, and what reaches the score."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.helpers import examine_kit, models
from turngate.agents.probing import ids_after
from turngate.errors import ConfigError
from turngate.judges.examiners.base import Examiner
from turngate.judges.examiners.probing import ForcedAnswers, _spread, answer_in
from turngate.rewards import FromEvidence, Rubric
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import EndedBy, Ending


def find(examiner, group, policy, **more):
    return examine_kit.examine(examiner, [group], examine_kit.context(policy, **more))[0]


def vowel(task, answer):
    """A user's check; of an empty answer it cannot tell."""
    return None if not answer.strip() else answer.strip() in "aeiou"


# --- what is right ---------------------------------------------------------------------------------------------------


def test_accuracy_and_confidence_after_each_turn():
    group = examine_kit.group(examine_kit.episodes(2), gold="a b")
    policy = examine_kit.Said(("a  b}.", 0.5), ("b}", 0.25), ("a b", 1), ("a b c}", 0.125))
    facts = find(ForcedAnswers(answer="{gold}", n=2), group, policy)
    assert examine_kit.values(facts, "accuracy") == [{0: 0.5, 1: 0.5}]
    (confidence,) = examine_kit.values(facts, "confidence")
    assert confidence == pytest.approx({0: (0.5 + 0.25) / 2, 1: (1 + 0.125) / 2})
    assert {fact.by for fact in facts[0]} == {"verifier"}
    asked = [policy.requests[place].ids.tolist() for place in (0, 2)]
    words = models.chat().encode_turn("**Final Answer**\n\\boxed{")[:-1]
    (one,) = group.trajectories
    assert asked == [[*ids_after(one, turn, models.chat()), *words] for turn in range(2)]
    assert {(request.sampling.temperature, request.max_tokens) for request in policy.requests} == {(0.6, 10)}
    assert sorted(policy.released) == sorted(request.episode for request in policy.requests)


def test_a_function_of_the_user_says_what_is_right():
    examiner = ForcedAnswers(check=f"{__name__}:vowel", text="My answer: ", n=4)
    facts = find(
        examiner,
        examine_kit.group(examine_kit.episodes(1)),
        examine_kit.Said(*[(say, 1) for say in ("a\nb", "b", "", "e")]),
    )
    assert examine_kit.values(facts, "accuracy") == [{0: pytest.approx(2 / 3)}]  # of the third nobody knows
    unknown = find(examiner, examine_kit.group(examine_kit.episodes(1)), examine_kit.Said(*[("", 1)] * 4))
    assert examine_kit.values(unknown, "accuracy") == [{0: None}]
    assert examine_kit.values(unknown, "confidence") == [{0: 1.0}]


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("\\boxed{", "42} and so on", "42"),
        ("\\boxed{", "\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("\\boxed{", "4\n2", "4\n2"),  # cut off before the brace was closed
        ("\\boxed{", "}", ""),
        ("Answer: ", "42} and so on\nmore", "42} and so on"),
    ],
)
def test_where_an_answer_ends(text, said, expected):
    assert answer_in(text, said) == expected


@pytest.mark.parametrize(
    ("text", "said", "right"), [("\\boxed{", "42", 0.0), ("\\boxed{", "42} or", 1.0), ("It is ", "42", 0.0)]
)
def test_an_answer_that_was_cut_off_before_its_end_is_not_right(text, said, right):
    class Cut(examine_kit.Said):
        async def complete(self, request):
            return replace(await super().complete(request), ended_by=EndedBy.LENGTH)

    part = ForcedAnswers(answer="{gold}", text=text, n=1)
    facts = find(part, examine_kit.group(examine_kit.episodes(1), gold="42"), Cut((said, 1)))
    assert examine_kit.values(facts, "accuracy") == [{0: right}]


# --- with a model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["reply", "words"])
def test_the_probability_of_the_right_answer(after):
    chat, model = models.chat(), models.model()
    group = examine_kit.group(examine_kit.episodes(2, 1), gold="click red")
    examiner = ForcedAnswers(answer="the {gold}", accuracy="probability", after=after, n=2, temperature=0.9)
    learner = models.learner(models.model(), lr=1e-3, temperature=0.7, top_k=3)
    facts = find(examiner, group, models.local(), likelihoods=likelihoods_of(learner))
    for one, found in zip(group.trajectories, examine_kit.values(facts, "accuracy"), strict=True):
        for turn, value in found.items():
            asked = [*ids_after(one, turn, chat, reply=after == "reply"), *chat.encode_turn(examiner.text)[:-1]]
            gold = chat.encode_turn("the click red")[:-1]
            logprob = models.naive_logprobs(model, [*asked, *gold], 0.7)[len(asked) :]
            assert value == pytest.approx(np.exp(logprob).mean(), rel=1e-3)
    assert [sorted(found) for found in examine_kit.values(facts, "accuracy")] == [[0, 1], [0]]
    again = find(examiner, group, models.local(), likelihoods=likelihoods_of(learner))
    assert again == facts


def test_nobody_can_measure_likelihoods():
    examiner = ForcedAnswers(answer="{gold}", accuracy="probability", n=1)
    facts = find(examiner, examine_kit.group(examine_kit.episodes(1), gold="a"), examine_kit.Said(("a}", 0.5)))
    assert examine_kit.values(facts, "accuracy") == [{0: None}]
    assert examine_kit.values(facts, "confidence") == [{0: pytest.approx(0.5)}]


# --- which turns -----------------------------------------------------------------------------------------------------


def test_at_most_so_many_turns_are_probed_and_the_last_always():
    assert _spread(10, 3) == [0, 4, 9]
    assert _spread(10, 1) == [9]
    assert _spread(3, 8) == [0, 1, 2]
    assert _spread(0, 8) == []
    group = examine_kit.group(examine_kit.episodes(5, 1), gold="a")
    facts = find(ForcedAnswers(answer="{gold}", turns=2, n=1), group, examine_kit.Said(*[("a}", 1)] * 3))
    assert examine_kit.values(facts, "accuracy") == [{0: 1.0, 4: 1.0}, {0: 1.0}]


@given(st.integers(1, 300), st.integers(1, 40))
def test_probed_turns_are_spread_over_the_episode(n_turns, at_most):
    turns = _spread(n_turns, at_most)
    assert len(turns) == min(n_turns, at_most)
    assert turns == sorted(set(turns))
    assert turns[-1] == n_turns - 1
    gaps = np.diff(turns)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


def test_what_does_not_fit_or_broke_is_missing():
    fits, long, none = examine_kit.episodes(1, 40, 0)
    broken = replace(fits, id="broken", ending=Ending.ENV_ERROR)
    group = examine_kit.group([fits, long, none, broken], gold="a")
    facts = find(ForcedAnswers(answer="{gold}", turns=1, n=1), group, examine_kit.Said(("a}", 1)))
    assert examine_kit.values(facts, "accuracy") == [{0: 1.0}, {39: None}, {}, {}]
    assert examine_kit.values(facts, "confidence") == [{0: 1.0}, {39: None}, {}, {}]


# --- to the score, and from a config ---------------------------------------------------------------------------------


def test_forced_answers_are_paid_by_a_rubric():
    rubric = Rubric(
        rewards=(
            FromEvidence(name="solved", evidence="solved", kind="outcome"),
            FromEvidence(name="on_the_way", evidence="accuracy", per_turn=True, weight=0.4),
        )
    )
    group = examine_kit.told(examine_kit.group(examine_kit.episodes(2, 1), gold="a"), solved=[True, False])
    policy = examine_kit.Said(*[(say, 0.5) for say in ("a}", "b}", "a}", "a}", "b}", "b}")])
    examiner = Examiner.load({"type": "probe", "answer": "{gold}", "n": 2})
    scored = rubric.score_group(examine_kit.with_facts(group, find(examiner, group, policy)))
    np.testing.assert_allclose(scored.scores[0].reward_T, [0.1, 1.2])  # 0.4 / 2 · ½, then 0.4 / 2 · 1 and the outcome
    np.testing.assert_allclose(scored.scores[1].reward_T, [0])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "the right answer is not known"),
        ({"answer": "42"}, "the same for every task"),
        ({"answer": "{gold}", "check": f"{__name__}:vowel"}, "exclude each other"),
        ({"check": f"{__name__}:vowel", "accuracy": "probability"}, "set answer"),
        ({"check": f"{__name__}:vovel"}, "did you mean 'vowel'"),
        ({"check": f"{__name__}:__name__"}, "is not a function"),
        ({"answer": "{gold}", "n": 0}, "greater than or equal to 1"),
        ({"answer": "{gold}", "temperature": 0}, "greater than 0"),
    ],
)
def test_settings_that_cannot_work(settings, problem):
    with pytest.raises(ValidationError, match=problem):
        TypeAdapter(Examiner).validate_python({"type": "probe", **settings})


def test_a_task_without_the_named_answer():
    with pytest.raises(ConfigError, match="of task 'task': unknown entry of the task's private data 'gold'"):
        find(
            ForcedAnswers(answer="{gold}", n=1),
            examine_kit.group(examine_kit.episodes(1), key="a"),
            examine_kit.Said(("a}", 1)),
        )
