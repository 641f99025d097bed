"""Learning from trees of shared prefixes is learning from rows, to rounding: gradients, metrics, values, measures.

1. Siblings that share a prompt, turns, or everything are computed once; the gradient is that of each on its own.
2. Which of both is taken is decided by what it costs, and does not change the result.
3. A model that attends in another way is found out before anything is learned from it.
"""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from tests.helpers import models
from tests.helpers.numbers import near
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs
from turngate.errors import ConfigError
from turngate.trainer.batch.pack import boundaries, pack, pack_demonstrations
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.learner import Critic, Lora
from turngate.trainer.loss.covariance import ClipCov
from turngate.trainer.loss.entropy import EntropyBonus
from turngate.trainer.loss.objectives import Gspo, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner

VOCABULARY = 280
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}
LOSS = PolicyLoss(penalties=(EntropyBonus(coef=0.01),))


def siblings(rng, n=5):
    """A prompt, of whom all say the same first turn, three the same second one, and two are equal to the last token."""

    def turn(context, said):
        return models.turn(context, said, logprobs=rng.normal(-2, 0.5, size=len(said)))

    def ids(length):
        return rng.integers(3, VOCABULARY, size=length).tolist()

    first, second, third = turn(ids(20), ids(5)), turn(ids(6), ids(4)), turn(ids(3), ids(7))
    played = [[first, second, third], [first, second, third], [first, second, turn(ids(3), ids(2))]]
    played += [[first, turn(ids(4), ids(6))] for _ in range(n - 3)]
    return played


def batch_of(seed=0, tasks=3, aggregate="token"):
    rng = np.random.default_rng(seed)
    played = [turns for _ in range(tasks) for turns in siblings(rng)]
    trajectories = [models.trajectory(turns, name=f"t{number}") for number, turns in enumerate(played)]
    advantages = rng.normal(size=sum(len(turns) for turns in played)).astype(np.float32)
    return trajectories, pack([models.scored(trajectories)], advantages, aggregate=aggregate)


def batch_with_turn_credit():
    """Episodes that GiGPO gives another credit for each of their turns, weighed by turns."""
    rng = np.random.default_rng(5)
    groups = [
        models.scored(
            [models.trajectory(turns, name=f"{task}.{number}") for number, turns in enumerate(siblings(rng))],
            rng.normal(size=5).tolist(),
        )
        for task in range(3)
    ]
    credit_N = gigpo(tabulate(groups), gamma=0.5)
    assert len(set(credit_N[:3])) == 3  # the turns of the first episode
    trajectories = [one for group in groups for one in group.trajectories]
    return trajectories, pack(groups, credit_N, aggregate="turn")


def returns_of(trajectories, batch):
    """What a critic learns from: a random return after each turn."""
    _, after = boundaries(trajectories)
    wanted = np.isin(np.arange(batch.n_tokens), after)
    return {
        "value_weight_L": wanted / np.float32(wanted.sum()),
        "return_L": np.random.default_rng(0).normal(size=batch.n_tokens).astype(np.float32),
        "old_value_L": np.zeros(batch.n_tokens, np.float32),
    }


def learned(learner: TorchLearner) -> np.ndarray:
    return torch.cat([weight.grad.flatten() for weight in learner.model.parameters()]).numpy()


def both(make=models.model, **settings):
    return [models.learner(make(), packing=packing, **settings) for packing in ("rows", "tree")]


@pytest.mark.parametrize("limit", [1, 60, 10_000])
@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn"])
def test_the_gradient_is_that_of_rows(limit, aggregate):
    _, batch = batch_of(aggregate=aggregate)
    rows, tree = both(tokens_per_pass=limit)
    expected, metrics = rows.forward_backward(batch, LOSS), tree.forward_backward(batch, LOSS)
    assert_alike(learned(tree), learned(rows), GRADIENT)
    assert np.abs(learned(rows)).max() > 1e-3
    assert metrics == near(expected, PASS)


def another_token(batch, model):
    """The first of a prompt is another one: what a token sees that should not see it."""
    ids_L = batch.ids_L.copy()
    ids_L[0] = (ids_L[0] + 1) % 280
    return replace(batch, ids_L=ids_L)


@torch.no_grad()
def a_weight_a_hundredth_off(batch, model):
    model.base_model.layers[0].self_attn.v_proj.weight.mul_(1.01)
    return batch


