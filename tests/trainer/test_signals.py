"""Columns that a model measures for credit, each against a plain loop, and what is learned from them."""

from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.credit_rules import VALUE_TARGETS
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs
from turngate.errors import ShapeError
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.control import random_reward
from turngate.trainer.credit.implicit import cross_entropy, istar, preference, prime
from turngate.trainer.credit.turn_gae import turn_gae, value_targets
from turngate.trainer.learner import Critic
from turngate.trainer.signals.base import Signals, played_of
from turngate.trainer.signals.beliefs import Beliefs, Entropies
from turngate.trainer.signals.log_ratios import LearnedLogRatios, LogRatios
from turngate.trainer.signals.recorded_columns import EvidenceColumns, TokenRows
from turngate.trainer.signals.said_thoughts import thought_marks
from turngate.trainer.signals.values import Values, explained
from turngate.types import Ending, Evidence, Guidance, Score, Source

C, P, G = Source.CONTEXT, Source.POLICY, Source.GUIDE


def learner(seed=0, **settings):
    return models.learner(models.model(seed), **settings)


def groups_of(rewards=((0, 1), (0.5,), (0, 0, 0)), endings=None):
    """One task; turns of random tokens, each paid as it is said."""
    rng = np.random.default_rng(0)
    played, scores = [], []
    for number, paid in enumerate(rewards):
        turns = [
            models.turn(
                rng.integers(280, size=2 + number),
                rng.integers(280, size=1 + (number + t) % 3),
                logprobs=-rng.random(1 + (number + t) % 3),
            )
            for t in range(len(paid))
        ]
        ending = Ending.FINISHED if endings is None else endings[number]
        played.append(models.trajectory(turns, name=f"t{number}", ending=ending))
        scores.append(
            Score(ledger=(), reward_T=np.array(paid, np.float32), outcome=float(sum(paid) > 0.75), usable=True)
        )
    return [replace(models.scored(played), scores=tuple(scores))]


def measured(source, groups):
    table, after_credit = Signals(sources=(source,)).measure(groups, tabulate(groups))
    return table.measured, after_credit, table


def turns_of(groups):
    """(trajectory, everything before the turn is spoken, the turn) of each row."""
    for group in groups:
        for one in group.trajectories:
            so_far = np.zeros(0, np.int32)
            for turn in one.turns:
                before = np.concatenate([so_far, turn.context_ids])
                so_far = np.concatenate([before, turn.completion.ids_K])
                yield one, before, turn


@torch.no_grad()
def logprobs_after(model, before, said):
    ids = np.concatenate([before, said])
    return models.naive_logprobs(model, ids)[len(before) :]


# --- without a model --------------------------------------------------------------------------------------------------


def test_rows_and_surprisal_of_tokens():
    groups = groups_of()
    columns, _, table = measured(TokenRows(), groups)
    said = [turn.completion.logprobs_K for _, _, turn in turns_of(groups)]
    assert columns["turn_S"].tolist() == [row for row, k in enumerate(said) for _ in k]
    np.testing.assert_allclose(columns["surprisal_S"], -np.concatenate(said))
    assert table.measured["tokens_N"].tolist() == [len(k) for k in said]


def test_forced_tokens_are_no_policy_tokens():
    forced = models.turn([1, 2], [3, 4, 5], logprobs=[9, -1, -2], source=[C, C, G, P, P])
    groups = [models.scored([models.trajectory([forced, models.turn([1], [7], source=[C, G])], name="a")], [1.0])]
    columns, _, table = measured(TokenRows(), groups)
    assert columns["turn_S"].tolist() == [0, 0]
    assert columns["surprisal_S"].tolist() == [1, 2]
    assert table.measured["tokens_N"].tolist() == [2, 0]
    np.testing.assert_array_equal(table.measured["surprisal_N"], [1.5, np.nan])


def test_evidence_becomes_a_column():
    groups = groups_of()
    first, second, third = groups[0].trajectories
    about = [(1, True), (None, True), (0, True), (1, False)]  # in the order of measuring
    told = tuple(Evidence(name="parsed", value=value, turn=turn) for turn, value in about)
    unknown = (Evidence(name="parsed", value=None, turn=0), Evidence(name="other", value=True, turn=0))
    changed = (replace(first, evidence=told), replace(second, evidence=unknown), third)
    columns, _, _ = measured(EvidenceColumns({"format_N": "parsed"}), [replace(groups[0], trajectories=changed)])
    np.testing.assert_array_equal(columns["format_N"], [1, 0, np.nan, np.nan, np.nan, np.nan])


