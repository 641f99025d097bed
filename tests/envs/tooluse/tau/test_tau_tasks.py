"""Tasks of checkouts in the layouts of tau-bench and tau2: read, played by their gold calls, refused."""

import sys

import pytest

from tests.envs.tooluse.domains.play import facts_of
from tests.envs.tooluse.tau.checkouts import RULES, SECRET, Guest, ferry, tau2_checkout, tau_bench_checkout
from tests.helpers.chat_server import serving_prompts
from turngate.envs.tooluse.loaders.tau import tau_sources
from turngate.envs.tooluse.loaders.tau.known_wrong import KNOWN_WRONG, known_wrong
from turngate.errors import UserError


@pytest.fixture(params=["tau_bench", "tau2"])
def kind(request):
    return request.param


@pytest.fixture
def env(kind, bench, bench2):
    with ferry(kind, bench if kind == "tau_bench" else bench2) as env:
        yield env


def every(env):
    return [env.tasks.task(split, index) for split in env.tasks.splits for index in range(env.tasks.size(split))]


def test_splits_and_ids(env, kind):
    tasks = [(task.split, task.id) for task in every(env)]
    if kind == "tau_bench":
        ids = ["0", "1", "2", "train-0"]
        assert tasks == list(zip(["test"] * 3 + ["train"], [f"tau_bench/ferry/{one}" for one in ids], strict=True))
    else:
        assert tasks[:3] == [
            ("test", "tau2/ferry/moves"),
            ("train", "tau2/ferry/asserts"),
            ("train", "tau2/ferry/acts"),
        ]
        assert {split for split, _ in tasks[3:]} == {"base"}


def test_gold_calls_win_every_task_and_the_prompt_tells_the_rules_alone(env):
    for task in every(env):
        facts, reward = facts_of(env, task, env.oracle(task))
        assert (facts["solved"], facts["strictly_solved"], facts["frame_kept"]) == (True, True, True), task.id
        assert reward >= 1.0
        assert RULES in task.prompt
        assert SECRET not in task.prompt


def test_gold_calls_after_other_episodes_find_the_first_tables_again(env):
    tasks = every(env)
    ends = []
    for task in (*tasks, *reversed(tasks)):
        facts_of(env, task, env.oracle(task))
        ends.append(env.state())
    assert ends[: len(tasks)] == ends[len(tasks) :][::-1]


def test_an_episode_goes_on_as_its_copy_does(kind, bench, bench2):
    folder = bench if kind == "tau_bench" else bench2
    with ferry(kind, folder) as env, ferry(kind, folder) as other:
        task = every(env)[0]
        env.reset(options={"task": task})
        env.step("move_booking F1 tuesday x")
        saved = env.snapshot()
        other.restore(saved)
        ends = []
        for one in (env, other):
            one.step("move_booking F2 sunday x")
            ends.append(
                (one.state(), one.step("get_booking F2")[0].text, one.step("answer 30 tuesday")[4]["score"].total)
            )
        assert ends[0] == ends[1]
        env.restore(saved)
        assert '"friday"' in env.step("get_booking F2")[0].text


def test_what_is_left_out_is_counted_with_its_reason(bench2):
    with ferry("tau2", bench2) as env:
        assert {one.id.rpartition("/")[2]: one.reason for one in env.tasks.dropped} == {
            "judged": "its outcome is for a model to judge (NL_ASSERTION)",
            "on a device": "its user acts with tools of their own",
            "half way": "it begins in the middle of a talk",
        }


def test_nothing_of_a_checkout_stays_importable(env):
    assert not [name for name in sys.modules if name.split(".")[0] in ("tau_bench", "tau2")]


def test_turns_have_evidence(bench):
    """F1 is to be moved, without a note: distance 1. Moving F2 is two leaves more, and the note at F1 one instead."""
    with ferry("tau_bench", bench) as env:
        env.reset(options={"task": "tau_bench/ferry/0"})
        seen = []
        for line in ("get_booking F1", "get_booking F1", "move_booking F2 tuesday x", "move_booking F1 tuesday x"):
            facts = {fact.name: fact.value for fact in env.step(line)[4]["evidence"]}
            names = ("matched", "repeated", "wrote", "needless_write", "distance")
            seen.append(tuple(facts[name] for name in names))
        assert seen == [
            (True, False, False, False, 1),
            (False, True, False, False, 1),
            (False, False, True, True, 3),
            (False, False, True, True, 3),
        ]


# --- users ------------------------------------------------------------------------------------------------------------


def test_a_user_tells_their_wish_and_leaves(bench):
    with ferry("tau_bench", bench, user=Guest.NAME) as env:
        env.reset(options={"task": "tau_bench/ferry/0"})
        assert SECRET in env.step("say Hello?")[0].text
        env.step("move_booking F1 tuesday ''")
        env.step('{"name": "move_booking", "arguments": {"booking": "F1", "day": "tuesday", "note": ""}}')
        env.step("say It costs 30.")
        seen, _, terminated, _, _ = env.step("say goodbye")
        assert (seen.text, terminated) == ("Thanks.", True)


