"""Asides: rows that are learned beside the episodes of a step, by cross-entropy, towards a teacher, or
by preference.

Each kind is normalised by its own tokens or pairs, so long rows cannot own the step, and the norm of each gradient is
logged before they are added.

* ``base``: what an aside is; ``learning``, ``preference``: losses and updates;
* ``relift``, ``oracle_share``, ``interventions``, ``kdrl``, ``thoughts``, ``lessons``, ``episode_pairs``: the asides.
"""

from turngate.trainer.aside.base import AsideMeans, AsidePart, AsideRow, AsideRows, AsideSource, check_asides, row_of
from turngate.trainer.aside.episode_pairs import EpisodePairs
from turngate.trainer.aside.interventions import Interventions
from turngate.trainer.aside.kdrl import Kdrl
from turngate.trainer.aside.learning import Asides
from turngate.trainer.aside.lessons import Lessons
from turngate.trainer.aside.oracle_share import OracleDemonstrations
from turngate.trainer.aside.preference import Preference
from turngate.trainer.aside.relift import Relift
from turngate.trainer.aside.thoughts import Gtr

__all__ = [
    "AsideMeans",
    "AsidePart",
    "AsideRow",
    "AsideRows",
    "AsideSource",
    "Asides",
    "EpisodePairs",
    "Gtr",
    "Interventions",
    "Kdrl",
    "Lessons",
    "OracleDemonstrations",
    "Preference",
    "Relift",
    "check_asides",
    "row_of",
]
