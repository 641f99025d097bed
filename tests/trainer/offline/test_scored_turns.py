"""Recorded episodes as the estimators read them: what is measured, left out, and refused by its name."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import models, scores
from turngate.agents.chat import Chat
from turngate.errors import EstimateRefused
from turngate.trainer.offline.scored_turns import scored_turns
from turngate.types import (
    Batch,
    EndedBy,
    FloatArray,
    Guidance,
    Observation,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
)

CHAT = Chat(models.tokenizer())


class Uniform:
    """Gives every sampled token the probability 1/4."""

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        return np.where(batch.policy_weight_L > 0, np.log(0.25), 0).astype(np.float32)

    def entropies(self, batch: Batch) -> FloatArray:
        raise NotImplementedError


def turn(first: bool, text: str, key: str, *, logprob: float = -1.0, source: Source = Source.POLICY) -> Turn:
    context = CHAT.opening("go") if first else CHAT.follow_up("on", EndedBy.STOP)
    ids = CHAT.encode_turn(text)
    plain = scores.turn(text, key=key, ids=ids)
    return replace(
        plain,
        observation=Observation(text="go" if first else "on", state_key=key),
        context_ids=context,
        source=np.array([Source.CONTEXT] * len(context) + [source] * len(ids), np.uint8),
        completion=replace(plain.completion, text=text, logprobs_K=np.full(len(ids), logprob, np.float32)),
    )


def episode(*texts: str, task: str = "t", outcome: float = 1.0, usable: bool = True, **changes):
    turns = changes.pop("turns", None) or [turn(not n, text, f"{task}{n}") for n, text in enumerate(texts)]
    trajectory, score = scores.episode(outcome=outcome, turns=turns, usable=usable)
    asked = Task(id=task, env_id="e", prompt=task)
    return replace(trajectory, id=f"{task}/{'-'.join(texts)}", task=asked, **changes), score


def found(*episodes, **settings):
    groups = [ScoredGroup(task=one.task, trajectories=(one,), scores=(score,)) for one, score in episodes]
    return scored_turns(groups, Uniform(), CHAT, **{"context": None, **settings})


def test_ratios_rewards_states_and_histories_of_every_turn():
    one, other = episode("ab", "c"), episode("ab", "d", outcome=0.0)
    turns = found(one, other, episode("x", task="u"))
    length = [len(step.completion.ids_K) for step in one[0].turns]
    paid = turns.paid
    assert paid.episode_N.tolist() == [0, 0, 1, 1, 2]
    assert paid.log_ratio_N[:2] == pytest.approx([n * (np.log(0.25) + 1) for n in length], rel=1e-6)
    assert paid.policy_logprob_N[:2] == pytest.approx([n * np.log(0.25) for n in length], rel=1e-6)
    assert paid.reward_N.tolist() == turns.success.reward_N.tolist() == [0, 1, 0, 0, 1]
    assert paid.state_N.tolist() == [0, 1, 0, 1, 2]
    assert paid.history_N.tolist() == [0, 1, 0, 1, 0]  # two tasks look alike at their first turn
    assert paid.action_N[0] == paid.action_N[2] != paid.action_N[1] != paid.action_N[3]
    assert paid.task_B.tolist() == [0, 0, 1]


def test_tokens_that_nothing_was_learned_from_were_sampled_all_the_same():
    unlearned = [turn(True, "ab", "s", source=Source.CONTEXT)]
    assert found(episode("ab", turns=unlearned)).paid.log_ratio_N == pytest.approx(
        found(episode("ab")).paid.log_ratio_N
    )


def test_unusable_episodes_are_counted_and_left_out():
    turns = found(episode("a"), episode("b", usable=False), episode("c", turns=[turn(True, "c", "s")]))
    assert (len(turns.paid.task_B), dict(turns.left_out)) == (2, {"unusable": 1})


HINT = Guidance(kind="hint", level=1, text="x", source="dataset")
GUIDED, BRANCHED = episode("b", guidance=HINT), episode("c", parent=("t/a", 1))


def test_guided_and_branched_episodes_are_left_out_on_demand():
    turns = found(episode("a"), GUIDED, BRANCHED, leave_out=["guided", "branched"])
    assert (len(turns.paid.task_B), dict(turns.left_out)) == (1, {"guided": 1, "branched": 1})


def without_logprobs() -> Trajectory:
    plain = scores.turn("hello", ids=())
    return episode("a", turns=[replace(plain, completion=replace(plain.completion, text="hello"))])


def given() -> Trajectory:
    plain = turn(True, "a", "s")
    return episode("a", turns=[replace(plain, completion=replace(plain.completion, ended_by=EndedBy.SCRIPT))])


def other_text() -> Trajectory:
    plain = turn(True, "a", "s")
    return episode("a", turns=[replace(plain, observation=Observation(text="gone"))])


def other_tokens() -> Trajectory:
    plain = turn(True, "a", "s")
    return episode("a", turns=[replace(plain, completion=replace(plain.completion, text="b"))])


@pytest.mark.parametrize(
    ("played", "reason"),
    [
        (GUIDED, r"'t/b' had help \(hint\) that the policy is not shown; .*--leave-out guided"),
        (BRANCHED, "'t/c' branched off another episode, so the two are not independent; .*--leave-out branched"),
        (without_logprobs(), "turn 0 of 't/a' has no log-probabilities"),
        (given(), "was given, not sampled"),
        (
            episode("a", turns=[turn(True, "a", "s", logprob=float("nan"))]),
            "ids that were sampled and no log-probabilities",
        ),
        (episode("a", turns=[turn(True, "a", "s", logprob=float("inf"))]), "log-probability that is not finite"),
        (other_text(), "would be shown another text"),
        (other_tokens(), "reads otherwise with the policy's tokenizer"),
        (episode("a", usable=False), "no episode is left to judge by: 1 unusable"),
    ],
)
def test_what_no_ratio_can_be_had_of_is_refused_by_name(played, reason: str):
    with pytest.raises(EstimateRefused, match=reason):
        found(played)


def test_an_episode_longer_than_the_model_is_refused():
    with pytest.raises(EstimateRefused, match="the policy has positions for 3"):
        found(episode("a"), context=3)