def test_evidence_about_a_turn_that_was_not_played_is_refused():
    groups = groups_of()
    first, *others = groups[0].trajectories
    odd = replace(first, evidence=(Evidence(name="parsed", value=True, turn=2),))
    with pytest.raises(ShapeError, match=rf"evidence 'parsed' of trajectory '{odd.id}' is about turn 2, but it has 2"):
        measured(EvidenceColumns({"format_N": "parsed"}), [replace(groups[0], trajectories=(odd, *others))])


def without_turns(group, place):
    """The group with an episode at ``place`` that had no room for its first turn."""
    empty = models.trajectory([], name="turnless", ending=Ending.TOKEN_BUDGET)
    trajectories, scores = list(group.trajectories), list(group.scores)
    trajectories.insert(place, empty)
    scores.insert(place, Score(ledger=(), reward_T=np.zeros(0, np.float32), outcome=0.0, usable=True))
    return replace(group, trajectories=tuple(trajectories), scores=tuple(scores))


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenRows(),
        lambda: EvidenceColumns({"format_N": "parsed"}),
        lambda: Values(learner=with_head(), targets=value_targets),
        lambda: Values(learner=with_head(), targets=VALUE_TARGETS["token_gae"], per_token=True),
        lambda: Entropies(learner()),
        lambda: LearnedLogRatios(model=learner(1), base=learner(2), loss=preference),
        lambda: LearnedLogRatios(model=learner(1), base=learner(2), loss=cross_entropy),
        lambda: Beliefs(learner=learner(), chat=models.chat(), answer=lambda task: ("press ", "a red click")),
    ],
    ids=["rows", "evidence", "values", "token values", "entropies", "preference", "cross entropy", "beliefs"],
)
def test_an_episode_without_turns_changes_no_other_measurement(make, place):
    """Neither the columns of the others nor what is learned from them; its own bootstrap is 0."""
    (group,) = groups_of(endings=TRUNCATED)
    found, after_credit, table = measured(make(), [without_turns(group, place)])
    plain, plain_after_credit, plain_table = measured(make(), [group])
    for name in set(plain) - {"parent_B"}:
        expected = np.insert(plain[name], place, 0) if name.endswith("_B") else plain[name]
        assert_alike(found[name], expected, PASS)
    (columns, metrics), (plain_columns, plain_metrics) = after_credit(table), plain_after_credit(plain_table)
    assert columns.keys() == plain_columns.keys()
    for name, column in columns.items():
        assert_alike(column, plain_columns[name], PASS)
    assert metrics == pytest.approx(plain_metrics, rel=GRADIENT)


def test_nothing_is_measured_if_nothing_is_read():
    groups = groups_of()
    table = tabulate(groups)
    seen, after_credit = Signals().measure(groups, table)
    assert seen is table
    assert after_credit(table) == ({}, {})


# --- critic -----------------------------------------------------------------------------------------------------------


def with_head(seed=0):
    taught = learner(critic=Critic())
    with torch.no_grad():
        taught._value_head.weight.copy_(torch.as_tensor(np.random.default_rng(seed).normal(size=32).astype(np.float32)))
    return taught


def value_by_hand(taught, ids):
    hidden = taught.model.base_model(torch.as_tensor(ids, dtype=torch.long)[None]).last_hidden_state[0, -1]
    return float(taught._value_head(hidden))


TRUNCATED = (Ending.MAX_TURNS, Ending.FINISHED, Ending.TOKEN_BUDGET)


@torch.no_grad()
def test_values_before_turns_and_where_truncated_episodes_stopped():
    groups, taught = groups_of(endings=TRUNCATED), with_head()
    columns, _, _ = measured(Values(learner=taught, targets=value_targets), groups)
    expected = [value_by_hand(taught, before) for _, before, _ in turns_of(groups)]
    assert_alike(columns["value_N"], expected, PASS)
    first, second, third = groups[0].trajectories
    after = [value_by_hand(taught, first.ids()), 0.0, value_by_hand(taught, third.ids())]
    assert_alike(columns["bootstrap_B"], after, PASS)
    without, _, _ = measured(Values(learner=taught, targets=value_targets, bootstrap=False), groups)
    assert "bootstrap_B" not in without
    assert second.ending.terminated


