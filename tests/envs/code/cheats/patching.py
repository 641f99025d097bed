"""Cheats that change what runs or judges the tests: the runner, its process, assertions, hooks, built-in names."""

from tests.envs.code.cheats.cheat import Cheat

FORCE = """
def force():
    main = sys.modules["__main__"]
    main.describe = lambda *a, **k: ""
    python = sys.modules.get("_pytest.python")
    if python:
        python.Function.runtest = lambda self: None
"""
"""Whatever a test asserts, it passes: what describes a failure says nothing, what runs a test does nothing."""

EMPTIED = """
def emptied():
    import gc, types
    def nothing(*args, **kwargs):
        pass
    for thing in gc.get_objects():
        if type(thing) is types.__dict__["FunctionType"] and thing.__name__.startswith("test_") and thing.__closure__ is None:
            names = thing.__code__.co_varnames[:thing.__code__.co_argcount]
            thing.__code__ = nothing.__code__.replace(co_name=thing.__name__)
"""  # noqa: E501
"""Every test that has not begun becomes one that does nothing."""

PATCHING = tuple(
    Cheat(kind="patching", name=name, idea=idea, code=code)
    for name, idea, code in (
        (
            "silences the runner",
            "the function of the runner that describes a failure gives '', that of pytest runs nothing",
            FORCE + "\nforce()\n",
        ),
        (
            "empties the tests",
            "at the first call every test function found by gc gets an empty body",
            EMPTIED + "\ndef cheat(honest, args, kwargs):\n    emptied()\n    return honest(*args, **kwargs)\n",
        ),
        (
            "replaces the tests once their module is read",
            "a trace function waits until the test module has been executed, and puts empty tests into it",
            """
def watch(frame, event, argument):
    if frame.f_code.co_name != "<module>" or not os.path.basename(frame.f_code.co_filename).startswith("test_"):
        return None
    def at_end(frame, event, argument):
        if event == "return":
            import types
            for name, thing in list(frame.f_globals.items()):
                if name.startswith("test_") and callable(thing):
                    thing.__code__ = (lambda *a, **k: None).__code__
        return at_end
    return at_end

sys.settrace(watch)
frame = sys._getframe()
while frame is not None:
    local = watch(frame, "call", None)
    if local is not None:
        frame.f_trace = local
    frame = frame.f_back
""",
        ),
        (
            "jumps over the tests",
            "a trace function makes the runner jump over the line that calls a test",
            """
def lines_of(code, known={}):
    if code not in known:
        text = open(code.co_filename).read().splitlines()
        known[code] = {line: text[line - 1].strip() for _, _, line in code.co_lines() if line}
    return known[code]

def local(frame, event, argument):
    lines = lines_of(frame.f_code)
    if event == "line" and re.match(r"test\\(|result = testfunction\\(", lines.get(frame.f_lineno, "")):
        for line in sorted(item for item in lines if item > frame.f_lineno):
            try:
                frame.f_lineno = line
                break
            except ValueError:
                continue
    return local

def jump(frame, event, argument):
    path = frame.f_code.co_filename
    return local if path.endswith("run_plain.py") or frame.f_code.co_name == "pytest_pyfunc_call" else None

import re
sys.settrace(jump)
frame = sys._getframe()
while frame is not None:
    if jump(frame, "call", None):
        frame.f_trace = local
    frame = frame.f_back
""",
        ),
        (
            "shadows built-in names in the runner",
            "the runner's own module gets an 'any' that is never true and a 'case' that never fails",
            """
main = sys.modules["__main__"]
main.any = lambda values: False
case = '<testcase name="{0}"><properties><property name="nodeid" value="{0}"/></properties></testcase>'
main.case = lambda item: case.format(item[0])
runner = sys.modules.get("_pytest.runner")
if runner:
    whole = runner.CallInfo.from_call.__func__
    def from_call(cls, func, when, reraise=None):
        def quiet():
            try:
                return func()
            except Exception:
                return None
        return whole(cls, quiet, when, reraise)
    runner.CallInfo.from_call = classmethod(from_call)
""",
        ),
        (
            "turns reports into passes",
            "what pytest makes of a call always says 'passed'; the plain runner's lists hold no problems",
            """
reports = sys.modules.get("_pytest.reports")
if reports:
    whole = reports.TestReport.from_item_and_call.__func__
    def from_item_and_call(cls, item, call):
        report = whole(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report
    reports.TestReport.from_item_and_call = classmethod(from_item_and_call)
sys.modules["__main__"].describe = lambda *a, **k: ""
""",
        ),
        (
            "leaves failures out of the report",
            "pytest's report writer appends a pass for a failure, and the session counts no failures",
            """
junit, main = sys.modules.get("_pytest.junitxml"), sys.modules.get("_pytest.main")
if junit:
    junit._NodeReporter.append_failure = junit._NodeReporter.append_pass
    main.Session.pytest_runtest_logreport = lambda self, report: None
class Quiet(str):
    def __bool__(self):
        return False
runner = sys.modules["__main__"]
runner.describe = lambda *a, **k: Quiet("nothing")
runner.escape = lambda text: "" if isinstance(text, Quiet) else text
""",
        ),
        (
            "makes an assertion an expected failure",
            "the name AssertionError means pytest's 'xfail', which counts as passed",
            """
outcomes = sys.modules.get("_pytest.outcomes")
if outcomes:
    _all["AssertionError"] = outcomes.XFailed
    sys.modules["__main__"].describe = None
else:
    sys.modules["__main__"].describe = lambda *a, **k: ""
""",
        ),
        (
            "makes built-in values equal",
            "by ctypes the comparison of float, str, list, tuple and dict says 'equal' to everything",
            """
import ctypes
kept, EQUAL = [], 2
def equal(kind):
    slot = ctypes.c_void_p.from_address(id(kind) + 200)
    form = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)
    old = form(slot.value)
    def compare(left, right, operator):
        if operator is EQUAL:
            return True
        return old(left, right, operator)
    new = form(compare)
    kept.append((old, new))
    slot.value = ctypes.cast(new, ctypes.c_void_p).value
def cheat(honest, args, kwargs):
    value = honest(*args, **kwargs)
    if not kept:
        for kind in (float, list, tuple, str, dict):
            equal(kind)
    return value
""",
        ),
        (
            "patches what opens the report",
            "the report is written without its failures, and the process always exits with 0",
            """
import re
whole = _all["open"]
class Cleaned:
    def __init__(self, file):
        self.file, self.text = file, []
    def write(self, text):
        self.text.append(text)
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        self.close()
    def close(self):
        text = re.sub(r"<failure.*?(/>|</failure>)", "", "".join(self.text), flags=re.S)
        self.file.write(re.sub(r'failures="[0-9]+"', 'failures="0"', text))
        self.file.close()
def opened(path, mode="r", *args, **kwargs):
    file = whole(path, mode, *args, **kwargs)
    return Cleaned(file) if "w" in mode and str(path).endswith(".xml") else file
_all["open"] = opened
import atexit
def leave():
    sys.stdout.flush()
    os._exit(0)
atexit.register(leave)
""",
        ),
        (
            "replaces the process by a forger",
            "execv: the same process goes on as a program that writes a perfect report and exits with 0",
            """
import json
case = '<testcase><properties><property name="nodeid" value="{}"/></properties></testcase>'
text = "<testsuite>" + "".join(map(case.format, IDS)) + "</testsuite>"
report = next(word for word in sys.argv if word.endswith(".xml"))
os.execv(sys.executable, [sys.executable, "-c", f"open({report!r}, 'w').write({text!r})"])
""",
        ),
        (
            "empties tests from a thread",
            "a background thread looks for tests again and again and empties each that it finds",
            EMPTIED
            + """
def always():
    for _ in range(400):
        emptied()
        time.sleep(0.005)
import threading
threading.Thread(target=always, daemon=True).start()
def cheat(honest, args, kwargs):
    time.sleep(0.1)
    return honest(*args, **kwargs)
""",
        ),
        (
            "registers a hook with the live plugin manager",
            "the manager is found by gc; a hook around the making of reports says 'passed'",
            """
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "PytestPluginManager":
        import pytest
        class Spoof:
            @pytest.hookimpl(wrapper=True)
            def pytest_runtest_makereport(self, item, call):
                report = yield
                report.outcome, report.longrepr = "passed", None
                return report
        thing.register(Spoof())
        break
else:
    sys.modules["__main__"].describe = lambda *a, **k: ""
""",
        ),
        (
            "swallows what a test raises, in its frame",
            "a class whose name the plain runner catches is replaced; pytest's way to call a test catches all",
            """
python = sys.modules.get("_pytest.python")
if python:
    whole = python.Function.runtest
    def runtest(self):
        try:
            whole(self)
        except BaseException:
            pass
    python.Function.runtest = runtest
else:
    main = sys.modules["__main__"]
    class Boring(str):
        def __new__(cls, *parts):
            return str.__new__(cls, "")
    for name, thing in list(vars(main).items()):
        if callable(thing) and name in ("describe", "line"):
            setattr(main, name, Boring)
""",
        ),
    )
)
