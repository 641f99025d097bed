"""Learning without the hint: what is deleted, and the ratio of two contexts, from a rollout to the loss."""

import asyncio
from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from tests.helpers.rounding import PASS
from turngate.agents.chat import n_shared
from turngate.agents.rollout import play_groups
from turngate.envs.pool.pool import EnvPool
from turngate.errors import MismatchError
from turngate.trainer.batch.contexts import Origin, origins, without_hint
from turngate.trainer.batch.pack import pack
from turngate.trainer.checks.canary import UpdateKl, check_agreement
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.shaping import Shaped
from turngate.types import Guidance, Source

HINT = Guidance(kind="fact", level=1, text="red is a", source="env", insert_turn=1, strip_for_train=True)


def played(*plan, seed=1):
    """Episodes of one lock, by the tiny policy, with one entry of the plan each."""

    async def go():
        async with EnvPool(models.LockEnv, size=5) as pool:
            who = models.player(models.local(), temperature=0.9)
            return await play_groups(who, pool, models.tasks(1), [list(plan)], seed=seed)

    (group,) = asyncio.run(asyncio.wait_for(go(), 60))
    return list(group.trajectories)


def batch_of(trajectories, advantage=1.0, **settings):
    credit = np.full(sum(len(one.turns) for one in trajectories), advantage, np.float32)
    return pack([models.scored(list(map(without_hint, trajectories)))], credit, **settings)


@given(st.text(max_size=20), st.text(min_size=1, max_size=20), st.booleans())
def test_without_the_tokens_of_the_hint_the_context_is_the_bare_one(text, hint, first):
    frames = models.chat().frames(())
    frame = frames.opening if first else lambda text, **more: frames.follow_up(text, models.EndedBy.STOP, **more)
    bare, hinted = frame(text), frame(text, hint=hint)
    place, n = n_shared(bare.tolist(), hinted.tolist()), len(hinted) - len(bare)
    assert np.delete(hinted, np.s_[place : place + n]).tolist() == bare.tolist()


@pytest.mark.parametrize("insert_turn", [0, 1, 2])
def test_the_ratio_is_that_of_brute_force_forward_passes_under_both_contexts(insert_turn):
    """Turn by turn: 1 before the hint, and after it π(bare)/μ(hinted), also where the hint is only in the history."""
    (trajectory,) = played(replace(HINT, insert_turn=insert_turn))
    bare, model = without_hint(trajectory), models.model()
    batch, learner = batch_of([trajectory]), models.learner(temperature=0.9)
    ratio_L = np.exp(learner.logprobs(batch) - batch.logprob_L)
    hinted_L, bare_L = (models.naive_logprobs(model, one.ids(), 0.9) for one in (trajectory, bare))
    at, bare_at = 0, 0
    for number, (hinted_turn, bare_turn) in enumerate(zip(trajectory.turns, bare.turns, strict=True)):
        at, bare_at = at + len(hinted_turn.context_ids), bare_at + len(bare_turn.context_ids)
        n = len(bare_turn.completion.ids_K)
        expected = np.exp(bare_L[bare_at : bare_at + n] - hinted_L[at : at + n])
        np.testing.assert_allclose(ratio_L[bare_at : bare_at + n], expected, rtol=1e-4)
        assert (np.abs(expected - 1) > 1e-3).any() == (number >= insert_turn)
        said = batch.origin_L[bare_at : bare_at + n]
        assert (said == (Origin.HINTED if number >= insert_turn else Origin.OWN)).all()
        at, bare_at = at + n, bare_at + n


