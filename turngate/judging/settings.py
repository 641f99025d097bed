"""How a judge asks, and what it took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from turngate.errors import ConfigError
from turngate.rewards.judge import FaultKind
from turngate.rewards.judge.replies import QuoteRule
from turngate.types import Metrics


class JudgeSettings(BaseModel):
    """How a judge asks. All defaults are ours. Raises ConfigError for bounds the wrong way round."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    call_s: float = Field(60.0, gt=0)
    """Most seconds of one call."""
    deadline_s: float = Field(300.0, gt=0)
    """Most seconds of one question with all its retries."""
    attempts: int = Field(4, ge=1)
    """Most calls per question."""
    backoff_s: float = Field(0.5, ge=0)
    """Wait before the first retry; doubles each time, with jitter."""
    backoff_max_s: float = Field(30.0, ge=0)
    """Longest wait."""
    max_tokens: int = Field(512, ge=1)
    """Most tokens of a reply."""
    temperature: float = Field(0.0, ge=0)
    """Of the first sample."""
    votes: int = Field(1, ge=1)
    """Samples of a pointwise verdict whose score lies in ``doubt``."""
    vote_temperature: float = Field(0.7, ge=0)
    """Of every further sample."""
    doubt: tuple[float, float] = (0.3, 0.7)
    """Scores between which more samples are asked for."""
    canary_share: float = Field(0.02, ge=0, le=1)
    """Canaries of each of the four kinds, as a share of a batch's questions."""
    canary_min: int = Field(1, ge=1)
    """Fewest canaries of each kind in a batch."""
    quotes: QuoteRule = "decisive"
    """Which verdicts need a quote, see ``read_answer``."""
    limit: int = Field(4000, ge=1)
    """Most characters shown of one text."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for bounds the wrong way round."""
        if self.backoff_s > self.backoff_max_s:
            raise ConfigError(f"backoff_s {self.backoff_s} must not exceed backoff_max_s {self.backoff_max_s}")
        if self.doubt[0] > self.doubt[1]:
            raise ConfigError(f"doubt {self.doubt} must name the lower score first")


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

    def metrics(self, prefix: str = "judge/") -> Metrics:
        """As numbers whose names begin with ``prefix``."""
        counts = {"calls": self.n_calls, "cached": self.n_cached, "ruled": self.n_ruled, "void": bool(self.void)}
        counts |= {"canaries": self.n_canaries, "canaries_missed": self.n_missed}
        counts |= {f"fault_{kind}": self.faults[kind] for kind in FaultKind}
        return {f"{prefix}{name}": float(count) for name, count in counts.items()}

    def add(self, other: Tally) -> None:
        """Count another batch in."""
        self.n_calls += other.n_calls
        self.n_cached += other.n_cached
        self.n_ruled += other.n_ruled
        self.n_canaries += other.n_canaries
        self.n_missed += other.n_missed
        self.faults += other.faults
        self.void = self.void or other.void
