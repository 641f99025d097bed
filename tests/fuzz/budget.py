"""How many examples the fuzzer tries: in CI the same few every time, about two minutes in all; TURNGATE_FUZZ=20 tries
twenty times as many, and others in each session."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("TURNGATE_FUZZ") or 0)


def examples(usual: int) -> Callable:
    """Decorator of a test: so many examples by default. No phase of explaining, because it runs a failure again and
    again, which for a whole environment takes minutes."""
    return settings(
        max_examples=max(1, round(usual * (TIMES or 1))),
        derandomize=not TIMES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
