"""All families of generated repair problems. Five are held out by default: no other split ever shows them."""

from turngate.envs.code.generated.families.family import BugFamily
from turngate.envs.code.generated.families.lists import LISTS
from turngate.envs.code.generated.families.mappings import TABLES
from turngate.envs.code.generated.families.series import SERIES
from turngate.envs.code.generated.families.slices import SLICES
from turngate.envs.code.generated.families.strings import TEXTS
from turngate.envs.code.generated.families.sums import SUMS
from turngate.envs.code.generated.families.thresholds import LIMITS
from turngate.envs.code.generated.families.totals import TOTALS

_TOPICS = (LIMITS, SUMS, TOTALS, SERIES, SLICES, LISTS, TEXTS, TABLES)

FAMILIES: dict[str, BugFamily] = {family.name: family for topic in _TOPICS for family in topic}
HELD_OUT = ("smallest", "every_nth", "steps_to", "clip_text", "merge_max")
"""One that resembles a family of training (smallest, largest), the others of their own, from four topics."""
