"""Pairs of a broken program and its repair, with tests: the layout of QuixBugs, and a plain one.

QuixBugs, as published:

    python_programs/NAME.py            broken                 python_testcases/test_NAME.py
    correct_python_programs/NAME.py    repaired               python_testcases/*.py         what the tests import
    python_programs/node.py            shown with each        json_testcases/NAME.json      data of a test, if any

The data of a test is written into the test itself, in the place of the one call of a function of ``load_testdata``:
then it is known which values are expected, and they need not be shown to the code (``grading/extracted_asserts.py``).
The tests choose by ``pytest.use_correct`` and ``pytest.run_slow``; both are set to False. Programs named X_test are
drivers of X and left out.

Plain, for files of one's own:

    NAME.py          broken            NAME_fixed.py or fixed/NAME.py    repaired
    test_NAME.py     its tests         conftest.py                       hidden like the tests, if any

Any other module of the folder, one with neither repair nor tests, is shown with every program.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turngate.envs.code.loaders.history import MAX_BYTES, utf8
from turngate.envs.code.problem import Problem
from turngate.errors import DataError, TaskRefused

TEST_CPU_S = 1.0
"""A test that needs more fails: some of these bugs never end, and would keep the other tests from being run."""

_CONFTEST = f'''"""The program under test is the one in python_programs; a test that goes on for ever fails."""

import signal

import pytest

pytest.use_correct = False
pytest.run_slow = False


def too_long(signal_number, frame):
    pytest.fail("it did not end within {TEST_CPU_S} s of processor time", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, {TEST_CPU_S})
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
'''
_STATEMENT = (
    "The program in '{path}' does not always do what it should. Find the bug and repair it in that file. Keep the "
    "names and the arguments of its functions: hidden tests call them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePair:
    """Where the parts of one problem lie, relative to the folder; a part need not exist."""

    id: str
    layout: str
    program: str
    """The broken program."""
    repairs: tuple[str, ...]
    """Where its repair may lie."""
    tests: str
    shown: tuple[str, ...]
    """Other files that the agent finds."""
    hidden: tuple[str, ...]
    """Other files that the tests need."""
    data: str = ""
    """Lines of JSON that the tests load, if any."""


def find_pairs(root: Path) -> list[FilePair]:
    """The pairs of a folder in either layout, by name. Raises DataError if there are none."""
    if not root.is_dir():
        raise DataError(root, "there is no such folder")
    pairs = list(_published(root) if (root / "python_programs").is_dir() else _plain(root))
    if not pairs:
        raise DataError(root, "holds neither the layout of QuixBugs nor NAME.py with NAME_fixed.py and test_NAME.py")
    return pairs


def pair_problem(root: Path, pair: FilePair) -> Problem:
    """The problem of a pair; which of its tests decide is not known yet. Raises TaskRefused with the reason."""
    repairs = [path for path in pair.repairs if (root / path).is_file()]
    if len(repairs) > 1:
        raise TaskRefused(f"there are two repairs, '{repairs[0]}' and '{repairs[1]}'; leave one")
    for path, what in ((pair.program, "broken program"), (next(iter(repairs), pair.repairs[0]), "repair")):
        if not (root / path).is_file():
            raise TaskRefused(f"there is no {what} '{path}'")
    if not (root / pair.tests).is_file():
        raise TaskRefused(f"there are no tests '{pair.tests}'")
    broken, repaired = read_text(root, pair.program), read_text(root, repairs[0])
    if broken == repaired:
        raise TaskRefused(f"the texts of '{pair.program}' and '{repairs[0]}' are the same")
    try:
        ast.parse(repaired)
    except (SyntaxError, ValueError) as error:
        raise TaskRefused(f"the repair '{repairs[0]}' is not Python: {error}") from error
    hidden = {path: read_text(root, path) for path in (pair.tests, *pair.hidden)}
    if pair.data and (text := with_data(hidden[pair.tests], read_text(root, pair.data))) is not None:
        hidden[pair.tests] = text
    elif pair.data:
        hidden[pair.data] = read_text(root, pair.data)
    if pair.layout == "quixbugs":
        hidden["conftest.py"] = _CONFTEST
    return Problem(
        id=pair.id,
        statement=_STATEMENT.format(path=pair.program),
        files={path: read_text(root, path) for path in (pair.program, *pair.shown)},
        solved={pair.program: repaired},
        hidden=hidden,
        test_files=(pair.tests,),
        about={"source": pair.layout, "program": pair.program},
    )


def with_data(source: str, lines: str) -> str | None:
    """A test module with its data as a literal in the place of the call that loads it; None if that cannot be done."""
    try:
        rows = repr([json.loads(line) for line in lines.splitlines()])
        tree = ast.parse(source)
        ast.literal_eval(rows)
    except (ValueError, SyntaxError, RecursionError):  # such as NaN, which no literal gives
        return None
    loaders = {
        item.asname or item.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "load_testdata"
        for item in node.names
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in loaders
    ]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return None
    texts = source.splitlines(keepends=True)
    line = texts[calls[0].lineno - 1].encode()
    changed = line[: calls[0].col_offset] + rows.encode() + line[calls[0].end_col_offset :]
    texts[calls[0].lineno - 1] = changed.decode()
    return "".join(texts)


def _published(root: Path) -> Iterator[FilePair]:
    folders = ("python_programs", "correct_python_programs")
    programs, repairs = (_stems(root / folder) for folder in folders)
    companions = {"node", "__init__"}
    drivers = {name for name in programs | repairs if name.removesuffix("_test") in (programs | repairs) - {name}}
    tests = {name.removeprefix("test_") for name in _stems(root / "python_testcases") if name.startswith("test_")}
    helpers = sorted(name for name in _stems(root / "python_testcases") if not name.startswith("test_"))
    for name in sorted((programs | repairs | tests) - companions - drivers):
        data = f"json_testcases/{name}.json"
        yield FilePair(
            id=f"quixbugs/{name}",
            layout="quixbugs",
            program=f"python_programs/{name}.py",
            repairs=(f"correct_python_programs/{name}.py",),
            tests=f"python_testcases/test_{name}.py",
            shown=tuple(f"python_programs/{item}.py" for item in sorted(companions & programs)),
            hidden=tuple(f"python_testcases/{item}.py" for item in helpers),
            data=data if (root / data).exists() else "",
        )


def _plain(root: Path) -> Iterator[FilePair]:
    stems = _stems(root)
    tests = {name.removeprefix("test_") for name in stems if name.startswith("test_")}
    beside = {name.removesuffix("_fixed") for name in stems if name.endswith("_fixed")}
    names = tests | beside | _stems(root / "fixed")
    parts = {f"test_{name}" for name in names} | {f"{name}_fixed" for name in names} | names
    for name in sorted(names):
        yield FilePair(
            id=f"{root.resolve().name}/{name}",
            layout="pairs",
            program=f"{name}.py",
            repairs=(f"{name}_fixed.py", f"fixed/{name}.py"),
            tests=f"test_{name}.py",
            shown=tuple(f"{item}.py" for item in sorted(stems - parts - {"conftest"})),
            hidden=("conftest.py",) if "conftest" in stems else (),
        )


def _stems(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.py"))


def read_text(root: Path, path: str) -> str:
    """A text of the folder. Raises TaskRefused for one that lies outside, is too large, or is no text."""
    file = root / path
    if not file.resolve().is_relative_to(root.resolve()):
        raise TaskRefused(f"'{path}' is a link that leads outside")
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            raise TaskRefused(f"'{path}' has {size} bytes; at most {MAX_BYTES} are read")
        return utf8(file.read_bytes(), f"'{path}'")
    except OSError as error:
        raise TaskRefused(f"'{path}' cannot be read: {error.strerror}") from error
