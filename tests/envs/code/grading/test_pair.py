"""Pairs of runs, where tests that keep what they expect inside are real in one and altered in the other.

1. Every alterable test is altered in exactly one run of a pair, and other draws choose otherwise.
2. A test holds if it passes where it is real and is reported as failed where it is altered; nothing else is "failed".
3. Both runs start before either ends.
4. Code that tells runs apart, looks up what is expected, or equals everything, is not paid, with either runner. What
   amounts to a coin, such as the clock, may be right by chance where a test keeps what it expects inside, so it is
   tossed several times.
"""

from dataclasses import replace

import pytest

from tests.envs.code.conftest import BUG, REPAIR, make_problem
from turngate.envs.code.engine.calibrate import check_paid, settle
from turngate.envs.code.grading.forms import alterable_functions
from turngate.envs.code.grading.grade import measure
from turngate.envs.code.grading.junit import FIXED, Report
from turngate.envs.code.grading.pair import Halves, RunPair, halves, n_pairs, unasked_result
from turngate.envs.code.grading.protect import Sorted
from turngate.errors import TaskRefused

T = "test_solution.py::test_"
RETURN = "return helper.same(max(x, low))"


def inside(problem, **changes):
    """The problem with all its tests as they would be if none could be asked."""
    return replace(problem, asked={}, **{"id": f"{problem.id}-inside", **changes})


def test_every_alterable_test_is_altered_in_one_run_of_a_pair(problem):
    problem = inside(problem)
    functions = alterable_functions(problem)
    assert functions == {f"{T}far_above", f"{T}below"}  # the others were shown
    drawn = [halves(problem, problem.hidden, functions, seed) for seed in range(40)]
    for one in drawn:
        first, second = one.altered
        assert (first | second, first & second) == (functions, frozenset())
        for text, names in zip(one.texts, one.altered, strict=True):
            changed = text["test_solution.py"]
            assert ("clamp(50, 0, 7) == 7\n" in changed) is (f"{T}far_above" not in names)
            assert ("clamp(-1, 0, 3) == 0\n" in changed) is (f"{T}below" not in names)
    assert {one.altered[0] for one in drawn} == {
        frozenset(), functions, frozenset({f"{T}far_above"}), frozenset({f"{T}below"}),
    }  # fmt: skip


def test_few_tests_take_more_pairs():
    assert [n_pairs(n, asked=False) for n in (0, 1, 2, 3, 4, 5, 6, 50)] == [3, 3, 2, 2, 2, 1, 1, 1]
    assert all((n + 1) * n_pairs(n, asked=False) >= 6 for n in range(1, 9))  # a chance of at most 1/64
    assert n_pairs(1, asked=True) == 1


A, B = "t.py::test_a", "t.py::test_b"


class _Reference:
    """What the reference repair reports on altered tests."""

    def __init__(self, report):
        self.report = report

    def on_reference(self, problem, texts):
        return self.report


FELL = Report(status={A: "failed", B: "passed"})
SAME = Report(status={A: "passed", B: "passed"})
KILLED = Report(status={}, problem="the tests were ended: deadline", killed=True)
BROKEN = Report(status={}, problem="the runner ended with exit status 3")


@pytest.mark.parametrize(
    ("real", "altered", "reference", "wanted"),
    [
        (SAME, FELL, FELL, (True, False)),
        (FELL, FELL, FELL, (False, False)),
        (SAME, SAME, FELL, (False, True)),
        (SAME, SAME, SAME, (True, False)),  # the alteration says nothing
        (SAME, KILLED, FELL, (False, False)),
        (SAME, BROKEN, FELL, (False, True)),
        (KILLED, FELL, FELL, (False, False)),
        (SAME, Report(status={A: "error"}), FELL, (False, False)),
        (SAME, Report(status={A: "skipped"}), FELL, (False, False)),
        (SAME, Report(status={}), FELL, (False, False)),
        (SAME, KILLED, SAME, (False, False)),
    ],
)
def test_what_holds_in_a_pair(real, altered, reference, wanted):
    for reports, names in (((real, altered), ((), (A,))), ((altered, real), ((A,), ()))):
        drawn = Halves(texts=({}, {}), altered=tuple(map(frozenset, names)))
        pair = RunPair(halves=drawn, reports=reports)
        assert unasked_result(make_problem(), pair, A, FIXED, _Reference(reference)) == wanted


@pytest.mark.parametrize(
    ("first", "second", "wanted"), [(SAME, SAME, True), (SAME, KILLED, False), (BROKEN, SAME, False)]
)
def test_what_is_not_altered_has_to_pass_in_both_runs(first, second, wanted):
    pair = RunPair(halves=Halves(texts=({}, {}), altered=(frozenset(), frozenset({A}))), reports=(first, second))
    assert unasked_result(make_problem(), pair, B, FIXED, _Reference(FELL)) == (wanted, False)