def test_a_model_plays_the_instructions(bench):
    asked = []

    def reply(prompt, n):
        asked.append(prompt)
        return "MOOD: 0\nSAY: " + ("###STOP###" if "It costs 30." in prompt else "Move F1 to tuesday, please.")

    with serving_prompts(reply) as server:
        user = {"type": "model", "judge": {"type": "server", "url": server.url, "model": "m"}}
        with ferry("tau_bench", bench, user=user) as env:
            env.reset(options={"task": "tau_bench/ferry/0"})
            assert env.step("say Hello?")[0].text == "Move F1 to tuesday, please."
            env.step('{"name": "move_booking", "arguments": {"booking": "F1", "day": "tuesday", "note": ""}}')
            seen, _, terminated, _, info = env.step("say It costs 30.")
            assert (seen.text, terminated, info["score"].outcome) == ("(the user has left)", True, 1.0)
    assert all(SECRET in prompt for prompt in asked)


def test_a_scripted_user_is_refused(kind, tmp_path):
    for user in ({}, {"user": "scripted"}):
        with pytest.raises(UserError, match=r'scripted user cannot play .* write user = {type = "model"'):
            ferry(kind, tmp_path, **{"user": {"type": "scripted"}} | user)


# --- known wrong tasks ------------------------------------------------------------------------------------------------


def test_known_wrong_tasks_are_kept_and_named_or_dropped(bench2, monkeypatch, caplog):
    one = KNOWN_WRONG[0]._replace(domain="ferry", id="moves", reason="it is wrong")
    monkeypatch.setattr(tau_sources, "known_wrong", lambda bench, domain: {one.id: one} if bench == "tau2" else {})
    with ferry("tau2", bench2) as env:
        assert env.tasks.find("tau2/ferry/moves")
    assert "1 of 8 tasks are known to be wrong: tau2/ferry/moves" in caplog.text
    with ferry("tau2", bench2, known_wrong="drop") as env:
        assert f"it is wrong ({one.source})" in [one.reason for one in env.tasks.dropped]


def test_known_wrong_tasks_are_listed_once():
    assert len({one[:3] for one in KNOWN_WRONG}) == len(KNOWN_WRONG)
    assert "10" in known_wrong("tau2", "retail")
    assert all(one.reason and one.source.startswith("https://") for one in KNOWN_WRONG)


# --- bad input --------------------------------------------------------------------------------------------------------


def broken(kind, folder, path, text):
    home = (tau_bench_checkout if kind == "tau_bench" else tau2_checkout)(folder)
    target = home / path
    target.unlink() if text is None else target.write_text(text)
    return home


V1, V2 = "tau_bench/envs/ferry", "data/tau2/domains/ferry"


@pytest.mark.parametrize(
    ("kind", "path", "text", "says"),
    [
        ("tau_bench", f"{V1}/tasks_test.py", "T = [Task(instruction=1, actions=[])]", "line 1, field 'instruction'"),
        ("tau_bench", f"{V1}/tasks_test.py", "T = [Task(instruction=open('x'), actions=[])]", "a task is no literal"),
        ("tau_bench", f"{V1}/tasks_test.py", "T = [", "is not Python"),
        ("tau_bench", f"{V1}/data/guests.json", "{", "guests.json: is not JSON"),
        ("tau_bench", f"{V1}/tools/__init__.py", "", "defines no ALL_TOOLS"),
        ("tau_bench", f"{V1}/tools/__init__.py", "import no_such_package", "needs 'no_such_package', which is not"),
        ("tau_bench", f"{V1}/tools/__init__.py", "1 / 0", "cannot be imported: ZeroDivisionError"),
        ("tau_bench", f"{V1}/wiki.md", None, "wiki.md: cannot be read"),
        ("tau2", f"{V2}/tasks.json", "{}", "holds no list of tasks"),
        ("tau2", f"{V2}/tasks.json", '[{"id": "a"}]', "task 0: is missing"),
        ("tau2", f"{V2}/db.json", '{"bookings": {"F1": {}}}', "db.json, field 'bookings.F1.guest': is missing"),
        ("tau2", "src/tau2/domains/ferry/tools.py", "", "defines 0 toolkits"),
        ("tau2", "src/tau2/domains/ferry/data_model.py", None, "there is no such module"),
    ],
)
def test_a_broken_checkout_is_one_line(tmp_path, kind, path, text, says):
    home = broken(kind, tmp_path, path, text)
    with pytest.raises(UserError) as caught:
        ferry(kind, home)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_domain(bench, bench2):
    with pytest.raises(UserError, match="is no domain of tau-bench; there are ferry"):
        ferry("tau_bench", bench, domain="retail")
    with pytest.raises(UserError, match="is no domain of tau2; there are ferry"):
        ferry("tau2", bench2, domain="retail")
    with pytest.raises(UserError, match="'telecom' of tau2 cannot be played: its users act on a device"):
        ferry("tau2", bench2, domain="telecom")
    with pytest.raises(UserError):
        ferry("tau_bench", bench / "nowhere")
