"""QuixBugs and plain pairs.

1. Programs load with everything that their tests need, and nothing of the repair.
2. A program that cannot be used is dropped with its reason; a folder without any raises.
3. Measured in a sandbox, good programs settle and a repair that repairs nothing is dropped.
"""

from pathlib import Path

import pytest

from tests.envs.code.loaders.pairs_on_disk import (
    BUGGY,
    COUNT,
    COUNT_BUG,
    FIXED,
    NODE,
    PLAIN,
    PUBLISHED,
    TAIL_BUG,
    write,
)
from turngate.envs.code.grading.forms import asked_form
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.loaders import quixbugs
from turngate.envs.code.loaders.history import MAX_BYTES
from turngate.errors import DataError


def reasons(folder: Path) -> dict[str, str]:
    return {item.id: item.reason for item in quixbugs(folder).dropped}


def test_the_published_layout(tmp_path: Path) -> None:
    loaded = quixbugs(write(tmp_path, PUBLISHED))
    digits, tail = loaded.problems
    assert loaded.dropped == ()
    assert (digits.id, tail.id) == ("quixbugs/digits", "quixbugs/tail_of")
    assert digits.statement.startswith("The program in 'python_programs/digits.py' does not always do what it should.")
    assert digits.files == {"python_programs/digits.py": COUNT_BUG, "python_programs/node.py": NODE}
    assert digits.solved == {"python_programs/digits.py": COUNT}
    assert (digits.folder, digits.runner, digits.test_files) == ("", "pytest", ("python_testcases/test_digits.py",))
    helpers = ["python_testcases/load_testdata.py", "python_testcases/node.py"]
    assert sorted(digits.hidden) == ["conftest.py", *helpers, "python_testcases/test_digits.py"]
    rows = "[[[0], 0], [[7], 1], [[1000000000], 10]]"
    assert f'("given", "expected"), {rows})' in (digits.hidden["python_testcases/test_digits.py"] or "")
    assert sorted(tail.hidden) == ["conftest.py", *helpers, "python_testcases/test_tail_of.py"]
    assert "pytest.use_correct = False\npytest.run_slow = False\n" in (digits.hidden["conftest.py"] or "")
    assert digits.about == {"source": "quixbugs", "program": "python_programs/digits.py"}
    assert (digits.fail_to_pass, digits.pass_to_pass) == ((), ())


@pytest.mark.parametrize(("text", "rows"), [("[[0], 0]\n", 0), ("[[NaN], 0]\n", 1), ("{\n", 1)])
def test_data_that_no_literal_gives_stays_a_file(tmp_path: Path, text: str, rows: int) -> None:
    write(tmp_path, PUBLISHED | {"json_testcases/digits.json": text})
    digits, _ = quixbugs(tmp_path).problems
    assert ("json_testcases/digits.json" in digits.hidden) is bool(rows)
    assert ('load("digits")' in (digits.hidden["python_testcases/test_digits.py"] or "")) is bool(rows)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("python_testcases/test_digits.py", None, "there are no tests 'python_testcases/test_digits.py'"),
        ("python_programs/digits.py", None, "there is no broken program 'python_programs/digits.py'"),
        ("correct_python_programs/digits.py", None, "there is no repair 'correct_python_programs/digits.py'"),
        ("correct_python_programs/digits.py", COUNT_BUG, "'correct_python_programs/digits.py' are the same"),
        ("correct_python_programs/digits.py", "def digits(:\n", "is not Python: invalid syntax"),
        ("correct_python_programs/digits.py", "x = 1\0", "is binary, not text"),
    ],
)
def test_programs_that_are_dropped(tmp_path: Path, path: str, text: str | None, reason: str) -> None:
    write(tmp_path, PUBLISHED)
    if text is None:
        (tmp_path / path).unlink()
    else:
        (tmp_path / path).write_text(text)
    loaded = quixbugs(tmp_path)
    assert [problem.id for problem in loaded.problems] == ["quixbugs/tail_of"]
    (dropped,) = loaded.dropped
    assert (dropped.id, dropped.line) == ("quixbugs/digits", None)
    assert reason in dropped.reason


