"""The critic: what its head learns, whom its gradient reaches, and that a saved run goes on with it.

1. The head says 0 until it is trained, and a state's value is read after the token before the agent acts.
2. The gradient is that of the written-out squared error, however segments are grouped.
3. A detached trunk, and a warm-up, leave the policy bit for bit as it was without a critic.
4. Saved and loaded, training goes on bit for bit.
"""

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs
from turngate.errors import ConfigError, ShapeError, StoreError
from turngate.trainer.batch.pack import boundaries, pack, split
from turngate.trainer.learner import Critic
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.critic import ValueHead, value_loss

LOSS = PolicyLoss()
PLAIN = Critic(lr_factor=1.0)


def learner(critic=PLAIN, **settings):
    return models.learner(lr=1e-2, critic=critic, **settings)


def trajectories(n=4):
    return models.random_trajectories(np.random.default_rng(0), n, vocabulary=280)


def batch_of(played=None, advantage=1.0):
    played = trajectories() if played is None else played
    n_turns = sum(len(one.turns) for one in played)
    batch = pack([models.scored(played)], np.full(n_turns, advantage, np.float32))
    batch.logprob_L[:] = np.where(batch.policy_weight_L > 0, -3.0, 0.0)
    return batch


def returns_of(played, seed=1):
    """Random returns before every turn, all weighing alike."""
    batch, (before_N, _) = batch_of(played), boundaries(played)
    return_L, weight_L = np.zeros((2, batch.n_tokens), np.float32)
    return_L[before_N] = np.random.default_rng(seed).normal(size=len(before_N))
    weight_L[before_N] = 1 / len(before_N)
    return {"return_L": return_L, "value_weight_L": weight_L, "old_value_L": np.zeros_like(return_L)}


def states_by_hand(played, model):
    """The last hidden state after each turn's context, one plain forward pass per trajectory: [N, width]."""
    found = []
    for one in played:
        hidden = model.base_model(torch.as_tensor(one.ids(), dtype=torch.long)[None]).last_hidden_state[0]
        place = 0
        for turn in one.turns:
            found.append(hidden[place + len(turn.context_ids) - 1])
            place += len(turn.source)
    return torch.stack(found)


def set_head(of, seed=0):
    with torch.no_grad():
        of._value_head.weight.copy_(torch.as_tensor(np.random.default_rng(seed).normal(size=32).astype(np.float32)))
        of._value_head.bias.fill_(0.5)


def gradient(parameters):
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]).numpy().copy()


# --- loss ------------------------------------------------------------------------------------------------------------


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_worked_losses():
    """Values 1 and 3, targets 2 and 0, weights ½: ½·½·1 + ½·½·9; clipped to 0.5 ± 0.25: errors 1.25 and 0.75."""
    value, target, weight = tensor(1, 3), tensor(2, 0), tensor(0.5, 0.5)
    assert value_loss(value, target, weight).item() == pytest.approx(2.5)
    clipped = value_loss(value, target, weight, old=tensor(0.5, 0.5), clip=0.25)
    assert clipped.item() == pytest.approx(0.25 * (1.25**2 + 9))


def test_a_clipped_value_that_went_far_enough_has_no_gradient():
    """Past the clip towards its target: nothing more to gain in this update. Away from it: the full gradient."""
    value = tensor(2, -2).requires_grad_()
    value_loss(value, tensor(5, 5), tensor(1, 1), old=tensor(0, 0), clip=1.0).backward()
    assert value.grad.tolist() == [0, -7]


def test_nothing_to_learn_is_no_loss():
    assert value_loss(tensor(), tensor(), tensor()).item() == 0


def test_a_new_head_says_zero_and_draws_no_random_number():
    before = torch.random.get_rng_state()
    assert not ValueHead(8)(torch.randn(3, 8, generator=torch.Generator().manual_seed(0))).any()
    assert torch.equal(torch.random.get_rng_state(), before)


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 10_000])
def test_values_are_read_where_the_agent_is_about_to_act(limit):
    played, taught = trajectories(), learner(tokens_per_pass=limit)
    set_head(taught)
    before_N, _ = boundaries(played)
    batch = batch_of(played)
    wanted_L = np.zeros(batch.n_tokens, np.bool_)
    wanted_L[before_N] = True
    with torch.no_grad():
        expected = taught._value_head(states_by_hand(played, models.model())).numpy()
    value_L = taught.values(batch, wanted_L)
    assert_alike(value_L[before_N], expected, PASS)
    assert not value_L[~wanted_L].any()
    assert np.std(expected) > 0.1


