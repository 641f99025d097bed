"""Guidance: a guide decides which episodes get help, such as a hint or the first turns of a solution.

It plans the first wave of episodes of each task, and may ask for further ones when it has seen the results. Credit
compares guided siblings with guided ones only, unguided with unguided, unless the guide says that they join. Evaluation
never asks a guide.

* ``base``: what a guide is, and what it gets to work with; ``plan``: what it answers; ``results``: what it reads;
* ``hint_guides``: hints of the environment; ``solutions``: parts of a solution as text, and whole ones as siblings;
  ``prefixes``, ``prefix_schedules``: a solution acts first; ``seele``: as much help as makes half of them succeed;
  ``reflect``: retries from a turn; ``screening``: more episodes for some tasks.
"""

from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need, NoGuide, NoGuidePart, Remembering
from turngate.trainer.guidance.experience import MemoryGuide, MemoryGuidePart
from turngate.trainer.guidance.hindsight import HindsightPart
from turngate.trainer.guidance.hint_guides import GuideGrpoPart, LadderPart, SageLightPart, SagePart
from turngate.trainer.guidance.meta_experience import MetaExperiencePart
from turngate.trainer.guidance.pilot import PilotPart
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.prefix_schedules import G2rpoAPart, ReverseCurriculumPart
from turngate.trainer.guidance.prefixes import BreadPart, OraclePrefixPart, StepHintPart
from turngate.trainer.guidance.reflect import ReflectPart
from turngate.trainer.guidance.screening import SpeedPart
from turngate.trainer.guidance.second_policy import SecondPolicyPart
from turngate.trainer.guidance.seele import SeelePart
from turngate.trainer.guidance.self_hints import SelfHintsPart
from turngate.trainer.guidance.self_reflection import SelfReflectionPart
from turngate.trainer.guidance.solutions import AcnchorPart, GhpoPart, LuffyPart, QuestAPart
from turngate.trainer.guidance.teacher import TeacherPart

__all__ = [
    "AcnchorPart",
    "BreadPart",
    "Entry",
    "G2rpoAPart",
    "GhpoPart",
    "Guide",
    "GuideGrpoPart",
    "GuidePart",
    "Helpers",
    "HindsightPart",
    "LadderPart",
    "LuffyPart",
    "MemoryGuide",
    "MemoryGuidePart",
    "MetaExperiencePart",
    "Need",
    "NoGuide",
    "NoGuidePart",
    "OraclePrefixPart",
    "PilotPart",
    "Plan",
    "PrefixTurns",
    "QuestAPart",
    "ReflectPart",
    "Remembering",
    "ReverseCurriculumPart",
    "SageLightPart",
    "SagePart",
    "SecondPolicyPart",
    "SeelePart",
    "SelfHintsPart",
    "SelfReflectionPart",
    "SpeedPart",
    "StepHintPart",
    "TeacherPart",
]
