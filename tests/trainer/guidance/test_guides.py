"""Each guide by itself: what it plans after which results, against the numbers of its paper."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from tests.helpers.guided import TASK, Known, group_of, guidance_of, levels, shipped, solution, visit
from turngate.agents.prefix_turns import PrefixTurns
from turngate.config import parse
from turngate.errors import ConfigError
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.guidance.base import GuidePart, Remembering
from turngate.trainer.guidance.hint_guides import GuideGrpoPart, LadderPart, SageLightPart, SagePart, next_level
from turngate.trainer.guidance.prefix_schedules import G2rpoAPart, ReverseCurriculumPart, next_length, next_prefix
from turngate.trainer.guidance.prefixes import BreadPart, OraclePrefixPart, StepHintPart, cuts, next_probe
from turngate.trainer.guidance.reflect import ReflectPart, retry_from
from turngate.trainer.guidance.screening import SpeedPart
from turngate.trainer.guidance.seele import SeelePart, fit_curve, share_for, success_at
from turngate.trainer.guidance.solutions import AcnchorPart, GhpoPart, LuffyPart, QuestAPart, n_shown, solution_prefix
from turngate.types import Evidence, Task

HINTS = Known(hints=("fact", None, "plan", "steps"))
SIX = Known(actions=solution(6))


def never(guidance, number):
    return 0.0


def with_level(least):
    """Only help of this level, or more, leads to success."""
    return lambda guidance, number: float(guidance is not None and guidance.level >= least)


# --- hints -----------------------------------------------------------------------------------------------------------


def test_the_ladder_tries_the_levels_in_order_and_replaces_one_row():
    plans = visit(LadderPart(exempt_steps=0).open(HINTS), with_level(3))
    assert [levels(plan) for plan in plans] == [[0] * 8, [1], [3]]  # level 2 has no text
    assert {plan.into for plan in plans[1:]} == {"replace"}
    hint = plans[2].entries[0]
    assert (hint.text, hint.source, hint.joins, hint.strip_for_train) == ("plan", "env", True, False)


def test_the_ladder_ends_without_success_after_the_last_level():
    assert len(visit(LadderPart(exempt_steps=0).open(HINTS), never)) == 1 + 3


def test_the_ladder_leaves_groups_with_a_success_and_those_of_which_nothing_is_known():
    guide = LadderPart(exempt_steps=0).open(HINTS)
    assert len(visit(guide, lambda guidance, number: float(number == 5))) == 1
    assert len(visit(guide, lambda guidance, number: None)) == 1


def test_the_ladder_helps_nobody_in_the_exempt_steps():
    guide = LadderPart(exempt_steps=2).open(HINTS)
    assert [len(visit(guide, never)) for _ in range(3)] == [1, 1, 4]


def test_one_success_after_replacement_has_the_credit_of_the_paper():
    """A = 2.474874 and −.353553 for N = 8 (ddof 1)."""
    group = models.scored([models.trajectory([models.turn([1], [2])], name=str(n)) for n in range(8)], [1] + [0] * 7)
    credit = grpo(tabulate([group]), eps=0.0)
    np.testing.assert_allclose(credit, [2.474874] + [-0.353553] * 7, atol=1e-6)


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_cost_of_the_ladder_is_the_level_that_helps(helps):
    helpers = Known(hints=[f"h{n}" for n in range(len(helps))])
    plans = visit(
        LadderPart(exempt_steps=0).open(helpers),
        lambda guidance, number: float(guidance is not None and helps[guidance.level - 1]),
    )
    cost = len(plans) - 1
    assert cost == (helps.index(True) + 1 if any(helps) else len(helps))
    assert all(len(plan.entries) == 1 for plan in plans[1:])


def test_guide_grpo_plays_a_second_group_with_the_hint():
    plans = visit(GuideGrpoPart(level=2).open(HINTS), never)
    assert [levels(plan) for plan in plans] == [[0] * 8, [1] * 8]  # level 2 has no text, so the one below it
    assert plans[1].into == "own"
    assert all(entry.strip_for_train and not entry.joins for entry in plans[1].entries)
    assert not visit(GuideGrpoPart(strip=False).open(HINTS), never)[1].entries[0].strip_for_train
    assert len(visit(GuideGrpoPart().open(HINTS), lambda guidance, number: float(number == 7))) == 1
    assert len(visit(GuideGrpoPart().open(Known()), never)) == 1


def test_sage_plays_whole_groups_with_ever_more_hints():
    assert [levels(plan) for plan in visit(SagePart().open(HINTS), with_level(3))] == [[0] * 8, [1] * 8, [3] * 8]
    assert len(visit(SagePart().open(HINTS), never)) == 4


@pytest.mark.parametrize(("level", "rate", "after"), [(0, 0, 1), (1, 0.05, 2), (2, 0.2, 2), (2, 0.5, 1), (3, 0, 3)])
def test_the_level_of_sage_light(level, rate, after):
    assert next_level(level, rate, low=0.1, high=0.35, most=3) == after


def test_sage_light_carries_the_level_of_each_task_on():
    guide = SageLightPart().open(Known(hints=("a", "b")))
    other = Task(id="u", env_id="e", prompt="")
    seen = [levels(visit(guide, with_level(2), size=2)[0])[0] for _ in range(5)]
    assert seen == [0, 1, 2, 1, 2]
    assert levels(visit(guide, never, size=2, task=other)[0]) == [0, 0]
    shared = SageLightPart(by="env").open(Known(hints=("a", "b")))
    visit(shared, never, size=2)
    assert levels(visit(shared, never, size=2, task=other)[0]) == [1, 1]
    assert shared.metrics() == {"guide/level": 2.0}


# --- parts of solutions ----------------------------------------------------------------------------------------------


def test_ghpo_shows_a_quarter_a_half_and_three_quarters():
    """Success at 50 %: 8·3 = 24 episodes."""
    plans = visit(GhpoPart().open(SIX), with_level(50))
    assert [levels(plan) for plan in plans] == [[0] * 8, [25] * 8, [50] * 8]
    assert sum(len(plan.entries) for plan in plans) == 24
    assert {plan.into for plan in plans[1:]} == {"own"}
    assert plans[2].entries[0].text.splitlines()[1:] == ["act 0", "act 1", "act 2"]


@pytest.mark.parametrize(("length", "characters"), [(10, [2, 5, 8]), (3, [1, 2, 2]), (2, [0, 1, 2])])
def test_shares_of_characters_are_rounded_as_in_the_code(length, characters):
    texts = [solution_prefix(["x" * length], share, "characters") for share in (0.25, 0.5, 0.75)]
    assert [len(text.partition("\n")[2]) for text in texts] == characters


def test_shares_that_show_nothing_more_are_skipped_and_the_last_turn_is_never_shown():
    assert [n_shown(3, share) for share in (0.25, 0.5, 0.75)] == [1, 2, 2]
    assert len(visit(GhpoPart().open(Known(actions=solution(3))), never)) == 1 + 2
    assert len(visit(GhpoPart().open(Known(actions=solution(1))), never)) == 1
    assert len(visit(GhpoPart().open(Known()), never)) == 1


@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_never_the_whole_solution_is_shown(n, share):
    assert 0 <= n_shown(n, share) < n
    assert n_shown(n, share) == min(n - 1, math.ceil(round(share * n, 9)))


def test_questa_shows_less_from_stage_to_stage():
    """40 turns: 20, then 10, then none."""
    guide = QuestAPart(stage_steps=2).open(Known(actions=solution(40)))
    entries = [visit(guide, never, size=3)[0].entries for _ in range(5)]
    assert [[0 if one is None else one.text.count("act") for one in wave] for wave in entries] == [
        [20] * 3,
        [20] * 3,
        [10] * 3,
        [10] * 3,
        [0] * 3,
    ]


# --- SEELE -----------------------------------------------------------------------------------------------------------


def test_the_share_of_seele_is_that_of_its_curve():
    """s = 8, b = .6, c = .1: h* = .572107."""
    assert share_for((8, 0.6, 0.1)) == pytest.approx(0.572107, abs=1e-6)
    assert success_at(np.float64(share_for((8, 0.6, 0.1))), (8, 0.6, 0.1)) == pytest.approx(0.5)
    assert share_for((8, 0.6, 0.5)) == 0.0
    assert share_for((8, 1.4, 0.0)) == 0.9


@given(st.lists(st.tuples(st.floats(0, 0.9), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.just(1.0)), max_size=5))
def test_the_fit_beats_a_thousand_random_curves(points):
    def loss(curve):
        error = sum(weight * (success_at(share, curve) - rate) ** 2 for share, rate, weight in points)
        return error + 1e-2 * ((curve[0] - 8) ** 2 + (curve[1] - 0.5) ** 2 + curve[2] ** 2)

    rng = np.random.default_rng(0)
    curves = zip(rng.uniform(1, 32, 300), rng.uniform(-0.5, 1.5, 300), rng.uniform(0, 0.9, 300), strict=True)
    found = fit_curve(points)
    assert found[0] >= 1
    assert loss(found) <= min(map(loss, curves)) + 1e-4


def test_seele_plays_in_rounds_and_moves_towards_one_half():
    guide = SeelePart().open(Known(actions=solution(10)))
    plans = visit(guide, with_level(70))
    assert [len(plan.entries) for plan in plans] == [2, 2, 4]
    assert levels(plans[0]) == [0, 0]
    assert levels(plans[1])[0] == 60  # fitted to one failure without help
    assert levels(plans[2])[0] == 90
    assert {plan.into for plan in plans} == {"same"}
    later = visit(guide, with_level(70))
    assert 60 < levels(later[0])[0] <= 80
    assert not guidance_of(plans[1].entries[0]).joins
    assert guidance_of(visit(SeelePart(across=True).open(SIX), never)[1].entries[0]).joins


def test_seele_shows_nothing_where_the_policy_succeeds_alone():
    plans = visit(SeelePart().open(SIX), lambda guidance, number: 1.0)
    assert [levels(plan) for plan in plans] == [[0] * 2, [0] * 2, [0] * 4]


# --- prefixes --------------------------------------------------------------------------------------------------------


def test_stephint_begins_after_a_third_and_two_thirds():
    (plan,) = visit(StepHintPart().open(SIX), never)
    assert levels(plan) == [2, 2, 4, 4, 0, 0, 0, 0]
    assert [len(entry.turns) for entry in plan.entries[:4]] == [2, 2, 4, 4]
    assert cuts(6, 3) == [2, 4]
    assert cuts(2, 4) == [1]
    assert cuts(1, 3) == []


@pytest.mark.parametrize(
    ("length", "before", "rate", "longest", "after"),
    [
        (1000, (0.4, 0.5), 0.6, 3072, 750),
        (1000, (0.4, 0.5), 0.3, 3072, 1500),
        (3072, (0.4, 0.5), 0.3, 3072, 3072),
        (4, (0.5, 0.5), 0.5, 8, 4),
        (4, (0.5, 0.5), 0.0, 8, 6),
        (1, (0.5, 0.5), 0.0, 8, 2),
        (1, (0.1, 0.1), 1.0, 8, 1),
        (4, (0.0, 0.0), 0.0, 8, 4),
        (4, (0.0, 0.0), 0.5, 8, 1),
    ],
)
def test_the_length_of_g2rpo_a(length, before, rate, longest, after):
    assert next_length(length, before, rate, longest=longest) == after


def test_g2rpo_a_guides_two_and_moves_every_third_step():
    guide = G2rpoAPart(length=4, longest=9).open(SIX)
    first = visit(guide, lambda guidance, number: float(number < 4))[0]  # rate .5
    assert levels(first) == [4, 4, 0, 0, 0, 0, 0, 0]
    assert all(entry.guidance.joins for entry in first.entries[:2])
    visit(guide, lambda guidance, number: float(number < 4))
    visit(guide, lambda guidance, number: float(number < 2))  # rate .25: twice the length
    assert guide.metrics() == {"guide/prefix_turns": 8.0}
    assert levels(visit(guide, never)[0])[:3] == [5, 5, 0]  # K − 1


@pytest.mark.parametrize(("n", "least", "probes"), [(8, 3, [4, 2, 3]), (8, 8, [4, 6, 7]), (2, 1, [1])])
def test_bread_searches_the_shortest_prefix(n, least, probes):
    """K = 8, success iff p ≥ 3: probes 4, 2, 3."""
    plans = visit(BreadPart().open(Known(actions=solution(n))), with_level(least), size=4)
    assert [levels(plan) for plan in plans] == [[0] * 4, *([p] * 4 for p in probes)]
    assert {plan.into for plan in plans[1:]} == {"own"}


def test_bread_has_nothing_to_search_in_one_turn_or_where_the_policy_succeeds():
    assert len(visit(BreadPart().open(Known(actions=solution(1))), never)) == 1
    assert len(visit(BreadPart().open(SIX), lambda guidance, number: float(number == 0))) == 1


def test_a_probe_that_cannot_be_used_ends_the_search():
    plans = visit(BreadPart().open(SIX), lambda guidance, number: None if guidance else 0.0)
    assert len(plans) == 2


@given(st.integers(2, 60), st.data())
def test_the_search_is_exact_for_monotone_probes_and_needs_few(n, data):
    least = data.draw(st.integers(1, n))
    probed = {}
    while (length := next_probe(n, probed)) is not None:
        assert length not in probed
        probed[length] = length >= least
    assert min((length for length, good in probed.items() if good), default=n) == least
    assert len(probed) <= (math.ceil(math.log2(n - 1)) if n > 2 else 0) + 1


@pytest.mark.parametrize(("turns", "rate", "after"), [(3, 0.8, 2), (3, 0.05, 4), (3, 0.5, 3), (0, 1.0, 0), (5, 0.0, 5)])
def test_the_prefix_of_the_reverse_curriculum(turns, rate, after):
    assert next_prefix(turns, rate, low=0.1, high=0.75, most=5) == after


def test_the_reverse_curriculum_goes_back_to_the_start_turn_by_turn():
    guide = ReverseCurriculumPart().open(Known(actions=solution(4)))
    plans = [visit(guide, lambda guidance, number: 1.0, size=4)[0] for _ in range(5)]
    assert [levels(plan) for plan in plans] == [[3, 3, 0, 0], [2, 2, 0, 0], [1, 1, 0, 0], [0] * 4, [0] * 4]
    assert levels(visit(guide, never, size=4)[0]) == [0] * 4
    assert levels(visit(guide, never, size=4)[0]) == [1, 1, 0, 0]
    assert guide.metrics() == {"guide/prefix_turns": 2.0}


def test_the_oracle_prefix_is_always_as_long():
    assert levels(visit(OraclePrefixPart(turns=9).open(SIX), never, size=5)[0]) == [5, 5, 0, 0, 0]


# --- whole solutions -------------------------------------------------------------------------------------------------


def test_luffy_puts_a_solution_into_every_group():
    two = Known(actions=[*solution(3), *solution(3), ["another"]])
    (plan,) = visit(LuffyPart(rows=2).open(two), never)
    assert [isinstance(entry, PrefixTurns) and entry.whole for entry in plan.entries] == [True] * 2 + [False] * 6
    assert [entry.turns for entry in plan.entries[:2]] == [("act 0", "act 1", "act 2"), ("another",)]
    assert all(entry.guidance.source == "expert" and entry.guidance.joins for entry in plan.entries[:2])
    assert visit(LuffyPart().open(Known()), never)[0].entries == [None] * 8


def test_the_credit_of_luffy_is_taken_over_the_union():
    """Rewards 1, 1, 0, 0, 0, 0, 0 and the expert's 1: mean .375, so .625 and −.375; all correct: the expert gets 0."""
    one = [models.trajectory([models.turn([1], [2])], name=str(n)) for n in range(8)]
    credit = dr_grpo(tabulate([models.scored(one, [1, 1, 0, 0, 0, 0, 0, 1])]))
    np.testing.assert_allclose(credit, [0.625, 0.625, *[-0.375] * 5, 0.625])
    assert not dr_grpo(tabulate([models.scored(one, [1] * 8)])).any()


