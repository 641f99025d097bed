"""Asides: rows that are learned beside the episodes of a step, by cross-entropy, towards a teacher, or
by preference.

Each kind is normalised by its own tokens, pairs or episodes, so long rows cannot own the step, and the norm of each
gradient is logged before they are added.

* ``base``: what an aside is; ``learning``, ``preference``: losses and updates; ``pairing``: which episodes are pairs;
* ``relift``, ``oracle_share``, ``interventions``, ``kdrl``, ``thoughts``, ``lessons``, ``relabelled``,
  ``episode_pairs``, ``taught_attempts``: the asides.
"""

from turngate.trainer.aside.base import AsideMeans, AsidePart, AsideRow, AsideRows, AsideSource, check_asides, row_of
from turngate.trainer.aside.episode_pairs import CplPairs, EpisodePairs, KtoEpisodes, PrdpPairs
from turngate.trainer.aside.interventions import Interventions
from turngate.trainer.aside.kdrl import Kdrl
from turngate.trainer.aside.learning import Asides
from turngate.trainer.aside.lessons import Lessons
from turngate.trainer.aside.oracle_share import OracleDemonstrations
from turngate.trainer.aside.pairing import Pair, pairs_of
from turngate.trainer.aside.preference import Contrast, Cpl, Kto, Prdp, Preference
from turngate.trainer.aside.relabelled import Relabelling
from turngate.trainer.aside.relift import Relift
from turngate.trainer.aside.taught_attempts import RiseTeacher
from turngate.trainer.aside.thoughts import Gtr

__all__ = [
    "AsideMeans",
    "AsidePart",
    "AsideRow",
    "AsideRows",
    "AsideSource",
    "Asides",
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
    "check_asides",
    "pairs_of",
    "row_of",
]
