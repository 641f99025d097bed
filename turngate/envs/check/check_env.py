"""``check_env`` tests an environment against the rules that training relies on, which are in ``env_rules.py``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.envs import registry
from turngate.envs.base import TurnEnv
from turngate.envs.check.env_rules import RULES, Level, Problems, reset_rule
from turngate.envs.check.plays import Plays
from turngate.foreign import answered_for, is_own
from turngate.sandbox.reaper import processes_below
from turngate.types import derive_seed

LEFTOVER_S = 2.0  # how long threads and processes may take to go after close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken rule. A ``level`` of "error" makes training wrong, a "warning" makes its results harder to trust."""

    level: Level
    rule: str
    message: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.message}"


def check_env(
    env_or_id: TurnEnv | str, *, episodes: int = 3, seed: int = 0, kwargs: Mapping[str, object] | None = None
) -> list[Finding]:
    """Play short episodes and list every rule that the environment breaks; an empty list means that none was found.

    Each rule is tried with ``episodes`` seeds, which are derived from ``seed``. The environment is closed at the end,
    also if it was passed as an object. ``kwargs``: arguments for making the one of an id. Raises UnknownName for an
    unknown id, ConfigError for one that cannot be built.
    """
    before = _Footprint.now()
    env = registry.make(env_or_id, **dict(kwargs or {})) if isinstance(env_or_id, str) else env_or_id
    plays = Plays(env=env, seeds=[derive_seed("check", seed, episode) for episode in range(episodes)])
    with answered_for() as said:
        findings = _findings("reset", "error", reset_rule(plays))
        if not findings:
            for rule, (level, check) in RULES.items():
                findings += _findings(rule, level, check(plays))
    findings += _findings("own_code", "error", iter(said))
    findings += _findings("close", "error", _close(env))
    findings += _findings("leftovers", "error", _leftovers(before))
    first = {finding.message: finding for finding in reversed(findings)}  # each problem is reported once
    return [finding for finding in findings if first[finding.message] is finding]


def rules_tried(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The names of the rules that ``check_env`` tried when it found these: where reset is broken nothing is played."""
    played = () if any(finding.rule == "reset" for finding in findings) else RULES
    return ("reset", *played, "own_code", "close", "leftovers")


def _findings(rule: str, level: Level, problems: Problems) -> list[Finding]:
    """The findings of a rule, one per message; a rule that raises ends with a finding."""
    messages: list[str] = []
    try:
        messages.extend(problems)
    except BaseException as error:  # code that calls sys.exit() breaks its rule, not the command
        if not is_own(error):
            raise
        level, messages = "error", [*messages, f"raised {error!r}"]
    return [Finding(level=level, rule=rule, message=message) for message in dict.fromkeys(messages)]


def _close(env: TurnEnv) -> Problems:
    """close() can be called twice."""
    env.close()
    env.close()
    yield from ()


# --- leftovers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footprint:
    """Threads of this process, and the processes below it."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]

    @staticmethod
    def now() -> _Footprint:
        return _Footprint(threads=frozenset(threading.enumerate()), children=frozenset(processes_below(os.getpid())))


def _leftovers(before: _Footprint) -> Problems:
    end_s = time.monotonic() + LEFTOVER_S
    while True:
        now = _Footprint.now()
        threads, children = now.threads - before.threads, now.children - before.children
        if not (threads or children) or time.monotonic() > end_s:
            break
        time.sleep(0.02)
    yield from (f"thread '{thread.name}' is still running after close()" for thread in threads)
    yield from (f"process {pid} is still there after close()" for pid in children)
