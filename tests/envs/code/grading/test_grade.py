"""What is believed of a run of tests, settling, and which changes reach the bench."""

import pytest

from tests.envs.code.conftest import BUG, REPAIR, VISIBLE, make_problem
from turngate.envs.code.engine.calibrate import flaky, settle, steady
from turngate.envs.code.grading.grade import ladder
from turngate.envs.code.grading.junit import Report, fallen, match, read_report
from turngate.envs.code.grading.protect import sort_changes
from turngate.envs.code.grading.suspects import TOO_DEEP, suspects
from turngate.envs.code.hints import added_text, changed_functions, first_hunk, hints
from turngate.envs.code.problem import Problem, unified
from turngate.envs.leak import leaked_secret
from turngate.errors import ConfigError, TaskRefused


def xml(**verdicts):
    inner = {
        "passed": "",
        "failed": "<failure/>",
        "error": "<error/>",
        "skipped": "<skipped/>",
        "xfailed": "<skipped type='pytest.xfail'/>",
    }
    case = "<testcase><properties><property name='nodeid' value='{}'/></properties>{}</testcase>"
    return f"<s>{''.join(case.format(name, inner[verdict]) for name, verdict in verdicts.items())}</s>".encode()


LAUGHS = b"<!DOCTYPE s [<!ENTITY a 'aaaaaaaaaa'>%s]><s>&j;</s>" % b"".join(
    b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 20) for n in range(9)
)
"""A small text that would fill the memory of whoever reads it."""


def read(content, exit_status, killed_by=""):
    return read_report(content, exit_status, killed_by, "", 0.0)


# --- reports ----------------------------------------------------------------------------------------------------------


def test_verdicts_follow_swe_bench():
    report = read(xml(a="passed", b="xfailed", c="skipped", d="failed", e="error"), 1)
    assert report.problem == ""
    names = ["a", "b", "c", "d", "e", "missing"]
    assert list(report.verdicts(names, ()).values()) == [True, True, False, False, False, False]
    assert list(report.verdicts((), names).values()) == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("report", "problem", "overridden"),
    [
        (read(xml(a="passed"), 1), "exit status 1, but no test failed", False),
        (read(xml(a="failed"), 0), "exit status 0, but 1 tests failed", True),
        (read(None, 0), "the run wrote no report (exit status 0)", True),
        (read(None, 137), "the run wrote no report (exit status 137)", False),
        (read(xml(a="passed"), 3), "the runner ended with exit status 3", False),
        (read(b"<s><testcase", 0), "the report of the run cannot be read", False),
        (read(b"<?xml version='1.0' encoding='nope'?><s/>", 0), "the report of the run cannot be read", False),
        (read(b"<?xml version='1.0' encoding='utf-7'?><s/>", 0), "the report of the run cannot be read", False),
        (read(LAUGHS, 0), "the report of the run cannot be read", False),
        (read(xml(a="passed"), 137, "deadline"), "the tests were ended: deadline", False),
    ],
)
def test_a_run_that_contradicts_itself_counts_for_nothing(report, problem, overridden):
    assert (report.problem, report.overridden) == (problem, overridden)
    assert report.killed is ("ended" in problem and "deadline" in problem)
    assert report.verdicts(["a"], ["a"]) == {"a": False}


def test_a_module_that_cannot_be_imported_explains_an_exit_status():
    broken = xml(a="passed").replace(b"</s>", b"<testcase name='m'><error/></testcase></s>")
    assert read(broken, 1).verdicts(["a"], ()) == {"a": True}


def test_a_test_reported_twice_holds_if_both_do():
    twice = xml(a="passed").replace(b"</s>", b"") + xml(a="error").replace(b"<s>", b"")
    assert read(twice, 1).status == {"a": "error"}


def test_ids_cut_off_inside_their_brackets_are_completed():
    reported = ["t.py::f[a b]", "t.py::f[a c]", "t.py::g"]
    assert match("t.py::f[a b]", reported) == ("t.py::f[a b]",)
    assert match("t.py::f[a", reported) == ("t.py::f[a b]", "t.py::f[a c]")
    assert match("t.py::f", reported) == ()
    report = Report(status={"t.py::f[a b]": "passed", "t.py::f[a c]": "failed", "t.py::g": "passed"})
    assert report.verdicts(["t.py::f[a", "t.py::f[a b", "t.py::h[x"], ()) == {
        "t.py::f[a": False,
        "t.py::f[a b": True,
        "t.py::h[x": False,
    }


def test_flaky_tests_are_those_on_which_reports_differ():
    reports = [
        Report(status=status)
        for status in ({"a": "passed", "b": "failed"}, {"a": "passed", "b": "passed"}, {"a": "passed"})
    ]
    assert steady(reports) == {"a": "passed"}
    assert flaky(reports) == {"b"}


# --- settling ---------------------------------------------------------------------------------------------------------


