"""TextModels without a model: what they say, what they decline, and what is no such file or function."""

import asyncio

import pytest

from tests.helpers.scripted_judge import CRITERION, FAST, fair, items, written
from turngate.errors import UserError
from turngate.judges.asking import FunctionJudge, Judge, JudgePart, Prompt, RecordedJudge
from turngate.judges.texts import FaultKind


def say(part, prompt):
    return asyncio.run(part.text_model(None).complete(Prompt(name="a", text=prompt, seed=0, max_tokens=9)))


def honest(prompt):
    """A function that judges."""
    return written(prompt, fair(prompt, 1))


NUMBER = 3


def test_a_recorded_reply_is_found_by_its_prompt(tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('{"prompt": "a b ", "reply": "c", "tokens": 2}\n{"prompt": "d", "reply": ""}\n')
    part = JudgePart.load({"type": "recorded", "file": str(file), "version": "2"})
    assert (say(part, " a b").text, say(part, "a b").tokens, say(part, "d").tokens) == ("c", 2, None)
    other = say(part, "a  b")
    assert (other.fault.kind, other.again) == (FaultKind.REFUSAL, False)
    assert (part.text_model(None).judge.name, part.text_model(None).judge.version) == ("r.jsonl", "2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"prompt": "a"}', "line 1: is not"),
        ("[]", "line 1: is not"),
        (
            '{"prompt": "a", "reply": "b"}\n{"prompt": "a ", "reply": "c"}',
            "line 2, field 'prompt'",
        ),
        ("{", "line 1: is not JSON"),
    ],
)
def test_a_file_of_another_form(tmp_path, text, problem):
    file = tmp_path / "r.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match=problem):
        RecordedJudge(file=file).text_model(None)


def test_a_function_judges():
    part = FunctionJudge(path=f"{__name__}:honest")
    judged = asyncio.run(Judge(part.text_model(None), settings=FAST).pointwise(items(2), CRITERION))
    assert [answer.passed for answer in judged.answers] == [True, True]


@pytest.mark.parametrize(
    ("path", "problem"),
    [("math:sqrt", "raised TypeError"), ("builtins:len", "returned 1"), ("sys:exit", "raised SystemExit: x")],
)
def test_a_function_that_does_not_answer(path, problem):
    reply = say(FunctionJudge(path=path), "x")
    assert (reply.fault.kind, reply.again) == (FaultKind.UNAVAILABLE, False)
    assert problem in reply.fault.detail


@pytest.mark.parametrize("path", [f"{__name__}:NUMBER", f"{__name__}:nobody", "no_such_module:x"])
def test_what_is_no_function_is_refused(path):
    with pytest.raises(UserError, match=r"not a function|nobody|no_such_module"):
        FunctionJudge(path=path).text_model(None)
