"""The few numbers that monitors remember of a training step, measured from its scored groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np

from turngate.rewards.monitors.alarm import NAMED, ScoredEpisode, mean_known, usable_episodes
from turngate.types import Ending, ScoredGroup, Source, Trajectory

START, MEMORY = 10, 60
"""How many of the first and of the latest steps the monitors look at."""
_BASE = np.uint64(0x9E3779B97F4A7C15)  # any large odd number


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Gates let through ``n_open`` of the ``n`` payments of a component; ``gate`` closed most of the others."""

    n_open: int
    n: int
    gate: str = ""


class EndingCount(NamedTuple):
    """Episodes of a task: ``n`` in all, of which some are unusable, some are ``faults`` (the agent broke them), and
    ``failures`` are the other usable ones that failed."""

    n: int
    unusable: int
    faults: int
    failures: int


class HelpCount(NamedTuple):
    """Usable episodes of a task: played with help and by the policy, and alone, with the successes of each; ``shown``
    are successes of episodes in which the policy took no turn."""

    guided: int = 0
    guided_won: int = 0
    alone: int = 0
    alone_won: int = 0
    shown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Values from the metrics of a step that its scored episodes do not show; None = not measured.

    ``kl_nats``: KL divergence per token, in nats, from the reference policy or from the one that sampled.
    ``effective_share``: (Σw)²/(nΣw²) of the off-policy weights w of n tokens, 1 if all are equal. ``dropped_share``:
    share of tokens with w = 0. ``credit_turns``: correlation over episodes of Σ_t A_t and the number of turns.
    ``guided_share``: share of all played episodes that had help, those that nothing is learned from included.
    ``branches``: episodes that branched off others; only of runs with [branching].
    """

    kl_nats: float | None = None
    effective_share: float | None = None
    dropped_share: float | None = None
    credit_turns: float | None = None
    guided_share: float | None = None
    branches: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """The numbers that the monitors remember of one step. Means are over its usable episodes; None = not measured.

    ``process`` is the earned process value of an episode, before gates. ``auc`` is the chance that it is higher in a
    success than in a failure (ties count half). ``spread`` is the standard deviation of paid within a group (ddof 0),
    mean over groups. ``overlap`` is the share of token 4-grams that neighbouring siblings have in common (Jaccard).
    ``open_groups`` is the share of groups with process payments in which gates let some through in two episodes.
    ``guided`` and ``unguided`` are the mean outcomes of episodes with and without help. ``tasks`` counts, by the id of
    each task, how many of its episodes broke or failed, ``helped`` how many succeeded with help and alone. ``learner``
    holds the measurements of credit and learner. ``longest`` and ``closed`` are ids of episodes to read: those with
    most turns, and those with payments that a gate closed.
    """

    step: int
    episodes: int
    outcome: float
    paid: float
    process: float | None
    turns: float
    tokens: float
    parsed: float
    opened: Mapping[str, Opened] = field(default_factory=dict)
    auc: float | None = None
    spread: float | None = None
    overlap: float | None = None
    open_groups: float | None = None
    guided: float | None = None
    unguided: float | None = None
    tasks: Mapping[str, EndingCount] = field(default_factory=dict)
    helped: Mapping[str, HelpCount] = field(default_factory=dict)
    learner: Learned = field(default_factory=Learned)
    longest: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def measure(step: int, groups: Sequence[ScoredGroup], learner: Learned | None = None) -> StepFacts | None:
    """The facts of one step; None if it has no usable episode."""
    episodes = usable_episodes(groups)
    if not episodes:
        return None
    turns = [turn for episode in episodes for turn in episode.trajectory.turns]
    outcomes = [(_outcome(episode), episode.trajectory.guidance is not None) for episode in episodes]
    process = [_process(episode) for episode in episodes]
    known = [value for value in process if value is not None]
    opened, closed = _opened(episodes)
    by_length = sorted(episodes, key=lambda episode: (-len(episode.trajectory.turns), episode.trajectory.id))
    return StepFacts(
        step=step,
        episodes=len(episodes),
        outcome=sum(outcome for outcome, _ in outcomes) / len(episodes),
        paid=float(np.mean([episode.score.compared.total for episode in episodes])),
        process=float(np.mean(known)) if known else None,
        turns=len(turns) / len(episodes),
        tokens=sum(len(turn.completion.ids_K) for turn in turns) / len(episodes),
        parsed=sum(turn.action.parse_error is None for turn in turns) / len(turns),
        opened=opened,
        auc=_auc(episodes, process),
        spread=_spread(episodes),
        overlap=_overlap(groups),
        open_groups=_open_groups(episodes),
        guided=mean_known([outcome for outcome, helped in outcomes if helped]),
        unguided=mean_known([outcome for outcome, helped in outcomes if not helped]),
        tasks=tallies(groups),
        helped=helps(episodes),
        learner=learner or Learned(),
        longest=tuple(episode.trajectory.id for episode in by_length[:NAMED]),
        closed=closed,
    )


def helps(episodes: Sequence[ScoredEpisode]) -> dict[str, HelpCount]:
    """How many episodes of each task succeeded with help and without, by its id."""
    found: dict[str, HelpCount] = {}
    for episode in episodes:
        one, won = episode.trajectory, bool(episode.score.success)
        if one.guidance is None:
            more = HelpCount(alone=1, alone_won=int(won))
        elif _shown(one):
            more = HelpCount(shown=int(won))
        else:
            more = HelpCount(guided=1, guided_won=int(won))
        before = found.get(one.task.id, HelpCount())
        found[one.task.id] = HelpCount(*(a + b for a, b in zip(before, more, strict=True)))
    return found


def _shown(trajectory: Trajectory) -> bool:
    """Whether no token of the episode is the policy's: it took no turn."""
    return all(len(turn.source) and not (turn.source == Source.POLICY).any() for turn in trajectory.turns)


