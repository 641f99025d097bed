"""How a judge asks, and what it took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from turngate.errors import ConfigError
from turngate.rewards.judge import FaultKind
from turngate.rewards.judge.canaries import how_many
from turngate.rewards.judge.replies import QuoteRule
from turngate.types import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How a judge asks. All defaults are ours. Raises ConfigError for values that cannot be."""

    call_s: float = 60.0
    """Most seconds of one call."""
    deadline_s: float = 300.0
    """Most seconds of one question with all its retries."""
    attempts: int = 4
    """Most calls per question."""
    backoff_s: float = 0.5
    """Wait before the first retry; doubles each time, with jitter."""
    backoff_max_s: float = 30.0
    """Longest wait."""
    max_tokens: int = 512
    """Most tokens of a reply."""
    temperature: float = 0.0
    """Of the first sample."""
    votes: int = 1
    """Samples of a pointwise verdict whose score lies in ``doubt``."""
    vote_temperature: float = 0.7
    """Of every further sample."""
    doubt: tuple[float, float] = (0.3, 0.7)
    """Scores between which more samples are asked for."""
    canary_share: float = 0.02
    """Canaries of each of the four kinds, as a share of a batch's questions."""
    canary_min: int = 1
    """Fewest canaries of each kind in a batch."""
    quotes: QuoteRule = "decisive"
    """Which verdicts need a quote, see ``read_answer``."""
    limit: int = 4000
    """Most characters shown of one text."""

    def __post_init__(self) -> None:
        positive = {"call_s": self.call_s, "deadline_s": self.deadline_s, "attempts": self.attempts}
        positive |= {"max_tokens": self.max_tokens, "votes": self.votes, "limit": self.limit}
        for name, value in positive.items():
            if not value > 0:
                raise ConfigError(f"{name} is {value}; it must be above 0")
        if not 0 <= self.backoff_s <= self.backoff_max_s:
            raise ConfigError(f"backoff_s {self.backoff_s} must lie between 0 and backoff_max_s {self.backoff_max_s}")
        if min(self.temperature, self.vote_temperature) < 0:
            raise ConfigError(f"temperatures {self.temperature} and {self.vote_temperature} must be at least 0")
        how_many(0, share=self.canary_share, at_least=self.canary_min)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a batch took. ``faults`` counts every call that failed, also those whose retry succeeded."""

    n_calls: int = 0
    n_cached: int = 0
    n_ruled: int = 0
    n_canaries: int = 0
    n_missed: int = 0
    faults: Counter[FaultKind] = field(default_factory=Counter)
    void: str = ""

    def metrics(self) -> Metrics:
        """As ``judge/…`` numbers."""
        counts = {"calls": self.n_calls, "cached": self.n_cached, "ruled": self.n_ruled, "void": bool(self.void)}
        counts |= {"canaries": self.n_canaries, "canaries_missed": self.n_missed}
        counts |= {f"fault_{kind}": self.faults[kind] for kind in FaultKind}
        return {f"judge/{name}": float(count) for name, count in counts.items()}

    def add(self, other: Tally) -> None:
        """Count another batch in."""
        self.n_calls += other.n_calls
        self.n_cached += other.n_cached
        self.n_ruled += other.n_ruled
        self.n_canaries += other.n_canaries
        self.n_missed += other.n_missed
        self.faults += other.faults
        self.void = self.void or other.void
