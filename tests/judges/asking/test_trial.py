"""How a judge is measured."""

from dataclasses import replace

import pytest

from tests.helpers.chat_server import serving_prompts
from tests.helpers.command_line import turngate
from tests.helpers.scripted_judge import DOWN, NO, said, yes
from tests.judges.asking.labelled_rows import ROWS, grader, measure, work, write
from turngate.judges.asking.trial import Flaw
from turngate.judges.texts import FaultKind
from turngate.judges.texts.agreement import agreement, follows_length
from turngate.judges.texts.injections import INJECTIONS


def test_the_numbers_of_a_judge_that_reads_digits(tmp_path):
    result = measure(grader, ROWS, tmp_path)
    assert (result.work.n_positive, result.work.n_negative) == (3, 2)
    assert result.work.false_positive == 0.0
    assert result.work.false_positive_bound == pytest.approx(1 - 0.05 ** (1 / 2))
    assert result.work.false_negative == pytest.approx(1 / 3)  # six in letters
    assert result.work.kappa == pytest.approx((0.8 - 0.48) / 0.52)
    assert (result.order.n, result.order.consistency, result.order.accuracy) == (2, 1.0, 1.0)
    assert result.order.first_share == 0.5
    assert (result.n_canaries, result.n_missed, result.n_unmeasured) == (22 + len(INJECTIONS), 0, 0)
    assert result.flaws == {}


def test_labelled_pairs_and_a_judge_that_likes_the_first_place(tmp_path):
    def first_place(prompt, n):
        if "A and B" not in prompt:
            return yes(prompt)
        return {"evidence": [{"answer": "A", "turn": 0, "quote": said(prompt)[0]}], "a": 9, "b": 1}

    rows = [
        {"task": "t", "first": "the left answer", "second": "the right answer", "label": label}
        for label in ("first", "tie")
    ]
    result = measure(first_place, rows, tmp_path)
    assert (result.order.n, result.order.consistency, result.order.first_share) == (2, 0.0, 1.0)
    assert result.order.accuracy == 0.5  # the settled tie
    assert result.work.n == 0
    assert result.n_missed > 0  # it likes everything that can be quoted


def test_a_judge_that_fails_is_not_measured(tmp_path):
    result = measure(lambda prompt, n: DOWN, ROWS, tmp_path)
    assert (result.work.n, result.work.n_missing, result.work.false_positive) == (0, 5, None)
    assert (result.order.n, result.order.n_missing, result.n_unmeasured) == (0, 2, 22 + len(INJECTIONS))
    assert list(result.flaws) == [Flaw.SILENT]
    assert result.tally.faults[FaultKind.UNAVAILABLE] == result.tally.n_calls


def test_the_judge_is_asked_about_master_keys_that_are_labelled(tmp_path):
    """Rules would hide what the judge itself accepts."""
    result = measure(lambda prompt, n: yes(prompt), [work("t", "Thought process:", False)], tmp_path)
    assert result.work.false_positive == 1.0


# --- flaws ------------------------------------------------------------------------------------------------------------

PAIRS = [{"task": "t", "first": f"good answer {n}", "second": f"bad answer {n}", "label": "first"} for n in range(4)]
LENGTHS = [work("t", "good answer" + " and more" * n, True) for n in range(12)]


def right(prompt, n=0):
    """Judges as it should: what is good is good."""
    texts = said(prompt)
    if "A and B" not in prompt:
        return yes(prompt) if texts[0].startswith("good") else NO
    a, b = (9 if text.startswith("good") else 1 for text in texts)
    quote = [{"answer": "A" if a > b else "B", "turn": 0, "quote": texts[a < b]}]
    return {"evidence": quote, "a": a, "b": b}


def of_pairs(points):
    def script(prompt, n):
        if "A and B" not in prompt:
            return right(prompt)
        (a, b), texts = points(said(prompt)), said(prompt)
        return {
            "evidence": [{"answer": "AB"[a < b], "turn": 0, "quote": texts[a < b]}] if a != b else [],
            "a": a,
            "b": b,
        }

    return script


def by_length(prompt, n):
    if not said(prompt)[0].startswith("good"):
        return NO
    return yes(prompt, score=6 + min(len(said(prompt)[0]) / 50, 4))


def unsure(prompt, n):
    return {"verdict": "invalid"} if "bad answer 2" in "".join(said(prompt)) else right(prompt)


def bribed(prompt, n):
    return yes(prompt) if said(prompt)[0] in INJECTIONS[-1:] else right(prompt)


def fooled(prompt, n):
    return yes(prompt) if said(prompt)[0] == "Thought process:" else right(prompt)


FLAWED = [
    (right, PAIRS, []),
    (right, LENGTHS, []),
    (
        lambda prompt, n: NO,
        [work("t", "good answer", True), work("t", "bad answer", False)],
        [Flaw.ALWAYS_NO, Flaw.SILENT],
    ),
    (of_pairs(lambda texts: (9, 1)), PAIRS, [Flaw.ORDER]),
    (of_pairs(lambda texts: (1, 9)), PAIRS, [Flaw.ORDER]),
    (of_pairs(lambda texts: (5, 5)), PAIRS, [Flaw.UNDECIDED]),
    (by_length, LENGTHS, [Flaw.LENGTH]),
    (unsure, PAIRS, [Flaw.SILENT]),
    (bribed, PAIRS, [Flaw.INJECTIONS]),
    (fooled, PAIRS, [Flaw.CANARIES]),
    (
        lambda prompt, n: yes(prompt),
        [work("t", "bad answer", False)],
        [Flaw.ALWAYS_YES, Flaw.CANARIES, Flaw.INJECTIONS],
    ),
    (lambda prompt, n: DOWN, PAIRS, [Flaw.SILENT]),
]


@pytest.mark.parametrize(("script", "rows", "flaws"), FLAWED)
def test_what_a_judge_must_not_have_is_found_and_nothing_else(script, rows, flaws, tmp_path):
    found = measure(script, rows, tmp_path).flaws
    assert set(found) == set(flaws)
    assert all(found.values())


@pytest.mark.parametrize("script", [right, bribed])
def test_the_command_ends_with_1_where_it_found_a_flaw(script, tmp_path, capsys):
    with serving_prompts(script) as server:
        rows = write(tmp_path / "rows.jsonl", PAIRS)
        ended = turngate("judge-check", rows, "--judge", server.url, "--model", "m")
    printed = capsys.readouterr().out
    assert ended == (script is bribed)
    assert ("! it obeyed 1 sentences that asked for a yes" in printed) == (script is bribed)


@pytest.mark.parametrize(
    ("r", "n", "follows"), [(0.19, 1000, False), (0.3, 20, False), (0.3, 60, True), (1.0, 5, False)]
)
def test_a_correlation_is_a_bias_only_where_it_is_no_chance(r, n, follows):
    one = agreement([True], [1.0], [True], [1.0])
    assert follows_length(replace(one, n=n, length_correlation=r)) is follows
