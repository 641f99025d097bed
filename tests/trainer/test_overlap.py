"""What splits have in common: counted by hand for small sets, left out where it tells nothing."""

from hypothesis import given
from hypothesis import strategies as st

from turngate.trainer.evaluation.overlap import Shared, SplitOverlap, overlap, question_of
from turngate.types import Task


def task(name: str, prompt: str, **marks: str) -> Task:
    return Task(id=name, env_id="e", prompt=prompt, private=marks)


def marks(one: Task) -> dict[str, str]:
    return dict(one.private)


TRAIN = [task("a", "how many", gold="x", data="1"), task("b", "which  one", gold="y", data="1")]


def test_held_out_tasks_are_counted_by_what_they_share():
    heldout = [
        task("c", "which one", gold="x", data="2"),
        task("d", "which one", gold="z", data="1"),
        task("e", "Which one", gold="z", data="3"),
    ]
    found = overlap(TRAIN, heldout, marks)
    assert found == {
        "question text": Shared(count=2, n=3),
        "gold": Shared(count=1, n=3),
        "data": Shared(count=1, n=3),
    }
    assert found["question text"].share == 2 / 3
    assert list(overlap(TRAIN, heldout)) == ["question text"]


def test_a_mark_that_tells_no_tasks_apart_is_left_out():
    same = [task("a", "play", gold="x"), task("b", "play", gold="y")]
    assert overlap(same, [task("c", "play", gold="x")], marks) == {"gold": Shared(count=1, n=1)}
    assert overlap(same, [task("c", "play")], marks) == {}
    assert overlap(same, [], marks) == {}


def test_a_mark_that_some_tasks_lack_counts_those_that_have_it():
    heldout = [task("c", "one"), task("d", "two", gold="x")]
    assert overlap(TRAIN, heldout, marks)["gold"] == Shared(count=1, n=1)


@given(st.lists(st.sampled_from("abcdef"), min_size=2), st.lists(st.sampled_from("abcdef"), min_size=2))
def test_counts_agree_with_a_search_of_every_pair(trained, held):
    found = overlap(
        [task(str(n), text) for n, text in enumerate(trained)], [task(str(n), text) for n, text in enumerate(held)]
    )
    if len({*trained, *held}) > 1:
        assert found["question text"].count == sum(any(text == other for other in trained) for text in held)
    else:
        assert found == {}


def test_tasks_of_one_text_are_questions_of_their_own():
    assert question_of(TRAIN) == {"a": "how many", "b": "which one"}
    assert question_of([task("a", "play"), task("b", "play")]) == {"a": "a", "b": "b"}
    assert question_of([task("a", "play"), task("b", "play"), task("c", "rest")]) == {
        "a": "play", "b": "play", "c": "rest",
    }  # fmt: skip


QUESTIONS = (("a", "f"), ("b", "g"), ("c", "f"))


def test_a_task_that_says_its_question_is_known_by_it_and_not_by_its_prompt():
    one, two, three = (Task(id=name, env_id="e", prompt="repair it", question=asked) for name, asked in QUESTIONS)
    assert question_of([one, two, three]) == {"a": "f", "b": "g", "c": "f"}
    assert overlap([one], [two, three]) == {"question text": Shared(count=1, n=2)}


def test_a_split_says_what_is_wrong_with_it_and_what_is_not():
    shared = {"question text": Shared(count=0, n=4), "gold query": Shared(count=3, n=4)}
    leaking = SplitOverlap(split="held", trained=9, tasks=4, questions=3, shared=shared, leaks=("gold query",))
    assert leaking.line == (
        "split 'held': 4 tasks, 3 distinct questions; "
        "in common with 9 training tasks: question text 0 of 4, gold query 3 of 4"
    )
    assert leaking.problem == (
        "split 'held' is not apart from training: 3 of 4 tasks have a gold query that 9 training tasks have too"
    )
    assert SplitOverlap(split="held", trained=9, tasks=4, questions=3, shared=shared).problem == ""
