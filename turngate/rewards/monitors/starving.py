"""Starvation monitors: where a signal that was measured for does not arrive. Over one batch, then over many steps.

They return what ``monitors`` describes: a ``Check``, or None where they cannot tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from turngate.rewards.columns import alike
from turngate.rewards.monitors.alarm import NAMED, Alarm, Check, Monitor, usable_episodes
from turngate.rewards.monitors.step_facts import Opened, StepFacts
from turngate.types import JSON, ScoredGroup

RECORD = "_judge"
"""Ending of the facts that say who judged and why (see ``judge.facts``)."""


# --- one batch -------------------------------------------------------------------------------------------------------


def silent_groups(groups: Sequence[ScoredGroup], *, at_most: float = 0.9) -> Check | None:
    """More than ``at_most`` of the cohorts have one usable episode only, or were paid the same throughout.

    A cohort is the siblings with the same guidance. Such a cohort has no advantage under a group-relative rule. "The
    same" is a range within rounding (``columns.alike``). The value is their share. Tasks that are all solved end
    here too, so it is a notice: easier or harder tasks would teach more. ``at_most`` is ours.
    """
    found = _silent(groups)
    if found is None:
        return None
    n, n_single, n_equal = found
    share = (n_single + n_equal) / n
    if share <= at_most:
        return Check(value=share)
    alarm = Alarm(
        name="silent_groups",
        severity="notice",
        sentence=(
            f"{n_single + n_equal} of {n} groups have no advantage: {n_equal} were paid the same throughout, "
            f"{n_single} have one usable episode (limit {at_most:.0%})"
        ),
        evidence={"share": share, "groups": n, "equal": n_equal, "singletons": n_single, "limit": at_most},
    )
    return Check(value=share, alarm=alarm)


def group_shares(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Shares of cohorts with one usable episode (``singleton``) and of those paid the same throughout (``equal``)."""
    found = _silent(groups)
    return {} if found is None else {"singleton": found[1] / found[0], "equal": found[2] / found[0]}


def judge_silent(groups: Sequence[ScoredGroup], *, at_most: float = 0.1, least: int = 10) -> Check | None:
    """More than ``at_most`` of the facts that a judge was asked for are missing.

    Unusable episodes count, because a missing verdict may be what made them unusable. The value is the share of missing
    ones; fewer than ``least`` facts: None. Both numbers are ours.
    """
    asked, missing, named = 0, 0, []
    why: Counter[str] = Counter()
    for trajectory, value, record in _judged(groups):
        if record:
            why.update(_reasons(value))
            continue
        asked += 1
        if value is None:
            missing += 1
            named.append(trajectory)
    if asked < max(least, 1):
        return None
    if missing <= at_most * asked:
        return Check(value=missing / asked)
    reasons = f", mostly: {why.most_common(1)[0][0]}" if why else ""
    alarm = Alarm(
        name="judge_silent",
        severity="warning",
        sentence=f"{missing} of {asked} facts from the judge are missing (limit {at_most:.0%}){reasons}",
        evidence={
            "share": missing / asked,
            "facts": asked,
            "limit": at_most,
            "reasons": dict(why),
            "trajectories": list(dict.fromkeys(named))[:NAMED],
        },
    )
    return Check(value=missing / asked, alarm=alarm)


def canaries_missed(groups: Sequence[ScoredGroup], *, at_most: int = 0) -> Check | None:
    """More than ``at_most`` judged facts were thrown away because the judge failed a canary or could not be tried.

    A batch of which one canary was accepted is void (https://arxiv.org/abs/2507.08794 shows how easily a judge says yes
    to an answer without content), so the allowed number is 0. Unusable episodes count. The value is the number of void
    facts; no judge in the batch: None.
    """
    void, judged, said = [], 0, ""
    for trajectory, value, record in _judged(groups):
        judged += record
        if record and "void" in _reasons(value):
            void.append(trajectory)
            said = said or str(value.get("detail", "")) if isinstance(value, Mapping) else said
    if not judged:
        return None
    if len(void) <= at_most:
        return Check(value=len(void))
    alarm = Alarm(
        name="canaries_missed",
        severity="warning",
        sentence=f"{len(void)} of {judged} judged facts are void because of a canary" + (f": {said}" if said else ""),
        evidence={
            "void": len(void),
            "of": judged,
            "limit": at_most,
            "detail": said,
            "trajectories": list(dict.fromkeys(void))[:NAMED],
        },
    )
    return Check(value=len(void), alarm=alarm)


STARVATION_MONITORS: tuple[Monitor[Sequence[ScoredGroup]], ...] = (
    Monitor(name="silent_groups", look=silent_groups, unit="share of groups", limits=(0.9,)),
    Monitor(name="judge_silent", look=judge_silent, unit="share of judged facts", limits=(0.1,)),
    Monitor(name="canaries_missed", look=canaries_missed, unit="void facts", limits=(0.0,)),
)


# --- many steps ------------------------------------------------------------------------------------------------------


