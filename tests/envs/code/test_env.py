"""The environment: tools, budgets, facts, forks and bad input, on real sandboxes."""

import os

import pytest

from tests.envs.code.calls import call
from tests.envs.code.conftest import BUG, REPAIR, VISIBLE, make_problem
from turngate.envs.code.engine.shared_sandbox import _shared
from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.rubric import DIRECT_RUBRIC, RUBRIC
from turngate.envs.tasks import TaskList
from turngate.errors import ConfigError, UnknownName
from turngate.sandbox.reaper import processes_below
from turngate.types import Ending

EDIT = "edit solution.py return helper.same(max(x, low)) => return helper.same(min(max(x, low), high))"


def facts_of(info):
    return {fact.name: fact.value for fact in info["evidence"]}


@pytest.fixture
def env(env_of, problem):
    env = env_of(problem)
    yield env
    env.close()


def say(env, action):
    observation, _, _, _, info = env.step(action)
    return observation.text, facts_of(info)


# --- tools ------------------------------------------------------------------------------------------------------------


def test_the_shell_keeps_its_state(env):
    say(env, "bash cd /tmp && greeting=hello && say() { echo $greeting $1; }")
    assert say(env, "bash say you; pwd")[0] == "hello you\n/tmp"


def test_an_exit_status_and_a_deadline_are_said(env_of, problem):
    env = env_of(problem, deadline_s=0.5)
    assert say(env, "bash false")[0] == "[exit 1]"
    text, facts = say(env, "bash sleep 60")
    assert "[killed: it ran longer than" in text
    assert facts["call_ok"] is False
    assert say(env, "bash echo on")[0] == "on"
    env.close()


def test_output_is_cut_in_the_middle(env_of, problem):
    env = env_of(problem, max_chars=200)
    text, _ = say(env, "bash seq 1 1000")
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("998\n999\n1000")
    assert "characters are not shown" in text
    assert len(text) < 260
    env.close()


def test_view_shows_numbered_lines_and_folders(env):
    assert say(env, "view solution.py 6-7")[0].startswith("6 def clamp(x, low, high):\n7     ")
    assert "[lines 6 to 7 of " in say(env, "view /work/solution.py 6-7")[0]
    assert say(env, "view .")[0].splitlines() == ["README.md", "helper.py", "solution.py", "test_solution.py"]


def test_edit_replaces_inserts_and_makes(env):
    text, facts = say(env, EDIT)
    assert text == "edited solution.py\n8     return helper.same(min(max(x, low), high))"
    assert facts["edit_applied"] is True
    assert facts["syntax_ok"] is True
    say(env, "edit solution.py +0 # first line")
    assert say(env, "view solution.py 1-1")[0].startswith("1 # first line")
    say(env, call("edit", path="notes/new.txt", new="a\nb\n"))
    assert say(env, "bash cat notes/new.txt")[0] == "a\nb"
    block = (
        "edit solution.py\n<<<<<<< OLD\ndef width(low, high):\n    return high - low\n=======\ndef width(low, high):\n"
    )
    assert say(env, block + "    gap = high - low\n    return gap\n>>>>>>> NEW")[1]["edit_applied"] is True


