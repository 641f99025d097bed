"""``TurnEnv`` keeps the contract for its subclasses. The rubric here is a fake that pays what the evidence says:
certain money for ``coin`` as it comes, the rest for ``done`` at the end."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from turngate.envs.base import Outcome, Texts, TurnEnv, TurnSpec
from turngate.envs.tasks import TaskList, TaskSource
from turngate.errors import AgentFault, ConfigError, EnvError, UnknownName, VerifierError
from turngate.tools.tool import Tool
from turngate.types import Action, Ending, Evidence, Info, Observation, RewardEvent, Score, Task, ToolCall

TASKS = [Task(id=f"t{index}", env_id="test/T-v0", prompt="Go.") for index in range(5)]
HELD = Task(id="held", env_id="test/T-v0", prompt="Go.", split="heldout")


class Purse:
    """0.25 for each coin at once, 1 for being done."""

    def __init__(self):
        self.seen = []

    def certain(self, record):
        return 0.25 * sum(fact.name == "coin" for fact in record.evidence)

    def score(self, record):
        self.seen.append(record)
        done = any(fact.name == "done" and fact.value for fact in record.evidence)
        total = self.certain(record) + done
        event = RewardEvent(name="all", kind="outcome", turn=None, value=total, weight=1.0)
        return Score(ledger=(event,), reward_T=np.array([total], np.float32), outcome=float(done), usable=True)


class Walk(TurnEnv):
    turn_spec = TurnSpec(
        tools=tuple(Tool(name=name, description="") for name in ("walk", "coin", "end", "fall", "break", "kill")),
        rubric=Purse(),
        max_turns=4,
    )

    def __init__(self, **options):
        super().__init__(tasks=TaskList([*TASKS, HELD]), **options)
        self.verified = 0

    def start(self, task, rng):
        self.at, self.verified, self.draw = 0, 0, int(rng.integers(1_000_000))
        return Observation(text=f"{task.id} {self.draw}", state_key="0")

    def act(self, action):
        name = action.calls[0].name if action.calls else ""
        if name == "fall":
            raise KeyError("hole")
        if name == "break":
            raise EnvError("the floor is gone")
        if name == "kill":
            raise AgentFault("the walker is dead")
        self.at += 1
        facts = [Evidence(name="moved", value=self.at)] + [Evidence(name="coin", value=1)] * (name == "coin")
        return Outcome(
            observation=Observation(text="on", state_key=str(self.at)), evidence=tuple(facts), done=name == "end"
        )

    def verify(self):
        self.verified += 1
        yield Evidence(name="done", value=self.at > 0)


@pytest.fixture
def env():
    return Walk()


def test_floats_before_the_end_are_certain_and_all_floats_sum_to_the_total(env):
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in ("walk", "coin", "coin")]
    *_, info = last = env.step("end")
    assert [*rewards, last[1]] == [0.0, 0.25, 0.25, 1.0]
    assert info["score"].total == 1.5
    assert info["ledger"] == info["score"].ledger


def test_evidence_is_stamped_with_its_turn_and_its_author(env):
    env.reset(seed=0)
    env.step("walk")
    *_, info = env.step("end")
    assert [(fact.name, fact.turn, fact.by) for fact in info["evidence"]] == [
        ("moved", 1, "env"),
        ("answer", None, "env"),
        ("done", None, "verifier"),
    ]
    record = Walk.turn_spec.rubric.seen[-1]
    assert (record.task_id, record.n_turns, record.ending) == (info["task_id"], 2, Ending.FINISHED)
    assert [(fact.name, fact.turn) for fact in record.evidence] == [
        ("moved", 0),
        ("moved", 1),
        ("answer", None),
        ("done", None),
    ]


def answer_of(info):
    return next(fact.value for fact in info["evidence"] if fact.name == "answer")


def test_the_answer_is_the_last_action_unless_the_environment_knows_better(env):
    env.reset(seed=0)
    assert answer_of(env.finish(Ending.TIME_BUDGET)[1]) is None  # nothing was said
    env.reset(seed=0)
    env.step("walk")
    assert answer_of(env.step("<think>far</think>end")[-1]) == "<think>far</think>end"


@pytest.mark.parametrize(
    ("answer", "stored"),
    [("a\ud800b", "a?b"), ("x" * 20_003, "x" * 20_000 + "\n[… 3 more characters …]"), ("x" * 20_000, "x" * 20_000)],
)
def test_an_answer_can_be_stored_whatever_it_is(answer, stored):
    class Told(Walk):
        def answer(self):
            return answer

    env = Told()
    env.reset(seed=0)
    assert answer_of(env.finish(Ending.TIME_BUDGET)[1]) == stored


@pytest.mark.parametrize("wrong", [42, ["a"], b"a"])
def test_an_answer_that_is_no_text_breaks_the_episode(wrong):
    class Odd(Walk):
        def answer(self):
            return wrong

    env = Odd()
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"answer\(\) of Odd returned .*; it must return text or None"):
        env.step("end")


def test_evidence_that_names_an_earlier_turn_keeps_it():
    class Late(Walk):
        def act(self, action):
            outcome = super().act(action)
            return replace(outcome, evidence=(Evidence(name="began_well", value=True, turn=0), *outcome.evidence))

    env = Late()
    env.reset(seed=0)
    env.step("walk")
    *_, info = env.step("end")
    assert [(fact.name, fact.turn) for fact in info["evidence"]] == [
        ("began_well", 0),
        ("moved", 1),
        ("answer", None),
        ("done", None),
    ]


def test_evidence_about_a_turn_that_was_not_played_is_refused():
    class Ahead(Walk):
        def act(self, action):
            return replace(super().act(action), evidence=(Evidence(name="moved", value=1, turn=1),))

    class Beyond(Walk):
        def verify(self):
            yield Evidence(name="done", value=True, turn=-1)

    env = Ahead()
    env.reset(seed=0)
    with pytest.raises(EnvError, match="Ahead broke in turn 0: evidence 'moved' is about turn 1"):
        env.step("walk")
    env = Beyond()
    env.reset(seed=0)
    with pytest.raises(VerifierError, match="verifier of Beyond broke: evidence 'done' is about turn -1 of 1"):
        env.step("end")


def test_info_tells_where_the_episode_stands(env):
    _, info = env.reset(seed=0, options={"task": "t3"})
    assert info == {
        "evidence": (),
        "ledger": (),
        "score": None,
        "task_id": "t3",
        "state_key": "0",
        "ending": None,
        "tools": tuple(tool.schema for tool in Walk.turn_spec.tools),
    }
    *_, info = env.step(" walk ")
    assert (info["task_id"], info["state_key"], info["ending"], info["score"]) == ("t3", "1", None, None)
    assert info["action"] == Action(text=" walk ", calls=(ToolCall(name="walk", arguments={}),))
    assert set(info) == set(Info.__annotations__) - {"tools"}


def test_the_turn_limit_truncates_and_the_work_is_measured(env):
    env.reset(seed=0)
    steps = [env.step("walk") for _ in range(4)]
    assert [step[2:4] for step in steps] == [(False, False)] * 3 + [(False, True)]
    assert steps[-1][4]["ending"] is Ending.MAX_TURNS
    assert (env.verified, steps[-1][1]) == (1, 1.0)


def test_ending_in_the_last_turn_is_finished_not_cut(env):
    env.reset(seed=0)
    for _ in range(3):
        env.step("walk")
    _, _, terminated, truncated, info = env.step("end")
    assert (terminated, truncated, info["ending"]) == (True, False, Ending.FINISHED)


def test_a_caller_can_cut_it_short(env):
    env.reset(seed=0)
    env.step("coin")
    reward, info = env.finish(Ending.TIME_BUDGET)
    assert (reward, info["score"].total, info["ending"], env.verified) == (1.0, 1.25, Ending.TIME_BUDGET, 1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.finish(Ending.TIME_BUDGET)


@pytest.mark.parametrize("ended", [False, True])
def test_acting_without_an_episode_needs_a_reset(env, ended):
    if ended:
        env.reset(seed=0)
        env.step("end")
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step("walk")


def test_what_breaks_is_typed_and_what_is_typed_passes(env):
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"Walk broke in turn 0: KeyError: 'hole'") as caught:
        env.step("fall")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(EnvError, match=r"^the floor is gone$"):
        env.step("break")


def test_a_verifier_that_breaks_makes_the_outcome_unmeasured():
    class Blind(Walk):
        def verify(self):
            raise OSError("disk")

    env = Blind()
    env.reset(seed=0)
    with pytest.raises(VerifierError, match=r"the verifier of Blind broke: OSError: disk"):
        env.step("end")


def test_a_start_that_breaks_names_the_task_and_leaves_no_episode():
    class Stuck(Walk):
        def start(self, task, rng):
            raise OSError("no room")

    env = Stuck()
    with pytest.raises(EnvError, match="Stuck could not start task 't2'"):
        env.reset(options={"task": "t2"})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("walk")


def test_the_seed_picks_task_and_randomness(env):
    first = [env.reset(seed=seed)[0].text for seed in range(100)]
    assert first == [env.reset(seed=seed)[0].text for seed in range(100)]
    assert {text.split()[0] for text in first} == {task.id for task in TASKS}
    assert len(set(first)) == 100


def test_the_split_limits_what_the_seed_may_pick():
    env = Walk(split="heldout")
    assert {env.reset(seed=seed)[1]["task_id"] for seed in range(5)} == {"held"}


def test_bad_arguments_are_refused(env):
    with pytest.raises(UnknownName, match="unknown split 'tran'; did you mean 'train'"):
        Walk(split="tran")
    with pytest.raises(ConfigError, match="max_turns is 0; it must be a whole number, at least 1"):
        Walk(max_turns=0)
    with pytest.raises(ConfigError, match=r"unknown reset option \['tusk'\]; known: 'task'"):
        env.reset(options={"tusk": "t1"})
    with pytest.raises(UnknownName, match="unknown task 't9'"):
        env.reset(options={"task": "t9"})


def test_no_oracle_unless_written(env):
    with pytest.raises(EnvError, match="Walk has no oracle"):
        env.oracle(TASKS[0])


def test_render_says_where_it_stands(env):
    assert env.render() == "no episode"
    env.reset(seed=0, options={"task": "t1"})
    env.step("walk")
    assert env.render() == "t1: turn 1 of 4"


def test_spaces_take_any_text():
    space = Texts(Action, ["one", "two"], seed=0)
    assert {space.sample() for _ in range(20)} == {"one", "two"}
    assert "a\nb c" in space
    assert Action(text="x") in space
    assert Observation(text="x") not in space


def test_a_task_list_is_a_task_source():
    tasks = TaskList([*TASKS, HELD])
    assert isinstance(tasks, TaskSource)
    assert (tasks.splits, tasks.size("train"), tasks.size("heldout")) == (("train", "heldout"), 5, 1)
    assert tasks.task("train", 4).id == "t4"
    with pytest.raises(IndexError):
        tasks.task("train", 5)
    with pytest.raises(ConfigError, match="task id 't0' is used twice"):
        TaskList([TASKS[0], TASKS[0]])


def test_an_environment_without_exact_forks_has_no_snapshot(env):
    env.reset(seed=0)
    with pytest.raises(EnvError, match="Walk cannot be forked exactly; its fork is 'none'"):
        env.snapshot()


# --- what the agent breaks --------------------------------------------------------------------------------------------


def test_an_action_that_breaks_the_episode_ends_it_as_a_failure(env):
    env.reset(options={"task": "t0"})
    env.step("coin")
    observation, _reward, terminated, truncated, info = env.step("kill")
    assert (terminated, truncated, info["ending"]) == (True, False, Ending.AGENT_FAULT)
    assert observation.text == "the episode is over: the walker is dead"
    assert info["evidence"] == (Evidence(name="agent_fault", value="the walker is dead", turn=1),)
    assert info["action"].calls[0].name == "kill"
    assert info["score"].usable
    assert env.verified == 0
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("walk")


def test_what_cannot_be_verified_because_of_the_agent_is_a_failure(env, monkeypatch):
    def verify():
        raise AgentFault("it left a bomb")

    monkeypatch.setattr(env, "verify", verify)
    env.reset(options={"task": "t0"})
    _, _, terminated, truncated, info = env.step("end")
    assert (terminated, truncated, info["ending"]) == (True, False, Ending.AGENT_FAULT)
    env.reset(options={"task": "t0"})
    _, info = env.finish(Ending.TIME_BUDGET)
    assert info["ending"] is Ending.AGENT_FAULT
    assert info["evidence"] == (Evidence(name="agent_fault", value="it left a bomb"),)