def test_settling_finds_which_tests_decide(problem):
    tests = "test_solution.py::test_"
    assert problem.fail_to_pass == (f"{tests}above", f"{tests}far_above")
    assert problem.pass_to_pass == (f"{tests}below", f"{tests}inside", f"{tests}width")
    assert problem.sensitive == problem.fail_to_pass


INSIDE = "from solution import clamp\n\n\ndef test_inside():\n    assert clamp(1, 0, 3) == 1\n"
FLAKY = "\n\ndef test_luck():\n    import os\n    assert os.urandom(1)[0] % 2 == 0\n"


def test_flaky_tests_are_left_out(bench):
    hidden = {"test_solution.py": VISIBLE + FLAKY}
    settled = settle(make_problem("plain", id="flaky", hidden=hidden), bench, repetitions=12)
    assert "test_solution.py::test_luck" not in (*settled.fail_to_pass, *settled.pass_to_pass)
    assert settled.fail_to_pass == ("test_solution.py::test_above",)


UNPARSABLE = """

def test_beside_threads():  # stands for Python's "AST constructor recursion depth mismatch" beside other threads
    import ast

    ast.parse = None
    assert clamp(1, 2, 3) == 3
"""


def test_a_failing_test_is_measured_where_its_source_cannot_be_parsed(bench):
    problem = make_problem("pytest", id="unparsable", hidden={"test_solution.py": INSIDE + UNPARSABLE})
    report = bench.measure(problem, problem.solved)
    assert report.problem == ""
    assert fallen(report) == {"test_solution.py::test_beside_threads"}


BROKEN = Report(status={}, problem="the runner ended with exit status 3")


@pytest.mark.parametrize(
    ("first", "text", "problem", "times"),
    [
        (BROKEN, REPAIR, "", 2),  # the machine broke it
        (None, "import os\nos._exit(3)\n", "the run wrote no report (exit status 3)", 2),  # the code breaks it
        (None, REPAIR, "", 1),
        (Report(status={}, problem="the tests were ended: deadline", killed=True), REPAIR, "the tests were ended", 1),
    ],
)
def test_a_runner_that_breaks_is_run_once_more(bench, monkeypatch, first, text, problem, times):
    measure, reports = bench.measure, []

    def measured(*args, **options):
        reports.append(first if first and not reports else measure(*args, **options))
        return reports[-1]

    monkeypatch.setattr(bench, "measure", measured)
    task = make_problem("plain", id=f"broken {problem} {times}")
    for _ in range(2):
        assert bench.run(task, {"solution.py": text}).problem.startswith(problem)
        assert len(reports) == times


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"solved": {"solution.py": BUG.replace("width", "breadth")}}, "no test fails with the bug"),
        ({"solved": {"solution.py": "import os\nos._exit(0)\n"}}, "reference repair cannot be measured"),
        ({"hidden": {"test_solution.py": INSIDE}}, "no test fails"),
        ({"requires": ("no-such-distribution-here",)}, "not installed"),
    ],
)  # fmt: skip
def test_a_problem_that_tells_nothing_is_refused_with_the_reason(bench, changes, reason):
    with pytest.raises(TaskRefused, match=reason):
        settle(make_problem("plain", id="refused", **changes), bench, repetitions=1)


def test_tools_that_hold_the_reference_are_refused(bench):
    import iniconfig

    with open(iniconfig.__file__) as file:
        text = file.read()
    problem = make_problem(id="held", files={"iniconfig/__init__.py": "bug"}, solved={"iniconfig/__init__.py": text})
    with pytest.raises(TaskRefused, match=r"hold 'iniconfig/__init__\.py' as the reference repair has it"):
        bench.open(problem)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a//b", "a/./b", "", "a\0b"])
def test_paths_out_of_the_work_folder_are_refused(path):
    with pytest.raises(ConfigError, match="below the work folder"):
        make_problem(files={path: "x"})


def test_a_problem_survives_its_task():
    problem = make_problem()
    assert Problem.of(problem.task()) == problem
    stripped = make_problem().task()
    object.__setattr__(stripped, "private", {})
    with pytest.raises(ConfigError, match="private parts never are"):
        Problem.of(stripped)


# --- what reaches the bench -------------------------------------------------------------------------------------------


def test_changes_are_sorted():
    problem = make_problem(import_paths=("src",))
    existed = frozenset({"solution.py", "tests/test_a.py", "src/types.py", "a.py", "setup.cfg", "solution_data.json"})
    sorted_ = sort_changes(
        {
            "solution.py": "x",
            "solution_data.json": "{}",
            "test_solution.py": "x",
            "tests/test_a.py": None,
            "tests/data.txt": "x",
            "conftest.py": "x",
            "setup.cfg": "x",
            "src/pytest/__init__.py": "x",
            "src/json.py": "x",
            "src/types.py": "changed, not new",
            "json.py": "not where modules are imported from",
            ".git/HEAD": "x",
            "a.py": None,
        },
        problem,
        existed,
    )
    assert sorted(sorted_.repair) == ["a.py", "json.py", "solution.py", "solution_data.json", "src/types.py"]
    assert sorted_.tests_added == ("test_solution.py", "tests/data.txt")
    assert sorted_.tests_deleted == ("tests/test_a.py",)
    assert sorted_.protected == (".git/HEAD", "conftest.py", "setup.cfg", "src/json.py", "src/pytest/__init__.py")
    assert sorted_.deleted == ("a.py",)