@torch.no_grad()
def test_values_before_every_policy_token():
    groups, taught = groups_of(), with_head()
    columns, _, _ = measured(Values(learner=taught, targets=VALUE_TARGETS["token_gae"], per_token=True), groups)
    expected = [
        value_by_hand(taught, np.concatenate([before, turn.completion.ids_K[:k]]))
        for _, before, turn in turns_of(groups)
        for k in range(len(turn.completion.ids_K))
    ]
    assert_alike(columns["value_S"], expected, PASS)


def test_the_lesson_of_a_critic():
    """Turns of (2+1, 2+2), (3+2) and (4+3, 4+1, 4+2) tokens: returns before each turn, and after each what follows.

    After the last turn of a finished episode nothing follows; after that of a truncated one, nobody knows.
    """
    groups, taught = groups_of(endings=TRUNCATED), with_head()
    _, after_credit, table = measured(Values(learner=taught, targets=partial(value_targets, lam=1.0)), groups)
    columns, metrics = after_credit(table)
    target_N = value_targets(table, lam=1.0)
    before, after = [1, 4, 9, 15, 22, 27], [2, 6, 11, 18, 23, 29]
    expected = np.zeros(30, np.float32)
    expected[before] = target_N
    expected[[2, 11, 18, 23]] = [target_N[1], 0, target_N[4], target_N[5]]
    np.testing.assert_allclose(columns["return_L"], expected, atol=1e-6)
    assert np.flatnonzero(columns["value_weight_L"]).tolist() == sorted([*before, 2, 11, 18, 23])
    np.testing.assert_allclose(columns["value_weight_L"][before], 0.1)
    np.testing.assert_allclose(columns["old_value_L"][before], table.measured["value_N"])
    spread = np.var(target_N)
    missed = np.var(target_N - table.measured["value_N"])
    assert metrics["value/explained_variance"] == pytest.approx(1 - missed / spread, rel=1e-4)
    assert metrics["value/return"] == pytest.approx(target_N.mean(), rel=1e-5)
    assert len(after) == len(before)


def test_the_lesson_of_a_critic_of_tokens():
    groups, taught = groups_of(endings=TRUNCATED), with_head()
    source = Values(learner=taught, targets=VALUE_TARGETS["token_gae"], per_token=True)
    table, after_credit = Signals(sources=(TokenRows(), source)).measure(groups, tabulate(groups))
    columns, _ = after_credit(table)
    target_S, turn_S = VALUE_TARGETS["token_gae"](table), table.measured["turn_S"]
    played = played_of(groups, table)
    np.testing.assert_allclose(columns["return_L"][played.spoken_S - 1], target_S, atol=1e-6)
    first_S = np.flatnonzero(np.diff(turn_S, prepend=-1))
    np.testing.assert_allclose(columns["return_L"][2], target_S[first_S[1]], atol=1e-6)  # after turn 0 comes turn 1
    assert columns["value_weight_L"][6] == 0  # where the first episode was cut short
    assert columns["value_weight_L"][11] > 0  # where the second one was over
    assert columns["return_L"][11] == 0


def test_without_bootstrap_only_states_to_act_in_are_learned():
    groups = groups_of()
    _, after_credit, table = measured(Values(learner=with_head(), targets=value_targets, bootstrap=False), groups)
    columns, _ = after_credit(table)
    assert np.flatnonzero(columns["value_weight_L"]).tolist() == [1, 4, 9, 15, 22, 27]


def test_explained_variance():
    returns = np.array([0, 1, 0, 1], np.float32)
    assert explained(returns, returns)["value/explained_variance"] == 1
    assert explained(np.full(4, 0.3, np.float32), returns)["value/explained_variance"] == pytest.approx(0)
    assert explained(1 - returns, returns)["value/explained_variance"] == pytest.approx(-3)
    assert "value/explained_variance" not in explained(returns, np.ones(4, np.float32))


