"""Gates that let one component wait for another: hierarchical, conditional, bottom_line, success_only."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, UnknownName
from turngate.rewards import (
    BottomLine,
    Conditional,
    FromEvidence,
    Gate,
    Hierarchical,
    Rubric,
    SuccessOnly,
    cap_process,
)
from turngate.types import Ending, Evidence, Record, Score


def part(name: str, **settings: Any) -> FromEvidence:
    return FromEvidence(name=name, evidence=name, **settings)


def play(rewards: Any, gates: Any, **values: Any) -> Score:
    facts = []
    for name, value in values.items():
        column = dict(enumerate(value)) if isinstance(value, list) else {None: value}
        facts += [Evidence(name=name, value=v, turn=turn) for turn, v in column.items()]
    n_turns = max([len(value) for value in values.values() if isinstance(value, list)], default=1)
    record = Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(facts))
    return Rubric(rewards=tuple(rewards), gates=tuple(gates)).score(record)


# --- hierarchical (G-RA) ---------------------------------------------------------------------------------------------

STAGE = part("stage", kind="outcome", low=-1.0)
LOW = part("low", per_turn=True, agg="sum", high=2.0)


def test_two_levels_of_gated_accumulation():
    """Direct accumulation ranks the empty patch (−0.5) first, gated accumulation last."""
    played = [([1.0], [0.4]), ([0.0], [0.8]), ([-0.5], [2.0])]
    direct = [play([STAGE, LOW], [], stage=high[0], low=low).total for high, low in played]
    gate = Hierarchical(levels=(("stage",), ("low",)), at_least=(0.0,))
    gated = [play([STAGE, LOW], [gate], stage=high[0], low=low).total for high, low in played]
    assert direct == pytest.approx([1.4, 0.8, 1.5], abs=1e-5)
    assert gated == pytest.approx([1.4, 0.8, -0.5], abs=1e-5)
    strict = Hierarchical(levels=(("stage",), ("low",)), at_least=(0.0,), op=">")
    assert play([STAGE, LOW], [strict], stage=0.0, low=[0.8]).total == pytest.approx(0.0)


@pytest.mark.parametrize("op", [">=", ">"])
def test_three_levels_close_below_the_first_that_fails(op: Any):
    rewards = [STAGE, part("prm"), part("format")]
    gate = Hierarchical(levels=(("stage",), ("prm",), ("format",)), at_least=(0.0, 0.5), op=op)
    score = play(rewards, [gate], stage=1.0, prm=0.4, format=1.0)
    assert score.total == pytest.approx(1.4, abs=1e-5)
    assert [(event.name, event.factor) for event in score.ledger] == [("stage", 1.0), ("prm", 1.0), ("format", 0.0)]
    assert score.ledger[-1].gate == "hierarchical(stage > prm > format)"


def test_the_default_ladder_of_software_repair_is_safe():
    """Levels −1, −0.5, 0, 1 (not submitted, empty, fails, passes), process in [0, 1] as a mean with weight 0.3."""
    rubric = Rubric(
        rewards=(STAGE.model_copy(update={"levels": (-1, -0.5, 0, 1)}), part("tools", per_turn=True, weight=0.3)),
        gates=(Hierarchical(levels=(("stage",), ("tools",)), at_least=(0.0,)),),
    )
    assert rubric.check().safe


@given(st.data())
@settings(max_examples=60)
def test_any_number_of_levels_against_the_product_formula(data: Any):
    """R = Σ_i r_i · Π_{j above i} 1[r_j ≥ v_j], and a component that was not measured reaches nothing."""
    count = data.draw(st.integers(2, 5))
    names = [f"r{i}" for i in range(count)]
    grid = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    values = {name: data.draw(grid | st.none() if i else grid) for i, name in enumerate(names)}
    thresholds = [data.draw(st.sampled_from([0.25, 0.5, 0.75])) for _ in names[1:]]
    strict = data.draw(st.booleans())
    expected = 0.0
    for i, name in enumerate(names):
        met = [values[n] is not None and (values[n] > v if strict else values[n] >= v)  # type: ignore[operator]
               for n, v in zip(names[:i], thresholds, strict=False)]  # fmt: skip
        expected += (values[name] or 0.0) * all(met)
    rewards = [part(name, kind="process" if i else "outcome") for i, name in enumerate(names)]
    gate = Hierarchical(
        levels=tuple((name,) for name in names),
        at_least=thresholds,
        op=">" if strict else ">=",
    )
    assert play(rewards, [gate], **values).total == pytest.approx(expected)


def test_a_level_of_several_components_needs_all_of_them():
    rewards = [STAGE, part("a"), part("b"), part("c")]
    gate = Hierarchical(levels=(("stage",), ("a", "b"), ("c",)), at_least=(0.0, 0.5))
    assert play(rewards, [gate], stage=0.0, a=0.5, b=0.5, c=1.0).total == pytest.approx(2.0)
    assert play(rewards, [gate], stage=0.0, a=0.5, b=0.4, c=1.0).total == pytest.approx(0.9)
    assert play(rewards, [gate], stage=-1.0, a=0.5, b=0.5, c=1.0).total == pytest.approx(-1.0)


def test_conditions_read_the_verdict_before_its_weight_and_averaged_over_turns():
    rewards = [STAGE, part("steps", per_turn=True, weight=0.1), part("c")]
    gate = Hierarchical(levels=(("stage",), ("steps",), ("c",)), at_least=(0.0, 0.7))
    assert play(rewards, [gate], stage=1, steps=[0.7, 0.7, 0.7], c=1.0).total == pytest.approx(1 + 0.07 + 1)
    assert play(rewards, [gate], stage=1, steps=[1.0, 0.0, 1.0], c=1.0).total == pytest.approx(1 + 0.2 / 3)


# --- conditional (HRM) -----------------------------------------------------------------------------------------------

SHOP = [part("c", kind="outcome"), part("s", weight=0.5), part("e", weight=0.25)]
NESTED = Conditional(given="c", at_least=1.0, pays=("s",), then=(Conditional(given="s", at_least=0.5, pays=("e",)),))


@pytest.mark.parametrize(
    ("c", "s", "e", "total"),
    [(1, 0.6, 0.8, 1.5), (1, 0.4, 1, 1.2), (0, 1, 1, 0.0)],
)
def test_nested_conditions(c: float, s: float, e: float, total: float):
    assert play(SHOP, [NESTED], c=c, s=s, e=e).total == pytest.approx(total, abs=1e-5)
    chain = Hierarchical(levels=(("c",), ("s",), ("e",)), at_least=(1.0, 0.5))
    assert play(SHOP, [chain], c=c, s=s, e=e).total == pytest.approx(total, abs=1e-5)
    assert NESTED.name == "conditional(c >= 1: s, s >= 0.5: e)"


def test_conditions_may_branch_and_pay_others_than_they_read():
    rewards = [part("c", kind="outcome"), *(part(name) for name in ("s", "t", "u", "v"))]
    gate = Conditional(
        given="c",
        at_least=0.5,
        then=(
            Conditional(given="s", at_least=0.5, pays=("t",)),
            Conditional(given="s", at_least=0.5, op=">", pays=("u", "v")),
        ),
    )
    assert play(rewards, [gate], c=1, s=0.5, t=1, u=1, v=1).total == pytest.approx(1 + 0.5 + 1)
    assert play(rewards, [gate], c=1, s=0.75, t=1, u=1, v=1).total == pytest.approx(1 + 0.75 + 3)
    assert play(rewards, [gate], c=0, s=1, t=1, u=1, v=1).total == pytest.approx(1)  # s itself waits for nothing


# --- bottom_line (SearchLLM) and success_only (P-GRPO) ---------------------------------------------------------------

LINES = [part("won", kind="outcome"), part("grounded"), part("format"), part("brief"), part("kind")]


def test_constraints_come_before_goals():
    gate = BottomLine(constraints={"grounded": 0.5, "format": 1.0})
    good = {"won": 1, "grounded": 0.5, "format": 1.0, "brief": 0.5, "kind": 0.25}
    assert play(LINES, [gate], **good).total == pytest.approx(3.25)
    broken = play(LINES, [gate], **good | {"format": 0.9})
    assert broken.total == pytest.approx(1 + 0.5 + 0.9)  # constraints are paid, goals are not
    assert {event.name for event in broken.ledger if event.gate} == {"brief", "kind"}
    named = BottomLine(constraints={"grounded": 0.5}, goals=("brief",))
    assert play(LINES, [named], **good | {"grounded": 0.4}).total == pytest.approx(1 + 0.4 + 1.0 + 0.25)
    unmeasured = {name: value for name, value in good.items() if name != "grounded"}
    assert play(LINES, [named], **unmeasured).total == pytest.approx(1 + 1.0 + 0.25)


def test_success_only_pays_process_in_full_successes():
    rewards = [part("won", kind="outcome", weight=2.0), part("think", weight=0.5), part("style")]
    for won, total in ((1.0, 2 + 0.4 + 1), (0.9, 1.8)):
        score = play(rewards, [SuccessOnly(at_least=2.0)], won=won, think=0.8, style=1)
        assert score.total == pytest.approx(total)
    assert play(
        rewards, [SuccessOnly(on=("think",), at_least=2.0)], won=0.5, think=0.8, style=1
    ).total == pytest.approx(2.0)


def test_a_cost_of_length_can_act_among_successes_only():
    """Shorter is better where it worked; where it did not, giving up early must not be worth anything."""
    rewards = [part("won", kind="outcome", levels=(0, 1)), part("length", kind="penalty", weight=-0.5)]
    gate = SuccessOnly(on=("length",))
    totals = [play(rewards, [gate], won=won, length=length).total for won, length in ((1, 0), (1, 1), (0, 0), (0, 1))]
    assert totals == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert Rubric(rewards=tuple(rewards), gates=(gate,)).check().safe


# --- construction, storage, order ------------------------------------------------------------------------------------

PARTS = (
    part("won", kind="outcome"),
    part("a"),
    part("b"),
    part("sum", per_turn=True, agg="sum"),
    part("slow", kind="penalty", weight=-1.0),
)


@pytest.mark.parametrize(
    ("gate", "error", "match"),
    [
        (
            lambda: Hierarchical(levels=(("won",), ("aa",)), at_least=(0.5,)),
            UnknownName,
            r"did you mean 'a'\? in hierarchical\(won",
        ),
        (lambda: Hierarchical(levels=(("wonn",), ("a",)), at_least=(0.5,)), UnknownName, "did you mean 'won'"),
        (lambda: Hierarchical(levels=(("a",), ("won",)), at_least=(0.5,)), ConfigError, "would cut the outcome 'won'"),
        (
            lambda: Hierarchical(levels=(("won",), ("a",), ("b",)), at_least=(0.5,)),
            ConfigError,
            "1 thresholds for 3 levels; give 2",
        ),
        (lambda: Hierarchical(levels=(("won",),), at_least=()), ConfigError, "at least two levels"),
        (lambda: Hierarchical(levels=(("won",), ()), at_least=(0.5,)), ConfigError, "at least two levels"),
        (lambda: Hierarchical(levels=(("won",), ("a",), ("a",)), at_least=(0.5, 0.5)), ConfigError, "'a' twice"),
        (
            lambda: Hierarchical(levels=(("won",), ("a",)), at_least=(1.5,)),
            ConfigError,
            "never opens: 'won' is at most 1",
        ),
        (lambda: Hierarchical(levels=(("won",), ("a",)), at_least=(1.0,), op=">"), ConfigError, "never opens"),
        (
            lambda: Hierarchical(levels=(("won",), ("a",)), at_least=(0.0,)),
            ConfigError,
            "never closes: 'won' is at least 0",
        ),
        (lambda: Hierarchical(levels=(("won",), ("a",)), at_least=(float("nan"),)), ConfigError, "never opens"),
        (
            lambda: Hierarchical(levels=(("won",), ("sum",), ("a",)), at_least=(0.5, 1)),
            ConfigError,
            "a sum, which grows by repetition",
        ),
        (lambda: Conditional(given="won", at_least=0.5), ConfigError, "no effect"),
        (lambda: Conditional(given="won", at_least=0.5, pays=("c",)), UnknownName, "component 'c'"),
        (lambda: Conditional(given="c", at_least=0.5, pays=("a",)), UnknownName, "component 'c'"),
        (lambda: Conditional(given="won", at_least=0.5, pays=("a", "a")), ConfigError, "'a' twice"),
        (
            lambda: Conditional(
                given="won", at_least=0.5, pays=("a",), then=(Conditional(given="b", at_least=0.5, pays=("a",)),)
            ),
            ConfigError,
            "'a' twice",
        ),
        (lambda: BottomLine(constraints={}), ConfigError, "at least one constraint"),
        (lambda: BottomLine(constraints={"a": 0.5}, goals=("a",)), ConfigError, "'a' twice"),
        (lambda: BottomLine(constraints={"a": 0.5, "b": 0.5, "sum": 1}), ConfigError, "sum"),
        (lambda: BottomLine(constraints={"a": 0.5}, goals=("bb",)), UnknownName, "did you mean 'b'"),
        (lambda: SuccessOnly(on=("bb",)), UnknownName, "did you mean 'b'"),
        (lambda: SuccessOnly(on=("won",)), ConfigError, "outcome"),
        (lambda: SuccessOnly(at_least=0.5), ConfigError, r"write success_only\(1\)"),
    ],
)
def test_gates_that_cannot_work_are_refused(gate: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        Rubric(rewards=PARTS, gates=(gate(),))


def test_a_bottom_line_without_goals_is_refused():
    with pytest.raises(ConfigError, match="no process component is left"):
        Rubric(rewards=PARTS[:2], gates=(BottomLine(constraints={"a": 0.5}),))


GATES: list[Gate] = [
    Hierarchical(levels=(("won",), ("a", "b"), ("slow",)), at_least=(0.5, 0.25), op=">"),
    Conditional(
        given="won",
        at_least=0.5,
        pays=("a",),
        then=(
            Conditional(given="a", at_least=0.5, pays=("b",)),
            Conditional(given="slow", at_least=0.5, pays=("sum",)),
        ),
    ),
    BottomLine(constraints={"a": 0.5, "slow": 0.25}, goals=("b",)),
    SuccessOnly(on=("slow",)),
]


def test_ladders_survive_json_and_keep_their_order():
    rubric = Rubric(rewards=PARTS, gates=tuple(GATES))
    data = json.loads(json.dumps(rubric.model_dump(mode="json")))
    twin = Rubric.model_validate(data)
    assert twin == rubric
    assert [type(gate) for gate in twin.gates] == [Hierarchical, Conditional, BottomLine, SuccessOnly]
    assert [gate.name for gate in twin.gates] == [gate.name for gate in GATES]
    values = {"won": 1, "a": 0.5, "b": 0.75, "slow": 0.5, "sum": [1, 0, 1]}
    assert play(PARTS, twin.gates, **values).ledger == play(PARTS, GATES, **values).ledger


def test_ladders_commute_but_not_with_a_cap_in_front():
    """Conditions are read as measured, so the order of these gates changes nothing but the name in the ledger."""
    values = {"won": 1, "a": 0.25, "b": 0.75, "slow": 0.5, "sum": [1, 0, 1]}
    totals = [play(PARTS, order, **values).total for order in itertools.permutations(GATES)]
    assert totals == pytest.approx([totals[0]] * len(totals))
    gate, cap = Conditional(given="a", at_least=0.5, pays=("b",)), cap_process(0.5)
    assert play(PARTS, [gate, cap], **values).total != pytest.approx(play(PARTS, [cap, gate], **values).total)


def test_the_account_says_how_often_a_ladder_was_open():
    rubric = Rubric(rewards=tuple(SHOP), gates=(NESTED,))
    scores = [play(SHOP, [NESTED], c=c, s=s, e=e) for c, s, e in ((1, 0.6, 0.8), (1, 0.4, 1), (0, 1, 1))]
    account = rubric.account(scores)[NESTED.name]
    assert (account.n_events, account.n_closed, account.n_cut) == (6, 3, 0)
    assert account.open_rate == pytest.approx(0.5)
    assert account.raw == pytest.approx(0.5 * 2.0 + 0.25 * 2.8)
    assert account.paid == pytest.approx(0.3 + 0.2 + 0.2)