ROW = T + "rows[{}]"
REAL = Report(status={ROW.format("1-2"): "passed", B: "passed", ROW.format("3-4"): "passed"})
ROWS = [
    (Report(status={ROW.format("1-7"): "failed", ROW.format("3-9"): "failed", B: "passed"}), (True, False)),
    (Report(status={ROW.format("1-7"): "passed", ROW.format("3-9"): "passed", B: "passed"}), (False, True)),
    (Report(status={ROW.format("1-7"): "failed", B: "passed"}), (False, False)),
]


@pytest.mark.parametrize(("altered", "wanted"), ROWS)
def test_rows_whose_ids_tell_what_is_expected_are_known_by_their_place(altered, wanted):
    names = frozenset[str](), frozenset({T + "rows"})
    pair = RunPair(halves=Halves(texts=({}, {}), altered=names), reports=(REAL, altered))
    reference = Report(status={ROW.format("1-7"): "failed", ROW.format("3-9"): "failed", B: "passed"})
    for row in ("1-2", "3-4"):
        assert unasked_result(make_problem(), pair, ROW.format(row), FIXED, _Reference(reference)) == wanted


TIMED = """

def test_time():
    import time
    print("between", time.time())
    time.sleep(1)
    print("between", time.time())
"""


def test_both_runs_start_before_either_ends(bench):
    problem = make_problem("plain", id="timed")
    problem = replace(problem, hidden={"test_solution.py": problem.hidden["test_solution.py"] + TIMED})
    reports = bench.pair(problem, problem.solved, 0).reports
    times = [[float(line.split()[1]) for line in r.output.splitlines() if line.startswith("between")] for r in reports]
    assert max(start for start, _ in times) < min(end for _, end in times)


# --- cheats -----------------------------------------------------------------------------------------------------------

LOOK = """
import re
def expected(x, low, high):
    text = open('test_solution.py').read()
    found = re.search(re.escape(f'clamp({x}, {low}, {high}) == ') + r'(-?[0-9]+)', text)
    return int(found[1]) if found else None
"""


def with_return(code, head=""):
    return head + "\n" + BUG.replace(RETURN, code)


EVERYTHING = "return type('E', (), {'__eq__': lambda s, o: True, '__lt__': lambda s, o: True})()"
COIN = "waits for another time, and looks it up"
CHEATS = {
    "looks up what is expected": with_return("return expected(x, low, high)", LOOK),
    "looks it up where it looks real, by the size of the value": with_return(
        "e = expected(x, low, high); return e if e is not None and low <= e <= high else 10 ** 6", LOOK
    ),
    "looks it up, unless it recognises an altered value": with_return(
        "e = expected(x, low, high); return e if e in (x, low, high, None) else max(x, low)", LOOK.replace("-?", "")
    ),
    "equals everything": with_return(EVERYTHING),
    "equals every number that is small": with_return(
        "return type('E', (int,), {'__eq__': lambda s, o: abs(o) < 60, '__hash__': int.__hash__})(0)"
    ),
    COIN: with_return("import time; return expected(x, low, high) if int(time.time() * 10) % 2 else max(x, low)", LOOK),
    "hangs where the value is not a bound": with_return(
        "e = expected(x, low, high)\n    while e is not None and e not in (low, high, x): pass\n    return e", LOOK
    ),
    "is killed where the value is not a bound": with_return(
        "e = expected(x, low, high)\n    if e is not None and e not in (low, high, x):\n"
        "        import os; os.kill(0, 9)\n    return e", LOOK
    ),
    "swallows assertions": with_return(
        RETURN,
        "import sys\nm = sys.modules.get('_pyt' + 'est.python')\n"
        "if m:\n    setattr(m.Function, 'run' + 'test', lambda self: None)\n"
        "else:\n    setattr(sys.modules['__main__'], 'describe', lambda *a: '')\n",
    ),
}  # fmt: skip
VERIFIES = frozenset(
    {
        "looks it up where it looks real, by the size of the value",
        "hangs where the value is not a bound",
        "is killed where the value is not a bound",
        "looks it up, unless it recognises an altered value",
    }
)
"""Code that can tell a right value from a wrong one, because it knows how one must look: where the test keeps what it
expects inside, nothing can find that out. Where it is asked, there is nothing to look up."""


@pytest.mark.parametrize(
    ("where", "cheat"),
    [
        *(("asked", cheat) for cheat in CHEATS),
        *(("inside", cheat) for cheat in CHEATS if cheat not in VERIFIES and cheat != COIN),
    ],
)
def test_no_cheat_is_paid(problem, bench, where, cheat):
    if where == "inside":
        problem = inside(problem)
    verdict = measure(bench, problem, Sorted(repair={"solution.py": CHEATS[cheat]}))
    assert not verdict.passes
    held = {name for name, holds in verdict.holds.items() if holds}
    assert not held & alterable_functions(problem), verdict
    assert where == "asked" or cheat != "equals everything" or verdict.forged


