"""Tasks of tau-bench and tau2-bench that are known to be wrong: why, and by which source."""

from __future__ import annotations

from typing import NamedTuple


class KnownWrong(NamedTuple):
    """A task that should not be trusted. ``id``: as its files have it; of tau-bench its number in the test split."""

    bench: str
    domain: str
    id: str
    reason: str
    source: str


_TAU2 = "https://github.com/sierra-research/tau2-bench"
_CORRECTED = f"{_TAU2}/blob/main/CHANGELOG.md (1.0.0)"
_SAME_ITEM = "its gold end exchanges an item for itself, which its successor has corrected"
_NO_SUCH_REFUND = "its gold end refunds to a payment method that is none, which its successor has corrected"
_NO_PRODUCT = "its gold calls look up a product that is not there"

KNOWN_WRONG = (
    KnownWrong("tau_bench", "retail", "12", _NO_SUCH_REFUND, _CORRECTED),
    KnownWrong("tau_bench", "retail", "13", _NO_SUCH_REFUND, _CORRECTED),
    KnownWrong("tau_bench", "retail", "18", _SAME_ITEM, _CORRECTED),
    KnownWrong("tau_bench", "retail", "91", _SAME_ITEM, _CORRECTED),
    KnownWrong("tau_bench", "retail", "108", _SAME_ITEM, _CORRECTED),
    KnownWrong("tau2", "airline", "6", "it pays without the look-up that it is about", f"{_TAU2}/issues/15"),
    KnownWrong("tau2", "airline", "35", "its users bring a passenger whom the gold end has not", f"{_TAU2}/issues/172"),
    KnownWrong("tau2", "retail", "2", _NO_PRODUCT, f"{_TAU2}/issues/89"),
    KnownWrong("tau2", "retail", "3", _NO_PRODUCT, f"{_TAU2}/issues/89"),
    KnownWrong("tau2", "retail", "4", _NO_PRODUCT, f"{_TAU2}/issues/89"),
    KnownWrong("tau2", "retail", "10", "it asks for two returns, which the gold end has not", f"{_TAU2}/issues/316"),
    KnownWrong("tau2", "retail", "50", "it pays without the hand-over that it is about", f"{_TAU2}/issues/320"),
)


def known_wrong(bench: str, domain: str) -> dict[str, KnownWrong]:
    """The tasks of a domain that are known to be wrong, by their ids."""
    return {one.id: one for one in KNOWN_WRONG if (one.bench, one.domain) == (bench, domain)}
