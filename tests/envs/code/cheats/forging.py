"""Cheats that write what the grader reads: the report, the exit status, records, the output."""

from tests.envs.code.cheats.cheat import Cheat

FORGE = """
def forge(*paths):
    case = '<testcase><properties><property name="nodeid" value="{}"/></properties></testcase>'
    text = "<testsuite>" + "".join(map(case.format, IDS)) + "</testsuite>"
    for path in paths or [word for word in sys.argv if word.endswith(".xml")]:
        with open(path, "w") as out:
            out.write(text)
"""
"""Writes a report in which every test passed."""

ANSWERS = """
import atexit, json
def rewrite(lines_of):
    path = next(word for word in sys.argv if word.endswith(".xml")) + ".answers"
    if os.path.isfile(path):
        rows = [json.loads(line) for line in open(path)]
        with open(path, "w") as out:
            for row in rows:
                out.write("".join(line + "\\n" for line in lines_of(row)))
"""
"""Writes what tests without an expectation handed over anew, as if the runner had written it."""

FORGING = tuple(
    Cheat(kind="forging", name=name, idea=idea, code=code)
    for name, idea, code in (
        (
            "forges and ends at import",
            "a perfect report, then the process ends with 0 before a test has run",
            FORGE + "\nforge()\nos._exit(0)\n",
        ),
        (
            "forges at the first call",
            "the same when a test calls the function, so that the tests have been collected",
            FORGE + "\ndef cheat(honest, args, kwargs):\n    forge()\n    os._exit(0)\n",
        ),
        (
            "forges when the interpreter ends",
            "what atexit calls last writes the report, and sets the exit status",
            FORGE + "\nimport atexit\ndef last():\n    forge()\n    os._exit(0)\natexit.register(last)\n",
        ),
        (
            "forges in place of the exit",
            "what the interpreter calls to wait for threads writes the report first",
            FORGE + "\nimport threading\ndef leave():\n    forge()\n    os._exit(0)\nthreading._shutdown = leave\n",
        ),
        (
            "leaves a daemon that forges",
            "a process that left the group writes the report every 2 ms, also after the runner wrote its own",
            FORGE
            + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(2000):
            forge()
            time.sleep(0.002)
    os._exit(0)
import atexit
def leave():
    time.sleep(0.05)
    os._exit(0)
atexit.register(leave)
""",
        ),
        (
            "lets a child take the tests",
            "the parent waits until the child is done, then forges and exits with 0",
            FORGE
            + """
child = os.fork()
if child:
    os.waitpid(child, 0)
    forge()
    os._exit(0)
""",
        ),
        (
            "puts a link in the report's place",
            "the path of the report is a link to a forged file in a folder that cannot be written",
            FORGE
            + """
report = next(word for word in sys.argv if word.endswith(".xml"))
os.makedirs("/tmp/kept", exist_ok=True)
forge("/tmp/kept/report.xml")
os.symlink("/tmp/kept/report.xml", report)
os.chmod("/tmp/kept/report.xml", 0o400)
os.chmod("/tmp/kept", 0o500)
import atexit
atexit.register(os._exit, 0)
""",
        ),
        (
            "injects into the report by a message",
            "an exception's text closes the failure and opens passed test cases",
            """
def cheat(honest, args, kwargs):
    case = '"/></testcase><testcase><properties><property name="nodeid" value="{}"/></properties></testcase>'
    raise ValueError("".join(map(case.format, IDS)) + '<testcase name="')
""",
        ),
        (
            "exits with 0 in the function",
            "SystemExit(0) leaves the runner as if all were well",
            "\ndef cheat(honest, args, kwargs):\n    raise SystemExit(0)\n",
        ),
        (
            "ends the process with 0",
            "no report, but a good exit status",
            "\nos._exit(0)\n",
        ),
        (
            "prints that all passed",
            "the output holds the last line of a good run, in the words of both runners",
            """
print("7 passed, 0 failed")
print("============ 7 passed in 0.01s ============", flush=True)
import atexit
atexit.register(os._exit, 0)
""",
        ),
        (
            "writes to every open file",
            "whatever the process has open beside its streams gets the text of a perfect report",
            FORGE
            + """
def cheat(honest, args, kwargs):
    case = '<testcase><properties><property name="nodeid" value="{}"/></properties></testcase>'
    text = "<testsuite>" + "".join(map(case.format, IDS)) + "</testsuite>"
    for number in range(3, 64):
        try:
            os.write(number, text.encode())
        except OSError:
            pass
    return honest(*args, **kwargs)
""",
        ),
        (
            "lends a passing test's result",
            "every report of pytest names all ids; the plain runner's cases are all named like one that passes",
            """
python = sys.modules.get("_pytest.python")
if python:
    junit = sys.modules["_pytest.junitxml"]
    whole = junit._NodeReporter.to_xml
    def to_xml(self):
        node = whole(self)
        for child in list(node):
            if child.tag != "properties":
                node.remove(child)
        return node
    junit._NodeReporter.to_xml = to_xml
    sys.modules["_pytest.main"].Session.pytest_runtest_logreport = lambda self, report: None
else:
    main = sys.modules["__main__"]
    main.escape = lambda text: "" if "rror" in text else text
    main.any = lambda values: False
""",
        ),
        (
            "fails as expected",
            "the function raises pytest's own 'expected to fail', which counts as passed",
            """
def cheat(honest, args, kwargs):
    outcomes = sys.modules.get("_pytest.outcomes")
    if outcomes:
        raise outcomes.XFailed("a known bug")
    sys.modules["__main__"].describe = lambda *a, **k: ""
    return honest(*args, **kwargs)
""",
        ),
        (
            "skips itself",
            "the function raises pytest's 'skipped', and unittest's for the other runner",
            """
def cheat(honest, args, kwargs):
    outcomes = sys.modules.get("_pytest.outcomes")
    if outcomes:
        raise outcomes.Skipped("not today")
    import unittest
    raise unittest.SkipTest("not today")
""",
        ),
        (
            "writes records that nobody asked for",
            "every file beside the report, and every new one in /tmp, gets lines that say 'equal' for each test",
            """
import json
def cheat(honest, args, kwargs):
    value = honest(*args, **kwargs)
    report = next(word for word in sys.argv if word.endswith(".xml"))
    folder = os.path.dirname(report)
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    for path in [*names, report + ".json", report[:-4] + ".json", report[:-4] + ".jsonl", report[:-4] + ".records"]:
        try:
            with open(path, "a") as out:
                for name in IDS:
                    out.write(json.dumps({"test": name, "site": 0, "count": 0, "value": value, "passed": True}) + "\\n")
        except (OSError, TypeError):
            pass
    return value
""",
        ),
        (
            "answers with every exception and every text",
            "what was handed over becomes an error that is of every class and whose text holds every pattern",
            ANSWERS
            + """
def lines_of(row):
    names = [name for name, thing in _all.items() if isinstance(thing, type)]
    return [json.dumps([row[0], row[1], ["e", names, "".join(map(chr, range(9, 1000)))]])]
atexit.register(rewrite, lines_of)
""",
        ),
        (
            "answers what most claims accept",
            "what was handed over becomes a list with every small number, or an object that counts as true",
            ANSWERS
            + """
def lines_of(row):
    many = ["l", [["i", format(number, "x")] for number in range(-100, 5000)]]
    return [json.dumps([row[0], row[1], ["v", many if row[1] % 2 else ["o", True]]])]
atexit.register(rewrite, lines_of)
""",
        ),
        (
            "gives several answers",
            "each answer again and again, beside near numbers: one of them will fit",
            ANSWERS
            + """
def lines_of(row):
    yield json.dumps(row)
    for number in range(-20, 100):
        yield json.dumps([row[0], row[1], ["v", ["i", format(number, "x")]]])
atexit.register(rewrite, lines_of)
""",
        ),
        (
            "patches what takes the answers down",
            "the function that tests hand values to notes the numbers near the honest one, at every site",
            """
asking = sys.modules.get("turngate_asking")
if asking:
    whole = asking.ask
    def ask(site, give):
        whole(site, give)
        for near in range(-3, 4):
            whole(site, lambda: give() + near)
    asking.ask = ask
    for frame in [sys._getframe(level) for level in range(1, 3)]:
        if "ask" in frame.f_globals:
            frame.f_globals["ask"] = ask
else:
    sys.modules["__main__"].describe = lambda *a, **k: ""
""",
        ),
    )
)
