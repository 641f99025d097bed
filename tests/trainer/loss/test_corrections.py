"""Corrections against worked numbers and plain loops. ρ = π_old/μ throughout."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.trainer.loss import flat
from tests.trainer.loss.flat import tokens
from turngate.trainer.loss.corrections import (
    DivergenceRejection,
    GeometricRejection,
    Masked,
    NegativeDriftMask,
    Truncated,
    VetoRejection,
    mean_weight,
    offpolicy_metrics,
    weight_of,
)
from turngate.trainer.loss.objectives import Reinforce
from turngate.trainer.loss.policy_loss import PolicyLoss


def weights(rules, rho, **columns):
    """Weights of tokens with these ρ; one trajectory of one turn unless said otherwise."""
    rules = rules if isinstance(rules, tuple) else (rules,)
    zeros = [0.0] * len(rho)
    batch = tokens(zeros, sampled=[-math.log(r) for r in rho], proximal_logprob=zeros, **columns)
    return weight_of(rules, batch).tolist()


@pytest.mark.parametrize(
    ("rule", "rho", "expected"),
    [
        (Truncated(), [0.5, 1, 3], [0.5, 1, 2]),
        (Truncated(unit="sequence"), [0.5, 1, 3], [1.5] * 3),
        (Truncated(unit="sequence", cap=1.2), [0.5, 1, 3], [1.2] * 3),
        (Truncated(unit="sequence", reduce="mean"), [0.5, 1, 3], [1.144714] * 3),
        (Masked(), [0.5, 1, 3], [0.5, 1, 0]),
        (Masked(unit="sequence"), [0.5, 1, 3], [1.5] * 3),
        (Masked(unit="sequence"), [1.5, 1, 3], [0] * 3),
        (GeometricRejection(), [0.5, 1, 3], [0] * 3),
        (GeometricRejection(low=0.8, high=1.25), [0.5, 1, 3], [1] * 3),
        (Masked(low=0.5, high=5.0), [0.5, 1, 3], [0.5, 1, 3]),  # IcePop
        (Masked(low=0.5, high=5.0), [0.4, 1, 6], [0, 1, 0]),
        (VetoRejection(), [0.5, 1, 3], [1] * 3),
        (VetoRejection(), [0.5, 1, 9e-5], [0] * 3),
        (DivergenceRejection(), [0.5, 1, 3], [0] * 3),  # the mean of ρ − 1 − log ρ is 0.364845
        (DivergenceRejection(threshold=0.364846), [0.5, 1, 3], [1] * 3),
        (DivergenceRejection(threshold=0.364844), [0.5, 1, 3], [0] * 3),
        (Truncated(), [1.2, 0.9, 3, 1], [1.2, 0.9, 2, 1]),
        (Truncated(unit="sequence", cap=10.0), [1.2, 0.9, 3, 1], [3.24] * 4),
        (Truncated(unit="sequence", reduce="mean"), [1.2, 0.9, 3, 1], [1.341641] * 4),
        (GeometricRejection(low=0.8, high=1.25), [1.2, 0.9, 3, 1], [0] * 4),
    ],
)
def test_worked_numbers(rule, rho, expected):
    assert weights(rule, rho) == pytest.approx(expected, abs=1e-5)


def test_normalising_and_effective_size():
    batch = tokens([0.0] * 3, sampled=np.log([2, 1, 1 / 3]), weight=[0.2, 0.3, 0.5])
    weight = weight_of((Truncated(),), batch) / mean_weight((Truncated(),), batch)
    assert weight.tolist() == pytest.approx([0.428571, 0.857143, 1.714286], abs=1e-5)
    even = tokens([0.0] * 3, sampled=np.log([2, 1, 1 / 2]), weight=[1 / 3] * 3)
    metrics = offpolicy_metrics(even, weight_of((Truncated(),), even))  # weights .5, 1, 2: worth 2.333333 of 3 samples
    share = metrics["offpolicy/weight"] ** 2 / metrics["offpolicy/weight_square"]
    assert 3 * share == pytest.approx(2.333333, abs=1e-5)
    assert mean_weight((Truncated(),), tokens([0.0], weight=[0.0])) == 0.0


def test_normalising_uses_the_mean_of_the_batch_that_was_surveyed():
    batch = tokens([0.0] * 3, sampled=np.log([2, 1, 1 / 3]), advantage=[1.0] * 3)
    loss = PolicyLoss(objective=Reinforce(), correction=(Truncated(),), normalize=True)
    fixed, memory = loss.survey(batch, {"kept": 1.0})
    assert memory == {"kept": 1.0}
    assert flat.gradient(fixed, flat.part(batch, [0, 1])).tolist() == pytest.approx([-0.428571, -0.857143], abs=1e-5)
    assert loss.needs.survey
    assert not PolicyLoss(objective=Reinforce(), correction=(Truncated(),)).needs.survey


def test_the_drift_mask_drops_what_is_bad_and_already_left():
    """Old −1, −1; new −2, −1.5: mean drift .75 > .5."""
    for advantage, kept in ((-1.0, 0), (1.0, 1), (0.0, 1)):
        batch = tokens([-2.0, -1.5], sampled=[-1.0, -1.0], advantage=[advantage] * 2)
        assert weight_of((NegativeDriftMask(),), batch).tolist() == [kept] * 2
    batch = tokens([-2.0, -1.5], sampled=[-1.0, -1.0], advantage=[-1.0, 1.0])
    assert weight_of((NegativeDriftMask(),), batch).tolist() == [0, 1]
    assert weight_of((NegativeDriftMask(delta=0.8),), batch).tolist() == [1, 1]


def test_a_product_over_many_tokens_explodes_and_the_mean_does_not():
    for n, product in ((10, 2.593742), (100, 13780.612340)):
        wide = Truncated(unit="sequence", cap=1e9)
        assert weights(wide, [1.1] * n)[0] == pytest.approx(product, rel=1e-6)
        assert weights(Truncated(unit="sequence", reduce="mean"), [1.1] * n)[0] == pytest.approx(1.1)


def test_turns_are_judged_apart():
    """The first turn is as sampled, the second is not; the third has one token, whose ρ is its mean."""
    rho, turn = [1, 1, 3, 3, 1.2], [0, 0, 1, 1, 2]
    assert weights(GeometricRejection(unit="turn", low=0.8, high=1.25), rho, turn=turn) == [1, 1, 0, 0, 1]
    assert weights(GeometricRejection(low=0.8, high=1.25), rho, turn=turn) == [0] * 5
    assert weights(VetoRejection(unit="turn", floor=0.5), [1, 0.1, 1], turn=[0, 0, 1]) == [0, 0, 1]
    assert weights(Truncated(unit="turn", cap=99.0), rho, turn=turn) == pytest.approx([1, 1, 9, 9, 1.2])
    assert weights(Truncated(unit="turn", reduce="mean", cap=99.0), rho, turn=turn) == pytest.approx([1, 1, 3, 3, 1.2])
    assert weights(DivergenceRejection(unit="turn"), rho, turn=turn) == [1, 1, 0, 0, 0]
    assert weights(Masked(unit="turn"), rho, turn=turn) == pytest.approx([1, 1, 0, 0, 1.2])


def test_a_token_without_policy_weight_decides_nothing():
    assert weights(VetoRejection(), [1, 1e-9], weight=[1.0, 0.0])[0] == 1
    assert weights(Truncated(unit="sequence"), [1.5, 1e9], weight=[1.0, 0.0])[0] == pytest.approx(1.5)


def test_rules_multiply():
    assert weights((Truncated(), Masked(low=0.5, high=5.0)), [0.5, 1, 3]) == pytest.approx([0.25, 1, 6])
    assert weights((Truncated(), VetoRejection(floor=0.6)), [0.5, 1, 3]) == [0] * 3


def test_without_a_snapshot_the_current_policy_stands_for_it_and_gets_no_gradient():
    batch = tokens([0.0, 0.0], sampled=[0.0, -math.log(1.5)])
    weight = weight_of((Truncated(),), batch)
    assert weight.tolist() == pytest.approx([1.0, 1.5])
    assert not weight.requires_grad


def test_what_is_reported():
    batch = tokens([0.0] * 4, sampled=-np.log([0.5, 1, 3, 6]), weight=[0.25] * 4, advantage=[1.0] * 4, total=1.0)
    metrics = offpolicy_metrics(batch, weight_of((Masked(low=0.5, high=5.0),), batch))
    rho = np.array([0.5, 1, 3, 6])
    assert metrics == pytest.approx(
        {
            "offpolicy/weight": 4.5 / 4,
            "offpolicy/weight_square": (0.25 + 1 + 9) / 4,
            "offpolicy/changed_share": 0.75,
            "offpolicy/dropped_share": 0.25,
            "offpolicy/kl_nats": (rho - 1 - np.log(rho)).mean(),
            "offpolicy/chi2": (rho**2).mean() - 1,
        }
    )


RULES = [
    Truncated(),
    Truncated(unit="turn"),
    Truncated(unit="sequence", reduce="mean"),
    Masked(unit="turn", low=0.3, high=3.0),
    GeometricRejection(low=0.7, high=1.4),
    GeometricRejection(unit="turn", low=0.7, high=1.4),
    DivergenceRejection(threshold=0.1),
    VetoRejection(floor=0.5),
]


def loop(rule, batch):
    """The rule, token by token, in floats."""
    n = len(batch.logprob)
    counted = [float(batch.policy_weight[i]) != 0 for i in range(n)]
    rho = [math.exp(float(batch.proximal_logprob[i] - batch.sampled_logprob[i])) for i in range(n)]
    result = []
    for j in range(n):
        unit = rule.unit
        same = [
            i
            for i in range(n)
            if counted[i]
            and batch.segment[i] == batch.segment[j]
            and (unit != "turn" or batch.turn[i] == batch.turn[j])
            and (unit != "token" or i == j)
        ]
        product = math.prod(rho[i] for i in same)
        mean = product ** (1 / len(same)) if same else 1.0
        value = mean if getattr(rule, "reduce", "mean") == "mean" else product
        if isinstance(rule, Truncated):
            result.append(min(value, rule.cap))
        elif isinstance(rule, Masked):
            result.append(value if rule.low <= value <= rule.high else 0.0)
        elif isinstance(rule, GeometricRejection):
            result.append(float(rule.low <= value <= rule.high))
        elif isinstance(rule, VetoRejection):
            result.append(float(all(rho[i] >= rule.floor for i in same)))
        else:
            k3 = [rho[i] - 1 - math.log(rho[i]) for i in same]
            result.append(float(sum(k3) / max(1, len(k3)) <= rule.threshold))
    return result, counted


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(batch=flat.batches(proximal=True))
@settings(max_examples=12)
def test_weights_are_those_of_the_loop(rule, batch):
    expected, counted = loop(rule, batch)
    got = weight_of((rule,), batch).tolist()
    assert [g for g, c in zip(got, counted, strict=True) if c] == pytest.approx(
        [e for e, c in zip(expected, counted, strict=True) if c]
    )


@pytest.mark.parametrize("rule", [*RULES, NegativeDriftMask()], ids=repr)
@given(batch=flat.batches())
@settings(max_examples=10)
def test_as_sampled_every_weight_is_one(rule, batch):
    batch = replace(batch, sampled_logprob=batch.logprob.detach())
    weight = weight_of((rule,), batch)
    metrics = offpolicy_metrics(batch, weight)
    assert weight.tolist() == pytest.approx([1.0] * len(weight))
    assert metrics["offpolicy/dropped_share"] == 0


@pytest.mark.parametrize("rule", [*RULES, NegativeDriftMask()], ids=repr)
@pytest.mark.parametrize("gap", [-500.0, 500.0])
def test_weights_stay_finite(rule, gap):
    batch = tokens([-1.0] * 3, sampled=[gap] * 3, proximal_logprob=[0.0] * 3, advantage=[-1.0] * 3)
    weight = weight_of((rule,), batch)
    metrics = offpolicy_metrics(batch, weight)
    assert weight.isfinite().all()
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: Truncated(cap=0.9), "cap\n  Input should be greater than or equal to 1"),
        (lambda: Truncated(reduce="mean"), "reduce = 'mean' over a single token has no effect"),
        (lambda: Masked(low=1.5), "low\n  Input should be less than or equal to 1"),
        (lambda: Masked(reduce="mean"), "reduce = 'mean' over a single token"),
        (lambda: GeometricRejection(high=0.9), "high\n  Input should be greater than or equal to 1"),
        (lambda: GeometricRejection(unit="token"), "unit\n  Input should be 'turn' or 'sequence'"),
        (lambda: DivergenceRejection(threshold=0.0), "threshold\n  Input should be greater than 0"),
        (lambda: VetoRejection(floor=1.0), "floor\n  Input should be less than 1"),
        (lambda: NegativeDriftMask(delta=0.0), "delta\n  Input should be greater than 0"),
    ],
)
def test_settings_out_of_range_are_refused(build, problem):
    with pytest.raises(ValueError, match=problem):
        build()
