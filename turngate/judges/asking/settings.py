"""How a judge's model is asked, and counts of its calls, faults and canaries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from turngate.errors import ConfigError
from turngate.judges.texts import FaultKind
from turngate.judges.texts.replies import QuoteRule
from turngate.types import Metrics


class JudgeSettings(BaseModel):
    """How a judge's model is asked. All defaults are ours. Raises ConfigError for bounds in the wrong order."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    call_s: float = Field(60.0, gt=0)
    """Most seconds of one call; a call that takes longer is repeated."""
    deadline_s: float = Field(300.0, gt=0)
    """Most seconds of one question with all its retries; after that its verdict is missing."""
    attempts: int = Field(4, ge=1)
    """Most calls per question, the first one included."""
    backoff_s: float = Field(0.5, ge=0)
    """Seconds before the first retry; they double with each further one, and are shortened at random by up to a
    half."""
    backoff_max_s: float = Field(30.0, ge=0)
    """Most seconds between two retries."""
    max_tokens: int = Field(512, ge=1)
    """Most tokens of a reply."""
    temperature: float = Field(0.0, ge=0)
    """Sampling temperature of the first answer to a question; 0 = always the likeliest."""
    votes: int = Field(1, ge=1)
    """Number of answers whose majority decides about an episode, if the score of the first answer lies within doubt."""
    vote_temperature: float = Field(0.7, ge=0)
    """Sampling temperature of the further answers; above 0, or they repeat the first."""
    doubt: tuple[float, float] = (0.3, 0.7)
    """Lowest and highest score of a first answer for which further answers are asked; has an effect with votes > 1."""
    canary_share: float = Field(0.02, ge=0, le=1)
    """Number of canaries of each of the five kinds, as a share of a batch's questions. A canary is planted work that
    deserves no yes; if the judge accepts one, all verdicts of the batch are discarded."""
    canary_min: int = Field(1, ge=1)
    """Least number of canaries of each kind in a batch, however small the batch."""
    quotes: QuoteRule = "decisive"
    """Which verdicts must quote the episode: decisive: a yes, a winner or a wrong step; always: every one."""
    limit: int = Field(4000, ge=1)
    """Most characters that the judge is shown of one text; the middle of a longer one is left out."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for bounds in the wrong order."""
        if self.backoff_s > self.backoff_max_s:
            raise ConfigError(f"backoff_s {self.backoff_s} must not exceed backoff_max_s {self.backoff_max_s}")
        if self.doubt[0] > self.doubt[1]:
            raise ConfigError(f"doubt {self.doubt} must name the lower score first")


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of one or more batches.

    ``n_cached`` answers came from the cache, ``n_ruled`` were decided by rules without asking, and ``n_missed`` of the
    ``n_canaries`` were accepted by the judge. ``faults`` counts every call that failed, also those whose retry
    succeeded. ``void`` says why the verdicts are void; empty if they are not.
    """

    n_calls: int = 0
    n_cached: int = 0
    n_ruled: int = 0
    n_canaries: int = 0
    n_missed: int = 0
    faults: Counter[FaultKind] = field(default_factory=Counter)
    void: str = ""

    def metrics(self, prefix: str = "judge/") -> Metrics:
        """The counts as metrics whose names begin with ``prefix``."""
        counts = {"calls": self.n_calls, "cached": self.n_cached, "ruled": self.n_ruled, "void": bool(self.void)}
        counts |= {"canaries": self.n_canaries, "canaries_missed": self.n_missed}
        counts |= {f"fault_{kind}": self.faults[kind] for kind in FaultKind}
        return {f"{prefix}{name}": float(count) for name, count in counts.items()}

    def add(self, other: Tally) -> None:
        """Add the counts of another batch."""
        self.n_calls += other.n_calls
        self.n_cached += other.n_cached
        self.n_ruled += other.n_ruled
        self.n_canaries += other.n_canaries
        self.n_missed += other.n_missed
        self.faults += other.faults
        self.void = self.void or other.void