def test_a_control_fools_the_critic_too():
    """The returns to learn come from the table that credit sees, not from the true rewards."""
    groups = groups_of()
    signals = Signals(
        sources=(Values(learner=with_head(), targets=value_targets),), view=partial(random_reward, seed=3)
    )
    table, after_credit = signals.measure(groups, tabulate(groups))
    assert table.total_B.tolist() != tabulate(groups).total_B.tolist()
    columns, _ = after_credit(table)
    np.testing.assert_allclose(columns["return_L"][[1, 4, 9, 15, 22, 27]], value_targets(table), atol=1e-6)
    assert np.isfinite(turn_gae(table)).all()


# --- the policy itself ------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_entropies_against_a_plain_forward_pass():
    groups = groups_of()
    columns, _, _ = measured(Entropies(learner(temperature=0.8)), groups)
    expected = []
    for _, before, turn in turns_of(groups):
        ids = torch.as_tensor(np.concatenate([before, turn.completion.ids_K]), dtype=torch.long)
        row = torch.log_softmax(models.model()(ids[None]).logits[0, len(before) - 1 : -1] / 0.8, -1)
        expected.append(-(row.exp() * row).sum(-1).numpy())
    assert_logprobs(columns["entropy_S"], np.concatenate(expected), PASS)
    assert_logprobs(columns["entropy_N"], [turn.mean() for turn in expected], PASS)


def test_a_turn_without_policy_tokens_has_no_entropy():
    groups = [models.scored([models.trajectory([models.turn([1], [7], source=[C, G]), models.turn([1], [2])])])]
    columns, _, _ = measured(Entropies(learner()), groups)
    assert np.isnan(columns["entropy_N"]).tolist() == [True, False]


@pytest.mark.parametrize("log", [False, True])
def test_the_gain_of_a_turn_is_what_it_adds_to_the_belief_in_the_answer(log):
    groups, chat, asked = groups_of(), models.chat(), []

    def answer(task):
        asked.append(task.id)
        return "press ", "a red click"

    source = Beliefs(learner=learner(top_k=3), chat=chat, answer=answer, log=log)  # the cut plays no part
    columns, _, _ = measured(source, groups)
    first, gold = chat.encode_turn("press ")[:-1], chat.encode_turn("a red click")[:-1]
    assert len(gold) > 1
    belief = [
        np.exp(logprobs_after(models.model(), np.concatenate([before, first]), gold).mean())
        for _, before, _ in turns_of(groups)
    ]
    level = np.log(belief) if log else np.array(belief)
    expected = [level[1] - level[0], np.nan, np.nan, level[4] - level[3], level[5] - level[4], np.nan]
    assert_logprobs(columns["gain_N"], expected, PASS * (1 if log else max(belief)))
    assert asked == ["task"] * 3


# --- reward models ----------------------------------------------------------------------------------------------------


def ratios_by_hand(groups, model, base):
    """log π − log π_ref of every policy token, turn by turn."""
    return [
        logprobs_after(model, before, turn.completion.ids_K) - logprobs_after(base, before, turn.completion.ids_K)
        for _, before, turn in turns_of(groups)
    ]


def test_log_ratios():
    """Over the whole vocabulary; what the sampler recorded plays no part."""
    groups = groups_of()
    columns, after_credit, table = measured(LogRatios(model=learner(1, top_k=5), base=learner(2, top_p=0.5)), groups)
    expected = ratios_by_hand(groups, models.model(1), models.model(2))
    assert_logprobs(columns["logratio_S"], np.concatenate(expected), 2 * PASS)
    assert_logprobs(columns["logratio_N"], [turn.sum() for turn in expected], 4 * PASS)
    assert after_credit(table) == ({}, {})
    assert np.isfinite(prime(table)).all()
    assert np.isfinite(istar(table)).all()


