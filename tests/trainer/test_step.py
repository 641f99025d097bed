"""One training step, whole: a tiny model, real environments, and every stage in its place."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.run_metrics import MEASURED
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Player
from turngate.envs.lock import RUBRIC, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import AgentFault, MismatchError, RunError
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.filters.parts import varied
from turngate.trainer.guidance.base import Guide, NoGuide
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.run import Run
from turngate.trainer.step import summarize, train_step
from turngate.types import Ending, Guidance, RewardEvent, Score, ScoredGroup, derive_seed


class Recorder:
    def __init__(self):
        self.written = []

    def write(self, step, scored):
        self.written.append((step, scored))

    def write_credit(self, step, found):
        pass


class HelpsTwo(Guide):
    """Helps the first two siblings, and writes down what it sees."""

    def __init__(self):
        self.seen = []

    def plan(self, task, group_size):
        hint = Guidance(kind="fact", level=1, text="red is a", source="task")
        return Plan(entries=[hint] * 2 + [None] * (group_size - 2))

    def observe(self, groups):
        self.seen.append(groups)

    def metrics(self):
        return {"guide/level": 1.0}


def by_tokens(group, step=0):
    """Pays the mean id of the sampled tokens: a reward in which random siblings differ."""

    def score(trajectory):
        value = float(np.concatenate([np.zeros(1), *(turn.completion.ids_K for turn in trajectory.turns)]).mean())
        event = RewardEvent(name="ids", kind="outcome", turn=None, value=value, weight=1.0)
        reward_T = np.zeros(len(trajectory.turns), np.float32)
        reward_T[-1:] = value
        return Score(ledger=(event,), reward_T=reward_T, outcome=value, usable=trajectory.ending.usable)

    return ScoredGroup(task=group.task, trajectories=group.trajectories, scores=tuple(map(score, group.trajectories)))


def steps(n=1, *, make_env=LockEnv, n_tasks=3, prepare=lambda run: run, **changes):
    """Run ``n`` steps; the run and the metrics of each."""
    policy = LocalPolicy(models.model(), models.chat(), concurrency=6)
    settings = {
        "player": models.player(policy, temperature=0.9),
        "score": by_tokens,
        "guide": NoGuide(),
        "credit": rloo,
        "filters": {"varied": varied},
        "learner": models.learner(temperature=0.9),
        "loss": PolicyLoss(),
        "store": Recorder(),
        "group_size": 4,
        "minibatches": 1,
        "aggregate": "token",
        "tolerance": 1e-4,
        "seed": 0,
    }

    async def go():
        async with EnvPool(make_env, size=6) as pool:
            run = prepare(Run(worlds=pool, **(settings | changes)))
            return run, [await train_step(run, models.tasks(n_tasks), step) for step in range(1, n + 1)]

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_a_step_plays_learns_publishes_and_records():
    before = {name: weight.clone() for name, weight in models.model().named_parameters()}
    run, (metrics,) = steps()
    after = run.learner.weights()
    assert any(not torch.equal(before[name], weight) for name, weight in after.items())
    for name, weight in run.policy._model.named_parameters():
        assert torch.equal(weight, after[name])
    ((step, groups),) = run.store.written
    assert step == 1
    assert [group.task for group in groups] == models.tasks(3)
    assert [len(group.trajectories) for group in groups] == [4, 4, 4]
    assert metrics["policy/version"] == run.policy.version == 1
    assert metrics["train/turns"] == 3
    assert metrics["train/finished_share"] == 1
    assert metrics["train/unusable_share"] == 0
    assert metrics["drop/not_varied_groups"] == 0
    assert metrics["learner/grad_norm"] > 0
    everyone = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    assert metrics["train/paid"] == pytest.approx(np.mean([score.total for _, score in everyone]))
    assert metrics["train/sampled_tokens"] == sum(len(turn.completion.ids_K) for t, _ in everyone for turn in t.turns)
    assert metrics["policy/kl_to_sampler_nats"] == pytest.approx(0, abs=1e-6)  # one step: still on-policy
    assert metrics["policy/clipped_share"] == 0
    assert 0 <= metrics["canary/max_logprob_difference"] < 1e-4
    assert {name for name in metrics if name.startswith("time/")} == {
        f"time/{stage}_s" for stage in ("collect", "reward", "credit", "learn", "publish", "record")
    }
    assert metrics["busy/env_s"] > 0
    now_kib = next(
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    assert metrics["memory/process_gb"] >= 0.9 * now_kib * 1024 / 1e9  # of the whole life of the process
    assert all(isinstance(value, float | int) for value in metrics.values())


def test_the_gradient_is_that_of_the_credit_rule():
    """With credit that is zero everywhere the weights stay; with the opposite sign the step turns around."""
    start = {name: weight.clone() for name, weight in models.model().named_parameters()}

    def moved(credit):
        run, _ = steps(credit=credit)
        return torch.cat([(weight - start[name]).flatten() for name, weight in run.learner.weights().items()])

    assert not moved(lambda table: np.zeros(table.n_turns, np.float32)).any()
    there, back = moved(rloo), moved(lambda table: -rloo(table))
    assert torch.nn.functional.cosine_similarity(there, back, dim=0) < -0.9


def test_the_next_step_plays_with_the_new_weights_and_other_seeds():
    run, metrics = steps(2)
    first, second = (groups for _, groups in run.store.written)
    versions = [
        {turn.completion.policy_version for group in groups for t in group.trajectories for turn in t.turns}
        for groups in (first, second)
    ]
    assert versions == [{0}, {1}]
    assert metrics[1]["policy/version"] == 2
    seeds = [t.seed for groups in (first, second) for group in groups for t in group.trajectories]
    assert len(set(seeds)) == 24
    assert run.seed_at(2) == derive_seed(0, "step", 2)


def test_the_same_run_twice_is_the_same_bit_for_bit():
    (one, first), (other, second) = steps(2, minibatches=2), steps(2, minibatches=2)
    for name, weight in one.learner.weights().items():
        assert torch.equal(weight, other.learner.weights()[name])
    for mine, yours in zip(first, second, strict=True):
        assert {k: v for k, v in mine.items() if not k.startswith(MEASURED)} == {
            k: v for k, v in yours.items() if not k.startswith(MEASURED)
        }
    trajectories = [
        [t for _, groups in run.store.written for g in groups for t in g.trajectories] for run in (one, other)
    ]
    assert trajectories[0] == trajectories[1]


def test_minibatches_are_steps_of_their_own():
    whole, (one,) = steps()
    parts, (several,) = steps(minibatches=3)
    assert whole.learner._optimizer.state_dict()["state"][0]["step"] == 1
    assert parts.learner._optimizer.state_dict()["state"][0]["step"] == 3
    assert several["policy/kl_to_sampler_nats"] > one["policy/kl_to_sampler_nats"]


def test_groups_without_differences_are_dropped_and_recorded():
    """A model that knows nothing never opens the lock, so by the lock's own rubric all siblings are alike."""
    before = {name: weight.clone() for name, weight in models.model().named_parameters()}
    run, (metrics,) = steps(score=RUBRIC.score_group)
    assert metrics["train/success"] == 0
    assert metrics["drop/not_varied_groups"] == 3
    assert all(torch.equal(before[name], weight) for name, weight in run.learner.weights().items())
    assert "policy/version" not in metrics
    assert [step for step, _ in run.store.written] == [1]


