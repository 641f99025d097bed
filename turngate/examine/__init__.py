"""Examining: the stage between play and score.

An examiner looks at the episodes that were played, may ask models about them, and returns facts, which are recorded as
evidence. Everything slow or random has therefore happened before scoring, and a run can be scored again without models.

``base`` defines what an examiner is, ``run`` calls examiners, ``facts`` checks what they return. ``judged`` is shared
by those that ask a judge, ``recorded`` by several that read recorded evidence. Every other module holds examiners.
"""

from turngate.examine.adherence import Adherence
from turngate.examine.appeals import Appeals
from turngate.examine.base import ExamineContext, Examiner, Facts
from turngate.examine.cost_window import CostWindow
from turngate.examine.judged_goals import JudgedGoals
from turngate.examine.likelihood import Likelihood
from turngate.examine.majority import Majority
from turngate.examine.nuggets import Nuggets
from turngate.examine.pairwise import Pairwise
from turngate.examine.paraphrase_votes import ParaphraseVotes
from turngate.examine.pointwise import Panel, Pointwise
from turngate.examine.probing import ForcedAnswers
from turngate.examine.steps import Steps
from turngate.examine.tournament import Tournament
from turngate.examine.weighted_tests import WeightedTests

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
