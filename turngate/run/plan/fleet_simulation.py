"""A fleet plays one step, event by event: what the closed forms of ``turngate.run.plan.fleet`` leave out.

An episode waits for a free slot, first come, first served, and keeps it until it ends or breaks. Each of its turns
passes the one process that starts turns (a queue with one server), is decoded in the slot, and then calls an
environment (a queue with ``workers`` servers). The step ends with its last episode, for the learner waits for whole
groups.

* An environment that dies breaks its episode, and its worker is away for ``env_restart_s``.
* An engine that dies breaks every episode in its slots, and is away for ``engine_restart_s``. A call that was under way
  keeps its worker to the end.
* A broken episode is counted and begins anew, behind those that wait. The calls of an episode take the same time in
  each attempt, because its task decides how long they take.

Random numbers belong to an episode, its turn and its attempt, and to an engine, so that two fleets with one seed meet
the same ones. Events of one moment have a fixed order: calls that end, turns that were decoded, engines; by number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from turngate.errors import ConfigError
from turngate.run.plan.fleet import Fleet
from turngate.types import derive_seed

CALL_ENDED, DECODED, ENGINE_DIED, ENGINE_BACK = range(4)
ENDED_SHARE = 0.9
"""Share of the episodes after which the tail of a step begins."""
MOST_BROKEN = 100
"""Attempts that break for each episode, after which a simulation gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDraws:
    """What chance decides. ``env_s[i][t]``: seconds of the call of episode i in turn t. ``dies_s(i, t, attempt)``:
    seconds into that call after which the environment would die. ``gap_s(engine, k)``: seconds that an engine lives
    before its k-th failure, since its last restart."""

    env_s: Sequence[Sequence[float]]
    dies_s: Callable[[int, int, int], float]
    gap_s: Callable[[int, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """How a step went. ``tail_s``: seconds between the end of nine tenths of the episodes and the end of all.
    ``broken``: attempts that broke. ``slots_used`` and ``workers_used``: shares of their time in which slots decoded
    and workers answered. ``ends_s``: when each episode ended."""

    collect_s: float
    tail_s: float
    broken: int
    engine_failures: int
    slots_used: float
    workers_used: float
    ends_s: Sequence[float]


def simulate_step(fleet: Fleet, *, episodes: int, turns: int, seed: int) -> SimulatedStep:
    """Play a step. Raises ConfigError where it would hardly ever end."""
    return play_draws(fleet, draws_of(fleet, episodes=episodes, turns=turns, seed=seed))


def draws_of(fleet: Fleet, *, episodes: int, turns: int, seed: int) -> FleetDraws:
    """The draws of a seed. Seconds of calls are lognormal with mean ``env_s`` and σ ``env_sigma``; lives are
    exponential."""

    @cache
    def lives_NT(attempt: int) -> list[list[float]]:
        rng = np.random.default_rng(derive_seed(seed, "environment lives", attempt))
        lives: list[list[float]] = rng.standard_exponential((episodes, turns)).tolist()
        return lives

    def dies_s(episode: int, turn: int, attempt: int) -> float:
        rate = fleet.env_failures_per_s
        return lives_NT(attempt)[episode][turn] / rate if rate else inf

    def gap_s(engine: int, k: int) -> float:
        if not fleet.engine_failures_per_s:
            return inf
        rng = np.random.default_rng(derive_seed(seed, "engine lives", engine, k))
        return float(rng.standard_exponential()) / fleet.engine_failures_per_s

    rng, sigma = np.random.default_rng(derive_seed(seed, "calls")), fleet.env_sigma
    env_s_NT = fleet.env_s * np.exp(sigma * rng.standard_normal((episodes, turns)) - sigma**2 / 2)
    return FleetDraws(env_s=env_s_NT.tolist(), dies_s=dies_s, gap_s=gap_s)


def play_draws(fleet: Fleet, draws: FleetDraws) -> SimulatedStep:
    """Play a step whose chances are decided."""
    playing = _PlayedStep(fleet, draws)
    playing.play()
    ends_s = sorted(playing.ends_s)
    collect_s = ends_s[-1]
    whole = max(collect_s, 1e-300)
    return SimulatedStep(
        collect_s=collect_s,
        tail_s=collect_s - ends_s[max(int(len(ends_s) * ENDED_SHARE) - 1, 0)],
        broken=playing.broken,
        engine_failures=sum(playing.failures),
        slots_used=playing.n_decoded * fleet.decode_s / (fleet.at_once * whole),
        workers_used=playing.answering_s / (fleet.workers * whole),
        ends_s=tuple(playing.ends_s),
    )


class _PlayedStep:
    """The state between two events. An event is (seconds, kind, episode or engine, attempt); one of an attempt that
    broke since is passed over."""

    def __init__(self, fleet: Fleet, draws: FleetDraws) -> None:
        n = len(draws.env_s)
        self.fleet, self.draws, self.turns = fleet, draws, len(draws.env_s[0])
        self.turn, self.attempt, self.ends_s, self.left = [0] * n, [0] * n, [inf] * n, n
        self.slot = [(-1, -1)] * n
        self.waiting = deque(range(n))
        self.failures = [0] * fleet.engines
        """Of each engine. A free slot names how many there were, and is gone after the next."""
        self.free = [(slot, engine, 0) for slot in range(fleet.slots) for engine in range(fleet.engines)]
        self.on: list[set[int]] = [set() for _ in range(fleet.engines)]
        self.workers = [0.0] * fleet.workers
        self.host_free_s = self.answering_s = 0.0
        self.broken = self.n_decoded = 0
        heapify(self.free)
        lives = ((draws.gap_s(engine, 0), ENGINE_DIED, engine, 0) for engine in range(fleet.engines))
        self.events = [life for life in lives if life[0] < inf]
        heapify(self.events)

    def play(self) -> None:
        """Every event in its order, until the last episode has ended."""
        self._fill(0.0)
        attempt, most = self.attempt, MOST_BROKEN * (self.left + 10)
        while self.left:
            now_s, kind, who, of_attempt = heappop(self.events)
            if kind == DECODED:
                if of_attempt == attempt[who]:
                    self._call(now_s, who)
            elif kind == CALL_ENDED:
                if of_attempt == attempt[who]:
                    self._after_call(now_s, who)
            elif kind == ENGINE_DIED:
                self._engine_died(now_s, who)
            else:
                self._engine_back(now_s, who)
            if self.broken > most:
                raise ConfigError(
                    f"after {now_s:.3g} s {self.broken:,} episodes have broken and {self.left:,} are not done; lower "
                    "the rates of failures, or play shorter episodes"
                )

    def _fill(self, now_s: float) -> None:
        """Give free slots to the episodes that wait."""
        while self.waiting and self.free:
            place, engine, failures = heappop(self.free)
            if failures == self.failures[engine]:
                episode = self.waiting.popleft()
                self.slot[episode] = (place, engine)
                self.on[engine].add(episode)
                self._begin_turn(now_s, episode)

    def _begin_turn(self, now_s: float, episode: int) -> None:
        self.host_free_s = max(now_s, self.host_free_s) + self.fleet.host_s
        self.n_decoded += 1
        heappush(self.events, (self.host_free_s + self.fleet.decode_s, DECODED, episode, self.attempt[episode]))

    def _call(self, now_s: float, episode: int) -> None:
        """Calls come in the order of time, so each takes the worker that is free first."""
        turn, attempt = self.turn[episode], self.attempt[episode]
        length_s, dies_s = self.draws.env_s[episode][turn], self.draws.dies_s(episode, turn, attempt)
        start_s = max(now_s, heappop(self.workers))
        dies = dies_s < length_s
        end_s = start_s + (dies_s if dies else length_s)
        self.answering_s += end_s - start_s
        heappush(self.workers, end_s + self.fleet.env_restart_s if dies else end_s)
        if dies:
            self.turn[episode] = -1  # known to break when its call ends
        heappush(self.events, (end_s, CALL_ENDED, episode, attempt))

    def _after_call(self, now_s: float, episode: int) -> None:
        if self.turn[episode] < 0:
            self._leave(episode)
            self._break(episode)
            self._fill(now_s)
            return
        self.turn[episode] += 1
        if self.turn[episode] < self.turns:
            self._begin_turn(now_s, episode)
            return
        self.ends_s[episode] = now_s
        self.left -= 1
        self._leave(episode)
        self._fill(now_s)

    def _leave(self, episode: int) -> None:
        place, engine = self.slot[episode]
        self.on[engine].remove(episode)
        heappush(self.free, (place, engine, self.failures[engine]))

    def _break(self, episode: int) -> None:
        self.broken += 1
        self.attempt[episode] += 1
        self.turn[episode] = 0
        self.waiting.append(episode)

    def _engine_died(self, now_s: float, engine: int) -> None:
        self.failures[engine] += 1
        for episode in sorted(self.on[engine]):
            self._break(episode)
        self.on[engine].clear()
        heappush(self.events, (now_s + self.fleet.engine_restart_s, ENGINE_BACK, engine, 0))

    def _engine_back(self, now_s: float, engine: int) -> None:
        failures = self.failures[engine]
        for place in range(self.fleet.slots):
            heappush(self.free, (place, engine, failures))
        heappush(self.events, (now_s + self.draws.gap_s(engine, failures), ENGINE_DIED, engine, 0))
        self._fill(now_s)
