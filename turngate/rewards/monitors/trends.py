"""Monitors of many training steps: a reward that rises without the outcome, behaviour that drifts, updates that jump.

Each looks at a list of ``StepFacts``, oldest first, and returns a ``Check``, or None where it has too little to
measure. Together they need the first ``START`` steps of a run and the last ``MEMORY``; the steps between may be
forgotten. Thresholds without a source are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.rewards.monitors.alarm import Alarm, Check, Monitor, mean_known
from turngate.rewards.monitors.step_facts import START, StepFacts

DriftOf: TypeAlias = Literal["turns", "tokens", "parsed"]

_DRIFTING: dict[DriftOf, str] = {
    "turns": "number of turns per episode",
    "tokens": "number of sampled tokens per episode",
    "parsed": "share of actions that can be parsed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """One evaluation: ``proxy`` is what training optimises, ``outcome`` what it is meant to improve."""

    proxy: float
    outcome: float
    label: str = ""


def proxy_gap(readings: Sequence[EvaluationPoint], *, over: int = 3, least: float = 0.02) -> Check | None:
    """Alarm: from each of the last ``over`` evaluations to the next, the proxy rose and the outcome fell.

    Both must have moved by ``least`` in all (ours), so that noise in the last digit is no trend. Value: how much more
    the proxy rose than the outcome, (p_last − p_first) − (o_last − o_first); None for fewer evaluations.
    """
    last = readings[-over:]
    if len(last) < over or over < 2:
        return None
    part = all(a.proxy < b.proxy and a.outcome > b.outcome for a, b in pairwise(last))
    up, down = last[-1].proxy - last[0].proxy, last[0].outcome - last[-1].outcome
    if not part or min(up, down) < least:
        return Check(value=up + down)
    alarm = Alarm(
        name="proxy_gap",
        severity="warning",
        sentence=(
            f"over the last {over} evaluations the proxy (the process reward) rose from {last[0].proxy:.3g} to "
            f"{last[-1].proxy:.3g} while the outcome fell from {last[0].outcome:.3g} to {last[-1].outcome:.3g}: reward "
            "is earned without solving tasks; read recent episodes, and gate process rewards on the outcome"
        ),
        evidence={
            "proxy": [reading.proxy for reading in last],
            "outcome": [reading.outcome for reading in last],
            "labels": [reading.label for reading in last],
        },
    )
    return Check(value=up + down, alarm=alarm)


def block_readings(trend: Sequence[StepFacts], *, every: int = 10, over: int = 3) -> list[EvaluationPoint]:
    """The last ``over`` blocks of ``every`` steps as evaluations: earned process against the outcome."""
    facts = [fact for fact in trend if fact.process is not None][-every * over :]
    blocks = [facts[at : at + every] for at in range(0, len(facts), every)]
    return [
        EvaluationPoint(
            proxy=float(np.mean([fact.process for fact in block])),
            outcome=float(np.mean([fact.outcome for fact in block])),
            label=f"steps {block[0].step}–{block[-1].step}",
        )
        for block in blocks
        if len(block) == every
    ]


def diverging_slopes(trend: Sequence[StepFacts], *, steps: int = 50, least_t: float = 2.0) -> Check | None:
    """Alarm: over ``steps`` steps the earned process value rises while the outcome falls.

    This is typical of process rewards that are added to the outcome without a gate. Both slopes are least squares; each
    must be ``least_t`` times its standard error (ours: of two flat noisy curves one pair in four would have these
    signs). Value: the smaller of t(process) and −t(outcome).
    """
    last = [fact for fact in trend if fact.process is not None][-steps:]
    if len(last) < steps or steps < 3:
        return None
    x = np.array([fact.step for fact in last], np.float64)
    up, up_t = _slope(x, np.array([fact.process for fact in last], np.float64))
    down, down_t = _slope(x, np.array([fact.outcome for fact in last], np.float64))
    value = min(up_t, -down_t)
    if value < least_t:
        return Check(value=value)
    alarm = Alarm(
        name="diverging_slopes",
        severity="warning",
        sentence=(
            f"over {steps} steps the process value rises by {100 * up:.3g} and the outcome falls by {-100 * down:.3g} "
            f"per 100 steps (t = {up_t:.1f} and {down_t:.1f}): process reward is earned instead of solving tasks; read "
            "recent episodes, and gate process rewards on the outcome"
        ),
        evidence={
            "process_slope": up,
            "process_t": up_t,
            "outcome_slope": down,
            "outcome_t": down_t,
            "limit_t": least_t,
            "trajectories": list(last[-1].longest),
        },
    )
    return Check(value=value, alarm=alarm)


def drift(
    trend: Sequence[StepFacts],
    *,
    of: DriftOf,
    z: float = 3.0,
    reference: int = 20,
    recent: int = 5,
    floor: float = 0.01,
) -> Check | None:
    """Alarm: the mean of the last ``recent`` steps is more than ``z`` standard deviations from the ``reference``
    before.

    ``z = (mean_recent − mean_ref) / max(std_ref, floor·max(|mean_ref|, 1e-6))`` over step means, ddof 1. ``of`` is
    turns or tokens per episode, or the share of actions that can be parsed. Without the floor the first change after a
    constant past would be infinite. Value: z. The alarm is a warning if the outcome did not rise meanwhile, else a
    notice. All numbers but z are ours.
    """
    if len(trend) < reference + recent:
        return None
    past, now = trend[-reference - recent : -recent], trend[-recent:]
    values = np.array([getattr(fact, of) for fact in past], np.float64)
    mean, std = float(values.mean()), float(values.std(ddof=1))
    current = float(np.mean([getattr(fact, of) for fact in now]))
    score = (current - mean) / max(std, floor * max(abs(mean), 1e-6))
    if abs(score) <= z:
        return Check(value=score)
    rise = _mean_outcome(now) - _mean_outcome(past)

    alarm = Alarm(
        name=f"{of}_drift",
        severity="notice" if rise > 0 else "warning",
        sentence=(
            f"the {_DRIFTING[of]} went from {mean:.3g} to {current:.3g} within {recent} steps (z = {score:+.1f}, limit "
            f"{z:g}), the outcome changed by {rise:+.3g}; read recent episodes to see what the policy does differently"
        ),
        evidence={
            "z": score,
            "limit": z,
            "before": mean,
            "now": current,
            "std": std,
            "outcome_change": rise,
            "trajectories": list(now[-1].longest),
        },
    )
    return Check(value=score, alarm=alarm)


def turns_drift(trend: Sequence[StepFacts]) -> Check | None:
    """``drift`` of turns per episode."""
    return drift(trend, of="turns")


def tokens_drift(trend: Sequence[StepFacts]) -> Check | None:
    """``drift`` of sampled tokens per episode."""
    return drift(trend, of="tokens")


def parsed_drift(trend: Sequence[StepFacts]) -> Check | None:
    """``drift`` of the share of actions that can be parsed."""
    return drift(trend, of="parsed")


def kl_spike(
    trend: Sequence[StepFacts], *, times: float = 5.0, reference: int = 20, flat: float = 0.02, least: float = 0.01
) -> Check | None:
    """Alarm: the KL divergence jumped to ``times`` its median over ``reference`` steps, and the outcome gained nothing.

    The outcome gained nothing if the last step's mean is at most ``flat`` above that of the steps before. Value:
    ``kl / max(median, least / times)``, so a divergence below ``least`` nats per token never counts as a jump. All
    numbers are ours.
    """
    measured = [(fact, fact.learner.kl_nats) for fact in trend if fact.learner.kl_nats is not None]
    if len(measured) < reference + 1 or measured[-1][0] is not trend[-1]:
        return None
    past, (now, kl) = measured[-reference - 1 : -1], measured[-1]
    median = float(np.median([nats for _, nats in past]))
    value, rise = kl / max(median, least / times), now.outcome - _mean_outcome([fact for fact, _ in past])
    if value <= times or rise > flat:
        return Check(value=value)
    alarm = Alarm(
        name="kl_spike",
        severity="warning",
        sentence=(
            f"the KL divergence jumped to {kl:.3g} nats per token (median over {reference} steps {median:.3g}, limit "
            f"{times:g} times that) and the outcome changed by {rise:+.3g}: the policy moved far and is no better; "
            "lower the learning rate, or hold the policy closer with a KL penalty"
        ),
        evidence={
            "kl_nats": kl,
            "median_nats": median,
            "limit_times": times,
            "outcome_change": rise,
            "trajectories": list(now.longest),
        },
    )
    return Check(value=value, alarm=alarm)


def echo_trap(
    trend: Sequence[StepFacts],
    *,
    fraction: float = 0.5,
    overlap: float = 0.6,
    recent: int = 10,
    solved: float = 0.9,
) -> Check | None:
    """Alarm: siblings repeat each other and their rewards no longer differ.

    This is the echo trap of https://arxiv.org/abs/2504.20073. The spread of what siblings are paid, mean of the last
    ``recent`` steps, is below ``fraction`` of that of the first ``START`` steps, and their mean 4-gram overlap is above
    ``overlap``. Value: the overlap. There is no alarm from a mean outcome of ``solved`` on, where siblings agree
    because they are right. The paper names the symptoms; the numbers are ours.
    """
    first, last = trend[:START], trend[-recent:]
    if len(trend) < START + recent:
        return None
    before, now = mean_known([fact.spread for fact in first]), mean_known([fact.spread for fact in last])
    alike = mean_known([fact.overlap for fact in last])
    if before is None or now is None or alike is None:
        return None
    if not (now < fraction * before and alike > overlap and _mean_outcome(last) < solved):
        return Check(value=alike)
    alarm = Alarm(
        name="echo_trap",
        severity="warning",
        sentence=(
            f"siblings share {alike:.0%} of their 4-grams (limit {overlap:.0%}), and the spread of their rewards fell "
            f"from {before:.3g} to {now:.3g} while the outcome is only {_mean_outcome(last):.3g}: copies of one answer "
            "teach nothing; sample at a higher temperature, or on more varied tasks"
        ),
        evidence={
            "overlap": alike,
            "overlap_limit": overlap,
            "spread_first": before,
            "spread_now": now,
            "limit_fraction": fraction,
            "trajectories": list(last[-1].longest),
        },
    )
    return Check(value=alike, alarm=alarm)


def credit_follows_turns(trend: Sequence[StepFacts], *, at_most: float = 0.5, steps: int = 20) -> Check | None:
    """Alarm: an episode's whole credit Σ_t A_t correlates with its number of turns, |mean r over ``steps``| >
    ``at_most``.

    A credit rule that centres every turn on the mean of all turns and sums over turns has this bias. r < 0 may also be
    harmless: a policy whose failures run into the turn limit shows it. Value: the mean of r. Both numbers are ours.
    """
    measured = [fact.learner.credit_turns for fact in trend if fact.learner.credit_turns is not None][-steps:]
    if len(measured) < steps or steps < 1:
        return None
    r = float(np.mean(measured))
    if abs(r) <= at_most:
        return Check(value=r)
    alarm = Alarm(
        name="credit_follows_turns",
        severity="notice",
        sentence=(
            f"credit {'grows' if r > 0 else 'falls'} with the number of turns: correlation {r:+.2f} over {steps} steps "
            f"(limit {at_most:g}); training then favours {'long' if r > 0 else 'short'} episodes for their length, "
            f"unless {'successes' if r > 0 else 'failures'} are truly longer; try a credit rule that normalises per "
            "episode"
        ),
        evidence={"correlation": r, "steps": steps, "limit": at_most, "trajectories": list(trend[-1].longest)},
    )
    return Check(value=r, alarm=alarm)


def dropped_tokens(trend: Sequence[StepFacts], *, at_most: float = 0.1, recent: int = 5) -> Check | None:
    """Alarm: off-policy rules set the weight of more than ``at_most`` of the tokens to 0, mean of ``recent`` steps.

    The policy that sampled and the one that learns are then too far apart. Value: the share of such tokens; None
    without off-policy rules. 10 % is the usual advice for masked tokens; ``recent`` is ours.
    """
    measured = [fact.learner.dropped_share for fact in trend[-recent:]]
    dropped = mean_known(measured)
    if dropped is None or len(measured) < recent:
        return None
    if dropped <= at_most:
        return Check(value=dropped)
    alarm = Alarm(
        name="dropped_tokens",
        severity="warning",
        sentence=(
            f"off-policy rules drop {dropped:.0%} of the tokens, mean of {recent} steps (limit {at_most:.0%}): the "
            "policy that sampled is too far from the one that learns; take fewer or smaller updates between two "
            "rollouts"
        ),
        evidence={"share": dropped, "steps": recent, "limit": at_most},
    )
    return Check(value=dropped, alarm=alarm)


def effective_sample(trend: Sequence[StepFacts], *, below: float = 0.5, recent: int = 5) -> Check | None:
    """Alarm: the effective sample size, (Σw)²/(nΣw²) of the off-policy weights w, is below ``below``, mean of
    ``recent``.

    A few tokens with large weights then decide the update. Value: that share; None without off-policy weights. Both
    numbers are ours.
    """
    measured = [fact.learner.effective_share for fact in trend[-recent:]]
    share = mean_known(measured)
    if share is None or len(measured) < recent:
        return None
    if share >= below:
        return Check(value=share)
    alarm = Alarm(
        name="effective_sample",
        severity="warning",
        sentence=(
            f"off-policy weights reduce the effective number of tokens to {share:.0%}, mean of {recent} steps (limit "
            f"{below:.0%}): a few tokens decide the update; take fewer or smaller updates between two rollouts"
        ),
        evidence={"share": share, "steps": recent, "limit": below},
    )
    return Check(value=share, alarm=alarm)


def guidance_reliance(
    trend: Sequence[StepFacts], *, at_least: float = 0.3, least_rise: float = 0.02, steps: int = 50
) -> Check | None:
    """Alarm: guided episodes do better by ``at_least`` and unguided ones do not improve, so the help is not learned
    from.

    Measured over the last ``steps`` steps that have both kinds. Unguided episodes improved if the mean outcome of the
    second half exceeds that of the first by ``least_rise``. Value: the mean difference guided − unguided. All numbers
    are ours.
    """
    both = [(f.guided, f.unguided) for f in trend if f.guided is not None and f.unguided is not None][-steps:]
    if len(both) < steps or steps < 2:
        return None
    gap = float(np.mean([guided - unguided for guided, unguided in both]))
    alone = np.array([unguided for _, unguided in both])
    rise = float(alone[steps // 2 :].mean() - alone[: steps // 2].mean())
    if gap < at_least or rise >= least_rise:
        return Check(value=gap)
    alarm = Alarm(
        name="guidance_reliance",
        severity="notice",
        sentence=(
            f"over {steps} steps the outcome of guided episodes is better by {gap:.2f}, and that of unguided ones "
            f"changed by {rise:+.3f}: the policy uses help and does not learn from it; give less of it, or to fewer "
            "siblings"
        ),
        evidence={"difference": gap, "unguided_change": rise, "steps": steps, "limit": at_least},
    )
    return Check(value=gap, alarm=alarm)


def block_gap(trend: Sequence[StepFacts]) -> Check | None:
    """``proxy_gap`` over blocks of ten training steps."""
    return proxy_gap(block_readings(trend))


HACKING_TRENDS: tuple[Monitor[Sequence[StepFacts]], ...] = (
    Monitor(name="proxy_gap", look=block_gap, unit="process − outcome, change"),
    Monitor(name="diverging_slopes", look=diverging_slopes, unit="t statistic", limits=(2.0,)),
    Monitor(name="turns_drift", look=turns_drift, unit="z", limits=(-3.0, 3.0)),
    Monitor(name="tokens_drift", look=tokens_drift, unit="z", limits=(-3.0, 3.0)),
    Monitor(name="parsed_drift", look=parsed_drift, unit="z", limits=(-3.0, 3.0)),
    Monitor(name="kl_spike", look=kl_spike, unit="times the median", limits=(5.0,)),
    Monitor(name="echo_trap", look=echo_trap, unit="shared 4-grams", limits=(0.6,)),
    Monitor(name="credit_follows_turns", look=credit_follows_turns, unit="correlation", limits=(-0.5, 0.5)),
    Monitor(name="dropped_tokens", look=dropped_tokens, unit="share of tokens", limits=(0.1,)),
    Monitor(name="effective_sample", look=effective_sample, unit="share of tokens", limits=(0.5,)),
    Monitor(name="guidance_reliance", look=guidance_reliance, unit="guided − unguided outcome", limits=(0.3,)),
)


# --- parts -----------------------------------------------------------------------------------------------------------


def _slope(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Least-squares slope and its t statistic; a perfect line has t = ±inf, a flat one 0."""
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y) / float(x @ x)
    rest = float(((y - slope * x) ** 2).sum()) / (len(x) - 2)
    if rest <= 1e-18 * max(1.0, float(y @ y)):
        return slope, float(np.sign(slope)) * np.inf if abs(slope) > 1e-12 else 0.0
    return slope, slope / float(np.sqrt(rest / float(x @ x)))


def _mean_outcome(facts: Sequence[StepFacts]) -> float:
    return float(np.mean([fact.outcome for fact in facts]))