def test_the_rubric_is_told_the_step_because_some_gates_are_annealed():
    told = []

    def score(group, step):
        told.append(step)
        return by_tokens(group)

    steps(score=score)
    assert set(told) == {1}


def test_one_dropped_group_leaves_the_others():
    task = models.tasks(3)[1]

    def score(group, step):
        scored = by_tokens(group)
        return replace(scored, scores=(scored.scores[0],) * 4) if group.task == task else scored

    _, (metrics,) = steps(score=score)
    assert metrics["drop/not_varied_groups"] == 1
    assert metrics["policy/version"] == 1


def test_a_step_of_which_nothing_can_be_used_stops_the_run():
    class Broken(LockEnv):
        def act(self, action):
            raise OSError("no disk")

    with pytest.raises(RunError, match=r"none of 12 episodes .* Broken broke in turn 0: OSError: no disk"):
        steps(make_env=Broken)


def test_unusable_episodes_are_counted_and_not_averaged_in():
    class Fragile(LockEnv):
        def act(self, action):
            if self._episode.task.id == "lock/train/1" and len(self._right) == 1:
                raise OSError("no disk")
            return super().act(action)

    run, (metrics,) = steps(make_env=Fragile)
    assert metrics["train/unusable_share"] == pytest.approx(1 / 3)
    assert metrics["train/success_of_all"] == pytest.approx(metrics["train/success"] * 2 / 3)
    assert metrics["train/agent_fault_share"] == 0
    assert metrics["train/turns"] == 3
    assert (metrics["drop/unusable_trajectories"], metrics["drop/unusable_groups"]) == (4, 1)
    assert [t.ending for t in run.store.written[0][1][1].trajectories] == [Ending.ENV_ERROR] * 4


def test_episodes_that_the_agent_broke_are_failures_and_counted_apart():
    class Fragile(LockEnv):
        def act(self, action):
            if self._episode.task.id == "lock/train/1" and len(self._right) == 1:
                raise AgentFault("it bent the key")
            return super().act(action)

    run, (metrics,) = steps(make_env=Fragile)
    assert metrics["train/agent_fault_share"] == pytest.approx(1 / 3)
    assert metrics["train/unusable_share"] == 0
    assert metrics["train/success_of_all"] == metrics["train/success"]
    assert [t.ending for t in run.store.written[0][1][1].trajectories] == [Ending.AGENT_FAULT] * 4