def test_the_loss_is_the_sum_over_turns_of_brute_force():
    trajectories = played(HINT, None)
    batch, learner = batch_of(trajectories, 0.5), models.learner(temperature=0.9)
    metrics = learner.forward_backward(batch, PolicyLoss(guided=Shaped(gamma=0.1)))
    total, hinted, n = 0.0, 0.0, 0
    for one in trajectories:
        bare = without_hint(one)
        logprob = models.naive_logprobs(models.model(), bare.ids(), 0.9)
        place = 0
        for number, turn in enumerate(bare.turns):
            place += len(turn.context_ids)
            for sampled in turn.completion.logprobs_K:
                u = np.exp(logprob[place] - sampled)
                if one.guidance is not None and number >= 1:
                    hinted += 0.5 * u / (u + 0.1)
                else:
                    total += 0.5 * u
                place, n = place + 1, n + 1
    assert metrics["loss/hinted"] == pytest.approx(-hinted / n, rel=1e-4)
    assert metrics["loss/policy"] == pytest.approx(-(total + hinted) / n, rel=1e-4)
    assert 0 < metrics["policy/hinted_share"] < 1


def test_an_empty_hint_is_no_hint():
    """Ratio exactly 1 at the first update and the plain loss; normalised shaping has the same value anyway."""
    empty, plain = batch_of(played(replace(HINT, text=""))), batch_of(played(None))
    for name in plain.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(empty, name), getattr(plain, name))
    exact = models.learner(temperature=0.9)
    on_policy = replace(plain, logprob_L=exact.logprobs(plain))
    as_hinted = replace(on_policy, origin_L=np.where(plain.policy_weight_L > 0, Origin.HINTED, 0).astype(np.uint8))
    loss = PolicyLoss(guided=Shaped(gamma=0.1, normalised=True))
    values = [exact.forward_backward(one, loss)["loss/policy"] for one in (on_policy, as_hinted)]
    assert values[0] == pytest.approx(-1)
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_a_hint_that_is_not_stripped_stays():
    kept = replace(HINT, strip_for_train=False)
    (trajectory,) = played(kept)
    assert without_hint(trajectory) is trajectory
    assert not batch_of([trajectory]).origin_L.any()


def test_canaries_skip_what_was_written_in_another_context():
    learner = models.learner(temperature=0.9)
    guided, plain = batch_of(played(replace(HINT, insert_turn=0))), batch_of(played(replace(HINT, insert_turn=2), None))
    guided, wrong = (replace(batch, logprob_L=batch.logprob_L + np.float32(0.1)) for batch in (guided, plain))
    assert check_agreement(guided, learner, tolerance=1e-9) == {}, "nothing in it can be compared"
    assert UpdateKl(guided, learner).check({}, limit=1.0) == {}
    with pytest.raises(MismatchError):
        check_agreement(wrong, learner, tolerance=1e-4)
    assert UpdateKl(plain, learner).check({}, limit=1e-6) == {"learner/update_kl_nats": 0}


def test_an_experts_turns_are_trained_only_when_asked():
    expert = Guidance(kind="expert", level=1, text="", source="expert", joins=True)
    said = [Source.CONTEXT, Source.CONTEXT, Source.GUIDE, Source.GUIDE]
    row = replace(models.trajectory([models.turn([5, 6], [7, 8], source=said)]), guidance=expert)
    own = models.trajectory([models.turn([5, 6], [7, 8], logprobs=[-1, -1])], name="own")
    assert [one.tolist() for one in origins(row)] == [[0, 0, Origin.EXPERT, Origin.EXPERT]]
    quiet, trained = batch_of([row, own]), batch_of([row, own], experts=True)
    assert quiet.policy_weight_L.tolist() == [0, 0, 0, 0, 0, 0, 0.5, 0.5]
    assert trained.policy_weight_L.tolist() == [0, 0, 0.25, 0.25, 0, 0, 0.25, 0.25]
    assert trained.advantage_L[2] == 1
    learner = models.learner()
    metrics = learner.forward_backward(trained, PolicyLoss(experts=Shaped()))
    u = np.exp(models.naive_logprobs(models.model(), [5, 6, 7, 8])[2:])
    assert metrics["loss/expert"] == pytest.approx(-0.25 * (u / (u + 0.1)).sum(), rel=PASS)
    assert np.isfinite(log(metrics["policy/expert_share"]))
