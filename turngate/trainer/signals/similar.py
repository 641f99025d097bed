"""Signals that compare siblings: which states are nearly the same text, and which tokens siblings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turngate.trainer.credit.anchors import join_similar
from turngate.trainer.credit.token_credit import prefix_counts
from turngate.trainer.signals.base import Found, Played


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarStates:
    """``similar_N``, for ``gigpo(anchors="similar")``: turns of a cohort whose observations are nearly the same text.

    ``threshold`` is the least difflib ratio at which two observations count as one state, and ``unit`` what the ratio
    is taken over (see ``credit.anchors.join_similar``). A turn whose observation is empty gets −1, unknown.
    """

    threshold: float = 0.95
    unit: Literal["words", "characters"] = "words"

    def measure(self, played: Played) -> Found:
        texts = [turn.observation.text for trajectory in played.trajectories for turn in trajectory.turns]
        cohorts = played.table.cohort_B[played.table.traj_N].tolist()
        return Found(columns={"similar_N": join_similar(texts, cohorts, threshold=self.threshold, unit=self.unit)})


@dataclass(frozen=True, slots=True)
class SharedTokens:
    """``sharing_S``, for ``lambda_grpo_tokens``: how many siblings have this token and the same tokens before it.

    A trajectory counts itself. Guided and unguided siblings are of different cohorts and share nothing.
    """

    def measure(self, played: Played) -> Found:
        counts_L = prefix_counts(played.batch.ids_L, played.batch.segment_L, played.table.cohort_B)
        return Found(columns={"sharing_S": counts_L[played.spoken_S]})
