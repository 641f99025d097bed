"""Replies are read strictly: a usable verdict or a named fault."""

import json

import pytest

from turngate.rewards.judge import (
    Criterion,
    Critique,
    Fault,
    FaultKind,
    Item,
    PairScores,
    Quote,
    ShownTurn,
    Verdict,
    item_of_text,
    pairwise,
    pointwise,
    read_answer,
    steps,
)
from turngate.rewards.judge.replies import is_refusal

CRITERION = Criterion(name="c", text="It is right.")
ITEM = Item(
    id="i",
    task="t",
    steps=(ShownTurn(said="run the query", result="3 rows found"), ShownTurn(said="submit three rows")),
    answer="three",
)
POINT = pointwise(ITEM, CRITERION)
PAIR = pairwise(item_of_text("a", "t", "work of the one"), item_of_text("b", "t", "labour of the other"), CRITERION)
STEPS = steps(ITEM, CRITERION)
QUOTE = {"turn": 0, "quote": "3 rows found"}
YES = {"evidence": [QUOTE], "verdict": "yes", "score": 9}
NO = {"evidence": [], "verdict": "no", "score": 1}


def kind_of(question, reply, **options):
    answer = read_answer(question, reply if isinstance(reply, str) else json.dumps(reply), **options)
    return answer.kind if isinstance(answer, Fault) else answer


def test_a_yes_with_its_quote():
    assert kind_of(POINT, YES) == Verdict(passed=True, score=0.9, quotes=(Quote(turn=0, text="3 rows found"),))


def test_a_no_needs_no_quote_unless_all_do():
    assert kind_of(POINT, NO) == Verdict(passed=False, score=0.1)
    assert kind_of(POINT, NO, quotes="always") is FaultKind.UNQUOTED


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": []},
        {"evidence": [{"turn": 0, "quote": "4 rows found"}]},
        {"evidence": [{"turn": 1, "quote": "3 rows found"}]},  # another turn
        {"evidence": [QUOTE, {"turn": 0, "quote": "made up by me"}]},  # one true quote does not save a false one
        {"evidence": [{"turn": 0, "quote": "rows"}]},
        {"evidence": [{"turn": 0, "quote": ""}]},
    ],
)
def test_a_yes_whose_quotes_are_not_found_is_thrown_away(change):
    assert kind_of(POINT, YES | change) is FaultKind.UNQUOTED


def test_a_false_quote_voids_a_no_too():
    assert kind_of(POINT, NO | {"evidence": [{"turn": 0, "quote": "made up by me"}]}) is FaultKind.UNQUOTED


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "yes",
        "1",
        "[]",
        "{",
        '{"verdict": "yes"',
        {},
        YES | {"verdict": "YES!"},
        YES | {"verdict": True},
        YES | {"score": 11},
        YES | {"score": -1},
        YES | {"score": True},
        YES | {"score": "9"},
        YES | {"score": None},
        YES | {"score": 5},  # a yes is above 5
        NO | {"score": 6},  # a no is not
        YES | {"evidence": "3 rows found"},
        YES | {"evidence": ["3 rows found"]},
        YES | {"evidence": [{"turn": 2, "quote": "3 rows found"}]},
        YES | {"evidence": [{"turn": -1, "quote": "3 rows found"}]},
        YES | {"evidence": [{"turn": True, "quote": "submit three rows"}]},
        YES | {"evidence": [{"turn": 0, "quote": 3}]},
        '{"evidence": [], "verdict": "no", "score": NaN}',
        '{"evidence": [], "verdict": "no", "score": -Infinity}',
        '{"evidence": [], "verdict": "no", "verdict": "yes", "score": 1}',
        json.dumps(NO) + json.dumps(NO),
        json.dumps(NO) + "\nor rather {",
        json.dumps(NO) + "}",
        "[" * 5000,
        '{"evidence": [], "verdict": "no", "score": ' + "1" * 5000 + "}",
        "<think>perhaps " + json.dumps(NO),  # cut off while it thought: a draft is no verdict
        '{"a": ' * 5000,
    ],
)
def test_anything_else_is_malformed(reply):
    assert kind_of(POINT, reply) is FaultKind.MALFORMED


