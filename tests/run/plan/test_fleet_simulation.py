"""The simulator beside closed forms, beside a clock that ticks, and laws that no fleet may break."""

import math
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.run.plan.fleet import Fleet, broken_per_episode, collect_bounds, restart_factor
from turngate.run.plan.fleet_simulation import FleetDraws, draws_of, play_draws, simulate_step

HARDLY_EVER = 1e-12


def fleet(**changes):
    return Fleet(**{"engines": 1, "slots": 1, "workers": 1, "decode_s": 1.0, **changes})


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "episodes", "turns", "expected_s"),
    [
        ({"env_s": 2.0}, 5, 3, 5 * 3 * 3.0),  # one slot: one after the other
        ({"slots": 5, "workers": 5, "env_s": 2.0}, 5, 3, 3 * 3.0),  # a slot and a worker for each
        ({"engines": 5, "workers": 5, "env_s": 2.0}, 5, 3, 3 * 3.0),
        ({"slots": 2, "workers": 2, "env_s": 2.0}, 5, 3, 3 * 3 * 3.0),  # three rounds
        ({"slots": 4, "host_s": 0.5}, 4, 1, 4 * 0.5 + 1.0),  # the last begins when the host has started all
        ({"slots": 4, "env_s": 2.0}, 4, 1, 1.0 + 4 * 2.0),  # one worker answers one after the other
    ],
)
def test_constant_seconds_add_up(changes, episodes, turns, expected_s):
    assert simulate_step(fleet(**changes), episodes=episodes, turns=turns, seed=0).collect_s == pytest.approx(
        expected_s
    )


def exponential(customers, turns, mean_s):
    """Draws of calls with exponential seconds and no failures."""
    env_s = np.random.default_rng(3).exponential(mean_s, (customers, turns)).tolist()
    return FleetDraws(env_s=env_s, dies_s=lambda *_: math.inf, gap_s=lambda *_: math.inf)


@pytest.mark.parametrize(
    ("customers", "think_s", "mean_s"), [(1, 1.0, 1.0), (3, 2.0, 1.0), (6, 10.0, 1.0), (8, 2.0, 1.0)]
)
def test_one_worker_is_the_machine_repairman(customers, think_s, mean_s):
    """M/M/1//C: P(idle) = 1 / Σ_k C!/(C−k)! (mean/think)^k, also for constant thinking, for that station is insensitive
    (Baskett, Chandy, Muntz, Palacios 1975)."""
    turns = 4000
    one = fleet(slots=customers, decode_s=think_s, env_s=mean_s)
    found = play_draws(one, exponential(customers, turns, mean_s))
    weights = [math.perm(customers, k) * (mean_s / think_s) ** k for k in range(customers + 1)]
    assert found.workers_used == pytest.approx(1 - 1 / sum(weights), rel=0.04)


def test_what_breaks_and_begins_anew_takes_as_long_as_its_closed_form():
    """E = D · (e^{λD} − 1) / λD for failures in calls only, and e^{λD} − 1 breaks for each episode."""
    one = fleet(slots=4000, workers=4000, decode_s=HARDLY_EVER, env_s=1.0, env_failures_per_s=0.2)
    found = simulate_step(one, episodes=4000, turns=5, seed=0)
    assert sum(found.ends_s) / 4000 == pytest.approx(5 * restart_factor(one, 5), rel=0.05)
    assert found.broken / 4000 == pytest.approx(broken_per_episode(one, 5), rel=0.05)


@pytest.mark.parametrize(
    "rates", [{"engine_failures_per_s": 1e-3, "engine_restart_s": 5.0}, {"env_failures_per_s": 2e-3}]
)
def test_failures_break_as_many_as_expected(rates):
    one = fleet(engines=1000, slots=2, workers=2000, env_s=1.0, **rates)
    found = simulate_step(one, episodes=20_000, turns=10, seed=0)
    assert found.broken / 20_000 == pytest.approx(broken_per_episode(one, 10), rel=0.2)  # some hundred failures


