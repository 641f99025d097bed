"""Waiting for what other processes and threads do."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], limit_s: float = 90) -> None:
    """Come back as soon as the condition holds; AssertionError if it does not within the limit."""
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, "what was waited for did not come about"
        time.sleep(0.02)
