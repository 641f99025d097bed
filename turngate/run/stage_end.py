"""Whether a stage has ended by itself: after each step, by a number of the steps so far."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

from turngate.config.stages import StageEnd
from turngate.errors import RunError
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

STEPS_WITHOUT = 10
"""After so many steps of which none had the metric, it is taken for one that does not exist."""


class TrainingEnd:
    """The end of the run in ``folder`` by ``until``, which is None for a run that makes all its steps.

    It begins with the steps that are in metrics.jsonl. ``steps``: how many were made. ``reason``: why the run has
    ended, "" while it goes on.
    """

    def __init__(self, until: StageEnd | None, folder: RunFolder) -> None:
        self._until = until
        self._values: list[float] = []
        self._names: set[str] = set()
        self.steps = 0
        self.reason = ""
        if until is not None and folder.metrics.exists():
            for row in read_metrics(folder.metrics):
                self.after(row)

    def after(self, metrics: Mapping[str, float]) -> bool:
        """Count one more step; returns whether the run has ended. Raises RunError for a metric that no step has."""
        if self._until is None:
            return False
        self.steps += 1
        self._names |= metrics.keys()
        value = metrics.get(self._until.metric, math.nan)
        if math.isfinite(value):
            self._values.append(value)
            self.reason = self._until.reason(self._values)
        if self.steps >= STEPS_WITHOUT:
            self._refuse_unknown(self._until)
        return bool(self.reason)

    def line(self) -> str:
        """The outcome of ``until``, in words; "" without one. Raises RunError for a metric that no step had."""
        if self._until is None:
            return ""
        self._refuse_unknown(self._until)
        if self.reason:
            return f"ended after step {self.steps}: {self.reason}"
        return f"all {self.steps} steps made: {self._until.metric} did not end it"

    def _refuse_unknown(self, until: StageEnd) -> None:
        if self._values:
            return
        near = difflib.get_close_matches(until.metric, self._names) or sorted(self._names)
        raise RunError(
            f"until.metric: no step of {self.steps} had a number '{until.metric}'; there are {', '.join(near[:12])}"
        )
