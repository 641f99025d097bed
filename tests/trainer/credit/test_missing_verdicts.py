"""A verdict that could not be had makes an episode neither better nor worse, by any rule.

1. Where all siblings agree on a verdict, one of them lacking it changes nothing: not its columns, not the credit of
   anybody, under every rule, with every gate, for components of every kind.
2. What is paid stays what was measured.
3. Where nothing was due (a turn without evidence, a penalty that did not occur, a closed gate) nothing is filled in.
4. Where they disagree, their mean stands in: of the same turn, or of all turns where no sibling has one there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.credit_rules import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from tests.helpers.every import for_every
from turngate.errors import ConfigError
from turngate.rewards import (
    BestSoFar,
    Budget,
    CapProcess,
    EventCost,
    FromEvidence,
    Gate,
    Hierarchical,
    InformationGain,
    LengthCost,
    NeedsOutcome,
    Once,
    Repetition,
    Requires,
    Reward,
    Rubric,
    Soft,
    SuccessOnly,
    Trust,
    Veto,
)
from turngate.rewards.outcome.code import ReproducedFirst
from turngate.rewards.parts import Facts, Verdict
from turngate.trainer.batch.table import tabulate
from turngate.trainer.filters.parts import varied
from turngate.trainer.step import summarize
from turngate.types import Group, Guidance, Score, TokenCredit, TurnTable

WON = FromEvidence(name="won", evidence="won", kind="outcome")
TIDY = FromEvidence(name="tidy", evidence="tidy", weight=0.2, per_turn=True)
SIZES = [[2, 1, 3], [1, 2], [2, 2, 1], [1, 1, 1]]  # policy tokens of each turn of four siblings
OTHERS: list[dict[str, Any]] = [
    {"won": 1.0, "tidy": [1.0, 0.0, 0.5]},
    {"won": 1.0, "tidy": [0.0, 0.5]},
    {"won": 0.45, "tidy": [0.5, 0.5, 1.0]},
    {"won": 0.45, "tidy": [1.0, 0.0, 0.0]},
]


def judge(**settings: Any) -> FromEvidence:
    return FromEvidence(**({"name": "judge", "evidence": "judge", "weight": 0.4} | settings))


TURNS = [0.5, 1.0, 0.25]  # what every sibling was told about its turns
KEYS = ["a", "b", "a"]
BELIEFS = [-2.0, -1.0, -0.5]
# component → evidence that it reads, of all siblings, and what is left of it where it could not be had
COMPONENTS: dict[str, tuple[Reward, Mapping[str, Any], list[Mapping[str, Any]]]] = {
    "once for the episode": (judge(), {"judge": 0.75}, [{"judge": None}, {}]),
    "a penalty": (judge(kind="penalty", weight=-0.4), {"judge": 0.75}, [{"judge": None}]),
    "per turn, mean": (
        judge(per_turn=True),
        {"judge": TURNS},
        [{"judge": None}, {"judge": [0.5, None, 0.25]}, {"judge": [None] * 3}],
    ),
    "per turn, sum": (
        judge(per_turn=True, agg="sum"),
        {"judge": TURNS},
        [{"judge": None}, {"judge": [0.5, None, 0.25]}, {"judge": [None] * 3}],
    ),
    "per turn, last": (judge(per_turn=True, agg="last"), {"judge": TURNS}, [{"judge": [0.5, 1.0, None]}]),
    "per turn, min": (judge(per_turn=True, agg="min"), {"judge": TURNS}, [{"judge": [0.5, 1.0, None]}]),
    "a charge per turn": (
        judge(per_turn=True, kind="penalty", weight=-0.4, agg="sum"),
        {"judge": TURNS},
        [{"judge": [None, 1.0, 0.25]}],
    ),
    "the mean of turns, once": (judge(), {"judge": TURNS}, [{"judge": [0.5, None, 0.25]}, {"judge": None}, {}]),
    "the sum of turns, once": (judge(agg="sum"), {"judge": TURNS}, [{"judge": [0.5, None, 0.25]}, {"judge": None}]),
    "the last of turns, once": (judge(agg="last"), {"judge": TURNS}, [{"judge": [0.5, 1.0, None]}]),
    "repetition": (
        Repetition(name="judge", budget=2.0),
        {"action_key": KEYS},
        [{"action_key": [None, "b", "a"]}, {"action_key": None}],
    ),
    "events": (
        EventCost(name="judge", evidence="judge", free=1.0, budget=2.0),
        {"judge": [1, 1, 1]},
        [{"judge": [None, 1, 1]}, {"judge": [1, None, 1]}, {"judge": None}],
    ),
    "length": (
        LengthCost(name="judge", evidence="judge", start=1.0, limit=4.0),
        {"judge": [3, 1, 1]},
        [{"judge": [3, None, 1]}, {"judge": None}],
    ),
    "information gain": (
        InformationGain(name="judge"),
        {"gold_logprob": BELIEFS, "gold_logprob_start": -3.0},
        [
            {"gold_logprob": [-2.0, None, -0.5], "gold_logprob_start": -3.0},
            {"gold_logprob": BELIEFS, "gold_logprob_start": None},
            {"gold_logprob": None, "gold_logprob_start": None},
        ],
    ),
}
CASES = [(name, place) for name, (_, _, lacking) in COMPONENTS.items() for place in range(len(lacking))]
GATES: dict[str, tuple[Gate, ...]] = {
    "no gate": (),
    "needs_outcome": (NeedsOutcome(at_least=0.5),),
    "success_only": (SuccessOnly(on=("judge",)),),
    "cap_process": (CapProcess(limit=0.15),),
    "budget": (Budget(on="judge", limit=0.1),),
    "soft": (Soft(on="judge", at_least=0.5, answered="answered"),),
    "trust": (Trust(on="judge"),),
    "waits for the judge": (Hierarchical(levels=(("judge",), ("tidy",)), at_least=(0.5,)),),
    "veto": (Veto(evidence="cheated"),),
    "once": (Once(on="judge"),),
    "best_so_far": (BestSoFar(on="judge"),),
    "requires": (Requires(evidence="answered", on="judge"),),
}


ANSWERED = {"answered": True, "cheated": False}


def told(full: Mapping[str, Any], without: Mapping[str, Any] | None = None, *, at: int = 0) -> list[dict[str, Any]]:
    """Four siblings with the same verdicts, as far as their turns go, of whom the one ``at`` has only ``without``."""
    mine = [dict(full) for _ in SIZES]
    if without is not None:
        mine[at] = dict(without)
    rows = zip(OTHERS, mine, SIZES, strict=True)
    return [{k: cut(v, len(size)) for k, v in (other | own | ANSWERED).items()} for other, own, size in rows]


def cut(value: Any, n: int) -> Any:
    return value[:n] if isinstance(value, list) else value


def rubrics() -> list[Any]:
    """Every component behind every gate that it may stand behind."""
    found = []
    for name, (component, full, lacking) in COMPONENTS.items():
        for gated, gates in GATES.items():
            try:
                rubric = Rubric(rewards=(WON, TIDY, component), gates=gates)
            except ConfigError:  # a gate that does not fit the component
                continue
            found += [pytest.param(rubric, full, without, id=f"{name}, {gated}, {without}") for without in lacking]
    return found


RUBRICS = rubrics()


def paid(score: Score) -> Any:
    payments = [(event.name, event.turn, pytest.approx(event.paid, abs=1e-9)) for event in score.ledger]
    return payments, score.reward_T.tolist()


# --- 1, 2: what siblings agree on -----------------------------------------------------------------------------------


@for_every("rubric, full, without", RUBRICS)
def test_lacking_a_verdict_on_which_siblings_agree_changes_nothing(
    scored_of: Any, rubric: Rubric, full: Any, without: Any
):
    """Siblings 0 and 1 succeed, 2 and 3 fail, so gates on the outcome treat them differently."""
    whole = scored_of(rubric, told(full), SIZES)
    assert not any(score.missing or score.filled for score in whole.scores)
    for at in (0, 3):
        lacking = scored_of(rubric, told(full, without, at=at), SIZES)
        assert lacking.scores[at].missing == ("judge",)
        for row, (score, complete) in enumerate(zip(lacking.scores, whole.scores, strict=True)):
            assert (score.filled is not None) is (row == at)
            assert paid(score.compared) == paid(complete)
        alone = rubric.score(lacking.trajectories[at].record())
        if not any(isinstance(gate, Trust) for gate in rubric.gates):
            assert paid(lacking.scores[at]) == paid(alone), "what is paid is what was measured"


def test_the_gates_above_are_all_tried():
    tried = {part.values[0].gates for part in RUBRICS}
    assert tried == set(GATES.values())


SETTINGS: dict[str, dict[str, Any]] = {"pass_at_k": {"k": 1}, "riskpo": {"bundle": 1}, "ngrpo": {"best": 9.0}}
RULES = {**CREDITS, **TOKEN_CREDITS, **{f"values of {name}": target for name, target in VALUE_TARGETS.items()}}


def with_signals(table: TurnTable) -> TurnTable:
    """Every column that some rule reads, the same for every table of these siblings."""
    rng = np.random.default_rng(0)
    n, b = table.n_turns, table.n_trajectories
    turn_S = np.repeat(np.arange(n, dtype=np.int32), table.measured["tokens_N"])
    turns = ("value", "logratio", "gain", "entropy", "kl", "accuracy", "confidence", "surprisal")
    tokens = ("value", "logratio", "entropy", "surprisal", "sharing")
    made = {f"{name}_N": rng.uniform(0, 1, n).astype(np.float32) for name in turns}
    made |= {f"{name}_S": rng.uniform(0, 1, len(turn_S)).astype(np.float32) for name in tokens}
    made["sharing_S"] = np.ones(len(turn_S), np.float32)
    ones = {name: np.ones(n, np.float32) for name in ("format_N", "grounded_N", "count_N")}
    more = {
        "bootstrap_B": np.zeros(b, np.float32),
        "tag_N": np.zeros(n, np.float32),
        "similar_N": np.zeros(n, np.int64),
    }
    return replace(table, measured={**table.measured, **made, **ones, **more, "turn_S": turn_S})


def credit(name: str, table: TurnTable) -> Any:
    found = RULES[name](table, **SETTINGS.get(name, {}))
    return found.advantage_S if isinstance(found, TokenCredit) else found


OF_ALL_RULES = [part for part in RUBRICS if part.values[0].gates in (GATES["no gate"], GATES["needs_outcome"])]


@for_every("rubric, full, without", OF_ALL_RULES)
def test_no_rule_gives_other_credit(scored_of: Any, rubric: Rubric, full: Any, without: Any):
    whole = with_signals(tabulate([scored_of(rubric, told(full), SIZES)]))
    refusing = {"maxrl"} if whole.total_B.min() < 0 else set()  # it refuses what was paid less than 0
    expected = {name: credit(name, whole) for name in RULES if name not in refusing}
    for at in (0, 3):
        lacking = with_signals(tabulate([scored_of(rubric, told(full, without, at=at), SIZES)]))
        for name, one in expected.items():
            assert np.isfinite(one).all(), name
            np.testing.assert_allclose(credit(name, lacking), one, atol=1e-4, rtol=1e-4, err_msg=name)


def test_the_rules_above_give_credit(scored_of: Any):
    """So that equal credit is not equal zeros."""
    rubric = Rubric(rewards=(WON, TIDY, judge(per_turn=True)))
    table = with_signals(tabulate([scored_of(rubric, told({"judge": TURNS}), SIZES)]))
    assert {name for name in RULES if not credit(name, table).any()} == set()


# --- 3: what was not due --------------------------------------------------------------------------------------------


@for_every(
    "component, had, not_had",
    [
        (judge(per_turn=True), [1.0, 1.0], None),  # a turn on which nothing was to be judged
        (judge(agg="sum"), [1.0, 1.0], None),  # a sum over nothing
        (judge(kind="penalty", weight=-0.4), 1.0, None),  # a penalty that did not occur
        (judge(kind="penalty", weight=-0.4, per_turn=True), [1.0, 1.0], None),
        (EventCost(name="judge", evidence="judge"), [1, 1], None),
        (ReproducedFirst(name="judge", evidence="judge", edit="edit"), [True, False], [False, False]),
    ],
)
def test_nothing_stands_in_for_what_was_not_due(scored_of: Any, component: Reward, had: Any, not_had: Any):
    episodes = [{"won": 1.0, "judge": had}, {"won": 1.0} | ({} if not_had is None else {"judge": not_had})]
    group = scored_of(Rubric(rewards=(WON, component)), episodes, [[1, 1], [1, 1]])
    assert [(score.missing, score.filled) for score in group.scores] == [((), None)] * 2
    assert group.scores[0].total != group.scores[1].total


def test_what_is_missing_for_everybody_changes_nothing_and_is_counted(scored_of: Any):
    rubric = Rubric(rewards=(WON, judge()))
    group = scored_of(rubric, [{"won": won, "judge": None} for won in (1.0, 0.0)], [[1], [1]])
    assert [(score.missing, score.filled, score.total) for score in group.scores] == [
        (("judge",), None, 1.0),
        (("judge",), None, 0.0),
    ]
    assert np.isnan(tabulate([group]).measured.get("paid/judge_B", np.nan)).all()
    assert summarize([group])["reward/judge/missing_share"] == 1.0


# --- 4: where siblings disagree -------------------------------------------------------------------------------------


def test_the_mean_of_the_siblings_stands_in(scored_of: Any):
    rubric = Rubric(rewards=(WON, judge(weight=1.0)))
    said = [1.0, 0.5, 0.0, None]
    group = scored_of(rubric, [{"won": 0.0, "judge": value} for value in said], [[1]] * 4)
    assert [score.total for score in group.scores] == [1.0, 0.5, 0.0, 0.0]
    assert [score.compared.total for score in group.scores] == [1.0, 0.5, 0.0, 0.5]
    np.testing.assert_allclose(CREDITS["rloo"](tabulate([group])), [2 / 3, 0, -2 / 3, 0], atol=1e-6)
    metrics = summarize([group])
    assert (metrics["reward/judge/missing_share"], metrics["train/paid"]) == (0.25, 0.5)


def test_of_a_turn_it_is_the_mean_of_that_turn_or_else_of_all(scored_of: Any):
    rubric = Rubric(rewards=(WON, judge(weight=1.0, per_turn=True, agg="sum")))
    said = [[1.0, 0.0, None], [0.5, None], [0.0, 0.5]]
    group = scored_of(rubric, [{"won": 0.0, "judge": values} for values in said], [[1] * len(row) for row in said])
    rewards = [score.compared.reward_T.tolist() for score in group.scores]
    assert rewards == [[1.0, 0.0, pytest.approx(0.4)], [0.5, 0.25], [0.0, 0.5]]
    assert tabulate([group]).process_N.tolist() == [1.0, 0.0, pytest.approx(0.4), 0.5, 0.25, 0.0, 0.5]


def test_siblings_of_another_cohort_and_unusable_ones_say_nothing(scored_of: Any):
    rubric = Rubric(rewards=(WON, judge()))
    told_ = [{"won": 0.0, "judge": value} for value in (None, 0.5, 1.0)] + [{"won": None, "judge": 1.0}]
    played = scored_of(rubric, told_, [[1]] * 4)
    hint = Guidance(kind="hint", level=1, text="h", source="s")
    trajectories = [replace(one, guidance=hint) if at == 2 else one for at, one in enumerate(played.trajectories)]
    group = rubric.score_group(Group(task=played.task, trajectories=tuple(trajectories)))
    assert [score.usable for score in group.scores] == [True, True, True, False]
    assert group.scores[0].compared.total == 0.4 * 0.5


def test_a_group_that_differs_in_a_missing_verdict_only_is_not_varied(scored_of: Any):
    rubric = Rubric(rewards=(WON, judge()))
    group = scored_of(rubric, [{"won": 0.0, "judge": value} for value in (None, 1.0, 1.0)], [[1]] * 3)
    assert not varied(group).any()
    different = scored_of(rubric, [{"won": 0.0, "judge": value} for value in (None, 1.0, 0.0)], [[1]] * 3)
    assert varied(different).all()


class OwnJudge(Reward):
    """A part of a user's own, which says itself of which turn the judge gave no verdict."""

    per_turn: bool = True

    @property
    def reads(self) -> tuple[str, ...]:
        return ("seen",)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        return [(turn, None if value == "no answer" else 0.5) for turn, value in facts.verdicts("seen")]


def test_a_part_says_itself_which_verdict_it_could_not_have(scored_of: Any):
    rubric = Rubric(rewards=(WON, OwnJudge(name="own", type="own_judge")))
    seen = [["yes", "yes"], ["yes", "no answer"]]
    group = scored_of(rubric, [{"won": 0.0, "seen": facts} for facts in seen], [[1, 1]] * 2)
    assert [score.missing for score in group.scores] == [(), ("own",)]
    assert [score.compared.reward_T.tolist() for score in group.scores] == [[0.25, 0.25]] * 2
    assert [score.reward_T.tolist() for score in group.scores] == [[0.25, 0.25], [0.5, 0.0]]
