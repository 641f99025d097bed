"""The laws that every rule with a signal or a tree of its own obeys, whatever its formula.

1. Trajectories may come in any order. 2. A cohort's credit depends on that cohort only. 3. A cohort of one gets exactly
0. 4. Equal totals and equal signals give 0, also where float32 rounds. 5. Without its signal a rule is the simpler one
that its docstring names. 6. What sums to 0 does. 7. Missing verdicts leave finite credit; columns that do not fit, an
empty table and infinite entries are refused by name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from tests.trainer.credit.refusing import not_refused
from turngate.errors import ShapeError
from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.clip_delta import clip, delta
from turngate.trainer.credit.empg import empg
from turngate.trainer.credit.gdpo import gdpo
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.hero import hero
from turngate.trainer.credit.igpo import igpo
from turngate.trainer.credit.implicit import istar, prime
from turngate.trainer.credit.portool import portool
from turngate.trainer.credit.progress import progress
from turngate.trainer.credit.prorag import prorag
from turngate.trainer.credit.pure import pure
from turngate.trainer.credit.r3l import r3l
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.rlvmr import rlvmr
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.spa import spa
from turngate.trainer.credit.spae import spae
from turngate.trainer.credit.tempo import tempo
from turngate.trainer.credit.tree_grpo import tree_grpo
from turngate.trainer.credit.tree_rl import tree_rl
from turngate.trainer.credit.tree_rpo import tree_rpo
from turngate.types import TurnTable

TIGHT = {"rtol": 1e-4, "atol": 1e-4}
Rule = Callable[[TurnTable], npt.NDArray[np.float32]]

# A tiny eps, so that rounding which is not snapped would show. EMPG's published statistics span the batch on purpose.
SHARP = 1e-8
RULES: dict[str, Rule] = {
    "gigpo": partial(gigpo, mode="mean_std_norm", eps=SHARP),
    "gigpo, similar, step": partial(gigpo, anchors="similar", episode_mean="step", eps=SHARP),
    "sag": partial(sag, min_std=0.0, eps=SHARP),
    "sag, settled": partial(sag, outcome="settled", eps=SHARP),
    "prorag": partial(prorag, eps=SHARP),
    "prorag, zero": partial(prorag, unscored="zero", eps=SHARP),
    "pure": pure,
    "pure, strict, step": partial(pure, min_mode="strict_suffix", baseline="step"),
    "spa": spa,
    "igpo": partial(igpo, eps=SHARP),
    "empg, cohort": partial(empg, scope="cohort", eps=SHARP),
    "prime": prime,
    "istar": partial(istar, eps=SHARP),
    "r3l": r3l,
    "portool": partial(portool, fork_std=True, eps=SHARP),
    "tree_rpo": partial(tree_rpo, scale="sample", eps=SHARP),
    "tree_rl": tree_rl,
    "tree_grpo": partial(tree_grpo, eps=SHARP),
    "tempo": partial(tempo, merge="recorded", eps=SHARP),
    "tempo, tokens": partial(tempo, eps=SHARP),
    "tempo, acts": partial(tempo, merge="action_observation", eps=SHARP),
    "arpo, soft": partial(arpo, eps=SHARP),
    "arpo, hard": partial(arpo, mode="hard", eps=SHARP),
    "gdpo": partial(gdpo, batch_norm=False, eps=SHARP),
    "hero": partial(hero, spread=0.3, min_std=0.0, eps=SHARP),
    "rlvmr": partial(rlvmr, eps=SHARP),
    "clip": clip,
    "delta": delta,
    "progress": progress,
    "progress, value": partial(progress, read="value"),
    "spae": partial(spae, eps=SHARP),
}
NEEDS = {
    "gigpo, similar, step": ["similar_N"],
    "prorag": ["tokens_N"],
    "prorag, zero": ["tokens_N"],
    "pure": ["tokens_N"],
    "igpo": ["gain_N"],
    "empg, cohort": ["surprisal_N"],
    "prime": ["logratio_N", "tokens_N"],
    "istar": ["logratio_N"],
    "rlvmr": ["tag_N"],
    "tempo, tokens": ["said_N"],
    "tempo, acts": ["act_N"],
    "progress": ["accuracy_N"],
    "progress, value": ["value_N"],
    "spae": ["accuracy_N", "confidence_N"],
}
TREES = ("portool", "tree_rpo", "tree_rl", "tree_grpo", "tempo", "arpo, hard")
NEEDS |= {name: ["parent_B", "branch_B"] for name in ("r3l", "arpo, soft", *TREES)}
EVERY = for_every("name", RULES)


@dataclass
class Episode:
    cohort: int
    turns: list[tuple[float, float, bool, int, int]]  # reward, signal (NaN = not measured), open, tokens, state
    parent: int = -1  # place in the batch
    branch: int = 0


TURN = st.tuples(
    st.integers(-4, 4).map(lambda k: k / 8),
    st.one_of(st.just(float("nan")), st.integers(-4, 4).map(lambda k: k / 4)),
    st.integers(0, 3).map(bool),
    st.integers(0, 5),
    st.integers(-1, 2),
)


@st.composite
def batches(draw: Any) -> list[Episode]:
    """Trajectories of one to four turns; some branch off an earlier one of their cohort."""
    batch: list[Episode] = []
    for _ in range(draw(st.integers(1, 8))):
        episode = Episode(draw(st.integers(0, 2)), draw(st.lists(TURN, min_size=1, max_size=4)))
        earlier = [i for i, other in enumerate(batch) if other.cohort == episode.cohort]
        if earlier and draw(st.booleans()):
            episode.parent = draw(st.sampled_from(earlier))
            episode.branch = draw(st.integers(0, min(len(episode.turns), len(batch[episode.parent].turns))))
        batch.append(episode)
    return batch


def tabled(table_of: Callable[..., Any], batch: list[Episode]) -> TurnTable:
    """The outcome of a trajectory is everything that it was paid."""
    columns = list(zip(*[turn for episode in batch for turn in episode.turns], strict=True))
    return table_of(
        [[turn[0] for turn in episode.turns] for episode in batch],
        cohorts=[episode.cohort for episode in batch],
        states=[[turn[4] for turn in episode.turns] for episode in batch],
        process=[[turn[1] for turn in episode.turns] for episode in batch],
        is_open=[[turn[2] for turn in episode.turns] for episode in batch],
        tokens_N=columns[3],
        similar_N=columns[4],
        surprisal_N=columns[1],
        gain_N=columns[1],
        logratio_N=columns[1],
        accuracy_N=columns[1],
        confidence_N=columns[1],
        value_N=columns[1],
        said_N=columns[4],
        act_N=columns[4],
        tag_N=[one % 6 for one in columns[3]],
        **{
            "paid/won_B": [episode.turns[0][0] for episode in batch],
            "paid/other_B": [episode.turns[-1][1] for episode in batch],
        },
        parent_B=[episode.parent for episode in batch],
        branch_B=[episode.branch for episode in batch],
    )


def chosen(batch: list[Episode], order: list[int]) -> list[Episode]:
    """These trajectories in this order, parents renumbered."""
    place = {old: new for new, old in enumerate(order)}
    return [replace(batch[i], parent=place.get(batch[i].parent, -1)) for i in order]


def rows_of(batch: list[Episode], order: list[int]) -> list[int]:
    starts = np.cumsum([0, *(len(episode.turns) for episode in batch)])
    return [int(starts[i]) + t for i in order for t in range(len(batch[i].turns))]


def unmeasured(batch: list[Episode]) -> list[Episode]:
    """No verdict, no signal, no known state, no branch."""
    nan = float("nan")
    turns = [[(reward, nan, is_open, n, -1) for reward, _, is_open, n, _ in one.turns] for one in batch]
    return [Episode(episode.cohort, turns[i]) for i, episode in enumerate(batch)]


# --- 1, 2, 7: order, leaks, finite -----------------------------------------------------------------------------------


@given(batch=batches(), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_order_does_not_matter_and_nothing_leaks(table_of: Any, batch: list[Episode], seed: int):
    table = tabled(table_of, batch)
    order = np.random.default_rng(seed).permutation(len(batch)).tolist()
    shuffled = tabled(table_of, chosen(batch, order))
    members = [i for i, episode in enumerate(batch) if episode.cohort == batch[0].cohort]
    alone = tabled(table_of, chosen(batch, members))
    for name, rule in RULES.items():
        advantage_N = rule(table)
        assert advantage_N.shape == (table.n_turns,), name
        assert advantage_N.dtype == np.float32, name
        assert np.isfinite(advantage_N).all(), name
        np.testing.assert_allclose(rule(shuffled), advantage_N[rows_of(batch, order)], err_msg=name, **TIGHT)
        np.testing.assert_allclose(rule(alone), advantage_N[rows_of(batch, members)], err_msg=name, **TIGHT)


def test_empg_as_published_depends_on_the_order_of_nothing_but_on_the_whole_batch(table_of: Any):
    batch = [Episode(c, [(r, s, True, 1, -1)]) for c, r, s in ((0, 1, 0.1), (0, 0, 0.4), (1, 1, 0.2), (1, 0, 0.9))]
    order, first = [3, 0, 2, 1], [0, 1]
    advantage_N = empg(tabled(table_of, batch))
    np.testing.assert_allclose(empg(tabled(table_of, chosen(batch, order))), advantage_N[order], **TIGHT)
    assert not np.allclose(empg(tabled(table_of, chosen(batch, first))), advantage_N[first], atol=1e-3)


# --- 3: a cohort of one ----------------------------------------------------------------------------------------------


@EVERY
def test_a_cohort_of_one_gets_exactly_zero(table_of: Any, name: str):
    """Its signals differ from turn to turn, and all of them are measured. (GiGPO compares equal states only.)"""
    batch = [Episode(cohort, [(1, 0.2, True, 3, 0), (0.5, 0.9, True, 1, 1)]) for cohort in (0, 1)]
    assert RULES[name](tabled(table_of, batch)).tolist() == [0, 0, 0, 0]


def test_a_trajectory_alone_does_not_move_the_others(table_of: Any):
    """Also in EMPG's statistics of the batch."""
    pair = [Episode(0, [(r, s, True, 1, -1)]) for r, s in ((1, 0.1), (0, 0.4))]
    table = tabled(table_of, [*pair, Episode(1, [(1, 9.0, True, 1, -1)])])
    np.testing.assert_array_equal(empg(table)[:2], empg(tabled(table_of, pair)))
    assert empg(table)[2] == 0


