"""Examining: the stage between play and score.

An examiner looks at what was played, may ask models, and returns facts that are recorded before scoring. So whatever is
slow, random or live has happened when a rubric reads the evidence, and a run is scored again without it. ``base`` is
the seam; every other module holds examiners.
"""

from turngate.examine.likelihood import Likelihood
from turngate.examine.probing import ForcedAnswers
from turngate.examine.test_weights import WeightedTests

__all__ = ["ForcedAnswers", "Likelihood", "WeightedTests"]
