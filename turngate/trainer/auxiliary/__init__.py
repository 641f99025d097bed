"""Auxiliary losses: rows that are learned beside the episodes of a step, by cross-entropy, towards a teacher, or
by preference.

Each kind is normalised by its own tokens, pairs or episodes, so long rows cannot own the step, and the norm of each
gradient is logged before they are added.

* ``base``: what an auxiliary loss is; ``learning``, ``preference``: losses and updates; ``pairing``: which episodes are
  pairs;
* ``relift``, ``oracle_share``, ``interventions``, ``kdrl``, ``thoughts``, ``lessons``, ``relabelled``,
  ``episode_pairs``, ``taught_attempts``: the auxiliary losses.
"""

from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryPart,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    row_of,
)
from turngate.trainer.auxiliary.episode_pairs import CplPairs, EpisodePairs, KtoEpisodes, PrdpPairs
from turngate.trainer.auxiliary.interventions import Interventions
from turngate.trainer.auxiliary.kdrl import Kdrl
from turngate.trainer.auxiliary.learning import AuxiliaryLosses
from turngate.trainer.auxiliary.lessons import Lessons
from turngate.trainer.auxiliary.oracle_share import OracleDemonstrations
from turngate.trainer.auxiliary.pairing import Pair, pairs_of
from turngate.trainer.auxiliary.preference import Contrast, Cpl, Kto, Prdp, Preference
from turngate.trainer.auxiliary.relabelled import Relabelling
from turngate.trainer.auxiliary.relift import Relift
from turngate.trainer.auxiliary.taught_attempts import RiseTeacher
from turngate.trainer.auxiliary.thoughts import Gtr

__all__ = [
    "AuxiliaryContext",
    "AuxiliaryLosses",
    "AuxiliaryPart",
    "AuxiliaryRow",
    "AuxiliaryRows",
    "AuxiliarySource",
    "Contrast",
    "Cpl",
    "CplPairs",
    "EpisodePairs",
    "Gtr",
    "Interventions",
    "Kdrl",
    "Kto",
    "KtoEpisodes",
    "Lessons",
    "OracleDemonstrations",
    "Pair",
    "Prdp",
    "PrdpPairs",
    "Preference",
    "Relabelling",
    "Relift",
    "RiseTeacher",
    "pairs_of",
    "row_of",
]