# --- 4: equal totals -------------------------------------------------------------------------------------------------


@EVERY
@for_every("value, count", [(0.9, 12), (0.7, 7), (0.1, 10)])
def test_equal_totals_without_signals_never_train(table_of: Any, name: str, value: float, count: int):
    """Without the snap, twelve float32 copies of 0.9 give 0.886 at this eps."""
    batch = [Episode(0, [(0, 0, True, 3, -1), (value, 0, True, 3, -1)]) for _ in range(count)]
    assert not RULES[name](tabled(table_of, unmeasured(batch))).any()


@EVERY
@for_every("value, count", [(0.9, 12), (0.7, 7)])
def test_equal_totals_with_equal_signals_never_train(table_of: Any, name: str, value: float, count: int):
    table = tabled(table_of, [Episode(0, [(value, value, True, 3, 5)]) for _ in range(count)])
    np.testing.assert_allclose(RULES[name](table), 0, atol=1e-9)


@for_every("name", TREES)
def test_equal_totals_never_train_in_a_tree(table_of: Any, name: str):
    """Leaves at different depth, all worth 0.9."""
    batch = [Episode(0, [(0, 0, True, 1, -1)] * depth + [(0.9, 0, True, 1, -1)], 0, 1) for depth in (2, 1, 3, 2, 1)]
    batch[0] = replace(batch[0], parent=-1, branch=0)
    np.testing.assert_allclose(RULES[name](tabled(table_of, batch)), 0, atol=1e-9)