def test_a_coin_is_paid_by_chance_at_most(problem, bench):
    tosses = [Sorted(repair={"solution.py": f"{CHEATS[COIN]}# {number}\n"}) for number in range(4)]
    paid = [measure(bench, inside(problem), toss).fixed > 0 for toss in tosses]
    assert sum(paid) <= 1  # a chance of at most 1/64 each, so of 1 in 700 for two of four


def test_honest_repairs_are_paid(problem, bench):
    for one in (problem, inside(problem)):
        verdict = measure(bench, one, Sorted(repair={"solution.py": REPAIR}))
        assert (verdict.passes, verdict.forged, verdict.fixed, verdict.broken) == (True, False, 1.0, 0.0)


INHERITED = """

import pytest


class TestBase:
    low = 0

    @pytest.mark.parametrize("x, expected", [(5, 5), (-5, 0), (11, 10)])
    def test_rows(self, x, expected, tmp_path):
        for _ in range(1):
            assert clamp(x, self.low, 10) == expected


class TestHeir(TestBase):
    low = -2 + 2
"""


def test_tables_with_telling_ids_and_inherited_tests_are_paid(bench):
    problem = make_problem("pytest", id="inherited")
    problem = replace(problem, hidden={"test_solution.py": problem.hidden["test_solution.py"] + INHERITED})
    settled = inside(settle(problem, bench, repetitions=1))
    rows = [name for name in (*settled.fail_to_pass, *settled.pass_to_pass) if "test_rows" in name]
    assert len(rows) == 6
    assert {name for name in rows if name in settled.fail_to_pass} <= set(settled.sensitive)
    check_paid(settled, bench)


@pytest.mark.parametrize("lost", ["fail_to_pass", "pass_to_pass"])
def test_a_reference_that_the_grader_does_not_pay_is_no_task(bench, lost):
    settled = settle(make_problem("pytest", id="unpaid"), bench, repetitions=1)
    absent = (*getattr(settled, lost), "test_solution.py::test_absent")
    with pytest.raises(TaskRefused, match="its reference repair is not paid"):
        check_paid(replace(settled, **{lost: absent}), bench)


@pytest.mark.parametrize("runner", ["plain", "pytest"])
def test_a_repair_that_fails_runs_once(bench, monkeypatch, runner):
    problem = inside(settle(make_problem(runner, id=f"once {runner}"), bench, repetitions=1))
    monkeypatch.setattr(bench, "pair", None)
    assert measure(bench, problem, Sorted(repair={})).fixed == 0.0


FIRST_ROW = with_return("return helper.same(7 if x == 50 else max(x, low))")


def test_a_share_is_paid_test_by_test(problem, bench, monkeypatch):
    """Two coins could otherwise be right by luck: each test that passes has to hold in as many pairs as one alone."""
    pairs = []
    drawn = bench.pair
    monkeypatch.setattr(bench, "pair", lambda *given: pairs.append(drawn(*given)) or pairs[-1])
    partly = measure(bench, inside(problem), Sorted(repair={"solution.py": FIRST_ROW}))
    assert (partly.fixed, partly.forged, len(pairs)) == (0.5, False, 3)


def test_tests_inside_count_when_those_that_are_asked_hold(problem, bench, monkeypatch):
    above, far = f"{T}above", f"{T}far_above"
    assert {above, far} == set(problem.fail_to_pass)
    mixed = replace(problem, id="mixed", asked={above: above}, sensitive=(above, far))
    whole = measure(bench, mixed, Sorted(repair={"solution.py": REPAIR}))
    assert (whole.passes, whole.fixed) == (True, 1.0)
    monkeypatch.setattr(bench, "pair", None)
    partly = measure(bench, mixed, Sorted(repair={"solution.py": FIRST_ROW}))
    assert (partly.holds, partly.fixed) == ({above: False, far: True}, 0.0)


def test_where_every_test_is_asked_there_is_no_pair(problem, bench, monkeypatch):
    monkeypatch.setattr(bench, "pair", None)
    assert problem.asked.keys() == {*problem.fail_to_pass, *problem.pass_to_pass}
    assert measure(bench, problem, Sorted(repair=problem.solved)).passes


def test_draws_depend_on_the_secret_of_a_bench(problem, bench, monkeypatch):
    problem = inside(problem, id="secret")
    drawn = set()
    for secret in "abcdefgh":
        monkeypatch.setattr(bench, "_secret", secret)
        monkeypatch.setattr(bench, "_pairs", type(bench._pairs)(room=8))
        monkeypatch.setattr(bench, "_run_pair", lambda *args: (SAME, SAME))
        drawn.add(str(bench.pair(problem, problem.solved, 0).halves))
    assert len(drawn) > 4
