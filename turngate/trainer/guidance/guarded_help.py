"""The leak guard of a run: what environments say about their tasks, without the hints that hold an answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from turngate.envs.leak import held
from turngate.trainer.guidance.base import Helpers
from turngate.types import Metrics, Task

_log = logging.getLogger(__name__)


class GuardedHelp:
    """The ``Helpers`` that a guide gets. A hint that holds the answer is as good as none: it is counted, and named in
    a warning once for each environment and level."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers
        self._asked = False
        self._refused: set[tuple[str, int]] = set()
        self._named: set[tuple[str, int]] = set()

    def hint(self, task: Task, level: int) -> str | None:
        """See ``Helpers``; None also for a hint that holds one of ``secrets`` which the task itself does not show."""
        self._asked = True
        text = self._helpers.hint(task, level)
        secret = held(text, self.secrets(task), task.prompt) if text else ""
        if not secret:
            return text
        self._refused.add((task.id, level))
        if (task.env_id, level) not in self._named:
            self._named.add((task.env_id, level))
            _log.warning(
                "hint of level %d refused: that of task '%s' holds the answer, '%.60s'; 'turngate hints %s' prints all",
                level,
                task.id,
                secret,
                task.env_id,
            )
        return None

    def hint_levels(self, task: Task) -> int:
        """See ``Helpers``."""
        return self._helpers.hint_levels(task)

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        """See ``Helpers``."""
        return self._helpers.solutions(task)

    def secrets(self, task: Task) -> Sequence[str]:
        """See ``Helpers``."""
        return self._helpers.secrets(task)

    def refusals(self) -> Metrics:
        """``guide/refused_hints``: different hints refused since the last call; missing if none was asked for."""
        found = {"guide/refused_hints": float(len(self._refused))} if self._asked else {}
        self._refused, self._asked = set(), False
        return found
