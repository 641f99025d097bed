"""The loss: one objective, corrections, penalties, and ``PolicyLoss``, which puts them together.

Importing this package defines every shipped part and loads no torch, which is imported when a loss is computed.

* ``tokens``: the data that a loss is computed from; ``base``: the families of parts;
* ``objectives``, ``imitation``, ``covariance``, ``thought_ratio``, ``corrections``, ``entropy``, ``kl``,
  ``convex_kl``, ``shaping``: the parts;
* ``policy_loss``: puts the parts together; ``settings``: the section ``loss`` of a config.
"""

from turngate.trainer.loss.base import Correction, Gain, Objective, Penalty, Shaping
from turngate.trainer.loss.convex_kl import ConvexKl
from turngate.trainer.loss.corrections import (
    DivergenceRejection,
    GeometricRejection,
    Masked,
    NegativeDriftMask,
    Truncated,
    VetoRejection,
)
from turngate.trainer.loss.covariance import ClipCov, KlCov
from turngate.trainer.loss.entropy import EntropyBonus, Siren
from turngate.trainer.loss.imitation import ALol, NoObjective, WeighedImitation
from turngate.trainer.loss.kl import KlPenalty
from turngate.trainer.loss.objectives import Cispo, Clipped, Gmpo, Gspo, Reinforce, Sapo, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.settings import LossSettings
from turngate.trainer.loss.shaping import RlPlus, Shaped
from turngate.trainer.loss.thought_ratio import GtrClipped
from turngate.trainer.loss.tokens import Loss, Needs, Tokens, needs_of

__all__ = [
    "ALol",
    "Cispo",
    "ClipCov",
    "Clipped",
    "ConvexKl",
    "Correction",
    "DivergenceRejection",
    "EntropyBonus",
    "Gain",
    "GeometricRejection",
    "Gmpo",
    "Gspo",
    "GtrClipped",
    "KlCov",
    "KlPenalty",
    "Loss",
    "LossSettings",
    "Masked",
    "Needs",
    "NegativeDriftMask",
    "NoObjective",
    "Objective",
    "Penalty",
    "PolicyLoss",
    "Reinforce",
    "RlPlus",
    "Sapo",
    "Shaped",
    "Shaping",
    "SimKo",
    "Siren",
    "Tokens",
    "Truncated",
    "VetoRejection",
    "WeighedImitation",
    "needs_of",
]
