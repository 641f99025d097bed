"""Credit per token reaches the gradient of its own token, and of no other: from the reward to ∂loss/∂log π."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.helpers import models
from tests.helpers.credit_rules import TOKEN_CREDITS, VALUE_TARGETS
from turngate.errors import ShapeError
from turngate.trainer.batch.pack import pack
from turngate.trainer.batch.table import tabulate
from turngate.trainer.learner import Critic
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.recorded_columns import TokenRows
from turngate.trainer.signals.values import Values
from turngate.types import Score, Source, TokenCredit

C, P, G = Source.CONTEXT, Source.POLICY, Source.GUIDE


def groups_of(changed=0.0):
    """Two siblings; the first has turns of 2, 2 and 3 policy tokens, and ``changed`` is added to its second reward."""
    turns = [
        models.turn([1, 2], [5, 6]),
        models.turn([3], [9, 7, 8], source=[C, G, P, P]),
        models.turn([4, 4], [5, 6, 7]),
    ]
    first = models.trajectory(turns, name="a")
    second = models.trajectory([models.turn([1, 2], [8, 9]), models.turn([3], [7])], name="b")
    siblings = [as_sampled(one) for one in (first, second)]
    paid = (np.array([0.25, 0.5 + changed, 1.0], np.float32), np.array([0.0, 0.5], np.float32))
    scores = tuple(Score(ledger=(), reward_T=r, outcome=float(r.sum()), usable=True) for r in paid)
    return [replace(models.scored(siblings), scores=scores)]


def as_sampled(trajectory):
    """The same with the logprobs that the tiny model gives it: on-policy."""
    naive, place, turns = models.naive_logprobs(models.model(), trajectory.ids()), 0, []
    for turn in trajectory.turns:
        start = place + len(turn.context_ids)
        place = start + len(turn.completion.ids_K)
        turns.append(replace(turn, completion=replace(turn.completion, logprobs_K=naive[start:place])))
    return replace(trajectory, turns=tuple(turns))


POLICY_TOKENS = [2, 3, 6, 7, 10, 11, 12, 15, 16, 18]  # places in the batch: 2 + 2 + 3, then 2 + 1


def gradient_of(groups, rule):
    taught = models.learner(critic=Critic())
    targets = partial(VALUE_TARGETS["token_gae"])
    source = Values(learner=taught, targets=targets, per_token=True, bootstrap=False)
    table, _ = Signals(sources=(TokenRows(), source)).measure(groups, tabulate(groups))
    credit = rule(table)
    batch = pack(groups, credit)
    return taught.token_gradient(batch, PolicyLoss()), batch


# The reward of the second turn stands on its last token, place 7. What each rule says of a change by 1:
CHANGES = [
    ("token_gae", {"gamma": 0.5, "lam": 1.0}, {2: 0.125, 3: 0.25, 6: 0.5, 7: 1.0}),
    ("token_gae", {"lam": 0.5}, {2: 0.125, 3: 0.25, 6: 0.5, 7: 1.0}),
    ("token_gae", {"lam": 0.0}, {7: 1.0}),
    ("bilevel_gae", {"gamma_turn": 0.5, "lam": 1.0}, {2: 0.5, 3: 0.5, 6: 1.0, 7: 1.0}),
    ("bilevel_gae", {"gamma_turn": 0.5, "gamma": 0.25, "lam": 1.0}, {2: 0.125, 3: 0.5, 6: 0.25, 7: 1.0}),
    ("bilevel_gae", {"lam": 0.0}, {7: 1.0}),
]


@pytest.mark.parametrize(("name", "settings", "expected"), CHANGES)
def test_a_reward_moves_the_tokens_that_the_rule_says(name, settings, expected):
    """The critic is new, so all values are 0. Weights are 1/10 per token and the ratio is 1."""
    rule = partial(TOKEN_CREDITS[name], **settings)
    before_L, batch = gradient_of(groups_of(), rule)
    after_L, _ = gradient_of(groups_of(1.0), rule)
    assert np.flatnonzero(batch.policy_weight_L).tolist() == POLICY_TOKENS
    wanted_L = np.zeros(batch.n_tokens)
    wanted_L[list(expected)] = [-0.1 * change for change in expected.values()]
    np.testing.assert_allclose(after_L - before_L, wanted_L, atol=1e-5)
    assert ((after_L != before_L) == (wanted_L != 0)).all()


def test_the_parameters_gradient_changes_by_the_gradient_of_one_token():
    """With λ = 0 only the token at place 7 learns that its turn was paid more."""
    rule = partial(TOKEN_CREDITS["token_gae"], lam=0.0)
    found = []
    for change in (0.0, 1.0):
        taught = models.learner(critic=Critic())
        groups = groups_of(change)
        source = Values(learner=taught, targets=VALUE_TARGETS["token_gae"], per_token=True)
        table, _ = Signals(sources=(source,)).measure(groups, tabulate(groups))
        batch = pack(groups, rule(table))
        taught.forward_backward(batch, PolicyLoss())
        found.append(np.concatenate([weight.grad.flatten().numpy() for weight in taught.model.parameters()]))
    only_L = np.zeros(batch.n_tokens, np.float32)
    only_L[7] = -0.1
    expected = models.learner().gradient_norm(batch, only_L)
    assert np.linalg.norm(found[1] - found[0]) == pytest.approx(expected, rel=1e-3)
    assert expected > 1e-3


def test_a_worked_batch():
    groups = groups_of()
    turn_S = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 4], np.int32)
    credit = TokenCredit(advantage_S=np.arange(1, 11, dtype=np.float32), turn_S=turn_S)
    batch = pack(groups, credit)
    assert batch.advantage_L[POLICY_TOKENS].tolist() == list(range(1, 11))
    assert np.count_nonzero(batch.advantage_L) == 10
    same = pack(groups, np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(same.policy_weight_L, batch.policy_weight_L)
    equal = TokenCredit(advantage_S=turn_S.astype(np.float32), turn_S=turn_S)
    np.testing.assert_array_equal(same.advantage_L, pack(groups, equal).advantage_L)


@pytest.mark.parametrize(
    ("turns", "value", "problem"),
    [
        ([0, 0, 1, 1, 2, 2, 2, 3, 3], 1.0, "turn_S has 9 entries that are not the turns of the 10 policy tokens"),
        ([0, 0, 0, 1, 2, 2, 2, 3, 3, 4], 1.0, "that are not the turns of the 10 policy tokens"),
        ([0, 0, 1, 1, 2, 2, 2, 3, 3, 4], np.nan, "advantage_S is not finite at policy token 0"),
    ],
)
def test_credit_for_other_tokens_is_refused(turns, value, problem):
    credit = TokenCredit(advantage_S=np.full(len(turns), value, np.float32), turn_S=np.array(turns, np.int32))
    with pytest.raises(ShapeError, match=problem):
        pack(groups_of(), credit)
