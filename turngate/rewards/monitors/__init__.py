"""Monitors: pure functions over stored scores that name what looks like hacking or starving, with the evidence.

``payments`` look at what one batch was paid, ``conduct`` at what its episodes do, ``starving`` at where nothing is
left to learn from, ``broken`` at episodes that broke, ``trends`` at many steps, of which ``step_facts`` remembers what
is needed. ``alarm`` is what they answer, ``watchlist`` has all of them at their defaults.
"""

from turngate.rewards.monitors.alarm import Alarm, Check, Monitor
from turngate.rewards.monitors.step_facts import Learned, StepFacts, measure
from turngate.rewards.monitors.watchlist import BATCH_MONITORS, TREND_MONITORS

__all__ = ["BATCH_MONITORS", "TREND_MONITORS", "Alarm", "Check", "Learned", "Monitor", "StepFacts", "measure"]
