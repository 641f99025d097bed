"""The same environment in containers."""

import pytest

from tests.envs.code.conftest import make_problem
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.tasks import TaskList
from turngate.errors import ConfigError


@pytest.fixture(scope="module")
def settings(docker_url, root_file_system):
    shown = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives"}
    return {"image": root_file_system, "shown": shown, "base_url": docker_url}


def test_the_oracle_is_paid_and_a_forged_run_is_not(settings):
    with Bench("docker", deadline_s=30, **settings) as bench:
        problem = settle(make_problem("plain", id="docker"), bench, repetitions=1)
    env = CodeRepairEnv(tasks=TaskList([problem.task()]), backend="docker", sandbox=settings, test_deadline_s=30)
    for actions, outcome in (
        (env.oracle(problem.task()), 1.0),
        (["bash echo 'import os; os._exit(0)' > solution.py", "submit"], 0.0),
    ):
        env.reset(seed=0)
        for action in actions:
            *_, info = env.step(action)
        assert info["score"].outcome == outcome
    env.close()


def test_a_setting_that_the_back_end_does_not_take_is_refused():
    for settings in ({"image": "x"}, {"memory_bytes": 0}):
        with pytest.raises(ConfigError):
            CodeRepairEnv(tasks=TaskList([make_problem().task()]), sandbox=settings)