# --- 5: reductions ---------------------------------------------------------------------------------------------------

DR_GRPO = partial(grpo, std=False)
RECORDED = partial(tempo, merge="recorded")
REDUCTIONS: list[tuple[str, Rule, Rule]] = [
    ("gigpo", gigpo, DR_GRPO),
    ("gigpo, similar", partial(gigpo, anchors="similar", mode="mean_std_norm"), grpo),
    ("sag", sag, grpo),
    ("sag, centred", partial(sag, std=False), DR_GRPO),
    ("prorag", prorag, partial(grpo, eps=1e-4)),
    ("pure", pure, rloo),
    ("pure, strict", partial(pure, min_mode="strict_suffix", baseline="step"), rloo),
    ("spa", spa, rloo),
    ("igpo", igpo, grpo),
    ("empg", empg, grpo),
    ("prime", prime, rloo),
    ("istar", istar, grpo),
    ("istar, centred", partial(istar, std=False), DR_GRPO),
    ("r3l", partial(r3l, amplify=1.0, success=9.0), DR_GRPO),
    ("portool", portool, grpo),
    ("tree_rl", tree_rl, DR_GRPO),
    ("tree_grpo", tree_grpo, grpo),
    ("tempo", tempo, grpo),
    ("tempo, acts", partial(tempo, merge="action_observation"), grpo),
    ("tempo, recorded", RECORDED, grpo),
    ("arpo, soft", arpo, grpo),
    ("arpo, hard", partial(arpo, mode="hard"), grpo),
    ("clip", clip, rloo),
    ("delta", delta, rloo),
    ("progress", progress, rloo),
    ("spae", spae, grpo),
]


