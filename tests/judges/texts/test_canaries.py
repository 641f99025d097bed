"""Canaries: work that deserves no yes, and what a miss means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judges.texts.pairs import scores
from turngate.errors import ConfigError
from turngate.judges.texts import (
    MASTER_KEYS,
    Criterion,
    Critique,
    Fault,
    FaultKind,
    Verdict,
    batch_fault,
    is_missed,
    item_of_text,
)
from turngate.judges.texts.canaries import (
    every_canary,
    how_many,
    null_items,
    pair_canaries,
    pointwise_canaries,
    step_canaries,
)
from turngate.judges.texts.injections import INJECTIONS
from turngate.rewards.fence import FencedText, show

CRITERION = Criterion(name="c", text="It is right.")
ITEMS = [item_of_text(f"i{n}", f"task {n}", f"answer to {n}", reference=f"gold {n}") for n in range(3)]


@pytest.mark.parametrize(("n", "expected"), [(0, 1), (8, 1), (50, 1), (51, 2), (1000, 20)])
def test_two_percent_of_each_kind_and_at_least_one(n, expected):
    assert how_many(n) == expected


@pytest.mark.parametrize("options", [{"share": 1.1}, {"share": -0.1}, {"at_least": 0}])
def test_a_batch_without_canaries_cannot_be_asked_for(options):
    with pytest.raises(ConfigError, match="share in"):
        how_many(10, **options)


def test_all_five_kinds_stand_under_tasks_of_the_batch():
    nulls = null_items(ITEMS, 2, seed=0, criterion=CRITERION)
    assert [kind for kind, _, _ in nulls] == ["master_key", "empty", "constant", "shuffled", "injection"] * 2
    for kind, null, host in nulls:
        assert (null.task, null.reference) == (host.task, host.reference)
        assert null.steps != host.steps
        if kind == "shuffled":
            assert null.steps in [item.steps for item in ITEMS if item.task != host.task]
        if kind == "master_key":
            assert null.answer in MASTER_KEYS


@pytest.mark.parametrize(
    ("items", "criterion"), [(ITEMS[:1], CRITERION), (ITEMS, Criterion(name="polite", text="", about_task=False))]
)
def test_nothing_is_shuffled_where_that_would_prove_nothing(items, criterion):
    kinds = [kind for kind, _, _ in null_items(items, 2, seed=0, criterion=criterion)]
    assert kinds == ["master_key", "empty", "constant", "master_key", "injection"] * 2


def test_null_work_is_never_put_to_a_pitfall():
    """Null work may truly have it, and then a yes is right."""
    pitfall = Criterion(name="off_topic", text="The answer is about something else.", weight=-1.0)
    for make in (pointwise_canaries, pair_canaries):
        for canary in make(ITEMS, pitfall, 1, seed=0, limit=100):
            assert all("'correct'" in question.prompt for question in canary.questions)
            assert all("something else" not in question.prompt for question in canary.questions)
    assert "'c'" in pointwise_canaries(ITEMS, CRITERION, 1, seed=0, limit=100)[0].questions[0].prompt


def test_an_equal_answer_to_another_task_is_not_shuffled_in():
    same = [item_of_text("1", "2 + 2", "4 it is"), item_of_text("2", "1 + 3", "4 it is")]
    assert "shuffled" not in [kind for kind, _, _ in null_items(same, 2, seed=0, criterion=CRITERION)]
    right_there = [
        item_of_text("1", "2 + 2", "5", reference="4"),
        item_of_text("2", "2 + 3", "it is 4", reference="5, five"),
    ]
    shuffled = [(null.answer, null.task) for kind, null, _ in null_items(right_there, 6, seed=0, criterion=CRITERION)]
    assert ("it is 4", "2 + 2") in shuffled
    assert ("5", "2 + 3") not in shuffled


def test_an_empty_batch_has_no_place_for_them():
    with pytest.raises(ConfigError, match="empty"):
        null_items([], 1, seed=0, criterion=CRITERION)


@given(st.integers(0, 10**6), st.integers(1, 8))
@settings(max_examples=40)
def test_the_seed_decides_everything(seed, n):
    assert null_items(ITEMS, n, seed=seed, criterion=CRITERION) == null_items(ITEMS, n, seed=seed, criterion=CRITERION)


def test_pairs_put_the_null_answer_second_and_first_against_the_reference():
    canary = pair_canaries(ITEMS, CRITERION, 1, seed=0, limit=100)[0]
    forward, backward = canary.questions
    assert forward.turns[0][0].startswith("gold ")
    assert forward.turns == backward.turns[::-1]


def verdict(passed):
    return Verdict(passed=passed, score=float(passed))


INVENTED, LATE = Fault(kind=FaultKind.UNQUOTED), Fault(kind=FaultKind.TIMEOUT)
INVALID = Fault(kind=FaultKind.INVALID)


@pytest.mark.parametrize(
    ("answers", "missed"),
    [
        ([verdict(True)], True),
        ([verdict(False)], False),
        ([INVALID], False),
        ([INVENTED], False),
        ([LATE], None),
        ([Fault(kind=FaultKind.MALFORMED)], None),
    ],
)
def test_a_yes_to_nothing_is_a_miss(answers, missed):
    assert is_missed(pointwise_canaries(ITEMS, CRITERION, 1, seed=0, limit=100)[0], answers) is missed


@pytest.mark.parametrize(
    ("answers", "missed"),
    [
        ([scores(1, 9), scores(9, 1)], True),  # the null answer wins from both places
        ([scores(9, 1), scores(1, 9)], False),
        ([scores(9, 1), scores(9, 1)], False),  # the judge only likes the first place
        ([scores(5, 5), scores(5, 5)], False),
        ([scores(1, 9), LATE], None),
        ([scores(1, 9), INVALID], False),
    ],
)
def test_a_null_answer_that_wins_is_a_miss(answers, missed):
    assert is_missed(pair_canaries(ITEMS, CRITERION, 1, seed=0, limit=100)[0], answers) is missed


def test_a_null_step_called_right_is_a_miss():
    canary = step_canaries(ITEMS, CRITERION, 1, seed=0, limit=100)[0]
    assert is_missed(canary, [Critique(bad_T=(False,))]) is True
    assert is_missed(canary, [Critique(bad_T=(True,))]) is False


def test_one_miss_voids_the_batch_and_so_does_a_batch_without_measurement():
    assert batch_fault([False, None, False]) is None
    assert batch_fault([False, True]) == Fault(kind=FaultKind.VOID, detail="the judge accepted 1 of 2 canaries")
    assert batch_fault([None, None]).kind is FaultKind.VOID


def test_to_measure_a_judge_each_key_is_asked_once():
    canaries = every_canary(ITEMS, CRITERION, seed=0, limit=100)
    kinds = [canary.kind for canary in canaries]
    assert [kinds.count(kind) for kind in ("master_key", "empty", "constant", "shuffled")] == [10, 1, 1, 10]
    assert kinds.count("injection") == len(INJECTIONS)


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_reaches_the_judge(text):
    """Otherwise it would not be measured whether the judge obeys it."""
    assert show(text) == FencedText(text=text)


def test_injections_are_drawn_from_all_of_them():
    drawn = {
        null.answer for kind, null, _ in null_items(ITEMS, 300, seed=0, criterion=CRITERION) if kind == "injection"
    }
    assert drawn == set(INJECTIONS)
