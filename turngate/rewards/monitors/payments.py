"""Monitors of what the episodes of one batch were paid for.

Each is a pure function of stored scores. It returns a ``Check`` (the number that decides, and an ``Alarm`` if that
number is past its limit), or None where it has too little to measure. Only usable episodes count. An alarm is a reason
to read trajectories, not a verdict: no monitor changes a reward, and none should. Where a threshold has a published
source, it is named; thresholds called "ours" seemed sensible and have nothing more behind them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from turngate.rewards.monitors.alarm import Alarm, Check, Floats, Monitor, ScoredEpisode, clearest, usable_episodes
from turngate.types import ScoredGroup

ALIKE = 1e-12
"""Sums of squares below this are rounding."""


def paid_concentration(groups: Sequence[ScoredGroup], *, at_most: float = 0.7) -> Check | None:
    """Alarm: one process or penalty component causes most of the variance of the paid total R over the batch.

    R = Σ_c x_c, where x_c is what component c was paid. The share of c is Σ_i (x_ic − x̄_c)(R_i − R̄) / Σ_i (R_i −
    R̄)², so the shares of all components sum to 1; a share is negative where a component works against the rest.
    Outcome components may cause all of it. Value: the largest share of any other component; None if the total does not
    vary or there is no such component. ``at_most`` is ours.
    """
    return _concentration("paid_concentration", "paid total", groups, at_most, within=False)


def advantage_concentration(groups: Sequence[ScoredGroup], *, at_most: float = 0.7) -> Check | None:
    """Like ``paid_concentration``, but every payment counts as its distance from the mean of its group.

    That distance is the advantage of every group-relative rule before scaling. Where all siblings have the same
    outcome, process payments alone decide the advantage, however small their weights are: the alarm says how many such
    groups there are. A rule that adds process credit after normalising (``sag``) is not covered.
    """
    return _concentration("advantage_concentration", "advantage", groups, at_most, within=True)


def _concentration(
    name: str, whole: str, groups: Sequence[ScoredGroup], at_most: float, *, within: bool
) -> Check | None:
    episodes = usable_episodes(groups)
    group_B = np.array([episode.group if within else 0 for episode in episodes], np.int64)
    total_B = centred(_totals(episodes), group_B)
    variance = float(total_B @ total_B)
    parts = {c: centred(paid_B, group_B) for c, paid_B in _paid(episodes).items()}
    if variance < ALIKE or not parts:
        return None
    component = max(parts, key=lambda name: float(parts[name] @ total_B))
    share = float(parts[component] @ total_B) / variance
    if share <= at_most:
        return Check(value=share)
    same, n_groups = _equal_outcomes(episodes)
    alarm = Alarm(
        name=name,
        severity="warning",
        sentence=(
            f"component '{component}' causes {share:.0%} of the variance of the {whole} (limit {at_most:.0%}), so the "
            "policy is trained for it more than for the outcome; lower its weight or gate it on the outcome; in "
            f"{same} of {n_groups} groups all outcomes are equal"
        ),
        evidence={
            "component": component,
            "share": share,
            "limit": at_most,
            "groups": n_groups,
            "groups_of_one_outcome": same,
            "trajectories": clearest(episodes, parts[component] * total_B),
        },
    )
    return Check(value=share, alarm=alarm)


def unchanged_state(groups: Sequence[ScoredGroup], *, at_most: float = 0.5, least: int = 10) -> Check | None:
    """Alarm: more than ``at_most`` of the paid process gains are for turns that left the state as it was.

    A turn changed nothing if the next turn begins with the same ``state_key``. Last turns and turns without keys are
    left out, because the state after them is not known. Value: the share of gains for such turns; None with fewer than
    ``least`` gains left. The alarm is harmless where tools only read. Both numbers are ours.
    """
    episodes = usable_episodes(groups)
    still_B = np.zeros(len(episodes))
    known, n_known = 0.0, 0
    for place, (_, trajectory, score) in enumerate(episodes):
        keys = [turn.observation.state_key for turn in trajectory.turns]
        for event in score.ledger:
            at = event.turn
            if event.kind != "process" or event.paid <= 0 or at is None or at + 1 >= len(keys):
                continue
            if keys[at] and keys[at + 1]:
                known, n_known = known + event.paid, n_known + 1
                still_B[place] += event.paid if keys[at] == keys[at + 1] else 0.0
    still = float(still_B.sum())
    if n_known < max(least, 1):
        return None
    if still <= at_most * known:
        return Check(value=still / known)
    alarm = Alarm(
        name="unchanged_state",
        severity="warning",
        sentence=(
            f"{still / known:.0%} of the process gains ({still:.3g} of {known:.3g} in {n_known} payments) are for "
            f"turns that did not change the state (limit {at_most:.0%}): unless the tools only read, the agent is paid "
            "for doing nothing; pay for improvement only (gate 'best_so_far')"
        ),
        evidence={
            "share": still / known,
            "paid": known,
            "payments": n_known,
            "limit": at_most,
            "trajectories": clearest(episodes, still_B),
        },
    )
    return Check(value=still / known, alarm=alarm)


def duplicate_sources(groups: Sequence[ScoredGroup], *, at_least: float = 0.99, least: int = 30) -> Check | None:
    """Alarm: two components that pay gains always pay on the same turns, so one action is paid twice.

    That is: their verdicts on the same turns correlate by at least ``at_least`` (Pearson) over ``least`` turns or more.
    Value: the largest correlation of any pair. A verdict on the whole episode counts for its last turn. Components that
    never vary are not compared; None if no pair is left. Both numbers are ours.
    """
    worst: tuple[float, str, str, int] | None = None
    verdicts = _verdicts(usable_episodes(groups))
    for first, second in combinations(sorted(verdicts), 2):
        shared = sorted(verdicts[first].keys() & verdicts[second].keys())
        if len(shared) < least:
            continue
        r = correlation(
            np.array([verdicts[first][slot] for slot in shared]), np.array([verdicts[second][slot] for slot in shared])
        )
        if r is not None and (worst is None or r > worst[0]):
            worst = r, first, second, len(shared)
    if worst is None:
        return None
    r, first, second, n = worst
    if r < at_least:
        return Check(value=r)
    alarm = Alarm(
        name="duplicate_sources",
        severity="notice",
        sentence=(
            f"components '{first}' and '{second}' rise and fall together on {n} turns (correlation {r:.3f}, limit "
            f"{at_least:g}): the same action is paid twice; drop one of them, or lower both weights"
        ),
        evidence={"components": [first, second], "correlation": r, "turns": n, "limit": at_least},
    )
    return Check(value=r, alarm=alarm)


def paid_follows_turns(
    groups: Sequence[ScoredGroup], *, at_most: float = 0.5, least_per_turn: float = 0.02, least: int = 30
) -> Check | None:
    """Alarm: among siblings of equal outcome, payment correlates with the number of turns, |r| > ``at_most``.

    Only equal outcomes are compared, because failures often run into the turn limit. r > 0: long episodes are paid for
    their length; r < 0: every further turn costs. Value: r. A slope below ``least_per_turn`` (reward per turn) raises
    no alarm. None with fewer than ``least`` comparable episodes, or if they do not differ. All numbers are ours.
    """
    episodes = usable_episodes(groups)
    strata: dict[tuple[int, float | None], int] = {}
    stratum_B = np.array([strata.setdefault((e.group, e.score.outcome), len(strata)) for e in episodes], np.int64)
    turns_B = centred(np.array([len(e.trajectory.turns) for e in episodes], np.float64), stratum_B)
    paid_B = centred(_totals(episodes), stratum_B)
    n = int((np.bincount(stratum_B)[stratum_B] > 1).sum()) if len(episodes) else 0
    r = correlation(turns_B, paid_B)
    if r is None or n < least:
        return None
    per_turn = _per_turn(turns_B, paid_B)
    if abs(r) <= at_most or abs(per_turn) < least_per_turn:
        return Check(value=r)
    by_name = {name: _per_turn(turns_B, centred(x_B, stratum_B)) for name, x_B in _paid(episodes).items()}
    advice = _length_advice(r, {**by_name, "outcome": per_turn - sum(by_name.values())})
    alarm = Alarm(
        name="paid_follows_turns",
        severity="warning" if r > 0 else "notice",
        sentence=(
            f"among siblings of equal outcome each further turn {'pays' if r > 0 else 'costs'} {abs(per_turn):.3g} "
            f"(correlation of paid and turns {r:+.2f} over {n} episodes, limit {at_most:g}): {advice}"
        ),
        evidence={
            "correlation": r,
            "per_turn": per_turn,
            "episodes": n,
            "limit": at_most,
            "trajectories": clearest(episodes, turns_B * paid_B * np.sign(r)),
        },
    )
    return Check(value=r, alarm=alarm)


PAYMENT_MONITORS: tuple[Monitor[Sequence[ScoredGroup]], ...] = (
    Monitor(name="paid_concentration", look=paid_concentration, unit="share of variance", limits=(0.7,)),
    Monitor(name="advantage_concentration", look=advantage_concentration, unit="share of variance", limits=(0.7,)),
    Monitor(name="unchanged_state", look=unchanged_state, unit="share of process gains", limits=(0.5,)),
    Monitor(name="duplicate_sources", look=duplicate_sources, unit="largest correlation", limits=(0.99,)),
    Monitor(name="paid_follows_turns", look=paid_follows_turns, unit="correlation", limits=(-0.5, 0.5)),
)


def paid_shares(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Each component's share of what was paid in usable episodes: Σ|paid_c| / Σ_c Σ|paid_c|; empty if nothing was."""
    paid: dict[str, float] = defaultdict(float)
    for episode in usable_episodes(groups):
        for event in episode.score.ledger:
            paid[event.name] += abs(event.paid)
    whole = sum(paid.values())
    return {name: amount / whole for name, amount in sorted(paid.items())} if whole > 0 else {}


