"""``turngate/Web-v1`` in a real Chromium: its tasks are solved, repeated to the letter, and not solved by chance."""

import json
import os
import re
import signal

import pytest

import turngate
from turngate.envs.web.engine.browser import shared
from turngate.errors import ConfigError, EnvError
from turngate.types import Ending

pytestmark = pytest.mark.component
PAGES = ["click-test", "enter-text", "choose-list", "find-greatest"]


def played(env, task, actions):
    """Everything that an agent and a learner get to see of an episode."""
    seen, info = env.reset(options={"task": task})
    steps = [(seen.text, seen.state_key, 0.0)]
    for action in actions:
        seen, reward, terminated, truncated, info = env.step(action)
        steps.append((seen.text, seen.state_key, reward))
        if terminated or truncated:
            break
    return steps, info


def values(info):
    return {fact.name: fact.value for fact in info["evidence"]}


@pytest.mark.parametrize(
    "tasks",
    [{"type": "shop", "levels": [level]} for level in (1, 2, 3)] + [{"type": "miniwob", "pages": PAGES, "seeds": 2}],
    ids=["shop 1", "shop 2", "shop 3", "miniwob"],
)
def test_the_oracle_solves_its_tasks_and_the_same_actions_give_the_same_episode(tasks):
    settings = {"tasks": tasks, "max_turns": 40}
    with turngate.make("turngate/Web-v1", **settings) as env, turngate.make("turngate/Web-v1", **settings) as other:
        for index in range(2):
            task = env.tasks.task("train", index)
            actions = env.oracle(task)
            steps, info = played(env, task, actions)
            assert info["score"].outcome == 1.0, (task.id, actions, steps[-1])
            assert len({key for _, key, _ in steps[:-1]}) > 1 or len(steps) == 2
            assert played(other, task, actions)[0] == steps


def test_lists_of_the_shop_have_one_width():
    """Chromium rounds that of the longest option up, to another pixel once in thousands of turns."""
    with turngate.make("turngate/Web-v1", tasks={"type": "shop", "levels": [1]}, max_turns=40) as env:
        env.reset(options={"task": env.tasks.task("train", 0)})
        env.step("goto http://shop.test/search?q=a")
        lists = re.findall(r"(e\d+) combobox", env.step("wait 100")[0].text)
        middles = [values(env.step(f"hover {one}")[-1])["pointed_at"][0] for one in lists]
    assert len(middles) > 5
    assert len(set(middles)) == 1


@pytest.mark.parametrize("tasks", [{"type": "shop", "levels": [1]}, {"type": "miniwob", "pages": ["enter-text"]}])
def test_hints_say_more_from_level_to_level_and_never_how_to_end(tasks):
    with turngate.make("turngate/Web-v1", tasks=tasks) as env:
        task = env.tasks.task("train", 0)
        hints = [env.hint(task, level) for level in (1, 2, 3)]
        assert all(hints)
        assert len(set(hints)) == 3
        assert env.hint(task, 0) is env.hint(task, 4) is None
        assert not any("answer" in hint for hint in hints)


def test_nothing_is_left_when_the_last_environment_is_closed():
    browser = shared()
    with turngate.make("turngate/Web-v1") as env:
        env.reset(options={"task": env.tasks.task("train", 0)})
        assert browser.leased == 1
    assert browser.leased == 0


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("click e999", "error: "),
        ("click nothing", "error: "),
        ("fill e3 text", "error: "),
        ("select e10 red", "error: "),
        ("goto http://example.com/", "error: "),
        ("goto file:///etc/passwd", "error: "),
        ("goto javascript:alert(1)", "error: "),
        ("goto nonsense", "error: "),
        ("switch_tab 9", "error: there is no tab 9"),
        ("press NoSuchKey", "error: "),
        ("wait 999999999999", "error: "),
        ("read e999", "error: there is no element 'e999' on the page"),
        ("scroll x", "error: "),
        ("fly away", "error: "),
    ],
)
def test_what_cannot_be_done_is_an_observation_and_the_episode_goes_on(web, action, said):
    before = web.reset(options={"task": web.tasks.task("train", 0)})[0]
    seen, _, terminated, truncated, info = web.step(action)
    assert seen.text.startswith(said), seen.text
    assert (terminated, truncated) == (False, False)
    assert values(info).get("call_ok", False) is False
    assert before.state_key == seen.state_key or "goto" in action


@pytest.fixture(scope="module")
def web():
    with turngate.make("turngate/Web-v1", tasks={"type": "shop", "levels": [1]}) as env:
        yield env


def test_an_action_of_which_nothing_comes_is_no_op_and_a_way_back_is_found_out(web):
    task = web.tasks.task("train", 0)
    web.reset(options={"task": task})
    link = (
        next(line.split()[0] for line in web.shown.splitlines() or [] if 'link "Cart"' in line) if web.shown else "e4"
    )
    facts = values(web.step(f"click {link}")[4])
    assert (facts["page_changed"], facts["no_op"], facts["page_kind"]) == (True, False, "cart")
    assert values(web.step("wait 10")[4])["no_op"]
    facts = values(web.step("back")[4])
    assert facts["page_changed"]


def test_saying_done_without_doing_it_is_not_paid(web):
    web.reset(options={"task": web.tasks.task("train", 0)})
    *_, info = web.step("answer done")
    assert info["score"].outcome == 0.0
    assert not values(info)["goal_reached"]


def test_a_browser_that_is_killed_makes_its_episode_unusable_and_the_next_one_has_another(web):
    task = web.tasks.task("train", 0)
    web.reset(options={"task": task})
    for pid in chromium_processes():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(EnvError):
        web.step("wait 10")
    web.reset(options={"task": task})
    assert values(web.step("wait 10")[4])["call_ok"]


