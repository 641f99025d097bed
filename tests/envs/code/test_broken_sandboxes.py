"""An agent that breaks its sandbox whenever it can: no episode is without a result, on either back end."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.envs.code.calls import call
from tests.envs.code.conftest import make_problem
from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits
from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.rubric import RUBRIC
from turngate.envs.pool.pool import EnvPool
from turngate.envs.tasks import TaskList
from turngate.errors import EnvError
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.types import Ending


def script(text, *, background=False):
    """A Python program that the agent writes and starts."""
    start = "(setsid python3 p.py >/dev/null 2>&1 &); sleep 0.5" if background else "python3 p.py"
    return [call("edit", path="p.py", new=text), f"bash {start}"]


def forged(report):
    """What a shell tells of itself, told by a program in it."""
    return f"bash bash -c 'for file in /proc/$PPID/fd/1?; do printf \"{report}\" > $file; done'; sleep 0.3"


ROOMY = TokenLimits(turn_tokens=100_000, context=1_000_000)
LONG = "x" * 200_000
SWARM = """
import os, time
for _ in range(500):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
    except OSError:
        break
time.sleep(600)
"""
DISTURB = """
import os, signal, time
own = os.getpid()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, own):
            try:
                words = open(f"/proc/{name}/cmdline", "rb").read()
                if words.startswith((b"tar", b"find", b"head", b"cat")):
                    DO
            except OSError:
                pass
"""
SHUFFLE = """
import os
n = 0
while True:
    n += 1
    for path in ("solution.py", "helper.py", "new"):
        try:
            os.rename(path, "away")
            os.symlink("/etc/passwd", path)
            os.unlink(path)
            os.mkfifo(path)
            os.unlink(path)
            os.mkdir(path)
            os.rmdir(path)
            open(path, "w").write("x" * (n % 5000))
            os.link(path, f"link{n % 50}")
        except OSError:
            pass
    for name in os.listdir("."):
        if name.startswith("link"):
            os.unlink(name)
"""
SOCKETS = """
import socket, time
kept = []
try:
    while True:
        a, b = socket.socketpair()
        a.setblocking(False)
        kept += [a, b]
        try:
            while True:
                a.send(bytes(1 << 16))
        except BlockingIOError:
            pass
except OSError:
    time.sleep(2)