@given(batch=batches())
@settings(max_examples=25)
def test_without_its_signal_a_rule_is_the_simpler_one(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, unmeasured(batch))
    for name, rule, simpler in REDUCTIONS:
        np.testing.assert_allclose(rule(table), simpler(table), err_msg=name, rtol=1e-5, atol=1e-6)
    first_N = np.where(table.index_N == 0, grpo(table), 0)
    np.testing.assert_allclose(tree_rpo(table, scale="sample"), first_N, rtol=1e-5, atol=1e-6)


@given(batch=batches())
@settings(max_examples=25)
def test_signals_that_say_nothing_reduce_as_well(table_of: Any, batch: list[Episode]):
    """Log-ratios of 0, closed gates, equal entropies without a bonus, and trees that branch before the first turn."""
    table = tabled(table_of, batch)
    n, b = table.n_turns, table.n_trajectories
    zero = replace(table, measured={**table.measured, "logratio_N": np.zeros(n)})
    closed = replace(table, open_N=np.zeros(n, np.bool_))
    apart = replace(table, measured={**table.measured, "branch_B": np.zeros(b, np.int32)})
    same = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(prime(zero), rloo(zero), **same)
    np.testing.assert_allclose(istar(zero), grpo(zero), **same)
    for rule, simpler in ((sag, grpo), (partial(prorag, eps=1e-6), grpo), (pure, rloo), (spa, rloo)):
        np.testing.assert_allclose(rule(closed), simpler(closed), **same)
    for rule in (portool, RECORDED, partial(arpo, mode="hard")):
        np.testing.assert_allclose(rule(apart), grpo(apart), **same)


@given(batch=batches())
@settings(max_examples=25)
def test_episodes_of_one_turn_reduce_trees_to_grpo(table_of: Any, batch: list[Episode]):
    short = [replace(episode, turns=episode.turns[:1], branch=0) for episode in batch]
    table = tabled(table_of, short)
    for rule in (portool, RECORDED, partial(arpo, mode="hard"), partial(tree_rpo, scale="sample")):
        np.testing.assert_allclose(rule(table), grpo(table), rtol=1e-5, atol=1e-6)


