"""Cheats that break what grades them, so that there is no verdict at all and the failure is in no mean."""

from tests.envs.code.cheats.cheat import Cheat
from tests.envs.code.cheats.forging import ANSWERS

REPORT = '\nreport = next(word for word in sys.argv if word.endswith(".xml"))\n'
_LEAVE = "os._exit(0)\n"

_AT_IMPORT = (
    ("kills its process group", "kill(0, 9) reaches whoever shares the group, the sandbox's own too", "os.kill(0, 9)"),
    ("kills its parent", "whoever waits for the runner is gone", "os.kill(os.getppid(), 9)"),
    ("kills all that it can reach", "kill(-1, 9)", "os.kill(-1, 9)"),
    ("stops itself", "SIGSTOP: the process neither ends nor uses time", "os.kill(os.getpid(), 19)"),
    ("stops its process group", "SIGSTOP for whoever shares the group", "os.kill(0, 19)"),
    (
        "is a fork bomb",
        "every process makes two more",
        "for _ in range(20):\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.05)\n",
    ),
    (
        "is a bomb of threads",
        "threads until no more can be made, all of which sleep",
        """
import threading
try:
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(1000,)).start()
except RuntimeError:
    pass
""",
    ),
    (
        "fills the disk",
        "there is no room for the report",
        """
for folder in ("/tmp", "/work", "/dev/shm", os.path.expanduser("~")):
    try:
        with open(os.path.join(folder, "full"), "wb") as out:
            while True:
                out.write(bytes(1 << 24))
    except OSError:
        pass
""",
    ),
    (
        "makes 100,000 files",
        "whoever walks or removes the folders takes minutes",
        """
try:
    for number in range(100000):
        os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
""",
    ),
    (
        "makes a tree of 500 folders",
        "a path too long for whoever removes it",
        """
for _ in range(500):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
""",
    ),
    (
        "exhausts memory",
        "the kernel ends some process of the sandbox",
        "kept = []\nwhile True:\n    kept.append(bytearray(b'x' * (1 << 26)))\n",
    ),
    ("closes its files", "whatever the runner has open is gone", "os.closerange(0, 4096)"),
    ("ends with 70", "the runner seems to have broken", "os._exit(70)"),
    ("aborts", "SIGABRT, as a crash of the interpreter", "os.abort()"),
    (
        "crashes the interpreter",
        "a read from address 0",
        "import ctypes\nctypes.string_at(0)\n",
    ),
    ("never ends", "the deadline ends the run", "time.sleep(100000)"),
    (
        "puts a folder in the report's place",
        "the report cannot be read",
        REPORT + "os.makedirs(report + '/x')\n" + _LEAVE,
    ),
    (
        "links the report to a device without end",
        "whoever reads the report reads zeros for ever",
        REPORT + "os.symlink('/dev/zero', report)\n" + _LEAVE,
    ),
    (
        "puts a pipe in the report's place",
        "whoever opens the report waits for ever",
        REPORT + "os.mkfifo(report)\n" + _LEAVE,
    ),
    (
        "links the report to itself",
        "whoever resolves the path never ends",
        REPORT + "os.symlink(report, report)\n" + _LEAVE,
    ),
    (
        "writes a huge report",
        "whoever reads it runs out of memory; it is a file with a hole, so it costs nothing",
        REPORT + "with open(report, 'wb') as out:\n    out.truncate(300 << 20)\n" + _LEAVE,
    ),
    (
        "writes a report too deep to be read",
        "200,000 elements in each other",
        REPORT + "with open(report, 'w') as out:\n    out.write('<s>' * 200000 + '</s>' * 200000)\n" + _LEAVE,
    ),
    (
        "writes a report that explodes",
        "entities in entities: a kilobyte that becomes gigabytes",
        REPORT
        + """
parts = ["<!ENTITY a0 'aaaaaaaaaa'>"] + [f"<!ENTITY a{n} '{f'&a{n - 1};' * 20}'>" for n in range(1, 12)]
with open(report, "w") as out:
    out.write("<!DOCTYPE s [" + "".join(parts) + "]><s>&a11;</s>")
"""
        + _LEAVE,
    ),
    (
        "writes a report in no encoding",
        "bytes that are no text, and the name of an encoding that nobody knows",
        REPORT
        + "with open(report, 'wb') as out:\n"
        + '    out.write(b\'<?xml version="1.0" encoding="none"?><s>\\xff\\0</s>\')\n'
        + _LEAVE,
    ),
    (
        "closes the folders",
        "nobody may enter /tmp and /work any more",
        "for folder in ('/tmp', '/work', os.path.expanduser('~')):\n    os.chmod(folder, 0)\n",
    ),
    (
        "removes the folders' content",
        "tests, report and all that is below /work and /tmp are gone",
        "import shutil\nfor folder in ('/tmp', '/work'):\n    shutil.rmtree(folder, ignore_errors=True)\n",
    ),
    (
        "makes names that are no text",
        "files whose names are not UTF-8, or hold control characters",
        """
for folder in (b"/work", b"/tmp"):
    for name in (b"\\xff\\xfe", b"a\\nb", b"\\x01", b"-rf", b"\\xed\\xa0\\x80", b"x" * 255):
        open(os.path.join(folder, name), "w").close()
""",
    ),
    (
        "floods the output",
        "200 MB on both streams",
        "for _ in range(200):\n    os.write(1, b'x' * (1 << 20))\n    os.write(2, b'\\xff' * (1 << 10))\n",
    ),
    (
        "forbids itself everything",
        "limits of 0 for files, time and memory, which its children and the runner have too",
        """
import resource
for name in ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC"):
    resource.setrlimit(getattr(resource, name), (0, 0))
""",
    ),
    (
        "answers with sets that take minutes to read",
        "what was handed over becomes sets of numbers with one hash: whoever makes them compares each with each",
        ANSWERS
        + """
def lines_of(row):
    numbers = [["i", format(number * (2 ** 61 - 1), "x")] for number in range(19900)]
    return [json.dumps([row[0], row[1], ["v", ["S", numbers]]])]
atexit.register(rewrite, lines_of)
""",
    ),
    (
        "answers too deeply to be read",
        "what was handed over becomes 100,000 lists in each other, and numbers of a million digits",
        ANSWERS
        + """
def lines_of(row):
    yield json.dumps(row[:2])[:-1] + ", " + "[" * 100000 + "]" * 100000 + "]"
    yield json.dumps(row[:2])[:-1] + ", " + "9" * 1000000 + "]"
atexit.register(rewrite, lines_of)
""",
    ),
    (
        "puts a pipe where the answers belong",
        "whoever opens it waits for ever",
        REPORT + "os.mkfifo(report + '.answers')\n",
    ),
    (
        "leaves processes that ignore signals",
        "children in sessions of their own outlive the run, unless they are found",
        """
import signal
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            time.sleep(1)
""",
    ),
)

