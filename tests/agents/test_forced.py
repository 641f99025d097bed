"""Episodes in which somebody else takes the first turns, or all of them."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.agents.test_rollout import Recording
from tests.helpers import models
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.trainer.batch.pack import pack
from turngate.trainer.batch.table import tabulate
from turngate.types import Ending, Guidance, Observation, Source

(TASK,) = models.tasks(1)
RIGHT = tuple(LockEnv().oracle(TASK))
PREFIX = Guidance(kind="prefix", level=2, text="", source="oracle")


def play(entries, *, make_env=LockEnv, limits=models.LIMITS, policy=None, seed=3):
    policy = policy if policy is not None else Recording(lambda request: "press a")

    async def go():
        async with EnvPool(make_env, size=4) as pool:
            player = Player(policy, models.chat(), limits)
            (group,) = await play_groups(player, pool, [TASK], [entries], seed=seed)
        return group.trajectories

    return asyncio.run(asyncio.wait_for(go(), 60))


def keys_of(trajectory):
    return tuple(turn.observation.state_key for turn in trajectory.turns[1:])


def test_the_environment_is_given_the_forced_turns_and_the_policy_goes_on():
    policy = Recording(lambda request: "press a")
    (played,) = play([PrefixTurns(turns=RIGHT[:2], guidance=PREFIX)], policy=policy)
    assert [turn.action.text for turn in played.turns] == [*RIGHT[:2], "press a"]
    assert [request.turn for request in policy.requests] == [2]
    assert played.guidance == PREFIX
    assert played.parent is None
    assert all(turn.guidance is None for turn in played.turns)  # no text was inserted
    (alone,) = play([None], policy=Recording(lambda request: [*RIGHT[:2], "press a"][request.turn]))
    np.testing.assert_array_equal(played.ids(), alone.ids())
    assert [fact.value for fact in played.evidence if fact.name == "right_key"][:2] == [True, True]


def test_forced_tokens_are_marked_and_carry_nothing():
    (played,) = play([PrefixTurns(turns=RIGHT[:2], guidance=PREFIX)])
    for number, turn in enumerate(played.turns):
        said = turn.source[len(turn.context_ids) :]
        assert (said == (Source.GUIDE if number < 2 else Source.POLICY)).all()
        assert not turn.completion.logprobs_K.any()
    scored = models.scored([played, replace(played, id="other")], [1.0, 0.0])
    table = tabulate([scored])
    assert np.isnan(table.measured["surprisal_N"]).tolist() == [True, True, False] * 2
    assert table.measured["tokens_N"].tolist()[:2] == [0, 0]
    batch = pack([scored], np.ones(6, np.float32), aggregate="turn")
    trained = batch.policy_weight_L > 0
    assert trained.sum() == 2 * len(played.turns[2].completion.ids_K)
    assert batch.policy_weight_L.sum() == pytest.approx(1)


def test_a_whole_episode_never_asks_the_policy():
    policy = Recording(lambda request: "press a")
    expert = replace(PREFIX, kind="solution", source="expert")
    (played,) = play([PrefixTurns(turns=RIGHT, guidance=expert, whole=True)], policy=policy)
    assert policy.requests == []
    assert played.ending is Ending.FINISHED
    assert played.evidence[-1].value is True


def test_a_whole_episode_that_is_not_over_is_cut_and_verified():
    (played,) = play([PrefixTurns(turns=RIGHT[:2], guidance=PREFIX, whole=True)])
    assert (played.ending, len(played.turns)) == (Ending.MAX_TURNS, 2)
    assert played.evidence[-1].name == "opened"


def test_turns_beyond_the_end_of_the_episode_are_not_taken():
    (played,) = play([PrefixTurns(turns=(*RIGHT, "press a"), guidance=PREFIX)])
    assert (played.ending, len(played.turns)) == (Ending.FINISHED, 3)


def test_a_hint_may_come_with_forced_turns():
    note = Guidance(kind="note", level=1, text="think", source="self", insert_turn=1)
    (played,) = play([PrefixTurns(turns=RIGHT[:1], guidance=note)])
    assert [turn.guidance for turn in played.turns] == [None, note, None]
    assert "think" in models.tokenizer().decode(played.turns[1].context_ids)


def test_state_keys_are_compared_and_a_difference_ends_the_episode():
    (first,) = play([PrefixTurns(turns=RIGHT, guidance=PREFIX)])
    keys = keys_of(first)
    same, other = (PrefixTurns(turns=RIGHT[:2], guidance=PREFIX, keys=(keys[0], key)) for key in (keys[1], "elsewhere"))
    good, bad = play([same, other])
    assert good.ending is Ending.FINISHED
    assert bad.ending is Ending.ENV_ERROR
    assert len(bad.turns) == 2
    assert bad.error == (
        "the environment is not deterministic: after forced turn 1 of 2 by 'oracle' its state key is "
        f"'{keys[1]}', where 'elsewhere' was recorded"
    )


def test_an_environment_that_draws_begins_as_in_the_episode_that_is_played_again():
    class Drawing(LockEnv):
        def start(self, task, rng):
            seen = super().start(task, rng)
            self._drawn = str(rng.integers(1_000_000))
            return Observation(text=seen.text, state_key=f"{seen.state_key} {self._drawn}")

    (first,) = play([None], make_env=Drawing)
    again = PrefixTurns(turns=("press a",), guidance=PREFIX, parent=(first.id, 1), seed=first.seed)
    mine, fresh = play([again, replace(again, seed=None)], make_env=Drawing, seed=4)
    assert mine.turns[0].observation == first.turns[0].observation
    assert fresh.turns[0].observation != first.turns[0].observation
    assert mine.parent == (first.id, 1)
    assert mine.seed != first.seed  # the policy draws other tokens


def test_an_episode_in_which_the_forced_turns_leave_the_policy_no_turn_is_unusable():
    (free,) = play([None])
    room = len(free.turns[0].context_ids) + 4
    long = "press " + "a" * 40
    (played,) = play([PrefixTurns(turns=(long,), guidance=PREFIX)], limits=TokenLimits(turn_tokens=4, context=room))
    assert (played.ending, played.turns) == (Ending.POLICY_ERROR, ())


def test_the_local_policy_feeds_forced_turns_to_its_cache():
    """What follows a prefix is sampled as in an episode whose first turn the policy wrote itself."""
    entry = PrefixTurns(turns=RIGHT[:1], guidance=PREFIX)
    policy = models.local(concurrency=4)
    played = play([entry, None, PrefixTurns(turns=RIGHT, guidance=PREFIX, whole=True)], policy=policy)
    ids = played[0].ids()
    expected = models.naive_logprobs(models.model(), ids)
    place = 0
    for turn in played[0].turns:
        start = place + len(turn.context_ids)
        place += len(turn.source)
        if turn is not played[0].turns[0]:
            np.testing.assert_allclose(turn.completion.logprobs_K, expected[start:place], atol=1e-4)
    assert not any((turn.source == Source.POLICY).any() for turn in played[2].turns)


@pytest.mark.parametrize(("settings", "says"), [({"turns": ()}, "forces nothing"), ({"keys": ("a",)}, "1 keys for 2")])
def test_what_makes_no_sense_is_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        PrefixTurns(**{"turns": RIGHT[:2], "guidance": PREFIX, **settings})


def test_turns_after_forced_ones_can_be_sampled_at_another_temperature():
    note = Guidance(
        kind="correction", level=1, text="Mind the colour.", source="self", insert_turn=1, strip_for_train=True
    )
    policy = Recording(lambda request: "press a")
    play([PrefixTurns(turns=RIGHT[:1], guidance=note, temperature=0.3), None], policy=policy)
    asked = {(request.turn, request.sampling.temperature) for request in policy.requests}
    assert {turn for turn, temperature in asked if temperature == 0.3} == {1, 2}
    assert {turn for turn, temperature in asked if temperature == 1.0} == {0, 1, 2}


@pytest.mark.parametrize("change", [{"strip_for_train": False}, {"text": ""}, {"insert_turn": 2}])
def test_a_temperature_whose_turns_would_be_learned_as_if_at_another_is_refused(change):
    note = Guidance(kind="correction", level=1, text="Mind it.", source="self", insert_turn=1, strip_for_train=True)
    with pytest.raises(ValueError, match=r"temperature 0.3 needs a hint that is stripped for training"):
        PrefixTurns(turns=RIGHT[:1], guidance=replace(note, **change), temperature=0.3)