WITHIN = 0.1
"""How far the largest bound may be from the simulation where one thing limits clearly, and rounds are many."""


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"workers": 400}, "sampling"),
        ({"workers": 20}, "environments"),
        ({"workers": 400, "host_s": 0.02}, "host"),
        ({"workers": 400, "engine_failures_per_s": 2e-4, "engine_restart_s": 30.0}, "sampling"),
        ({"workers": 20, "env_failures_per_s": 2e-3, "env_restart_s": 10.0}, "environments"),
    ],
)
def test_the_largest_bound_is_near_what_is_simulated(changes, limit):
    one = fleet(engines=10, slots=20, env_s=0.5, env_sigma=0.5, **changes)
    bounds = collect_bounds(one, episodes=8000, turns=4)
    assert bounds.limit == limit
    found = simulate_step(one, episodes=8000, turns=4, seed=0)
    assert bounds.most_s == pytest.approx(found.collect_s, rel=WITHIN)


# --- a clock that ticks ----------------------------------------------------------------------------------------------


def ticking(one, draws, turns):
    """The same rules with a clock of whole seconds: when each episode ended, and how often one broke."""
    n = len(draws.env_s)
    free = {(place, engine) for place in range(one.slots) for engine in range(one.engines)}
    workers_free = [0] * one.workers
    waiting = deque(range(n))
    state = [None] * n  # (until, what, engine, place)
    turn, attempt, ends, broken, host_free = [0] * n, [0] * n, [None] * n, 0, 0
    dead_until, dies_at, failures = {}, {e: draws.gap_s(e, 0) for e in range(one.engines)}, [0] * one.engines

    def begin(episode, now, engine, place):
        nonlocal host_free
        host_free = max(now, host_free) + one.host_s
        state[episode] = (host_free + one.decode_s, "decoded", engine, place)

    def fill(now):
        while waiting and free:
            place, engine = min(free)
            free.remove((place, engine))
            begin(waiting.popleft(), now, engine, place)

    def broke(episode):
        nonlocal broken
        broken, turn[episode], state[episode] = broken + 1, 0, None
        attempt[episode] += 1
        waiting.append(episode)

    fill(0)
    for now in range(100_000):
        for episode in range(n):
            if state[episode] and state[episode][:2] in ((now, "answered"), (now, "died")):
                _, what, engine, place = state[episode]
                if what == "died":
                    free.add((place, engine))
                    broke(episode)
                    fill(now)
                    continue
                turn[episode] += 1
                if turn[episode] < turns:
                    begin(episode, now, engine, place)
                else:
                    state[episode], ends[episode] = None, now
                    free.add((place, engine))
                    fill(now)
        for episode in range(n):
            if state[episode] and state[episode][:2] == (now, "decoded"):
                _, _, engine, place = state[episode]
                length = draws.env_s[episode][turn[episode]]
                dies = draws.dies_s(episode, turn[episode], attempt[episode])
                worker = workers_free.index(min(workers_free))
                end = max(now, workers_free[worker]) + min(length, dies)
                workers_free[worker] = end + (one.env_restart_s if dies < length else 0)
                state[episode] = (end, "died" if dies < length else "answered", engine, place)
        for engine in range(one.engines):
            if dies_at[engine] == now:
                failures[engine] += 1
                dies_at[engine], dead_until[engine] = None, now + one.engine_restart_s
                free -= {one for one in free if one[1] == engine}
                for episode in range(n):
                    if state[episode] and state[episode][2] == engine:
                        broke(episode)
        for engine in range(one.engines):
            if dead_until.get(engine) == now:
                del dead_until[engine]
                free |= {(place, engine) for place in range(one.slots)}
                dies_at[engine] = now + draws.gap_s(engine, failures[engine])
                fill(now)
        if all(end is not None for end in ends):
            return ends, broken
    raise AssertionError("it does not end")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_is_what_a_ticking_clock_counts(data):
    small = st.integers(1, 3)
    n, turns = data.draw(st.integers(1, 6)), data.draw(small)
    one = fleet(
        engines=data.draw(small),
        slots=data.draw(small),
        workers=data.draw(small),
        decode_s=data.draw(small),
        host_s=data.draw(st.integers(0, 2)),
        engine_restart_s=data.draw(small),
        env_restart_s=data.draw(st.integers(0, 4)),
    )
    env_s = [[data.draw(st.integers(1, 5)) for _ in range(turns)] for _ in range(n)]
    dies = {
        (i, t, a): data.draw(st.integers(1, 6)) for i in range(n) for t in range(turns) for a in range(2)
    }  # after the second attempt nothing dies, so each episode ends
    gaps = {(engine, 0): data.draw(st.integers(2, 30)) for engine in range(one.engines)}
    draws = FleetDraws(
        env_s=env_s,
        dies_s=lambda i, t, a: dies.get((i, t, a), math.inf),
        gap_s=lambda engine, k: gaps.get((engine, k), math.inf),
    )
    found = play_draws(one, draws)
    assert (list(found.ends_s), found.broken) == ticking(one, draws, turns)


