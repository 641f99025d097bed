"""Verdicts on disk, so that no judge is asked the same question twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from turngate.errors import StoreError
from turngate.judges.texts import (
    PROTOCOL,
    Answer,
    Critique,
    Fault,
    FaultKind,
    JudgeId,
    PairScores,
    Question,
    Quote,
    Verdict,
)

_SCHEMA = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, judge TEXT, version TEXT, answer TEXT NOT NULL)"
_AT_ONCE = 500  # keys per query; SQLite bounds the number of parameters


def verdict_key(
    question: Question, judge: JudgeId, *, temperature: float, max_tokens: int, quotes: str, sample: int, seed: int
) -> str:
    """A hash of all that a verdict depends on: the protocol, the judge and its version, the whole prompt, sampling.

    The seed is part of it only if the answer is sampled at random (temperature > 0). So runs with different seeds share
    verdicts at temperature 0.
    """
    drawn = seed if temperature > 0 else None
    parts = [PROTOCOL, judge.name, judge.version, question.kind, question.prompt, temperature, max_tokens, quotes]
    text = json.dumps([*parts, sample, drawn])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class VerdictCache:
    """One SQLite file. Each ``write`` is a transaction: whole or absent, also with several processes on it.

    Raises StoreError for a file that is not a cache of verdicts, or cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The stored answers, by key; keys without one are left out."""
        if not self.path.exists():
            return {}
        found: dict[str, Answer] = {}
        with self._open() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT key, answer FROM verdicts WHERE key IN ({marks})", some)
                found |= {key: load_answer(answer) for key, answer in rows}
        return found

    def write(self, answers: Mapping[str, Answer], judge: JudgeId) -> None:
        """Store ``answers``; a key that has one already keeps it."""
        if not answers:
            return
        rows = [(key, judge.name, judge.version, dump_answer(answer)) for key, answer in answers.items()]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as connection:
                connection.execute(_SCHEMA)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"'{self.path}' cannot be used as a cache of verdicts: {error}; name another") from error


def dump_answer(answer: Answer) -> str:
    """The answer as one line of JSON."""
    return json.dumps({"type": type(answer).__name__, **asdict(answer)}, sort_keys=True)


def load_answer(text: str) -> Answer:
    """The answer that ``dump_answer`` wrote. Raises StoreError for anything else."""
    try:
        data = json.loads(text)
        kind = data.pop("type")
        if "quotes" in data:
            data["quotes"] = tuple(Quote(**quote) for quote in data["quotes"])
        if kind == "Critique":
            return Critique(bad_T=tuple(data.pop("bad_T")), **data)
        if kind == "Fault":
            return Fault(kind=FaultKind(data["kind"]), detail=data["detail"])
        made: dict[str, type[Verdict] | type[PairScores]] = {"Verdict": Verdict, "PairScores": PairScores}
        return made[kind](**data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"not a recorded verdict: {text[:80]!r} ({error}); delete the cache") from None