# --- 6: what sums to zero --------------------------------------------------------------------------------------------


def first(table: TurnTable) -> npt.NDArray[np.float64]:
    return (table.index_N == 0).astype(np.float64)


def every(table: TurnTable) -> npt.NDArray[np.float64]:
    return np.ones(table.n_turns)


def part(rule: Callable[..., Any], table: TurnTable, off: dict[str, float], **options: float) -> Any:
    """What the process term adds."""
    return rule(table, **options) - rule(table, **{**options, **off})


def among_chains(credit: Callable[[TurnTable], Any]) -> Callable[[TurnTable], Any]:
    """The same of a table without branches: with them a turn is not compared with all siblings."""

    def without(table: TurnTable) -> Any:
        own = {name: column for name, column in table.measured.items() if name not in ("parent_B", "branch_B")}
        return credit(replace(table, measured=own))

    return without


BALANCED: list[tuple[str, Callable[[TurnTable], Any], Callable[[TurnTable], Any]]] = [
    ("sag, process part", among_chains(lambda table: part(sag, table, {"weight": 0.0}, clip=np.inf)), every),
    ("istar, step part", among_chains(lambda table: part(istar, table, {"alpha": 0.0})), every),
    (
        "prorag, process part",
        among_chains(lambda table: part(prorag, table, {"beta": 0.0})),
        lambda t: t.measured["tokens_N"],
    ),
    ("gigpo, step part", among_chains(lambda table: part(gigpo, table, {"omega": 0.0})), every),
    ("gigpo, episode part", among_chains(partial(gigpo, omega=0.0)), first),
    ("gigpo, episode part over turns", among_chains(partial(gigpo, omega=0.0, episode_mean="step")), every),
    ("igpo", among_chains(igpo), first),
    ("spa", among_chains(spa), first),
    ("tree_grpo", tree_grpo, first),
    ("tempo", RECORDED, first),
    ("arpo, soft", arpo, first),
    ("arpo, hard", partial(arpo, mode="hard"), first),
    ("portool, trajectory part", partial(portool, omega_fork=0.0), first),
]


@given(batch=batches())
@settings(max_examples=25)
def test_what_is_claimed_to_sum_to_zero_does(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, batch)
    for name, credit, weight in BALANCED:
        sums = np.bincount(table.cohort_B[table.traj_N], weights=credit(table) * weight(table))
        np.testing.assert_allclose(sums, 0, atol=1e-3, err_msg=name)


@given(batch=batches())
@settings(max_examples=25)
def test_empg_is_centred_over_the_turns_with_an_entropy(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, batch)
    sized = np.bincount(table.cohort_B)[table.cohort_B][table.traj_N] > 1
    counted = sized & ~np.isnan(table.measured["surprisal_N"])
    assert empg(table)[counted].sum() == pytest.approx(0.0, abs=1e-4)


@given(batch=batches())
@settings(max_examples=25)
def test_a_turn_without_a_verdict_keeps_the_outcome_part(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, batch)
    silent = np.isnan(table.process_N)
    for rule, off in ((sag, {"weight": 0.0}), (prorag, {"beta": 0.0}), (istar, {"alpha": 0.0})):
        np.testing.assert_array_equal(rule(table)[silent], rule(table, **off)[silent])


# --- 7: what does not fit --------------------------------------------------------------------------------------------


def sound(table_of: Any) -> TurnTable:
    turns = [(0, 0.5, True, 2, 1), (1, 0.25, True, 1, 2)]
    return tabled(table_of, [Episode(0, turns), Episode(0, turns[:1], 0, 0)])