def starvation(trend: Sequence[StepFacts], *, below: float = 0.01, batches: int = 20) -> Check | None:
    """Gates left less than ``below`` of a component's payments open in each of the last ``batches`` batches.

    The step signal is then unused: the gate is too strict for this policy. The 1 % follows the usual advice for gated
    accumulation (G-RA, https://arxiv.org/abs/2508.10548, warns of thresholds too high); the number of batches is ours.
    The value is the open share of the best of those batches, for the component for which that is lowest. A component
    without payments in one of them is left out; no component left: None.
    """
    last = trend[-batches:]
    if len(last) < batches or batches < 1:
        return None
    seen = {name: [fact.opened.get(name) for fact in last] for name in sorted(last[-1].opened)}
    paid = {name: [one for one in found if one is not None] for name, found in seen.items()}
    best = {name: max(one.n_open / one.n for one in found) for name, found in paid.items() if len(found) == batches}
    if not best:
        return None
    component = min(best, key=lambda name: best[name])
    if best[component] >= below:
        return Check(value=best[component])
    return Check(value=best[component], alarm=_starved(component, paid[component], last[-1].closed, below))


def _starved(component: str, counted: Sequence[Opened], closed: Sequence[str], below: float) -> Alarm:
    n_open, n = sum(one.n_open for one in counted), sum(one.n for one in counted)
    gates = Counter(one.gate for one in counted if one.gate)
    gate = gates.most_common(1)[0][0] if gates else ""
    return Alarm(
        name="starvation",
        severity="warning",
        sentence=(
            f"gates left {n_open} of {n} payments of '{component}' open in {len(counted)} batches (limit {below:.0%}), "
            f"mostly {gate} closed them: the component teaches nothing"
        ),
        evidence={
            "component": component,
            "open": n_open,
            "payments": n,
            "batches": len(counted),
            "limit": below,
            "gate": gate,
            "trajectories": list(closed),
        },
    )


def few_open_groups(trend: Sequence[StepFacts], *, below: float = 0.05, batches: int = 20) -> Check | None:
    """In each of the last ``batches`` batches, less than ``below`` of the groups have two open episodes.

    A gate on the reward needs two open siblings to rank their steps: a single one gets the same advantage whatever its
    process value is. Only batches with process payments count. The value is the best share among them; fewer than
    ``batches``: None. Both numbers are ours.
    """
    shares = [fact.open_groups for fact in trend if fact.open_groups is not None][-batches:]
    if len(shares) < batches or batches < 1:
        return None
    best = max(shares)
    if best >= below:
        return Check(value=best)
    alarm = Alarm(
        name="few_open_groups",
        severity="warning",
        sentence=(
            f"at most {best:.1%} of the groups have two episodes with open process payments in each of {batches} "
            f"batches (limit {below:.0%}): process rewards rank nothing within a group"
        ),
        evidence={"share": best, "batches": batches, "limit": below, "trajectories": list(trend[-1].closed)},
    )
    return Check(value=best, alarm=alarm)


def uninformative_process(trend: Sequence[StepFacts], *, below: float = 0.55, steps: int = 50) -> Check | None:
    """Over the last ``steps`` steps that could tell, the process value hardly told success from failure.

    Mean AUC below ``below``; 0.5 is a coin. The advice is to switch the component off. Both numbers are ours.
    """
    measured = [fact.auc for fact in trend if fact.auc is not None][-steps:]
    if len(measured) < steps or steps < 1:
        return None
    mean = float(np.mean(measured))
    if mean >= below:
        return Check(value=mean)
    alarm = Alarm(
        name="uninformative_process",
        severity="notice",
        sentence=f"process rewards tell success from failure with AUC {mean:.2f} over {steps} steps (limit {below:g})",
        evidence={"auc": mean, "steps": steps, "limit": below},
    )
    return Check(value=mean, alarm=alarm)


STARVATION_TRENDS: tuple[Monitor[Sequence[StepFacts]], ...] = (
    Monitor(name="starvation", look=starvation, unit="open share of payments", limits=(0.01,)),
    Monitor(name="few_open_groups", look=few_open_groups, unit="share of groups", limits=(0.05,)),
    Monitor(name="uninformative_process", look=uninformative_process, unit="AUC", limits=(0.55,)),
)


# --- parts -----------------------------------------------------------------------------------------------------------


def _silent(groups: Sequence[ScoredGroup]) -> tuple[int, int, int] | None:
    """How many cohorts there are, how many of them are singletons, and how many others were paid the same."""
    paid: dict[object, list[float]] = {}
    for episode in usable_episodes(groups, turnless=True):  # they count in the baseline of their cohort
        paid.setdefault((episode.group, episode.trajectory.cohort), []).append(episode.score.total)
    if not paid:
        return None
    several = [totals for totals in paid.values() if len(totals) > 1]
    n_equal = sum(bool(alike(min(totals), max(totals), np.mean(totals))) for totals in several)
    return len(paid), len(paid) - len(several), n_equal


def _judged(groups: Sequence[ScoredGroup]) -> Iterator[tuple[str, JSON, bool]]:
    """(trajectory, value, whether it is the record of who judged) of each fact by a judge."""
    for group in groups:
        for trajectory in group.trajectories:
            for fact in trajectory.evidence:
                if fact.by == "judge":
                    yield trajectory.id, fact.value, fact.name.endswith(RECORD)


def _reasons(value: JSON) -> list[str]:
    """Why verdicts are missing, as a judge's record says it."""
    missing = value.get("missing") if isinstance(value, Mapping) else None
    if isinstance(missing, str):
        return [missing]
    return [str(reason) for reason in missing] if isinstance(missing, Sequence) else []
