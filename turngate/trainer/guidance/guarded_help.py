"""The leak guard of a run: no guide gives the policy a text that holds the answer, wherever the text comes from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from turngate.agents.handoff import Handoff
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.envs.leak import leaked_secret
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.types import Metrics, Task, storable

_log = logging.getLogger(__name__)


class LeakGuard:
    """Refuses texts that hold one of the ``secrets`` of a task which its prompt does not show.

    Each is counted, and named in a warning once for each environment, kind and level. ``secrets``: see
    ``TurnEnv.secrets``; None: there are none, so nothing is refused.
    """

    def __init__(self, secrets: Callable[[Task], Sequence[str]] | None = None) -> None:
        self._secrets = secrets if secrets is not None else (lambda task: ())
        self._looked = False
        self._refused: set[tuple[str, str, int]] = set()
        self._named: set[tuple[str, str, int]] = set()

    def refuses(self, text: str, task: Task, *, kind: str, level: int) -> bool:
        """Whether ``text`` gives the task away."""
        self._looked = True
        secret = leaked_secret(text, self._secrets(task), task.prompt) if text else ""
        if not secret:
            return False
        self._refused.add((task.id, kind, level))
        if (task.env_id, kind, level) not in self._named:
            self._named.add((task.env_id, kind, level))
            _log.warning(
                "%s of level %d refused: that of task '%s' holds the answer, '%.60s'; see 'turngate hints'",
                kind,
                level,
                task.id,
                secret,
            )
        return True

    def allowed(self, task: Task, plan: Plan) -> Plan:
        """The plan without texts that give the task away: an episode that was to have one is played without it. Texts
        become storable."""
        entries = [self._allowed(task, entry) for entry in plan.entries]
        same = all(one is other for one, other in zip(entries, plan.entries, strict=True))
        return plan if same else replace(plan, entries=entries)

    def metrics(self) -> Metrics:
        """``guide/refused_hints``: different texts refused since the last call; missing if there were no texts."""
        found = {"guide/refused_hints": float(len(self._refused))} if self._looked else {}
        self._refused, self._looked = set(), False
        return found

    def _allowed(self, task: Task, entry: Entry) -> Entry:
        if entry is None or isinstance(entry, Handoff):  # another policy acts: there is no text
            return entry
        guidance = entry.guidance if isinstance(entry, PrefixTurns) else entry
        text = storable(guidance.text)
        if self.refuses(text, task, kind=guidance.kind, level=guidance.level):
            return replace(entry, guidance=replace(guidance, text="")) if isinstance(entry, PrefixTurns) else None
        if text == guidance.text:
            return entry
        kept = replace(guidance, text=text)
        return replace(entry, guidance=kept) if isinstance(entry, PrefixTurns) else kept


class GuardedHelp:
    """The ``Helpers`` that a guide gets: a hint that the guard refuses is a level that does not exist."""

    def __init__(self, helpers: Helpers, guard: LeakGuard) -> None:
        self._helpers, self._guard = helpers, guard

    @property
    def seed(self) -> int:
        return self._helpers.seed

    def hint(self, task: Task, level: int) -> str | None:
        text = self._helpers.hint(task, level)
        return None if text is None or self._guard.refuses(text, task, kind="hint", level=level) else text

    def hint_levels(self, task: Task) -> int:
        return self._helpers.hint_levels(task)

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        return self._helpers.solutions(task)

    def secrets(self, task: Task) -> Sequence[str]:
        return self._helpers.secrets(task)
