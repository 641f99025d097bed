"""Worked numbers, compared as they are printed: the tolerance is absolute."""

from typing import Any

import pytest


def near(expected: Any, tolerance: float = 1e-5) -> Any:
    """A missing number (NaN) is near nothing."""
    return pytest.approx(expected, abs=tolerance, rel=0)


def near_or_missing(expected: Any, tolerance: float = 1e-5) -> Any:
    """Where NaN is expected there must be one."""
    return pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)
