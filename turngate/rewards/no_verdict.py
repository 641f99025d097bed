"""Why a judge gave no verdict."""

from __future__ import annotations

from enum import StrEnum


class FaultKind(StrEnum):
    """Why there is no verdict."""

    TIMEOUT = "timeout"  # the call or the deadline ran out
    UNAVAILABLE = "unavailable"  # the server failed, refused the connection or could not take the prompt
    REFUSAL = "refusal"  # the judge would not answer
    MALFORMED = "malformed"  # not the one JSON object that was asked for, or one that contradicts itself
    CUT_OFF = "cut_off"  # the reply was longer than allowed, so what it says last is missing
    UNQUOTED = "unquoted"  # a quote is missing or is not in the transcript
    INVALID = "invalid"  # the judge says that the work cannot be judged
    VOID = "void"  # the batch was thrown away because a canary was missed


INDUCED = frozenset((FaultKind.REFUSAL, FaultKind.MALFORMED, FaultKind.CUT_OFF, FaultKind.UNQUOTED, FaultKind.INVALID))
"""Faults that words of the work can bring about: a judge that obeys them says nothing of use. The question is asked
again with all words marked as data; where that does not help, the monitor ``silenced`` counts the episode."""

SILENCED = "words of the agent may be the cause"
"""Stands in the error of an episode whose model-played user said nothing of use."""
