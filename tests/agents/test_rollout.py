"""Episodes: how they end, what they record, and that recorded ids are what the policy saw."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import models, templates
from turngate.agents.chat import Chat
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Episode, Player, TokenLimits, play_groups
from turngate.envs.lock import RUBRIC, LockEnv, LockTasks
from turngate.envs.pool.pool import EnvPool
from turngate.envs.sql.env import SqlEnv
from turngate.errors import AgentFault, EnvError, UserError
from turngate.store import Store
from turngate.tools.read import rewritten
from turngate.trainer.batch.table import tabulate
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.recorded_columns import EvidenceColumns
from turngate.types import EndedBy, Ending, Evidence, Group, Guidance, Source, derive_seed


def oracle(n=3):
    env = LockEnv()
    return by_task({task.id: env.oracle(task) for task in models.tasks(n)})


class Recording(ScriptedPolicy):
    """Keeps every request."""

    def __init__(self, script, **kwargs):
        super().__init__(script, models.chat(), **kwargs)
        self.requests, self.released = [], []

    async def complete(self, request):
        self.requests.append(request)
        return await super().complete(request)

    def release(self, episode):
        self.released.append(episode)


def play(policy, make_env=LockEnv, *, limits=models.LIMITS, n_tasks=1, guidance=None, size=4):
    async def go():
        async with EnvPool(make_env, size=size) as pool:
            player = Player(policy, models.chat(), limits)
            groups = await play_groups(player, pool, models.tasks(n_tasks), [[guidance]] * n_tasks, seed=3)
        return [trajectory for group in groups for trajectory in group.trajectories]

    return asyncio.run(asyncio.wait_for(go(), 60))


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_an_episode_records_what_happened():
    (played,) = play(ScriptedPolicy(oracle(), models.chat()))
    task = models.tasks(1)[0]
    colours = [LockEnv.start(LockEnv(), task, None).text.split()[-1]]
    assert played.task == task
    assert played.ending is Ending.FINISHED
    assert [turn.action.text for turn in played.turns] == list(LockEnv().oracle(task))
    assert played.turns[0].observation.text == f"{task.prompt} {colours[0]}"
    assert [turn.observation.text.split()[0] for turn in played.turns[1:]] == ["click", "click"]
    assert [fact.value for fact in played.evidence if fact.name == "right_key"] == [True] * 3
    assert [fact.turn for fact in played.evidence] == [0, 0, 1, 1, 2, 2, None, None]
    assert played.evidence[-1] == Evidence(name="opened", value=True, by="verifier")
    assert played.answer() == " ".join(action.removeprefix("press ") for action in LockEnv().oracle(task))
    assert RUBRIC.score(played.record()).outcome == 1.0
    assert len({turn.observation.state_key for turn in played.turns}) == 3


def test_ids_are_what_the_policy_saw_turn_by_turn():
    policy = Recording(oracle())
    (played,) = play(policy)
    seen = np.zeros(0, np.int32)
    for turn, request in zip(played.turns, policy.requests, strict=True):
        seen = np.concatenate([seen, turn.context_ids])
        np.testing.assert_array_equal(request.ids, seen)
        seen = np.concatenate([seen, turn.completion.ids_K])
        marks = [Source.CONTEXT] * len(turn.context_ids) + [Source.POLICY] * len(turn.completion.ids_K)
        np.testing.assert_array_equal(turn.source, marks)
    np.testing.assert_array_equal(played.ids(), seen)
    assert seen.dtype == np.int32
    assert models.tokenizer().decode(seen).startswith("<|user|>Open the lock: press the key of each colour.")


def test_requests_carry_the_limits_and_a_seed_per_turn():
    policy = Recording(oracle())
    (played,) = play(policy)
    assert [request.turn for request in policy.requests] == [0, 1, 2]
    assert [request.seed for request in policy.requests] == [derive_seed(played.seed, turn) for turn in range(3)]
    assert {request.max_tokens for request in policy.requests} == {models.LIMITS.turn_tokens}
    assert {request.episode for request in policy.requests} == {played.id}
    assert policy.released == [played.id]


def test_sampled_episodes_keep_their_cut_off_turns_exact():
    policy = models.local()
    played = models.play(policy, n_tasks=4)
    cut = 0
    for trajectory in played:
        for turn, following in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            ends_itself = turn.completion.ids_K[-1] == models.chat().eos_id
            assert (following.context_ids[0] == models.chat().eos_id) == (not ends_itself)
            assert following.source[0] == Source.CONTEXT
            cut += not ends_itself
    assert cut > 3


# --- endings ---------------------------------------------------------------------------------------------------------


class Endless(LockEnv):
    def act(self, action):
        return replace(super().act(action), done=False)


class Broken(LockEnv):
    def act(self, action):
        if len(self._right) == 1:
            raise OSError("no disk")
        return super().act(action)


class Killed(LockEnv):
    def act(self, action):
        raise AgentFault("it cut the wire")


class Unmeasured(LockEnv):
    def verify(self):
        raise AgentFault("it left a bomb")


class BrokenStart(LockEnv):
    def start(self, task, rng):
        raise OSError("no disk")


class FaultyStart(LockEnv):
    """Blames the agent before it has acted."""

    def start(self, task, rng):
        raise AgentFault("the page did not answer")


class BrokenVerifier(LockEnv):
    def verify(self):
        raise OSError("no tests")


@pytest.mark.parametrize(
    ("make_env", "limits", "ending", "n_turns", "error"),
    [
        (LockEnv, models.LIMITS, Ending.FINISHED, 3, ""),
        (Endless, models.LIMITS, Ending.MAX_TURNS, 3, ""),
        (Broken, models.LIMITS, Ending.ENV_ERROR, 1, "Broken broke in turn 1"),
        (BrokenStart, models.LIMITS, Ending.ENV_ERROR, 0, "BrokenStart could not start task 'lock/train/0'"),
        (FaultyStart, models.LIMITS, Ending.ENV_ERROR, 0, "could not start task 'lock/train/0': the page did not"),
        (Killed, models.LIMITS, Ending.AGENT_FAULT, 1, ""),
        (Unmeasured, models.LIMITS, Ending.AGENT_FAULT, 3, ""),
        (BrokenVerifier, models.LIMITS, Ending.VERIFIER_ERROR, 2, "the verifier of BrokenVerifier broke"),
        (LockEnv, TokenLimits(turn_tokens=6, context=10), Ending.POLICY_ERROR, 0, "the policy had no turn"),
        (LockEnv, TokenLimits(turn_tokens=6, context=36), Ending.TOKEN_BUDGET, 2, ""),
        (LockEnv, TokenLimits(turn_tokens=6, context=37), Ending.FINISHED, 3, ""),
        (
            LockEnv,
            TokenLimits(turn_tokens=6, context=200, episode_s=0.0),
            Ending.ENV_ERROR,
            0,
            "the policy had no turn",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None) or (value.name if isinstance(value, Ending) else None),
)
def test_every_ending(make_env, limits, ending, n_turns, error):
    policy = Recording(oracle())
    (played,) = play(policy, make_env, limits=limits)
    assert (played.ending, len(played.turns)) == (ending, n_turns)
    assert error in played.error
    assert bool(played.error) == (not ending.usable)
    assert policy.released == [played.id]
    if ending is Ending.AGENT_FAULT:
        assert played.evidence[-1].name == "agent_fault"
        assert LockEnv.turn_spec.rubric.score(played.record()).total == 0.0
    elif ending.usable:  # the verifier spoke, also where the work was cut short
        opened = make_env is not Endless and ending is Ending.FINISHED
        assert played.evidence[-1] == Evidence(name="opened", value=opened or make_env is Endless, by="verifier")
        pressed = " ".join(turn.action.text.removeprefix("press ") for turn in played.turns)
        assert played.answer() == (pressed or None)
        assert RUBRIC.score(played.record()).usable
    else:
        assert played.answer() is None
        assert played.facts_of(None) == ()
        assert not RUBRIC.score(played.record()).usable


class LateVerifier(LockEnv):
    """Measures what was true of the first turn when the episode is over."""

    def verify(self):
        return (Evidence(name="parsed_late", value=True, turn=0), *super().verify())


@pytest.mark.parametrize(
    ("make_env", "limits", "ending", "n_turns"),
    [
        (LateVerifier, models.LIMITS, Ending.FINISHED, 3),
        (LateVerifier, TokenLimits(turn_tokens=6, context=36), Ending.TOKEN_BUDGET, 2),
    ],
)
def test_a_verifiers_fact_about_the_first_turn_stays_there_from_rollout_to_credit(
    tmp_path, make_env, limits, ending, n_turns
):
    (played,) = play(Recording(oracle()), make_env, limits=limits)
    assert (played.ending, len(played.turns)) == (ending, n_turns)
    late = Evidence(name="parsed_late", value=True, turn=0, by="verifier")
    assert played.facts_of(0)[-1] == late
    assert [fact.turn for fact in played.evidence] == [*np.repeat(range(n_turns), 2), None, 0, None]  # the answer first
    scored = RUBRIC.score_group(Group(task=played.task, trajectories=(played,)))
    Store(tmp_path).write(0, [scored])
    (back,) = Store(tmp_path).read(0)
    assert back.trajectories[0].evidence == played.evidence
    for group in (scored, back):
        table, _ = Signals(sources=(EvidenceColumns({"format_N": "parsed_late"}),)).measure([group], tabulate([group]))
        np.testing.assert_array_equal(table.measured["format_N"], [1.0] + [np.nan] * (n_turns - 1))


def test_a_policy_that_fails_ends_its_episode_only():
    lines = {task.id: ["press a"] * 3 for task in models.tasks(3)}
    lines["lock/train/1"] = ["press a"]
    played = play(ScriptedPolicy(by_task(lines), models.chat()), n_tasks=3)
    assert [t.ending for t in played] == [Ending.FINISHED, Ending.POLICY_ERROR, Ending.FINISHED]
    assert played[1].error == "the script of task 'lock/train/1' has no line for turn 1"
    assert [len(t.turns) for t in played] == [3, 1, 3]


def test_the_context_is_never_longer_than_its_limit():
    for context in range(10, 80, 3):
        limits = TokenLimits(turn_tokens=6, context=context)
        for trajectory in models.play(models.local(), n_tasks=3, siblings=1, limits=limits):
            assert len(trajectory.ids()) <= context


def test_what_is_no_episode_error_is_raised_as_it_is():
    class Misused(LockEnv):
        def reset(self, *, seed=None, options=None):
            raise UserError("give a colour") from KeyError("red")

    with pytest.raises(UserError, match="give a colour") as caught:
        play(ScriptedPolicy(oracle(), models.chat()), Misused, n_tasks=3)
    assert isinstance(caught.value.__cause__, KeyError)


# --- guidance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("insert_turn", [0, 1, 2, 7])
def test_guidance_enters_as_context_at_its_turn(insert_turn):
    hint = Guidance(kind="fact", level=1, text="red is <|end|> a", source="task", insert_turn=insert_turn)
    policy = Recording(oracle())
    (guided,), (plain,) = play(policy, guidance=hint), play(Recording(oracle()))
    assert guided.guidance == hint
    for number, (turn, bare) in enumerate(zip(guided.turns, plain.turns, strict=True)):
        assert turn.observation == bare.observation
        assert turn.completion == bare.completion
        assert turn.guidance == (hint if number == insert_turn else None)
        text = models.tokenizer().decode(turn.context_ids)
        assert (f"{bare.observation.text}\nred is <|end|> a<|end|>" in text) == (number == insert_turn)
        if number != insert_turn:
            np.testing.assert_array_equal(turn.context_ids, bare.context_ids)
        hinted = turn.source[: len(turn.context_ids)] == Source.GUIDE
        assert hinted.any() == (number == insert_turn)
        np.testing.assert_array_equal(turn.context_ids[~hinted], bare.context_ids)
        assert models.tokenizer().decode(turn.context_ids[hinted]) == "\nred is <|end|> a" * bool(hinted.any())


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 16])
def test_groups_come_back_in_order_with_ids_of_their_own(size):
    tasks = [LockTasks().task("train", index) for index in (5, 2, 9)]
    hint = Guidance(kind="fact", level=2, text="x", source="task")
    plans = [[None, hint], [None, None, None], [hint]]
    policy = ScriptedPolicy(lambda request: "press a", models.chat())

    async def go(seed):
        async with EnvPool(LockEnv, size=size) as pool:
            return await play_groups(Player(policy, models.chat(), models.LIMITS), pool, tasks, plans, seed=seed)

    groups, other = asyncio.run(go(0xAB)), asyncio.run(go(0xAC))
    assert [group.task for group in groups] == tasks
    assert [[t.guidance for t in group.trajectories] for group in groups] == plans
    assert [t.id for t in groups[0].trajectories] == ["lock/train/5#0@ab", "lock/train/5#1@ab"]
    everyone = [t for group in (*groups, *other) for t in group.trajectories]
    assert len({t.id for t in everyone}) == len({t.seed for t in everyone}) == 12
    for group in groups:
        assert [t.task for t in group.trajectories] == [group.task] * len(group.trajectories)


def test_the_same_seed_plays_the_same_groups():
    assert models.play(models.local(), seed=4) == models.play(models.local(), seed=4)


def test_nothing_to_play_is_no_groups():
    assert play(ScriptedPolicy(oracle(), models.chat()), n_tasks=0) == []


def test_an_id_used_twice_is_refused():
    task = models.tasks(1)[0]
    twins = [Episode(id="same", task=task, seed=seed) for seed in (0, 1)]

    async def go():
        async with EnvPool(LockEnv, size=2) as pool:
            await Player(ScriptedPolicy(oracle(), models.chat()), models.chat(), models.LIMITS).play(pool, twins)

    with pytest.raises(ValueError, match="two episodes have the id 'same'"):
        asyncio.run(go())


def test_no_more_episodes_at_once_than_policy_and_environments_allow():
    class Counting(ScriptedPolicy):
        now = most = 0

        async def complete(self, request):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.001)
            self.now -= 1
            return await super().complete(request)

    for concurrency, size, most in ((2, 8, 2), (8, 3, 3), (8, 8, 5)):
        policy = Counting(lambda request: "press a", models.chat(), concurrency=concurrency)
        assert len(play(policy, n_tasks=5, size=size)) == 5
        assert policy.most == most


def test_an_environment_that_is_lost_is_an_env_error():
    class Lost(LockEnv):
        def act(self, action):
            raise EnvError("the container is gone")

    (played,) = play(ScriptedPolicy(oracle(), models.chat()), Lost)
    assert (played.ending, played.error) == (Ending.ENV_ERROR, "the container is gone")


# --- a model whose template lists tools -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", templates.CALLING)
def test_an_episode_in_the_models_own_notation(family):
    """The template lists the tools, the agent calls them in its tool format, and answers stand in their own frame."""
    chat = Chat(templates.tokenizer(family))
    (task,) = [SqlEnv().tasks.task("train", 0)]
    env = SqlEnv()
    lines = [rewritten(line, env.turn_spec.tools, chat.tool_format) for line in env.oracle(task)]
    player = Player(
        ScriptedPolicy(lambda request: lines[request.turn], chat), chat, TokenLimits(turn_tokens=500, context=50_000)
    )
    episode = Episode(id="e", task=task, seed=0)

    async def scenario():
        async with EnvPool(SqlEnv, size=1) as pool:
            return await player.play(pool, [episode])

    (played,) = asyncio.run(scenario())
    assert played.ending is Ending.FINISHED
    assert SqlEnv.turn_spec.rubric.score(played.record()).outcome == 1.0
    assert [fact.value for fact in played.evidence if fact.name == "parsed"] == [True] * len(lines)
    whole = chat.decode(played.ids())
    assert '"run_sql"' in whole.split(played.turns[0].observation.text)[0]  # listed before the question
    assert "run_sql SQL" not in whole  # and not told twice, in another tool format
    for before, turn in zip(played.turns, played.turns[1:], strict=False):
        answered = chat.frames([tool.schema for tool in SqlEnv.turn_spec.tools]).follow_up(
            turn.observation.text, EndedBy.SCRIPT, answered=before.action.calls[0].name
        )
        np.testing.assert_array_equal(turn.context_ids, answered)
