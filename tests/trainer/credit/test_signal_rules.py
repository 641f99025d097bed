"""Rules with a signal of their own against plain loops on random tables with missing verdicts."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.baselines import non_negative, one_of, outcomes, unit_interval
from turngate.trainer.credit.empg import empg
from turngate.trainer.credit.igpo import igpo
from turngate.trainer.credit.implicit import istar, preference, prime
from turngate.trainer.credit.prorag import prorag
from turngate.trainer.credit.pure import pure
from turngate.trainer.credit.r3l import r3l
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.spa import spa

TIGHT = {"rtol": 1e-4, "atol": 1e-4}
nan = math.nan


@dataclass
class Step:
    reward: float
    score: float  # process verdict and every measured signal; NaN = not measured
    is_open: bool
    tokens: int


@dataclass
class Episode:
    cohort: int
    outcome: float
    steps: list[Step]

    @property
    def total(self) -> float:
        return sum(step.reward for step in self.steps)

    @property
    def open_scores(self) -> list[float]:
        """Per turn, NaN where there is no verdict or a gate closed it."""
        return [step.score if step.is_open else nan for step in self.steps]


QUARTER = st.integers(-4, 4).map(lambda k: k / 4)
STEP = st.builds(
    Step,
    reward=QUARTER,
    score=st.one_of(st.just(nan), QUARTER),
    is_open=st.integers(0, 3).map(bool),
    tokens=st.integers(0, 5),
)
EPISODE = st.builds(Episode, cohort=st.integers(0, 2), outcome=QUARTER, steps=st.lists(STEP, min_size=1, max_size=4))
BATCH = st.lists(EPISODE, min_size=1, max_size=9)


def tabled(table_of: Callable[..., Any], batch: list[Episode]) -> Any:
    score_N = [step.score for episode in batch for step in episode.steps]
    return table_of(
        [[step.reward for step in episode.steps] for episode in batch],
        cohorts=[episode.cohort for episode in batch],
        outcome=[episode.outcome for episode in batch],
        process=[[step.score for step in episode.steps] for episode in batch],
        is_open=[[step.is_open for step in episode.steps] for episode in batch],
        tokens_N=[step.tokens for episode in batch for step in episode.steps],
        surprisal_N=score_N,
        gain_N=score_N,
        logratio_N=score_N,
        parent_B=[-1] * len(batch),
        branch_B=[0] * len(batch),
    )


def family(batch: list[Episode], episode: Episode) -> list[Episode]:
    return [other for other in batch if other.cohort == episode.cohort]


def flat(values: list[float]) -> bool:
    return len(values) < 2 or max(values) - min(values) < 1e-9


def z(value: float, values: list[float], floor: float = 0.0) -> float:
    return 0.0 if flat(values) else (value - fmean(values)) / (max(stdev(values), floor) + 1e-6)


def known(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def per_turn(batch: list[Episode], rule: Callable[[Episode, int], float]) -> list[float]:
    return [
        rule(episode, t) if len(family(batch, episode)) > 1 else 0.0
        for episode in batch
        for t in range(len(episode.steps))
    ]


def z_of_outcome(batch: list[Episode], episode: Episode) -> float:
    return z(episode.outcome, [other.outcome for other in family(batch, episode)])


def z_of_total(batch: list[Episode], episode: Episode) -> float:
    return z(episode.total, [other.total for other in family(batch, episode)])


def beyond(values: list[float], place: int) -> float:
    return values[place] - fmean(values[:place] + values[place + 1 :])


@given(BATCH)
@settings(max_examples=30)
def test_sag(table_of: Any, batch: list[Episode]):
    def rule(episode: Episode, t: int) -> float:
        pool = known([score for other in family(batch, episode) for score in other.open_scores])
        score = episode.open_scores[t]
        part = 0.0 if math.isnan(score) else z(score, pool, floor=0.3)
        return z_of_outcome(batch, episode) + 0.7 * min(1.1, max(-1.1, part))

    found = sag(tabled(table_of, batch), weight=0.7, clip=1.1, min_std=0.3)
    np.testing.assert_allclose(found, per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_prorag(table_of: Any, batch: list[Episode]):
    def rule(episode: Episode, t: int, zero: bool) -> float:
        pool = []
        for other in family(batch, episode):
            for step, score in zip(other.steps, other.open_scores, strict=True):
                taken = 0.0 if zero and math.isnan(score) else score
                pool += [taken] * step.tokens
        score = episode.open_scores[t]
        score = 0.0 if zero and math.isnan(score) else score
        outcome = z_of_outcome(batch, episode)
        if math.isnan(score) or not episode.steps[t].tokens or flat(known(pool)):
            return outcome
        values = known(pool)
        spread = math.sqrt(fmean((value - fmean(values)) ** 2 for value in values) + 1e-8)
        return outcome + 0.3 * (score - fmean(values)) / spread

    table = tabled(table_of, batch)
    for unscored in ("exclude", "zero"):
        expected = per_turn(batch, lambda episode, t: rule(episode, t, unscored == "zero"))  # noqa: B023
        np.testing.assert_allclose(prorag(table, eps=1e-6, unscored=unscored), expected, **TIGHT)


def softmin(scores: list[float]) -> list[float]:
    total = sum(math.exp(-score / 0.1) for score in known(scores))
    return [0.0 if math.isnan(score) else math.exp(-score / 0.1) / total * score for score in scores]


def suffix_min(scores: list[float]) -> list[float]:
    lows = [min(known(scores[t:]), default=0.0) for t in range(len(scores))] + [0.0]
    return [lows[t] - lows[t + 1] for t in range(len(scores))]


@pytest.mark.parametrize("baseline", ["token", "step", "none"])
@given(batch=BATCH)
@settings(max_examples=30)
def test_pure(table_of: Any, baseline: Any, batch: list[Episode]):
    def rule(episode: Episode, t: int, steps: Callable[[list[float]], list[float]]) -> float:
        siblings = family(batch, episode)
        place = next(i for i, other in enumerate(siblings) if other is episode)
        sizes = [
            [(step.tokens if baseline == "token" else 1) * (not math.isnan(score)) for step, score in pairs]
            for pairs in (list(zip(other.steps, other.open_scores, strict=True)) for other in siblings)
        ]
        rates = [
            sum(steps(other.open_scores)) / sum(size) if sum(size) else nan
            for other, size in zip(siblings, sizes, strict=True)
        ]
        process = sum(steps(episode.open_scores)[t:])
        others = known(rates[:place] + rates[place + 1 :])
        if baseline != "none":
            process = process - sum(sizes[place][t:]) * fmean(others) if others and sum(sizes[place]) else 0.0
        return process + 2.0 * beyond([other.outcome for other in siblings], place)

    table = tabled(table_of, batch)
    for mode, steps in (("softmin_all", softmin), ("strict_suffix", suffix_min)):
        expected = per_turn(batch, lambda episode, t: rule(episode, t, steps))  # noqa: B023
        found = pure(table, coef=2.0, baseline=baseline, min_mode=mode)
        several = [len(family(batch, episode)) > 1 for episode in batch for _ in episode.steps]
        np.testing.assert_allclose(found[several], np.array(expected)[several], **TIGHT)
        assert baseline == "none" or not found[~np.array(several)].any()


@pytest.mark.parametrize("exact_sum", [True, False])
@given(batch=BATCH)
@settings(max_examples=30)
def test_spa(table_of: Any, exact_sum: bool, batch: list[Episode]):
    def rewards(episode: Episode) -> list[float]:
        scores = episode.open_scores
        count = len(known(scores))
        if not count:
            return [0.0] * (len(scores) - 1) + [episode.outcome]
        missing = (episode.outcome - sum(known(scores))) / count if exact_sum else 0.0
        return [0.0 if math.isnan(score) else score + missing for score in scores]

    def to_go(episode: Episode, t: int) -> float:
        return sum(0.5**k * reward for k, reward in enumerate(rewards(episode)[t:]))

    def rule(episode: Episode, t: int) -> float:
        others = [other for other in family(batch, episode) if other is not episode]
        return to_go(episode, t) - fmean(to_go(other, 0) for other in others)

    found = spa(tabled(table_of, batch), gamma=0.5, exact_sum=exact_sum)
    np.testing.assert_allclose(found, per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_igpo(table_of: Any, batch: list[Episode]):
    def rewards(episode: Episode) -> list[float]:
        return [2.0 * step.score for step in episode.steps[:-1]] + [episode.total]

    def rule(episode: Episode, t: int) -> float:
        pool = known([reward for other in family(batch, episode) for reward in rewards(other)])
        later = enumerate(rewards(episode)[t:])
        return sum(0.5**k * z(reward, pool) for k, reward in later if not math.isnan(reward))

    found = igpo(tabled(table_of, batch), gamma=0.5, weight=2.0)
    np.testing.assert_allclose(found, per_turn(batch, rule), **TIGHT)


@pytest.mark.parametrize("scope", ["batch", "cohort"])
@given(batch=BATCH)
@settings(max_examples=30)
def test_empg(table_of: Any, scope: Any, batch: list[Episode]):
    def pool(episode: Episode) -> list[Episode]:
        members = batch if scope == "batch" else family(batch, episode)
        return [other for other in members if len(family(batch, other)) > 1]

    def scaled(episode: Episode, t: int) -> float:
        scores = known([step.score for other in pool(episode) for step in other.steps])
        score = episode.steps[t].score
        return 0.0 * score if flat(scores) else (score - min(scores)) / (max(scores) - min(scores))

    def shaped(episode: Episode, t: int) -> float:
        turns = [(other, s) for other in pool(episode) for s in range(len(other.steps))]
        damp = fmean(known([math.exp(-2 * scaled(other, s)) for other, s in turns]))
        follows = scaled(episode, t + 1) if t + 1 < len(episode.steps) else nan
        bonus = 0.0 if math.isnan(follows) else 0.1 * math.exp(-0.5 * follows)
        return z_of_total(batch, episode) * math.exp(-2 * scaled(episode, t)) / damp + bonus

    def rule(episode: Episode, t: int) -> float:
        if math.isnan(episode.steps[t].score):
            return z_of_total(batch, episode)
        turns = [(other, s) for other in pool(episode) for s in range(len(other.steps))]
        return shaped(episode, t) - fmean(known([shaped(other, s) for other, s in turns]))

    batch = batch[:5]
    found = empg(tabled(table_of, batch), k=2.0, k_next=0.5, zeta=0.1, scope=scope)
    np.testing.assert_allclose(found, per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_prime(table_of: Any, batch: list[Episode]):
    def pairs(episode: Episode) -> list[tuple[float, int]]:
        """Reward and tokens of each measured turn that has tokens; 0 and 0 for the others."""
        return [
            (0.1 * step.score, step.tokens) if step.tokens and not math.isnan(step.score) else (0.0, 0)
            for step in episode.steps
        ]

    def rate(episode: Episode) -> float:
        tokens = sum(n for _, n in pairs(episode))
        return sum(reward for reward, _ in pairs(episode)) / tokens if tokens else nan

    def rule(episode: Episode, t: int) -> float:
        siblings = family(batch, episode)
        place = next(i for i, other in enumerate(siblings) if other is episode)
        rates = known([rate(other) for other in siblings if other is not episode])
        outcome = beyond([other.total for other in siblings], place)
        if not rates or math.isnan(rate(episode)):
            return outcome
        return outcome + sum(reward - n * fmean(rates) for reward, n in pairs(episode)[t:])

    np.testing.assert_allclose(prime(tabled(table_of, batch), beta=0.1), per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_istar(table_of: Any, batch: list[Episode]):
    def rule(episode: Episode, t: int) -> float:
        pool = known([0.5 * step.score for other in family(batch, episode) for step in other.steps])
        score = 0.5 * episode.steps[t].score
        return z_of_total(batch, episode) + (0.0 if math.isnan(score) else 0.7 * z(score, pool))

    np.testing.assert_allclose(istar(tabled(table_of, batch), alpha=0.7, beta=0.5), per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_r3l(table_of: Any, batch: list[Episode]):
    def rule(episode: Episode, t: int) -> float:
        totals = [other.total for other in family(batch, episode)]
        score = 0.0 if flat(totals) else episode.total - fmean(totals)
        return 1.0 if episode.total >= 1.0 else score * (3.0 if score > 0 else 1.0)

    np.testing.assert_allclose(r3l(tabled(table_of, batch)), per_turn(batch, rule), **TIGHT)


@given(BATCH)
@settings(max_examples=30)
def test_preference(table_of: Any, batch: list[Episode]):
    for episode in batch:
        episode.steps = [
            Step(step.reward, 0.25 if math.isnan(step.score) else step.score, True, 1) for step in episode.steps
        ]
    sums = [sum(step.score for step in episode.steps) for episode in batch]
    losses = [
        math.log1p(math.exp(-0.5 * (sums[i] - sums[k])))
        for i, won in enumerate(batch)
        for k, lost in enumerate(batch)
        if won.cohort == lost.cohort and won.outcome >= 0.5 > lost.outcome
    ]
    loss, gradient_B = preference(tabled(table_of, batch), beta=0.5)
    assert loss == pytest.approx(fmean(losses) if losses else 0.0, abs=1e-9)
    assert gradient_B.sum() == pytest.approx(0.0, abs=1e-12)


# --- helpers ---------------------------------------------------------------------------------------------------------


def test_settled_outcomes_are_what_was_paid_beside_the_process(table_of: Any):
    """Won without a veto, won with a veto (paid −1), lost with a good last turn (paid 0.25 for it)."""
    table = table_of(
        [[0.5, 1], [0, -1], [0, 0.25]],
        outcome=[1, 1, 0],
        process=[[0.5, nan], [nan, nan], [nan, 0.25]],
        settled_B=np.array([1.0, -1.0, 0.0]),
    )
    assert outcomes(table, "earned", "test").tolist() == [1, 1, 0]
    assert outcomes(table, "settled", "test").tolist() == [1, -1, 0]
    with pytest.raises(ShapeError, match="test needs column 'settled_B'"):
        outcomes(replace(table, measured={}), "settled", "test")
    with pytest.raises(ShapeError, match="settled_B is nan at trajectory 1"):
        outcomes(replace(table, measured={"settled_B": np.array([0, nan, 0])}), "settled", "test")


@pytest.mark.parametrize("rule", [sag, pure, spa, prorag], ids=lambda rule: rule.__name__)
def test_a_vetoed_cheat_gets_negative_credit_although_it_earned_the_outcome(table_of: Any, rule: Any):
    """Three siblings of two turns: an honest failure, a success, and a success by a forbidden act, paid the floor."""
    table = table_of(
        [[0, 0], [0, 1], [0, -1]],
        outcome=[0, 1, 1],
        process=[[0.5, 0.5]] * 3,
        is_open=[[True] * 2, [True] * 2, [False] * 2],
        settled_B=np.array([0.0, 1.0, -1.0]),
        tokens_N=np.full(6, 3),
    )
    failure, success, cheat = rule(table).reshape(3, 2)
    assert (cheat < 0).all()
    assert (cheat < failure).all()
    assert (failure < success).all()
    assert (rule(table, outcome="earned")[4:] > 0).all()  # what the earned outcome made of it


@pytest.mark.parametrize("value", [-0.1, nan])
def test_negative_settings_are_named(value: float):
    with pytest.raises(ConfigError, match=rf"test: b is {value}; it must be ≥ 0"):
        non_negative("test", a=0.0, b=value)


@pytest.mark.parametrize("value", [-0.1, 1.1, nan])
def test_settings_outside_the_unit_interval_are_named(value: float):
    unit_interval("test", a=0.0, b=1.0)
    with pytest.raises(ConfigError, match=rf"test: b is {value}; it must lie in \[0, 1\]"):
        unit_interval("test", a=0.0, b=value)


def test_unknown_choices_are_named():
    one_of("test", "mode", "x", ("x", "y"))
    with pytest.raises(ConfigError, match="test: mode is 'z'; it must be one of: x, y"):
        one_of("test", "mode", "z", ("x", "y"))
