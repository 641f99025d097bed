"""Pairs and single episodes: which are compared, the sheets' numbers (capabilities 11, E5, E6), and their gradients."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, assert_alike
from tests.trainer.auxiliary.test_auxiliary_losses import episode, gradients, means, solved, with_hint, written
from tests.trainer.loss.flat import gradient, part, tokens
from turngate.errors import RunError
from turngate.trainer.auxiliary.base import AuxiliaryRow, AuxiliaryRows
from turngate.trainer.auxiliary.episode_pairs import CplPairs, EpisodePairs, KtoEpisodes, PrdpPairs
from turngate.trainer.auxiliary.learning import add_beside, packed_auxiliary
from turngate.trainer.auxiliary.pairing import pairs_of
from turngate.trainer.auxiliary.preference import Cpl, Kto, Prdp, Preference, kto_cost
from turngate.trainer.loss.tokens import gather
from turngate.types import RewardEvent

# --- worked numbers ---------------------------------------------------------------------------------------------------

WIN, LOSE = [-0.5, -0.7, -0.2], [-0.6, -1.2, -0.9]


def two_sides(win=WIN, lose=LOSE, *, value=(0.0, 0.0), reference=None):
    """A pair of episodes with one token per turn."""
    n = len(win)
    more = {} if reference is None else {"reference_logprob": reference}
    return tokens(
        [*win, *lose],
        weight=[0] * 2 * n,
        ce=[1.0] * 2 * n,
        segment=[0] * n + [1] * n,
        turn=[*range(n), *range(n)],
        advantage=np.repeat(value, n),
        **more,
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, 0.630258), ({"bias": 0.5}, 0.695650), ({"gamma": 0.9}, 0.638856)],
)
def test_cpl_of_the_sheet(settings, expected):
    loss = Cpl(alpha=0.1, **settings)
    value, told = loss(two_sides())
    assert value.item() == pytest.approx(expected, abs=1e-6)
    assert told["winner_logprob"] == pytest.approx(-1.4 / 3)
    assert told["loser_logprob"] == pytest.approx(-0.9)
    assert told["preferred_share"] == pytest.approx(1)
    assert not loss.needs.reference


def test_cpl_sees_both_sides_become_less_likely_only_with_a_bias():
    lower = two_sides([x - 1 for x in WIN], [x - 1 for x in LOSE])
    assert Cpl(alpha=0.1)(lower)[0].item() == pytest.approx(0.630258, abs=1e-6)
    assert Cpl(alpha=0.1, bias=0.5)(lower)[0].item() > 0.7


def test_prdp_of_the_sheet():
    """Δ log-ratio 1, β .1, ΔR ½: (.1 − .5)² = .16; the gradient pulls the sides apart by 2·.1·(−.4)."""
    made = two_sides([-1.0], [-1.0], value=(0.5, 0.0), reference=[-1.5, -0.5])
    value, told = Prdp(beta=0.1)(made)
    assert value.item() == pytest.approx(0.16)
    assert (told["margin"], told["gap"]) == (pytest.approx(0.1), 0.5)
    np.testing.assert_allclose(gradient(Prdp(beta=0.1), made), [-0.08, 0.08])


def test_kto_of_the_sheet():
    """β·log-ratio .2, z .05: .462570 for a success, and 1 − that for a failure."""
    gain, anchor = torch.tensor([0.2, 0.2]), torch.tensor(0.05)
    found = kto_cost(gain, anchor, torch.tensor([1.0, 0.0]))
    np.testing.assert_allclose(found.numpy(), [0.462570, 0.537430], atol=1e-6)


def singles(gains, values):
    n = len(gains)
    return tokens(
        np.array(gains) - 1.0,
        weight=[0] * n,
        ce=[1 / n] * n,
        segment=range(n),
        advantage=values,
        reference_logprob=[-1.0] * n,
    )


def test_kto_anchors_at_the_mean_of_the_batch_and_never_below_0():
    made = singles([3.0, -2.0], [1.0, 0.0])
    value, told = Kto(beta=0.1)(made)
    sigma = torch.sigmoid(torch.tensor([0.05 - 0.3, -0.2 - 0.05]))
    assert value.item() == pytest.approx(sigma.mean().item())
    assert told == pytest.approx(
        {"anchor": 0.05, "winner_logprob": 2.0, "winner_gain": 3.0, "loser_logprob": -3.0, "loser_gain": -2.0}
    )
    assert Kto(beta=0.1)(singles([-3.0, 1.0], [0.0, 1.0]))[1]["anchor"] == 0
    failures = Kto(beta=0.1)(singles([-3.0, 1.0], [0.0, 0.0]))[1]
    assert failures["loser_gain"] == pytest.approx(-1)
    assert failures["winner_gain"] == 0


# --- gradients --------------------------------------------------------------------------------------------------------

SIGMOID = torch.nn.functional.logsigmoid


def formula(name, whole):
    """The losses as published, over sums that autograd sees."""

    def side(of, reference=True, gamma=1.0):
        own = (whole.segment == of) & (whole.ce_weight != 0)
        gain = whole.logprob - whole.reference_logprob if reference else whole.logprob
        return (gamma**whole.turn * gain)[own].sum()

    n = int(whole.segment.max()) + 1
    value = [whole.advantage[whole.segment == of].mean() for of in range(n)]
    if name == "kto":
        anchor = torch.stack([0.3 * side(of) for of in range(n)]).mean().clamp(min=0).detach()
        cost = [torch.sigmoid(anchor - 0.3 * side(k) if value[k] > 0.5 else 0.3 * side(k) - anchor) for k in range(n)]
        return sum(cost) / n, {}
    total = 0.0
    for win, lose in zip(range(0, n, 2), range(1, n, 2), strict=True):
        if name == "cpl":
            text = whole.logprob[(whole.segment == win) & (whole.ce_weight != 0)].mean()
            cost = -SIGMOID(0.3 * (side(win, False, 0.9) - 0.7 * side(lose, False, 0.9))) - 0.2 * text
        elif name == "prdp":
            cost = (0.3 * (side(win) - side(lose)) - (value[win] - value[lose])) ** 2
        else:
            cost = -SIGMOID(0.3 * (side(win) - side(lose)))
        total = total + cost / (n // 2)
    return total, {}


LOSSES = {
    "dpo": Preference(beta=0.3),
    "cpl": Cpl(alpha=0.3, bias=0.7, gamma=0.9, imitated=0.2),
    "prdp": Prdp(beta=0.3),
    "kto": Kto(beta=0.3),
}


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 10**6), n_pairs=st.integers(1, 3))
def test_each_is_what_autograd_makes_of_its_formula(name, seed, n_pairs):
    """Value and gradient are those of the formula, and passes of single episodes add up to them."""
    rng, loss, n = np.random.default_rng(seed), LOSSES[name], 2 * n_pairs
    segment = np.repeat(np.arange(n), rng.integers(1, 4, size=n))
    weight = 1 / (n // loss.together)
    made = tokens(
        -rng.random(len(segment)) * 3,
        weight=[0] * len(segment),
        ce=np.where(rng.random(len(segment)) < 0.2, 0.0, weight),
        segment=segment,
        turn=rng.integers(3, size=len(segment)),
        advantage=rng.integers(2, size=n)[segment],
        reference_logprob=-rng.random(len(segment)) * 3,
    )
    made.ce_weight[[int(np.flatnonzero(segment == own)[0]) for own in range(n)]] = weight

    def published(whole):
        return formula(name, whole)

    assert loss(made)[0].item() == pytest.approx(published(made)[0].item(), rel=1e-9)
    np.testing.assert_allclose(gradient(loss, made), gradient(published, made), atol=1e-10)
    fixed, _ = loss.survey(gather([made]), {})
    cut = [np.flatnonzero(segment == own) for own in rng.permutation(n)]
    passes = [part(made, at) for at in cut]
    assert sum(fixed(one)[0].item() for one in passes) == pytest.approx(loss(made)[0].item())
    for at, one in zip(cut, passes, strict=True):
        np.testing.assert_allclose(gradient(fixed, one), gradient(loss, made)[at], atol=1e-10)


@pytest.mark.parametrize(("name", "chance"), [("dpo", "bradley-terry"), ("prdp", "all")])
def test_what_pairs_converge_to(name, chance):
    """All pairs of three episodes, enumerated: the gradient is 0 at π ∝ π_ref·exp(R/β), where the method says it is."""
    beta, paid = 0.3, np.array([0.0, 0.4, 1.0])
    reference = np.log([0.5, 0.3, 0.2])
    best = torch.tensor(reference + paid / beta, dtype=torch.float64)

    def slope(logits):
        theta = logits.clone().requires_grad_()
        logprob, total = torch.log_softmax(theta, 0), 0.0
        for win in range(3):
            for lose in range(3):
                if win == lose or (chance == "all" and paid[win] < paid[lose]):
                    continue
                made = two_sides([0.0], [0.0], value=(paid[win], paid[lose]), reference=reference[[win, lose]])
                object.__setattr__(made, "logprob", torch.stack([logprob[win], logprob[lose]]))
                often = 1 / (1 + np.exp(paid[lose] - paid[win])) if name == "dpo" else 1.0
                total = total + often * LOSSES[name](made)[0]
        return torch.autograd.grad(total, theta)[0].numpy()

    if name == "dpo":  # preferences by Bradley-Terry of R: the margin β·ΔD is to be ΔR
        best = torch.tensor(reference + paid / beta, dtype=torch.float64)
    np.testing.assert_allclose(slope(best), 0, atol=1e-9)
    assert np.abs(slope(torch.tensor(reference))).max() > 0.01


# --- which are compared -----------------------------------------------------------------------------------------------


def group(paid, *, texts=None, parents=None):
    made = [episode(texts[n] if texts else [f"press {'abcdefgh'[n]}"], name=f"e{n}") for n in range(len(paid))]
    for n, parent in (parents or {}).items():
        made[n] = replace(made[n], parent=parent)
    return ledgered(made, paid)


def ledgered(made, paid):
    """With what was paid in the ledgers too."""
    bare = models.scored(made, paid)
    events = [(RewardEvent(name="o", kind="outcome", turn=None, value=one, weight=1.0),) for one in paid]
    return replace(bare, scores=tuple(replace(s, ledger=e) for s, e in zip(bare.scores, events, strict=True)))


def ids(pairs):
    return {(one.win.id, one.lose.id) for one in pairs}


def test_every_success_with_every_failure():
    found = list(pairs_of(group([1.0, 0.0, 1.0, 0.0])))
    assert ids(found) == {("e0", "e1"), ("e0", "e3"), ("e2", "e1"), ("e2", "e3")}
    assert [one.gap for one in found] == [1.0] * 4
    assert not list(pairs_of(group([1.0, 1.0])))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=7), st.sampled_from([0.0, 0.5]))
def test_every_two_that_were_paid_differently_once(paid, gap):
    found = list(pairs_of(group(paid), "score", min_gap=gap))
    expected = {
        (f"e{win}", f"e{lose}")
        for win, one in enumerate(paid)
        for lose, other in enumerate(paid)
        if one > other and one - other >= gap
    }
    assert ids(found) == expected
    assert len(found) == len(expected)


def test_branches_of_one_turn():
    """e1 and e2 branched off e0 after its first turn, e3 after its second; e4 is a tree of its own."""
    parents = {1: ("e0", 1), 2: ("e0", 1), 3: ("e0", 2)}
    found = pairs_of(group([0.0, 1.0, 0.5, 0.5, 1.0], parents=parents), "branch")
    assert ids(found) == {("e1", "e0"), ("e2", "e0"), ("e3", "e0"), ("e1", "e2")}


def test_who_may_win_and_that_unusable_ones_do_not_take_part():
    right, wrong = episode(["press a"], name="right"), episode(["press b"], name="wrong")
    helped = replace(with_hint(right), id="helped")
    made = ledgered([right, helped, wrong], [1.0, 1.0, 0.0])
    for rule in ("outcome", "score"):
        for winners, names in {"all": {"right", "helped"}, "guided": {"helped"}, "unaided": {"right"}}.items():
            assert {one.win.id for one in pairs_of(made, rule, winners=winners)} == names
    failed_with_help = ledgered([right, replace(with_hint(wrong), id="helped")], [1.0, 0.0])
    assert not list(pairs_of(failed_with_help))
    assert not list(pairs_of(failed_with_help, "score"))
    broken = replace(made, scores=(made.scores[0], made.scores[1], replace(made.scores[2], usable=False)))
    assert not list(pairs_of(broken))


def rows_of(part_, *groups):
    asked = []

    def teacher(name):
        def likelihoods(ids, own):
            asked.extend(zip(ids, own, strict=True))
            return [np.full(int(one.sum()), -1.0, np.float32) for one in own]

        return likelihoods

    source = part_.open(replace(means(solved), teacher=teacher))
    return asyncio.run(source.rows(list(groups), 1)), source


def test_from_the_first_difference_on():
    """Both pressed a first; from there on each is compared, and its turns are counted from there."""
    texts = [["press a", "press b", "press c"], ["press a", "press d"]]
    found, _ = rows_of(EpisodePairs(winners="unaided", span="difference"), group([1.0, 0.0], texts=texts))
    assert [written(row) for row in found.rows] == ["press bpress c", "press d"]
    assert [sorted(set(row.turn[row.trained].tolist())) for row in found.rows] == [[0, 1], [0]]
    whole, _ = rows_of(EpisodePairs(winners="unaided"), group([1.0, 0.0], texts=texts))
    assert [written(row) for row in whole.rows] == ["press apress bpress c", "press apress d"]


def test_sides_that_never_did_something_else_in_the_same_situation_are_counted():
    alike = group([1.0, 0.0], texts=[["press a"], ["press a"]])
    found, source = rows_of(EpisodePairs(winners="unaided", span="difference"), alike)
    assert not found.rows
    assert source.metrics() == {"pairs": 0, "other_beginning": 1}
    other = group([1.0, 0.0], texts=[["press a", "press b"], ["press a", "press c"]])
    turns = other.trajectories[1].turns
    moved = replace(other.trajectories[1], turns=(turns[0], replace(turns[1], context_ids=turns[1].context_ids + 1)))
    other = replace(other, trajectories=(other.trajectories[0], moved))
    assert not rows_of(EpisodePairs(winners="unaided", span="difference"), other)[0].rows
    assert len(rows_of(EpisodePairs(winners="unaided"), other)[0].rows) == 2


def test_prdp_is_told_the_gap_and_cpl_asks_nobody():
    found, _ = rows_of(PrdpPairs(), group([0.25, 1.0]))
    assert [row.value for row in found.rows] == [0.75, 0]
    assert [written(row) for row in found.rows] == ["press b", "press a"]
    batch = packed_auxiliary("prdp", found).batch
    assert set(batch.advantage_L[batch.segment_L == 0].tolist()) == {0.75}
    found, _ = rows_of(CplPairs(), group([0.0, 1.0]))
    assert all(row.teacher is None for row in found.rows)
    assert CplPairs().teachers == ()
    assert PrdpPairs().teachers == ("start",)


def test_kto_balances_and_takes_both_kinds_in_turn():
    """One success and three failures: 4/(2·1) and 4/(2·3). Of at most two, one of each kind."""
    made = group([0.0, 0.0, 1.0, 0.0])
    found, source = rows_of(KtoEpisodes(), made)
    assert [(row.value, row.weight) for row in found.rows] == [(1, 2), *[(0, pytest.approx(2 / 3))] * 3]
    assert source.metrics() == {"successes": 1, "failures": 3}
    weights = packed_auxiliary("kto", found).batch
    sums = np.bincount(weights.segment_L[weights.ce_weight_L > 0], weights.ce_weight_L[weights.ce_weight_L > 0])
    assert (sums / np.bincount(weights.segment_L[weights.ce_weight_L > 0])).sum() == pytest.approx(1)
    assert [row.value for row in rows_of(KtoEpisodes(most=2), made)[0].rows] == [1, 0]
    alone = rows_of(KtoEpisodes(), group([0.0, 0.0]))[0]
    assert [(row.value, row.weight) for row in alone.rows] == [(0, 1), (0, 1)]


def test_what_never_found_a_pair_fails_at_the_end_also_after_a_resume():
    found, source = rows_of(CplPairs(), group([1.0, 1.0]))
    assert not found.rows
    with pytest.raises(RunError, match="auxiliary loss 'cpl' found no pair in any step"):
        source.conclude()
    _, other = rows_of(CplPairs(), group([1.0, 0.0]))
    other.conclude()
    source.load(other.state())
    source.conclude()
    with pytest.raises(RunError, match="auxiliary loss 'kto' found no episode without help"):
        rows_of(KtoEpisodes())[1].conclude()


def test_a_branch_is_compared_from_where_it_parts():
    with pytest.raises(ValidationError, match='set span = "difference"'):
        EpisodePairs(rule="branch")


@pytest.mark.parametrize("contrast", [LOSSES["cpl"], LOSSES["kto"]])
def test_a_model_learns_what_the_formula_says(contrast):
    """Through the learner, however its passes are cut: the loss falls, and equals the one of single passes."""
    rng, rows = np.random.default_rng(0), []
    for n in range(4):
        ids_L = rng.integers(300, size=6).astype(np.int32)
        rows.append(
            AuxiliaryRow(
                ids=ids_L,
                trained=np.arange(6) > 1,
                teacher=-rng.random(6).astype(np.float32) if contrast.against_reference else None,
                turn=np.arange(6, dtype=np.int32) // 3,
                value=float(n % 2 == 0),
            )
        )
    auxiliary = packed_auxiliary("some", AuxiliaryRows(rows=rows, contrast=contrast))
    whole, cut = models.learner(lr=1e-2), models.learner(tokens_per_pass=6)
    for learner in (whole, cut):
        add_beside(learner, [auxiliary], minibatch=0, of=1)
        learner._release()
    assert_alike(gradients(cut), gradients(whole), GRADIENT)
    losses = []
    for _ in range(4):
        whole.optim_step()
        losses.append(add_beside(whole, [auxiliary], minibatch=0, of=1)["auxiliary/some_loss"])
    assert losses == sorted(losses, reverse=True)
