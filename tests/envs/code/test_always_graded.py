"""Whatever an agent does, its episode is graded: one that raises would be dropped, and with it a bad result."""

import pytest

from tests.envs.code.calls import call
from tests.envs.code.conftest import make_problem
from turngate.envs.code.engine.calibrate import settle

LONE = "\ud800"
NINES = "9" * 5000
AGENTS = {
    "half a character": [
        call("bash", command=f"echo {LONE}"),
        call("view", path=LONE),
        call("edit", path=LONE, new="x"),
        call("edit", path="a.py", new=LONE),
        call("search", pattern=LONE),
        call("run_tests", tests=LONE),
    ],
    "NUL": [
        call("bash", command="echo \0"),
        call("view", path="a\0b"),
        call("edit", path="a\0b", new="x"),
        call("edit", path="b.py", new="a\0b"),
        call("search", pattern="a\0"),
        call("run_tests", tests="a\0b"),
    ],
    "numbers": [
        "view solution.py ²",
        f"view solution.py {NINES}",
        "view solution.py 3-1",
        call("edit", path="solution.py", line="²", new="x"),
        f"edit solution.py +{NINES} x",
    ],
    "huge calls": [call("bash", command="#" * 3_000_000), call("edit", path="h.py", new="x" * 5_000_000)],
    "a pattern that explodes": ["search (a*)*b(a*)*c(.*)*x"],
    "code too deep to be read": [
        call("edit", path="solution.py", new="x = " + "-" * 100_000 + "1\n"),
        call("edit", path="helper.py", new="x = " + "+".join(["1"] * 2_000) + "\n"),
        call("edit", path="more.py", new="x = " + "[" * 10_000),
    ],
    "a tree too deep": ["bash for i in $(seq 400); do mkdir d; cd d; done; echo x > f"],
    "unreadable files": ["bash chmod 000 solution.py helper.py"],
    "an unreadable folder": ["bash mkdir x; echo 1 > x/y; chmod 000 x"],
    "a closed work folder": ["bash chmod 000 /work"],
    "an empty work folder": ["bash rm -rf /work/* /work/.*"],
    "many files": ["bash mkdir m; cd m; for i in $(seq 5000); do : > $i; done"],
    "long names": ["bash for i in $(seq 3000); do : > $(printf 'a%.0s' $(seq 240))$i; done"],
    "names that are no text": [r"bash touch $'\xff\xfe' $'a\nb' $'new\x01'", "view .", "search x"],
    "no plain files": ["bash mkfifo f.py; ln -s /dev/zero z.py; ln -s l l", "view f.py", "view z.py", "search x"],
    "a folder for a file": ["bash rm solution.py; mkdir solution.py; echo x > solution.py/x"],
    "a folder for the tests": ["bash rm test_solution.py; mkdir -p test_solution.py/x; echo > test_solution.py/x/y"],
    "everything killed": ["bash kill -9 -1", "bash echo hi"],
    "the shell killed": ["bash kill -9 $$", "bash exec true", "bash echo hi"],
    "the shell stopped": ["bash kill -STOP $$", "bash echo hi"],
    "its streams closed": ["bash exec >&- 2>&- <&-", "bash echo hi"],
    "programs left behind": ["bash for i in $(seq 200); do sleep 1000 & done", "bash echo still", "run_tests"],
    "a fork bomb": ["bash :(){ :|:& };:", "bash echo still", "run_tests"],
    "a full disk": ["bash head -c 600000000 /dev/zero > /work/big", "edit m.py +0 x", "run_tests", "bash echo hi"],
    "all memory": ["bash python3 -c 'x = bytearray(10 ** 10)'"],
    "no permissions": ["bash umask 777; echo x > n.py", "edit m.py +0 x", call("edit", path="m.py", new="x")],
    "no open files": ["bash ulimit -n 3", "bash echo hi; ls"],
}


@pytest.fixture(scope="module")
def env(bench, env_of):
    return env_of(settle(make_problem("plain"), bench, repetitions=1), deadline_s=3)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_episode_is_graded(env, agent):
    env.reset(seed=0)
    for action in AGENTS[agent]:
        observation, _, terminated, _, _ = env.step(action)
        assert not terminated, observation.text
        observation.text.encode()  # raises for what no tokenizer takes
    *_, info = env.step("submit")
    assert info["score"].usable
    assert info["score"].outcome < 1.0
    assert {fact.name: fact.value for fact in info["evidence"]}["resolved"] is False


def test_the_next_episode_does_not_suffer(env):
    for agent in ("a tree too deep", "everything killed", "a full disk"):
        env.reset(seed=0)
        for action in AGENTS[agent]:
            env.step(action)
        env.reset(seed=0)
        assert env.step("view .")[0].text.splitlines() == ["README.md", "helper.py", "solution.py", "test_solution.py"]
        assert env.step("bash echo hello")[0].text == "hello"
