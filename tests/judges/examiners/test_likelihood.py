"""Likelihood of a given text as evidence: published rewards by their numbers, what is asked, what reaches a score."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tests.helpers import examine_kit, models
from turngate.agents.probing import ids_after
from turngate.errors import ConfigError
from turngate.judges.examiners.base import Examiner
from turngate.judges.examiners.likelihood import Likelihood, _after
from turngate.rewards import FromEvidence, InformationGain, Rubric
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import Ending

CHAT = models.chat()


def tokens(text):
    return CHAT.encode_turn(text)[:-1].tolist()


class Told:
    """Gives the probabilities that it was told, in the order of the questions, and keeps the questions."""

    def __init__(self, *probabilities):
        self.probabilities, self.asked = probabilities, []

    def __call__(self, ids, asked):
        self.asked += [(one.tolist(), int(marks.sum())) for one, marks in zip(ids, asked, strict=True)]
        assert all(marks.tolist() == [False] * (len(marks) - marks.sum()) + [True] * marks.sum() for marks in asked)
        with np.errstate(divide="ignore"):
            return [np.log(np.array(p, np.float32)) for p in self.probabilities[: len(ids)]]


def find(examiner, groups, likelihoods, **more):
    return examine_kit.examine(examiner, groups, examine_kit.context(likelihoods=likelihoods, **more))


def value_of(told, **settings):
    """The one value of an episode of one turn."""
    facts = find(
        Likelihood(answer="{gold}", **settings), [examine_kit.group(examine_kit.episodes(1), gold="a b c")], told
    )
    ((value,),) = (found.values() for found in examine_kit.values(facts[0], "likelihood"))
    return value


# --- published numbers -----------------------------------------------------------------------------------------------

WITH, OBSERVED = [0.9, 0.8], [0.6, 0.6]


@pytest.mark.parametrize(
    ("settings", "probabilities", "expected"),
    [
        ({}, [WITH], 0.85),
        ({"reduce": "product"}, [WITH], 0.72),
        ({"reduce": "product"}, [[0.9] * 40], 0.014781),
        ({"reduce": "mean_p"}, [[0.9] * 40], 0.9),
        ({"reduce": "sum_log"}, [WITH], -0.328504),
        ({"reduce": "mean_log"}, [WITH], -0.164252),
        ({"reduce": "ppl"}, [WITH], 1.178511),
        ({"without": "observations", "floor": 0}, [WITH, OBSERVED], 0.25),
        ({"without": "observations", "floor": 0}, [OBSERVED, WITH], 0.0),
        ({"without": "observations"}, [OBSERVED, WITH], -0.25),
        ({"reduce": "ppl", "without": "observations"}, [WITH, OBSERVED], 0.292893),  # VR-CLI
        ({"reduce": "ppl", "given": "prompt", "without": "nothing"}, [[0.9, 0.8, 0.7], [0.5, 0.5, 0.4]], 0.416748),
        ({"reduce": "sum_log", "without": "observations"}, [[0.5], [0.2]], 0.916291),  # RLP
    ],
)
def test_worked_numbers(settings, probabilities, expected):
    assert value_of(Told(*probabilities), **settings) == pytest.approx(expected, abs=1e-6)


def test_rlpr_is_paid_by_a_rubric():
    """0.9 · max(0.85 − 0.6, 0) + 0.1 · format = .325."""
    rubric = Rubric(
        rewards=(
            FromEvidence(name="likelihood", evidence="likelihood", kind="outcome", weight=0.9),
            FromEvidence(name="format", evidence="parsed", weight=0.1),
        )
    )
    group = examine_kit.told(examine_kit.group(examine_kit.episodes(1, 2), gold="a b"), parsed=[True, True])
    told = Told(WITH, OBSERVED, OBSERVED, OBSERVED)
    examiner = Examiner.load({"type": "likelihood", "answer": "{gold}", "without": "observations", "floor": 0.0})
    (facts,) = find(examiner, [group], told)
    scored = rubric.score_group(examine_kit.with_facts(group, facts))
    np.testing.assert_allclose(scored.scores[0].reward_T, [0.325], atol=1e-6)
    np.testing.assert_allclose(scored.scores[1].reward_T, [0, 0.1], atol=1e-6)
    assert examine_kit.values(facts, "likelihood_version") == [{None: 7}, {None: 7}]


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_what_comes_before_the_text():
    (one,) = examine_kit.episodes(2)
    group = examine_kit.group([one], gold="red")
    opening, follow = tokens_of(one, 0), tokens_of(one, 1)
    words = CHAT.encode_turn("press a").tolist()
    expected = {
        "trajectory": [*opening, *words, *follow, *words[:-1]],
        "observations": [*opening, CHAT.eos_id, *follow],
        "prompt": opening,
        "nothing": CHAT.opening("").tolist(),
    }
    text = tokens("press ") + tokens("red")
    for given, before in expected.items():
        told = Told([1.0])
        find(Likelihood(answer="press {gold}", given=given), [group], told)
        assert told.asked == [([*before, *text], len(tokens("red")))]


def tokens_of(trajectory, turn):
    return trajectory.turns[turn].context_ids.tolist()


def test_the_text_stands_in_place_of_the_agents_own_answer():
    words = CHAT.encode_turn("the answer is click. no, the answer is press")
    one = replace(examine_kit.episodes(1)[0], turns=(models.turn(CHAT.opening("x"), words),))
    told = Told([1.0])
    find(Likelihood(answer="{gold}", until="answer is"), [examine_kit.group([one], gold=" red")], told)
    kept = CHAT.decode(np.array(told.asked[0][0], np.int32))
    assert kept.endswith("the answer is click. no, the answer is red")
    assert told.asked[0][0][: -len(tokens(" red"))] == one.ids()[: len(told.asked[0][0]) - len(tokens(" red"))].tolist()
    assert _after(words, "nowhere", CHAT) == 0
    assert _after(words, "press", CHAT) == 0
    assert CHAT.decode(words[: len(words) - 1 - _after(words, "click", CHAT)]).endswith("click")


def test_equal_questions_are_asked_once():
    told = Told([0.9], [0.5], [0.8], [0.7])
    group = examine_kit.group(
        [replace(one, id=f"t{i}") for i, one in enumerate(examine_kit.episodes(1, 1, 2))], gold="red"
    )
    (facts,) = find(Likelihood(answer="{gold}", without="prompt"), [group], told)
    assert len(told.asked) == 3  # the trajectories of two are alike, and all begin alike
    assert examine_kit.values(facts, "likelihood") == [
        {None: pytest.approx(0.4)},
        {None: pytest.approx(0.4)},
        {None: pytest.approx(0.3)},
    ]


def own_answer(task, trajectory):
    """A user's text: nothing for the second episode."""
    return None if trajectory.id.endswith("1") else ("press ", trajectory.turns[-1].completion.text or "red")