@pytest.mark.parametrize("wrong", [another_token, a_weight_a_hundredth_off])
def test_what_is_wrong_is_far_beyond_what_counts_as_rounding(wrong):
    _, batch = batch_of()
    right, taught = (models.learner(packing="rows") for _ in range(2))
    other = wrong(batch, taught.model)
    assert np.abs(taught.logprobs(other) - right.logprobs(batch)).max() > 100 * PASS
    taught.forward_backward(other, LOSS)
    right.forward_backward(batch, LOSS)
    assert np.abs(learned(taught) - learned(right)).max() > 100 * GRADIENT * np.abs(learned(right)).max()


@pytest.mark.parametrize("loss", [PolicyLoss(objective=ClipCov()), PolicyLoss(objective=SimKo())], ids=repr)
def test_losses_that_survey_the_batch_or_ask_for_candidates(loss):
    _, batch = batch_of()
    rows, tree = both()
    expected, metrics = rows.forward_backward(batch, loss), tree.forward_backward(batch, loss)
    assert_alike(learned(tree), learned(rows), GRADIENT)
    assert metrics == near(expected, PASS)


def test_cross_entropy():
    trajectories, _ = batch_of()
    rows, tree = both()
    for taught in (rows, tree):
        taught.forward_backward(pack_demonstrations(trajectories), LOSS)
    assert_alike(learned(tree), learned(rows), GRADIENT)


def test_log_probabilities_entropies_and_what_truncation_cuts_off():
    _, batch = batch_of()
    rows, tree = both(temperature=0.7, top_p=0.9)
    for measure in (TorchLearner.logprobs, TorchLearner.entropies):
        assert_logprobs(measure(tree, batch), measure(rows, batch), PASS)
    whole = [taught.logprobs(batch, whole=True) for taught in (rows, tree)]
    assert_logprobs(whole[1], whole[0], PASS)
    expected, metrics = rows.forward_backward(batch, LOSS), tree.forward_backward(batch, LOSS)
    assert metrics == near(expected, PASS)
    assert metrics["policy/outside_support_share"] > 0


def test_a_critic_learns_the_same():
    trajectories, batch = batch_of()
    rows, tree = both(critic=Critic(shared=True))
    columns = returns_of(trajectories, batch)
    wanted = columns["value_weight_L"] > 0
    assert_alike(tree.values(batch, wanted), rows.values(batch, wanted), PASS)
    expected, metrics = (taught.forward_backward(batch, LOSS, measured=columns) for taught in (rows, tree))
    assert_alike(learned(tree), learned(rows), GRADIENT)
    assert metrics == near(expected, PASS)


def shapes_of(taught, batch):
    shapes = []
    hook = taught.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    taught.forward_backward(batch, LOSS)
    hook.remove()
    return shapes


def test_shared_tokens_go_through_the_model_once_where_that_pays():
    trajectories, batch = batch_of()
    whole = [one.ids().tolist() for one in trajectories]
    distinct = {tuple(ids[: end + 1]) for ids in whole for end in range(len(ids))}
    taught = models.learner(models.model())
    assert shapes_of(taught, batch)[-1] == (1, len(distinct))
    assert len(distinct) < 0.6 * batch.n_tokens
    alone = models.random_trajectories(np.random.default_rng(0), 1)
    single = pack([models.scored(alone)], np.ones(len(alone[0].turns), np.float32))
    assert shapes_of(models.learner(models.model()), single) == [(1, single.n_tokens)]  # a row: nothing was compared


def test_the_states_are_compared_with_those_of_rows_once():
    _, batch = batch_of()
    taught = models.learner(models.model())
    assert len(shapes_of(taught, batch)) == 3  # the tree and the rows without gradient, then the tree
    assert len(shapes_of(taught, batch)) == 1


def other_models():
    torch.manual_seed(0)
    yield "llama", LlamaForCausalLM(LlamaConfig(**SMALL))
    yield "sliding window", MistralForCausalLM(MistralConfig(**SMALL, sliding_window=8))


@pytest.mark.parametrize("name", ["llama", "sliding window"])
def test_other_architectures(name):
    _, batch = batch_of()
    taught = [models.learner(dict(other_models())[name], packing=packing) for packing in ("rows", "tree")]
    for one in taught:
        one.forward_backward(batch, LOSS)
    rows, tree = taught
    assert_alike(learned(tree), learned(rows), GRADIENT)


