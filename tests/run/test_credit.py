"""Every credit rule that a config can name trains on Lock-v1, or its refusal says what is missing.

Everything is made by ``turngate.build``, as a run makes it; only the reward is another, because a model that knows
nothing never opens the lock: a coin that hangs on what was said pays the episode, and each turn.
"""

import asyncio
import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.credit_rules import CREDITS, TOKEN_CREDITS
from tests.helpers.run_metrics import MEASURED
from turngate.agents import tiny
from turngate.config.run_config import parse
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import ConfigError
from turngate.run.assembly.credit import answer_of, needs_reference, own_rule, rule_of, signals_of, trains_reward_model
from turngate.run.assembly.learners import learner_of, reference_of, reward_model_of
from turngate.run.environments import Environments
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.run import Run
from turngate.trainer.step import train_step
from turngate.types import RewardEvent, Score, ScoredGroup, TurnTable

BASE = {
    "model": "tiny",
    "env": {"id": "turngate/Lock-v1"},
    "policy": {"turn_tokens": 3, "context": 120, "concurrency": 8},
    "learner": {"lr": 1e-3},
    "train": {"tasks_per_step": 2, "group_size": 4, "filters": []},
}


def config_of(**changes):
    return parse({**BASE, **changes})


def start():
    return tiny.random_model(models.tokenizer(), layers=1, width=16, heads=2, context=128, seed=0)


def coins(group, step=0):
    """A turn pays 0.1 if its tokens sum to an even number; the episode 0.7 if an even number of turns do."""

    def score(trajectory):
        even = [int(turn.completion.ids_K.sum()) % 2 == 0 for turn in trajectory.turns]
        won = float(sum(even) % 2 == 0)
        last = len(even) - 1
        ledger = [RewardEvent(name="won", kind="outcome", turn=last, value=won, weight=0.7)]
        ledger += [
            RewardEvent(name="even", kind="process", turn=turn, value=float(one), weight=0.1)
            for turn, one in enumerate(even)
        ]
        reward_T = 0.1 * np.array(even, np.float32)
        reward_T[-1] += 0.7 * won
        return Score(
            ledger=tuple(ledger),
            reward_T=reward_T,
            outcome=0.7 * won,
            usable=trajectory.ending.usable,
            success=bool(won),
        )

    return ScoredGroup(task=group.task, trajectories=group.trajectories, scores=tuple(map(score, group.trajectories)))


RULES = {**CREDITS, **TOKEN_CREDITS}


class Forget:
    def write(self, step, scored):
        pass

    def write_credit(self, step, found):
        pass


def build_run(config, worlds, control=None):
    chat, model = models.chat(), start()
    learner = learner_of(config, model)
    reference = reference_of(config, copy.deepcopy(model)) if needs_reference(config) else None
    along = reward_model_of(config, copy.deepcopy(model)) if trains_reward_model(config) else None
    with Environments(config.env) as environments:
        signals = signals_of(
            config,
            control=control,
            learner=learner,
            reward_model=along,
            reference=reference,
            chat=chat,
            answer=answer_of(config, environments),
        )
    return Run(
        player=config.policy.player(copy.deepcopy(model), chat),
        worlds=worlds,
        score=coins,
        guide=NoGuide(),
        credit=rule_of(config, control),
        filters=config.train.filters_by_name,
        learner=learner,
        loss=config.loss.policy_loss(config.seed),
        store=Forget(),
        group_size=config.train.group_size,
        minibatches=config.train.minibatches,
        aggregate=config.loss.aggregate,
        tolerance=1e-4,
        seed=config.seed,
        reference=reference,
        signals=signals,
    )


def trained(config, *, control=None, checkpoints=None, stop_after=None, steps=2):
    """The run after ``steps`` updates and their metrics; killed and resumed after ``stop_after`` if that is given."""

    async def go():
        async with EnvPool(LockEnv, size=config.policy.concurrency) as worlds:
            run, found = build_run(config, worlds, control), []
            for step in range(1, steps + 1):
                found.append(await train_step(run, models.tasks(2), step))
                if step == stop_after:
                    checkpoints.save(step, run.learner, run.signals.learners)
                    run = build_run(config, worlds, control)
                    checkpoints.load(step, run.learner, run.signals.learners)
                    await run.policy.publish(run.learner.weights(), step)
            return run, found

    return asyncio.run(asyncio.wait_for(go(), 60))


