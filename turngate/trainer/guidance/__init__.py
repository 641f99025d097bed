"""Guidance: a guide decides which episodes get help, such as a hint or the first turns of a solution.

It plans the first wave of episodes of each task, and may ask for further ones when it has seen the results. Credit
compares guided siblings with guided ones only, unguided with unguided, unless the guide says that they join. Evaluation
never asks a guide.
"""

from turngate.agents.forced import Entry, Forced
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need, NoGuide, NoGuidePart, Remembering
from turngate.trainer.guidance.experience import MemoryGuide, MemoryGuidePart
from turngate.trainer.guidance.meta_experience import MetaExperiencePart
from turngate.trainer.guidance.pilot import PilotPart
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.self_hints import SelfHintsPart
from turngate.trainer.guidance.teacher import TeacherPart

__all__ = [
    "Entry",
    "Forced",
    "Guide",
    "GuidePart",
    "Helpers",
    "MemoryGuide",
    "MemoryGuidePart",
    "MetaExperiencePart",
    "Need",
    "NoGuide",
    "NoGuidePart",
    "PilotPart",
    "Plan",
    "Remembering",
    "SelfHintsPart",
    "TeacherPart",
]
