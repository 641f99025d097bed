"""Whatever code under test does to its sandbox, its runner and its reports, the verdict is a failure with a reason."""

from dataclasses import replace

import pytest

from tests.envs.code.conftest import BUG, make_problem
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.grading.grade import measure
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.protect import Sorted

REPORTS = """
import os, sys
path = next(word for word in sys.argv if word.endswith(".xml"))
for path in (path, path + ".answers"):
    {}
os._exit({})
"""
VOIDS = {
    "kills its group": "import os\nos.kill(0, 9)",
    "kills everything": "import os\nos.kill(-1, 9)",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "stops itself": "import os\nos.kill(os.getpid(), 19)",
    "stops its group": "import os\nos.kill(0, 19)",
    "reports are folders": REPORTS.format("os.mkdir(path)", 0),
    "reports are links to endless files": REPORTS.format("os.symlink('/dev/zero', path)", 0),
    "reports are links to themselves": REPORTS.format("os.symlink(path, path)", 1),
    "reports are pipes": REPORTS.format("os.mkfifo(path)", 0),
    "reports are too large": REPORTS.format("open(path, 'wb').truncate(400 << 20)", 0),
    "reports are deep": REPORTS.format("open(path, 'w').write('<a>' * 10 ** 6 + '[' * 10 ** 6)", 0),
    "reports are no text": REPORTS.format("open(path, 'wb').write(b'\\xff\\xfe' * 1000)", 0),
    "reports cannot be read": REPORTS.format("open(path, 'w'); os.chmod(path, 0)", 0),
    "their folder is closed": "import os\nos.chmod('/tmp', 0)\nos.chmod('/work', 0)",
    "its files are closed": "import os\nos.closerange(0, 1000)",
    "forks": "import os\nfor _ in range(500):\n    try:\n        os.fork() or os.kill(os.getpid(), 19)\n"
    "    except OSError:\n        break",
    "fills the disk": "open('/tmp/big', 'wb').write(b'0' * (600 << 20))",
    "writes without end": "import os\nwhile True:\n    os.write(1, b'\\xff\\n' * 10000)",
    "raises what no report can hold": "raise Exception('\\ud800\\0\\x1b' * 10 ** 6)",
    "recurses": "def f():\n    return f()\nf()",
}


@pytest.fixture(scope="module")
def short(bench):
    with Bench(deadline_s=3) as short:
        yield short


@pytest.fixture(scope="module", params=["plain", "pytest"])
def settled(request, bench):
    """Asked tests of the one runner, and tests that keep what they expect inside of the other: most ways end at a
    deadline, so not every one is tried with all four."""
    problem = settle(make_problem(request.param, id=f"voids {request.param}"), bench, repetitions=1)
    return problem if request.param == "plain" else replace(problem, asked={})


@pytest.mark.parametrize("void", VOIDS)
def test_the_verdict_is_a_failure_with_a_reason(short, settled, void):
    head = VOIDS[void].replace("\n", "\n    ")
    text = f"import sys\nif any(word.endswith('.xml') for word in sys.argv):\n    {head}\n{BUG}"
    verdict = measure(short, settled, Sorted(repair={"solution.py": text}))
    assert not verdict.passes
    assert verdict.fixed == 0.0


@pytest.mark.parametrize("void", ["kills its group", "stops itself", "reports are pipes", "their folder is closed"])
def test_the_next_verdict_does_not_suffer(short, settled, void):
    measure(short, settled, Sorted(repair={"solution.py": f"{VOIDS[void]}\n{BUG}"}))
    assert measure(short, settled, Sorted(repair=settled.solved)).passes