# --- laws ------------------------------------------------------------------------------------------------------------

SMALL = {"episodes": st.integers(1, 30), "turns": st.integers(1, 4), "seed": st.integers(0, 10**6)}


@settings(max_examples=60, deadline=None)
@given(engines=st.integers(1, 5), slots=st.integers(1, 4), sigma=st.floats(0, 2), **SMALL)
def test_more_engines_are_never_slower_where_every_episode_has_a_worker(engines, slots, sigma, episodes, turns, seed):
    """Where calls queue this does not hold: another order of calls may end later, as in Graham's anomalies (1969)."""
    few, more = (
        simulate_step(
            fleet(engines=number, slots=slots, workers=episodes, env_s=1.0, env_sigma=sigma),
            episodes=episodes,
            turns=turns,
            seed=seed,
        )
        for number in (engines, engines + 1)
    )
    assert more.collect_s <= few.collect_s * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(rate=st.floats(0, 0.2), again_s=st.floats(0, 5), **SMALL)
def test_with_failures_no_episode_ends_earlier(rate, again_s, episodes, turns, seed):
    plain = fleet(slots=episodes, workers=2 * episodes, env_s=1.0, env_sigma=0.5)
    breaks = fleet(
        slots=episodes, workers=2 * episodes, env_s=1.0, env_sigma=0.5, env_failures_per_s=rate, env_restart_s=again_s
    )
    without, with_them = (simulate_step(one, episodes=episodes, turns=turns, seed=seed) for one in (plain, breaks))
    assert all(late >= early - 1e-9 for early, late in zip(without.ends_s, with_them.ends_s, strict=True))
    assert (with_them.broken == 0) == (with_them.ends_s == without.ends_s)


def test_more_failures_break_more_and_take_longer_on_average():
    def mean_s(rate):
        one = fleet(engines=4, slots=5, workers=20, env_s=1.0, engine_failures_per_s=rate, engine_restart_s=3.0)
        steps = [simulate_step(one, episodes=40, turns=3, seed=seed) for seed in range(60)]
        return sum(step.collect_s for step in steps), sum(step.broken for step in steps)

    found = [mean_s(rate) for rate in (0.0, 0.005, 0.02, 0.05)]
    assert found == sorted(found)
    assert found[0][1] == 0


def test_a_seed_is_a_step_and_another_seed_another_one():
    one = fleet(engines=3, slots=4, workers=6, env_s=1.0, env_sigma=1.0, env_failures_per_s=0.02)
    first, again, other = (simulate_step(one, episodes=50, turns=4, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.collect_s != other.collect_s
    mean = sum(map(sum, draws_of(one, episodes=4000, turns=4, seed=0).env_s)) / 16_000
    assert mean == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engines": 0}, "engines = 0"),
        ({"workers": -1}, "workers = -1"),
        ({"decode_s": math.nan}, "decode_s = nan"),
        ({"env_failures_per_s": -1.0}, "env_failures_per_s = -1.0"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        fleet(**changes)


def test_what_never_ends_is_refused():
    doomed = fleet(env_s=100.0, env_failures_per_s=1.0)
    with pytest.raises(ConfigError, match="hardly one ends"):
        collect_bounds(doomed, episodes=10, turns=10)
    with pytest.raises(ConfigError, match="episodes have broken"):
        simulate_step(doomed, episodes=10, turns=10, seed=0)