def nonsense(task, trajectory):
    return "red"


def test_a_function_of_the_user_gives_the_text():
    group = examine_kit.group(examine_kit.episodes(1, 1))
    (facts,) = find(Likelihood(text=f"{__name__}:own_answer"), [group], Told([0.5, 0.5], []))
    assert examine_kit.values(facts, "likelihood") == [{None: pytest.approx(0.5)}, {None: None}]
    with pytest.raises(ConfigError, match="must return two texts or None, found 'red'"):
        find(Likelihood(text=f"{__name__}:nonsense"), [group], Told([0.5]))


def test_what_is_missing():
    one, none = examine_kit.episodes(1, 0)
    broken = replace(one, ending=Ending.POLICY_ERROR)
    group = examine_kit.group([one, none, broken], gold="red")
    (facts,) = find(Likelihood(answer="{gold}"), [group], None)
    assert examine_kit.values(facts, "likelihood") == [{None: None}, {}, {}]
    assert examine_kit.values(facts, "likelihood_version") == [{None: None}, {}, {}]
    (facts,) = find(Likelihood(answer="{gold}"), [examine_kit.group([one], gold="")], Told([]))
    assert examine_kit.values(facts, "likelihood") == [{None: None}]
    assert value_of(Told([0.0])) == 0.0
    assert value_of(Told([0.0]), reduce="sum_log") is None  # −∞ is no number
    with pytest.raises(ConfigError, match="of task 'task': unknown entry of the task's private data 'gold'"):
        find(Likelihood(answer="{gold}"), [examine_kit.group([one], key="a")], Told([1.0]))


