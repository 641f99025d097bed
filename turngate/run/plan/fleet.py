"""The machines that play the episodes of a step, and closed forms of how long they take.

Symbols: n episodes of T turns; E engines with S slots each, so C = E·S episodes at once; a turn takes h seconds of the
one process that starts turns, d seconds of decoding in its slot, and e seconds of one of W environment workers.
``turngate.run.plan.fleet_simulation`` plays the same fleet event by event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from turngate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Engines, environment workers and the process between them.

    ``decode_s``, ``env_s`` and ``host_s`` are the mean seconds of a turn in each. ``env_sigma``: σ of the lognormal
    distribution of an environment's seconds, 0 where all are equal. Failures are Poisson processes: of an engine in any
    second, of an environment in any second of a call. Raises ConfigError for a number that no fleet can have.
    """

    engines: int
    slots: int
    workers: int
    decode_s: float
    env_s: float = 0.0
    host_s: float = 0.0
    env_sigma: float = 0.0
    engine_failures_per_s: float = 0.0
    engine_restart_s: float = 0.0
    env_failures_per_s: float = 0.0
    env_restart_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("engines", "slots", "workers"):
            if (number := getattr(self, name)) < 1:
                raise ConfigError(f"a fleet with {name} = {number} plays nothing; it needs at least 1")
        for field in fields(self):
            if not 0 <= (number := getattr(self, field.name)) < math.inf:
                raise ConfigError(f"{field.name} = {number} of a fleet has to be 0 or more, and finite")

    @property
    def at_once(self) -> int:
        """C = E·S: episodes that are played at once."""
        return self.engines * self.slots

    @property
    def turn_s(self) -> float:
        """h + d + e: seconds of a turn that waits for nothing."""
        return self.host_s + self.decode_s + self.env_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBounds:
    """Three lower bounds of the seconds in which a fleet plays a step, one for each thing that may limit it."""

    sampling_s: float
    environments_s: float
    host_s: float

    @property
    def most_s(self) -> float:
        """The largest, which is the estimate."""
        return max(self.sampling_s, self.environments_s, self.host_s)

    @property
    def limit(self) -> str:
        """The stage with the largest bound."""
        bounds = {"sampling": self.sampling_s, "environments": self.environments_s, "host": self.host_s}
        return max(bounds, key=lambda stage: bounds[stage])


def collect_bounds(fleet: Fleet, *, episodes: int, turns: int) -> CollectBounds:
    """Seconds of a step by Little's law, from each side.

    Slots: ⌈n / C⌉ rounds of T turns, each of h + d + e seconds. Workers: n·T calls of e seconds, W at a time:
    n·T·e / W. The one process: n·T·h. All three times ``restart_factor``, for what broke is played again; slots and
    workers also times 1 + λ·R of their failures, for they are away for R seconds after each. A step takes at least the
    largest of the three; how much longer, the simulation says: queues, and the slowest episode that all wait for.
    """
    again = restart_factor(fleet, turns)
    engines_away = 1 + fleet.engine_failures_per_s * fleet.engine_restart_s
    workers_away = 1 + fleet.env_failures_per_s * fleet.env_restart_s
    calls = episodes * turns * again
    return CollectBounds(
        sampling_s=math.ceil(episodes / fleet.at_once) * turns * fleet.turn_s * again * engines_away,
        environments_s=calls * fleet.env_s / fleet.workers * workers_away,
        host_s=calls * fleet.host_s,
    )


def hazard(fleet: Fleet) -> float:
    """λ: failures per second that break an episode, of its engine and, while it is in a call, of its environment."""
    share = fleet.env_s / fleet.turn_s if fleet.turn_s else 0.0
    return fleet.engine_failures_per_s + fleet.env_failures_per_s * share


def broken_per_episode(fleet: Fleet, turns: int) -> float:
    """e^{λD} − 1: attempts that break before one of D = T·(h + d + e) seconds goes through.

    Raises ConfigError where that is more than 100, for then hardly an episode ever ends.
    """
    exponent = hazard(fleet) * turns * fleet.turn_s
    if exponent > math.log(101):
        raise ConfigError(
            f"an episode of {turns * fleet.turn_s:.3g} s meets {exponent:.3g} failures on average, so hardly one ends; "
            "lower the rates of failures, or play shorter episodes"
        )
    return math.expm1(exponent)


def restart_factor(fleet: Fleet, turns: int) -> float:
    """(e^{λD} − 1) / λD: seconds spent on an episode that begins anew whenever it breaks, over those of one attempt; 1
    without failures."""
    exponent = hazard(fleet) * turns * fleet.turn_s
    return broken_per_episode(fleet, turns) / exponent if exponent > 0 else 1.0
