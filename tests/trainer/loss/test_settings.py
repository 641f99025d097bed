"""The section ``loss`` of a config: what is written acts, and what would do nothing is refused with its key."""

import subprocess
import sys

import pytest

from turngate.config.run_config import dump, load, parse
from turngate.errors import ConfigError
from turngate.field_help import field_help
from turngate.trainer.loss.base import Correction, Objective, Penalty
from turngate.trainer.loss.corrections import Masked, NegativeDriftMask, Truncated, VetoRejection
from turngate.trainer.loss.covariance import ClipCov, KlCov
from turngate.trainer.loss.entropy import EntropyBonus, Siren
from turngate.trainer.loss.kl import KlPenalty
from turngate.trainer.loss.objectives import Cispo, Clipped, Gmpo, Gspo, Reinforce, Sapo, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.settings import LossSettings


def config(loss):
    return parse({"warm_start": {"episodes": 3}, "seed": 5, "loss": loss})


def built(**loss):
    return config(loss).loss.policy_loss(seed=5)


def problem(**loss):
    with pytest.raises(ConfigError) as caught:
        config(loss)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "objective"),
    [
        ({"clip_low": 0.1, "clip_high": 0.3, "dual_clip": 5}, Clipped(clip_low=0.1, clip_high=0.3, dual_clip=5.0)),
        ("gspo", Gspo()),
        ({"type": "gspo", "unit": "turn", "clip_low": 0.1}, Gspo(unit="turn", clip_low=0.1)),
        ({"type": "cispo", "floor": 0.8, "cap": 1.28}, Cispo(floor=0.8, cap=1.28)),
        ({"type": "gmpo", "unit": "turn", "clip_high": 0.2}, Gmpo(unit="turn", clip_high=0.2)),
        ({"type": "sapo", "tau_positive": 2, "tau_negative": 3}, Sapo(tau_positive=2.0, tau_negative=3.0)),
        ("reinforce", Reinforce()),
        ({"type": "kl_cov", "share": 0.1, "coef": 2}, KlCov(share=0.1, coef=2.0)),
        ({"type": "clip_cov", "low": 2, "high": 3}, ClipCov(low=2.0, high=3.0)),
        ({"type": "simko", "candidates": 5, "boost": 2}, SimKo(candidates=5, boost=2.0)),
    ],
)
def test_an_objective_is_a_table_or_a_name(written, objective):
    assert built(objective=written) == PolicyLoss(objective=objective, seed=5)


