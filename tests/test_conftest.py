"""In CI nothing is skipped quietly. Each case runs a small suite of its own under the real conftest."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.helpers.every import for_every

CONFTEST = Path(__file__).with_name("conftest.py")
ROOT = CONFTEST.parents[1]


SKIPS = {
    "test_call.py": "import pytest\ndef test_a():\n    pytest.skip('no thing 1')\n",
    "test_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no thing 2')\ndef test_a():\n    pass\n",
    "test_module.py": "import pytest\npytest.skip('no thing 3', allow_module_level=True)\n",
    "test_import.py": "import pytest\npytest.importorskip('no_such_module', reason='no thing 4')\n",
}
MISSING = "\nREQUIRED_COMPONENTS['flux capacitor'] = lambda: False\n"


def run_suite(folder, tests, *, ci, conftest_tail="", options=()):
    shutil.copy(CONFTEST, folder / "conftest.py")
    with (folder / "conftest.py").open("a") as file:
        file.write(conftest_tail)
    for name, source in tests.items():
        (folder / name).write_text(source)
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment["PYTHONPATH"] = str(ROOT)  # for the plugins that the conftest names
    if ci:
        environment["CI"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull, "."]
    keep_going = ["--continue-on-collection-errors"]
    result = subprocess.run(
        [*command, *keep_going, *options], cwd=folder, env=environment, capture_output=True, text=True
    )
    return result.returncode, result.stdout + result.stderr


def test_every_way_to_skip_fails_in_ci(tmp_path):
    code, output = run_suite(tmp_path, SKIPS, ci=True)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 3 errors" in output
    for number in range(1, 5):
        assert re.search(f"nothing may be skipped in CI, but this was: .*no thing {number}", output)


def test_elsewhere_skips_and_missing_components_are_allowed(tmp_path):
    code, output = run_suite(tmp_path, SKIPS, ci=False, conftest_tail=MISSING)
    assert (code, "4 skipped" in output) == (pytest.ExitCode.OK, True)


def test_an_expected_failure_is_no_skip(tmp_path):
    test = "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_a():\n    assert False\n"
    code, output = run_suite(tmp_path, {"test_a.py": test}, ci=True)
    assert (code, "1 xfailed" in output) == (pytest.ExitCode.OK, True)


def test_a_missing_component_stops_the_session_in_ci(tmp_path):
    code, output = run_suite(tmp_path, {"test_a.py": "def test_a():\n    pass\n"}, ci=True, conftest_tail=MISSING)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "required components are missing: flux capacitor; run `make test`" in output


def test_what_make_quick_leaves_out_is_there():
    """A file that was renamed would be fast without anybody having said so."""
    for place in SLOW:
        path, _, test = place.partition("::")
        assert (CONFTEST.parent / path).exists(), f"no '{path}'; change SLOW in tests/conftest.py"
        assert f"def {test}" in (CONFTEST.parent / path).read_text() if test else True, place


def test_a_slow_test_is_told_by_its_folder_its_file_or_its_name(tmp_path):
    tail = "\nSLOW[:] = ['deep', 'test_a.py', 'test_b.py::test_long']\n"
    (tmp_path / "deep").mkdir()
    body = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_long(n):\n    pass\n"
    body += "def test_longer():\n    pass\n"
    tests = {name: body for name in ("deep/test_c.py", "test_a.py", "test_ab.py", "test_b.py")}
    code, output = run_suite(tmp_path, tests, ci=False, conftest_tail=tail, options=("-m", "not slow", "-vv"))
    ran = sorted(set(re.findall(r"(\S+\.py::\S+) PASSED", output)))
    assert code == pytest.ExitCode.OK
    assert ran == [
        "test_ab.py::test_long[1]",
        "test_ab.py::test_long[2]",
        "test_ab.py::test_longer",
        "test_b.py::test_longer",
    ]


@for_every("number", [1, 2, 3])
def odd(number: int, least: int) -> None:
    assert number >= least, "is small"
    assert number % 2, "is even"


def test_a_law_is_tested_for_every_value_and_those_that_break_it_are_named() -> None:
    assert list(inspect.signature(odd).parameters) == ["least"]
    with pytest.raises(pytest.fail.Exception) as caught:
        odd(least=1)
    first, second = str(caught.value).splitlines()[:2]
    assert first == "not for 1 of 3 values of 'number':"
    assert second.startswith("  2: AssertionError: is even")
    with pytest.raises(pytest.fail.Exception, match="not for 3 of 3"):
        odd(least=4)
    with pytest.raises(ValueError, match="there is no value of 'number' to test"):
        for_every("number", [])