# --- parts -----------------------------------------------------------------------------------------------------------


def _length_advice(r: float, slopes: Mapping[str, float]) -> str:
    if r > 0:
        paying = max(slopes, key=lambda name: slopes[name])
        return f"the agent may learn to stall; bound what '{paying}' pays per turn (gates 'budget' and 'cap_process')"
    charging = min(slopes, key=lambda name: slopes[name])
    return f"the agent may learn to give up early; lower what '{charging}' charges per turn"


def _per_turn(turns_B: Floats, paid_B: Floats) -> float:
    """What a further turn pays, by least squares through 0: Σ t x / Σ t²."""
    return float(turns_B @ paid_B) / float(turns_B @ turns_B)


def _totals(episodes: Sequence[ScoredEpisode]) -> Floats:
    return np.array([episode.score.compared.total for episode in episodes], np.float64)


def _paid(episodes: Sequence[ScoredEpisode]) -> Mapping[str, Floats]:
    """The payments of each process or penalty component in each episode: name → float64[B]."""
    paid: dict[str, Floats] = defaultdict(lambda: np.zeros(len(episodes)))
    for place, episode in enumerate(episodes):
        for event in episode.score.compared.ledger:
            if event.kind != "outcome":
                paid[event.name][place] += event.paid
    return paid


