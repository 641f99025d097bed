"""Examining: the stage between play and score.

An examiner looks at what was played, may ask models, and returns facts that are recorded before scoring. So whatever is
slow, random or live has happened when a rubric reads the evidence, and a run is scored again without it. ``base`` is
the seam, ``run`` calls the examiners, ``facts`` says what of their answers is recorded, ``judged`` is what those that
ask a judge have in common, ``recorded`` what several read off an episode; every other module holds examiners.
"""

from turngate.examine.appeals import Appeals
from turngate.examine.base import Desk, Examiner, Facts
from turngate.examine.likelihood import Likelihood
from turngate.examine.majority import Majority
from turngate.examine.pairwise import Pairwise
from turngate.examine.paraphrase_votes import ParaphraseVotes
from turngate.examine.pointwise import Panel, Pointwise
from turngate.examine.probing import ForcedAnswers
from turngate.examine.steps import Steps
from turngate.examine.tournament import Tournament
from turngate.examine.weighted_tests import WeightedTests

__all__ = [
    "Appeals",
    "Desk",
    "Examiner",
    "Facts",
    "ForcedAnswers",
    "Likelihood",
    "Majority",
    "Pairwise",
    "Panel",
    "ParaphraseVotes",
    "Pointwise",
    "Steps",
    "Tournament",
    "WeightedTests",
]
