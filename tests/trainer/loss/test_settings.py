"""The loss of a config: what is written is what is built, and what would do nothing is refused."""

import pytest
from pydantic import BaseModel

from turngate.build import build_loss
from turngate.config import dump, load, parse
from turngate.errors import ConfigError
from turngate.trainer.loss.corrections import (
    Correction,
    DivergenceRejection,
    GeometricRejection,
    Masked,
    NegativeDriftMask,
    Truncated,
    Veto,
)
from turngate.trainer.loss.covariance import ClipCov, KlCov
from turngate.trainer.loss.entropy import EntropyBonus, Siren
from turngate.trainer.loss.kl import KlPenalty
from turngate.trainer.loss.objectives import Cispo, Clipped, Gmpo, Gspo, Reinforce, Sapo, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.settings import CorrectionRule, LossSection
from turngate.types import derive_seed


def config(loss):
    return parse({"warm_start": {"episodes": 3}, "seed": 5, "loss": loss})


def built(**loss):
    return build_loss(config(loss))


def problem(**loss):
    with pytest.raises(ConfigError) as caught:
        config(loss)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        ({}, Clipped()),
        ({"clip_low": 0.1, "clip_high": 0.3, "dual_clip": 5}, Clipped(clip_low=0.1, clip_high=0.3, dual_clip=5.0)),
        ({"type": "gspo"}, Gspo()),
        ({"type": "gspo", "unit": "turn", "clip_low": 0.1}, Gspo(unit="turn", clip_low=0.1)),
        ({"type": "cispo"}, Cispo()),
        ({"type": "cispo", "floor": 0.8, "cap": 1.28}, Cispo(floor=0.8, cap=1.28)),
        ({"type": "gmpo"}, Gmpo()),
        ({"type": "gmpo", "unit": "turn", "clip_high": 0.2}, Gmpo(unit="turn", clip_high=0.2)),
        ({"type": "sapo"}, Sapo()),
        ({"type": "sapo", "tau_positive": 2, "tau_negative": 3}, Sapo(tau_positive=2.0, tau_negative=3.0)),
        ({"type": "reinforce"}, Reinforce()),
        ({"type": "kl_cov"}, KlCov()),
        ({"type": "kl_cov", "share": 0.1, "coef": 2}, KlCov(share=0.1, coef=2.0)),
        ({"type": "clip_cov"}, ClipCov(seed=derive_seed(5, "clip_cov"))),
        ({"type": "clip_cov", "low": 2, "high": 3}, ClipCov(low=2.0, high=3.0, seed=derive_seed(5, "clip_cov"))),
        ({"type": "simko"}, SimKo()),
        (
            {"type": "simko", "alpha": 0.1, "candidates": 5, "quantile": 0.5, "boost": 2},
            SimKo(alpha=0.1, candidates=5, quantile=0.5, boost=2.0),
        ),
    ],
)
def test_objectives(loss, objective):
    """Defaults of the settings are those of the objectives."""
    assert built(**loss) == PolicyLoss(objective=objective)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"type": "tis", "unit": "turn", "reduce": "mean", "cap": 5}, Truncated(unit="turn", reduce="mean", cap=5.0)),
        ({"type": "tis"}, Truncated()),
        ({"type": "mis"}, Masked()),
        ({"type": "mis", "low": 0.4, "high": 5}, Masked(low=0.4, high=5.0)),
        ({"type": "geometric"}, GeometricRejection()),
        ({"type": "geometric", "unit": "turn", "low": 0.8}, GeometricRejection(unit="turn", low=0.8)),
        ({"type": "divergence"}, DivergenceRejection()),
        ({"type": "divergence", "threshold": 0.1}, DivergenceRejection(threshold=0.1)),
        ({"type": "veto"}, Veto()),
        ({"type": "veto", "floor": 0.1}, Veto(floor=0.1)),
        ({"type": "negative_drift"}, NegativeDriftMask()),
        ({"type": "negative_drift", "delta": 0.1}, NegativeDriftMask(delta=0.1)),
    ],
)
def test_corrections(rule, expected):
    loss = built(correction=[rule], decoupled=True, normalize=True)
    assert loss.correction == Correction(rules=(expected,), normalize=True)
    assert loss.decoupled