def test_acnchor_replaces_one_row_of_a_failed_group():
    plans = visit(AcnchorPart().open(SIX), never)
    assert [(len(plan.entries), plan.into) for plan in plans] == [(8, "same"), (1, "replace")]
    assert plans[1].entries[0].whole
    assert len(visit(AcnchorPart().open(SIX), lambda guidance, number: float(number == 1))) == 1


# --- retries, and more of the same -----------------------------------------------------------------------------------


def test_a_retry_plays_the_same_turns_and_then_goes_on_with_a_note():
    trajectory = models.trajectory([models.turn([1], [2]) for _ in range(5)], name="first")
    entry = retry_from(trajectory, 2, "look again", strip=True)
    assert (len(entry.turns), entry.keys, entry.parent, entry.seed) == (2, ("s", "s"), ("first", 2), 0)
    assert (entry.guidance.insert_turn, entry.guidance.joins, entry.guidance.strip_for_train) == (2, True, True)
    assert retry_from(trajectory, 0, "x", strip=False).turns == ()
    with pytest.raises(ValueError, match="turn 5 to try again from; 'first' has 5 turns"):
        retry_from(trajectory, 5, "x", strip=True)


def test_reflect_tries_each_failure_again_from_its_first_fault():
    guide = ReflectPart(evidence="right_key", note="turn {turn}: {evidence} was {value}").open(Known())
    assert len(guide.plan(TASK, 9).entries) == 4
    turns = tuple(models.turn([1], [2]) for _ in range(3))
    facts = tuple(Evidence(name="right_key", value=value, turn=turn) for turn, value in enumerate((True, False, False)))
    group = group_of([None] * 4, [0.0, 1.0, None, 0.0])
    trajectories = [replace(one, turns=turns, evidence=facts) for one in group.trajectories]
    trajectories[3] = replace(trajectories[3], evidence=())
    plan = guide.again(replace(group, trajectories=tuple(trajectories)), 1)
    (entry,) = plan.entries  # one succeeded, one broke, of one nothing is known
    assert (entry.parent, entry.guidance.text) == (("t0", 1), "turn 1: right_key was False")
    assert plan.into == "same"
    assert guide.again(group, 2) is None