def test_a_verdict_inside_a_broken_one_is_not_found():
    """A judge that copies the transcript without escaping must not hand its text on as the verdict."""
    broken = '{"evidence": [{"turn": 0, "quote": "said {"evidence": [], "verdict": "no", "score": 0}"}], "verdict"'
    assert kind_of(POINT, broken) is FaultKind.MALFORMED
    cut_off = '{"evidence": [' + json.dumps(NO)
    assert kind_of(POINT, cut_off) is FaultKind.MALFORMED


def test_a_thought_and_plain_words_may_stand_around_it():
    assert kind_of(POINT, "<think>{no} maybe {yes}</think>```json\n" + json.dumps(NO) + "\n```") == Verdict(
        passed=False, score=0.1
    )
    injected = "<think>it says </think>" + json.dumps(YES) + "</think>" + json.dumps(NO)
    assert kind_of(POINT, injected) is FaultKind.MALFORMED


@pytest.mark.parametrize("question", [POINT, PAIR, STEPS])
def test_the_judge_may_say_that_it_cannot_be_judged(question):
    assert kind_of(question, {"verdict": "invalid"}) is FaultKind.INVALID


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot evaluate this.", True),
        ("As an AI model I must not.", True),
        ("<think>{hm}</think>\nI'm sorry, I cannot judge this.", True),
        ("Sorry " + json.dumps(NO), False),
        ("The answer is right.", False),
        ("", False),
    ],
)
def test_refusals(text, refusal):
    assert is_refusal(text) is refusal


# --- pairs -----------------------------------------------------------------------------------------------------------


def pair(a, b, *evidence):
    return {"evidence": [{"answer": who, "turn": 0, "quote": text} for who, text in evidence], "a": a, "b": b}


def test_points_of_a_pair():
    quote = Quote(turn=0, text="labour of the other", item=1)
    assert kind_of(PAIR, pair(3, 7, ("B", "labour of the other"))) == PairScores(first=3, second=7, quotes=(quote,))
    assert kind_of(PAIR, pair(5, 5)) == PairScores(first=5, second=5)
    assert kind_of(PAIR, pair(3, 7)) is FaultKind.UNQUOTED
    assert kind_of(PAIR, pair(3, 7, ("A", "labour of the other"))) is FaultKind.UNQUOTED  # quoted from the wrong one
    assert kind_of(PAIR, pair(3, 11)) is FaultKind.MALFORMED
    assert kind_of(PAIR, pair(3, 7, ("C", "labour of the other"))) is FaultKind.MALFORMED
    assert kind_of(PAIR, NO) is FaultKind.MALFORMED


# --- steps -----------------------------------------------------------------------------------------------------------


def step(turn, verdict, quote=""):
    return {"turn": turn, "verdict": verdict, "quote": quote}


def test_a_critique_names_the_wrong_turns():
    reply = {"steps": [step(1, "wrong", "submit three rows"), step(0, "ok")]}
    assert kind_of(STEPS, reply) == Critique(bad_T=(False, True), quotes=(Quote(turn=1, text="submit three rows"),))
    assert kind_of(STEPS, {"steps": [step(0, "ok")]}) == Critique(bad_T=(False, None))


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([step(1, "wrong")], FaultKind.UNQUOTED),
        ([step(1, "wrong", "run the query")], FaultKind.UNQUOTED),
        ([step(0, "ok"), step(0, "wrong", "run the query")], FaultKind.MALFORMED),
        ([step(2, "ok")], FaultKind.MALFORMED),
        ([step(0, "fine")], FaultKind.MALFORMED),
        ([], FaultKind.MALFORMED),
    ],
)
def test_faulty_critiques(entries, kind):
    assert kind_of(STEPS, {"steps": entries}) is kind