def test_penalties():
    loss = built(entropy_bonus=0.1, kl={"coef": 0.1, "target": 0.2, "horizon": 50}, siren={"anchor": 1.5})
    assert loss.penalties == (
        EntropyBonus(coef=0.1),
        KlPenalty(coef=0.1, target=0.2, horizon=50),
        Siren(anchor=1.5),
    )
    assert built(kl={}, siren={}).penalties == (KlPenalty(), Siren())
    assert built(kl={"estimator": "k2", "gradient": "estimator"}).penalties == (
        KlPenalty(estimator="k2", gradient="estimator"),
    )


@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn", "sum", 4096])
def test_the_aggregate_is_read_as_written(aggregate):
    assert config({"aggregate": aggregate}).loss.aggregate == aggregate


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"type": "gspoo"}, "unknown loss 'gspoo'; did you mean 'gspo'?"),
        ({"clip_lo": 1}, "unknown key 'loss.clip_lo'; did you mean 'clip_low'?"),
        ({"type": "reinforce", "clip_low": 1}, "unknown key 'loss.clip_low'"),
        ({"clip_low": 3}, "loss.clip_low: Input should be less than or equal to 1, got 3"),
        ({"type": "clip_cov", "low": 6}, "loss: low 6.0 is not below high 5.0"),
        ({"aggregate": 0}, "loss.aggregate"),
        (
            {"correction": [{"cap": 1}]},
            "'loss.correction.0' needs a type; known: tis, mis, geometric, divergence, veto",
        ),
        ({"correction": [{"type": "tiss"}]}, "unknown loss.correction.0 'tiss'; did you mean 'tis'?"),
        ({"correction": [{"type": "veto", "flor": 1}]}, "unknown key 'loss.correction.0.flor'; did you mean 'floor'?"),
        ({"correction": [{"type": "tis"}]}, "loss: tis and mis would count the ratio twice; add decoupled = true"),
        ({"type": "sapo", "correction": [{"type": "veto"}, {"type": "mis"}]}, "loss: tis and mis would count"),
        ({"normalize": True}, "loss: normalize without a correction has no effect"),
        ({"type": "reinforce", "decoupled": True}, "loss: decoupled without a correction has no effect"),
        (
            {"correction": [{"type": "tis", "reduce": "mean"}]},
            "loss.correction.0: reduce = 'mean' over a single token has no effect",
        ),
        ({"kl": {"coef": 0}}, "loss.kl.coef: Input should be greater than 0, got 0"),
        ({"kl": {"target": 0.1}}, "loss.kl: an adaptive weight needs both target and horizon"),
        ({"kl": {"estimator": "k1", "gradient": "estimator"}}, "loss.kl: k1 differentiated has gradient 0"),
        ({"siren": {"coef": 0}}, "loss.siren.coef: Input should be greater than 0, got 0"),
        ({"type": "simko", "alpha": 0, "boost": 1}, "loss: alpha = 0 and boost = 1 do nothing beyond"),
    ],
)
def test_what_is_wrong_or_does_nothing_is_one_line(loss, message):
    assert problem(**loss).startswith(message)


def test_what_needs_no_snapshot():
    assert built(correction=[{"type": "veto"}, {"type": "negative_drift"}]).correction is not None
    assert built(type="reinforce", correction=[{"type": "tis"}]).correction == Correction(rules=(Truncated(),))


def test_what_is_dumped_is_read_back(tmp_path):
    first = config(
        {
            "type": "gspo",
            "aggregate": 512,
            "decoupled": True,
            "correction": [{"type": "tis", "unit": "turn"}, {"type": "veto"}],
            "kl": {"coef": 0.1},
            "siren": {},
        }
    )
    (tmp_path / "config.toml").write_text(dump(first))
    assert load(tmp_path / "config.toml") == first
    assert load(tmp_path / "config.toml", ["--loss.kl.coef=0.2"]).loss.kl.coef == 0.2


def test_every_setting_of_every_loss_is_explained():
    sections = [model for union in (LossSection, CorrectionRule) for model in members(union)]
    assert len(sections) == 15
    for section in sections:
        assert section.__doc__
        assert [name for name, field in section.model_fields.items() if name != "type" and not field.description] == []


def members(union):
    return [model for model in union.__origin__.__args__ if issubclass(model, BaseModel)]


def test_no_loss_has_more_settings_than_one_can_read():
    """A run has one of them, with one of each correction."""
    sizes = {model.__name__: len(model.model_fields) for model in members(LossSection)}
    assert max(sizes.values()) == sizes["SimKoSection"] == 15
    assert max(len(model.model_fields) for model in members(CorrectionRule)) == 5
