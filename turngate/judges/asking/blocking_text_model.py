"""``BlockingTextModel``: a model for code that cannot await, such as an environment: from a prompt to a text.

The model is asked in a thread of its own, which all environments of a process share. A reply that does not come in
time, or has another form than was asked for, is an EnvError, which makes the episode unusable; no default takes its
place. With a cache, replies are kept in a file, from which the same texts are read again without a model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turngate.errors import ConfigError, DataError, EnvError
from turngate.jsonl import read_rows
from turngate.judges.asking.parts import JudgePart
from turngate.judges.asking.text_model import Prompt, Reply, TextModel
from turngate.judges.texts import FaultKind
from turngate.rewards.no_verdict import INDUCED, SILENCED
from turngate.servers.loop_thread import LoopThread
from turngate.types import JSON, derive_seed, storable

_log = logging.getLogger(__name__)
_VERDICTS = ("votes", "vote_temperature", "doubt", "canary_share", "canary_min", "quotes", "limit")
_PAUSES = ("deadline_s", "backoff_s", "backoff_max_s")
"""Settings of a judge that a model behind an environment does not use, or sets itself."""
REMEMBERED = 10_000
"""Most replies that are remembered without a file; the oldest is forgotten first."""
MOST_S = 29.0
"""Longest deadline: a turn of the environments that ask has 30 s."""
THREAD = "model behind an environment"


class Declined(EnvError):
    """The model declined to answer, used another form than was asked for, or did not end its answer. Words of the agent
    in the prompt can cause that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A reply of a model. ``tokens``: by its own count, or words where it does not count."""

    text: str
    tokens: int


def refuse_unfit(judge: JudgePart, role: str) -> None:
    """Raises ConfigError for the policy that is being trained, and for settings that are about verdicts."""
    if judge.is_policy:
        raise ConfigError(f'{role} cannot be the policy that is being trained; use type = "server" or "model"')
    fields = type(judge).model_fields
    if unfit := [name for name in (*_VERDICTS, *_PAUSES) if getattr(judge, name) != fields[name].default]:
        raise ConfigError(f"{judge.noun}.{unfit[0]} has no effect on {role}; leave it out")


class BlockingTextModel:
    """Asks ``judge`` from any thread. Its text model is opened at the first question that no file answers.

    ``role``: what messages call the model. ``identity``: what a reply depends on beside the prompt; ``seed``: where
    sampling begins. ``deadline_s``: most seconds of one reply with all its attempts. ``fits``: whether a text has the
    form that was asked for. Raises DataError for a cache that holds something else.
    """

    def __init__(
        self,
        judge: JudgePart,
        *,
        role: str,
        identity: JSON,
        deadline_s: float,
        seed: int = 0,
        cache: Path | None = None,
        fits: Callable[[str], bool] = bool,
    ) -> None:
        self._judge, self._role, self._identity, self._seed = judge, role, identity, seed
        self._deadline_s, self._fits = deadline_s, fits
        self._cache = None if cache is None else cache.absolute()  # code of an environment may change the folder
        self._known = {} if self._cache is None else _read(self._cache, role, fits)
        self._line: _Line | None = None
        self._lock = threading.Lock()
        self._warned = False

    def complete(self, prompt: str, *, again: str = "") -> Told:
        """The reply to a prompt, the same one every time.

        Raises EnvError where there is none in time, and Declined where the model would not give one, or
        not of the right form.

        ``again``: the prompt for a second try, after a reply that declines or has another form, with the words of the
        agent marked as data.
        """
        key = hashlib.blake2b(json.dumps([self._identity, prompt]).encode(), digest_size=16).hexdigest()
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        told = self._asked(prompt, again or prompt, key)
        with self._lock:
            self._known[key] = told
            if self._cache:
                _append(self._cache, key, told)
            elif len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        return told

    def close(self) -> None:
        """Stop using the model. Safe to repeat."""
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            _dismissed(self._judge)

    def _asked(self, text: str, again: str, key: str) -> Told:
        """Ask until a reply has the form, at most ``attempts`` times and for ``deadline_s`` seconds in all."""
        judge, end_s, problem = self._judge, time.monotonic() + self._deadline_s, "no time was left"
        with self._lock:
            if self._line is None:
                self._line = _hired(judge)
            line = self._line
        declined = False
        for attempt in range(judge.attempts):
            limit_s = min(judge.call_s, end_s - time.monotonic())
            if limit_s <= 0:
                break
            prompt = Prompt(
                name=f"behind/{key}/{attempt}",
                text=text,
                seed=derive_seed(self._seed, key, attempt),
                max_tokens=judge.max_tokens,
                temperature=judge.temperature,
            )
            reply = line.complete(prompt, limit_s)
            declined = reply is not None and reply.fault is not None and reply.fault.kind in INDUCED
            if reply is None:
                problem = f"it did not reply within {limit_s:.3g} s"
            elif reply.fault:
                problem = f"{reply.fault.kind}: {reply.fault.detail}"
                if reply.fault.kind is FaultKind.CUT_OFF:
                    problem += f", {judge.max_tokens} tokens"
                    self._warn_of_length(problem)
                if not reply.again:
                    break
            elif not self._fits(reply.text):
                declined = True
                problem = f"its reply has another form than was asked for: {reply.text[:80]!r}"
            else:
                return Told(text=reply.text, tokens=_counted(reply))
            text = again if declined else text
        if declined:
            raise Declined(f"{self._role} gave no reply, of which {SILENCED}: {problem}")
        raise EnvError(f"{self._role} gave no reply: {problem}")

    def _warn_of_length(self, problem: str) -> None:
        """Warn once: where it happens often, a setting is wrong, and there may be no error that shows it."""
        if not self._warned:
            self._warned = True
            _log.warning("a reply of %s is not used: %s; raise max_tokens if that is often", self._role, problem)


def _counted(reply: Reply) -> int:
    return len(reply.text.split()) if reply.tokens is None else reply.tokens


# --- the thread -------------------------------------------------------------------------------------------------------


class _Line:
    """A text model in a thread of its own. ``n_users``: how many environments hold it."""

    def __init__(self, judge: JudgePart) -> None:
        self.n_users = 0
        self._thread = LoopThread(THREAD)
        try:
            self._text_model: TextModel = judge.text_model(None)
            self._thread.run(self._text_model.__aenter__())
        except BaseException:
            self._thread.close()
            raise

    def complete(self, prompt: Prompt, limit_s: float) -> Reply | None:
        """The reply, or None if it takes longer than ``limit_s`` seconds."""
        return self._thread.run(self._completed(prompt, limit_s))

    def close(self) -> None:
        """Close the text model and end the thread."""
        try:
            self._thread.run(self._text_model.__aexit__(None, None, None))
        finally:
            self._thread.close()

    async def _completed(self, prompt: Prompt, limit_s: float) -> Reply | None:
        try:
            async with asyncio.timeout(limit_s), self._text_model.slot():
                return await self._text_model.complete(prompt)
        except TimeoutError:
            return None


_LINES: dict[str, _Line] = {}
_LOCK = threading.Lock()


def _hired(judge: JudgePart) -> _Line:
    """The thread of a model, which all environments of the process share."""
    with _LOCK:
        key = judge.model_dump_json()
        if key not in _LINES:
            _LINES[key] = _Line(judge)
        _LINES[key].n_users += 1
        return _LINES[key]


def _dismissed(judge: JudgePart) -> None:
    """Stop using a model's thread; the last user closes it."""
    with _LOCK:
        key = judge.model_dump_json()
        line = _LINES[key]
        line.n_users -= 1
        if not line.n_users:
            _LINES.pop(key).close()


# --- the file ---------------------------------------------------------------------------------------------------------


def _read(path: Path, role: str, fits: Callable[[str], bool]) -> dict[str, Told]:
    """The replies in a file. Raises DataError for a line of another form."""
    known: dict[str, Told] = {}
    for line, row in read_rows(path) if path.exists() else ():
        key, text = (row.get("key"), row.get("text")) if isinstance(row, dict) else (None, None)
        if not isinstance(row, dict) or not isinstance(key, str) or not isinstance(text, str) or not fits(text):
            raise DataError(path, f"is no reply of {role}", line=line)
        tokens = row.get("tokens")
        known[key] = Told(text=storable(text), tokens=tokens if isinstance(tokens, int) else len(text.split()))
    return known


def _append(path: Path, key: str, told: Told) -> None:
    """Add a reply in one write, because other processes may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps({"key": key, "text": told.text, "tokens": told.tokens}).encode() + b"\n")