def test_boundaries_of_a_worked_batch():
    """Turns of 2+1 and 1+2 tokens, then a trajectory of 3+1."""
    first = models.trajectory([models.turn([1, 2], [3]), models.turn([4], [5, 6])], name="a")
    second = models.trajectory([models.turn([1, 2, 3], [4])], name="b")
    before_N, after_N = boundaries([first, second])
    assert (before_N.tolist(), after_N.tolist()) == ([1, 3, 8], [2, 5, 9])


def test_whole_logprobs_and_entropies_are_those_of_the_uncut_distribution_and_of_the_cut_one():
    batch, plain, cut = batch_of(), learner(None), learner(None, top_k=4)
    spoken = batch.policy_weight_L > 0
    assert_logprobs(cut.logprobs(batch, whole=True), plain.logprobs(batch), PASS)
    assert np.isneginf(cut.logprobs(batch)[spoken]).any()
    assert (cut.entropies(batch)[spoken] <= np.log(4) + 1e-5).all()
    assert (plain.entropies(batch)[spoken] > np.log(4)).any()
    assert not plain.entropies(batch)[~spoken].any()


# --- learning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 30, 10_000])
@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_is_that_of_the_written_out_error(shared, limit):
    played = trajectories()
    taught = learner(Critic(shared=shared, coef=0.7), tokens_per_pass=limit)
    set_head(taught)
    columns = returns_of(played)
    batch = batch_of(played, advantage=0.0)  # the policy itself has nothing to learn
    metrics = taught.forward_backward(batch, LOSS, measured=columns)
    head, model = ValueHead(32), models.model()
    head.load_state_dict(taught._value_head.state_dict())
    before_N, _ = boundaries(played)
    error = head(states_by_hand(played, model)) - torch.as_tensor(columns["return_L"][before_N])
    loss = (0.5 * error.square()).mean()
    (0.7 * loss).backward()
    assert metrics["value/loss"] == pytest.approx(loss.item(), rel=PASS)
    assert_alike(gradient(taught._value_head.parameters()), gradient(head.parameters()), GRADIENT)
    expected = gradient(model.parameters()) if shared else 0.0
    assert_alike(gradient(taught.model.parameters()), expected, GRADIENT)
    assert shared == (np.abs(gradient(taught.model.parameters())).max() > 1e-3)


def test_a_detached_critic_leaves_the_policy_as_it_is_without_one():
    played = trajectories()
    with_critic, without = learner(), learner(None)
    for _ in range(3):
        with_critic.forward_backward(batch_of(played), LOSS, measured=returns_of(played))
        without.forward_backward(batch_of(played), LOSS)
        first, second = with_critic.optim_step(), without.optim_step()
        assert first["learner/grad_norm"] == second["learner/grad_norm"]
    for name, weight in without.weights().items():
        assert torch.equal(weight, with_critic.weights()[name])
    assert with_critic._value_head.weight.any()


def test_the_head_learns_the_returns():
    played, taught = trajectories(), learner(Critic(lr_factor=10.0))
    columns = returns_of(played)
    losses = []
    for _ in range(30):
        losses.append(taught.forward_backward(batch_of(played, 0.0), LOSS, measured=columns)["value/loss"])
        taught.optim_step()
    assert losses[-1] < 0.1 * losses[0]


def test_epochs_are_steps_of_the_head_over_the_states_of_the_update():
    """Three epochs are three updates whose policy stays: same head, and the policy moves once."""
    played = trajectories()
    columns = returns_of(played)
    thrice, once = learner(Critic(epochs=3)), learner(Critic(warmup=3))
    metrics = thrice.forward_backward(batch_of(played), LOSS, measured=columns)
    for _ in range(3):
        once.forward_backward(batch_of(played), LOSS, measured=columns)
        once.optim_step()
    assert metrics.keys() >= {"loss/policy", "value/loss"}
    thrice.optim_step()
    for name, value in once._value_head.state_dict().items():
        assert_alike(thrice._value_head.state_dict()[name], value, GRADIENT)
    alone = learner(None)
    alone.forward_backward(batch_of(played), LOSS)
    alone.optim_step()
    for name, weight in alone.weights().items():
        assert torch.equal(weight, thrice.weights()[name])
    assert thrice._optimizer.state_dict()["state"][0]["step"] == 1


