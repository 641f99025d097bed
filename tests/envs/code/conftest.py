"""A bench that the tests share, two small problems, one for each runner, and a package with problems made of it."""

import shutil

import pytest

from tests.envs.code.loaders.repository import repo as repo  # a fixture
from tests.envs.code.sums import FILES, put
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.generated.mutation import harvest as harvesting
from turngate.envs.code.generated.mutation.coverage import measure
from turngate.envs.code.generated.mutation.harvest import harvest
from turngate.envs.code.generated.mutation.packages import open_package
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.problem import Problem
from turngate.envs.tasks import TaskList

SECRET = "quux_7f3a"  # stands in the reference repair, and nowhere where an agent could look
BUG = '''"""Numbers within bounds."""

import helper


def clamp(x, low, high):
    """The number nearest to x that lies in [low, high]."""
    return helper.same(max(x, low))


def width(low, high):
    return high - low
'''
REPAIR = BUG.replace("max(x, low)", "min(max(x, low), high)").replace("return high", f"{SECRET} = low\n    return high")
HELPER = "def same(x):\n    return x\n\n\ndef unused():\n    return 1\n"
VISIBLE = """from solution import clamp, width


def test_above():
    assert clamp(5, 0, 3) == 3


def test_inside():
    assert clamp(1, 0, 3) == 1


def test_width():
    assert width(1, 3) == 2
"""
HIDDEN = (
    VISIBLE
    + """

def test_far_above():
    assert clamp(50, 0, 7) == 7


def test_below():
    assert clamp(-1, 0, 3) == 0
"""
)


def make_problem(runner="pytest", **changes):
    fields = {
        "id": f"clamp-{runner}",
        "statement": "solution.py: clamp fails its tests. Repair it.",
        "files": {"solution.py": BUG, "helper.py": HELPER, "README.md": "numbers\n", "test_solution.py": VISIBLE},
        "solved": {"solution.py": REPAIR},
        "hidden": {"test_solution.py": HIDDEN},
        "test_files": ("test_solution.py",),
        "runner": runner,
    }
    return Problem(**fields | changes)


@pytest.fixture(scope="session")
def bench():
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with Bench(deadline_s=20) as bench:
        yield bench


@pytest.fixture(scope="session", params=["plain", "pytest"])
def problem(request, bench):
    return settle(make_problem(request.param), bench, repetitions=1)


@pytest.fixture(scope="session")
def env_of(bench):
    """An environment with one task; all share one bench, so that their back end starts once."""
    kept = CodeRepairEnv(tasks=TaskList([make_problem().task()]), test_deadline_s=20)
    opened = []

    def make(problem, **settings):
        env = CodeRepairEnv(tasks=TaskList([problem.task()]), test_deadline_s=20, **settings)
        env.reset(seed=0)
        opened.append(env)
        return env

    yield make
    for env in [*opened, kept]:
        env.close()


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    source = put(tmp_path_factory.mktemp("sums"), FILES)
    (source / "link.py").symlink_to("/etc/passwd")
    return open_package(source, tmp_path_factory.mktemp("tree") / "tree")


@pytest.fixture(scope="session")
def coverage(package, bench):
    return measure(package, bench, repetitions=1)


@pytest.fixture(scope="session")
def harvested(package, coverage, bench):
    """Two problems of candidates 0 to 5, each verdict measured once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harvesting, "ROUND", 3)
        patch.setattr(harvesting, "measure", lambda package, bench, **_: coverage)
        return harvest(package, bench, n=2, repetitions=1)