# --- with a model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_turn", [False, True])
def test_against_a_plain_forward_pass(per_turn):
    groups = [
        examine_kit.group(examine_kit.episodes(2, 1, name="one"), name="one", gold="click"),
        examine_kit.group(examine_kit.episodes(3, name="two"), name="two", gold="a red click"),
    ]
    learner = models.learner(models.model(), lr=1e-3, temperature=0.8, tokens_per_pass=64)
    examiner = Likelihood(answer="the {gold}", reduce="mean_log", without="observations", per_turn=per_turn)
    found = find(examiner, groups, likelihoods_of(learner))
    for group, facts in zip(groups, found, strict=True):
        for one, values in zip(group.trajectories, examine_kit.values(facts, "likelihood"), strict=True):
            assert sorted(values, key=str) == ([*range(len(one.turns))] if per_turn else [None])
            for turn, value in values.items():
                last = len(one.turns) - 1 if turn is None else turn
                means = []
                for words in (True, False):
                    before = [*ids_after(one, last, CHAT, words=words), *tokens("the ")]
                    text = tokens(group.task.private["gold"])
                    logprobs = models.naive_logprobs(models.model(), [*before, *text], 0.8)
                    means.append(logprobs[len(before) :].mean())
                assert value == pytest.approx(means[0] - means[1], abs=1e-4)


def test_beliefs_after_turns_feed_information_gain():
    """p of the gold answer .2 before the first turn, .5 and .9 after the turns; the last turn earns nothing here."""
    rubric = Rubric(rewards=(FromEvidence(name="o", evidence="o", kind="outcome"), InformationGain(name="gain")))
    group = examine_kit.told(examine_kit.group(examine_kit.episodes(3), gold="red"), o=[True])
    examiner = Likelihood(name="gold_logprob", answer="{gold}", reduce="mean_log", per_turn=True)
    (facts,) = find(examiner, [group], Told([0.2], [0.5], [0.9], [0.3]))
    assert examiner.writes == ("gold_logprob", "gold_logprob_version", "gold_logprob_start")
    assert {fact.name for fact in facts[0]} == set(examiner.writes)
    assert examine_kit.values(facts, "gold_logprob_start") == [{None: pytest.approx(math.log(0.2))}]
    (score,) = rubric.score_group(examine_kit.with_facts(group, facts)).scores
    np.testing.assert_allclose(score.reward_T, [0.3, 0.4, 1.0], atol=1e-6)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "a text is needed"),
        ({"answer": "{gold}", "text": f"{__name__}:own_answer"}, "a text is needed"),
        ({"answer": "gold"}, "the same for every task"),
        ({"text": f"{__name__}:own_answers"}, "did you mean 'own_answer'"),
        ({"text": f"{__name__}:CHAT"}, "is not a function"),
        ({"answer": "{gold}", "without": "trajectory"}, "it leaves nothing"),
        ({"answer": "{gold}", "given": "prompt", "until": "x"}, "until has no effect"),
        ({"answer": "{gold}", "per_turn": True, "until": "x"}, "until has no effect"),
        ({"answer": "{gold}", "per_turn": True, "given": "prompt"}, "per_turn has no effect"),
        ({"answer": "{gold}", "reduce": "max"}, "'mean_p', 'sum_log', 'mean_log', 'product' or 'ppl'"),
    ],
)
def test_settings_that_cannot_work(settings, problem):
    with pytest.raises(ValidationError, match=problem):
        TypeAdapter(Examiner).validate_python({"type": "likelihood", **settings})