def tallies(groups: Sequence[ScoredGroup]) -> dict[str, EndingCount]:
    """How the episodes of each task ended, by its id."""
    found: dict[str, list[int]] = {}
    for group in groups:
        counts = found.setdefault(group.task.id, [0] * len(EndingCount._fields))
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            counts[0] += 1
            if not score.usable:
                counts[1] += 1
            elif trajectory.ending is Ending.AGENT_FAULT:
                counts[2] += 1
            else:
                counts[3] += not score.success
    return {task: EndingCount(*counts) for task, counts in found.items()}


def _outcome(episode: ScoredEpisode) -> float:
    return 0.0 if episode.score.outcome is None else episode.score.outcome


def _process(episode: ScoredEpisode) -> float | None:
    earned = [event.earned for event in episode.score.compared.ledger if event.kind == "process"]
    return float(sum(earned)) if earned else None


def _opened(episodes: Sequence[ScoredEpisode]) -> tuple[dict[str, Opened], tuple[str, ...]]:
    """Open payments per process component, and the first episodes in which a gate closed one."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    gates: dict[str, Counter[str]] = defaultdict(Counter)
    closed: dict[str, None] = {}
    for episode in episodes:
        for event in episode.score.ledger:
            if event.kind != "process":
                continue
            is_open = event.factor != 0.0
            counts[event.name][0] += is_open
            counts[event.name][1] += 1
            if not is_open:
                gates[event.name][event.gate] += 1
                closed[episode.trajectory.id] = None
    opened = {
        name: Opened(n_open=n_open, n=n, gate=gates[name].most_common(1)[0][0] if gates[name] else "")
        for name, (n_open, n) in sorted(counts.items())
    }
    return opened, tuple(closed)[:NAMED]


def _open_groups(episodes: Sequence[ScoredEpisode]) -> float | None:
    """Of the groups with process payments, the share in which two episodes or more have an open one."""
    n_open: dict[int, int] = {}
    for group, _, score in episodes:
        factors = [event.factor for event in score.ledger if event.kind == "process"]
        if factors:
            n_open[group] = n_open.get(group, 0) + any(factors)
    return sum(count > 1 for count in n_open.values()) / len(n_open) if n_open else None


def _auc(episodes: Sequence[ScoredEpisode], process: Sequence[float | None]) -> float | None:
    """P(process of a success > of a failure) + ½ P(equal), over episodes with process verdicts."""
    pairs = [(v, bool(e.score.success)) for e, v in zip(episodes, process, strict=True) if v is not None]
    won = np.sort([value for value, success in pairs if success])
    lost = np.sort([value for value, success in pairs if not success])
    if not len(won) or not len(lost):
        return None
    below = np.searchsorted(lost, won, side="left") + np.searchsorted(lost, won, side="right")
    return float(below.sum() / 2 / (len(won) * len(lost)))


def _spread(episodes: Sequence[ScoredEpisode]) -> float | None:
    totals: dict[int, list[float]] = defaultdict(list)
    for episode in episodes:
        totals[episode.group].append(episode.score.compared.total)
    return mean_known([_std(found) for found in totals.values() if len(found) > 1])


def _std(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _overlap(groups: Sequence[ScoredGroup]) -> float | None:
    """Mean Jaccard index of the 4-grams of neighbouring siblings' sampled tokens; siblings without any are left out."""
    shares: list[float] = []
    for grams in _grams(groups):
        for one, other in pairwise(grams):
            common = len(one & other)
            shares.append(common / (len(one) + len(other) - common))
    return mean_known(shares)


def _grams(groups: Sequence[ScoredGroup]) -> Iterator[list[set[int]]]:
    """Per group, the 4-grams of each trajectory that has any, as numbers (two differ by chance in all but 1 of 2⁶⁴)."""
    parts = [[turn.completion.ids_K for turn in t.turns] for group in groups for t in group.trajectories]
    flat = np.concatenate([np.zeros(0, np.int32), *(ids_K for said in parts for ids_K in said)]).astype(np.uint64)
    key = flat[: len(flat) - 3] if len(flat) > 3 else flat[:0]
    for shift in (1, 2, 3):
        key = key * _BASE + flat[shift : len(flat) - 3 + shift][: len(key)]
    keys, lengths, start = key.tolist(), iter(sum(map(len, said)) for said in parts), 0
    for group in groups:
        found: list[set[int]] = []
        for length in islice(lengths, len(group.trajectories)):
            if length > 3:
                found.append(set(keys[start : start + length - 3]))
            start += length
        yield found
