"""Every monitor at its defaults, in the order in which they are reported."""

from __future__ import annotations

from turngate.rewards.monitors.broken import BROKEN_MONITORS, BROKEN_TRENDS
from turngate.rewards.monitors.conduct import CONDUCT_MONITORS
from turngate.rewards.monitors.conversion import GUIDANCE_TRENDS
from turngate.rewards.monitors.payments import PAYMENT_MONITORS
from turngate.rewards.monitors.starving import STARVATION_MONITORS, STARVATION_TRENDS
from turngate.rewards.monitors.trends import HACKING_TRENDS

BATCH_MONITORS = (*PAYMENT_MONITORS, *CONDUCT_MONITORS, *STARVATION_MONITORS, *BROKEN_MONITORS)
"""Monitors of the scored groups of one step."""

TREND_MONITORS = (*HACKING_TRENDS, *STARVATION_TRENDS, *BROKEN_TRENDS, *GUIDANCE_TRENDS)
"""Monitors of many steps; each looks at a list of ``StepFacts``."""