def test_speed_plays_the_rest_of_a_mixed_group():
    guide = SpeedPart(first=4).open(Known())
    mixed = visit(guide, lambda guidance, number: float(number == 2), size=16)
    assert [(len(plan.entries), plan.into) for plan in mixed] == [(4, "same"), (12, "same")]
    assert len(visit(guide, never, size=16)) == len(visit(guide, lambda guidance, number: 1.0, size=16)) == 1


@pytest.mark.parametrize(("p", "passes"), [(0.05, 0.185488), (0.5, 0.875)])
def test_how_often_speed_plays_on(p, passes):
    guide = SpeedPart(first=4).open(Known())
    exact = 0.0
    for pattern in range(16):
        outcomes = [float(pattern >> place & 1) for place in range(4)]
        weight = math.prod(p if outcome else 1 - p for outcome in outcomes)
        exact += weight * (guide.again(group_of([None] * 4, outcomes), 1) is not None)
    assert exact == pytest.approx(passes, abs=1e-6)


# --- all of them -----------------------------------------------------------------------------------------------------

NEEDED = {"ladder": {"exempt_steps": 0}, "reflect": {"evidence": "right_key"}}
PARTS = [GuidePart.load({"type": kind, **NEEDED.get(kind, {})}) for kind in shipped()]
BOTH = Known(hints=("a", "b"), actions=solution(5))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.type)
def test_a_guide_goes_on_from_its_state_as_if_it_had_never_stopped(part):
    rng = np.random.default_rng(0)
    outcomes = rng.integers(2, size=(6, 64)).astype(float)
    one, other = part.open(BOTH), part.open(BOTH)
    for step in range(6):
        if step == 3 and isinstance(one, Remembering):
            other = part.open(BOTH)
            other.load(json.loads(json.dumps(one.state())))
        assert visit(one, lambda guidance, n, row=outcomes[step]: row[n]) == visit(
            other, lambda guidance, n, row=outcomes[step]: row[n]
        )
        if isinstance(one, Remembering):
            assert one.state() == other.state()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.type)