def test_a_warm_up_teaches_the_head_alone():
    played, taught = trajectories(), learner(Critic(shared=True, warmup=2), weight_decay=0.1)
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    for _ in range(2):
        metrics = taught.forward_backward(batch_of(played), LOSS, measured=returns_of(played))
        metrics |= taught.optim_step()
        assert metrics["value/loss"] > 0
        assert metrics["value/grad_norm"] > 0
        assert metrics["learner/grad_norm"] == 0
        assert "loss/policy" not in metrics
    assert all(torch.equal(before[name], weight) for name, weight in taught.weights().items())
    metrics = taught.forward_backward(batch_of(played), LOSS, measured=returns_of(played))
    taught.optim_step()
    assert "loss/policy" in metrics
    assert any(not torch.equal(before[name], weight) for name, weight in taught.weights().items())


def test_a_large_critic_gradient_does_not_shorten_the_policys_step():
    played = trajectories()
    columns = returns_of(played)
    columns["return_L"] = columns["return_L"] * 1e4
    taught, alone = learner(clip_norm=1e-3), learner(None, clip_norm=1e-3)
    taught.forward_backward(batch_of(played), LOSS, measured=columns)
    alone.forward_backward(batch_of(played), LOSS)
    metrics = taught.optim_step()
    alone.optim_step()
    assert metrics["value/grad_norm"] > 1e3
    for name, weight in alone.weights().items():
        assert torch.equal(weight, taught.weights()[name])


def test_the_heads_learning_rate_is_a_multiple_of_the_policys():
    played, taught = trajectories(), learner(Critic(lr_factor=3.0))
    taught.forward_backward(batch_of(played), LOSS, measured=returns_of(played))
    taught.optim_step(lr_scale=0.5)
    moved = float(taught._value_head.weight.detach().abs().max())
    assert moved == pytest.approx(3 * 0.5 * 1e-2, rel=1e-2)  # AdamW's first step moves by the learning rate


def test_the_head_is_not_published():
    assert learner().weights().keys() == learner(None).weights().keys()


# --- parts, files, mistakes ------------------------------------------------------------------------------------------


def test_parts_carry_their_returns_and_average_to_the_whole():
    played = trajectories(6)
    batch, columns = batch_of(played), returns_of(played)
    whole = learner()
    whole.forward_backward(batch, LOSS, measured=columns)
    parts = []
    for part, own in split(batch, columns, 3):
        one = learner()
        one.forward_backward(part, LOSS, measured=own)
        parts.append(gradient(one._value_head.parameters()))
    assert_alike(np.mean(parts, 0), gradient(whole._value_head.parameters()), GRADIENT)


def descend(of, seeds):
    played = trajectories()
    for seed in seeds:
        of.forward_backward(batch_of(played), LOSS, measured=returns_of(played, seed))
        of.optim_step()
    return {**of.weights(), **of._value_head.state_dict(prefix="head.")}


def test_resume_from_a_saved_state_gives_the_same_bits(tmp_path):
    critic = Critic(shared=True, warmup=3, clip=0.2, epochs=2)
    taught, other = learner(critic), learner(critic)
    descend(taught, [0, 1])  # in the middle of the warm-up
    taught.save(tmp_path / "state.pt")
    expected = {name: value.clone() for name, value in descend(taught, [2, 3]).items()}
    other.load(tmp_path / "state.pt")
    got = descend(other, [2, 3])
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_a_state_with_and_without_a_critic_are_two_things(tmp_path):
    learner().save(tmp_path / "with.pt")
    learner(None).save(tmp_path / "without.pt")
    with pytest.raises(StoreError, match=r"'.*with\.pt' was saved with a critic, this learner has none"):
        learner(None).load(tmp_path / "with.pt")
    with pytest.raises(StoreError, match=r"'.*without\.pt' was saved without a critic, this learner has one"):
        learner().load(tmp_path / "without.pt")


def test_returns_without_a_critic_and_columns_that_do_not_fit_are_refused():
    played = trajectories()
    batch, columns = batch_of(played), returns_of(played)
    with pytest.raises(ConfigError, match="this learner has no critic"):
        learner(None).forward_backward(batch, LOSS, measured=columns)
    with pytest.raises(ConfigError, match="this learner has no critic"):
        learner(None).values(batch, np.ones(batch.n_tokens, np.bool_))
    with pytest.raises(ShapeError, match="a critic learns from 'return_L'"):
        learner().forward_backward(batch, LOSS, measured={"value_weight_L": columns["value_weight_L"]})
    with pytest.raises(ShapeError, match="value_weight_L has shape"):
        learner().forward_backward(batch, LOSS, measured={name: column[:3] for name, column in columns.items()})
