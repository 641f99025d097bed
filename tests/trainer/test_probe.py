"""Turn credit reaches the gradient: from evidence to the loss, and one turn's reward to that turn's tokens."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, assert_alike
from turngate.errors import ConfigError, UnknownName
from turngate.rewards.gates.whole_kinds import needs_outcome
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.trainer.batch.pack import pack
from turngate.trainer.batch.table import tabulate
from turngate.trainer.checks.gradient_probe import probe_gradient
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.sag import sag
from turngate.trainer.loss.covariance import KlCov
from turngate.trainer.loss.objectives import Gspo, Reinforce
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.types import Evidence, Group, Score, Source

C, P, G = Source.CONTEXT, Source.POLICY, Source.GUIDE


def as_sampled(trajectory):
    """The same with the logprobs that the tiny model gives it: on-policy."""
    naive, place, turns = models.naive_logprobs(models.model(), trajectory.ids()), 0, []
    for turn in trajectory.turns:
        start = place + len(turn.context_ids)
        place = start + len(turn.completion.ids_K)
        completion = replace(turn.completion, logprobs_K=naive[start:place])
        turns.append(replace(turn, completion=completion))
    return replace(trajectory, turns=tuple(turns))


# --- gate → credit → tokens → loss -----------------------------------------------------------------------------------


def gated_groups():
    """Two siblings, outcomes 1 and 0, verdicts [1, 0] and [1, 1]; turns of 2, 1 and of 1, 2 policy tokens."""
    rubric = Rubric(
        rewards=(
            FromEvidence(name="solved", evidence="solved", kind="outcome", weight=1.0),
            FromEvidence(name="step", evidence="step", kind="process", weight=1.0, per_turn=True),
        ),
        gates=(needs_outcome(1.0),),
    )
    spoken = [
        [models.turn([1], [5, 6]), models.turn([1, 2], [7, 8], source=[C, C, P, G])],
        [models.turn([1], [5, 6], source=[C, P, G]), models.turn([1], [6, 7])],
    ]
    siblings = []
    for name, turns, solved, steps in zip("ab", spoken, (1.0, 0.0), ([1.0, 0.0], [1.0, 1.0]), strict=True):
        facts = [Evidence(name="step", value=step, turn=number) for number, step in enumerate(steps)]
        facts.append(Evidence(name="solved", value=solved))
        siblings.append(as_sampled(replace(models.trajectory(turns, name=name), evidence=tuple(facts))))
    return [rubric.score_group(Group(task=siblings[0].task, trajectories=tuple(siblings)))]


@pytest.mark.parametrize(("aggregate", "loss"), [("token", -0.058926), ("turn", 0.0)])
def test_from_evidence_to_the_loss(aggregate, loss):
    """Weight .5, ddof 1, eps 0: z(o) = ±.707107, open verdicts {1, 0} → ±.707107; guide tokens have no part in it."""
    groups = gated_groups()
    advantage_N = sag(tabulate(groups), weight=0.5, eps=0.0)
    np.testing.assert_allclose(advantage_N, [1.060660, 0.353553, -0.707107, -0.707107], atol=1e-5)
    batch = pack(groups, advantage_N, aggregate=aggregate)
    spoken = batch.policy_weight_L > 0
    expected = [1.060660, 1.060660, 0.353553, -0.707107, -0.707107, -0.707107]
    np.testing.assert_allclose(batch.advantage_L[spoken], expected, atol=1e-5)
    assert not batch.advantage_L[~spoken].any()
    metrics = models.learner().forward_backward(batch, PolicyLoss())
    assert metrics["loss/policy"] == pytest.approx(loss, abs=1e-5)


def test_guide_tokens_get_exactly_no_gradient():
    groups = gated_groups()
    batch = pack(groups, sag(tabulate(groups)))
    marks = np.concatenate([turn.source for one in groups[0].trajectories for turn in one.turns])
    for loss in (PolicyLoss(), PolicyLoss(objective=Gspo(unit="turn")), PolicyLoss(objective=KlCov())):
        gradient_L = models.learner().token_gradient(batch, loss)
        assert (gradient_L[marks == P] != 0).all()
        assert not gradient_L[marks != P].any()


# --- one turn's reward -----------------------------------------------------------------------------------------------


def groups_of(n=3, seed=0):
    """Two tasks with ``n`` siblings each; every turn is paid something."""
    rng = np.random.default_rng(seed)
    groups = []
    for number in range(2):
        siblings = [
            as_sampled(replace(one, id=f"{number}/{one.id}", task=replace(one.task, id=f"task {number}")))
            for one in models.random_trajectories(rng, n, vocabulary=280)
        ]
        paid = [rng.normal(size=len(one.turns)).astype(np.float32) for one in siblings]
        scores = tuple(Score(ledger=(), reward_T=r, outcome=float(r.sum()), usable=True) for r in paid)
        group = models.scored(siblings)
        groups.append(replace(group, scores=scores))
    return groups


def test_an_episode_without_turns_moves_nobody():
    groups, taught = groups_of(), models.learner(tokens_per_pass=60)
    one = longest(groups)
    probe = partial(
        probe_gradient,
        credit=partial(returns, baseline="none"),
        loss=PolicyLoss(),
        trajectory=one.id,
        turn=0,
        delta=0.75,
    )
    plain = probe(taught, groups)
    empty = replace(groups[0].trajectories[0], id="turnless", turns=())
    nothing = Score(ledger=(), reward_T=np.zeros(0, np.float32), outcome=0.0, usable=True)
    first = replace(groups[0], trajectories=(empty, *groups[0].trajectories), scores=(nothing, *groups[0].scores))
    found = probe(taught, [first, groups[1]])
    assert found.norm == pytest.approx(plain.norm, rel=GRADIENT)
    for shift, expected in zip(found.shifts, plain.shifts, strict=True):
        assert (shift.trajectory, shift.turn, shift.n_tokens) == (expected.trajectory, expected.turn, expected.n_tokens)
        np.testing.assert_array_equal(shift.changed, expected.changed)
        assert_alike(shift.by, expected.by, GRADIENT)


def longest(groups):
    return max((one for group in groups for one in group.trajectories), key=lambda one: len(one.turns))


def test_the_reward_of_a_turn_moves_the_tokens_of_that_turn_and_of_no_other_trajectory():
    """Returns with γ = .5 and no baseline: turn k and the turns that led to it, by γ^(k−t)·δ, and nobody else."""
    groups, taught = groups_of(), models.learner(tokens_per_pass=60)
    one, delta = longest(groups), 0.75
    k = len(one.turns) - 1
    assert k >= 1
    credit = partial(returns, gamma=0.5, baseline="none")
    found = probe_gradient(taught, groups, credit, PolicyLoss(), trajectory=one.id, turn=k, delta=delta)
    n_tokens = sum(len(turn.completion.ids_K) for group in groups for t in group.trajectories for turn in t.turns)
    place = 0
    for shift in found.shifts:
        gain = 0.5 ** (k - shift.turn) * delta if shift.trajectory == one.id and shift.turn <= k else 0.0
        assert shift.after - shift.before == pytest.approx(gain, abs=1e-6)
        if not gain:
            assert len(shift.changed) == 0
            assert shift.norm == 0
            continue
        turn = one.turns[shift.turn]
        first = place + len(turn.context_ids)
        place = first + len(turn.completion.ids_K)
        assert shift.changed.tolist() == list(range(first, place))
        np.testing.assert_allclose(shift.by, -gain / n_tokens, rtol=1e-4)
        assert shift.norm > 0
    assert {shift.trajectory for shift in found.moved} == {one.id}
    assert len(found.moved) == k + 1
    assert found.norm <= sum(shift.norm for shift in found.shifts) + 1e-6


def test_with_the_last_turn_alone_the_change_is_that_turns_alone():
    groups = groups_of()
    one = longest(groups)
    credit = partial(returns, gamma=0.0, baseline="none")
    found = probe_gradient(models.learner(), groups, credit, PolicyLoss(), trajectory=one.id, turn=1, delta=1.0)
    ((only,),) = (found.moved,)
    assert (only.trajectory, only.turn) == (one.id, 1)
    assert found.norm == pytest.approx(only.norm, rel=GRADIENT)


def test_the_change_is_that_of_the_parameters_gradient():
    """The norm that the probe reports is the length of the difference of two real gradients."""
    groups = groups_of()
    one = longest(groups)
    credit = partial(returns, gamma=0.5, baseline="none")
    found = probe_gradient(models.learner(), groups, credit, PolicyLoss(), trajectory=one.id, turn=1, delta=2.0)
    table = tabulate(groups)
    rows = [t.id for group in groups for t in group.trajectories for _ in t.turns]
    reward_N = table.reward_N.copy()
    reward_N[rows.index(one.id) + 1] += 2.0
    gradients = []
    for one_table in (table, replace(table, reward_N=reward_N)):
        taught = models.learner()
        taught.forward_backward(pack(groups, credit(one_table)), PolicyLoss())
        gradients.append(np.concatenate([weight.grad.flatten().numpy() for weight in taught.model.parameters()]))
    assert found.norm == pytest.approx(np.linalg.norm(gradients[1] - gradients[0]), rel=1e-3)


def test_a_baseline_spreads_the_change_over_siblings_and_no_further():
    """RLOO of three: the perturbed trajectory gains δ, each sibling loses δ/2, the other task sees nothing."""
    groups = groups_of()
    found = probe_gradient(
        models.learner(), groups, rloo, PolicyLoss(objective=Reinforce()), trajectory="0/t1", turn=0, delta=1.0
    )
    for shift in found.shifts:
        gain = 0.0 if shift.trajectory.startswith("1/") else 1.0 if shift.trajectory == "0/t1" else -0.5
        assert shift.after - shift.before == pytest.approx(gain, abs=1e-5)
        assert bool(len(shift.changed)) == (gain != 0)


def test_process_verdicts_can_be_perturbed_instead():
    groups = gated_groups()
    found = probe_gradient(
        models.learner(), groups, sag, PolicyLoss(), trajectory="a", turn=1, delta=0.4, column="process_N"
    )
    assert {shift.trajectory for shift in found.moved} == {"a"}
    closed = probe_gradient(
        models.learner(), groups, sag, PolicyLoss(), trajectory="b", turn=1, delta=0.4, column="process_N"
    )
    assert closed.moved == ()
    assert closed.norm == 0


def test_nothing_is_trained_or_remembered():
    groups, taught = groups_of(), models.learner()
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    probe_gradient(taught, groups, rloo, PolicyLoss(), trajectory="1/t0", turn=0, delta=1.0)
    assert all((weight == before[name]).all() for name, weight in taught.weights().items())
    assert all(weight.grad is None for weight in taught.model.parameters())


def test_a_learner_that_shows_no_gradient_is_named():
    class Remote:
        """A learner of another machine."""

    with pytest.raises(ConfigError, match=r"Remote cannot show the gradient of a token; use learner.type = 'torch'"):
        probe_gradient(Remote(), groups_of(), rloo, PolicyLoss(), trajectory="0/t1", turn=0, delta=1.0)


@pytest.mark.parametrize(
    ("changes", "error", "problem"),
    [
        ({"trajectory": "0/t9"}, UnknownName, "unknown trajectory '0/t9'; did you mean"),
        ({"turn": 7}, ConfigError, "trajectory '0/t1' has turns 0 to .*, found 7"),
        ({"turn": -1}, ConfigError, "found -1"),
        ({"delta": 0.0}, ConfigError, "a finite delta other than 0, found 0.0"),
    ],
)
def test_a_probe_that_asks_for_nothing_is_refused(changes, error, problem):
    arguments = {"trajectory": "0/t1", "turn": 0, "delta": 1.0} | changes
    with pytest.raises(error, match=problem):
        probe_gradient(models.learner(), groups_of(), rloo, PolicyLoss(), **arguments)