def test_the_answer_is_the_diff_of_what_will_be_measured(env):
    say(env, EDIT)
    say(env, "bash echo '# mine' >> test_solution.py; printf 'a\\xff' > data.txt; rm README.md")
    _, info = env.finish(Ending.TIME_BUDGET)
    readme, data, repair = facts_of(info)["answer"].split("--- ")[1:]
    assert readme == "a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-numbers\n"
    assert data == "/dev/null\n+++ b/data.txt\n@@ -0,0 +1 @@\n+a?\n\\ No newline at end of file\n"
    assert repair.startswith("a/solution.py\n+++ b/solution.py\n@@ ")
    assert "\n-    return helper.same(max(x, low))\n+    return helper.same(min(max(x, low), high))\n" in repair


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ("edit solution.py nowhere => there", "OLD does not occur"),
        ("edit solution.py low => high", "give more of its surroundings"),
        ("edit nothing.py a => b", "there is no file 'nothing.py'"),
        ("edit solution.py +999 x", "nothing can be inserted after line 999"),
        ("edit solution.py just words", "the change could not be read"),
        ("edit solution.py", "nothing to change was given"),
        ("edit /etc/passwd a => b", "there is no file '/etc/passwd'"),
        ("view missing.py", "missing.py"),
        ("view solution.py 9-x", "lines is '9-x'"),
        ("view ../../etc", ".."),
        ("search (", "[exit 2]"),
        ("run_tests --help", "options cannot be given"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_an_observation(env, action, complaint):
    text, facts = say(env, action)
    assert text.startswith("error: ")
    assert complaint in text
    assert facts["call_ok"] is False


def test_search_is_sorted_by_file_and_line(env):
    lines = say(env, "search def ")[0].splitlines()
    places = [(line.split(":")[0].removeprefix("./"), int(line.split(":")[1])) for line in lines]
    assert places == sorted(places)
    assert ("solution.py", 6) in places
    assert say(env, "search no_such_word")[0] == "no matches"
    assert "helper.py" in say(env, call("search", pattern="def", path="helper.py"))[0]


def test_run_tests_shows_failures_of_the_visible_tests_only(env):
    text, facts = say(env, "run_tests")
    assert "test_above" in text
    assert "far_above" not in text
    assert facts["ran_tests"] is True
    assert say(env, EDIT)[1]["edit_applied"]
    assert "FAILED" not in say(env, "run_tests")[0]


def test_the_same_output_whether_it_was_known_or_not(env_of, problem):
    texts = []
    for _ in range(2):
        env = env_of(problem)
        texts.append(say(env, "run_tests")[0])
        env.close()
    assert texts[0] == texts[1]
    assert " in 0." not in texts[0]


# --- facts ------------------------------------------------------------------------------------------------------------


def test_a_turn_says_what_it_did(env):
    assert say(env, "view solution.py")[1] == {"parsed": True, "tool": "view", "repeated": False, "call_ok": True}
    assert say(env, "view solution.py")[1]["repeated"] is True
    assert say(env, "edit solution.py return high - low => return high -")[1]["syntax_ok"] is False
    assert say(env, "view solution.py")[1]["repeated"] is False  # another state


def test_the_verdict_says_what_each_turn_was_worth(env):
    say(env, "edit helper.py return 1 => return 2")
    say(env, EDIT)
    say(env, "edit solution.py return high - low => return low - high")
    _, _, _, _, info = env.step("submit")
    by_turn = {
        name: {fact.turn: fact.value for fact in info["evidence"] if fact.name == name}
        for name in ("tests_fixed", "tests_broken", "localised")
    }
    assert by_turn["tests_fixed"] == {0: 0.0, 1: 1.0, 2: 1.0}
    assert by_turn["tests_broken"] == {0: 0.0, 1: 0.0, 2: pytest.approx(1 / 3)}
    assert by_turn["localised"] == {0: 0.0, 1: 1.0, 2: 1.0}
    assert facts_of(info)["submitted_untested"] is True
    assert (info["score"].outcome, facts_of(info)["resolved"]) == (0.0, False)


def test_tests_are_measured_at_the_end_only_if_that_is_wanted(env_of, problem):
    env = env_of(problem, measure="end")
    say(env, EDIT)
    _, _, _, _, info = env.step("submit")
    assert not [fact for fact in info["evidence"] if fact.name == "tests_fixed"]
    assert facts_of(info)["tests_fixed_at_end"] == 1.0
    assert facts_of(info)["fail_to_pass"] == dict.fromkeys(problem.fail_to_pass, True)
    env.close()


def test_the_ladder_has_four_rungs(env_of, problem):
    rungs = []
    for actions in (
        ["view ."],
        ["view .", "submit"],
        ["edit helper.py return 1 => return 2", "submit"],
        [EDIT, "submit"],
    ):
        env = env_of(problem)
        for action in actions:
            *_, info = env.step(action)
        if actions[-1] != "submit":
            _, info = env.finish(Ending.MAX_TURNS)
        rungs.append(info["score"].outcome)
        env.close()
    assert rungs == [-1.0, -0.5, 0.0, 1.0]


def test_diagnostics_of_language_servers(env_of, problem):
    env = env_of(problem, diagnostics=("ruff",))
    worse = say(env, "edit solution.py return high - low => return hihg - low")[1]
    assert worse["diagnostics_delta"] > 0
    better = say(env, "edit solution.py hihg => high")[1]
    assert better["diagnostics_delta"] == -worse["diagnostics_delta"]
    env.close()


def test_gated_rewards_are_safe_and_directly_accumulated_ones_are_not():
    assert RUBRIC.check().safe
    assert not DIRECT_RUBRIC.check().safe


def test_private_parts_stay_private(env, problem):
    task = problem.task()
    said = [env.reset(seed=3)[0].text] + [say(env, action)[0] for action in ("view .", "run_tests", "search def")]
    hidden = problem.hidden["test_solution.py"].removeprefix(VISIBLE).strip()
    for text in said:
        assert "far_above" not in text
        assert hidden not in text
    assert task.hints[0].startswith("Failing tests: test_solution.py::test_above")
    assert "far_above" not in repr(task)


# --- forks and state --------------------------------------------------------------------------------------------------


def test_a_fork_goes_on_as_the_episode_would(env, env_of, problem):
    say(env, "bash cd /tmp; n=7; echo kept > /tmp/file; echo '# more' >> /work/helper.py")
    say(env, EDIT)
    snapshot = env.snapshot()
    other = env_of(problem)
    other.restore(snapshot)
    tail = ["bash echo $n $(pwd) $(cat /tmp/file)", "view helper.py", "run_tests", "submit"]
    mine, theirs = ([one.step(action) for action in tail] for one in (env, other))
    for (seen, reward, *_, info), (their_seen, their_reward, *_, their_info) in zip(mine, theirs, strict=True):
        assert (seen, reward) == (their_seen, their_reward)
        assert info["evidence"] == their_info["evidence"]
    assert mine[0][0].text == "7 /tmp kept"
    assert mine[-1][-1]["score"].outcome == 1.0
    other.close()


def test_forks_do_not_see_each_other(env, env_of, problem):
    snapshot = env.snapshot()
    say(env, "bash echo x > mine.txt")
    other = env_of(problem)
    other.restore(snapshot)
    assert "mine.txt" not in say(other, "view .")[0]
    other.restore(snapshot)  # as often as wanted
    assert "mine.txt" not in say(other, "bash ls")[0]
    other.close()


def test_equal_trees_have_equal_keys(env):
    start, _ = env.reset(seed=0)
    changed, *_ = env.step("edit helper.py return 1 => return 2")
    back, *_ = env.step("edit helper.py return 2 => return 1")
    by_shell, *_ = env.step("bash sed -i 's/return 1/return 2/' helper.py; touch README.md")
    assert start.state_key == back.state_key != changed.state_key == by_shell.state_key


# --- bad input --------------------------------------------------------------------------------------------------------


def test_binary_and_foreign_files_are_shown_for_what_they_are(env):
    say(env, r"bash printf '\x00\x01' > data.bin; printf 'caf\xe9\n' > latin.txt; ln -s /nowhere dangling")
    assert say(env, "view data.bin")[0] == "[binary file of 2 bytes]"
    assert say(env, "view latin.txt")[0] == "1 caf\ufffd"
    assert "is not UTF-8 text" in say(env, "edit latin.txt caf => tea")[0]
    assert say(env, "view dangling")[1]["call_ok"] is False
    *_, info = env.step("submit")
    assert info["score"].usable


def test_a_huge_file_is_no_patch(env):
    say(env, "bash head -c 200000000 /dev/zero > big.py")
    assert "has more than" in say(env, "view big.py")[0]
    say(env, EDIT)
    *_, info = env.step("submit")
    assert facts_of(info)["too_large"] == ["big.py"]
    assert info["score"].outcome == 0.0


def test_bytes_that_are_not_utf8_survive_into_the_verdict(env):
    say(env, r"bash printf 'name = \"caf\xe9\"\n' | cat - solution.py > new.py && mv new.py solution.py")
    *_, info = env.step("submit")
    assert facts_of(info)["tests_broken_at_end"] == 1.0  # such a module cannot be imported, there as here


def test_tests_that_need_the_network_fail_there_and_are_dropped(bench):
    from turngate.envs.code.engine.calibrate import settle

    network = "\n\ndef test_net():\n    import socket\n    socket.create_connection(('192.0.2.1', 80), 1)\n"
    hidden = {"test_solution.py": VISIBLE + network}
    settled = settle(make_problem("plain", id="net", hidden=hidden), bench, repetitions=1)
    assert "test_solution.py::test_net" not in (*settled.fail_to_pass, *settled.pass_to_pass)


@pytest.mark.parametrize(
    ("settings", "error", "complaint"),
    [
        ({"backend": "local"}, ConfigError, "needs 'bubblewrap' or 'docker'"),
        ({"max_chars": 10}, ConfigError, "max_chars is 10"),
        ({"measure": "never"}, UnknownName, "measure"),
        ({"split": "nowhere"}, UnknownName, "nowhere"),
    ],
)
def test_a_bad_setting_is_refused_and_leaves_nothing(bench, settings, error, complaint):
    before = dict(_shared)
    with pytest.raises(error, match=complaint):
        CodeRepairEnv(tasks=TaskList([make_problem().task()]), **settings)
    assert _shared == before


def test_the_last_environment_closes_the_bench(problem):
    envs = [CodeRepairEnv(tasks=TaskList([problem.task()]), test_deadline_s=7) for _ in range(2)]
    supervisor = envs[0]._bench._backend._process.pid
    folder = envs[0]._bench.toolbox._folder
    for env in envs:
        env.reset(seed=0)
        say(env, "bash sleep 100 & echo started")
    envs[0].close()
    assert say(envs[1], "bash echo still")[0] == "still"
    assert folder.exists()
    own = {supervisor, *processes_below(supervisor)}  # spare sandboxes of other tests come and go
    assert len(own) > 2
    envs[1].close()
    assert not folder.exists()
    assert not own & set(processes_below(os.getpid()))


def test_a_folder_is_only_read(bench, tmp_path):
    (tmp_path / "helper.py").write_text("def same(x):\n    return x\n")
    problem = make_problem(
        "plain", id="folder", folder=str(tmp_path), files={"solution.py": BUG, "test_solution.py": VISIBLE}
    )
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    report = bench.measure(problem, {"solution.py": REPAIR, "helper.py": None})
    assert "passed" not in report.status.values()
    assert bench.measure(problem, problem.solved).status["test_solution.py::test_above"] == "passed"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