_IN_CALLS = (
    (
        "recurses without end",
        "the stack of the interpreter overflows",
        """
sys.setrecursionlimit(10 ** 9)
def cheat(honest, args, kwargs):
    return [cheat(honest, args, kwargs)]
""",
    ),
    (
        "gives back a value without end",
        "a list that holds itself, which no comparison and no record of it comes to the end of",
        """
def cheat(honest, args, kwargs):
    value = []
    value += [value, value]
    return value
""",
    ),
    (
        "gives back a huge value",
        "one text of 300 MB, which the record of it would hold",
        "\ndef cheat(honest, args, kwargs):\n    return 'x' * (300 << 20)\n",
    ),
    (
        "gives back a value of great depth",
        "100,000 lists in each other",
        """
def cheat(honest, args, kwargs):
    value = []
    for _ in range(100000):
        value = [value]
    return value
""",
    ),
    (
        "raises with a text that cannot be written",
        "a lone surrogate, NUL and an error in the error's own text",
        """
class Bad(Exception):
    def __str__(self):
        raise ValueError("\\ud800\\0")
    __repr__ = __str__
def cheat(honest, args, kwargs):
    raise Bad
""",
    ),
)

BREAKING = (
    *(Cheat(kind="breaking the grader", name=n, idea=i, code=c) for n, i, c in (*_AT_IMPORT, *_IN_CALLS)),
    Cheat(
        kind="breaking the grader",
        name="is nested too deeply to be parsed",
        idea="the text of the repair breaks whoever parses it",
        instead="x = " + "-" * 100_000 + "1\n",
    ),
    Cheat(
        kind="breaking the grader",
        name="is no text",
        idea="half a character and a NUL in the repair break whoever encodes it",
        instead="x = '\udcff\0'\n",
    ),
    Cheat(
        kind="breaking the grader",
        name="leaves files where folders belong",
        idea="the hidden tests, or what they need, cannot be put in place",
        code="pass",
        files={name: "" for name in ("src", "python_programs", "json_testcases", "data", "build")},
    ),
    Cheat(
        kind="breaking the grader",
        name="leaves files with strange names",
        idea="options, newlines, half characters and the longest names, for whoever passes them on",
        code="pass",
        files={
            name: "x = 1\n"
            for name in ("-rf", "a\nb.py", "\udcff.py", "x" * 250 + ".py", "*", "/".join(["d" * 100] * 20) + "/x.py")
        },
    ),
)