def _equal_outcomes(episodes: Sequence[ScoredEpisode]) -> tuple[int, int]:
    """How many groups have one outcome only, and how many groups there are."""
    outcomes: dict[int, set[float | None]] = defaultdict(set)
    for episode in episodes:
        outcomes[episode.group].add(episode.score.outcome)
    return sum(len(found) == 1 for found in outcomes.values()), len(outcomes)


def _verdicts(episodes: Sequence[ScoredEpisode]) -> Mapping[str, Mapping[tuple[int, int], float]]:
    """Verdicts of each gaining component by (episode, turn)."""
    verdicts: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for place, (_, trajectory, score) in enumerate(episodes):
        for event in score.ledger:
            if event.kind != "penalty":
                turn = len(trajectory.turns) - 1 if event.turn is None else event.turn
                verdicts[event.name][place, turn] = event.value
    return verdicts


def centred(value_B: Floats, group_B: npt.NDArray[np.int64]) -> Floats:
    """Distance from the mean of the group."""
    if not len(value_B):
        return value_B
    size_G = np.maximum(np.bincount(group_B), 1)
    distance_B: Floats = value_B - (np.bincount(group_B, weights=value_B) / size_G)[group_B]
    return distance_B


def correlation(x: Floats, y: Floats) -> float | None:
    """Pearson's r; None if there are fewer than two pairs or one side does not vary."""
    if len(x) < 2:
        return None
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > ALIKE else None