def test_a_step_without_room_for_any_turn_stops_the_run():
    def tight(run):
        run.player.limits = models.TokenLimits(turn_tokens=6, context=10)
        return run

    with pytest.raises(RunError, match=r"none of 12 episodes .* the policy had no turn: .* raise policy.context"):
        steps(prepare=tight, score=RUBRIC.score_group)


def test_an_episode_without_room_for_a_turn_counts_in_the_baseline_of_its_siblings():
    """One of four siblings has no room: rewards 1, 0, 0 and its 0 have the mean ¼, so the credits are ¾ and −¼."""
    credits = []

    class OneTight(Player):
        async def play(self, worlds, episodes, **heard):
            self.limits = models.TokenLimits(turn_tokens=6, context=10)
            first = await super().play(worlds, episodes[:1], **heard)
            self.limits = models.LIMITS
            return first + await super().play(worlds, episodes[1:], **heard)

    def tight(run):
        player = run.player
        return replace(run, player=OneTight(player.policy, player.chat, player.limits, sampling=player.sampling))

    def score(group, step=0):
        scores = tuple(
            Score(
                ledger=(RewardEvent(name="o", kind="outcome", turn=None, value=outcome, weight=1.0),),
                reward_T=np.array([0.0] * (len(one.turns) - 1) + [outcome], np.float32)[: len(one.turns)],
                outcome=outcome,
                usable=True,
            )
            for one, outcome in zip(group.trajectories, [0.0, 1.0, 0.0, 0.0], strict=True)
        )
        return ScoredGroup(task=group.task, trajectories=group.trajectories, scores=scores)

    def credit(table):
        credits.append(dr_grpo(table))
        return credits[-1]

    run, (metrics,) = steps(n_tasks=1, prepare=tight, score=score, credit=credit)
    ((_, (group,)),) = run.store.written
    assert [len(one.turns) for one in group.trajectories] == [0, 3, 3, 3]
    assert credits[0].tolist() == [0.75] * 3 + [-0.25] * 6
    assert metrics["drop/unusable_trajectories"] == metrics["drop/empty_trajectories"] == 0
    assert metrics["policy/version"] == 1


def test_a_sampler_with_other_weights_is_found_before_anything_is_learned():
    learner = models.learner(models.model(5), temperature=0.9)
    before = {name: weight.clone() for name, weight in learner.weights().items()}
    with pytest.raises(MismatchError, match="differ at turn 0"):
        steps(learner=learner)
    assert all(torch.equal(before[name], weight) for name, weight in learner.weights().items())


def test_a_publish_that_does_nothing_stops_the_run():
    async def nothing(weights, version):
        pass

    def deaf(run):
        run.policy.publish = nothing
        return run

    with pytest.raises(MismatchError, match="differ at turn 0"):
        steps(prepare=deaf)


def test_the_guide_plans_and_observes_and_help_makes_a_cohort_of_its_own():
    guide, cohorts = HelpsTwo(), []

    def credit(table):
        cohorts.append(table.cohort_B.tolist())
        return rloo(table)

    run, (metrics,) = steps(guide=guide, credit=credit)
    (groups,) = guide.seen
    assert groups == run.store.written[0][1]
    assert [t.guidance is not None for t in groups[0].trajectories] == [True, True, False, False]
    assert metrics["guide/level"] == 1
    assert cohorts == [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]]


def test_a_summary_of_nothing_is_refused():
    with pytest.raises(RunError, match=r"none of 0 episodes of this step can be used; .* no episode was played"):
        summarize([])


CUT = {"top_p": 0.9, "top_k": 20}


def test_a_sampler_that_cuts_its_distribution_trains_with_a_learner_that_cuts_it_alike():
    taught = models.learner(temperature=0.9, **CUT)
    run, found = steps(2, player=models.player(models.local(concurrency=6), temperature=0.9, **CUT), learner=taught)
    for metrics in found:
        assert 0 <= metrics["canary/max_logprob_difference"] < 1e-4
        assert metrics["canary/borderline_tokens"] == 0
        assert metrics["policy/outside_support_share"] == pytest.approx(0, abs=1e-6)
        assert metrics["policy/kl_to_sampler_nats"] == pytest.approx(0, abs=1e-6)
    assert run.policy.version == 2


def test_without_the_renormalisation_in_the_learner_the_first_step_is_stopped_before_anything_is_learned():
    taught = models.learner(temperature=0.9)
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    with pytest.raises(MismatchError, match="differ at turn 0"):
        steps(player=models.player(models.local(concurrency=6), temperature=0.9, **CUT), learner=taught)
    assert all(torch.equal(before[name], weight) for name, weight in taught.weights().items())
