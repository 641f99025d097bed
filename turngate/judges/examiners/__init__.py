"""Examining: the stage between play and score.

An examiner looks at the episodes that were played, may ask models about them, and returns facts, which are recorded as
evidence. Everything slow or random has therefore happened before scoring, and a run can be scored again without models.

``base`` defines what an examiner is, ``run`` calls examiners, ``facts`` checks what they return. ``judged`` is shared
by those that ask a judge, ``recorded`` by several that read recorded evidence. Every other module holds examiners.
"""

from turngate.judges.examiners.adherence import Adherence
from turngate.judges.examiners.appeals import Appeals
from turngate.judges.examiners.base import ExamineContext, Examiner, Facts
from turngate.judges.examiners.cost_window import CostWindow
from turngate.judges.examiners.judged_goals import JudgedGoals
from turngate.judges.examiners.likelihood import Likelihood
from turngate.judges.examiners.majority import Majority
from turngate.judges.examiners.nuggets import Nuggets
from turngate.judges.examiners.pairwise import Pairwise
from turngate.judges.examiners.paraphrase_votes import ParaphraseVotes
from turngate.judges.examiners.pointwise import Panel, Pointwise
from turngate.judges.examiners.probing import ForcedAnswers
from turngate.judges.examiners.steps import Steps
from turngate.judges.examiners.tournament import Tournament
from turngate.judges.examiners.weighted_tests import WeightedTests

__all__ = [
    "Adherence",
    "Appeals",
    "CostWindow",
    "ExamineContext",
    "Examiner",
    "Facts",
    "ForcedAnswers",
    "JudgedGoals",
    "Likelihood",
    "Majority",
    "Nuggets",
    "Pairwise",
    "Panel",
    "ParaphraseVotes",
    "Pointwise",
    "Steps",
    "Tournament",
    "WeightedTests",
]