def moved(run):
    """Largest change of a weight since the start."""
    before = dict(start().named_parameters())
    return max(float((weight - before[name]).detach().abs().max()) for name, weight in run.learner.weights().items())


def without_clock(metrics):
    return {name: value for name, value in metrics.items() if not name.startswith(MEASURED)}


# --- every rule ------------------------------------------------------------------------------------------------------


NEEDS_EVIDENCE = {"rlvmr": ["tag_N"], "progress": ["accuracy_N"], "spae": ["accuracy_N", "confidence_N"]}
"""Columns that no signal measures: an environment's evidence fills them, here whether the call was understood."""


NEEDS_BRANCHES = ("tree_rpo", "tree_grpo", "tree_rl", "portool", "arpo", "r3l")


NEEDS_A_SCORER = ("top_scored",)
"""Rules whose scorer is fitted in an earlier stage (tests/run/test_stages.py)."""


@pytest.mark.parametrize("name", [name for name in RULES if name not in NEEDS_BRANCHES + NEEDS_A_SCORER])
def test_a_rule_trains(name):
    settings = {"k": 2} if name == "pass_at_k" else {}
    evidence = dict.fromkeys(NEEDS_EVIDENCE.get(name, []), "parsed")
    run, metrics = trained(config_of(credit={"type": name, **settings}, signals={"evidence": evidence}))
    assert all(np.isfinite(list(one.values())).all() for one in metrics)
    assert moved(run) > 1e-4


VARIANTS = [
    ({"credit": {"type": "reinforce_plus_plus", "kl": 0.01}}, set()),
    ({"credit": {"type": "reinforce_plus_plus_tokens", "kl": 0.01}}, set()),
    ({"credit": {"type": "tempo", "merge": "action_observation"}}, set()),
    ({"credit": {"type": "gdpo", "weights": {"won": 2.0, "even": 1.0}}}, set()),
    ({"credit": {"type": "hero", "score": "even"}}, set()),
    ({"credit": {"type": "progress", "read": "value"}}, {"value/loss"}),
    ({"credit": {"type": "spa", "grounding": 0.5}, "signals": {"evidence": {"grounded_N": "parsed"}}}, set()),
    ({"credit": {"type": "empg"}, "signals": {"entropy": "exact"}}, set()),
    ({"credit": {"type": "rl_zvp_tokens"}, "signals": {"entropy": "exact"}}, set()),
    ({"credit": {"type": "igpo"}, "signals": {"answer": "press {dials}", "log_gain": True}}, set()),
    ({"credit": {"type": "prime"}}, {"reward_model/loss", "reward_model/grad_norm"}),
    ({"credit": {"type": "istar"}, "reward_model": {"lr_factor": 1.0}}, {"reward_model/loss"}),
    ({"credit": {"type": "istar"}, "reward_model": {"model": "policy"}}, set()),
    ({"credit": {"type": "turn_gae"}}, {"value/loss", "value/explained_variance", "value/grad_norm"}),
    ({"credit": {"type": "turn_gae"}, "value": {"trunk": "detached", "clip": 0.2, "bootstrap": False}}, {"value/loss"}),
    ({"credit": {"type": "bilevel_gae"}, "value": {"trunk": "shared", "lam": 0.9}}, {"value/loss"}),
]


@pytest.mark.parametrize(("changes", "noted"), VARIANTS)
def test_a_rule_trains_with_other_settings(changes, noted):
    run, metrics = trained(config_of(**changes))
    assert noted <= metrics[1].keys()
    assert all(np.isfinite(list(one.values())).all() for one in metrics)
    assert moved(run) > 1e-4


def test_a_rule_without_signals_asks_no_model():
    config = config_of(credit={"type": "rloo"})
    assert not needs_reference(config)
    assert (config.value, config.reward_model) == (None, None)
    run, metrics = trained(config, steps=1)
    assert run.signals.sources == ()
    assert not any(name.startswith(("value/", "reward_model/")) for name in metrics[0])


def test_minibatches_learn_their_own_returns():
    config = config_of(credit={"type": "turn_gae"}, train={**BASE["train"], "minibatches": 4})
    run, metrics = trained(config)
    assert metrics[1]["value/loss"] > 0
    assert moved(run) > 1e-4