def test_files_of_a_folder_that_are_no_texts_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", PUBLISHED)
    (tmp_path / "outside.py").write_text(COUNT_BUG)
    broken = folder / "python_programs" / "digits.py"
    broken.unlink()
    broken.symlink_to(tmp_path / "outside.py")
    assert reasons(folder) == {"quixbugs/digits": "'python_programs/digits.py' is a link that leads outside"}
    broken.unlink()
    with broken.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    large = f"'python_programs/digits.py' has {MAX_BYTES + 1} bytes; at most {MAX_BYTES} are read"
    assert reasons(folder) == {"quixbugs/digits": large}
    broken.write_bytes(b"# \xe9")
    assert reasons(folder) == {"quixbugs/digits": "'python_programs/digits.py' is not UTF-8 text (byte 2)"}


def test_plain_pairs(tmp_path: Path) -> None:
    loaded = quixbugs(write(tmp_path / "mine", PLAIN))
    area, far = loaded.problems
    assert loaded.dropped == ()
    assert (area.id, far.id) == ("mine/area", "mine/far")
    assert area.files == {"area.py": BUGGY, "shared.py": "ONE = 1\n"}
    assert area.solved == {"area.py": FIXED}
    assert area.hidden == {"test_area.py": PLAIN["test_area.py"], "conftest.py": "import pytest\n"}
    assert (area.test_files, area.about) == (("test_area.py",), {"source": "pairs", "program": "area.py"})
    assert far.files == {"far.py": PLAIN["far.py"], "shared.py": "ONE = 1\n"}
    assert far.solved == {"far.py": PLAIN["fixed/far.py"]}


def test_plain_pairs_that_are_dropped(tmp_path: Path) -> None:
    files = {"fixed/area.py": FIXED, "lone_fixed.py": "", "untested.py": "a = 1\n", "untested_fixed.py": "a = 2\n"}
    write(tmp_path / "mine", {**PLAIN, **files, "unfixed.py": "b = 1\n", "test_unfixed.py": "import unfixed\n"})
    assert [problem.id for problem in quixbugs(tmp_path / "mine").problems] == ["mine/far"]
    assert reasons(tmp_path / "mine") == {
        "mine/area": "there are two repairs, 'area_fixed.py' and 'fixed/area.py'; leave one",
        "mine/lone": "there is no broken program 'lone.py'",
        "mine/unfixed": "there is no repair 'unfixed_fixed.py'",
        "mine/untested": "there are no tests 'test_untested.py'",
    }


def test_folders_without_pairs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder"):
        quixbugs(tmp_path / "missing")
    with pytest.raises(DataError, match="holds neither the layout of QuixBugs nor"):
        quixbugs(write(tmp_path, {"a.py": "", "README": ""}))


# --- measured --------------------------------------------------------------------------------------------------------


def test_programs_settle(tmp_path: Path, bench: Bench) -> None:
    files = {**PUBLISHED, "correct_python_programs/tail_of.py": TAIL_BUG + "# no better\n"}
    settled = quixbugs(write(tmp_path, files)).settled(bench, repetitions=1)
    (digits,) = settled.problems  # its bug goes on for ever, which fails its test and no other
    test = "python_testcases/test_digits.py::test_digits"
    assert digits.fail_to_pass == digits.sensitive == (f"{test}[given1-1]",)
    assert digits.pass_to_pass == (f"{test}[given0-0]", f"{test}[given2-10]")  # the last is skipped
    inside = {f"{test}[given{number}-{size}]": f"{test}[ask{number}]" for number, size in enumerate((0, 1, 10))}
    assert digits.asked == inside  # ids that do not tell what is expected
    asked = "".join(text or "" for text in asked_form(digits).texts.values())
    assert "[([0], None), ([7], None), ([1000000000], None)]" in asked
    assert [item.id for item in settled.dropped] == ["quixbugs/tail_of"]


def test_plain_pairs_settle(tmp_path: Path, bench: Bench) -> None:
    settled = quixbugs(write(tmp_path / "mine", PLAIN)).settled(bench, repetitions=1)
    assert [problem.fail_to_pass for problem in settled.problems] == [
        ("test_area.py::test_it",),
        ("test_far.py::test_far",),
    ]