def test_what_the_reference_changes_is_never_protected():
    problem = make_problem(files={"setup.cfg": "a"}, solved={"setup.cfg": "b"})
    assert sort_changes({"setup.cfg": "c"}, problem, frozenset({"setup.cfg"})).repair == {"setup.cfg": "c"}


def test_only_new_names_are_suspect():
    assert suspects("x = 1", "x = 1", "import os\nos._exit(0)") == ("_exit",)
    assert suspects("x = 1", "x = 1", "getattr(os, '_exit')(0)") == ("_exit",)
    assert suspects("eval('1')", "x", "eval('2')") == ()
    assert suspects("x", "import ctypes", "import ctypes.util") == ()
    assert suspects("eval(1)", "x", "eval(1); eval(2)") == ("eval",)
    assert suspects("x", "x", "def broken(:") == ()


def test_code_is_read_as_the_interpreter_reads_it():
    assert suspects("", "", "# coding: unicode_escape\n# \\x0aimport sys; sys._getframe()\n") == ("_getframe",)
    assert suspects("", "", "# coding: latin-1\n# \udcff\nimport sys; sys._getframe()\n") == ("_getframe",)
    assert suspects("", "", "x = " + "+".join(["1"] * 5000)) == (TOO_DEEP,)
    assert suspects("", "", "x = " + "-" * 100_000 + "1") == (TOO_DEEP,)


def test_the_ladder():
    rungs = [ladder(submitted=s, empty=e, resolved=r) for s, e, r in ((0, 0, 1), (1, 1, 0), (1, 0, 0), (1, 0, 1))]
    assert rungs == [-1.0, -0.5, 0.0, 1.0]


# --- diffs and hints --------------------------------------------------------------------------------------------------


def test_functions_that_differ():
    before = "import a\n\nclass C:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
    assert changed_functions(before, before.replace("return 1", "return 3")) == {"C.f"}
    assert changed_functions(before, before.replace("import a", "import b")) == {"<module>"}
    assert changed_functions(before, "def broken(:") >= {"C.f", "C.g"}
    assert changed_functions(before, before) == frozenset()
    deep = before + "\n\ndef deep():\n    return " + "+".join(["1"] * 900) + "\n"
    assert changed_functions(before, deep) == {"deep", "<module>"}
    assert changed_functions(before, before + "x = " + "-" * 100_000 + "1") == frozenset()
    nested = "def a():\n    def b():\n        return 1\n    return b\n"
    assert changed_functions(nested, nested.replace("return 1", "return 2")) == {"a.b"}
    assert changed_functions(nested, nested.replace("return b", "return c")) == {"a"}


def test_a_diff_is_what_git_writes():
    assert unified("a.py", "x\n", "y") == "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n"
    assert unified("a.py", None, "y\n").startswith("--- /dev/null\n+++ b/a.py\n")
    assert unified("a.py", "x", "x") == ""


def test_hints_say_more_and_more(problem):
    tests, files, functions, patch = problem.task().hints
    assert tests == "Failing tests: test_solution.py::test_above, test_solution.py::test_far_above."
    assert files == "Files to change: solution.py."
    assert functions == "Functions to change: clamp in solution.py, width in solution.py."
    assert patch.startswith("The change is among these lines:\n")
    assert "    return helper.same(max(x, low))" in patch
    assert "min(" not in patch
    assert first_hunk("") == ""
    assert REPAIR not in patch


def test_the_last_hint_of_a_repair_in_two_places_is_the_first_of_them():
    lines = [f"line {number}" for number in range(20)]
    before = "\n".join(lines)
    patch = unified("a.py", before, before.replace("line 2\n", "two\n").replace("line 18", "eighteen"))
    (last,) = hints((), {}, {}, patch)
    assert last.startswith("The first change:\n--- a/a.py\n+++ b/a.py\n@@")
    assert "+two" in last
    assert "eighteen" not in last
    assert added_text(patch) == ()


def test_the_last_hint_of_a_repair_in_one_place_shows_the_lines_that_change():
    patch = unified("a.py", "def f(a):\n    x = a\n    return x\n", "def f(a):\n    x = a + 1\n    return x\n")
    (last,) = hints((), {}, {}, patch)
    assert last == "The change is among these lines:\ndef f(a):\n    x = a\n    return x"
    assert added_text(patch) == ("    x = a + 1",)
    assert leaked_secret(f"The first change:\n{first_hunk(patch)}", added_text(patch)) == "    x = a + 1"
    assert added_text(unified("a.py", "x\ny\n", "y\n")) == ()
    assert added_text(unified("a.py", "x = i + 1\n", "x = i\n")) == ()
    assert hints((), {}, {}, unified("a.py", None, "x\n")) == ()
