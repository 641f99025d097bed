import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.code.engine.edits import BadEdit, Edit, apply_edit, read_edit
from turngate.envs.code.engine.observe import number_lines, shorten, without_times
from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.oracle import edit, piece, replacements
from turngate.tools.read import parse

BLOCK = "<<<<<<< OLD\n  a\nb\n=======\nc\n\n>>>>>>> NEW"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"change": " a + b  =>  a - b "}, Edit(old="a + b", new="a - b")),
        ({"change": "a =>"}, Edit(old="a", new="")),
        ({"change": BLOCK}, Edit(old="  a\nb\n", new="c\n\n")),
        ({"change": "<<<<<<<\n=======\nnew\n>>>>>>>"}, Edit(old="", new="new\n")),
        ({"change": "+3 x = 1"}, Edit(line=3, new="x = 1\n")),
        ({"change": "+0\n    x\n    y\n"}, Edit(line=0, new="    x\n    y\n")),
        ({"old": "a", "new": "b"}, Edit(old="a", new="b")),
        ({"new": "whole"}, Edit(new="whole")),
        ({"line": "2", "new": "x"}, Edit(line=2, new="x\n")),
    ],
)
def test_every_form_of_an_edit_is_read(arguments, expected):
    assert read_edit(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "nothing to change"),
        ({"change": "a -> b"}, "could not be read"),
        ({"change": "a\nb => c"}, "could not be read"),
        ({"line": "two", "new": "x"}, "must be a number"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(arguments, complaint):
    with pytest.raises(BadEdit, match=complaint):
        read_edit(**arguments)


def test_a_command_line_carries_a_change_unchanged():
    action = parse(f"edit a/b.py\n{BLOCK}", CodeRepairEnv.turn_spec.tools)
    assert action.calls[0].arguments == {"path": "a/b.py", "change": BLOCK}


def test_edits_of_a_text():
    text = "one\ntwo\nthree\n"
    assert apply_edit(Edit(old="two", new="2"), text, "f") == ("one\n2\nthree\n", 2)
    assert apply_edit(Edit(line=0, new="x\n"), text, "f") == ("x\none\ntwo\nthree\n", 1)
    assert apply_edit(Edit(line=3, new="x\n"), "one\ntwo\nthree", "f") == ("one\ntwo\nthree\nx\n", 4)
    assert apply_edit(Edit(new="all\n"), None, "f") == ("all\n", 1)


@pytest.mark.parametrize(
    ("change", "text", "complaint"),
    [
        (Edit(old="e", new="x"), "one\nthree", "more than once"),
        (Edit(old="E", new="x"), "one", "does not occur"),
        (Edit(old="one", new="one"), "one", "are the same"),
        (Edit(old="", new="x"), "one", "exists"),
        (Edit(old="a", new="x"), None, "no file"),
        (Edit(line=1, new="x"), None, "no file"),
        (Edit(line=5, new="x"), "one", "has 1 lines"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(change, text, complaint):
    with pytest.raises(BadEdit, match=complaint):
        apply_edit(change, text, "f")


LINES = st.lists(st.sampled_from(["a", "b", "    c", "", "x => y", "def f():"]), max_size=8)


@given(LINES, LINES, st.booleans())
def test_the_oracle_turns_any_text_into_any_other(before, after, newline):
    old, new = "\n".join(before) + "\n" * newline, "\n".join(after) + "\n"
    if not old or old == new:
        return
    text = old
    for original, replacement, applies_to in replacements(old, new):
        assert applies_to == text
        call = parse(edit("f.py", original, replacement, text), CodeRepairEnv.turn_spec.tools).calls[0]
        assert (call.name, call.arguments["path"]) == ("edit", "f.py")
        text, _ = apply_edit(
            read_edit(**{name: value for name, value in call.arguments.items() if name != "path"}), text, "f.py"
        )
    assert text == new


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("return max(low, min(n, low))", "return max(low, min(n, top))", ("low)", "top)")),
        ("x >= level", "x > level", (">= level", "> level")),
        ("return a", "return a + 1", ("return a", "return a + 1")),
        ("if a and b:", "if b:", ("a and b", "b")),
    ],
)
def test_an_edit_says_no_more_than_it_must(old, new, expected):
    text = f"def f(low, top, a):\n    {old}\n"
    short = piece(old, new, text)
    assert short == expected
    assert text.count(short[0]) == 1
    assert old.replace(*short) == new


@given(st.text(max_size=300), st.integers(10, 100))
def test_shortening_keeps_both_ends(text, limit):
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert short.startswith(text[: (limit + 1) // 2])
        assert short.endswith(text[len(text) - limit // 2 :])
        assert f"{len(text) - limit} characters" in short


def test_numbered_lines_say_what_is_around_them():
    assert number_lines("a\nb\nc\n", 1, 9, 99) == "1 a\n2 b\n3 c"
    assert number_lines("a\nb\nc\n", 2, 2, 99) == "2 b\n[lines 2 to 2 of 3]"
    assert number_lines("", 1, 9, 99) == "[empty]"


def test_times_are_taken_out_of_a_test_run_and_nothing_else():
    assert without_times("3 passed in 0.12s\nwait in 3.5s or in 2s") == "3 passed\nwait or in 2s"
