"""Tasks of tau-bench and tau2-bench that are known to be wrong: why, and who says so."""

from __future__ import annotations

from typing import NamedTuple


class KnownWrong(NamedTuple):
    """A task that should not be trusted. ``id``: as its own files have it; in v1 its number in the test split."""

    bench: str
    domain: str
    id: str
    reason: str
    source: str


_TAU2 = "https://github.com/sierra-research/tau2-bench/issues/"

KNOWN_WRONG = (
    KnownWrong("tau2", "airline", "6", "pays without the look-up and the refusal that it is about", f"{_TAU2}15"),
    KnownWrong("tau2", "airline", "9", "assertions and gold calls name different days", f"{_TAU2}47"),
    KnownWrong("tau2", "airline", "35", "users bring a second passenger, whom the gold end has not", f"{_TAU2}172"),
    KnownWrong("tau2", "retail", "2", "gold calls look up a product that is not there", f"{_TAU2}89"),
    KnownWrong("tau2", "retail", "3", "gold calls look up a product that is not there", f"{_TAU2}89"),
    KnownWrong("tau2", "retail", "4", "wants a number that the user does not ask for", f"{_TAU2}89"),
    KnownWrong("tau2", "retail", "10", "asks for two returns, which the gold end has not", f"{_TAU2}316"),
    KnownWrong("tau2", "retail", "50", "pays without the hand-over that is its only gold call", f"{_TAU2}320"),
)


def known_wrong(bench: str, domain: str) -> dict[str, KnownWrong]:
    """The tasks of a domain that are known to be wrong, by their ids."""
    return {one.id: one for one in KNOWN_WRONG if (one.bench, one.domain) == (bench, domain)}
