"""`turngate tasks code` on packages whose tests are slow, hang, end the run, or are chosen by a configuration."""

import json
from dataclasses import replace

import pytest

from tests.envs.code.sums import FILES, TESTS, put
from tests.helpers.command_line import turngate
from turngate.envs.code.generated.mutation import coverage as measuring
from turngate.envs.code.generated.mutation import harvest as harvesting
from turngate.envs.code.generated.mutation import suite as running
from turngate.envs.code.generated.mutation.coverage import SLOW, STUCK, TOO_MANY, TRIMMED, UNREACHED, measure
from turngate.envs.code.generated.mutation.harvest import harvest
from turngate.envs.code.generated.mutation.packages import open_package
from turngate.envs.code.generated.mutation.suite import Ran, Suite, run_suite
from turngate.envs.code.taskset import problems_of
from turngate.errors import TaskRefused

BAD = """\
import os
import time
import pytest
from sums.core import mean

def test_burns():
    end_s = time.process_time() + 1
    while time.process_time() < end_s:
        mean([1])

def test_burns_not():
    assert mean([3]) == 3

@pytest.mark.parametrize("x", [1, 2])
def test_sleeps(x):
    assert mean([x]) == x
    time.sleep(600)

def test_will_not_end():
    assert mean([1]) == 1
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass

def test_crashes():
    os._exit(3)

def test_ends_the_session():
    pytest.exit("enough")

def test_behind():
    assert mean([2, 4]) == 3
    assert mean([2, 2, 5]) == 3
"""
STRESS = """\
import pytest, time
from sums.core import mean

@pytest.mark.stress
@pytest.mark.parametrize("x", range(500))
def test_stress(x):
    time.sleep(600)

def test_other(slow):
    assert slow and mean([1]) == 1
"""
CONFTEST = """\
import pytest

def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true")

@pytest.fixture
def slow(request):
    return request.config.getoption("--runslow")
"""
PROJECT = """\
[tool.pytest.ini_options]
addopts = "-m 'not stress' --cov=sums -n 2 --runslow --ignore=tests/test_network.py"
testpaths = ["tests"]
required_plugins = "pytest-nothing"
asyncio_mode = "auto"
strict_markers = true
filterwarnings = ["error", "ignore::nothing_like_this.Warning"]
"""
OTHER = """\
import pytest, time

@pytest.mark.asyncio
def test_marked_by_a_plugin():
    pass

def test_burns():
    end_s = time.process_time() + 1
    while time.process_time() < end_s:
        pass
"""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(running, "TEST_S", 4.0)


def opened(tmp_path, **files):
    kept = {name: text for name, text in FILES.items() if name != "tests/test_network.py"}
    return open_package(put(tmp_path / "sums", kept | files), tmp_path / "tree")


def names(tests, file):
    return {test.partition("::")[2] for test in tests if test.startswith(f"{file}::")}


def test_slow_tests_are_left_out_and_not_their_files(tmp_path, bench, quick):
    said = []
    found = measure(opened(tmp_path, **{"tests/test_bad.py": BAD}), bench, repetitions=1, say=said.append)
    assert names(found.stable, "tests/test_bad.py") == {"test_behind"}
    assert len(names(found.stable, "tests/test_core.py")) == 12
    assert found.left_out == {SLOW: 3, STUCK: 3, "did not pass here": 1, "named like one that is left out": 1}
    assert found.n_found == len(found.stable) + 8
    options = {
        f"--deselect=tests/test_bad.py::{name}"
        for name in ("test_burns", "test_sleeps[", "test_will_not_end", "test_crashes", "test_ends_the_session")
    }
    assert set(found.slow["tests/test_bad.py"]) == options
    assert found.cpu_s["tests/test_bad.py"] < 1
    assert said[1].startswith("21 tests, ")
    assert said[1].endswith(" 14 of these fast enough")


def test_the_command_honours_the_configuration_and_says_what_it_could_not(tmp_path, bench, quick, capsys, monkeypatch):
    monkeypatch.setattr(harvesting, "ROUND", 2)
    files = {"pyproject.toml": PROJECT, "tests/conftest.py": CONFTEST, "tests/test_stress.py": STRESS}
    source = put(tmp_path / "sums", FILES | files | {"tests/test_other.py": OTHER})
    out = tmp_path / "set"
    words = ["--package", source, "--n", 1, "--repetitions", 1, "--limit-s", 500, "--out", out]
    assert turngate("tasks", "code", *words) == 0
    said = capsys.readouterr().out
    dropped = "--cov=sums, -n 2, required_plugins = pytest-nothing"
    assert f"sums: not honoured in its pyproject.toml: {dropped}" in said
    assert "sums: running its tests 2 times, for at most 250 s" in said
    assert "sums: run 2 of 2: 14 passed again" in said
    assert "14 of 516 tests used (500 left out by the package's own settings; 1 did not pass here; 1 took more" in said
    assert f"{out}: 1 tasks" in said
    (problem,) = problems_of(out)
    assert problem.options[:2] == ("-m", "not stress")
    assert "--runslow" in problem.options
    card = json.loads((out / "card.json").read_text())
    assert card["sources"][0]["dropped"] == [*dropped.split(", "), "filterwarnings"]
    assert card["sources"][0]["left_out"][SLOW] == 1
    page = (out / "card.md").read_text()
    assert f"| sums | {SLOW} | 1 |" in page
    assert f"| sums | {dropped}, filterwarnings |" in page
    assert "--limit-s 500" in page
    assert turngate("tasks", "check", out) == 0


