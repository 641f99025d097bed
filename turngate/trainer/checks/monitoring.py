"""Calls the monitors after each step: what they measure becomes metrics, and alarms are reported.

Nothing in training reads an alarm. A ``Watch`` remembers a few numbers of the first and of the latest steps. All of
them can be computed from the stored episodes, so a resumed run restores them by ``replay``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from turngate.rewards.monitors.alarm import Alarm, Check, Floats
from turngate.rewards.monitors.conversion import conversions
from turngate.rewards.monitors.payments import correlation, paid_shares
from turngate.rewards.monitors.starving import group_shares
from turngate.rewards.monitors.step_facts import MEMORY, START, Learned, StepFacts, measure
from turngate.rewards.monitors.watchlist import BATCH_MONITORS, TREND_MONITORS
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.batch.shared_turns import merged_share
from turngate.types import FloatArray, Metrics, ScoredGroup, TurnTable

Played: TypeAlias = tuple[int, Sequence[ScoredGroup], Mapping[str, float]]
"""A step: its number, its scored groups, and its metrics."""

KL_METRICS = ("policy/kl_to_reference_nats", "policy/kl_to_sampler_nats")
"""Metrics that hold a KL divergence; the monitors get the first one that a step has."""
CREDIT_TURNS = "monitor/credit_turns_correlation"
GUIDED = "guide/guided_share"
BRANCHES = "branch/branches"


def unwatched(step: int, scored: Sequence[ScoredGroup], metrics: Mapping[str, float]) -> Metrics:
    """Default monitor: records nothing."""
    return {}


def to_nobody(step: int, alarm: Alarm) -> None:
    """Default receiver of alarms: does nothing."""


class Watch:
    """Runs all monitors; call it once per step, in order.

    ``tell`` is called with the step and the alarm when an alarm begins, so not again while it lasts.
    """

    def __init__(self, tell: Callable[[int, Alarm], None] = to_nobody) -> None:
        self._tell = tell
        self._start: list[StepFacts] = []
        self._recent: deque[StepFacts] = deque(maxlen=MEMORY)
        self._on: frozenset[str] = frozenset()

    def __call__(self, step: int, scored: Sequence[ScoredGroup], metrics: Mapping[str, float]) -> Metrics:
        """The monitors' metrics of a step; what a monitor cannot measure in this step is missing, never zero.

        ``monitor/NAME`` is what the monitor NAME measured, ``monitor/NAME_alarm`` is 1 if it raised an alarm, else 0.
        The other ``monitor/…`` are numbers that several monitors use. ``guide/conversion`` is the share of the tasks
        first solved with help, in the steps that are remembered, that were soon solved without (see ``conversions``).
        """
        facts, checks = self._look(step, scored, metrics)
        alarms = _alarms(checks)
        for name, alarm in alarms.items():
            if name not in self._on:
                self._tell(step, alarm)
        self._on = frozenset(alarms)
        numbers = {f"monitor/{name}": float(check.value) for name, check in checks.items()}
        flags = {f"monitor/{name}_alarm": float(name in alarms) for name in checks}
        return numbers | flags | _facts(facts) | _shares(scored) | self._conversion()

    def replay(self, steps: Iterator[Played]) -> None:
        """Take in steps of the past again, in order, without reporting their alarms."""
        for step, scored, metrics in steps:
            _, checks = self._look(step, scored, metrics)
            self._on = frozenset(_alarms(checks))

    def _conversion(self) -> Metrics:
        share = conversions([*self._start, *self._recent]).share
        return {} if share is None else {"guide/conversion": share}

    def _look(
        self, step: int, scored: Sequence[ScoredGroup], metrics: Mapping[str, float]
    ) -> tuple[StepFacts | None, dict[str, Check]]:
        """Remember a step and run the monitors; those that look at trends are left out for a step without facts."""
        found = {monitor.name: monitor.look(scored) for monitor in BATCH_MONITORS}
        facts = measure(step, scored, learning_numbers(metrics))
        if facts is not None:
            (self._start if len(self._start) < START else self._recent).append(facts)
            trend = [*self._start, *self._recent]
            found |= {monitor.name: monitor.look(trend) for monitor in TREND_MONITORS}
        return facts, {name: check for name, check in found.items() if check is not None}


def recorded(run: Path, *, until: int) -> Iterator[Played]:
    """The training steps on disk that a ``Watch`` still remembers after step ``until``, in order."""
    store, file = Store(run), RunFolder(run).metrics
    rows = {int(row["step"]): row for row in read_metrics(file)} if file.exists() else {}
    for step in remembered([step for step in store.steps() if step <= until]):
        yield step, list(store.read(step, "train")), rows.get(step, {})


def remembered(steps: Sequence[int]) -> list[int]:
    """Those of ``steps`` that a ``Watch`` still remembers after the last of them."""
    return [*steps[:START], *steps[START:][-MEMORY:]]


def credit_metrics(rule: object, table: TurnTable, credit_N: FloatArray) -> Metrics:
    """``credit/merged_share`` for a rule that merges equal turns of siblings, and ``credit_by_turns``."""
    merge = getattr(rule, "merge", None)
    merged = {} if merge is None else {"credit/merged_share": merged_share(table, merge)}
    return merged | credit_by_turns(table, credit_N)


def credit_by_turns(table: TurnTable, credit_N: FloatArray) -> Metrics:
    """Correlation between the summed credit of a trajectory and its number of turns; missing if one does not vary."""
    n = table.n_trajectories
    credit_B: Floats = np.bincount(table.traj_N, weights=credit_N, minlength=n).astype(np.float64)
    turns_B: Floats = np.bincount(table.traj_N, minlength=n).astype(np.float64)
    r = correlation(credit_B[turns_B > 0], turns_B[turns_B > 0])
    return {} if r is None else {CREDIT_TURNS: r}


def learning_numbers(metrics: Mapping[str, float]) -> Learned:
    """The numbers that the monitors read from the metrics of credit and learner."""
    kl = (_known(metrics, name) for name in KL_METRICS)
    weight, square = _known(metrics, "offpolicy/weight"), _known(metrics, "offpolicy/weight_square")
    return Learned(
        kl_nats=next((value for value in kl if value is not None), None),
        effective_share=weight**2 / square if weight is not None and square else None,
        dropped_share=_known(metrics, "offpolicy/dropped_share"),
        credit_turns=_known(metrics, CREDIT_TURNS),
        guided_share=_known(metrics, GUIDED),
        branches=_known(metrics, BRANCHES),
    )


def console_line(step: int, alarm: Alarm) -> str:
    """An alarm as one line of text, with the id of a trajectory that shows it."""
    see = f" (see {alarm.trajectories[0]})" if alarm.trajectories else ""
    return " ".join(f"step {step:>4}  {alarm.severity}: {alarm.name}: {alarm.sentence}{see}".split("\n"))


# --- parts -----------------------------------------------------------------------------------------------------------


def _alarms(checks: Mapping[str, Check]) -> dict[str, Alarm]:
    return {name: check.alarm for name, check in checks.items() if check.alarm is not None}


def _known(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name, math.nan)
    return None if math.isnan(value) else value


def _facts(facts: StepFacts | None) -> Metrics:
    if facts is None:
        return {}
    numbers = {
        "process_earned": facts.process,
        "process_auc": facts.auc,
        "paid_spread": facts.spread,
        "overlap_share": facts.overlap,
        "open_groups_share": facts.open_groups,
        "guided_outcome": facts.guided,
        "unguided_outcome": facts.unguided,
        "effective_share": facts.learner.effective_share,
    }
    shares = {f"monitor/open_share_{name}": opened.n_open / opened.n for name, opened in facts.opened.items()}
    return shares | {f"monitor/{name}": value for name, value in numbers.items() if value is not None}


def _shares(scored: Sequence[ScoredGroup]) -> Metrics:
    paid = {f"monitor/paid_share_{name}": share for name, share in paid_shares(scored).items()}
    return paid | {f"monitor/{name}_groups_share": share for name, share in group_shares(scored).items()}