def without_a_hint(group):
    """The group as if its policy had been told something that learning leaves out."""
    hint = Guidance(kind="fact", level=1, text="red is a", source="env", strip_for_train=True)
    return replace(group, trajectories=tuple(replace(one, guidance=hint) for one in group.trajectories))


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.parametrize("loss", [cross_entropy, preference])
def test_a_reward_model_descends_on_its_loss(loss, hinted):
    """The gradient with respect to its weights is that of the loss of summed log-ratios, written out; no shaping of a
    policy's hinted tokens has a part in it."""
    groups, phi = groups_of(), learner(1, clip_norm=1e9)
    groups = list(map(without_a_hint, groups)) if hinted else groups
    source = LearnedLogRatios(model=phi, base=learner(2), loss=partial(loss, beta=0.3))
    _, after_credit, table = measured(source, groups)
    gradients = []
    phi.optim_step = lambda: (
        gradients.append(torch.cat([p.grad.flatten() for p in phi.model.parameters()]).numpy().copy())
        or {"learner/grad_norm": 1.0}
    )
    _, metrics = after_credit(table)
    model, base, sums = models.model(1), models.model(2), []
    for one in groups[0].trajectories:
        total, place = 0.0, 0
        ids = torch.as_tensor(one.ids(), dtype=torch.long)
        own = torch.log_softmax(model(ids[None]).logits[0], -1)
        with torch.no_grad():
            other = torch.log_softmax(base(ids[None]).logits[0], -1)
        for turn in one.turns:
            place += len(turn.context_ids)
            for k in range(len(turn.completion.ids_K)):
                total = total + (own - other)[place + k - 1, ids[place + k]]
            place += len(turn.completion.ids_K)
        sums.append(0.3 * total)
    won = [score.outcome == 1 for score in groups[0].scores]
    assert won == [True, False, False]
    if loss is cross_entropy:
        signs = [1 if one else -1 for one in won]
        value = -sum(torch.nn.functional.logsigmoid(sign * x) for sign, x in zip(signs, sums, strict=True)) / 3
    else:
        value = -sum(torch.nn.functional.logsigmoid(sums[0] - x) for x in sums[1:]) / 2
    value.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()]).numpy()
    assert metrics["reward_model/loss"] == pytest.approx(value.item(), rel=1e-4)
    assert np.abs(expected).max() > 1e-4
    assert_alike(gradients[0], expected, 2 * GRADIENT)  # of two models


def test_a_reward_model_learns_who_succeeds():
    groups, phi = groups_of(), learner(1)
    source = LearnedLogRatios(model=phi, base=learner(1), loss=partial(cross_entropy, beta=0.5))
    losses = []
    for _ in range(12):
        columns, after_credit, table = measured(source, groups)
        losses.append(after_credit(table)[1]["reward_model/loss"])
    assert losses[0] == pytest.approx(np.log(2), abs=1e-3)  # φ begins as its reference
    assert losses[-1] < 0.8 * losses[0]
    assert columns["logratio_N"][:2].sum() > max(columns["logratio_N"][2], columns["logratio_N"][3:].sum())


def test_an_outcome_that_is_no_probability_is_refused():
    groups = groups_of()
    strange = tuple(replace(score, outcome=2.0) for score in groups[0].scores)
    source = LearnedLogRatios(model=learner(1), base=learner(2), loss=cross_entropy)
    _, after_credit, table = measured(source, [replace(groups[0], scores=strange)])
    with pytest.raises(ShapeError, match=r"outcome_B is 2\.0 at trajectory 0"):
        after_credit(table)


# --- thoughts ---------------------------------------------------------------------------------------------------------


def test_tokens_of_a_thought_are_found_in_what_was_sampled():
    """A thought in other tokens than its text would be encoded in, one without a call, a turn without any."""
    chat = models.chat()
    texts = [("It is réd. ", "press a"), ("", "press b"), ("hm", "")]
    turns = []
    for thought, rest in texts:
        letters = [chat.plain(letter) for letter in thought + rest]  # never merged
        made = models.turn(chat.opening("red"), np.array([*chain.from_iterable(letters), chat.eos_id], np.int32))
        turns.append(replace(made, action=replace(made.action, thought=thought.strip())))
    trajectory = models.trajectory(turns)
    marks = thought_marks([trajectory], chat).astype(bool)
    assert len(marks) == len(trajectory.ids())
    place = 0
    for turn, (thought, _) in zip(turns, texts, strict=True):
        own = marks[place : place + len(turn.source)]
        assert not own[: len(turn.context_ids)].any()
        assert chat.decode(turn.completion.ids_K[own[len(turn.context_ids) :]]) == thought.strip()
        place += len(turn.source)
