"""Questions after recorded turns: which tokens the policy sees, what it samples from, and what it leaves as it is."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.probing import Probe, ids_after, probe
from turngate.agents.rollout import TokenLimits
from turngate.errors import PolicyError, ShapeError
from turngate.types import Request

END = models.chat().eos_id


def episode(name="t"):
    """Three turns: the first was cut off, the others ended by themselves."""
    turns = [models.turn([10, 11], [12, 13]), models.turn([END, 14], [15, END]), models.turn([16], [17, 18, END])]
    return models.trajectory(turns, name=name)


def ask(policy, asks, *, seed=3, limits=models.LIMITS):
    async def go():
        return await probe(models.player(policy, limits=limits), asks, seed=seed)

    return asyncio.run(asyncio.wait_for(go(), 60))


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "reply", "words", "expected"),
    [
        (0, False, True, [10, 11, 12, 13]),  # a turn that was cut off goes on
        (0, True, True, [10, 11, 12, 13, END, 14]),
        (1, False, True, [10, 11, 12, 13, END, 14, 15]),  # the end-of-turn token is left out
        (1, True, True, [10, 11, 12, 13, END, 14, 15, END, 16]),
        (2, False, True, [10, 11, 12, 13, END, 14, 15, END, 16, 17, 18]),
        (2, True, True, [10, 11, 12, 13, END, 14, 15, END, 16, 17, 18]),  # nobody recorded the last reply
        (0, False, False, [10, 11]),
        (0, True, False, [10, 11, END, 14]),
        (1, True, False, [10, 11, END, 14, END, 16]),
        (2, True, False, [10, 11, END, 14, END, 16]),
    ],
)
def test_the_tokens_after_a_turn(turn, reply, words, expected):
    ids = ids_after(episode(), turn, models.chat(), reply=reply, words=words)
    assert ids.tolist() == expected
    assert ids.dtype == np.int32


@given(st.integers(0, 2**20), st.booleans())
@settings(max_examples=30)
def test_what_the_policy_sees_begins_as_the_recorded_episode_does(seed, reply):
    (one,) = models.random_trajectories(np.random.default_rng(seed), n=1)
    whole = one.ids()
    for turn in range(len(one.turns)):
        ids = ids_after(one, turn, models.chat(), reply=reply)
        assert ids.tolist() == whole[: len(ids)].tolist()
        spoken = sum(len(t.source) for t in one.turns[: turn + 1])
        last = turn + 1 == len(one.turns)
        assert len(ids) == spoken + (len(one.turns[turn + 1].context_ids) if reply and not last else 0) - (
            (last or not reply) and whole[spoken - 1] == END
        )


@pytest.mark.parametrize("turn", [-1, 3])
def test_a_turn_that_is_not_there(turn):
    with pytest.raises(ShapeError, match=f"'t' has 3 turns, counted from 0; there is no turn {turn}"):
        ids_after(episode(), turn, models.chat())


# --- sampling --------------------------------------------------------------------------------------------------------


def test_answers_are_sampled_after_the_words_that_were_put_into_the_mouth():
    one, chat = episode(), models.chat()
    asks = [
        Probe(trajectory=one, turn=0, text="press ", n=3, max_tokens=4, temperature=0.6),
        Probe(trajectory=one, turn=2, text="click", n=2, max_tokens=2, temperature=1.5, reply=False),
    ]
    answers = ask(models.local(), asks)
    assert [len(answer) for answer in answers] == [3, 2]
    for question, said in zip(asks, answers, strict=True):
        before = ids_after(one, question.turn, chat, reply=question.reply).tolist()
        before += chat.encode_turn(question.text)[:-1].tolist()
        for completion in said:
            ids = before + completion.ids_K.tolist()
            expected = models.naive_logprobs(models.model(), ids, question.temperature)[len(before) :]
            np.testing.assert_allclose(completion.logprobs_K, expected, atol=1e-4)
            assert 1 <= len(completion.ids_K) <= question.max_tokens
    assert len({completion.text for completion in answers[0]}) > 1
    assert one == episode()


def test_an_answer_depends_on_seed_trajectory_turn_and_sample_alone():
    asks = [Probe(trajectory=episode(name), turn=turn, text="press", n=2) for name in "ab" for turn in range(3)]

    def said(policy, questions, **how):  # tokens: the last bits of logits depend on who shares a batch
        return [[one.ids_K.tolist() for one in answer] for answer in ask(policy, questions, **how)]

    answers = said(models.local(), asks)
    assert said(models.local(concurrency=2, order="ready"), asks[::-1])[::-1] == answers
    assert said(models.local(concurrency=1), asks[3:4]) == answers[3:4]
    assert said(models.local(), asks, seed=4) != answers
    assert answers[0] != answers[3]
    assert ask(models.local(), asks) == ask(models.local(), asks)


def test_a_live_episode_goes_on_as_if_nobody_had_asked():
    chat, asks = models.chat(), [Probe(trajectory=episode(), turn=turn, text="press") for turn in range(3)]

    def request(ids, turn):
        return Request(episode="live", task_id="task", ids=ids, turn=turn, seed=turn, max_tokens=6)

    async def play(questions):
        policy, opening = models.local(concurrency=6), chat.opening("Open the lock")
        async with policy.slot():
            first = await policy.complete(request(opening, 0))
        if questions:
            await probe(models.player(policy), questions, seed=1)
        (row,) = policy._rows
        assert (row.episode, row.fed.tolist()) == ("live", [*opening, *first.ids_K[:-1]])
        ids = np.concatenate([opening, first.ids_K, chat.follow_up("click red", first.ended_by)])
        async with policy.slot():
            second = await policy.complete(request(ids, 1))
        policy.release("live")
        assert not policy._rows
        return first, second

    asked, unasked = (asyncio.run(asyncio.wait_for(play(questions), 60)) for questions in (asks, []))
    assert asked == unasked


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_two_calls_at_once_share_the_lanes(order):
    """As when two groups are examined side by side; each alone would take all of them."""
    calls = [[Probe(trajectory=episode(name), turn=turn, text="press", n=3) for turn in range(3)] for name in "ab"]
    player = models.player(models.local(concurrency=4, order=order))

    async def go():
        return await asyncio.gather(*(probe(player, asks, seed=1) for asks in calls))

    both = asyncio.run(asyncio.wait_for(go(), 60))
    assert [[len(said) for said in one] for one in both] == [[3, 3, 3]] * 2


# --- what cannot be had ----------------------------------------------------------------------------------------------


def test_a_question_that_does_not_fit_has_no_answer():
    room = len(ids_after(episode(), 0, models.chat())) + 7  # for ten tokens of answer only after the shortest
    asks = [Probe(trajectory=episode(), turn=turn, text="", n=2, max_tokens=7) for turn in range(3)]
    answers = ask(models.local(), asks, limits=TokenLimits(turn_tokens=1, context=room))
    assert [len(answer) for answer in answers] == [2, 0, 0]
    assert ask(models.local(), []) == []


class Moody(ScriptedPolicy):
    """Fails at every second request."""

    n = 0

    async def complete(self, request):
        self.n += 1
        if self.n % 2:
            raise PolicyError("not in the mood")
        return await super().complete(request)


def test_a_sample_that_failed_is_left_out(caplog):
    policy = Moody(lambda request: "red", models.chat(), concurrency=1)
    (answer,) = ask(policy, [Probe(trajectory=episode(), turn=1, text="press", n=5)])
    assert [completion.text for completion in answer] == ["red", "red"]
    assert caplog.text.count("not in the mood") == 3


def test_another_error_is_raised_as_it_is():
    def broken(request):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        ask(ScriptedPolicy(broken, models.chat()), [Probe(trajectory=episode(), turn=1, text="press")])
