"""Monitors: pure functions over stored scores that warn of reward hacking and of training that learns nothing.

``payments`` looks at what one batch was paid for, ``conduct`` at what its episodes do, ``starving`` at rewards that
arrive nowhere, ``broken`` at episodes that broke, ``trends`` at many steps, ``conversion`` at what help leads to.
``step_facts`` holds the few numbers that are remembered of each step. ``alarm`` defines what a monitor returns;
``watchlist`` lists all monitors at their defaults.

The sentence of an alarm says three things: what was seen, why that matters, and what to do about it.
"""

from turngate.rewards.monitors.alarm import Alarm, Check, Monitor
from turngate.rewards.monitors.step_facts import Learned, StepFacts, measure
from turngate.rewards.monitors.watchlist import BATCH_MONITORS, TREND_MONITORS

__all__ = ["BATCH_MONITORS", "TREND_MONITORS", "Alarm", "Check", "Learned", "Monitor", "StepFacts", "measure"]