def test_defaults_are_those_of_the_papers():
    """Written out, because a default that moves changes every run that does not set it."""
    assert built() == PolicyLoss(objective=Clipped(clip_low=0.2, clip_high=0.28, dual_clip=3.0), seed=5)
    written = {name: Objective.catalogue()[name]().settings() for name in Objective.names()}
    assert written == {
        "clipped": {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0},
        "gspo": {"unit": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
        "cispo": {"floor": 0.0, "cap": 5.0},
        "gmpo": {"unit": "sequence", "clip_low": 0.4, "clip_high": 0.4},
        "gtr": {"thought_weight": 0.5, "clip": 0.1, "largest": 10.0},
        "sapo": {"tau_positive": 1.0, "tau_negative": 1.05},
        "reinforce": {},
        "imitation": {},
        "a_lol": {"unit": "sequence", "against": "reference", "floor": 0.1, "cap": 1.9},
        "none": {},
        "kl_cov": {"share": 0.002, "coef": 1.0},
        "clip_cov": {"clip_low": 0.2, "clip_high": 0.2, "share": 2e-4, "low": 1.0, "high": 5.0},
        "simko": {
            "clip_low": 0.2,
            "clip_high": 0.28,
            "dual_clip": 3.0,
            "alpha": 0.01,
            "candidates": 3,
            "quantile": 0.8,
            "boost": 1.1,
        },
    }
    written = {name: Correction.catalogue()[name]().settings() for name in Correction.names()}
    assert written == {
        "tis": {"unit": "token", "reduce": "product", "cap": 2.0},
        "mis": {"unit": "token", "reduce": "product", "low": 0.5, "high": 2.0},
        "geometric": {"unit": "sequence", "low": 0.999, "high": 1.001},
        "divergence": {"unit": "sequence", "threshold": 0.01},
        "veto": {"unit": "sequence", "floor": 1e-4},
        "negative_drift": {"unit": "sequence", "delta": 0.5},
    }
    assert Penalty.names() == {"entropy", "kl", "kl_convex", "siren"}
    assert KlPenalty().settings() == {
        "coef": 1e-3,
        "estimator": "k3",
        "gradient": "exact",
        "target": None,
        "horizon": None,
    }
    assert Siren().settings() == {"coef": 0.005, "nucleus": 0.8, "peak": 0.8, "anchor": None}


def test_corrections_are_a_list():
    tis = {"type": "tis", "unit": "turn", "reduce": "mean", "cap": 5}
    loss = built(correction=[tis, "mis", {"type": "veto", "floor": 0.1}], decoupled=True, normalize=True)
    assert loss.correction == (Truncated(unit="turn", reduce="mean", cap=5.0), Masked(), VetoRejection(floor=0.1))
    assert loss.decoupled
    assert loss.normalize


def test_penalties_are_a_list():
    loss = built(
        penalties=[
            {"type": "entropy", "coef": 0.1},
            {"type": "kl", "coef": 0.1, "target": 0.2, "horizon": 50},
            {"type": "siren", "anchor": 1.5},
        ]
    )
    expected = (EntropyBonus(coef=0.1), KlPenalty(coef=0.1, target=0.2, horizon=50), Siren(anchor=1.5))
    assert loss.penalties == expected


def test_a_reference_model_is_needed_by_some_penalties_only():
    assert config({"penalties": ["siren", "kl"]}).loss.needs_reference
    assert not config({"penalties": ["siren", {"type": "entropy", "coef": 0.1}]}).loss.needs_reference


@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn", "sum", 4096])
def test_the_aggregate_is_read_as_written(aggregate):
    assert config({"aggregate": aggregate}).loss.aggregate == aggregate


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"objective": "gspoo"}, "loss.objective: unknown objective type 'gspoo'; did you mean 'gspo' or"),
        ({"objective": {"clip_lo": 1}}, "unknown key 'loss.objective.clip_lo'; did you mean 'clip_low'?"),
        (
            {"objective": {"type": "reinforce", "clip_low": 1}},
            "unknown key 'loss.objective.clip_low'; known: type",
        ),
        (
            {"type": "gspo"},
            "unknown key 'loss.type'; known: aggregate, correction, decoupled, experts, guided, normalize,",
        ),
        (
            {"objective": {"clip_low": 3}},
            "loss.objective.clip_low: Input should be less than or equal to 1, got 3",
        ),
        ({"objective": {"type": "clip_cov", "low": 6}}, "loss.objective: low 6.0 is not below high 5.0"),
        ({"aggregate": 0}, "loss.aggregate"),
        (
            {"correction": [{"cap": 1}]},
            "loss.correction[0]: a correction needs a type; known: divergence, geometric, mis, negative_drift, tis",
        ),
        ({"correction": ["tiss"]}, "loss.correction[0]: unknown correction type 'tiss'; did you mean 'tis'"),
        ({"correction": [{"type": "veto", "flor": 1}]}, "unknown key 'loss.correction[0].flor'; did you mean 'floor'?"),
        (
            {"correction": ["tis"]},
            "loss: correction 'tis' weighs by the ratio to the sampler, which objective",
        ),
        ({"objective": "sapo", "correction": ["veto", "mis"]}, "loss: correction 'mis' weighs by the ratio"),
        ({"normalize": True}, "loss: normalize has no effect without a correction"),
        ({"objective": "reinforce", "decoupled": True}, "loss: decoupled without a correction has no effect"),
        (
            {"correction": [{"type": "tis", "reduce": "mean"}]},
            "loss.correction[0]: reduce = 'mean' over a single token has no effect",
        ),
        (
            {"penalties": [{"type": "kl", "coef": 0}]},
            "loss.penalties[0].coef: Input should be greater than 0, got 0",
        ),
        (
            {"penalties": [{"type": "kl", "target": 0.1}]},
            "loss.penalties[0]: an adaptive coefficient needs both target and horizon",
        ),
        (
            {"penalties": [{"type": "kl", "estimator": "k1", "gradient": "estimator"}]},
            "loss.penalties[0]: k1 differentiated has gradient 0",
        ),
        ({"penalties": ["entropy"]}, "key 'loss.penalties[0].coef' is missing"),
        ({"penalties": ["kl", "siren", "kl"]}, "loss: penalty 'kl' is listed 2 times; list it once"),
        (
            {"penalties": [{"type": "siren", "coef": 0}]},
            "loss.penalties[0].coef: Input should be greater than 0, got 0",
        ),
        ({"penalties": ["klh"]}, "loss.penalties[0]: unknown penalty type 'klh'; did you mean 'kl'?"),
        (
            {"objective": {"type": "simko", "alpha": 0, "boost": 1}},
            "loss.objective: alpha = 0 and boost = 1 do nothing beyond",
        ),
    ],
)
def test_what_is_wrong_or_does_nothing_is_one_line(loss, message):
    assert problem(**loss).startswith(message)


def test_what_needs_no_snapshot():
    assert built(correction=["veto", "negative_drift"]).correction == (VetoRejection(), NegativeDriftMask())
    assert built(objective="reinforce", correction=["tis"]).correction == (Truncated(),)


def test_what_is_dumped_is_read_back(tmp_path):
    first = config(
        {
            "objective": "gspo",
            "aggregate": 512,
            "decoupled": True,
            "correction": [{"type": "tis", "unit": "turn"}, "veto"],
            "penalties": [{"type": "kl", "coef": 0.1}, "siren"],
        }
    )
    (tmp_path / "config.toml").write_text(dump(first))
    assert load(tmp_path / "config.toml") == first
    changed = load(tmp_path / "config.toml", ["--loss.objective.clip_high=0.2", "--loss.penalties=['siren']"])
    assert changed.loss.objective == Gspo(clip_high=0.2)
    assert changed.loss.penalties == (Siren(),)


def test_every_part_and_every_setting_of_it_is_explained():
    parts = [kind for family in (Objective, Correction, Penalty) for kind in map(family.find, family.names())]
    assert len(parts) == 23
    for model in (LossSettings, *parts):
        assert model.__doc__
        assert [name for name in model.model_fields if name != "type" and not field_help(model, name)] == []


def test_importing_the_loss_and_reading_a_config_of_it_load_no_torch():
    program = """
import sys
from turngate.trainer.loss.settings import LossSettings
kinds = ["clipped", "gspo", "cispo", "gmpo", "gtr", "sapo", "reinforce", "kl_cov", "clip_cov", "simko"]
for kind in kinds:
    data = {"objective": kind, "correction": ["veto", "geometric"], "penalties": ["kl", "siren"], "decoupled": True}
    LossSettings.model_validate(data).policy_loss(seed=0).needs
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