def test_a_guide_stops_and_leaves_at_least_one_sibling_to_the_policy(part):
    plans = visit(part.open(BOTH), never)
    assert len(plans) < 10
    assert all(plan.entries for plan in plans)
    if part.type not in ("questa",):
        assert None in plans[0].entries


@pytest.mark.parametrize(
    ("settings", "size", "says"),
    [
        ({"type": "speed", "first": 8}, 8, "guide.first is 8, which leaves no more of 8 siblings"),
        ({"type": "luffy", "rows": 8}, 8, "guide.rows is 8, which leaves none of 8 siblings"),
        ({"type": "stephint", "parts": 4}, 8, "3 prefixes with 2 siblings each are 6 of 8"),
        ({"type": "g2rpo_a", "siblings": 4}, 4, "guide.siblings is 4; at least one of 4"),
        ({"type": "g2rpo_a", "length": 9}, 4, "guide.length 9 is more than guide.longest 8"),
        ({"type": "seele"}, 4, r"guide.rounds \[2, 2, 4\] must be .* sum to train.group_size, 4"),
        ({"type": "oracle_prefix"}, 2, "train.group_size must be at least 4"),
        ({"type": "reverse_curriculum", "low": 0.9}, 4, "guide.low 0.9 must be less than guide.high 0.75"),
        ({"type": "reflect", "evidence": "x"}, 2, "train.group_size must be at least 4"),
    ],
)
def test_settings_that_do_not_fit_the_groups_are_refused(settings, size, says):
    with pytest.raises(ConfigError, match=says):
        parse({"model": "no/model", "guide": settings, "train": {"group_size": size}})
