"""The effect of help: whether episodes with help succeed, and whether tasks that they solved are soon solved alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from turngate.rewards.monitors.alarm import Alarm, Check, Monitor
from turngate.rewards.monitors.step_facts import MEMORY, HelpCount, StepFacts

VISITS = 3
"""Later steps with unguided episodes of a task in which it has to be solved alone."""


class Conversions(NamedTuple):
    """Tasks that were first solved with help: ``converted`` were then solved alone within ``VISITS`` visits, ``lost``
    were not, and ``waiting`` had fewer visits yet."""

    converted: int
    lost: int
    waiting: int

    @property
    def share(self) -> float | None:
        """Converted ones among those that are decided; None if none is."""
        decided = self.converted + self.lost
        return self.converted / decided if decided else None


def conversions(trend: Sequence[StepFacts], *, visits: int = VISITS) -> Conversions:
    """P(success without help within ``visits`` visits | the first success had help), counted over tasks.

    A visit is a step, after that of the first success, with usable unguided episodes of the task. A task that is solved
    with and without help in the same step was not in need of it, and counts nowhere. Looks at the last ``MEMORY`` steps
    (methods sheet G 12, where it is "the metric of guidance quality"; the number of visits is 3 there too).
    """
    counts: dict[str, list[HelpCount]] = {}
    for facts in trend[-MEMORY:]:
        for task, count in facts.helped.items():
            counts.setdefault(task, []).append(count)
    states = [_state(found, visits) for found in counts.values()]
    return Conversions(*(states.count(state) for state in Conversions._fields))


def _state(counts: Sequence[HelpCount], visits: int) -> str:
    """The field of ``Conversions`` that a task belongs to; "" = it was never solved, or first without help."""
    first = next((place for place, count in enumerate(counts) if _solved(count)), len(counts))
    if first == len(counts) or counts[first].alone_won:
        return ""
    later = [count.alone_won for count in counts[first + 1 :] if count.alone][:visits]
    if any(later):
        return "converted"
    return "lost" if len(later) == visits else "waiting"


def _solved(count: HelpCount) -> bool:
    return bool(count.alone_won or count.guided_won or count.shown)


def guidance_effect(trend: Sequence[StepFacts], *, steps: int = 20, least: int = 10) -> Check | None:
    """Alarm: help has no effect. In the last ``steps`` steps with help no episode with help succeeded; or of ``least``
    tasks or more that were first solved with help none was solved without it within ``VISITS`` visits.

    Steps whose only help was whole episodes without a turn of the policy count for the second only. Value: the share of
    learned-from episodes with help that succeeded, 0 if there are none; None with fewer steps. ``least`` is ours.
    """
    helped = [facts for facts in trend if _has_help(facts)][-steps:]
    found = conversions(trend)
    unconverted = found.lost >= least and not found.converted
    if (len(helped) < steps or steps < 1) and not unconverted:
        return None
    counts = [count for facts in helped for count in facts.helped.values()]
    n, won = sum(count.guided for count in counts), sum(count.guided_won for count in counts)
    value = won / n if n else 0.0
    idle = len(helped) >= steps and not won
    if not idle and not unconverted:
        return Check(value=value)
    seen = (
        f"no episode with help succeeded in {steps} steps with help"
        if idle
        else f"none of {found.lost} tasks first solved with help was solved without it in its next {VISITS} visits"
    )
    alarm = Alarm(
        name="guidance_effect",
        severity="warning",
        sentence=(
            f"{seen}, so help costs episodes and teaches nothing; read what it says ('turngate hints', 'turngate "
            "show'), give more of it (a higher level, a longer prefix), or leave the guide out"
        ),
        evidence={"success": value, "steps": steps, "converted": found.converted, "lost": found.lost, "least": least},
    )
    return Check(value=value, alarm=alarm)


GUIDANCE_TRENDS: tuple[Monitor[Sequence[StepFacts]], ...] = (
    Monitor(name="guidance_effect", look=guidance_effect, unit="share of episodes with help"),
)


def _has_help(facts: StepFacts) -> bool:
    """Whether the policy played with help in this step, be it in episodes that nothing is learned from."""
    if any(count.guided for count in facts.helped.values()):
        return True
    return bool(facts.learner.guided_share) and not any(count.shown for count in facts.helped.values())
