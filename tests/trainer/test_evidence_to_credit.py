"""The worked numbers that begin with process verdicts, the whole way: evidence → rubric → ledger → table → credit.

The numbers are those of the methods' own tests. Here the verdicts are recorded as evidence and a rubric scores them.
What it pays for them (weight, mean or sum, part payments) must not show: credit sees what was said of a turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import models
from turngate.envs.code.rubric import RUBRIC as CODE_REPAIR
from turngate.rewards import BestSoFar, FromEvidence, Gate, Rubric
from turngate.rewards.gates.whole_kinds import cap_process, needs_outcome
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.cohorts import group
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.prorag import prorag
from turngate.trainer.credit.pure import pure, softmin_steps
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.spa import progress_steps, spa
from turngate.trainer.credit.step_grpo import step_grpo
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.recorded_columns import EvidenceColumns
from turngate.types import Evidence, Group, ScoredGroup, Trajectory, TurnTable

NAN = float("nan")
PAYS = [  # how a component may pay for the same verdicts
    {"weight": 0.3, "agg": "mean"},
    {"weight": 1.0, "agg": "sum"},
    {"weight": 0.1, "agg": "sum"},
    {"weight": 7.0, "agg": "mean"},
]


@dataclass(frozen=True, kw_only=True)
class Told:
    """An episode: its outcome, and under each name of evidence one value per turn (None = not measured)."""

    outcome: float
    facts: Mapping[str, Sequence[float | None]]
    tokens: int = 1

    def trajectory(self, name: str) -> Trajectory:
        n_turns = max(len(values) for values in self.facts.values())
        turns = [models.turn([1], [2] * self.tokens)] * n_turns
        facts = [
            Evidence(name=fact, value=value, turn=turn)
            for fact, values in self.facts.items()
            for turn, value in enumerate(values)
            if value is not None
        ]
        facts.append(Evidence(name="solved", value=self.outcome))
        return replace(models.trajectory(turns, name=name), evidence=tuple(facts))


def scored(episodes: Sequence[Told], rubric: Rubric) -> ScoredGroup:
    played = tuple(one.trajectory(str(number)) for number, one in enumerate(episodes))
    return rubric.score_group(Group(task=played[0].task, trajectories=played))


def judged(*gates: Gate, low: float = 0.0, **pays: Any) -> Rubric:
    """An outcome, and one process verdict per turn."""
    rewards = (
        FromEvidence(name="solved", evidence="solved", kind="outcome", low=-1.0),
        FromEvidence(name="good", evidence="good", per_turn=True, low=low, **pays),
    )
    return Rubric(rewards=rewards, gates=gates)


def table_of(episodes: Sequence[tuple[float, Sequence[float | None]]], rubric: Rubric) -> TurnTable:
    return tabulate([scored([Told(outcome=outcome, facts={"good": said}) for outcome, said in episodes], rubric)])


@pytest.fixture(params=PAYS, ids=lambda pays: f"{pays['agg']} of weight {pays['weight']}")
def pays(request: pytest.FixtureRequest) -> Any:
    return request.param


# --- lengths and weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [sag, prorag, mt_grpo], ids=lambda rule: rule.__name__)
def test_equal_perfect_work_has_no_process_part_at_any_length(rule: Any, pays: Any):
    """Two turns and eight, all verdicts perfect; only the outcome is left to tell them apart."""
    for outcomes in ((1.0, 1.0), (1.0, 0.0)):
        table = table_of([(outcomes[0], [1.0] * 2), (outcomes[1], [1.0] * 8)], judged(**pays))
        assert table.process_N.tolist() == [1.0] * 10
        o = group(np.array(outcomes), table.cohort_B).z_M(eps=1e-6)[table.traj_N]
        np.testing.assert_allclose(rule(table, eps=1e-6), o, atol=1e-6)


def test_a_part_payment_is_no_worse_verdict(pays: Any):
    rubric = judged(cap_process(0.01), **pays)
    table = table_of([(1.0, [1.0, 0.5]), (0.0, [1.0])], rubric)
    assert table.process_N.tolist() == [1.0, 0.5, 1.0]
    assert table.open_N.all()


def test_an_episode_wide_process_payment_is_no_verdict_on_the_last_turn():
    rewards = (*judged(weight=0.3).rewards, FromEvidence(name="tidy", evidence="tidy", weight=0.2))
    told = Told(outcome=1.0, facts={"good": [1.0, None]})
    played = told.trajectory("a")
    whole = replace(played, evidence=(*played.evidence, Evidence(name="tidy", value=0.5)))
    table = tabulate([Rubric(rewards=rewards).score_group(Group(task=whole.task, trajectories=(whole,)))])
    np.testing.assert_array_equal(table.process_N, [1.0, NAN])
    np.testing.assert_allclose(table.reward_N, [0.3, 1.1], atol=1e-6)
    np.testing.assert_allclose(table.measured["settled_B"], [1.0], atol=1e-6)


# --- closed components -----------------------------------------------------------------------------------------------


def test_one_closed_component_does_not_close_the_turn():
    """Tests 0.5, 0.5, 1.0: the second turn improves nothing, so its test verdict is closed. "polite" is open."""
    rewards = (*judged(weight=0.3, agg="sum").rewards, FromEvidence(name="polite", evidence="polite", per_turn=True))
    facts = {"good": [0.5, 0.5, 1.0], "polite": [1.0, 0.0, None]}
    table = tabulate([scored([Told(outcome=1.0, facts=facts)], Rubric(rewards=rewards, gates=(BestSoFar(on="good"),)))])
    assert table.open_N.all()
    np.testing.assert_allclose(table.process_N, [(0.3 * 0.5 + 1.0 * 1.0) / 1.3, 0.0, 1.0], atol=1e-6)


def test_without_another_component_the_turn_is_closed_and_keeps_its_verdict():
    table = table_of([(1.0, [0.5, 0.5, 1.0])], judged(BestSoFar(on="good"), weight=0.3, agg="sum"))
    assert table.open_N.tolist() == [True, False, True]
    assert table.process_N.tolist() == [0.5, 0.5, 1.0]
    assert sag(table, weight=1.0)[1] == 0.0


def test_a_turn_of_code_repair_stays_open_where_the_tests_do_not_improve():
    names = ("parsed", "call_ok", "localised", "tests_fixed")
    facts = dict(zip(names, ([1.0] * 3, [1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.5, 0.5]), strict=True))
    played = Told(outcome=1.0, facts=facts).trajectory("a")
    ladder = tuple(replace(fact, name="ladder") if fact.name == "solved" else fact for fact in played.evidence)
    played = replace(played, evidence=ladder)
    table = tabulate([CODE_REPAIR.score_group(Group(task=played.task, trajectories=(played,)))])
    assert table.open_N.all()
    # weights 0.05, 0.05, 0.1 of what is always open; 0.1 for the tests in the one turn that improves them
    np.testing.assert_allclose(table.process_N, [0.1 / 0.2, (0.05 + 0.1 + 0.05) / 0.3, 1.0], atol=1e-6)


# --- the worked numbers ----------------------------------------------------------------------------------------------


def test_sag(pays: Any):
    episodes = [(1.0, [1.0, 1.0]), (1.0, [1.0, 0.0]), (0.0, [1.0, 1.0, 1.0]), (0.0, [0.0])]
    table = table_of(episodes, judged(needs_outcome(1.0), **pays))
    assert table.open_N.tolist() == [True] * 4 + [False] * 4
    expected = [1.116025, 1.116025, 1.116025, 0.116025, *[-0.866025] * 4]
    np.testing.assert_allclose(sag(table, weight=0.5, eps=0.0), expected, atol=1e-5)


def test_sag_of_two_episodes(pays: Any):
    table = table_of([(1.0, [1.0, 0.0]), (0.0, [1.0, 1.0])], judged(needs_outcome(1.0), **pays))
    np.testing.assert_allclose(sag(table, eps=0.0), [1.060660, 0.353553, -0.707107, -0.707107], atol=1e-5)


@pytest.mark.parametrize(
    ("said", "steps", "sums"),
    [
        ([0.8, -0.6, 0.4], [0.0, -0.599972, 0.000018], [-0.599953, -0.599954, 0.000018]),
        ([0.3, 0.2, 0.25], [0.186324 * 0.3, 0.506480 * 0.2, 0.307196 * 0.25], [0.233992, 0.178095, 0.076799]),
    ],
)
def test_pure(pays: Any, said: list[float], steps: list[float], sums: list[float]):
    table = table_of([(1.0, said)], judged(low=-1.0, **pays))
    np.testing.assert_allclose(softmin_steps(table, tau=0.1), steps, atol=1e-5)
    np.testing.assert_allclose(pure(table, tau=0.1, baseline="none"), sums, atol=1e-5)


def test_pure_of_one_bad_step_among_good_ones(pays: Any):
    table = table_of([(1.0, [1.0, 0.0, 1.0])], judged(**pays))
    np.testing.assert_allclose(pure(table, tau=0.1, baseline="none"), [0, 0, 0], atol=1e-3)


def test_pure_with_strict_minima(pays: Any):
    table = table_of([(1.0, [0.8, -0.6, 0.4])], judged(low=-1.0, **pays))
    sums = pure(table, min_mode="strict_suffix", baseline="none")
    np.testing.assert_allclose(sums, [-0.6, -0.6, 0.4], atol=1e-6)


def test_mt_grpo(pays: Any):
    """Turn verdicts 1, 1, 0, 0 on the first turns, outcomes 1, 0, 0, 0, ε 1e-4."""
    episodes = [(1.0, [1.0, None]), (0.0, [1.0, None]), (0.0, [0.0, None]), (0.0, [0.0, None])]
    advantage_N = mt_grpo(table_of(episodes, judged(**pays)))
    np.testing.assert_allclose(advantage_N[::2], [2.365575, 0.365975, -1.365775, -1.365775], atol=1e-5)
    np.testing.assert_allclose(advantage_N[1::2], [1.4997, -0.4999, -0.4999, -0.4999], atol=1e-5)


def test_step_grpo():
    """Its unit is the payment, because outcome and process go through one statistic: pay each verdict as it is."""
    table = table_of([(0.0, [0.8, 0.4]), (0.0, [0.2, 0.2, 0.9])], judged(weight=1.0, agg="sum"))
    expected = [0.603023, -0.301511, -0.603023, 0.301511, 1.206045]
    np.testing.assert_allclose(step_grpo(table, eps=0.0), expected, atol=1e-5)


def test_prorag(pays: Any):
    """A_O = 1.5 and, of five scored tokens 0, 0, 0, 0, 1, z = −0.5: 1.5 + 0.3 · (−0.5) = 1.35."""
    table = table_of([(1.0, [0.0]), (0.0, [0.0]), (0.0, [0.0]), (0.0, [0.0, 1.0])], judged(**pays))
    assert table.measured["tokens_N"].tolist() == [1] * 5
    assert prorag(table, beta=0.3, eps=0.0)[0] == pytest.approx(1.35, abs=1e-5)


def test_spa(pays: Any):
    """Estimates .2, .5, .1 of an outcome of 1; the first and the last action were executed."""
    group_of_one = scored(
        [Told(outcome=1.0, facts={"good": [0.2, 0.5, 0.1], "executed": [1.0, 0.0, 1.0]})], judged(**pays)
    )
    source = EvidenceColumns({"grounded_N": "executed"})
    table, _ = Signals(sources=(source,)).measure([group_of_one], tabulate([group_of_one]))
    sums = spa(table, grounding=0.5, exact_sum=False, baseline="none")
    np.testing.assert_allclose(sums, [1.8, 1.1, 0.6], atol=1e-5)
    shares = progress_steps(table, np.array([1.0]))
    np.testing.assert_allclose(shares, [0.266667, 0.566667, 0.166667], atol=1e-5)


@pytest.mark.parametrize(
    ("rule", "plain"),
    [(sag, grpo), (prorag, grpo), (mt_grpo, grpo), (pure, rloo), (spa, rloo)],
    ids=lambda rule: rule.__name__,
)
def test_without_a_verdict_only_the_outcome_is_left(rule: Any, plain: Any, pays: Any):
    table = table_of([(1.0, [None] * 2), (0.0, [None] * 3), (0.0, [None])], judged(**pays))
    assert np.isnan(table.process_N).all()
    assert table.open_N.all()
    settings = {"eps": 1e-4} if plain is grpo else {}
    np.testing.assert_allclose(rule(table, **settings), plain(table, **settings), atol=1e-6)
