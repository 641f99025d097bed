"""Curricula: which tasks a step plays, by the results of earlier unaided episodes.

A part that ships is named here, so that a config finds it by its type.
"""

from turngate.trainer.curriculum.base import Curriculum, CurriculumPart, Supply, TaskPool, pool_of
from turngate.trainer.curriculum.choosing import BandPart, LearnabilityPart, PoolCurriculum, PoolPart
from turngate.trainer.curriculum.predicted import PclPart
from turngate.trainer.curriculum.retrieval import Ur2Part
from turngate.trainer.curriculum.skipping import GresoPart
from turngate.trainer.curriculum.source_bandit import DumpPart
from turngate.trainer.curriculum.task_order import InOrderPart, TaskStream, shares

__all__ = [
    "BandPart",
    "Curriculum",
    "CurriculumPart",
    "DumpPart",
    "GresoPart",
    "InOrderPart",
    "LearnabilityPart",
    "PclPart",
    "PoolCurriculum",
    "PoolPart",
    "Supply",
    "TaskPool",
    "TaskStream",
    "Ur2Part",
    "pool_of",
    "shares",
]
