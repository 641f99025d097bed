"""Asides: rows that are learned beside the episodes of a step, by cross-entropy or towards a teacher.

Each kind is normalised by its own tokens, so long rows cannot own the step, and the norm of each gradient is logged
before they are added.

* ``base``: what an aside is; ``learning``: losses and updates;
* ``relift``, ``oracle_share``, ``interventions``, ``kdrl``, ``thoughts``: the asides.
"""

from turngate.trainer.aside.base import AsideMeans, AsidePart, AsideRow, AsideRows, AsideSource, check_asides, row_of
from turngate.trainer.aside.interventions import Interventions
from turngate.trainer.aside.kdrl import Kdrl
from turngate.trainer.aside.learning import Asides
from turngate.trainer.aside.lessons import Lessons
from turngate.trainer.aside.oracle_share import OracleDemonstrations
from turngate.trainer.aside.relift import Relift
from turngate.trainer.aside.thoughts import Gtr

__all__ = [
    "AsideMeans",
    "AsidePart",
    "AsideRow",
    "AsideRows",
    "AsideSource",
    "Asides",
    "Gtr",
    "Interventions",
    "Kdrl",
    "Lessons",
    "OracleDemonstrations",
    "Relift",
    "check_asides",
    "row_of",
]