def test_a_run_that_is_cut_off_gives_what_it_had(tmp_path, bench):
    slow = "import pytest, time\n@pytest.mark.parametrize('x', range(40))\ndef test_a(x):\n    time.sleep(2)\n"
    package = replace(
        opened(tmp_path, **{"tests/test_slow.py": slow}), tests=("tests/test_core.py", "tests/test_slow.py")
    )
    suite = run_suite(measuring._probe(package), bench, deadline_s=12)
    assert len(suite.found) == 53
    assert len(names(suite.passed, "tests/test_core.py")) == 12
    assert len(suite.ran) < 53
    assert suite.stuck == frozenset()
    waits = opened(tmp_path / "b", **{"tests/test_core.py": "import time\ntime.sleep(600)\n" + TESTS})
    with pytest.raises(TaskRefused, match="its tests were not even collected within 0 s"):
        run_suite(measuring._probe(waits), bench, deadline_s=0.1)


def test_what_is_missing_is_named(tmp_path, bench):
    package = opened(tmp_path, **{"tests/conftest.py": "import nothing_like_this\n"})
    with pytest.raises(TaskRefused, match="its tests need 'nothing_like_this', which is not installed here"):
        measure(package, bench, repetitions=1)


def test_the_costliest_functions_of_a_slow_file_are_left_out_and_long_lists_of_tests_with_their_file(monkeypatch):
    tests = {f"a.py::test_{number}": 0.1 * number for number in range(1, 5)} | {
        "a.py::test_p[1]": 0.4,
        "a.py::test_p[2]": 0.4,
    }
    tests |= {f"b.py::test_b[{number}]": 0.01 for number in range(5)}
    ran = {
        name: Ran(passed=True, slow=False, cpu_s=cpu_s, time_s=0, calls=frozenset()) for name, cpu_s in tests.items()
    }
    late = tuple(f"b.py::test_b[{number}]" for number in range(5, 9))
    suite = Suite(found=(*tests, *late), n_deselected=0, ran=ran, stuck=frozenset())
    monkeypatch.setattr(measuring, "FILE_CPU_S", 0.8)
    why = measuring._reasons(suite)
    assert why == dict.fromkeys(["a.py::test_4", "a.py::test_p[1]", "a.py::test_p[2]"], TRIMMED) | dict.fromkeys(
        late, UNREACHED
    )
    assert measuring._deselected(suite.found, why) == {
        "a.py": ("--deselect=a.py::test_4", "--deselect=a.py::test_p["),
        "b.py": tuple(f"--deselect={name}" for name in late),
    }
    monkeypatch.setattr(measuring, "MAX_OPTIONS_BYTES", 60)
    assert measuring._deselected(suite.found, why) == {"a.py": ("--deselect=a.py::test_4", "--deselect=a.py::test_p[")}
    assert [name for name, reason in why.items() if reason == TOO_MANY] == [f"b.py::test_b[{n}]" for n in range(5)]


def test_the_limit_of_a_package_ends_it_with_what_is_there(package, coverage, bench, monkeypatch, harvested):
    """Time is up while the second round is measured."""
    monkeypatch.setattr(harvesting, "measure", lambda package, bench, **_: coverage)

    def make(maker, number, chosen):
        if number >= harvesting.ROUND:
            maker.bench._end_s = 0.0
            return original(maker, number, chosen)
        return replace(harvested.problems[0], id=str(number)) if number == 0 else "refused"

    original = harvesting._Maker.make
    monkeypatch.setattr(harvesting._Maker, "make", make)
    result = harvest(package, bench, n=3, repetitions=1, limit_s=600)
    assert (result.stopped, len(result.problems), result.n_candidates) == (True, 1, harvesting.ROUND)
    assert result.refused == {"refused": harvesting.ROUND - 1}


def test_a_package_without_time_says_so(tmp_path, capsys):
    source = put(tmp_path / "sums", FILES)
    assert turngate("tasks", "code", "--package", source, "--limit-s", 1, "--n", 1, "--out", tmp_path / "set") == 0
    said = capsys.readouterr().out
    assert "sums: running its tests 3 times, for at most 0 s" in said
    assert said.splitlines()[-1] == f"{tmp_path / 'set'}: 0 tasks"


UNTELLING = """\
from sums.core import clamp

def same(a, b):
    if a != b:
        raise AssertionError

def test_low():
    same(clamp(-1, 0, 3), 0)

def test_high():
    same(clamp(9, 0, 3), 3)

def test_inside():
    same(clamp(2, 0, 3), 2)

def test_edge():
    same(clamp(3, 0, 3), 3)
"""


def test_a_bug_that_no_telling_test_sees_is_refused_before_it_is_settled(tmp_path, bench, monkeypatch):
    monkeypatch.setattr(harvesting, "settle", lambda *_, **__: pytest.fail("it was settled"))
    package = opened(tmp_path, **{"tests/test_core.py": UNTELLING})
    result = harvest(package, bench, n=1, repetitions=1)
    assert result.problems == ()
    assert result.refused["none of its deciding tests can tell a cheat"] >= 1