def strange(name):
    torch.manual_seed(0)
    if name == "capped scores":
        return Gemma2ForCausalLM(Gemma2Config(**SMALL))
    return GptOssForCausalLM(GptOssConfig(**SMALL, num_local_experts=2, num_experts_per_tok=1))


@pytest.mark.parametrize("name", ["capped scores", "sinks"])
def test_a_model_that_attends_in_another_way_learns_from_rows_and_says_so(name, caplog):
    _, batch = batch_of()
    with caplog.at_level(logging.WARNING):
        taught = models.learner(strange(name))
        taught.forward_backward(batch, LOSS)
    assert caplog.text.count("cannot learn from shared prefixes") == 1
    plain = models.learner(strange(name), packing="rows")
    plain.forward_backward(batch, LOSS)
    np.testing.assert_array_equal(learned(taught), learned(plain))
    with pytest.raises(ConfigError, match=r'leave out learner\.packing = "tree"'):
        models.learner(strange(name), packing="tree").forward_backward(batch, LOSS)


def test_a_wrong_attention_is_found_out(monkeypatch, caplog):
    """A layout in which one token sees a sibling's: what the check is for."""
    from turngate.trainer.torch import rows as rows_module

    right = rows_module.layout_of

    def wrong(tree, device, kernel):
        layout = right(tree, device, kernel)
        first, *others = layout.blocks
        return replace(layout, blocks=(replace(first, mask=torch.ones_like(first.mask)), *others))

    monkeypatch.setattr(rows_module, "layout_of", wrong)
    _, batch = batch_of()
    with caplog.at_level(logging.WARNING):
        models.learner(models.model()).forward_backward(batch, LOSS)
    assert "of its norm" in caplog.text


def test_bfloat16_agrees_to_its_rounding(caplog):
    _, batch = batch_of()
    with caplog.at_level(logging.WARNING):
        rows, tree = both(dtype="bfloat16")
        for one in (rows, tree):
            one.forward_backward(batch, LOSS)
    assert not caplog.records
    cosine = np.dot(learned(rows), learned(tree)) / np.linalg.norm(learned(rows)) / np.linalg.norm(learned(tree))
    assert cosine > 0.99


@pytest.mark.parametrize("critic", [None, Critic(shared=True)], ids=["no critic", "critic"])
@pytest.mark.parametrize("lora", [None, Lora(rank=4, alpha=8)], ids=["weights", "adapters"])
def test_credit_of_turns_entropies_adapters_and_a_critic_all_at_once(lora, critic):
    """Rows that hold one segment each, rows, trees, and both in micro-batches: one gradient."""
    trajectories, batch = batch_with_turn_credit()
    loss = PolicyLoss(objective=Gspo(unit="turn"), penalties=(EntropyBonus(coef=0.05),))
    ways = [{"packing": "rows", "tokens_per_pass": 1}, {"packing": "rows"}, {"packing": "rows", "tokens_per_pass": 90}]
    ways += [{"packing": "tree"}, {"packing": "tree", "tokens_per_pass": 90}]
    found, metrics = [], []
    for way in ways:
        taught = models.learner(models.model(), lora=lora, critic=critic, **way)
        with torch.no_grad():
            for name, weight in taught.model.named_parameters():
                if ".lora_B." in name:  # they begin at zero, where those beside them have no gradient
                    weight.copy_(torch.arange(weight.numel()).view_as(weight).sin() / 10)
            if critic is not None:
                taught._value_head.weight.copy_(torch.arange(taught._value_head.weight.numel()).sin() / 10)
        metrics.append(taught.forward_backward(batch, loss, measured=returns_of(trajectories, batch) if critic else {}))
        gradients = [weight.grad.flatten() for weight in taught.model.parameters() if weight.grad is not None]
        gradients += [taught._value_head.weight.grad.flatten()] if critic else []
        found.append(torch.cat(gradients).numpy())
    assert np.abs(found[0]).max() > 1e-3
    for gradient, said in zip(found[1:], metrics[1:], strict=True):
        assert_alike(gradient, found[0], GRADIENT)
        assert said == near(metrics[0], PASS)
