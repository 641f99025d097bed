"""The connection of this process to a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from turngate.errors import ConfigError, MissingExtra
from turngate.foreign import described

NAMESPACE = "turngate"
ANSWER_S = 5.0
"""How long the head of a cluster may take to accept a connection."""
ATTEMPTS = 3
_held: list[str] = []  # the address of this process's connection, if it has one; a process of Ray's has no two
HOW = "`ray start --head` starts a cluster and prints its address"


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Belong to the cluster at ``address`` in the block: ``HOST:PORT`` of its head, ``ray://HOST:PORT`` of a client
    server, or ``auto`` for the cluster that runs on this machine. A block within one of the same address shares its
    connection.

    Signals are answered as before: Ray would end the process at SIGTERM. Raises MissingExtra, and ConfigError where no
    cluster answers there or its Ray has another version.
    """
    if _held == [address]:
        yield
        return
    try:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as later versions of Ray do without asking
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    if ray.is_initialized():
        raise ConfigError("cluster: this process is connected to a Ray cluster already; one run at a time uses one")
    _check_answer(address)
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _connect(address)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError, OSError and its own
        ray.shutdown()  # it may have begun
        first = cause_of(error).rstrip(".")
        raise ConfigError(
            f"cluster.address = '{address}': {first}; every node needs Ray {ray.__version__}; {HOW}"
        ) from error
    _held.append(address)
    try:
        if is_main:
            signal.signal(signal.SIGTERM, handler)
        yield
    finally:
        _held.clear()
        ray.shutdown()
        if is_main:
            signal.signal(signal.SIGTERM, handler)


def _connect(address: str) -> None:
    """Try ``ATTEMPTS`` times: a head that is busy now and then fails to start the process of a client."""
    import ray

    for left in reversed(range(ATTEMPTS)):
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
            return
        except ConnectionAbortedError:
            ray.shutdown()  # it may have begun
            if not left:
                raise


def _check_answer(address: str) -> None:
    """Raise ConfigError where nothing listens: Ray itself asks such an address for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise ConfigError(f"cluster.address = '{address}' is not HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cluster.address = '{address}': nothing answers there: {error}; {HOW}") from error


def cause_of(error: Exception) -> str:
    """The first sentence of one of Ray's errors."""
    return described(error).strip().splitlines()[0]


def check_room(wanted: Mapping[str, float], processes: int, *, what: str, advice: str) -> None:
    """Raise ConfigError where the nodes of the cluster, taken together, have no room for so many processes of these
    resources each. What others use at the moment is not counted: they may end. ``what``: what they are; ``advice``:
    which settings ask for less."""
    import ray

    there: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    for name, amount in wanted.items():
        if (whole := there.get(name, 0.0)) < amount * processes:
            raise ConfigError(
                f"cluster: {processes} {what} need {amount * processes:g} {name}, and the cluster has {whole:g}; add "
                f"nodes, {advice}"
            )
