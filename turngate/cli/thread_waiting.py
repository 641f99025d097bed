"""How torch's threads wait for each other: spinning for a moment, then asleep.

The OpenMP library in torch's Linux packages (libgomp) lets a thread that waits spin for milliseconds. Beside another
busy program the spinning threads take the cores from the one that they wait for, and a training step takes many times
as long. Threads that never spin are woken up for every small operation, which costs time on an idle machine. So they
spin for a bounded moment, longer than the gap between two operations and shorter than a turn of the scheduler.
``benchmarks/shared_cores.py`` measures it. The arithmetic is the same.
"""

from __future__ import annotations

from collections.abc import MutableMapping

SPINS = "1000"
"""Rounds of the loop in which a thread waits before it sleeps: some 10 to 50 µs."""


def bound_spinning(environ: MutableMapping[str, str]) -> None:
    """Set ``GOMP_SPINCOUNT``, unless the user has set it or ``OMP_WAIT_POLICY``.

    It has an effect only before torch is loaded. For programs alone: a library leaves the environment as it is.
    """
    if "OMP_WAIT_POLICY" not in environ:
        environ.setdefault("GOMP_SPINCOUNT", SPINS)
