"""Monitors of training that learns nothing: rewards that do not differ, judges that are silent, gates that never open,
trees that never branch.

The first half looks at one batch, the second at many steps. Each returns a ``Check``, or None where it has too little
to measure.
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
"""Ending of the names of facts that say who judged and why (see ``judge.as_facts``)."""


# --- one batch -------------------------------------------------------------------------------------------------------


def silent_groups(groups: Sequence[ScoredGroup], *, at_most: float = 0.9) -> Check | None:
    """Alarm: more than ``at_most`` of the cohorts teach nothing under a group-relative rule.

    A cohort is the siblings of one group with the same guidance. It teaches nothing if it has a single usable episode,
    or if all its episodes were paid the same (up to rounding, see ``columns.alike``): every advantage is then 0. Value:
    the share of such cohorts. Tasks that are always solved count too, so the alarm is a notice: harder or easier tasks
    would teach more. ``at_most`` is ours.
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
            f"{n_single + n_equal} of {n} groups teach nothing (limit {at_most:.0%}): in {n_equal} all episodes were "
            f"paid the same, {n_single} had a single usable episode; tasks that are solved sometimes, neither always "
            "nor never, would teach more"
        ),
        evidence={"share": share, "groups": n, "equal": n_equal, "singletons": n_single, "limit": at_most},
    )
    return Check(value=share, alarm=alarm)


def group_shares(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Share of cohorts with one usable episode (``singleton``), and share of those whose episodes were all paid the
    same (``equal``); empty without usable episodes."""
    found = _silent(groups)
    return {} if found is None else {"singleton": found[1] / found[0], "equal": found[2] / found[0]}


def judge_silent(groups: Sequence[ScoredGroup], *, at_most: float = 0.1, least: int = 10) -> Check | None:
    """Alarm: more than ``at_most`` of the facts that a judge was asked for are missing.

    Unusable episodes count, because a missing verdict may be what made them unusable. Value: the share of facts that
    are missing; None for fewer than ``least`` facts. Both numbers are ours.
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
    reasons = f"; most frequent reason: {why.most_common(1)[0][0]}" if why else ""
    alarm = Alarm(
        name="judge_silent",
        severity="warning",
        sentence=(
            f"{missing} of {asked} facts from the judge are missing (limit {at_most:.0%}): an episode whose rubric "
            f"needs one is unusable; check the judge's server, deadline and replies{reasons}"
        ),
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
    """Alarm: more than ``at_most`` judged facts were thrown away because of a canary.

    A canary is an answer without content that is mixed into each batch and that the judge must reject: judges often say
    yes to such answers (https://arxiv.org/abs/2507.08794). If the judge accepts one, or none could be measured, all
    verdicts of that batch are void; so the allowed number is 0. Unusable episodes count. Value: the number of void
    facts; None without a judge in the batch.
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
        sentence=(
            f"{len(void)} of {judged} judged facts were thrown away because of a canary, an answer without content "
            f"that the judge must reject{f' ({said})' if said else ''}; measure the judge with 'turngate judge-check', "
            "or use another one"
        ),
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
    """Alarm: in each of the last ``batches`` batches, gates let through less than ``below`` of a component's payments.

    The policy then learns nothing from the component: the gate is too strict for it. The 1 % follows the usual advice
    for gated accumulation (G-RA, https://arxiv.org/abs/2508.10548, warns of thresholds that are too high); the number
    of batches is ours. For each component, the share that gates let through is taken in its best batch. Value: the
    lowest such share. A component without payments in one of the batches is left out; None if no component is left.
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
            f"gates let through {n_open} of {n} payments of '{component}' in {len(counted)} batches (limit "
            f"{below:.0%}), so the policy learns nothing from it; loosen the gate that closed most of them, {gate}, or "
            "begin with easier tasks"
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
    """Alarm: in each of the last ``batches`` batches, less than ``below`` of the groups have two open episodes.

    An episode is open if gates let through one of its process payments. Process rewards compare siblings, so a group
    needs two open ones: a single one gets the same advantage whatever its process value is. Only batches with process
    payments count. Value: the share of the best batch; None for fewer than ``batches``. Both numbers are ours.
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
            f"in each of {batches} batches at most {best:.1%} of the groups have two episodes whose process payments "
            f"the gates let through (limit {below:.0%}), so process rewards cannot tell siblings apart; loosen the "
            "gates, or begin with easier tasks"
        ),
        evidence={"share": best, "batches": batches, "limit": below, "trajectories": list(trend[-1].closed)},
    )
    return Check(value=best, alarm=alarm)


def uninformative_process(trend: Sequence[StepFacts], *, below: float = 0.55, steps: int = 50) -> Check | None:
    """Alarm: over the last ``steps`` steps with successes and failures, process rewards hardly told the two apart.

    Value: the mean AUC, the chance that a success has the higher process value; 0.5 is no better than a coin. Alarm
    below ``below``. Such a component is better left out. Both numbers are ours.
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
        sentence=(
            f"process rewards hardly tell success from failure: AUC {mean:.2f} over {steps} steps (limit {below:g}; "
            "0.5 is chance), so they add noise; improve what they measure, or leave them out"
        ),
        evidence={"auc": mean, "steps": steps, "limit": below},
    )
    return Check(value=mean, alarm=alarm)


def no_branches(trend: Sequence[StepFacts], *, at_most: int = 0) -> Check | None:
    """Alarm: [branching] is set, and in the last step no more than ``at_most`` episodes branched off others.

    Value: the number of branches; None without [branching].
    """
    n = trend[-1].learner.branches if trend else None
    if n is None:
        return None
    if n > at_most:
        return Check(value=n)
    alarm = Alarm(
        name="no_branches",
        severity="warning",
        sentence=(
            f"{n:.0f} episodes of the step branched off others (limit {at_most}), so [branching] has no effect: "
            "episodes may end in their first turn, or the policy may nowhere be unsure enough; read some ('turngate "
            "show'), change the settings of branching, or leave it out"
        ),
        evidence={"branches": n, "limit": at_most},
    )
    return Check(value=n, alarm=alarm)


STARVATION_TRENDS: tuple[Monitor[Sequence[StepFacts]], ...] = (
    Monitor(name="starvation", look=starvation, unit="open share of payments", limits=(0.01,)),
    Monitor(name="few_open_groups", look=few_open_groups, unit="share of groups", limits=(0.05,)),
    Monitor(name="uninformative_process", look=uninformative_process, unit="AUC", limits=(0.55,)),
    Monitor(name="no_branches", look=no_branches, unit="branches", limits=(0.0,)),
)


# --- parts -----------------------------------------------------------------------------------------------------------


def _silent(groups: Sequence[ScoredGroup]) -> tuple[int, int, int] | None:
    """How many cohorts there are, how many of them are singletons, and how many others were paid the same."""
    paid: dict[object, list[float]] = {}
    for episode in usable_episodes(groups, turnless=True):  # they count in the baseline of their cohort
        paid.setdefault((episode.group, episode.trajectory.cohort), []).append(episode.score.compared.total)
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