@for_every(
    "column, value, match",
    [
        ("process_N", np.zeros(2, np.float32), r"process_N has shape \(2,\), expected \(3,\)"),
        ("reward_N", np.zeros((3, 1), np.float32), r"reward_N has shape \(3, 1\), expected \(3,\)"),
        ("open_N", np.ones(4, np.bool_), "open_N has shape"),
        ("state_N", np.zeros(0, np.int64), "state_N has shape"),
        ("cohort_B", np.zeros(3, np.int32), "cohort_B has shape"),
        ("cohort_B", np.array([0, -1], np.int32), "cohort_B holds -1"),
        ("reward_N", np.array([0, np.nan, 0], np.float32), "reward_N is nan at trajectory 0, turn 1"),
        ("reward_N", np.array([0, 0, np.inf], np.float32), "reward_N is inf at trajectory 1, turn 0"),
        ("process_N", np.array([0, -np.inf, 0], np.float32), "process_N is -inf at trajectory 0, turn 1"),
        ("outcome_B", np.array([0, np.inf], np.float32), "outcome_B is inf for trajectory 1"),
        ("traj_N", np.array([0, 1, 0], np.int32), "traj_N"),
        ("index_N", np.array([0, 2, 0], np.int32), "index_N"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table_of: Any, column: str, value: Any, match: str):
    found = not_refused(RULES, replace(sound(table_of), **{column: value}), match)
    assert not found, "\n".join(found)


@EVERY
def test_an_empty_table_is_refused(table_of: Any, name: str):
    with pytest.raises(ShapeError, match="no turns"):
        RULES[name](table_of([]))


@for_every("name, column", [(name, column) for name, columns in NEEDS.items() for column in columns])
def test_a_column_that_nobody_measured_is_named(table_of: Any, name: str, column: str):
    table = sound(table_of)
    RULES[name](table)
    left = {key: array for key, array in table.measured.items() if key != column}
    with pytest.raises(ShapeError, match=rf"{name.split(',')[0]} needs column '{column}'"):
        RULES[name](replace(table, measured=left))


@for_every("name, column", [(name, column) for name, columns in NEEDS.items() for column in columns])
def test_a_measured_column_of_another_length_is_named(table_of: Any, name: str, column: str):
    table = sound(table_of)
    with pytest.raises(ShapeError, match=rf"{column} has shape \(7,\)"):
        RULES[name](replace(table, measured={**table.measured, column: np.zeros(7, np.int32)}))


@for_every(
    "name, column",
    [("igpo", "gain_N"), ("empg, cohort", "surprisal_N"), ("prime", "logratio_N"), ("istar", "logratio_N")]
    + [(name, "tokens_N") for name in ("pure", "prime", "prorag")],
)
def test_an_infinite_measurement_is_named(table_of: Any, name: str, column: str):
    table = sound(table_of)
    broken = np.array([1.0, np.inf, 1.0])
    with pytest.raises(ShapeError, match=rf"{column} is inf at trajectory 0, turn 1"):
        RULES[name](replace(table, measured={**table.measured, column: broken}))


def test_optional_columns_are_checked_where_they_count(table_of: Any):
    table = sound(table_of)
    for rule, column in (
        (partial(spa, grounding=0.5), "grounded_N"),
        (partial(portool, format_weight=0.1), "format_N"),
    ):
        with pytest.raises(ShapeError, match=f"needs column '{column}'"):
            rule(table)
        broken = replace(table, measured={**table.measured, column: np.array([1.0, np.nan, 1.0])})
        with pytest.raises(ShapeError, match=f"{column} is nan at trajectory 0, turn 1"):
            rule(broken)


def test_inputs_are_left_alone(table_of: Any):
    table = sound(table_of)
    before = {name: array.copy() for name, array in table.measured.items()}
    columns = {name: getattr(table, name).copy() for name in ("reward_N", "process_N", "outcome_B")}
    for rule in RULES.values():
        rule(table)
    for name, array in before.items():
        np.testing.assert_array_equal(table.measured[name], array)
    for name, array in columns.items():
        np.testing.assert_array_equal(getattr(table, name), array)
