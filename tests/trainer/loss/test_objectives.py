"""Every objective: worked numbers, a plain loop over tokens differentiated by autograd, and what bounds do."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.trainer.loss import flat
from tests.trainer.loss.flat import tokens
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.loss.base import Gain, Objective
from turngate.trainer.loss.objectives import Cispo, Clipped, Gmpo, Gspo, Reinforce, Sapo, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.thought_ratio import GtrClipped
from turngate.trainer.loss.tokens import Tokens


def one(objective, ratio, advantage):
    """Value of one token and its gradient with respect to the logprob."""
    batch = tokens([math.log(ratio) - 1.0], sampled=[-1.0], advantage=[advantage])
    gain = objective(batch)
    (slope,) = torch.autograd.grad(gain.value.sum(), batch.logprob)
    return gain.value.item(), slope.item(), gain.limited.item()


# --- worked numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "advantage", "value"),
    [
        (1.5, 1.0, 1.28),  # clip-higher
        (5.0, -1.0, -3.0),  # dual clip
        (0.5, -1.0, -0.8),
        (1.3, 1.0, 1.28),  # DAPO
        (1.3, -1.0, -1.3),
        (1.3, 0.0, 0.0),
    ],
)
def test_clipped(ratio, advantage, value):
    assert one(Clipped(), ratio, advantage)[0] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("unit", ["sequence", "turn"])
def test_gspo_of_one_unit(unit):
    """Log-ratios .1, −.2, .4: s = exp(.1)."""
    for advantage, value in ((1.0, 1.0004), (-1.0, -1.105171)):
        batch = tokens([0.1, -0.2, 0.4], advantage=[advantage] * 3)
        gain = Gspo(unit=unit)(batch)
        assert gain.value.tolist() == pytest.approx([value] * 3, abs=1e-5)
        assert gain.limited.tolist() == [advantage > 0] * 3


def test_gspo_per_turn_differs_from_gspo_per_sequence():
    """Turn 0 drifted up, turn 1 down: together they look on-policy, apart they do not."""
    batch = tokens([0.2, 0.4, -0.3, -0.3], advantage=[1.0] * 4, turn=[0, 0, 1, 1])
    assert Gspo()(batch).value.tolist() == pytest.approx([1.0] * 4)
    wide = Gspo(unit="turn", clip_low=0.9, clip_high=0.9)
    expected = [math.exp(0.3)] * 2 + [math.exp(-0.3)] * 2
    assert wide(batch).value.tolist() == pytest.approx(expected)


def test_gspo_of_one_token_is_the_clipped_surrogate():
    for ratio in (0.5, 0.9, 1.1, 2.0):
        for advantage in (-1.0, 1.0):
            got = one(Gspo(clip_low=0.2, clip_high=0.28), ratio, advantage)
            assert got == pytest.approx(one(Clipped(dual_clip=1e9), ratio, advantage))


def test_a_token_without_weight_does_not_enter_the_unit():
    batch = tokens([0.1, 0.3, 9.0], advantage=[-1.0] * 3, weight=[0.5, 0.5, 0.0])
    assert Gspo()(batch).value[:2].tolist() == pytest.approx([-math.exp(0.2)] * 2)
    assert Gspo()(tokens([5.0], weight=[0.0], advantage=[1.0])).value.item() == 1.0  # an empty unit has s = 1


def test_cispo_weighs_by_the_cap_or_by_verls_clip():
    for objective, weight in ((Cispo(), 5.0), (Cispo(floor=0.8, cap=1.28), 1.28)):
        value, slope, limited = one(objective, 7.0, 1.0)
        assert slope == pytest.approx(weight)
        assert value == pytest.approx(weight * (math.log(7.0) - 1))
        assert limited
    assert one(Cispo(), 0.5, -2.0)[1] == pytest.approx(-1.0)
    assert one(Cispo(floor=0.8, cap=1.28), 0.5, -2.0)[1] == pytest.approx(-1.6)


def test_sapo_fades_instead_of_clipping():
    """4/τ·σ(τ(r−1))·A with slope 4·σ(1−σ)·r·A; at r = 1 the value is 2A/τ and the slope A."""
    assert one(Sapo(), 1.0, 3.0)[:2] == pytest.approx((6.0, 3.0))
    assert one(Sapo(), 1.0, -1.0)[:2] == pytest.approx((-2 / 1.05, -1.0))
    gate = 1 / (1 + math.exp(-2.0))
    assert one(Sapo(tau_positive=2.0), 2.0, 1.0)[:2] == pytest.approx((2 * gate, 4 * gate * (1 - gate) * 2))
    assert one(Sapo(tau_negative=3.0), 1.5, 1.0) == one(Sapo(), 1.5, 1.0)
    assert abs(one(Sapo(), 20.0, 1.0)[1]) < 1e-5


def test_gmpo_of_one_sequence():
    """Log-ratios .1, −.6, .9 and bounds ±.4: for A > 0 only .9 is cut, for A < 0 only −.6."""
    logratio = [0.1, -0.6, 0.9]
    for advantage, cut in ((2.0, [0.1, -0.6, 0.4]), (-2.0, [0.1, -0.4, 0.9]), (0.0, [0.1, -0.4, 0.4])):
        batch = tokens(logratio, advantage=[advantage] * 3)
        rho = math.exp(sum(cut) / 3)
        gain = Gmpo()(batch)
        assert gain.value.tolist() == pytest.approx([advantage * rho] * 3)
        (slope,) = torch.autograd.grad(gain.value.sum(), batch.logprob)
        free = [x == y for x, y in zip(logratio, cut, strict=True)]
        assert slope.tolist() == pytest.approx([advantage * rho * kept for kept in free])
        assert gain.limited.tolist() == [not kept for kept in free]


def test_reinforce():
    assert one(Reinforce(), math.exp(0.5), 3.0) == pytest.approx((-1.5, 3.0, 0))


# --- SimKO -----------------------------------------------------------------------------------------------------------

PLAIN = {"clip_low": 1.0, "clip_high": 10.0, "dual_clip": 100.0}


def simko_batch(advantage, *, logprob=0.1, rivals=(-0.2, -2.0, -3.0)):
    """Five tokens of low entropy and one of high entropy, the last."""
    n = 6
    return tokens(
        [-1.0] * (n - 1) + [logprob],
        sampled=[-1.0] * (n - 1) + [0.0],
        advantage=[advantage] * n,
        entropy=[0.1] * (n - 1) + [2.0],
        candidate_logprob=[list(rivals)] * n,
    )


def test_simko_shares_the_gradient_of_a_good_uncertain_token_and_keeps_its_value():
    batch = simko_batch(1.0)
    gain = SimKo(**PLAIN)(batch)
    assert gain.value[-1].item() == pytest.approx(1.105171, abs=1e-6)
    own, rivals = torch.autograd.grad(gain.value.sum(), (batch.logprob, batch.candidate_logprob))
    assert rivals[-1].tolist() == pytest.approx([0.003684] * 3, abs=1e-6)
    assert own[-1].item() == pytest.approx(0.99 * 1.105171, abs=1e-6)
    assert not rivals[:-1].any()
    assert own[:-1].tolist() == [1.0] * 5


def test_simko_punishes_the_likeliest_bad_uncertain_token_more():
    likeliest, other = simko_batch(-1.0, logprob=-0.2), simko_batch(-1.0, logprob=-0.3)
    for batch, factor in ((likeliest, 1.1), (other, 1.0)):
        gain = SimKo(**PLAIN)(batch)
        ratio = math.exp(batch.logprob[-1].item())
        assert gain.value[-1].item() == pytest.approx(-factor * ratio)
        assert gain.value[:-1].tolist() == pytest.approx([-1.0] * 5)


def test_simko_gives_nothing_to_candidates_outside_a_truncated_support():
    batch = simko_batch(1.0, rivals=(-0.2, -2.0, -math.inf))
    gain = SimKo(**PLAIN)(batch)
    assert gain.value[-1].item() == pytest.approx(1.105171, abs=1e-6)
    (rivals,) = torch.autograd.grad(gain.value.sum(), batch.candidate_logprob)
    assert rivals[-1].tolist() == pytest.approx([0.003684, 0.003684, 0.0], abs=1e-6)


def test_simko_without_uncertain_tokens_is_the_clipped_surrogate():
    batch = simko_batch(1.0)
    even = flat.part(batch, range(5))
    torch.testing.assert_close(SimKo()(even).value, Clipped()(even).value)
    assert not SimKo()(simko_batch(0.0)).value.any()


def test_simko_needs_candidates():
    assert SimKo(candidates=4).needs.candidates == 4
    with pytest.raises(ShapeError, match="SimKo needs 'candidate_logprob', which was not measured"):
        SimKo()(tokens([-1.0]))


# --- an oracle that goes unit by unit --------------------------------------------------------------------------------


def written_out(objective, batch, logprob):
    """Σ w·objective in plain loops over units and tokens."""
    total = torch.zeros((), dtype=torch.float64)
    key = [(int(s), int(t)) for s, t in zip(batch.segment, batch.turn, strict=True)]
    for j in range(len(key)):
        weight, advantage = float(batch.policy_weight[j]), float(batch.advantage[j])
        if weight == 0:
            continue
        depth = 2 if getattr(objective, "unit", "") == "turn" else 1
        unit = [i for i in range(len(key)) if key[i][:depth] == key[j][:depth] and float(batch.policy_weight[i]) != 0]
        x = [logprob[i] - batch.old_logprob[i] for i in range(len(key))]
        r = x[j].exp()
        if isinstance(objective, Clipped):
            value = min(r * advantage, r.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantage)
            value = max(value, flat.tensor(objective.dual_clip * advantage)) if advantage < 0 else value
        elif isinstance(objective, Gspo):
            s = math.exp(sum(x[i].item() for i in unit) / len(unit)) * r / r.detach()
            value = min(s * advantage, s.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantage)
        elif isinstance(objective, Cispo):
            value = min(max(r.item(), objective.floor), objective.cap) * advantage * logprob[j]
        elif isinstance(objective, Gmpo):
            cut = []
            for i in unit:
                a = float(batch.advantage[i])
                low, high = (-20 if a > 0 else -objective.clip_low), (20 if a < 0 else objective.clip_high)
                cut.append(min(max(x[i].item(), low), high))
            rho = math.exp(sum(cut) / len(cut))
            own = x[j] if cut[unit.index(j)] == x[j].item() else x[j].detach()
            value = advantage * rho * (own - own.detach()).exp()
        elif isinstance(objective, Sapo):
            tau = objective.tau_positive if advantage > 0 else objective.tau_negative
            value = advantage * 4 / tau / (1 + (-tau * (r - 1)).exp())
        else:
            value = advantage * logprob[j]
        total = total + weight * value
    return total


@pytest.mark.parametrize(
    "objective",
    [
        Clipped(dual_clip=1.5),
        Gspo(clip_low=0.1, clip_high=0.2),
        Gspo(unit="turn", clip_low=0.1, clip_high=0.2),
        Cispo(floor=0.7, cap=1.4),
        Gmpo(),
        Gmpo(unit="turn", clip_low=0.2, clip_high=0.3),
        Sapo(tau_positive=0.8, tau_negative=2.0),
        Reinforce(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("proximal", [False, True])
@given(data=flat.st.data())
@settings(max_examples=12)
def test_value_and_gradient_are_those_of_the_loop(objective, proximal, data):
    batch = data.draw(flat.batches(proximal=proximal))
    logprob = batch.logprob.detach().clone().requires_grad_()
    expected = -written_out(objective, batch, logprob)
    value, _ = PolicyLoss(objective=objective)(batch)
    assert value.item() == pytest.approx(expected.item(), abs=1e-9)
    slope = torch.autograd.grad(expected, logprob)[0] if expected.requires_grad else torch.zeros_like(logprob)
    np.testing.assert_allclose(flat.gradient(PolicyLoss(objective=objective), batch), slope, atol=1e-9)


@pytest.mark.parametrize("unit", ["sequence", "turn"])
def test_one_credit_per_unit_gives_the_published_form(unit):
    """GSPO: −min(s·A, clip(s)·A) and GMPO: −A·ρ, averaged over units, differentiated as they stand in the papers."""
    depth = 1 if unit == "sequence" else 2
    key = [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0), (1, 0)]
    owners = [k[:depth] for k in key]
    units = sorted(set(owners))
    logprob, old = [-1.0, -2.0, -0.5, -1.5, -1.0, -0.2], [-1.1, -1.8, -0.9, -1.2, -0.7, -0.2]
    advantages = dict(zip(units, [1.0, -0.5, 0.7], strict=False))
    weight = [1 / len(units) / owners.count(k) for k in owners]
    batch = tokens(
        logprob,
        sampled=old,
        advantage=[advantages[k] for k in owners],
        weight=weight,
        segment=[k[0] for k in key],
        turn=[k[1] for k in key],
    )
    free = torch.tensor(logprob, dtype=torch.float64, requires_grad=True)
    for objective in (Gspo(unit=unit, clip_low=0.1, clip_high=0.05), Gmpo(unit=unit)):
        total = torch.zeros((), dtype=torch.float64)
        for name in units:
            x = torch.stack([free[i] - old[i] for i in range(6) if owners[i] == name])
            a = advantages[name]
            if isinstance(objective, Gspo):
                s = x.mean().exp()
                total = total - torch.minimum(s * a, s.clamp(0.9, 1.05) * a) / len(units)
            else:
                cut = x.clamp(max=0.4) if a > 0 else x.clamp(min=-0.4)
                total = total - a * cut.mean().exp() / len(units)
        value, _ = PolicyLoss(objective=objective)(batch)
        assert value.item() == pytest.approx(total.item())
        (slope,) = torch.autograd.grad(total, free)
        np.testing.assert_allclose(flat.gradient(PolicyLoss(objective=objective), batch), slope, atol=1e-12)


# --- settings --------------------------------------------------------------------------------------------------------

BATCH = {
    "logprob": [-1.0, -0.7, -1.5, -0.4, -2.0],
    "sampled": [-1.1, -0.3, -2.9, -0.5, -1.9],
    "advantage": [1.0, 1.0, -1.0, -1.0, 0.5],
    "turn": [0, 0, 1, 1, 1],
    "entropy": [0.3, 0.1, 0.2, 2.0, 0.1],
    "candidate_logprob": [[-0.4, -1.0, -2.0, -3.0]] * 5,
}


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (Clipped(), [{"clip_low": 0.5}, {"clip_high": 0.1}, {"dual_clip": 1.5}]),
        (
            Gspo(unit="turn", clip_low=0.05, clip_high=0.05),
            [{"unit": "sequence"}, {"clip_low": 0.01}, {"clip_high": 0.5}],
        ),
        (Cispo(), [{"floor": 0.9}, {"cap": 1.2}]),
        (Gmpo(), [{"unit": "turn"}, {"clip_low": 0.1}, {"clip_high": 0.1}]),
        (Sapo(), [{"tau_positive": 0.5}, {"tau_negative": 0.5}]),
        (
            SimKo(dual_clip=50.0),
            [
                {"clip_low": 0.5},
                {"clip_high": 0.1},
                {"dual_clip": 1.5},
                {"alpha": 0.3},
                {"candidates": 1},
                {"quantile": 0.2},
                {"boost": 1.5},
            ],
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_each_setting_changes_loss_or_gradient(base, changes):
    """With one sign of the advantages or the other."""

    def seen(objective, sign):
        batch = tokens(**{**BATCH, "advantage": [sign * a for a in BATCH["advantage"]]})
        value = objective(batch).value
        slopes = torch.autograd.grad(value.sum(), (batch.logprob, batch.candidate_logprob), allow_unused=True)
        return [value.tolist(), *(None if slope is None else slope.tolist() for slope in slopes)]

    for change in changes:
        other = base.model_copy(update=change)
        assert any(seen(other, sign) != seen(base, sign) for sign in (1.0, -1.0)), change


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: Clipped(clip_low=1.1), "clip_low\n  Input should be less than or equal to 1"),
        (lambda: Clipped(dual_clip=1.0), "dual_clip\n  Input should be greater than 1"),
        (lambda: Gspo(clip_high=-0.1), "clip_high\n  Input should be greater than or equal to 0"),
        (lambda: Gspo(unit="token"), "unit\n  Input should be 'turn' or 'sequence'"),
        (lambda: Cispo(cap=0.5), "cap\n  Input should be greater than or equal to 1"),
        (lambda: Cispo(floor=1.5), "floor\n  Input should be less than or equal to 1"),
        (lambda: Gmpo(clip_low=0.0), "clip_low\n  Input should be greater than 0"),
        (lambda: Sapo(tau_negative=0.0), "tau_negative\n  Input should be greater than 0"),
        (lambda: SimKo(alpha=2.0), "alpha\n  Input should be less than or equal to 1"),
        (lambda: SimKo(alpha=0.0, boost=1.0), "alpha = 0 and boost = 1 do nothing beyond type = 'clipped'"),
        (lambda: SimKo(candidates=0), "candidates\n  Input should be greater than or equal to 1"),
        (lambda: Clipped(clip_low=math.nan), "clip_low\n  Input should be"),
    ],
)
def test_settings_out_of_range_are_refused(build, problem):
    with pytest.raises(ValueError, match=problem):
        build()


# --- an objective of one's own ---------------------------------------------------------------------------------------


def doubled(tokens: Tokens, *, factor: float = 2.0) -> Gain:
    """REINFORCE with more credit."""
    return Gain(value=factor * tokens.advantage * tokens.logprob, limited=tokens.advantage != tokens.advantage)


def test_a_function_is_an_objective_with_its_keywords_as_settings():
    """``(tokens, *, …) -> Gain``, by its path."""
    kind = Objective.of_function("my_module:doubled", doubled)
    value, slope, limited = one(kind(factor=3.0), 1.0, 2.0)
    assert (value, slope, limited) == (-6.0, 6.0, False)
    assert kind().settings() == {"factor": 2.0}


def test_an_objective_that_says_nothing_is_named():
    class Silent(Objective):
        """Forgot to act."""

    with pytest.raises(ConfigError, match="objective 'silent' has no __call__, so it gives no value to raise"):
        Silent(type="silent")(tokens([-1.0]))


# --- thoughts that count less ----------------------------------------------------------------------------------------


def thinking(log_ratios, thought, *, advantage=1.0, turn=None, weight=None):
    """Tokens whose old log-probability is −2."""
    n = len(log_ratios)
    return tokens(
        [-2 + one for one in log_ratios],
        sampled=[-2.0] * n,
        advantage=[advantage] * n,
        turn=turn,
        thought=thought,
        weight=weight or [1 / n] * n,
    )


@pytest.mark.parametrize(("advantage", "value"), [(1.0, 1.1), (-1.0, -1.491825)])
def test_gtr_of_the_sheet(advantage, value):
    """Thought −4.0, was −4.4, action −1.0, was −1.2: −3.0 against −3.4, a ratio of e^.4 = 1.491825."""
    batch = tokens([-4.0, -1.0], sampled=[-4.4, -1.2], advantage=[advantage] * 2, thought=[1, 0])
    assert GtrClipped()(batch).value.tolist() == pytest.approx([value] * 2, abs=1e-6)
    loose = GtrClipped(clip=0.5)(batch)
    assert loose.value.tolist() == pytest.approx([advantage * 1.491825] * 2, abs=1e-6)
    assert not loose.limited.any()


def test_the_gradient_of_gtr_is_that_of_its_formula_turn_by_turn():
    """Two turns whose ratios are inside of the bounds: mean over turns of r·A, each token weighed by λ or 1."""
    turn, thought = [0, 0, 0, 1, 1], [1, 1, 0, 0, 1]
    batch = thinking([0.02, -0.01, 0.03, 0.01, 0.04], thought, turn=turn, weight=[1 / 6] * 3 + [1 / 4] * 2)
    (found,) = torch.autograd.grad((batch.policy_weight * GtrClipped()(batch).value).sum(), batch.logprob)
    weights = torch.tensor([0.5, 0.5, 1.0, 1.0, 0.5], dtype=torch.float64)
    x = weights * (batch.logprob - batch.sampled_logprob)
    ratios = torch.stack([x[:3].sum().exp(), x[3:].sum().exp()])
    (expected,) = torch.autograd.grad(ratios.mean(), batch.logprob)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_turn_far_off_leaves_only_the_clipped_term_to_the_whole_batch():
    """Turn 0 has a ratio of e^3 > 10. Turn 1 is out of bounds on the side that would still have a gradient."""
    batch = thinking([3.0, 0.2], [0, 0], turn=[0, 1], advantage=-1.0)
    assert GtrClipped()(batch).value.tolist() == pytest.approx([-1.1, -1.1])
    (gradient,) = torch.autograd.grad(GtrClipped()(batch).value.sum(), batch.logprob)
    assert not gradient.any()
    near = thinking([2.0, 0.2], [0, 0], turn=[0, 1], advantage=-1.0)
    assert GtrClipped()(near).value.tolist() == pytest.approx([-math.exp(2.0), -math.exp(0.2)])
    loss = PolicyLoss(objective=GtrClipped())
    fixed, _ = loss.survey(batch, {})
    value, _ = fixed(flat.part(batch, [1]))
    assert value.item() == pytest.approx(0.5 * 1.1)


def test_gtr_says_what_it_misses():
    with pytest.raises(ShapeError, match="GTR needs 'thought'"):
        GtrClipped()(tokens([0.0]))