"""
HOLES = "for n in range(3000):\n    open(f'hole{n}', 'wb').truncate(400 << 20)\n"

ATTEMPTS = {
    "its group killed": ["bash kill -9 0", "bash kill -STOP 0", "bash python3 -c 'import os; os.kill(0, 9)'"],
    "its group killed by the code": [call("edit", path="solution.py", new="import os\nos.kill(0, 9)\n"), "run_tests"],
    "all killed by the code": [call("edit", path="solution.py", new="import os\nos.kill(-1, 9)\n"), "run_tests"],
    "parents killed": ["bash for p in $PPID 1 2 3 4 5 6 7 8; do kill -9 $p; kill -STOP $p; done"],
    "long requests": [
        call("search", pattern=LONG),
        call("search", pattern="x", path=LONG),
        call("view", path=LONG),
        call("edit", path=LONG, new="x"),
        call("run_tests", tests=LONG),
        call("run_tests", tests="x " * 100_000),
        call("bash", command=f"true {LONG}"),
    ],
    "long requests that JSON makes longer": [call("search", pattern="\x01" * 110_000), call("view", path="é" * 90_000)],
    "a forged state that ends the shell": [forged("0\\0exit\\0"), "bash exit", "bash echo"],
    "a forged state that hangs": [forged("0\\0sleep 99\\0"), "bash exit", "bash echo"],
    "a forged status": [forged("9" * 5000 + "\\0\\0"), "bash exit", "bash echo"],
    "a flooded report": ["bash yes | head -c 3000000 > /proc/$$/fd/250", "bash yes > /dev/fd/250"],
    "its input eaten": ["bash exec 0</dev/null", "bash bash -c 'cat /proc/$PPID/fd/0' & sleep 0.3", "bash echo"],
    "its files closed": ['bash for n in 0 1 2 10 11 12 250 255; do eval "exec $n>&-"; done'],
    "aliases of builtins": ["bash alias builtin=exit eval=exit printf=exit", "bash echo", "bash exit"],
    "functions of builtins": [
        "bash builtin() { exit; }; declare() { exit; }; cd() { exit; }",
        "bash echo",
        "bash exit",
    ],
    "options": ["bash set -eu -o noexec", "bash echo", "bash set -t", "bash shopt -s extdebug; trap exit DEBUG"],
    "read-only variables": ["bash readonly PWD PATH IFS SHELLOPTS TURNGATE_X=1", "bash cd /tmp; exit", "bash echo"],
    "a swarm that stays": [
        *script(SWARM, background=True),
        "view .",
        "search x",
        "run_tests",
        "bash exit",
        "bash echo",
    ],
    "no files left": [
        "bash for i in $(seq 200000); do : > /tmp/$i || break; done 2>/dev/null",
        "bash exit",
        "bash echo",
    ],
    "no bytes left": ["bash cat /dev/zero > /tmp/x; cat /dev/zero > ~/x; cat /dev/zero > x", "bash exit", "run_tests"],
    "all folders closed": ["bash chmod 000 /work /tmp ~", "run_tests", "bash exit", "bash echo", "search x", "view ."],
    "folders replaced": ["bash rm -rf /work /tmp ~; ln -s /etc/passwd /work/l; mkdir /tmp/l", "run_tests", "search x"],
    "links for folders": [
        "bash mv /work/* /tmp; ln -s / root; ln -s . self; ln -s self/self loop",
        "view root",
        "search x",
    ],
    "mounts": ["bash mount -t tmpfs x /work; umount -l /work /tmp /proc; unshare -Urm true; chroot . true"],
    "the tree disturbed": [*script(SHUFFLE, background=True), *["view .", "view new", "search x", "bash true"] * 3],
    "helpers killed": [*script(DISTURB.replace("DO", "os.kill(int(name), 9)"), background=True), "view .", "bash true"],
    "its helpers' output forged": [
        *script(DISTURB.replace("DO", "open(f'/proc/{name}/fd/1', 'w').write('forged ' * 99)"), background=True),
        *["view .", "view solution.py", "bash true"] * 2,
    ],
    "memory that nobody counts": [*script(SOCKETS), "bash echo"],
    "memory of many": ["bash for n in $(seq 60); do python3 -c 'x = b\"x\" * (1 << 28)' & done; wait", "bash echo"],
    "holes": [*script(HOLES), "view .", "run_tests"],
    "long names": ["bash for i in $(seq 2000); do mkdir $(printf 'a%.0s' $(seq 250))$i; done", "view .", "bash true"],
    "a tree too deep for a copy": [
        *script("import os\nfor _ in range(999):\n    os.mkdir('d'); os.chdir('d')\n"),
        "view d",
    ],
    "pipes and sockets": [
        "bash mkfifo solution.py helper.py",
        *script("import socket\nsocket.socket(1).bind('s')\n"),
        "view s",
    ],
    "the tests that hang for ever": [
        call("edit", path="solution.py", new="import time\ntime.sleep(999)\n"),
        "run_tests",
    ],
}


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def env(request):
    settings = {"memory_bytes": 1 << 30, "disk_bytes": 64 << 20, "files": 5000}
    if request.param == "docker":
        shown = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives"}
        image = request.getfixturevalue("root_file_system")
        settings |= {"image": image, "shown": shown, "base_url": request.getfixturevalue("docker_url")}
    elif request.getfixturevalue("bench") is None:
        pytest.skip("bubblewrap is not installed")
    with Bench(deadline_s=30) as bench:
        runner = "pytest" if request.param == "bubblewrap" else "plain"
        problem = settle(make_problem(runner, id=f"voids-{request.param}"), bench, repetitions=1)
    made = CodeRepairEnv(
        tasks=TaskList([problem.task()]), backend=request.param, sandbox=settings, deadline_s=2, test_deadline_s=4
    )
    yield made
    made.close()


@pytest.mark.timeout(900)  # each reading that meets a pipe waits for its limit of a minute
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_episode_has_a_result(env, attempt):
    env.reset(seed=0)
    for action in [*ATTEMPTS[attempt], "submit"]:
        observation, _, terminated, _, info = env.step(action)
        observation.text.encode()  # raises for what no tokenizer takes
        if terminated:
            break
    assert info["ending"] in (Ending.FINISHED, Ending.AGENT_FAULT)
    assert info["score"].usable
    assert info["score"].outcome < 1.0


@pytest.mark.parametrize(("action", "error"), [("bash true", None), ("run_tests", None), ("view .", EnvError)])
def test_a_sandbox_that_is_lost_after_a_program_ran_in_it_is_a_failure(bench, env_of, action, error):
    env = env_of(settle(make_problem("plain", id="lost"), bench, repetitions=1))
    env.step(action)
    launcher = env._bench._backend._process.pid
    for supervisor in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        os.kill(int(supervisor), signal.SIGKILL)
    if error is not None:  # nothing of the agent's has run, so it cannot be the cause
        with pytest.raises(error):
            env.step("view .")
        return
    observation, _, terminated, _, info = env.step("view solution.py")
    assert terminated
    assert "broke their sandbox" in observation.text
    assert (info["ending"], info["score"].usable, info["score"].outcome) == (Ending.AGENT_FAULT, True, -1.0)
    env.reset(seed=0)
    assert env.step("bash echo on")[0].text == "on"


def test_success_is_counted_over_all_episodes_of_an_agent_that_voids_whenever_it_can(bench):
    problem = settle(make_problem("plain", id="voided"), bench, repetitions=1)
    told = {name: actions for name, actions in ATTEMPTS.items() if sum(map(len, actions)) < 3000}
    solved = [f"solved {number}" for number in range(4)]
    tasks = [replace(problem.task(), id=name) for name in (*told, *solved)]
    lines = {name: [*actions, "submit"] for name, actions in told.items()}
    lines |= {name: list(CodeRepairEnv.oracle(None, problem.task())) for name in solved}
    limits = {"memory_bytes": 1 << 30, "disk_bytes": 64 << 20, "files": 2000}

    def make_env():
        return CodeRepairEnv(tasks=TaskList(tasks), sandbox=limits, deadline_s=2, test_deadline_s=5)

    async def go():
        async with EnvPool(make_env, size=2) as pool:
            player = Player(ScriptedPolicy(by_task(lines), models.chat()), models.chat(), ROOMY)
            return await evaluate(player, pool, RUBRIC.score_group, tasks, split="test", samples=1, seed=0)

    result, groups = asyncio.run(asyncio.wait_for(go(), 500))
    assert (result.unusable, len(result.success_B), sum(result.success_B)) == (0, len(tasks), len(solved))
    assert {task for task, success in zip(result.task_B, result.success_B, strict=True) if success} == set(solved)
    assert all(score.usable for group in groups for score in group.scores)