def chromium_processes():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    line = file.read()
                with open(f"/proc/{name}/status") as file:
                    status = file.read()
            except OSError:
                continue
            if b"chrom" in line.split(b"\0")[0] and b"--type=" not in line and is_below(int(name), os.getpid(), status):
                found.append(int(name))
    return found


def is_below(pid, ancestor, status):
    while pid > 1:
        parent = int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
        if parent == ancestor:
            return True
        pid = parent
        try:
            with open(f"/proc/{pid}/status") as file:
                status = file.read()
        except OSError:
            return False
    return False


# --- your own site ----------------------------------------------------------------------------------------------------

INDEX = """<!doctype html><title>Lamp</title><h1>Lamp</h1>
<button onclick="document.body.dataset.lamp = 'on'">Switch on</button> <a href="/two.html">More</a>"""
VERIFIER = """
def lamp_is_on(end):
    return end.evaluate("document.body.dataset.lamp || ''") == end.expected

def half(end):
    return 0.5

def nonsense(end):
    return "yes"
"""


@pytest.fixture
def own_site(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(INDEX)
    (tmp_path / "lamp_checks.py").write_text(VERIFIER)
    row = {"id": "lamp", "prompt": "Switch the lamp on.", "expected": "on", "gold": ["click e2", "answer done"]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    monkeypatch.syspath_prepend(str(tmp_path))

    def tasks(verifier="lamp_is_on", **more):
        files = {"file": str(tmp_path / "tasks.jsonl"), "folder": str(tmp_path / "site")}
        return {"type": "web_site", "verifier": f"lamp_checks:{verifier}", "held_out": 0, **files, **more}

    return tasks


def test_a_folder_of_files_and_a_function_are_a_site_with_tasks(own_site):
    with turngate.make("turngate/Web-v1", tasks=own_site()) as env:
        task = env.tasks.task("train", 0)
        assert "Switch on" in env.reset(options={"task": task})[0].text
        assert played(env, task, env.oracle(task))[1]["score"].outcome == 1.0
        assert played(env, task, ["answer done"])[1]["score"].outcome == 0.0
        env.reset(options={"task": task})
        env.step("click e2")
        assert env.finish(Ending.MAX_TURNS)[1]["score"].outcome == 1.0


def test_pages_that_reach_the_network_are_external_and_cannot_be_forked(own_site):
    with turngate.make("turngate/Web-v1", tasks=own_site(allowed=["localhost:1"])) as env:
        assert (env.turn_spec.side_effects, env.turn_spec.fork) == ("external", "none")
    with turngate.make("turngate/Web-v1", tasks=own_site()) as env:
        assert (env.turn_spec.side_effects, env.turn_spec.fork) == ("none", "replay")


@pytest.mark.parametrize(
    ("tasks", "settings", "said"),
    [
        ({"type": "shop", "levels": [1]}, {"max_turns": 2}, "do not solve task 'shop"),
        ({"type": "miniwob", "pages": ["drag-box"], "seeds": 1, "held_out": 0}, {}, "set pointing = "),
    ],
)
def test_an_oracle_that_does_not_solve_its_task_is_an_error(tasks, settings, said):
    with turngate.make("turngate/Web-v1", tasks=tasks, **settings) as env, pytest.raises(EnvError, match=said):
        env.oracle(env.tasks.task("train", 0))


def test_what_a_verifier_returns_is_checked(own_site):
    with turngate.make("turngate/Web-v1", tasks=own_site("half")) as env:
        assert values(played(env, env.tasks.task("train", 0), ["answer x"])[1])["goal_share"] == 0.5
    with (
        turngate.make("turngate/Web-v1", tasks=own_site("nonsense")) as env,
        pytest.raises(turngate.errors.VerifierError, match=r"nonsense.*must return True, False or a share"),
    ):
        played(env, env.tasks.task("train", 0), ["answer x"])


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"verifier": "lamp_checks:missing"}, ConfigError, "missing"),
        ({"folder": "/nowhere"}, ConfigError, "there is no folder"),
        ({"file": "/nowhere.jsonl"}, ConfigError, "there is no file"),
    ],
)
def test_a_site_that_cannot_be_used_is_refused_by_name(own_site, settings, error, said):
    with pytest.raises(error, match=said):
        turngate.make("turngate/Web-v1", tasks=own_site() | settings)


@pytest.mark.parametrize(
    ("setting", "value"), [("pointing", "eyes"), ("show", "all"), ("screenshot", True), ("max_chars", 3), ("width", 0)]
)
def test_a_setting_out_of_range_is_refused(setting, value):
    with pytest.raises(ConfigError, match=setting):
        turngate.make("turngate/Web-v1", **{setting: value})


def test_by_places_and_with_a_screenshot():
    tasks = {"type": "miniwob", "pages": ["click-test"], "seeds": 1, "held_out": 0}
    with turngate.make(
        "turngate/Web-v1", tasks=tasks, pointing="places", screenshot="marks", width=160, height=210
    ) as env:
        task = env.tasks.task("train", 0)
        seen, info = env.reset(options={"task": task})
        assert seen.images[0].startswith(b"\x89PNG")
        names = {one["function"]["name"] for one in info["tools"]}
        assert "click_at" in names
        assert "click" not in names


def test_only_what_changed_is_shown_where_that_is_asked_for():
    with turngate.make("turngate/Web-v1", tasks={"type": "shop", "levels": [1]}, show="changes") as env:
        env.reset(options={"task": env.tasks.task("train", 0)})
        assert env.step("wait 10")[0].text == "nothing changed on the page"
        assert '+ e10 searchbox "Search" = "hat"' in env.step("fill e10 hat")[0].text
