"""Files without number: a full disk to the agent, and no patch, so that an episode costs seconds whatever it makes."""

import numpy
import pytest

from tests.envs.code.conftest import REPAIR, make_problem
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.engine.workspace import MAX_CHANGED_FILES
from turngate.sandbox import ResourceLimits, open_backend
from turngate.sandbox.bubblewrap_sandbox import BubblewrapSandbox

MAKE = """python3 -c "
import os
for number in range(%d):
    os.mkdir(f'd{number}')
    for inner in range(99):
        open(f'd{number}/{inner}', 'w').close()
" 2>&1 | tail -n 1"""


@pytest.fixture(scope="module")
def problem(bench):
    return settle(make_problem("plain", id="many-files"), bench, repetitions=1)


@pytest.fixture
def env(env_of, problem):
    env = env_of(problem)
    yield env
    env.close()


@pytest.fixture
def traffic(monkeypatch):
    """How many files the library reads and writes one by one."""
    seen = {"read": 0, "write": 0}

    def counted(name):
        original = getattr(BubblewrapSandbox, name)

        def call(self, *args, **kwargs):
            seen[name] += 1
            return original(self, *args, **kwargs)

        return call

    for name in seen:
        monkeypatch.setattr(BubblewrapSandbox, name, counted(name))
    return seen


def test_the_agent_is_told_of_a_full_disk(env, traffic):
    told = env.step(f"bash {MAKE % 900}")[0].text
    assert "No space left on device" in told
    assert len(env._here.tree()) <= ResourceLimits().files
    env.step("run_tests")
    assert "error" in env.step("edit new.py +0 x")[0].text
    *_, info = env.step("submit")
    assert (info["score"].usable, info["score"].outcome < 1.0) == (True, True)
    facts = {fact.name: fact.value for fact in info["evidence"]}
    assert f"a patch holds {MAX_CHANGED_FILES}" in facts["too_large"][0]
    assert sum(traffic.values()) < 100
    env.reset(seed=0)
    assert env.step("view .")[0].text.splitlines() == ["README.md", "helper.py", "solution.py", "test_solution.py"]


@pytest.mark.parametrize(("folders", "solved"), [(2, True), (-(-MAX_CHANGED_FILES // 99), False)])
def test_a_repair_among_more_files_than_a_patch_holds_is_none(env, folders, solved):
    env.step(f"bash {MAKE % folders}")
    env._here.write("solution.py", REPAIR)
    *_, info = env.step("submit")
    assert (info["score"].usable, info["score"].outcome == 1.0) == (True, solved)


def test_files_that_are_taken_away_again_do_not_count(env):
    env.step(f"bash {MAKE % 20}")
    env.step("bash rm -rf d*")
    env._here.write("solution.py", REPAIR)
    assert env.step("submit")[-1]["score"].outcome == 1.0


def test_the_tree_of_a_real_package_fits_also_without_overlays():
    with open_backend("bubblewrap", storage="copy") as backend, backend.open(numpy.__path__[0]) as sandbox:
        assert len(sandbox.tree()) > 500
        assert sandbox.run(["bash", "-c", "cp -r . /tmp/again && echo whole"], deadline_s=60).stdout == b"whole\n"