def test_in_a_warm_up_only_the_head_learns():
    config = config_of(credit={"type": "turn_gae"}, value={"warmup": 2})
    run, metrics = trained(config)
    assert moved(run) == 0
    assert metrics[1]["value/loss"] > 0
    assert run.learner._value_head.weight.any()
    run, _ = trained(config, steps=3)
    assert moved(run) > 0


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credit", "column"),
    [
        ({"type": "gigpo", "anchors": "similar"}, "similar_N"),
        ({"type": "spa", "grounding": 0.5}, "grounded_N"),
        ({"type": "rlvmr"}, "tag_N"),
        ({"type": "progress"}, "accuracy_N"),
        ({"type": "spae"}, "accuracy_N"),
    ],
)
def test_what_only_an_environment_can_supply_is_named(credit, column):
    with pytest.raises(ConfigError, match=f"credit '{credit['type']}' cannot be used here: .* needs column '{column}'"):
        config_of(credit=credit)


@pytest.mark.parametrize("name", [*NEEDS_BRANCHES, "tempo", "lambda_grpo"])
def test_a_rule_over_branches_is_refused_where_nothing_branches(name):
    settings = {"merge": "recorded"} if name in ("tempo", "lambda_grpo") else {}
    with pytest.raises(
        ConfigError, match=f"credit '{name}' cannot be used here: it needs branches .parent_B, branch_B.,"
    ):
        config_of(credit={"type": name, **settings})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"credit": {"type": "rloo"}, "value": {"warmup": 1}},
            "value has no effect: credit 'rloo' uses no critic; bilevel_gae, token_gae, turn_gae do",
        ),
        (
            {"credit": {"type": "rloo"}, "reward_model": {}},
            "reward_model has no effect: credit 'rloo' uses no reward model; prime, prime_tokens, istar, top_scored do",
        ),
        (
            {"credit": {"type": "rloo"}, "signals": {"entropy": "exact"}},
            "signals.entropy has no effect: credit 'rloo' reads no entropy",
        ),
        (
            {"credit": {"type": "rloo"}, "signals": {"answer": "{gold}"}},
            "signals.answer and signals.log_gain have no effect: credit 'rloo' reads no gain",
        ),
        (
            {"credit": {"type": "spa"}, "signals": {"evidence": {"grounded_N": "executes"}}},
            "signals.evidence grounded_N has no effect: credit 'spa' does not read it",
        ),
        ({"credit": {"type": "igpo"}, "signals": {"answer": "42"}}, "without {name} is the same for every"),
        ({"signals": {"evidence": {"format_B": "x"}}}, "fills columns that end in _N, found 'format_B'"),
        (
            {"credit": {"type": "turn_gae"}, "value": {"trunk": "detached", "coef": 2.0}},
            "coef has no effect with trunk = 'detached'",
        ),
        (
            {"credit": {"type": "prime"}, "reward_model": {"model": "policy", "lr_factor": 3.0}},
            "lr_factor has no effect",
        ),
        (
            {"credit": "top_scored", "reward_model": {"model": "runs/verify/model", "lr_factor": 3.0}},
            "lr_factor has no effect with model = 'runs/verify/model': no reward model is trained",
        ),
        (
            {"credit": "top_scored"},
            "credit 'top_scored' needs a scorer that was fitted before, and reward_model.model is",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(changes, problem):
    with pytest.raises(ConfigError) as caught:
        config_of(**changes)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rule_with_a_critic_gets_one_and_the_tree_says_so():
    config = config_of(credit={"type": "turn_gae"})
    assert config.value is not None
    assert config.reward_model is None
    assert parse(config.model_dump()) == config
    assert config_of(credit={"type": "prime"}).reward_model is not None
    assert config_of(credit={"type": "turn_gae"}, train={"steps": 3}).train.filters == ()
    assert config_of(credit={"type": "turn_gae"}, train={"filters": ["varied"]}).train.filters == (
        FilterPart.load("varied"),
    )
    assert config_of(credit={"type": "rloo"}, train={"steps": 3}).train.filters == (FilterPart.load("varied"),)
    assert learner_of(config, start())._critic is not None
    assert config.learner.open(start(), lr=0.1)._critic is None  # a warm start has no returns


def test_the_answer_of_a_task():
    task = models.tasks(1)[0]
    dials = task.private["dials"]
    with Environments(config_of().env) as lock:
        oracle = answer_of(config_of(credit={"type": "igpo"}), lock)
        assert oracle(task) == ("", "\n".join(LockEnv().oracle(task)))
        given = answer_of(config_of(credit={"type": "igpo"}, signals={"answer": "The keys: {dials}."}), lock)
        assert given(task) == ("The keys: ", f"{dials}.")
        with pytest.raises(ConfigError, match=r"signals\.answer: .* unknown entry .* 'gold'; known: dials"):
            answer_of(config_of(credit={"type": "igpo"}, signals={"answer": "{gold}"}), lock)
        assert answer_of(config_of(credit={"type": "rloo"}), lock) is None


def test_an_environment_without_an_oracle_needs_an_answer(monkeypatch):
    monkeypatch.setattr(LockEnv, "turn_spec", replace(LockEnv.turn_spec, has_oracle=False))
    config = config_of(credit={"type": "igpo"})
    with (
        Environments(config.env) as lock,
        pytest.raises(ConfigError, match="credit 'igpo' reads gain_N, which needs the right answer of each task, "),
    ):
        answer_of(config, lock)


def test_recorded_episodes_can_be_credited_again_if_no_model_is_read():
    assert own_rule(config_of(credit={"type": "gigpo"})) is not None
    assert own_rule(config_of(credit={"type": "turn_gae"})) is None
    assert own_rule(config_of(credit={"type": "tempo", "merge": "action_observation"})) is not None
    assert CreditRule.named("tree_rpo", {}) is not None
    with pytest.raises(ConfigError, match="credit 'turn_gae' cannot be used here: it needs column 'value_N'"):
        CreditRule.named("turn_gae", {})


# --- killed and resumed, and controls --------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"credit": {"type": "turn_gae"}}, {"credit": {"type": "prime"}}])
def test_a_resumed_run_goes_on_bit_for_bit(changes, tmp_path):
    config = config_of(**changes)
    whole, expected = trained(config, steps=3)
    again, found = trained(config, steps=3, checkpoints=Checkpoints(tmp_path), stop_after=2)
    assert [without_clock(one) for one in found] == [without_clock(one) for one in expected]
    for name, weight in whole.learner.weights().items():
        assert torch.equal(weight, again.learner.weights()[name])


@pytest.mark.parametrize("control", ["shuffled_credit", "shuffled_reward", "random_reward"])
@pytest.mark.parametrize("name", ["turn_gae", "token_gae", "rloo", "gdpo"])
def test_controls_run(name, control):
    run, metrics = trained(config_of(credit={"type": name}), control=control)
    assert all(np.isfinite(list(one.values())).all() for one in metrics)
    assert moved(run) > 1e-5


def test_under_false_rewards_each_turn_keeps_its_own_kl_penalty():
    """Two episodes of two turns, of which one was paid 1."""
    table = TurnTable(
        reward_N=np.array([0, 1, 0, 0], np.float32),
        process_N=np.full(4, np.nan, np.float32),
        open_N=np.ones(4, np.bool_),
        traj_N=np.array([0, 0, 1, 1], np.int32),
        index_N=np.array([0, 1, 0, 1], np.int32),
        state_N=np.full(4, -1, np.int64),
        outcome_B=np.array([1, 0], np.float32),
        cohort_B=np.zeros(2, np.int32),
        measured={"kl_N": np.array([0.25, 0.5, 1, 2], np.float32)},
    )
    config, model = config_of(credit={"type": "rloo"}, signals={"kl_in_reward": 0.5}), start()
    for control, paid in (
        ("shuffled_reward", [[0, 0, 0, 1]]),
        ("random_reward", [[0, a, 0, b] for a in (0, 1) for b in (0, 1)]),
    ):
        learner, reference = learner_of(config, model), reference_of(config, model)
        signals = signals_of(
            config,
            control=control,
            learner=learner,
            reward_model=None,
            reference=reference,
            chat=models.chat(),
            answer=None,
        )
        seen = signals.view(table)
        assert (seen.reward_N + 0.5 * table.measured["kl_N"]).tolist() in paid
